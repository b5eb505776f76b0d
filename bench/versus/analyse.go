package versus

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/tidemark/tidemark/bench/stats"
)

// Verdict says whether a goal was reached.
type Verdict string

// The verdicts on a goal. A goal is met when the whole interval reaches it, not met when none of it does.
const (
	Met        Verdict = "met"
	NotMet     Verdict = "not met"
	CannotTell Verdict = "cannot tell"
	NoGoal     Verdict = "" // the figure is shown for its own sake
)

// Side is what one arm showed in a row: the geometric mean of its windows.
type Side struct {
	Arm      string
	Value    float64 // NaN: no window counts
	Interval stats.Interval
	Windows  int  // that count
	Settled  bool // all of them are from settled blocks
	Why      string
}

// Pair is two windows that ran next to each other.
type Pair struct {
	Process, Pair int
	Ours, Theirs  float64
}

// Ratio is ours over theirs.
func (p Pair) Ratio() float64 { return p.Ours / p.Theirs }

// Line is one figure of a row with everything that follows for it.
type Line struct {
	Goal       Goal
	Unit       string
	Higher     bool // is better
	Ours       Side
	Kafka      []Side // each of its settings
	Best       string // the setting that the ratio is against
	Pairs      []Pair
	Ratio      stats.Estimate // ours over the better of Kafka's, over the pairs; NaN: none
	BetterHalf float64        // ours over the geometric mean of the better half of Kafka's windows; NaN: none
	Processes  int            // fresh processes of each side that the pairs come from
	Between    bool           // the interval is over one mean for each process, which is the wider one
	NoRatio    string         // why there is none
	Ceiling    float64        // NaN: none
	Share      stats.Estimate // ours of the ceiling; NaN: none
	OfRow      float64        // our own share of the other row's figure; NaN: none
	Verdict    Verdict
	Verdicts   []string // one for each part of the goal, in words
	Few        string   // a percentile that rests on few excursions
	Fresh      string   // windows in fresh memory, and whether they are left out
	Doubts     []string // why no goal of it can be told, whatever the figures
}

// Result is a row of the table.
type Result struct {
	Row                                      RowInfo
	Lines                                    []Line
	Acked, Lost, Duplicated, Corrupt, Unread int64
	OutOfOrder, Hidden                       int64
	Windows                                  int                // and closed loops that found a capacity
	Marks                                    map[string]*Marked // by arm
	Profile                                  string             // file
	Blocks                                   int
	CeilingMoved                             bool
}

// Analyse computes the table from a document; it does nothing else. An unfinished document is fine.
func Analyse(d *Document) []Result {
	own := map[string]Side{}
	var out []Result
	for _, row := range d.Rows {
		r := Result{Row: row}
		blocks := d.blocksOf(row.Name)
		r.Blocks = len(blocks)
		for _, b := range blocks {
			r.add(b)
		}
		for _, g := range row.Goals {
			line := analyseLine(d, blocks, g, row)
			if g.OfRow != "" {
				if other, ok := own[g.OfRow]; ok && other.Value > 0 && line.Ours.Value > 0 {
					line.OfRow = line.Ours.Value / other.Value
				}
			}
			line.judge(d)
			r.Lines = append(r.Lines, line)
			if _, ok := own[row.Name]; !ok {
				own[row.Name] = line.Ours
			}
		}
		out = append(out, r)
	}
	return out
}

// totals are what all windows of a document say of the data, those that are in no row too.
func totals(d *Document, results []Result) (all Result) {
	for _, r := range results {
		all.Windows += r.Windows
		all.Acked += r.Acked
		all.Lost += r.Lost
		all.Duplicated += r.Duplicated
		all.OutOfOrder += r.OutOfOrder
		all.Corrupt += r.Corrupt
		all.Unread += r.Unread
		all.Hidden += r.Hidden
	}
	for _, w := range d.Damaged {
		all.count(w)
	}
	return all
}

// count adds what a window says of the data.
func (r *Result) count(w *Window) {
	r.Windows++
	r.Acked += w.Acked
	r.Lost += w.Lost
	r.Duplicated += w.Duplicated
	r.OutOfOrder += w.OutOfOrder
	r.Corrupt += w.Corrupt
	r.Hidden += w.Hidden
	if w.Unverified != "" {
		r.Unread += w.Acked
	}
}

