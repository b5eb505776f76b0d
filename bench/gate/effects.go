package gate

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tidemark/tidemark/bench/stats"
	"github.com/tidemark/tidemark/bench/store"
	"github.com/tidemark/tidemark/loadgen/result"
)

// Model is what an effects design says of one metric: the effect of each term of the plan's model, and whether the cells
// that it was fitted to, and those that it was not, fell where it has them (METHOD 6).
type Model struct {
	Metric store.Metric
	Cells  int // that entered, the centre among them
	Left   int // cells with a run that was saturated, limited, throttled or not settled: they leave the model whole
	Runs   int
	// Noise is that of one run, from the repeats of the design's cells alone: what the model leaves over holds what it
	// lacks, and what it lacks would then excuse itself.
	Noise   stats.Noise
	Lack    stats.Lack // of the cells that entered
	Effects []Effect   // by term of the plan's model; nil where Why is set
	Checks  []Check
	Why     string // there is no model
}

// Effect is the ratio that one term makes to runs without its settings.
type Effect struct {
	Term      store.Term // with what the cells that entered tell of it, which is less than the plan says where some have left
	Judgement stats.Judgement
	// Stands: not for one run's sake, and at 5% together (Holm) over all effects on the metrics that the Answer names
	// effects on, at a false discovery rate of 5% over those on the others.
	Stands bool
}

// Check is a cell outside the design.
type Check struct {
	Cell      int
	Predicted stats.Estimate // all such intervals hold their cells in 97.5% of all benches, if the model holds
	Found     float64
	Told      bool // its runs count
}

// leastResidual is how many degrees of freedom a model must leave over.
const leastResidual = 10

// testLevel is how often a model that holds fails for its own cells, and how often for those outside: at 5% together.
const testLevel = (1 - stats.Confidence) / 2

// Inside reports whether the cell fell where the model foretold.
func (c Check) Inside() bool { return c.Told && c.Predicted.Contains(c.Found) }

// Words is what a check found.
func (c Check) Words() string {
	switch {
	case !c.Told:
		return "does not tell: its runs do not all count"
	case c.Inside():
		return fmt.Sprintf("%.3g, inside [%.3g %.3g]", c.Found, c.Predicted.Low, c.Predicted.High)
	}
	return fmt.Sprintf("%.3g, OUTSIDE [%.3g %.3g]", c.Found, c.Predicted.Low, c.Predicted.High)
}

// Holds reports whether the model may be believed.
func (m *Model) Holds() bool { return m.Doubt() == "" }

// Doubt is why no effect of the model is told, "" where the model holds: all cells outside the design fell where it
// foretold, and those of the design lie off it by no more than repeats do.
func (m *Model) Doubt() string {
	inside, told := m.inside()
	switch {
	case m.Why != "":
		return m.Why
	case m.Noise.DF < stats.MinDF:
		return fmt.Sprintf("noise rests on %d degrees of freedom of repeats, %d are needed to tell whether it holds", m.Noise.DF, stats.MinDF)
	case inside < told:
		return "it does not hold"
	case m.lacks():
		return "it does not hold in the cells that it was fitted to"
	case told == 0 || told < len(m.Checks):
		return fmt.Sprintf("it is not confirmed, only %d of %d cells outside tell", told, len(m.Checks))
	}
	return ""
}

func (m *Model) lacks() bool { return m.Lack.P < testLevel }

func (m *Model) inside() (inside, told int) {
	for _, c := range m.Checks {
		if c.Told {
			told++
		}
		if c.Inside() {
			inside++
		}
	}
	return inside, told
}

// Words says whether the model may be believed.
func (m *Model) Words() string {
	if m.Why != "" {
		return "no model: " + m.Why
	}
	inside, told := m.inside()
	left := ""
	if m.Left > 0 {
		left = fmt.Sprintf(", %d cells left it", m.Left)
	}
	base := fmt.Sprintf("%d runs of %d cells%s, one run ±%.3g%% with %d degrees of freedom of repeats", m.Runs, m.Cells, left, m.Noise.RunPercent(), m.Noise.DF)
	if m.Lack.DF > 0 {
		base += fmt.Sprintf(", cells about the model by repeats F=%.3g on %d", m.Lack.F, m.Lack.DF)
	}
	var reasons []string
	if inside < told {
		reasons = append(reasons, fmt.Sprintf("%d of %d cells outside the design fell elsewhere", told-inside, len(m.Checks)))
	}
	if m.lacks() {
		reasons = append(reasons, "the cells that it was fitted to lie off it by more than repeats do")
	}
	switch n := len(m.Checks); {
	case m.Noise.DF < stats.MinDF:
		return fmt.Sprintf("whether it holds cannot be told, %d degrees of freedom of repeats are needed (%s)", stats.MinDF, base)
	case len(reasons) > 0:
		return fmt.Sprintf("IT DOES NOT HOLD, %s: the effects are none of these settings' alone (%s)", strings.Join(reasons, " and "), base)
	case inside == n && n > 0:
		return fmt.Sprintf("it holds, %d of %d cells outside the design fell where it foretold (%s)", inside, n, base)
	}
	return fmt.Sprintf("it is not confirmed, only %d of %d cells outside the design tell (%s)", told, len(m.Checks), base)
}

