package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/tidemark/tidemark/bench/gate"
	"github.com/tidemark/tidemark/bench/stats"
	"github.com/tidemark/tidemark/bench/store"
	"github.com/tidemark/tidemark/loadgen/result"
)

// span is a piece of a sentence: plain words, or the evidence that they rest on.
type span struct{ text, address string }

// sentence is one sentence of the Answer. Its text is made from figures alone, so that whoever has them can make it
// again.
type sentence struct {
	spans []span
	alarm bool
}

func (s *sentence) say(format string, a ...any) *sentence {
	s.spans = append(s.spans, span{text: fmt.Sprintf(format, a...)})
	return s
}

func (s *sentence) see(address, format string, a ...any) *sentence {
	s.spans = append(s.spans, span{fmt.Sprintf(format, a...), address})
	return s
}

func (s *sentence) text() string {
	var b strings.Builder
	for _, sp := range s.spans {
		b.WriteString(sp.text)
	}
	return b.String()
}

// answer is the two to five sentences that open the report.
func (p *page) answer() []*sentence {
	var out []*sentence
	for _, one := range []func() *sentence{p.damage, p.uncounted, p.carried, p.latencyAtRate, p.modelled, p.changed, p.untold} {
		if s := one(); s != nil {
			out = append(out, s)
		}
	}
	switch len(out) {
	case 0:
		s := (&sentence{alarm: true}).say("Nothing was measured: %d of %d runs finished, and none of them counts", len(p.d.Runs), p.d.Planned())
		if p.d.Status.Error != "" {
			s.say(" (%s)", short(p.d.Status.Error, 200))
		}
		return []*sentence{s.say("."), p.standing()}
	case 1:
		out = append(out, p.standing())
	}
	for len(out) > 5 { // five are the most: what changed and what could not be told belong together
		out[4].spans = append(append(out[4].spans, span{text: " "}), out[5].spans...)
		out = slices.Delete(out, 5, 6)
	}
	return out
}

// uncounted says that no run of the baseline counts, and why: a reader must not look for figures that the bench has not
// got. A probe that does not count still gives a lower bound, which carried tells.
func (p *page) uncounted() *sentence {
	if p.baseline == nil {
		return nil
	}
	c := p.cell(p.baseline.Number)
	if len(c.runs) == 0 || len(c.counted) > 0 || c.harmed() {
		return nil
	}
	counted := 0
	for _, r := range p.d.Runs {
		counted += int(b2f(r.Countable()))
	}
	s := (&sentence{alarm: true}).say("Latency is not told: %d of %d runs count, and none of the ", counted, len(p.d.Runs)).
		see(cellAddress(c.Number), "baseline").say("'s (%s", c.state())
	if r := c.runs[0]; len(r.Reasons) > 0 {
		s.say(": %s", short(r.Reasons[0], 140))
	}
	return s.say("), so nothing is compared with it.")
}

// atLeast is what a probe that does not count carried all the same: a lower bound, for the generator was the limit.
func (p *page) atLeast() (recordsPerSec float64, why string, ok bool) {
	if p.probe == nil {
		return 0, "", false
	}
	c := p.cell(p.probe.Number)
	for _, r := range c.runs {
		if r.Status == store.GeneratorLimited && r.Result != nil {
			recordsPerSec = max(recordsPerSec, r.Result.Produce.RecordsPerSec)
			if len(r.Reasons) > 0 {
				why = ", " + short(r.Reasons[0], 140)
			}
		}
	}
	return recordsPerSec, why, recordsPerSec > 0 && len(c.counted) == 0
}

// standing says how far the run came.
func (p *page) standing() *sentence {
	s := &sentence{}
	state := string(p.d.Status.State)
	if state == "" {
		state = "of unknown state"
	}
	return s.say("The run is %s, with %d of %d runs done in ", state, len(p.d.Runs), p.d.Planned()).
		see("#cells", "%s", count(len(p.d.Plan.Cells), "cell")).say(".")
}

