package stats_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/tidemark/tidemark/bench/stats"
)

// halves are the rows of all combinations of three settings, twice.
func halves() (x [][]float64) {
	for i := range 16 {
		x = append(x, []float64{1, float64(i & 1), float64(i >> 1 & 1), float64(i >> 2 & 1)})
	}
	return x
}

// fitOf fits cells of two runs each, those of halves.
func fitOf(x [][]float64, values []float64) (*stats.Fit, bool) {
	cells := make([][]float64, 8)
	for i, v := range values {
		cells[i%8] = append(cells[i%8], v)
	}
	return stats.FitOf(x[:8], cells, stats.Pool(cells))
}

func TestAFitFindsWhatWasPutIn(t *testing.T) {
	x := halves()
	values := make([]float64, len(x))
	for i, row := range x {
		values[i] = 3 * math.Pow(2, row[1]) * math.Pow(0.5, row[2]) * math.Exp(0.01*float64(i%3-1))
	}
	f, ok := fitOf(x, values)
	if !ok || f.Noise.DF != 8 || f.Runs != 16 || f.Lack.DF != 4 || !(f.Lack.P > 0.05) {
		t.Fatalf("%+v %v", f, ok)
	}
	for j, want := range []float64{3, 2, 0.5, 1} {
		if r := f.Effect(j); math.Abs(r.Value/want-1) > 0.02 || !r.Contains(want) {
			t.Errorf("column %d: %v [%v %v], want %v", j, r.Value, r.Low, r.High, want)
		}
	}
	if p := f.Predict([]float64{1, 1, 1, 0}, 1, 0.99); !p.Contains(3) || p.Contains(3.3) {
		t.Errorf("prediction %+v", p)
	}
	for _, row := range x {
		row[3] = row[1] // two columns that are one
	}
	if _, ok := fitOf(x, values); ok {
		t.Error("columns that nothing tells apart were fitted")
	}
}

// TestIntervalsOfEffectsAndPredictionsCoverTheTruth: over 1,000 seeds, of 95% and of 99%.
func TestIntervalsOfEffectsAndPredictionsCoverTheTruth(t *testing.T) {
	x := halves()
	effects, predictions := 0, 0
	for seed := range uint64(1000) {
		random := rand.New(rand.NewPCG(seed, 4))
		values := make([]float64, len(x))
		for i, row := range x {
			values[i] = math.Exp(0.3*row[1] - 0.2*row[2] + 0.1*random.NormFloat64())
		}
		f, _ := fitOf(x, values)
		if f.Effect(1).Contains(math.Exp(0.3)) {
			effects++
		}
		if f.Predict([]float64{1, 1, 0, 1}, 2, 0.99).Contains(math.Exp(0.3 + 0.1*(random.NormFloat64()+random.NormFloat64())/2)) {
			predictions++
		}
	}
	if effects < 930 || effects > 970 || predictions < 980 || predictions > 999 {
		t.Errorf("of 1,000: 95%% intervals of an effect held it %d times, 99%% predictions %d", effects, predictions)
	}
}

// TestWhatAModelLacksShowsAgainstRepeats: a model without a term for what two settings do together is refused, a whole one is
// in 5% of all cases. What it leaves over would have said nothing: it holds the missing term.
func TestWhatAModelLacksShowsAgainstRepeats(t *testing.T) {
	x := halves()
	whole, lacking := 0, 0
	for seed := range uint64(1000) {
		random := rand.New(rand.NewPCG(seed, 5))
		values, more := make([]float64, len(x)), make([]float64, len(x))
		for i, row := range x {
			values[i] = math.Exp(0.3*row[1] - 0.2*row[2] + 0.1*random.NormFloat64())
			more[i] = values[i] * math.Exp(0.6*row[1]*row[2])
		}
		if f, _ := fitOf(x, values); f.Lack.P < 0.05 {
			whole++
		}
		if f, _ := fitOf(x, more); f.Lack.P < 0.05 {
			lacking++
		}
	}
	if whole < 30 || whole > 70 || lacking < 900 {
		t.Errorf("of 1,000: refused %d models that lack nothing, %d that lack a term", whole, lacking)
	}
}

// TestRepeatsThatAreAllAlikeMakeNoEffect: what arithmetic leaves of figures that are the same is nothing.
func TestRepeatsThatAreAllAlikeMakeNoEffect(t *testing.T) {
	x := halves()
	values := make([]float64, len(x))
	for i := range values {
		values[i] = 0.1
	}
	f, ok := fitOf(x, values)
	if !ok || f.Lack.P != 1 || f.Effect(1).P != 1 || !f.Predict(x[3], 2, 0.99).Contains(0.1) {
		t.Errorf("%v: lack %+v, effect %+v", ok, f.Lack, f.Effect(1))
	}
	for i, row := range x {
		values[i] *= 1 + row[1]*row[2]
	}
	if f, _ = fitOf(x, values); f.Lack.P != 0 {
		t.Errorf("cells that lie off the model and do not vary: %+v", f.Lack)
	}
}

// TestNothingIsLeftOfAnEffectThatOneRunAloneTells, whatever runs come after it.
func TestNothingIsLeftOfAnEffectThatOneRunAloneTells(t *testing.T) {
	cells := [][]float64{{1, 1.01}, {2}, {0.99, 1, 1.02}}
	f, ok := stats.FitOf([][]float64{{1, 0}, {1, 1}, {1, 0}}, cells, stats.Pool(cells))
	if !ok || !math.IsNaN(f.Effect(1).Weakest) || !f.Effect(1).RestsOnOneRun() || math.IsNaN(f.Effect(0).Weakest) {
		t.Errorf("%v %+v", ok, f.Effect(1))
	}
}

// TestAnEffectThatOneRunMakesIsKnownAsSuch: one stalled run of a design is no effect.
func TestAnEffectThatOneRunMakesIsKnownAsSuch(t *testing.T) {
	x := halves()
	values := make([]float64, len(x))
	for i := range values {
		values[i] = 1 + 0.001*float64(i*7%5)
	}
	values[5] = 20
	f, _ := fitOf(x, values)
	if r := f.Effect(1); !r.RestsOnOneRun() {
		t.Errorf("%v without its one run is %v", r.Value, r.Weakest)
	}
	for i, row := range x {
		values[i] *= math.Pow(3, row[1])
	}
	values[5] = 3
	f, _ = fitOf(x, values)
	if f.Effect(1).RestsOnOneRun() {
		t.Error("an effect of all runs is said to rest on one")
	}
}
