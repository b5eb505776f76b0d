package stats_test

import (
	"math/rand/v2"
	"testing"

	"github.com/tidemark/tidemark/bench/stats"
)

// TestASearchGoesOnWithoutRunsThatTellNothing: a generator at its limit is no failure of the target, and no pass either. The
// search ends, asks no rate more often than it may, and claims no bound that such a run would have to carry.
func TestASearchGoesOnWithoutRunsThatTellNothing(t *testing.T) {
	for name, c := range map[string]struct {
		run   func(rate float64) (passed, told bool)
		low   float64
		high  float64
		found bool
	}{
		"all tell":         {func(r float64) (bool, bool) { return r <= 5, true }, 5, 6, true},
		"silent above 7":   {func(r float64) (bool, bool) { return r <= 5, r <= 7 }, 5, 6, true},
		"silent above 4":   {func(r float64) (bool, bool) { return true, r <= 4 }, 4, 0, false},
		"silent at 6":      {func(r float64) (bool, bool) { return r <= 5, r != 6 }, 5, 7, true},
		"silent below 3":   {func(r float64) (bool, bool) { return false, r >= 3 }, 0, 3, false},
		"silent all along": {func(float64) (bool, bool) { return true, false }, 0, 0, false},
	} {
		for seed := range uint64(50) {
			s := stats.NewSearch([]float64{1, 2, 3, 4, 5, 6, 7, 8, 9}, rand.New(rand.NewPCG(seed, 9)))
			asked := map[float64]int{}
			for runs := 0; ; runs++ {
				rate, more := s.Next()
				if !more {
					break
				}
				if asked[rate]++; asked[rate] > stats.SearchRuns || runs > 100 {
					t.Fatalf("%s, seed %d: rate %v for the %dth time, run %d", name, seed, rate, asked[rate], runs)
				}
				if passed, told := c.run(rate); told {
					s.Record(rate, passed)
				} else {
					s.Skip(rate)
				}
			}
			b := s.Bracket()
			if b.Low != c.low || b.High != c.high || b.Found != c.found {
				t.Errorf("%s, seed %d: %+v, want %v to %v", name, seed, b, c.low, c.high)
			}
		}
	}
}

// TestARateWithARunThatToldNothingBoundsNothing: two of its fresh runs may agree with the ladder's, which are three runs and no
// three fresh ones.
func TestARateWithARunThatToldNothingBoundsNothing(t *testing.T) {
	for seed := range uint64(50) {
		s := stats.NewSearch([]float64{1, 2, 3, 4, 5, 6, 7, 8, 9}, rand.New(rand.NewPCG(seed, 9)))
		asked := map[float64]int{}
		for rate, more := s.Next(); more; rate, more = s.Next() {
			if asked[rate]++; (rate == 5 || rate == 6) && asked[rate] == stats.SearchRuns {
				s.Skip(rate)
			} else {
				s.Record(rate, rate <= 5)
			}
		}
		if b := s.Bracket(); b.Low != 4 || b.High != 7 || !b.Found {
			t.Errorf("seed %d: %+v, want 4 to 7", seed, b)
		}
	}
}
