package matrix

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/tidemark/tidemark/bench/calibrate"
	"github.com/tidemark/tidemark/bench/stats"
	"github.com/tidemark/tidemark/bench/store"
	"github.com/tidemark/tidemark/bench/suites"
	"github.com/tidemark/tidemark/loadgen/workload"
)

// What a run costs beside its warm-up and window, and a bench beside its runs. Measured on a two-core host; the plan
// is an estimate and prints as one.
const (
	runOverhead      = 600 * time.Millisecond  // touching memory, processes, topics, joining groups, drain, verification
	capacityOverhead = 1200 * time.Millisecond // the same, reading to the end, writing dirty pages out, two ceilings
	profiledOverhead = 500 * time.Millisecond  // mutex and block profiles last whole seconds
	startOverhead    = 4 * time.Second         // host ceilings, target start, report
	calibrationTime  = 2500 * time.Millisecond // each session's (METHOD 3), where the host lets the first try be right
	sinkTime         = 800 * time.Millisecond  // what each shape of workload reaches against the sink
	windowMin        = 500 * time.Millisecond
	windowMax        = time.Minute
)

// Plan turns a suite into cells and runs under the seed. RunID, Created, Command and Versions are left to the caller.
func Plan(s *suites.Suite, seed uint64) (*store.Plan, error) {
	hash := sha256.Sum256(s.Text)
	p := &store.Plan{
		Schema: store.Schema, Suite: s.Name, SuiteHash: hex.EncodeToString(hash[:]), Seed: seed, Target: s.Target.String(),
		RateFixed: s.Rate, RateCap: s.RateCap, Primary: s.Primary, Allowance: s.Allowance,
		SLOP99MS: float64(s.SLO) / float64(time.Millisecond),
	}
	if s.Stop.Width > 0 {
		p.Stop = &store.Stop{Width: s.Stop.Width, Metrics: s.Stop.Metrics}
	}
	for _, b := range s.Baseline {
		p.Baseline = append(p.Baseline, store.Setting{Axis: b.Field, Value: b.Value})
	}
	b := &builder{suite: s, plan: p}
	b.cells()
	if b.err != nil {
		return nil, b.err
	}
	b.budget()
	if b.err != nil {
		return nil, b.err
	}
	if err := stopLooks(s, p); err != nil {
		return nil, err
	}
	for _, name := range s.Primary {
		if !b.names[name] {
			return nil, fmt.Errorf("%s: primary comparison %q names no cell: %w", s.File, name, suites.ErrSuite)
		}
	}
	p.Runs, p.Search, p.Profiled = Order(p.Cells, seed), Searched(p.Cells, seed), Profiled(p.Cells, seed)
	return p, nil
}

type builder struct {
	suite *suites.Suite
	plan  *store.Plan
	names map[string]bool
	err   error
}

func (b *builder) cells() {
	s := b.suite
	b.names = map[string]bool{}
	probe := 0
	if s.Probes.Repeats > 0 {
		b.add(store.Cell{Name: "capacity", Role: store.Probe, Kind: store.Capacity, Repeats: s.Probes.Repeats,
			WindowMS: s.Probes.Window.Milliseconds(), MaxBytes: s.Probes.MaxBytes}, s.Probes.Set)
		probe = len(b.plan.Cells)
	}
	b.add(store.Cell{Name: "baseline", Role: store.Baseline, Kind: store.Latency, Repeats: s.BaselineRepeats, Rate: s.Rate}, nil)
	baseline := len(b.plan.Cells)
	for _, share := range s.Ladder.Shares {
		repeats := s.Ladder.Repeats
		if s.Ladder.Search {
			repeats = stats.SearchRuns
		}
		b.add(store.Cell{Name: fmt.Sprintf("load %.4g%%", 100*share), Role: store.Ladder, Kind: store.Latency,
			Repeats: repeats, LoadShare: share, Searched: s.Ladder.Search}, nil)
	}
	b.plan.Design = s.Matrix.Design
	if s.Matrix.Design == store.Effects {
		b.effects()
	} else {
		b.combinations(baseline)
	}
	if s.Profiles.Plain > 0 {
		b.add(store.Cell{Name: "profile=off", Role: store.Axis, Kind: store.Latency, Repeats: s.Profiles.Plain, Rate: s.Rate, Against: baseline,
			Settings: []store.Setting{{Axis: "profile", Value: "off"}}}, nil)
	}
	for _, c := range s.Capacity.Cells {
		b.add(store.Cell{Name: "capacity " + nameOf(c), Role: store.Ceiling, Kind: store.Capacity, Repeats: s.Capacity.Repeats,
			Against: probe, WindowMS: s.Capacity.Window.Milliseconds(), MaxBytes: s.Capacity.MaxBytes}, c)
	}
}

