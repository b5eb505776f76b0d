package gate

import (
	"math"
	"slices"

	"github.com/tidemark/tidemark/bench/stats"
	"github.com/tidemark/tidemark/bench/store"
)

// FirstLook is how many runs of a cell a stop rule lets happen before it looks (METHOD 6).
const FirstLook = 6

// Narrow reports whether a cell's runs so far are enough by the plan's stop rule: at least FirstLook runs of each metric
// that the rule names, noise that verdicts could rest on, and intervals no wider than the rule says. It looks at widths
// alone. A rule that looked at ratios or verdicts would end each cell in the moment in which chance favours it.
func Narrow(d *store.Data, c *store.Cell) (widest float64, narrow bool) {
	rule := d.Plan.Stop
	if rule == nil || c.Role == store.Baseline || c.Role == store.Probe || c.Searched {
		return 0, false
	}
	looked := 0
	for _, m := range store.Metrics() {
		if !slices.Contains(rule.Metrics, m.Name) || m.Kind != "" && m.Kind != c.Kind {
			continue
		}
		looked++
		noise := stats.Pool(groups(d, m, c.Kind))
		n := len(m.RatioValues(d, c.Number))
		if n < FirstLook || noise.DF < stats.MinDF {
			return math.NaN(), false
		}
		widest = max(widest, math.Expm1(noise.T()*noise.Sigma/math.Sqrt(float64(n))))
	}
	return widest, looked > 0 && widest <= rule.Width
}
