package verify

import (
	"fmt"
	"math"
	"slices"
)

// stops looks with the eyes of the stop rule: at the widths of a cell's intervals over the runs before the first that was
// left out. A cell that was stopped on any other ground, or too early, is found.
func (o *Outcome) stops(b *bench) {
	for _, s := range b.state.Stopped {
		if s.Cell < 1 || s.Cell > len(b.plan.Cells) || b.plan.Stop == nil {
			o.find("status.json", "cell %d was stopped, and the plan has no such cell or no rule to stop one", s.Cell)
			continue
		}
		c := &b.plan.Cells[s.Cell-1]
		place := fmt.Sprintf("cell %d %s", c.Number, c.Name)
		o.Published++
		if c.Role == "baseline" || c.Role == "probe" || c.Searched {
			o.find(place, "was stopped; its runs are not the stop rule's")
			continue
		}
		before := b.before(s.Order)
		widest, looked := 0.0, 0
		for _, m := range metrics() {
			if !slices.Contains(b.plan.Stop.Metrics, m.name) || m.kind != "" && m.kind != c.Kind {
				continue
			}
			looked++
			n, noise := len(before.values(m, c.Number, true)), before.pooled(m, c.Kind)
			if n < 6 || noise.df < 20 {
				o.find(place, "was stopped after %d runs with %s and %d degrees of freedom; the rule looks from 6 and 20 on", n, m.name, noise.df)
			}
			widest = math.Max(widest, math.Expm1(noise.t()*noise.sigma/math.Sqrt(float64(n))))
		}
		if looked == 0 || !(widest <= b.plan.Stop.Width) || !near(widest, s.Width, 0.01) {
			o.find(place, "was stopped at a width of %s%%, by the runs it was %s%%; the rule stops from %s%% on", three(100*s.Width), three(100*widest), three(100*b.plan.Stop.Width))
		}
	}
}

// before is the bench as it was when the run of that place was to be made.
func (b *bench) before(order int) *bench {
	early := &bench{plan: b.plan}
	for _, r := range b.runs {
		if r.Order < order {
			early.runs = append(early.runs, r)
		}
	}
	return early
}

// facing are the logs that a cell's are compared with: of a cell that was stopped, those of the runs before its stop.
func (b *bench) facing(m metric, c *cell) []float64 {
	for _, s := range b.state.Stopped {
		if s.Cell == c.Number {
			b = b.before(s.Order)
		}
	}
	return b.values(m, c.Against, true)
}
