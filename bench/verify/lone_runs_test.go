package verify

import (
	"math"
	"testing"
)

// TestNothingIsLeftOfAnEffectThatOneRunAloneTells: of a run whose column no other has, whatever runs come before and after it.
func TestNothingIsLeftOfAnEffectThatOneRunAloneTells(t *testing.T) {
	const runs = 7
	for place := range runs {
		var x [][]float64
		var y []float64
		for i := range runs {
			row := []float64{1, float64(i % 2), 0}
			if i == place {
				row[2] = 1
			}
			x, y = append(x, row), append(y, row[1]+row[2]+0.01*float64(i*7%5))
		}
		at, _, ok := least(x, y)
		if !ok {
			t.Fatal("columns that cannot be told apart")
		}
		f := &fitted{at: at}
		f.without(x, y)
		lone := comparison{ratio: math.Exp(at[2]), weakest: f.weakest[2]}
		other := comparison{ratio: math.Exp(at[1]), weakest: f.weakest[1]}
		if !math.IsNaN(f.weakest[2]) || !lone.oneRun() || other.oneRun() {
			t.Errorf("run %d alone: of %v without one run %v are left", place, at, f.weakest)
		}
	}
}

// TestTheTailOfFIsTheTables: 5% and 1% points of published tables.
func TestTheTailOfFIsTheTables(t *testing.T) {
	for _, c := range []struct {
		over, df  int
		f, chance float64
	}{{4, 20, 2.866, 0.05}, {1, 30, 4.171, 0.05}, {6, 35, 2.372, 0.05}, {4, 20, 4.431, 0.01}} {
		// One column, over+1 cells of one run each, so far off their mean that F is the table's.
		f := &fitted{at: []float64{0}, noise: noise{sigma: 1, df: c.df}}
		b := &bench{}
		var cells []*cell
		var logs [][]float64
		for range c.over + 1 {
			cells, logs = append(cells, &cell{}), append(logs, []float64{math.Sqrt(c.f * float64(c.over) / float64(c.over+1))})
		}
		f.lacking(b, cells, logs)
		if math.Abs(f.lack-c.chance) > 0.02*c.chance {
			t.Errorf("F=%v on %d and %d: %v, the table says %v", c.f, c.over, c.df, f.lack, c.chance)
		}
	}
}