// combinations adds the cells of a design that compares each with the baseline, or with nothing.
func (b *builder) combinations(baseline int) {
	s := b.suite
	against := baseline
	if s.Matrix.Design == store.Pairwise {
		against = 0
	}
	combinations := Combine(s.Matrix.Design, s.Matrix.Axes, s.Matrix.Exclude)
	for _, c := range combinations {
		b.add(store.Cell{Name: nameOf(c), Role: store.Axis, Kind: store.Latency, Repeats: s.Matrix.Repeats, Rate: s.Rate,
			Against: against}, c)
	}
	b.checkExclusions(combinations)
}

// checkExclusions refuses exclusions that leave nothing, and one that takes nothing away: it is mistyped, and what it was to
// keep out would run.
func (b *builder) checkExclusions(left []Combination) {
	m := &b.suite.Matrix
	if b.err != nil || len(m.Exclude) == 0 {
		return
	}
	if len(left) == 0 {
		b.err = fmt.Errorf("%s: exclude leaves no combination of the axes: %w", b.suite.File, suites.ErrSuite)
		return
	}
	for _, e := range m.Exclude {
		if !possible(m, e) {
			at := b.suite.File
			if len(e) > 0 {
				at = e[0].At
			}
			b.err = fmt.Errorf("%s: exclude %s: no combination of the axes has it (design %s): %w", at, nameOf(e), m.Design, suites.ErrSuite)
			return
		}
	}
}

// possible reports whether a combination of the design can have all of the settings.
func possible(m *suites.Matrix, e []suites.Setting) bool {
	seen := map[string]bool{}
	for _, s := range e {
		i := slices.IndexFunc(m.Axes, func(a suites.Axis) bool { return a.Field == s.Field })
		if i < 0 || seen[s.Field] || !slices.ContainsFunc(m.Axes[i].Values, func(v suites.Setting) bool { return v.Value == s.Value }) {
			return false
		}
		seen[s.Field] = true
	}
	return len(e) == 1 || len(e) > 1 && m.Design != "one-factor"
}

func nameOf(c []suites.Setting) string {
	parts := make([]string, len(c))
	for i, s := range c {
		parts[i] = s.Field + "=" + s.Value
	}
	return strings.Join(parts, " ")
}