// WordsOf is the verdict on an effect, with what keeps it from standing.
func (m *Model) WordsOf(i int) string {
	e := m.Effects[i]
	words := e.Judgement.Words()
	switch v := e.Judgement.Verdict; {
	case v != stats.Better && v != stats.Worse:
	case !m.Holds():
		words += ", if the model held"
	case e.Judgement.Ratio.RestsOnOneRun():
		words += ", rests on one run"
	case !e.Stands:
		words += ", may be chance"
	}
	return words
}

// Answered reports whether the Answer names effects on a model's metric: the latency that the baseline is judged by, and
// cost.
func Answered(d *store.Data, m *Model) bool {
	for i := range d.Plan.Cells {
		if c := &d.Plan.Cells[i]; c.Role == store.Baseline {
			return m.Metric.Name == mainMetric(c) || m.Metric.Name == "CPU per GB"
		}
	}
	return false
}

// Shown reports whether a model is among those that terminal and page show: those of the Answer, and delivery.
func Shown(d *store.Data, m *Model) bool {
	return Answered(d, m) || m.Metric.Name == "delivery p99" && m.Why == ""
}

// models fits the plan's model to each metric of its latency cells; nil for another design.
func models(d *store.Data) (list []*Model) {
	if d.Plan.Design != store.Effects || len(d.Plan.Model) == 0 {
		return nil
	}
	var answered, rest []*Effect
	for _, metric := range store.Metrics() {
		if metric.Kind == store.Capacity {
			continue
		}
		m := modelOf(d, metric)
		list = append(list, m)
		for i := range m.Effects {
			if Answered(d, m) {
				answered = append(answered, &m.Effects[i])
			} else {
				rest = append(rest, &m.Effects[i])
			}
		}
	}
	mark := func(family []*Effect, stands func([]float64, float64) []bool) {
		p := make([]float64, len(family))
		for i, e := range family {
			p[i] = e.Judgement.Ratio.P
		}
		for i, ok := range stands(p, 1-stats.Confidence) {
			family[i].Stands = ok && !family[i].Judgement.Ratio.RestsOnOneRun()
		}
	}
	mark(answered, stats.Holm)
	mark(rest, stats.FalseDiscovery)
	return list
}

func modelOf(d *store.Data, metric store.Metric) *Model {
	m := &Model{Metric: metric}
	cells, values := m.enter(d)
	checks, repeats := m.outside(d)
	m.Noise = stats.Pool(slices.Concat(values, repeats))
	p := 1 + len(d.Plan.Model)
	switch residual := m.Runs - p; {
	case residual < leastResidual:
		m.Why = fmt.Sprintf("%d runs that count leave %d effects %d degrees of freedom, %d are needed", m.Runs, p-1, max(0, residual), leastResidual)
		return m
	case !m.Noise.Known():
		m.Why = "no cell ran twice, and repeats alone tell noise"
		return m
	}
	rows := make([][]float64, len(cells))
	for i, c := range cells {
		rows[i] = c.Row
	}
	fit, ok := stats.FitOf(rows, values, m.Noise)
	if !ok {
		m.Why = fmt.Sprintf("what is left when %d cells have left it does not tell its effects apart", m.Left)
		return m
	}
	m.Lack = fit.Lack
	for i, t := range Describe(d.Plan.Model, fit.Inverse, cells) {
		m.Effects = append(m.Effects, Effect{Term: t, Judgement: stats.JudgeEffect(fit.Effect(1+i), metric.Direction, d.Plan.Allowance)})
	}
	for i, c := range checks {
		checks[i].Predicted = fit.Predict(d.Plan.Row(d.Cell(c.Cell)), max(1, c.Predicted.N), 1-testLevel/float64(len(checks)))
	}
	m.Checks = checks
	return m
}

// enter counts the cells that the model is fitted to, and returns them with what their runs say.
func (m *Model) enter(d *store.Data) (cells []Entered, values [][]float64) {
	for i := range d.Plan.Cells {
		c := &d.Plan.Cells[i]
		runs := d.RunsOf(c.Number)
		if !c.Modelled() || c.Outside || len(runs) == 0 {
			continue
		}
		own := m.Metric.RatioValues(d, c.Number)
		if c.Role != store.Baseline && !allCount(runs) || len(own) == 0 {
			m.Left++
			continue
		}
		own = slices.DeleteFunc(own, func(v float64) bool { return !(v > 0) })
		m.Cells++
		m.Runs += len(own)
		cells = append(cells, Entered{Row: d.Plan.Row(c), Settings: c.Settings, Runs: float64(len(own))})
		values = append(values, own)
	}
	return cells, values
}

// outside returns the cells that the model must foretell, each with how often it ran, and the values of those that tell.
func (m *Model) outside(d *store.Data) (checks []Check, values [][]float64) {
	for i := range d.Plan.Cells {
		c := &d.Plan.Cells[i]
		if !c.Outside {
			continue
		}
		own, runs := m.Metric.RatioValues(d, c.Number), d.RunsOf(c.Number)
		found := stats.Mean(own, stats.Noise{})
		k := Check{Cell: c.Number, Found: found.Value, Predicted: stats.Estimate{N: found.N}, Told: len(runs) > 0 && allCount(runs) && found.N > 0}
		checks = append(checks, k)
		if k.Told {
			values = append(values, own)
		}
	}
	return checks, values
}

// allCount reports whether no run was saturated, limited, throttled, unsettled or worse.
func allCount(runs []*store.Run) bool {
	for _, r := range runs {
		if !r.Countable() || r.Result.Has(result.Unsettled) {
			return false
		}
	}
	return true
}
