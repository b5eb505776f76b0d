// Package matrix plans: it turns a suite into cells and the order of their runs.
//
//	axes, exclusions --design--> combinations --+
//	baseline, ladder, probes, capacity ---------+--> cells --seed--> order of runs --> store.Plan
//
// Designs: full (every combination), pairwise (every pair of values of two axes at least once; finds cliffs, supports
// no effects: METHOD 6), one-factor (the baseline with one setting changed), effects (the combinations that tell the terms
// of a model apart best, the baseline as their centre, and five more that the model must foretell). The probes run first, for rates follow
// from what they find; the baseline's repeats are spread evenly over the rest; everything else is shuffled by the
// seed, each cell's repeats in different parts of the run. The package runs nothing, reads no clock and is pure.
package matrix

import (
	"slices"

	"github.com/tidemark/tidemark/bench/suites"
)

// Combination is one choice of values that differ from the baseline.
type Combination []suites.Setting

// Combine returns the combinations that a design makes of the axes, without those that an exclusion matches. The
// order is that of the axes. An exclusion matches when all its settings are in the combination.
func Combine(design string, axes []suites.Axis, exclude [][]suites.Setting) []Combination {
	var all []Combination
	switch design {
	case "full":
		all = full(axes)
	case "pairwise":
		return pairwise(axes, exclude)
	default:
		for _, a := range axes {
			for _, v := range a.Values {
				all = append(all, Combination{v})
			}
		}
	}
	return slices.DeleteFunc(all, func(c Combination) bool { return Excluded(c, exclude) })
}

// Excluded reports whether an exclusion matches the combination.
func Excluded(c Combination, exclude [][]suites.Setting) bool {
	for _, e := range exclude {
		matched := len(e) > 0
		for _, s := range e {
			matched = matched && c.has(s)
		}
		if matched {
			return true
		}
	}
	return false
}

func (c Combination) has(s suites.Setting) bool {
	for _, have := range c {
		if have.Field == s.Field && have.Value == s.Value {
			return true
		}
	}
	return false
}

func full(axes []suites.Axis) []Combination {
	all := []Combination{nil}
	for _, a := range axes {
		var next []Combination
		for _, c := range all {
			for _, v := range a.Values {
				next = append(next, append(slices.Clone(c), v))
			}
		}
		all = next
	}
	return all
}

// pair is two values of two axes, by index.
type pair struct{ axisA, valueA, axisB, valueB int }

// pairwise covers every pair greedily: each new combination starts from the first pair that is still open and gives
// every other axis the value that closes most pairs. Not minimal, but small and the same on every run. Pairs that
// only excluded combinations hold stay open.
func pairwise(axes []suites.Axis, exclude [][]suites.Setting) []Combination {
	if len(axes) < 2 {
		return slices.DeleteFunc(full(axes), func(c Combination) bool { return Excluded(c, exclude) })
	}
	var order []pair
	open := map[pair]bool{}
	for a := range axes {
		for b := a + 1; b < len(axes); b++ {
			for va := range axes[a].Values {
				for vb := range axes[b].Values {
					p := pair{a, va, b, vb}
					order = append(order, p)
					open[p] = true
				}
			}
		}
	}
	var all []Combination
	for _, p := range order {
		if !open[p] {
			continue
		}
		delete(open, p)
		choice := complete(axes, p, open, exclude)
		if choice == nil {
			continue
		}
		c := make(Combination, len(axes))
		for i, v := range choice {
			c[i] = axes[i].Values[v]
		}
		for a := range choice {
			for b := a + 1; b < len(choice); b++ {
				delete(open, pair{a, choice[a], b, choice[b]})
			}
		}
		all = append(all, c)
	}
	return all
}

// complete chooses a value for each axis beside the pair's two, or nil where exclusions leave none. It searches depth
// first, the value that closes most open pairs first.
func complete(axes []suites.Axis, p pair, open map[pair]bool, exclude [][]suites.Setting) []int {
	choice := make([]int, len(axes))
	for i := range choice {
		choice[i] = -1
	}
	choice[p.axisA], choice[p.axisB] = p.valueA, p.valueB
	budget := 10000 // of tries; a thicket of exclusions ends as an open pair, not as an endless search
	var fill func(axis int) bool
	fill = func(axis int) bool {
		if budget--; budget < 0 {
			return false
		}
		if partial := chosen(axes, choice); Excluded(partial, exclude) {
			return false
		}
		for axis < len(axes) && choice[axis] >= 0 {
			axis++
		}
		if axis == len(axes) {
			return true
		}
		values := make([]int, len(axes[axis].Values))
		for i := range values {
			values[i] = i
		}
		slices.SortStableFunc(values, func(x, y int) int { return closes(choice, axis, y, open) - closes(choice, axis, x, open) })
		for _, v := range values {
			choice[axis] = v
			if fill(axis + 1) {
				return true
			}
			choice[axis] = -1
		}
		return false
	}
	if !fill(0) {
		return nil
	}
	return choice
}

func chosen(axes []suites.Axis, choice []int) Combination {
	var c Combination
	for i, v := range choice {
		if v >= 0 {
			c = append(c, axes[i].Values[v])
		}
	}
	return c
}

// closes counts the open pairs that value v of axis would close with what is chosen.
func closes(choice []int, axis, v int, open map[pair]bool) int {
	n := 0
	for other, w := range choice {
		switch {
		case w < 0 || other == axis:
		case other < axis && open[pair{other, w, axis, v}]:
			n++
		case other > axis && open[pair{axis, v, other, w}]:
			n++
		}
	}
	return n
}