// add completes a cell from the baseline and its settings and checks that it can be run at all.
func (b *builder) add(c store.Cell, settings []suites.Setting) {
	if b.err != nil {
		return
	}
	spec := workload.Default()
	at := b.suite.File
	for _, list := range [][]suites.Setting{b.suite.Baseline, settings} {
		for _, s := range list {
			if err := suites.Apply(&spec, s); err != nil {
				b.err = fmt.Errorf("%s: %w: %w", s.At, err, suites.ErrSuite)
				return
			}
		}
	}
	for _, s := range settings {
		c.Settings = append(c.Settings, store.Setting{Axis: s.Field, Value: s.Value})
		at = s.At
	}
	c.Number = len(b.plan.Cells) + 1
	if b.names[c.Name] {
		b.err = fmt.Errorf("%s: two cells would be called %q: %w", at, c.Name, suites.ErrSuite)
		return
	}
	b.names[c.Name] = true
	plain := len(c.Settings) > len(settings) // the one setting that is no field of a workload: no profile
	c.CPUProfile = b.suite.Profiles.CPU && !plain
	c.Profiled = b.suite.Profiles.Extra == "all" && !plain || b.suite.Profiles.Extra == "baseline" && c.Role == store.Baseline
	c.WarmupMS = b.suite.WarmUp.Milliseconds()
	if c.Kind == store.Capacity { // its bytes count from the first on: a long warm-up would leave no window
		c.WarmupMS = min(c.WarmupMS, c.WindowMS/10)
	}
	spec.Question = workload.Question(c.Kind)
	if c.Kind == store.Latency {
		spec.SLO = workload.Duration(b.suite.SLO)
	}
	spec.Name = c.Name
	c.Asked = spec
	b.plan.Cells = append(b.plan.Cells, c)
}

// budget gives the latency cells the window that the suite's seconds leave, completes each workload with rate and
// times, and sums up time and bytes.
func (b *builder) budget() {
	window := b.suite.Window
	if window == 0 {
		window = b.leftFor()
		if window < windowMin {
			b.err = fmt.Errorf("%s: seconds: %g leaves the latency cells %v each, they need %v: fewer cells or repeats, or more time: %w",
				b.suite.File, b.suite.Seconds, window.Round(time.Millisecond), windowMin, suites.ErrSuite)
			return
		}
		window = min(window, windowMax)
	}
	seconds := b.beforeRuns()
	var bytes, ladderShares float64
	for i := range b.plan.Cells {
		c := &b.plan.Cells[i]
		if c.Kind == store.Latency {
			c.WindowMS = window.Milliseconds()
		}
		seconds += b.repeatsTime(c)
		if c.Role == store.Ladder {
			ladderShares += float64(allRepeats(c)) * c.LoadShare
			continue
		}
		b.complete(c)
		bytes += float64(allRepeats(c)) * float64(c.MaxBytes)
	}
	// What the ladder may write is what the others leave; its windows shrink when the capacity found is high.
	for i := range b.plan.Cells {
		c := &b.plan.Cells[i]
		if c.Role != store.Ladder {
			continue
		}
		c.MaxBytes = int64((float64(b.suite.MaxBytes) - bytes) * c.LoadShare / ladderShares)
		b.complete(c)
	}
	if ladderShares > 0 && bytes < float64(b.suite.MaxBytes) {
		bytes = float64(b.suite.MaxBytes)
	}
	b.plan.Seconds = seconds.Seconds()
	b.plan.MaxBytes = int64(bytes)
	if b.plan.MaxBytes > b.suite.MaxBytes {
		b.err = fmt.Errorf("%s: the cells may write %.1f GiB together, max-bytes allows %.1f GiB: lower rate, max-bytes of the cells or repeats: %w",
			b.suite.File, bytes/(1<<30), float64(b.suite.MaxBytes)/(1<<30), suites.ErrSuite)
	}
}

func cellTime(c *store.Cell) time.Duration {
	overhead := runOverhead
	if c.Kind == store.Capacity {
		overhead = capacityOverhead
	}
	return overhead + time.Duration(c.WarmupMS+c.WindowMS)*time.Millisecond
}

// allRepeats counts the profiled repeat too.
func allRepeats(c *store.Cell) int {
	if c.Profiled {
		return c.Repeats + 1
	}
	return c.Repeats
}

// aroundBreak is how many fresh runs a search makes beyond its ladder, as a rule: of two rates on each side of the one that
// broke the objective, and of that.
const aroundBreak = 5 * (stats.SearchRuns - 1)

// repeats is how often a cell runs: of a search's cells as often as all of them together do, dealt out.
func (b *builder) repeats(c *store.Cell) float64 {
	if n := float64(len(b.suite.Ladder.Shares)); c.Searched {
		return min(stats.SearchRuns, 1+aroundBreak/n)
	}
	return float64(allRepeats(c))
}

