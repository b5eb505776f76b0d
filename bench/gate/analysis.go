// Package gate turns the runs of one bench, or of two, into verdicts (METHOD 6): the one place where report, terminal,
// compare and gate take their comparisons from, so that no two of them can disagree.
//
// Analyse pools the noise of each metric and kind of cell over all repeats, estimates each cell, and compares each cell
// with the one that its plan names. Compare does the same for two folders, cell by cell of the same name. Both are pure:
// they read what store has loaded.
package gate

import (
	"math"

	"github.com/tidemark/tidemark/bench/stats"
	"github.com/tidemark/tidemark/bench/store"
)

// Comparison is one metric of one cell against another cell's.
type Comparison struct {
	Metric    store.Metric
	Cell      int // number of the candidate's cell
	Against   int // number of the cell it is compared with (in the baseline's folder when two are compared)
	Judgement stats.Judgement
	Primary   bool // the suite named it: Answer and gate use it
	// Stands: it holds at 5% together (Holm) if primary, at a false discovery rate of 5% if not, and rests on more than
	// one run.
	Stands bool
}

// Doubt is what keeps a difference from standing: "may be chance", "rests on one run"; "" where nothing does, or where no
// difference was found.
func (c Comparison) Doubt() string {
	switch v := c.Judgement.Verdict; {
	case c.Stands || v != stats.Better && v != stats.Worse:
		return ""
	case c.Judgement.Ratio.RestsOnOneRun():
		return "rests on one run"
	}
	return "may be chance"
}

// Words is the verdict with its doubt: no surface may say "worse" where the Answer says that it cannot be told.
func (c Comparison) Words() string {
	if doubt := c.Doubt(); doubt != "" {
		return c.Judgement.Words() + ", " + doubt
	}
	return c.Judgement.Words()
}

// NoiseKey names a pool of noise.
type NoiseKey struct {
	Metric string
	Kind   store.Kind
}

// CellEstimate is a cell's metric over its repeats.
type CellEstimate struct {
	Metric   store.Metric
	Cell     int
	Values   []float64 // one for each run that counts, in the order of the runs
	Estimate stats.Estimate
}

// Counts says what did not enter the comparisons, and what verification found, over all runs.
type Counts struct {
	CellsSaturated, CellsGeneratorLimited, CellsThrottled, CellsInvalid, CellsFailed int // cells with at least one such run
	Lost, Duplicated, OutOfOrder, Corrupt                                            int64
	Unverified                                                                       int // runs whose verification was off or incomplete
	BytesWritten                                                                     int64
}

// Analysis is everything that follows from the runs of one bench.
type Analysis struct {
	Noise       map[NoiseKey]stats.Noise
	Estimates   []CellEstimate // by cell, then by metric
	Comparisons []Comparison   // by cell, then by metric
	Counts      Counts
	// Bracket is the capacity under the suite's objective, from the ladder's runs; Bracket.Why where there is none.
	Bracket stats.Bracket
	// Models are what an effects design says, one for each metric of latency cells; nil for another design.
	Models []*Model
	// ChanceFindings is how many of the exploratory comparisons would stand out at 95% by chance alone.
	ChanceFindings float64
}

// Analyse computes the analysis of a folder. An unfinished one is fine: what is missing is missing.
func Analyse(d *store.Data) *Analysis {
	a := &Analysis{Noise: map[NoiseKey]stats.Noise{}}
	for _, m := range store.Metrics() {
		for _, kind := range []store.Kind{store.Latency, store.Capacity} {
			if m.Kind == "" || m.Kind == kind {
				a.Noise[NoiseKey{m.Name, kind}] = stats.Pool(groups(d, m, kind))
			}
		}
	}
	for i := range d.Plan.Cells {
		a.cell(d, &d.Plan.Cells[i])
	}
	a.ChanceFindings = settle(a.Comparisons)
	a.Counts = count(d)
	a.Bracket = bracket(d)
	a.Models = models(d)
	return a
}

// Estimate returns a cell's estimate of a metric; ok is false where no run had it.
func (a *Analysis) Estimate(cell int, metric string) (CellEstimate, bool) {
	for _, e := range a.Estimates {
		if e.Cell == cell && e.Metric.Name == metric {
			return e, true
		}
	}
	return CellEstimate{}, false
}