// damage comes first, and only where acknowledged data was harmed or a run is invalid.
func (p *page) damage() *sentence {
	n := p.a.Counts
	if n.Lost+n.Duplicated+n.OutOfOrder+n.Corrupt == 0 && n.CellsInvalid+n.CellsFailed == 0 {
		return nil
	}
	s := &sentence{alarm: true}
	s.say("Verification does not pass: %s lost, %s duplicated, %s out of order, %s corrupt; %s invalid and %d failed: ",
		grouped(float64(n.Lost)), grouped(float64(n.Duplicated)), grouped(float64(n.OutOfOrder)), grouped(float64(n.Corrupt)),
		count(n.CellsInvalid, "cell"), n.CellsFailed)
	listed := 0
	for _, c := range p.cells(func(*store.Cell) bool { return true }) {
		if !c.harmed() {
			continue
		}
		if listed == 4 {
			s.say(" and others")
			break
		}
		if listed > 0 {
			s.say(", ")
		}
		s.see(cellAddress(c.Number), "%s", short(c.Name, 40))
		listed++
	}
	if listed == 0 {
		s.say("see ").see("#believe", "the verification")
	}
	return s.say(". Use no figure of theirs.")
}

// harmed reports whether a run of the cell lost or damaged data, is invalid or has no result.
func (c *cell) harmed() bool {
	for _, r := range c.runs {
		if r.Status == store.Invalid || r.Status == store.Broken || r.Result != nil && !r.Result.Verification.Clean() {
			return true
		}
	}
	return false
}

// carried says what the baseline carried in a closed loop, and what the ladder held.
func (p *page) carried() *sentence {
	s := &sentence{}
	if p.probe != nil {
		records, ok := p.a.Estimate(p.probe.Number, "records")
		if ok {
			s.say("In a closed loop the baseline carried ").see(cellAddress(p.probe.Number), "%s records/s %s", number(records.Estimate.Value), intervalOf(records.Estimate))
			if bytes, ok := p.a.Estimate(p.probe.Number, "throughput"); ok {
				s.say(" (%s MB/s %s)", number(bytes.Estimate.Value), intervalOf(bytes.Estimate))
			}
			if cost, ok := p.a.Estimate(p.probe.Number, "CPU per GB"); ok {
				s.say(" for %s CPU-s/GB %s", number(cost.Estimate.Value), intervalOf(cost.Estimate))
			}
		}
	}
	if bound, why, ok := p.atLeast(); ok {
		s.say("In a closed loop the baseline carried ").see(cellAddress(p.probe.Number), "at least %s records/s", number(bound)).
			say(" (a lower bound without interval: the generator was the limit%s)", why)
	}
	best, bestCell := 0.0, (*cell)(nil)
	var saturated []string
	for _, c := range p.cells(func(c *store.Cell) bool { return c.Role == store.Ladder }) {
		switch {
		case len(c.counted) > 0 && len(c.counted) == len(c.runs):
			if c.rate() > best {
				best, bestCell = c.rate(), c
			}
		case strings.Contains(c.state(), string(store.Saturated)):
			saturated = append(saturated, grouped(c.rate())+"/s")
		}
	}
	if bestCell != nil {
		lead := "; at"
		if len(s.spans) == 0 {
			lead = "At"
		}
		e, ok := p.a.Estimate(bestCell.Number, latencyMetric(bestCell.Cell))
		s.say("%s ", lead).see("#load", "%s records/s offered", grouped(best))
		s.say(", the highest rate held in every run")
		if ok {
			s.say(", %s was %s ms %s", latencyMetric(bestCell.Cell), number(e.Estimate.Value), intervalOf(e.Estimate))
		}
	}
	if len(saturated) > 0 && len(s.spans) > 0 {
		s.say("; %s was not held", listed(saturated))
	}
	p.underObjective(s)
	if len(s.spans) == 0 {
		return nil
	}
	return s.say(".")
}

// underObjective adds the capacity under the objective, where the suite has one and its ladder ran: "not found" is an answer.
func (p *page) underObjective(s *sentence) {
	b, ladder := p.a.Bracket, p.cells(func(c *store.Cell) bool { return c.Role == store.Ladder })
	if p.d.Plan.SLOP99MS <= 0 || !slices.ContainsFunc(ladder, func(c *cell) bool { return len(c.runs) > 0 }) {
		return
	}
	lead := "; the"
	if len(s.spans) == 0 {
		lead = "The"
	}
	s.say("%s highest rate with a p99 within %s ms ", lead, number(p.d.Plan.SLOP99MS))
	if !b.Found {
		s.see("#load", "was not found").say(": %s", b.Why)
		return
	}
	s.say("lies between ").see("#load", "%s/s", grouped(b.Low)).say(" (three of three runs passed) and %s/s (three of three failed)", grouped(b.High))
}

