package gate

import (
	"slices"

	"github.com/tidemark/tidemark/bench/stats"
	"github.com/tidemark/tidemark/bench/store"
)

// Compare compares candidate with baseline, cell by cell of the same name and kind, for the metrics that keep passes;
// nil keeps all. Noise is pooled over both folders. Cells that only one side has are listed in missing; cells that ask two
// questions (Different) are not compared.
func Compare(baseline, candidate *store.Data, allowance float64, keep func(store.Metric) bool) (comparisons []Comparison, missing []string) {
	names := map[string]bool{}
	for _, c := range candidate.Plan.Cells {
		names[c.Name] = true
	}
	for _, c := range baseline.Plan.Cells {
		if !names[c.Name] {
			missing = append(missing, c.Name)
		}
	}
	for i := range candidate.Plan.Cells {
		c := &candidate.Plan.Cells[i]
		b := cellNamed(baseline, c)
		if b == nil {
			missing = append(missing, c.Name)
			continue
		}
		if unlike(baseline, candidate, b, c) != "" {
			continue
		}
		for _, m := range store.Metrics() {
			if m.Kind != "" && m.Kind != c.Kind || keep != nil && !keep(m) {
				continue
			}
			old, fresh := m.RatioValues(baseline, b.Number), m.RatioValues(candidate, c.Number)
			if len(old) == 0 && len(fresh) == 0 {
				continue
			}
			noise := stats.Pool(append(groups(baseline, m, c.Kind), groups(candidate, m, c.Kind)...))
			comparisons = append(comparisons, Comparison{
				Metric: m, Cell: c.Number, Against: b.Number, Primary: isPrimary(candidate, c),
				Judgement: stats.Judge(stats.Compare(fresh, old, noise), m.Direction, allowance),
			})
		}
	}
	settle(comparisons)
	slices.Sort(missing)
	return comparisons, slices.Compact(missing)
}

func cellNamed(d *store.Data, like *store.Cell) *store.Cell {
	for i := range d.Plan.Cells {
		if c := &d.Plan.Cells[i]; c.Name == like.Name && c.Kind == like.Kind {
			return c
		}
	}
	return nil
}

// Verification judges the candidate's data: lost or damaged records and invalid runs (repeated or reordered records that
// no retry explains are among their reasons) are a regression whatever the speed; without runs nothing can be told.
func Verification(d *store.Data) stats.Outcome {
	n := count(d)
	switch {
	case n.Lost+n.Corrupt > 0 || n.CellsInvalid+n.CellsFailed > 0:
		return stats.Regression
	case len(d.Runs) == 0:
		return stats.Inconclusive
	}
	return stats.Pass
}
