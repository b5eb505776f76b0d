package verify

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"
)

// metric is one figure of a run that comparisons use.
type metric struct {
	name, unit string
	kind       string // "latency", "capacity", "" for both
	up         bool   // higher is better
	cost       bool   // of a capacity run in fresh memory it enters no ratio
	perUnit    bool   // told by a closed loop that the generator limits
	of         func(*run) float64
}

func metrics() []metric {
	var out []metric
	for _, clock := range []string{"ack", "delivery"} {
		for _, p := range []float64{50, 99, 99.9} {
			out = append(out, metric{name: fmt.Sprintf("%s p%g", clock, p), unit: "ms", kind: "latency", of: latencyOf(clock, p)})
		}
	}
	perAcked := func(v func(*process) float64, by func(*result) int64) func(*run) float64 {
		return func(r *run) float64 {
			if n := by(r.result); r.Target.Process != nil && n > 0 {
				return v(r.Target.Process) / float64(n)
			}
			return math.NaN()
		}
	}
	cpu := func(p *process) float64 { return float64(p.CPUNanos) }
	calls := func(p *process) float64 {
		if p.ReadCalls == nil || p.WriteCalls == nil {
			return math.NaN()
		}
		return float64(*p.ReadCalls + *p.WriteCalls)
	}
	return append(out,
		metric{name: "throughput", unit: "MB/s", kind: "capacity", up: true, cost: true, of: func(r *run) float64 { return orNone(r.result.Produce.BytesPerSec / 1e6) }},
		metric{name: "records", unit: "records/s", kind: "capacity", up: true, cost: true, of: func(r *run) float64 { return orNone(r.result.Produce.RecordsPerSec) }},
		metric{name: "CPU per GB", unit: "CPU-s/GB", cost: true, perUnit: true, of: perAcked(cpu, (*result).bytes)},
		metric{name: "CPU per request", unit: "us", cost: true, perUnit: true, of: perAcked(func(p *process) float64 { return cpu(p) / 1e3 },
			func(r *result) int64 { return r.Produce.Batches.Requests + r.Consume.Fetches })},
		metric{name: "allocations per record", unit: "(from 0.1)", cost: true, perUnit: true, of: func(r *run) float64 {
			if p, n := r.Target.Process, r.result.records(); p != nil && p.Objects != nil && n > 0 {
				return math.Max(0.1, float64(*p.Objects)/float64(n))
			}
			return math.NaN()
		}},
		metric{name: "calls per record", unit: "calls", cost: true, perUnit: true, of: perAcked(calls, (*result).records)},
	)
}

// bytes are those that a closed loop's target acked between the two looks at its CPU. Versions before ackedInside divided by
// what was intended meanwhile, as is done for open loops.
func (r *result) bytes() int64 {
	if r.Produce.Inside > 0 {
		return r.Produce.InsideBytes
	}
	return r.Ends.AckedBytes
}

// records are counted as bytes are; none were acked where nothing was to be.
func (r *result) records() int64 {
	if r.Produce.Inside > 0 && r.Ends.Acked > 0 {
		return r.Produce.Inside
	}
	return r.Ends.Acked
}

// orNone takes a rate of nothing for no figure.
func orNone(v float64) float64 {
	if v > 0 {
		return v
	}
	return math.NaN()
}

// latencyOf is a recounted percentile in milliseconds. It is no figure where it is censored, or where fewer than ten
// records lie above it.
func latencyOf(name string, p float64) func(*run) float64 {
	return func(r *run) float64 {
		c := r.clocks[name]
		if c == nil || !c.Sound || c.Count == 0 {
			return math.NaN()
		}
		for _, q := range c.Percentiles {
			if q.P == p && !q.Censored && (p <= 50 || q.Above >= 10) {
				return float64(q.Nanos) / 1e6
			}
		}
		return math.NaN()
	}
}

// counts reports whether a run counts.
func (r *run) counts() bool {
	return r.Status == "ok" && r.result != nil && !r.marked("profiled")
}

// values are the logs of a metric over a cell's runs; ratio leaves out what may enter no ratio.
func (b *bench) values(m metric, number int, ratio bool) (logs []float64) {
	c := b.plan.Cells[number-1]
	if m.kind != "" && m.kind != c.Kind {
		return nil
	}
	for _, r := range b.runsOf(number) {
		limited := m.perUnit && c.Kind == "capacity" && r.Status == "generator-limited" && !r.marked("profiled")
		if r.result == nil || !r.counts() && !limited || ratio && m.cost && c.Kind == "capacity" && r.marked("fresh memory") {
			continue
		}
		if v := m.of(r); !math.IsNaN(v) && !math.IsInf(v, 0) && v >= 0 {
			logs = append(logs, math.Log(v)) // log 0 is -Inf: taken out below, but there
		}
	}
	return logs
}

// positive leaves out what has no logarithm.
func positive(logs []float64) []float64 {
	return slices.DeleteFunc(slices.Clone(logs), func(v float64) bool { return math.IsInf(v, 0) })
}