func intervalOf(e stats.Estimate) string {
	if i := between(e.Interval); i != "" {
		return i
	}
	return "[interval not known]"
}

// latencyAtRate is the baseline's latency at the fixed rate.
func (p *page) latencyAtRate() *sentence {
	if p.baseline == nil {
		return nil
	}
	c := p.cell(p.baseline.Number)
	name := clock(c.Cell)
	s := &sentence{}
	for _, q := range []struct {
		metric string
		p      float64
	}{{name + " p50", 50}, {name + " p99", 99}, {name + " p99.9", 99.9}} {
		e, ok := p.a.Estimate(c.Number, q.metric)
		if !ok {
			continue
		}
		if len(s.spans) == 0 {
			s.say("At %s records/s the baseline's ", grouped(c.rate()))
		} else {
			s.say(", ")
		}
		s.see(cellAddress(c.Number), "%s was %s ms %s", q.metric, number(e.Estimate.Value), intervalOf(e.Estimate))
		if n, thin := c.support(name, q.p); thin {
			s.say(" in only %s a run", count(n, "stall"))
		}
	}
	if len(s.spans) == 0 {
		return nil
	}
	return s.say(", from the intended time, over %s.", count(len(c.counted), "run"))
}

// support is the median number of excursions that a percentile rests on; thin is set where there are fewer than ten.
func (c *cell) support(clock string, percentile float64) (excursions int, thin bool) {
	var all []float64
	for _, r := range c.counted {
		if q, ok := r.Result.Clocks[clock].At(percentile); ok {
			all = append(all, float64(q.Excursions))
		}
	}
	if len(all) == 0 {
		return 0, false
	}
	n := stats.Median(all)
	return int(math.Round(n)), n < 10
}

// finding is one comparison that the Answer may name.
type finding struct {
	c    *store.Cell
	what gate.Comparison
}

// findings are the comparisons of latency (throughput in capacity cells) and cost that the suite named beforehand, or
// all of them where it named none.
func (p *page) findings() (all []finding, primary bool) {
	for _, c := range p.a.Comparisons {
		primary = primary || c.Primary
	}
	for _, c := range p.a.Comparisons {
		if primary && !c.Primary {
			continue
		}
		candidate := p.d.Cell(c.Cell)
		main := latencyMetric(candidate)
		if candidate.Kind == store.Capacity {
			main = "throughput"
		}
		if c.Metric.Name == main || c.Metric.Name == "CPU per GB" {
			all = append(all, finding{candidate, c})
		}
	}
	return all, primary
}

// stands reports whether a finding may be said to differ.
func (f finding) stands() bool {
	v := f.what.Judgement.Verdict
	return f.what.Stands && (v == stats.Better || v == stats.Worse)
}

// changed says which settings changed something.
func (p *page) changed() *sentence {
	all, primary := p.findings()
	cells := map[int]bool{}
	s := &sentence{}
	last, named, judged := 0, 0, 0
	for _, f := range all {
		judged += int(b2f(f.what.Judgement.Reason == ""))
		cells[f.c.Number] = true
		if !f.stands() {
			continue
		}
		if last != f.c.Number {
			if named++; named > 6 {
				continue
			}
			if last != 0 {
				s.say("; ")
			}
			s.see(fmt.Sprintf("%s&vs=%d", cellAddress(f.c.Number), f.what.Against), "%s", short(f.c.Name, 48)).say(" made ")
		} else {
			s.say(" and ")
		}
		last = f.c.Number
		j := f.what.Judgement
		s.say("%s %s (%s)", f.what.Metric.Name, ratio(j.Ratio), j.Words())
	}
	if judged == 0 { // noise is not known well enough for any verdict: untold has the reasons
		return nil
	}
	open := fmt.Sprintf("Of %s named beforehand, ", count(len(cells), "change"))
	if !primary {
		open = fmt.Sprintf("Of %s (exploratory, none was named beforehand), ", count(len(cells), "change"))
	}
	if named == 0 {
		return (&sentence{}).say("%s", open).see("#axes", "none").say(" made latency, throughput or cost better or worse beyond doubt.")
	}
	if named > 6 {
		s.say("; ").see("#axes", "%d more", named-6).say(" did so too")
	}
	s.spans = append([]span{{text: open}}, s.spans...)
	return s.say(".")
}