// add sums up what the windows of a block say beside their figures.
func (r *Result) add(b *Block) {
	if b.Profile != "" {
		r.Profile = b.Profile
	}
	if c := b.Beside; c != nil {
		taken := slices.DeleteFunc(slices.Clone(c.PerCPU), func(v float64) bool { return v <= 0 })
		r.CeilingMoved = r.CeilingMoved || len(taken) > 0 && slices.Min(taken) < (1-ceilingsApart)*slices.Max(taken)
	}
	for _, w := range b.all() {
		r.count(w)
		r.mark(w)
	}
}

// analyseLine is a figure of a row, and what stands against it.
func analyseLine(d *Document, blocks []*Block, g Goal, row RowInfo) Line {
	m, ours := measureOf(g), d.ours()
	line := lineOf(d, blocks, g, row, m)
	if m.kind == costKind {
		m.noFresh = true
		line = withoutFresh(d, blocks, line, func() Line { return lineOf(d, blocks, g, row, m) })
	}
	if row.Share > 0 {
		line.Doubts = append(line.Doubts, capacityDoubts(blocks, ours, line.Best)...)
	}
	line.Doubts = append(line.Doubts, buildDoubts(blocks, ours)...)
	return line
}

func lineOf(d *Document, blocks []*Block, g Goal, row RowInfo, m measure) Line {
	nan := stats.Estimate{Value: math.NaN(), Interval: stats.Interval{Low: math.NaN(), High: math.NaN()}}
	line := Line{Goal: g, Unit: m.unit, Higher: m.direction == stats.HigherIsBetter, Ratio: nan, Share: nan,
		BetterHalf: math.NaN(), Ceiling: math.NaN(), OfRow: math.NaN()}
	ours := d.ours()
	line.Ours = side(blocks, m, ours)
	for _, a := range d.Arms {
		if !a.Ours {
			line.Kafka = append(line.Kafka, side(blocks, m, a.Name))
		}
	}
	line.Best = better(line.Kafka, line.Higher)
	line.Few = few(blocks, g.Measure, ours, line.Best)
	if row.Ceiling != "" {
		line.ceiling(blocks, m, ours, g)
	}
	line.compare(d, blocks, m, ours)
	return line
}

// side is an arm's windows of settled blocks; where there are none, of all blocks, which enter no ratio.
func side(blocks []*Block, m measure, arm string) Side {
	s := Side{Arm: arm, Value: math.NaN(), Interval: stats.Interval{Low: math.NaN(), High: math.NaN()}}
	var settled, all [][]float64
	for _, b := range blocks {
		var one, every []float64
		for _, w := range b.windowsOf(arm) {
			v, why := m.figure(w)
			if why != "" {
				s.Why = why
				continue
			}
			every = append(every, v)
			if b.Counts(arm) && w.Pair >= b.From[arm] {
				one = append(one, v)
			}
		}
		one, every = m.observations(one), m.observations(every)
		if len(one) > 0 {
			settled = append(settled, one)
		}
		if len(every) > 0 {
			all = append(all, every)
		}
		if why := b.Settled[arm]; why != "" && len(one) == 0 {
			s.Why = "unsettled: " + why
		}
	}
	s.Settled = len(settled) > 0
	groups := settled
	if !s.Settled {
		groups = all
	}
	values := slices.Concat(groups...)
	if len(values) == 0 {
		if s.Why == "" {
			s.Why = "not measured"
		}
		return s
	}
	e := stats.Mean(values, stats.Pool([][]float64{values}))
	s.Value, s.Interval, s.Windows = e.Value, e.Interval, len(values)
	return s
}

// better is the name of Kafka's setting that did better; a settled one goes before one that is not.
func better(sides []Side, higher bool) string {
	best := -1
	for i, s := range sides {
		switch {
		case math.IsNaN(s.Value):
		case best < 0, s.Settled && !sides[best].Settled:
			best = i
		case s.Settled == sides[best].Settled && (s.Value > sides[best].Value) == higher:
			best = i
		}
	}
	if best < 0 {
		return ""
	}
	return sides[best].Arm
}

