package matrix

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tidemark/tidemark/bench/gate"
	"github.com/tidemark/tidemark/bench/stats"
	"github.com/tidemark/tidemark/bench/store"
	"github.com/tidemark/tidemark/bench/suites"
	"github.com/tidemark/tidemark/loadgen/workload"
)

// stopLooks refuses a stop rule that could never stop a cell: of unknown metrics, of metrics that no cell with more runs than
// the first look has, or over too few runs for noise to be known by then.
func stopLooks(s *suites.Suite, p *store.Plan) error {
	if p.Stop == nil {
		return nil
	}
	fail := func(format string, a ...any) error {
		return fmt.Errorf("%s: stop: %s: %w", s.File, fmt.Sprintf(format, a...), suites.ErrSuite)
	}
	var known []string
	for _, m := range store.Metrics() {
		known = append(known, m.Name)
	}
	for i, name := range p.Stop.Metrics {
		if slices.Contains(p.Stop.Metrics[:i], name) {
			return fail("metric %q stands twice", name)
		}
		if !slices.Contains(known, name) {
			hint := "; known are " + strings.Join(known, ", ")
			if near := workload.Nearest(name, known); near != "" {
				hint = fmt.Sprintf(" (did you mean %q?)", near)
			}
			return fail("unknown metric %q%s", name, hint)
		}
		m, _ := store.MetricNamed(name)
		looked, df := false, 0
		for _, c := range p.Cells {
			if m.Kind != "" && m.Kind != c.Kind || c.Searched {
				continue
			}
			df += c.Repeats - 1
			looked = looked || c.Repeats > gate.FirstLook && c.Role != store.Baseline && c.Role != store.Probe
		}
		switch {
		case !looked:
			return fail("%s is first looked at after %d runs of a cell, and no cell that has it runs oftener (the baseline makes all of its runs): more repeats, or no rule", name, gate.FirstLook)
		case df < stats.MinDF:
			return fail("%s will rest on %d degrees of freedom, and a rule looks from %d on: more repeats, or no rule", name, df, stats.MinDF)
		}
	}
	return nil
}
