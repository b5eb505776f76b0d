package gate

import (
	"math"
	"slices"

	"github.com/tidemark/tidemark/bench/stats"
	"github.com/tidemark/tidemark/bench/store"
)

// Entered is a cell that a model is fitted to.
type Entered struct {
	Row      []float64 // as the model sees it
	Settings []store.Setting
	Runs     float64 // how many of its runs count
}

// Describe returns the terms of a model with what such cells tell of each: its standard error, where that of one run is 1,
// and the interaction of two settings, outside the model, of which the term would hold most: (X'X)^-1 X'z. inverse is that
// of the cells' information matrix X'X. A plan asks it about the cells to come, an analysis about those that stayed.
func Describe(model []store.Term, inverse [][]float64, cells []Entered) []store.Term {
	out := slices.Clone(model)
	for j := range out {
		out[j].StandardError, out[j].Alias, out[j].AliasShare = math.Sqrt(inverse[1+j][1+j]), "", 0
	}
	for _, z := range beyond(model, cells) {
		right := make([]float64, 1+len(model))
		for _, c := range cells {
			if hasBoth(c.Settings, z.Settings) {
				for k, v := range c.Row {
					right[k] += c.Runs * v
				}
			}
		}
		for j, share := range stats.Times(inverse, right)[1:] {
			share = math.Round(100*math.Round(1e9*share)/1e9) / 100 // twice: half a hundredth must not hang on the last bit
			if math.Abs(share) > math.Abs(out[j].AliasShare) && math.Abs(share) >= 0.05 {
				out[j].Alias, out[j].AliasShare = z.Name, share
			}
		}
	}
	return out
}

// beyond are the pairs of settings that some cell has and that are no term of the model, in the order of the cells.
func beyond(model []store.Term, cells []Entered) (pairs []store.Term) {
	for _, c := range cells {
		for i, a := range c.Settings {
			for _, b := range c.Settings[i+1:] {
				z := store.Term{Name: a.Axis + "=" + a.Value + " × " + b.Axis + "=" + b.Value, Settings: []store.Setting{a, b}}
				same := func(t store.Term) bool { return len(t.Settings) == 2 && hasBoth(t.Settings, z.Settings) }
				if c.Runs > 0 && !slices.ContainsFunc(model, same) && !slices.ContainsFunc(pairs, same) {
					pairs = append(pairs, z)
				}
			}
		}
	}
	return pairs
}

func hasBoth(settings, pair []store.Setting) bool {
	return slices.Contains(settings, pair[0]) && slices.Contains(settings, pair[1])
}