// compare fills the ratio in.
func (l *Line) compare(d *Document, blocks []*Block, m measure, ours string) {
	if l.Goal.Against != "" {
		l.within(blocks, m, ours)
		return
	}
	if l.Best == "" {
		l.NoRatio = "nothing to compare with"
		for _, s := range l.Kafka {
			if s.Why != "" {
				l.NoRatio = s.Arm + ": " + s.Why
			}
		}
		return
	}
	var theirs []float64
	ratios := map[int][]float64{} // by process
	dropped := ""
	for _, b := range blocks {
		if !b.Counts(ours, l.Best) {
			dropped = unsettledWords(b, ours, l.Best)
			continue
		}
		pairs := pairsOf(b, m, ours, l.Best)
		for _, p := range pairs {
			ratios[b.Process] = append(ratios[b.Process], p.Ratio())
			theirs = append(theirs, p.Theirs)
		}
		l.Pairs = append(l.Pairs, pairs...)
	}
	l.Processes = len(ratios)
	if len(ratios) == 0 {
		l.NoRatio = dropped
		if dropped == "" {
			l.NoRatio = firstWhy(l.Ours, l.Kafka)
		}
		return
	}
	l.Ratio, l.Between = estimate(ratios)
	l.BetterHalf = l.Ours.Value / betterHalf(theirs, l.Higher)
}

// estimate is the geometric mean of values with its 95% interval: over all of them, or over one mean for each process where
// there are as many as a ratio asks for and that interval is the wider one. Values of one process share what it was dealt
// (layout, heap, compiled code) and are no observations of their own beside others'.
func estimate(byProcess map[int][]float64) (e stats.Estimate, between bool) {
	var all, means []float64
	for _, process := range slices.Sorted(maps.Keys(byProcess)) {
		all = append(all, byProcess[process]...)
		means = append(means, stats.Mean(byProcess[process], stats.Noise{}).Value)
	}
	e = stats.Mean(all, stats.Pool([][]float64{all}))
	if len(means) < minProcesses {
		return e, false
	}
	if wide := stats.Mean(means, stats.Pool([][]float64{means})); math.IsNaN(e.Low) || wide.High/wide.Low > e.High/e.Low {
		return wide, true
	}
	return e, false
}

// within compares two figures of the same windows.
func (l *Line) within(blocks []*Block, m measure, ours string) {
	other := alone(l.Goal.Against)
	var ratios, theirs []float64
	processes := map[int]bool{}
	for _, b := range blocks {
		for _, w := range b.windowsOf(ours) {
			a, whyA := m.figure(w)
			c, whyC := other.figure(w)
			if whyA == "" && whyC == "" {
				l.Pairs = append(l.Pairs, Pair{Process: b.Process, Pair: w.Pair, Ours: a, Theirs: c})
				ratios, theirs = append(ratios, a/c), append(theirs, c)
				processes[w.Pair] = true // each window is a process of its own
			}
		}
	}
	l.Kafka = []Side{side(blocks, other, ours)}
	l.Kafka[0].Arm, l.Best, l.Processes = l.Goal.Against, l.Goal.Against, len(processes)
	if len(ratios) == 0 {
		l.NoRatio = "not measured"
		return
	}
	l.Ratio = stats.Mean(ratios, stats.Pool([][]float64{ratios}))
	l.BetterHalf = l.Ours.Value / betterHalf(theirs, l.Higher)
}

func firstWhy(ours Side, kafka []Side) string {
	for _, s := range append([]Side{ours}, kafka...) {
		if s.Why != "" {
			return s.Arm + ": " + s.Why
		}
	}
	return "no pair"
}

func unsettledWords(b *Block, arms ...string) string {
	if b.Error != "" {
		return b.Error
	}
	for _, a := range arms {
		if why := b.Settled[a]; why != "" {
			return "unsettled: " + a + ", " + why
		}
	}
	return "unsettled"
}

// pairsOf are the pairs of a block inside the stretch in which both sides are settled.
func pairsOf(b *Block, m measure, ours, theirs string) []Pair {
	from := max(b.From[ours], b.From[theirs])
	var out []Pair
	for _, w := range b.windowsOf(ours) {
		for _, k := range b.windowsOf(theirs) {
			if k.Pair != w.Pair || w.Pair < from {
				continue
			}
			a, whyA := m.figure(w)
			c, whyC := m.figure(k)
			if whyA == "" && whyC == "" {
				out = append(out, Pair{Process: b.Process, Pair: w.Pair, Ours: a, Theirs: c})
			}
		}
	}
	if m.kind == askedKind {
		return out[:min(1, len(out))]
	}
	return out
}

// betterHalf is the geometric mean of the better half of values, the middle one included.
func betterHalf(values []float64, higher bool) float64 {
	v := slices.Clone(values)
	slices.Sort(v)
	if higher {
		slices.Reverse(v)
	}
	v = v[:(len(v)+betterHalfOver-1)/betterHalfOver]
	sum := 0.0
	for _, x := range v {
		sum += math.Log(x)
	}
	return math.Exp(sum / float64(len(v)))
}