func mean(v []float64) float64 {
	sum := 0.0
	for _, x := range v {
		sum += x
	}
	return sum / float64(len(v))
}

// noise is one run's standard deviation on the log scale over df degrees of freedom.
type noise struct {
	sigma float64
	df    int
}

// t is Student's quantile for 95%, two-sided.
func (n noise) t() float64 {
	if n.df == 0 {
		return math.NaN()
	}
	return distuv.StudentsT{Sigma: 1, Nu: float64(n.df)}.Quantile(0.975)
}

type estimate struct {
	value, low, high float64
	runs             int
}

// comparison is one metric of one cell against another's.
type comparison struct {
	metric           metric
	cell, against    int
	ratio, low, high float64
	runs, base       int
	p, weakest       float64
	noise            noise
	verdict          string // "worse", "better", "no worse", "cannot tell"
	words            string
	early            string // the words of versions that promised a number of runs where noise was not known
	primary, stands  bool
	reason           bool // a reason other than the width of the interval
}

// sums is everything that follows from the runs.
type sums struct {
	noise       map[[2]string]noise // by metric and kind
	estimates   map[int]map[string]estimate
	comparisons []*comparison
}

func analyse(b *bench) *sums {
	s := &sums{noise: map[[2]string]noise{}, estimates: map[int]map[string]estimate{}}
	for _, m := range metrics() {
		for _, kind := range []string{"latency", "capacity"} {
			if m.kind == "" || m.kind == kind {
				s.noise[[2]string{m.name, kind}] = b.pooled(m, kind)
			}
		}
	}
	for i := range b.plan.Cells {
		c := &b.plan.Cells[i]
		s.estimates[c.Number] = map[string]estimate{}
		for _, m := range metrics() {
			s.one(b, c, m)
		}
	}
	settle(s.comparisons)
	return s
}

// pooled sums the squares of each cell's deviations from its own mean.
func (b *bench) pooled(m metric, kind string) noise {
	squares, n := 0.0, noise{}
	for _, c := range b.plan.Cells {
		v := positive(b.values(m, c.Number, true))
		if c.Kind != kind || len(v) < 2 {
			continue
		}
		for _, x := range v {
			squares += (x - mean(v)) * (x - mean(v))
		}
		n.df += len(v) - 1
	}
	if n.df > 0 {
		n.sigma = math.Sqrt(squares / float64(n.df))
	}
	return n
}

func (s *sums) one(b *bench, c *cell, m metric) {
	all := b.values(m, c.Number, false)
	if len(all) == 0 || m.kind != "" && m.kind != c.Kind {
		return
	}
	n := s.noise[[2]string{m.name, c.Kind}]
	v := positive(all)
	e := estimate{value: math.NaN(), low: math.NaN(), high: math.NaN(), runs: len(v)}
	if len(v) > 0 {
		half := n.t() * n.sigma / math.Sqrt(float64(len(v)))
		e = estimate{math.Exp(mean(v)), math.Exp(mean(v) - half), math.Exp(mean(v) + half), len(v)}
	}
	s.estimates[c.Number][m.name] = e
	if c.Against == 0 || c.Against > len(b.plan.Cells) {
		return
	}
	x, y := b.values(m, c.Number, true), b.facing(m, c)
	if len(x) == 0 || len(y) == 0 {
		return
	}
	k := &comparison{metric: m, cell: c.Number, against: c.Against, noise: n, primary: slices.Contains(b.plan.Primary, c.Name)}
	k.compare(positive(x), positive(y))
	k.judge(b.plan.Allowance)
	s.comparisons = append(s.comparisons, k)
}

func (k *comparison) compare(x, y []float64) {
	k.runs, k.base = len(x), len(y)
	k.ratio, k.low, k.high, k.p, k.weakest = math.NaN(), math.NaN(), math.NaN(), math.NaN(), math.NaN()
	if len(x) == 0 || len(y) == 0 {
		return
	}
	d := mean(x) - mean(y)
	err := k.noise.sigma * math.Sqrt(1/float64(len(x))+1/float64(len(y)))
	half := k.noise.t() * err
	k.ratio, k.low, k.high = math.Exp(d), math.Exp(d-half), math.Exp(d+half)
	switch {
	case k.noise.df == 0:
	case err == 0 && d == 0:
		k.p = 1
	case err == 0:
		k.p = 0
	default:
		k.p = 2 * distuv.StudentsT{Sigma: 1, Nu: float64(k.noise.df)}.Survival(math.Abs(d/err))
	}
	if len(x) < 2 || len(y) < 2 {
		return
	}
	least := math.Abs(d)
	without := func(v []float64, i int) float64 { return mean(slices.Delete(slices.Clone(v), i, i+1)) }
	for i := range x {
		least = min(least, math.Copysign(1, d)*(without(x, i)-mean(y)))
	}
	for i := range y {
		least = min(least, math.Copysign(1, d)*(mean(x)-without(y, i)))
	}
	k.weakest = least // of |d|, on the log scale, without the run that does most for it
}