// Comparison returns the comparison of a cell's metric; ok is false where there is none.
func (a *Analysis) Comparison(cell int, metric string) (Comparison, bool) {
	for _, c := range a.Comparisons {
		if c.Cell == cell && c.Metric.Name == metric {
			return c, true
		}
	}
	return Comparison{}, false
}

func groups(d *store.Data, m store.Metric, kind store.Kind) [][]float64 {
	var out [][]float64
	for _, c := range d.Plan.Cells {
		if c.Kind == kind {
			out = append(out, m.RatioValues(d, c.Number))
		}
	}
	return out
}

func (a *Analysis) cell(d *store.Data, c *store.Cell) {
	for _, m := range store.Metrics() {
		if m.Kind != "" && m.Kind != c.Kind {
			continue
		}
		values := m.Values(d, c.Number)
		if len(values) == 0 {
			continue
		}
		noise := a.Noise[NoiseKey{m.Name, c.Kind}]
		a.Estimates = append(a.Estimates, CellEstimate{Metric: m, Cell: c.Number, Values: values, Estimate: stats.Mean(values, noise)})
		if c.Against == 0 {
			continue
		}
		candidate, baseline := m.RatioValues(d, c.Number), against(d, m, c)
		if len(candidate) == 0 || len(baseline) == 0 {
			continue
		}
		a.Comparisons = append(a.Comparisons, Comparison{
			Metric: m, Cell: c.Number, Against: c.Against, Primary: isPrimary(d, c),
			Judgement: stats.Judge(stats.Compare(candidate, baseline, noise), m.Direction, d.Plan.Allowance),
		})
	}
}

// against are the runs that a cell is compared with: all of the baseline's, but for a cell that was stopped only those before
// its stop. What the host did later, the cell has not seen.
func against(d *store.Data, m store.Metric, c *store.Cell) (values []float64) {
	end := math.MaxInt
	for _, s := range d.Status.Stopped {
		if s.Cell == c.Number {
			end = min(end, s.Order)
		}
	}
	for _, r := range d.RunsOf(c.Against) {
		if v, ok := m.OfRatio(d, r); ok && r.Order < end {
			values = append(values, v)
		}
	}
	return values
}

func isPrimary(d *store.Data, c *store.Cell) bool {
	for _, name := range d.Plan.Primary {
		if name == c.Name {
			return true
		}
	}
	return false
}

// settle sets Stands by family and returns how many exploratory comparisons chance would let stand out.
func settle(comparisons []Comparison) (byChance float64) {
	var primary, rest []int
	for i, c := range comparisons {
		if c.Primary {
			primary = append(primary, i)
		} else {
			rest = append(rest, i)
		}
	}
	mark := func(indices []int, stands func([]float64, float64) []bool) {
		p := make([]float64, len(indices))
		for k, i := range indices {
			p[k] = comparisons[i].Judgement.Ratio.P
		}
		for k, ok := range stands(p, 1-stats.Confidence) {
			comparisons[indices[k]].Stands = ok && !comparisons[indices[k]].Judgement.Ratio.RestsOnOneRun()
		}
	}
	mark(primary, stats.Holm)
	mark(rest, stats.FalseDiscovery)
	return float64(len(rest)) * (1 - stats.Confidence)
}

func count(d *store.Data) Counts {
	var n Counts
	for _, c := range d.Plan.Cells {
		seen := map[store.RunStatus]bool{}
		runs := d.RunsOf(c.Number)
		for _, r := range d.Profiled { // its figures count nowhere; what it lost does
			if r.Cell == c.Number {
				runs = append(runs, r)
			}
		}
		for _, r := range runs {
			if !r.Marked(store.MarkProfiled) || r.Status == store.Invalid || r.Status == store.Broken {
				seen[r.Status] = true
			}
			if r.Result == nil {
				continue
			}
			v := r.Result.Verification
			n.Lost += v.Lost
			n.Duplicated += v.Duplicated
			n.OutOfOrder += v.OutOfOrder
			n.Corrupt += v.Corrupt
			if !v.On || !v.Complete {
				n.Unverified++
			}
			n.BytesWritten += r.Result.Produce.Batches.WireBytes
		}
		add := func(s store.RunStatus, into *int) {
			if seen[s] {
				*into++
			}
		}
		add(store.Saturated, &n.CellsSaturated)
		add(store.GeneratorLimited, &n.CellsGeneratorLimited)
		add(store.Throttled, &n.CellsThrottled)
		add(store.Invalid, &n.CellsInvalid)
		add(store.Broken, &n.CellsFailed)
	}
	return n
}