// doubt says why a verdict does not stand among n comparisons.
func doubt(c gate.Comparison, n int) string {
	if c.Judgement.Ratio.RestsOnOneRun() {
		return "but one run alone makes it so"
	}
	return fmt.Sprintf("but that may be chance among %s", count(n, "comparison"))
}

// untold says what could not be told apart, and what was shown to be no worse.
func (p *page) untold() *sentence {
	all, _ := p.findings()
	s := &sentence{}
	noWorse, named := 0, 0
	for _, f := range all {
		j := f.what.Judgement
		if f.stands() {
			continue
		}
		if j.Verdict == stats.NoWorse {
			noWorse++
			continue
		}
		named++
		if named > 6 {
			continue
		}
		if named > 1 {
			s.say("; ")
		}
		s.see(fmt.Sprintf("%s&vs=%d", cellAddress(f.c.Number), f.what.Against), "%s", short(f.c.Name, 48))
		s.say(" in %s %s", f.what.Metric.Name, ratio(j.Ratio))
		switch words := strings.TrimPrefix(j.Words(), "cannot tell: "); {
		case j.Verdict != stats.CannotTell:
			s.say(" (%s, %s)", words, doubt(f.what, len(all)))
		case words != j.Words():
			s.say(" (%s)", strings.NewReplacer("more runs", "more runs would", "more run", "more run would").Replace(words))
		}
	}
	if named == 0 && noWorse == 0 {
		return nil
	}
	out := &sentence{}
	if named > 0 {
		out.say("Cannot be told from the baseline: ")
		out.spans = append(out.spans, s.spans...)
		if named > 6 {
			out.say("; ").see("#axes", "%d more", named-6)
		}
		if noWorse > 0 {
			out.say("; ")
		}
	}
	if noWorse > 0 {
		out.see("#axes", "%s", count(noWorse, "comparison")).say(" no worse than %s%%", percent(p.d.Plan.Allowance))
	}
	return out.say(".")
}

// tally is a count that stands beside the Answer whether it is zero or not.
type tally struct {
	name  string
	value int64
	bad   bool
}

// tallies are the counts of verification and of what did not count.
func (p *page) tallies() []tally {
	n := p.a.Counts
	notRun := 0
	for _, c := range p.cells(func(*store.Cell) bool { return true }) {
		if len(c.runs) == 0 && !c.Searched {
			notRun++
		}
	}
	list := []tally{
		{"records lost", n.Lost, n.Lost > 0}, {"duplicated", n.Duplicated, n.Duplicated > 0}, {"out of order", n.OutOfOrder, n.OutOfOrder > 0},
		{"corrupt", n.Corrupt, n.Corrupt > 0}, {"cells invalid", int64(n.CellsInvalid), n.CellsInvalid > 0}, {"failed", int64(n.CellsFailed), n.CellsFailed > 0},
		{"saturated", int64(n.CellsSaturated), false}, {"generator-limited", int64(n.CellsGeneratorLimited), false},
		{"throttled", int64(n.CellsThrottled), false}, {"not run", int64(notRun), notRun > 0},
	}
	if n.Unverified > 0 {
		list = append(list, tally{"runs not verified to the end", int64(n.Unverified), true})
	}
	return list
}

// headline is one of the figures that are large.
type headline struct{ label, value, unit, interval, address string }

func (p *page) headlines() []headline {
	var out []headline
	add := func(c *store.Cell, metric, label, unit string) {
		if c == nil {
			return
		}
		if e, ok := p.a.Estimate(c.Number, metric); ok {
			out = append(out, headline{label, number(e.Estimate.Value), unit, intervalOf(e.Estimate), cellAddress(c.Number)})
		}
	}
	add(p.probe, "records", "carried, closed loop", "records/s")
	if bound, _, ok := p.atLeast(); ok {
		out = append(out, headline{"carried, closed loop", "≥ " + number(bound), "records/s", "lower bound: the generator was the limit", cellAddress(p.probe.Number)})
	}
	if p.baseline != nil {
		at := " at " + grouped(p.cell(p.baseline.Number).rate()) + "/s"
		add(p.baseline, latencyMetric(p.baseline), latencyMetric(p.baseline)+at, "ms")
		if clock(p.baseline) == result.Ack {
			add(p.baseline, "delivery p99", "delivery p99"+at, "ms")
		}
		add(p.baseline, "CPU per GB", "target's CPU"+at, "CPU-s/GB")
	}
	return out
}