// ceiling fills in our share of the bare loop, window by window: of its readings right before and behind the pair.
func (l *Line) ceiling(blocks []*Block, m measure, ours string, g Goal) {
	if g.OfCeiling == 0 && g.Ratio == 0 {
		return
	}
	var ceilings []float64
	shares := map[int][]float64{} // by process
	for _, b := range blocks {
		if b.Beside == nil || !b.Counts(ours) {
			continue
		}
		readings := b.Beside.PerCPU
		if g.Measure == "requests per CPU-s" {
			readings = b.Beside.Requests
		}
		for _, w := range b.windowsOf(ours) {
			bound := around(readings, w.Pair)
			if v, why := m.figure(w); why == "" && w.Pair >= b.From[ours] && bound > 0 {
				shares[b.Process], ceilings = append(shares[b.Process], v/bound), append(ceilings, bound)
			}
		}
	}
	if len(shares) == 0 {
		return
	}
	l.Ceiling = stats.Mean(ceilings, stats.Noise{}).Value
	l.Share, _ = estimate(shares)
}

// judge compares with the goal, part by part.
func (l *Line) judge(d *Document) {
	g := l.Goal
	enough := ""
	switch {
	case len(l.Pairs) < d.MinPairs:
		enough = fmt.Sprintf("%d pairs of %d", len(l.Pairs), d.MinPairs)
	case l.Processes < minProcesses:
		enough = fmt.Sprintf("%d process of each side, %d are asked for", l.Processes, minProcesses)
	}
	var all []Verdict
	part := func(v Verdict, format string, a ...any) {
		if len(l.Doubts) > 0 {
			v = CannotTell
		}
		all = append(all, v)
		l.Verdicts = append(l.Verdicts, fmt.Sprintf(format, a...)+": "+string(v))
	}
	if g.Ratio > 0 {
		part(reached(l.Ratio, g.Ratio, true, enough), "at least %gx Kafka", g.Ratio)
	}
	if g.AtMost > 0 {
		part(reached(l.Ratio, g.AtMost, false, enough), "at most %g of Kafka's", g.AtMost)
	}
	if g.OfCeiling > 0 {
		part(reached(l.Share, g.OfCeiling, true, ""), "at least %g%% of the ceiling", 100*g.OfCeiling)
	}
	if g.OfRowShare > 0 {
		part(plain(l.OfRow, g.OfRowShare, true), "at least %g%% of our own %s", 100*g.OfRowShare, g.OfRow)
	}
	if g.Under > 0 {
		part(plain(l.Ours.Value, g.Under, false), "at most %g %s", g.Under, l.Unit)
	}
	l.Verdict = worst(all)
}

func worst(all []Verdict) Verdict {
	switch {
	case len(all) == 0:
		return NoGoal
	case slices.Contains(all, NotMet):
		return NotMet
	case slices.Contains(all, CannotTell):
		return CannotTell
	}
	return Met
}

// reached decides by the whole interval; enough says why nothing may be said whatever the interval.
func reached(e stats.Estimate, goal float64, atLeast bool, enough string) Verdict {
	if enough != "" || math.IsNaN(e.Value) || math.IsNaN(e.Low) || math.IsNaN(e.High) {
		return CannotTell
	}
	low, high := e.Low, e.High
	if !atLeast {
		low, high, goal = 1/e.High, 1/e.Low, 1/goal
	}
	switch {
	case low >= goal:
		return Met
	case high < goal:
		return NotMet
	}
	return CannotTell
}

// plain decides by a figure that has no interval.
func plain(v, goal float64, atLeast bool) Verdict {
	switch {
	case math.IsNaN(v):
		return CannotTell
	case atLeast == (v >= goal) || v == goal:
		return Met
	}
	return NotMet
}

// few says on how many excursions a percentile rests, where they are fewer than METHOD asks for.
func few(blocks []*Block, measure string, arms ...string) string {
	if measure != "ack p99" && measure != "ack p99.9" && measure != "delivery p99" {
		return ""
	}
	for _, a := range arms {
		n := int64(0)
		for _, b := range blocks {
			for _, w := range b.windowsOf(a) {
				n += w.Percentiles[measure].Excursions
			}
		}
		if n > 0 && n < minExcursions {
			return fmt.Sprintf("%s: %d stalls in all", a, n)
		}
	}
	return ""
}
