package gate

import (
	"fmt"
	"math"

	"github.com/tidemark/tidemark/bench/stats"
	"github.com/tidemark/tidemark/bench/store"
	"github.com/tidemark/tidemark/loadgen/workload"
)

// Cliff is a combination of a pairwise design that failed, was saturated or sits far off. It says where to look and is no
// effect of any setting: each combination changes several at once (METHOD 6).
type Cliff struct {
	Cell int
	Why  string
}

// farOff is how many times the middle of all combinations a figure must be, up or down, to be a cliff.
const farOff = 3

// Cliffs lists them in the order of the cells; nil for another design.
func Cliffs(d *store.Data, a *Analysis) (list []Cliff) {
	if d.Plan.Design != store.Pairwise {
		return nil
	}
	middles := map[string]float64{}
	for i := range d.Plan.Cells {
		c := &d.Plan.Cells[i]
		if c.Role != store.Axis {
			continue
		}
		if why := broke(d, c); why != "" {
			list = append(list, Cliff{c.Number, why})
			continue
		}
		for _, name := range []string{mainMetric(c), "CPU per GB"} {
			e, ok := a.Estimate(c.Number, name)
			if !ok {
				continue
			}
			if _, ok := middles[name]; !ok {
				middles[name] = middleOf(d, a, name)
			}
			middle := middles[name]
			r := e.Estimate.Value / middle
			if (r >= farOff || r <= 1.0/farOff) && !e.Estimate.Contains(middle) {
				list = append(list, Cliff{c.Number, fmt.Sprintf("%s is x%.2g of the middle of all combinations", name, r)})
				break
			}
		}
	}
	return list
}

// mainMetric is the latency that a cell is judged by.
func mainMetric(c *store.Cell) string {
	if c.Asked.Acks == workload.AcksNone {
		return "delivery p99"
	}
	return "ack p99"
}

// broke is the worst state of a cell's runs; "" where all of them count or the generator was the limit.
func broke(d *store.Data, c *store.Cell) string {
	for _, state := range []store.RunStatus{store.Broken, store.Invalid, store.Saturated, store.Throttled} {
		n, all := 0, 0
		for _, r := range d.RunsOf(c.Number) {
			all++
			if r.Status == state {
				n++
			}
		}
		if n > 0 {
			return fmt.Sprintf("%d of %d runs %s", n, all, state)
		}
	}
	return ""
}

// middleOf is the median of a metric over all combinations.
func middleOf(d *store.Data, a *Analysis, metric string) float64 {
	var all []float64
	for _, e := range a.Estimates {
		if c := d.Cell(e.Cell); c.Role == store.Axis && e.Metric.Name == metric && !math.IsNaN(e.Estimate.Value) {
			all = append(all, e.Estimate.Value)
		}
	}
	return stats.Median(all)
}
