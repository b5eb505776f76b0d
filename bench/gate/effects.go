package gate

import (
	"fmt"
	"math"

	"github.com/tidemark/tidemark/bench/stats"
	"github.com/tidemark/tidemark/bench/store"
	"github.com/tidemark/tidemark/loadgen/result"
)

// Model is what an effects design says of one metric: the effect of each term of the plan's model, and whether cells that
// the model was not fitted to fell where it foretold (METHOD 6).
type Model struct {
	Metric  store.Metric
	Cells   int // that entered, the centre among them
	Left    int // cells with a run that was saturated, limited, throttled or not settled: they leave the model whole
	Runs    int
	Effects []Effect // by term of the plan's model; nil where Why is set
	Checks  []Check
	Why     string // there is no model
}

// Effect is the ratio that one term makes to runs without its settings.
type Effect struct {
	Term      store.Term
	Judgement stats.Judgement
	Stands    bool // at a false discovery rate of 5% over all effects of all metrics, and not for one run's sake
}

// Check is a cell outside the design.
type Check struct {
	Cell      int
	Predicted stats.Estimate // five such intervals hold their cells in 95% of all benches, if the model holds
	Found     float64
	Told      bool // its runs count
}

// leastResidual is how many degrees of freedom a model must leave over.
const leastResidual = 10

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

// Holds reports whether all cells outside the design fell where the model foretold.
func (m *Model) Holds() bool {
	inside, _ := m.inside()
	return m.Why == "" && len(m.Checks) > 0 && inside == len(m.Checks)
}

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
	noise := m.Effects[0].Judgement.Ratio.Noise
	base := fmt.Sprintf("%d runs of %d cells%s, one run ±%.3g%% with %d degrees of freedom", m.Runs, m.Cells, left, noise.RunPercent(), noise.DF)
	switch n := len(m.Checks); {
	case inside == n && n > 0:
		return fmt.Sprintf("it holds, %d of %d cells outside the design fell where it foretold (%s)", inside, n, base)
	case inside == told:
		return fmt.Sprintf("it is not confirmed, only %d of %d cells outside the design tell (%s)", told, n, base)
	}
	return fmt.Sprintf("IT DOES NOT HOLD, %d of %d cells outside the design fell elsewhere: the effects are none of these settings' alone (%s)", told-inside, len(m.Checks), base)
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

// Shown reports whether a model is among those that terminal and page show: the latency that the baseline is judged by,
// delivery, and cost.
func Shown(d *store.Data, m *Model) bool {
	for i := range d.Plan.Cells {
		if c := &d.Plan.Cells[i]; c.Role == store.Baseline {
			return m.Metric.Name == mainMetric(c) || m.Metric.Name == "delivery p99" && m.Why == "" || m.Metric.Name == "CPU per GB"
		}
	}
	return false
}

// models fits the plan's model to each metric of its latency cells; nil for another design.
func models(d *store.Data) (list []*Model) {
	if d.Plan.Design != store.Effects || len(d.Plan.Model) == 0 {
		return nil
	}
	for _, metric := range store.Metrics() {
		if metric.Kind != store.Capacity {
			list = append(list, modelOf(d, metric))
		}
	}
	var p []float64
	for _, m := range list {
		for _, e := range m.Effects {
			p = append(p, e.Judgement.Ratio.P)
		}
	}
	stands := stats.FalseDiscovery(p, 1-stats.Confidence)
	for _, m := range list {
		for i := range m.Effects {
			m.Effects[i].Stands, stands = stands[0] && !m.Effects[i].Judgement.Ratio.RestsOnOneRun(), stands[1:]
		}
	}
	return list
}

func modelOf(d *store.Data, metric store.Metric) *Model {
	m := &Model{Metric: metric}
	var x [][]float64
	var y []float64
	for i := range d.Plan.Cells {
		c := &d.Plan.Cells[i]
		if !c.Modelled() || c.Outside {
			continue
		}
		values := metric.RatioValues(d, c.Number)
		switch runs := d.RunsOf(c.Number); {
		case len(runs) == 0:
			continue
		case c.Role != store.Baseline && !allCount(runs) || len(values) == 0:
			m.Left++
			continue
		}
		m.Cells++
		for _, v := range values {
			if v > 0 {
				x, y = append(x, d.Plan.Row(c)), append(y, v)
			}
		}
	}
	m.Runs = len(y)
	p := 1 + len(d.Plan.Model)
	if residual := len(y) - p; residual < leastResidual {
		m.Why = fmt.Sprintf("%d runs that count leave %d effects %d degrees of freedom, %d are needed", len(y), p-1, max(0, residual), leastResidual)
		return m
	}
	fit, ok := stats.FitOf(x, y)
	if !ok {
		m.Why = fmt.Sprintf("what is left when %d cells have left it does not tell its effects apart", m.Left)
		return m
	}
	for i, t := range d.Plan.Model {
		m.Effects = append(m.Effects, Effect{Term: t, Judgement: stats.JudgeEffect(fit.Effect(1+i), metric.Direction, d.Plan.Allowance)})
	}
	for i := range d.Plan.Cells {
		if c := &d.Plan.Cells[i]; c.Outside {
			m.Checks = append(m.Checks, checkOf(d, c, metric, fit))
		}
	}
	for i := range m.Checks {
		m.Checks[i].Predicted = fit.Predict(d.Plan.Row(d.Cell(m.Checks[i].Cell)), max(1, m.Checks[i].Predicted.N), 1-(1-stats.Confidence)/float64(len(m.Checks)))
	}
	return m
}

func checkOf(d *store.Data, c *store.Cell, metric store.Metric, fit *stats.Fit) Check {
	values := metric.RatioValues(d, c.Number)
	found := stats.Mean(values, fit.Noise)
	runs := d.RunsOf(c.Number)
	return Check{Cell: c.Number, Found: found.Value, Predicted: found, Told: len(runs) > 0 && allCount(runs) && !math.IsNaN(found.Value)}
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