// oneRun reports whether less than two fifths of a ratio remain when one run is left out.
func (k *comparison) oneRun() bool {
	d := math.Abs(math.Log(k.ratio))
	return math.IsNaN(k.weakest) || !(d > 0) || k.weakest < 0.4*d
}

// bad is the change with "+ is bad", on the log scale.
func (k *comparison) bad() (at, low, high float64) {
	at, low, high = math.Log(k.ratio), math.Log(k.low), math.Log(k.high)
	if k.metric.up {
		at, low, high = -at, -high, -low
	}
	return at, low, high
}

// verdictOf is the table of METHOD 6.
func verdictOf(at, low, high, limit float64) string {
	switch {
	case math.IsNaN(at) || math.IsNaN(low) || math.IsNaN(high):
		return "cannot tell"
	case high < 0:
		return "better"
	case low > 0 && at >= limit:
		return "worse"
	case high < limit:
		return "no worse"
	}
	return "cannot tell"
}

func (k *comparison) judge(allowance float64) {
	at, low, high := k.bad()
	limit := math.Log1p(allowance)
	k.verdict = "cannot tell"
	because := func(format string, a ...any) { k.words, k.reason = "cannot tell: "+fmt.Sprintf(format, a...), true }
	switch {
	case k.runs == 0 || k.base == 0:
		because("no run to compare")
	case math.IsNaN(at) || math.IsInf(at, 0):
		because("no number to compare")
	case k.noise.df < 20:
		because("noise rests on %d degrees of freedom, 20 are needed", k.noise.df)
		k.early = "cannot tell: " + many(20-k.noise.df, "more run")
	default:
		k.verdict = verdictOf(at, low, high, limit)
		k.words = k.verdict
	}
	switch {
	case k.verdict == "no worse":
		k.words = fmt.Sprintf("no worse than %.3g%%", 100*allowance)
		if low > 0 {
			k.words += fmt.Sprintf(" (a loss of %.2g%% is proven)", 100*math.Expm1(at))
		}
	case k.verdict == "cannot tell" && !k.reason:
		if n := k.needed(at, limit); n > 1000 {
			k.words = "cannot tell: over 1000 more runs"
		} else {
			k.words = fmt.Sprintf("cannot tell: %d more runs", n)
			if n == 1 {
				k.words = "cannot tell: 1 more run"
			}
		}
	}
	if k.early == "" {
		k.early = k.words
	}
}

// needed counts runs up, one by one, each dealt to the side with fewer, until an interval around the same estimate
// decides.
func (k *comparison) needed(at, limit float64) int {
	x, y := k.runs, k.base
	wide := func(n int) float64 {
		t := noise{df: k.noise.df + n}.t()
		return t * k.noise.sigma * math.Sqrt(1/float64(x)+1/float64(y))
	}
	sides := func(n int) {
		x, y = k.runs, k.base
		for range n {
			if x < y || x == y {
				x++
			} else {
				y++
			}
		}
	}
	// The bulk in powers of two, then one by one: an interval only gets narrower.
	decided := func(n int) bool {
		sides(n)
		return verdictOf(at, at-wide(n), at+wide(n), limit) != "cannot tell"
	}
	low, step := 0, 512
	for ; step > 0; step /= 2 {
		if low+step <= 1000 && !decided(low+step) {
			low += step
		}
	}
	return low + 1
}

// settle decides which verdicts stand: Holm over the primary ones, a false discovery rate of 5% over the rest, and none
// that rests on one run.
func settle(all []*comparison) {
	for _, primary := range []bool{true, false} {
		var family, ordered []*comparison
		for _, k := range all {
			if k.primary == primary {
				family = append(family, k)
				if !math.IsNaN(k.p) {
					ordered = append(ordered, k)
				}
			}
		}
		slices.SortStableFunc(ordered, func(a, b *comparison) int {
			switch {
			case a.p < b.p:
				return -1
			case a.p > b.p:
				return 1
			}
			return 0
		})
		n, accepted := len(family), 0
		for i, k := range ordered {
			if primary {
				if k.p > 0.05/float64(n-i) {
					break
				}
				accepted = i + 1
			} else if k.p <= 0.05*float64(i+1)/float64(n) {
				accepted = i + 1
			}
		}
		for _, k := range ordered[:accepted] {
			k.stands = true
		}
	}
}

// said is the verdict as tables have it: with what keeps it from standing.
func (k *comparison) said() string {
	if k.stands && !k.oneRun() || k.verdict != "better" && k.verdict != "worse" {
		return k.words
	}
	if k.oneRun() {
		return k.words + ", rests on one run"
	}
	return k.words + ", may be chance"
}

// found reports whether a difference is proven and stands. Versions before did not ask whether it rests on one run.
func (k *comparison) found(early bool) bool {
	return k.stands && (early || !k.oneRun()) && (k.verdict == "better" || k.verdict == "worse")
}