// repeatsTime is what all repeats of a cell take.
func (b *builder) repeatsTime(c *store.Cell) time.Duration {
	t := time.Duration(b.repeats(c) * float64(cellTime(c)))
	if c.Profiled {
		t += profiledOverhead
	}
	return t
}

// beforeRuns is what a session spends beside its runs: on host and target, on its calibration, and on a reading of the sink
// before the first run of each shape of workload.
func (b *builder) beforeRuns() time.Duration {
	shapes := map[string]bool{}
	for i := range b.plan.Cells {
		shapes[calibrate.Shape(&b.plan.Cells[i].Asked)] = true
	}
	return startOverhead + calibrationTime + time.Duration(len(shapes))*sinkTime
}

// leftFor is the window that makes the whole take the suite's seconds.
func (b *builder) leftFor() time.Duration {
	left := time.Duration(b.suite.Seconds*float64(time.Second)) - b.beforeRuns()
	latencyRuns := 0.0
	for i := range b.plan.Cells {
		c := &b.plan.Cells[i]
		left -= b.repeatsTime(c)
		if c.Kind == store.Latency {
			latencyRuns += b.repeats(c)
		}
	}
	if latencyRuns == 0 {
		return windowMax
	}
	return time.Duration(float64(left) / latencyRuns).Truncate(50 * time.Millisecond)
}

// complete writes the cell's times, rate and bound into its workload. A latency cell's bound of bytes is what it
// intends to write, by the mean size of its records, with a tenth to spare.
func (b *builder) complete(c *store.Cell) {
	w := &c.Asked
	w.WarmUp, w.Window = workload.Duration(c.WarmupMS*1e6), workload.Duration(c.WindowMS*1e6)
	w.Rate = c.Rate
	if c.Role == store.Axis || c.Role == store.Baseline {
		seconds := float64(c.WarmupMS+c.WindowMS) / 1000
		c.MaxBytes = int64(math.Ceil(1.1 * c.Rate * seconds * w.RecordSize.Mean()))
	}
	w.MaxBytes = workload.Bytes(c.MaxBytes)
	w.MaxDuration = w.WarmUp + w.Window + w.Drain + workload.Duration(60*time.Second)
	if c.Role == store.Ladder {
		return // has no rate yet
	}
	if err := w.Validate(); err != nil && b.err == nil {
		b.err = fmt.Errorf("%s: cell %q: %w: %w", b.suite.File, c.Name, err, suites.ErrSuite)
	}
}

// leastWindowMS is the shortest window that a bound of bytes may leave.
const leastWindowMS = 20

// SetRate gives a cell the rate of its run and, where a ladder cell's bound of bytes would end the window early, a
// shorter warm-up and window; a window that then makes no sense is an error.
func SetRate(c store.Cell, rate float64) (store.Cell, error) {
	c.Rate, c.Asked.Rate = rate, rate
	bytesPerSec := 1.1 * rate * c.Asked.RecordSize.Mean()
	if c.Role == store.Ladder && c.MaxBytes > 0 && bytesPerSec > 0 {
		fits := int64(1000 * float64(c.MaxBytes) / bytesPerSec)
		if fits < c.WarmupMS+c.WindowMS {
			c.WarmupMS = min(c.WarmupMS, fits/5)
			c.WindowMS = min(c.WindowMS, fits-c.WarmupMS)
		}
		if c.WindowMS < leastWindowMS {
			return c, fmt.Errorf("cell %q: at %.0f records/s its %d MiB last %d ms: raise the suite's max-bytes", c.Name, rate, c.MaxBytes>>20, fits)
		}
		c.Asked.WarmUp, c.Asked.Window = workload.Duration(c.WarmupMS*1e6), workload.Duration(c.WindowMS*1e6)
	}
	return c, c.Asked.Validate()
}
