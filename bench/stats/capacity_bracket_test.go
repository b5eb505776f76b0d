package stats_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/tidemark/tidemark/bench/stats"
)

// queue is a server with one line (M/M/1): at offered rate l a record takes longer than t with probability
// exp(-(mu-l)t), so that the rate at which the p99 meets an objective is known exactly.
type queue struct {
	mu, objective float64
	random        *rand.Rand
}

// truth is the highest rate whose p99 is within the objective.
func (q *queue) truth() float64 { return q.mu - math.Log(100)/q.objective }

// run offers a rate for n records and reports whether their p99 was within the objective.
func (q *queue) run(rate float64, n int) bool {
	late, wait := 0, 0.0
	if rate < q.mu && q.random.Float64() < rate/q.mu { // warmed up: the line is as long as it usually is
		wait = q.random.ExpFloat64() / (q.mu - rate)
	}
	for range n {
		service := q.random.ExpFloat64() / q.mu
		if wait+service > q.objective {
			if late++; 100*late > n {
				return false
			}
		}
		wait = max(0, wait+service-q.random.ExpFloat64()/rate)
	}
	return true
}

// TestTheCapacityBracketHoldsTheTruth searches 1,000 simulated queues, each of another speed against the rungs.
func TestTheCapacityBracketHoldsTheTruth(t *testing.T) {
	const seeds = 1000
	held, found, width := 0, 0, 0.0
	for seed := range uint64(seeds) {
		random := rand.New(rand.NewPCG(seed, 1))
		q := &queue{mu: 1000 * math.Exp(random.Float64()-0.5), objective: 0.0154, random: random}
		var rungs []float64
		for r := 200.0; r < 1800; r *= 1.15 {
			rungs = append(rungs, r)
		}
		s := stats.NewSearch(rungs, random)
		for runs := 0; ; runs++ {
			rate, ok := s.Next()
			if !ok {
				break
			}
			if runs > 100 {
				t.Fatalf("seed %d: the search does not end", seed)
			}
			s.Record(rate, q.run(rate, 2000))
		}
		b := s.Bracket()
		if !b.Found {
			continue
		}
		found++
		width += math.Log(b.High / b.Low)
		if b.Low <= q.truth() && q.truth() <= b.High {
			held++
		}
	}
	if found < seeds*95/100 {
		t.Errorf("%d of %d searches found a bracket", found, seeds)
	}
	if share := float64(held) / float64(found); share < 0.95 {
		t.Errorf("%.1f%% of %d brackets hold the truth, want 95%%", 100*share, found)
	}
	if mean := math.Exp(width / float64(found)); mean > 1.7 {
		t.Errorf("brackets are x%.2f wide: that is no finding", mean)
	}
	t.Logf("found %d, held %d, mean width x%.2f", found, held, math.Exp(width/float64(found)))
}

func TestABracketNeedsThreeRunsThatAgree(t *testing.T) {
	for name, c := range map[string]struct {
		probes    []stats.Probe
		low, high float64
		found     bool
	}{
		"nothing":                   {nil, 0, 0, false},
		"two runs":                  {[]stats.Probe{{Rate: 1, Passed: 2}, {Rate: 2, Failed: 2}}, 0, 0, false},
		"three and three":           {[]stats.Probe{{Rate: 2, Failed: 3}, {Rate: 1, Passed: 3}}, 1, 2, true},
		"one rate in parts":         {[]stats.Probe{{Rate: 1, Passed: 2}, {Rate: 1, Passed: 1}, {Rate: 2, Failed: 3}}, 1, 2, true},
		"between is open":           {[]stats.Probe{{Rate: 1, Passed: 3}, {Rate: 2, Passed: 1, Failed: 2}, {Rate: 3, Failed: 3}}, 1, 3, true},
		"nothing failed":            {[]stats.Probe{{Rate: 1, Passed: 3}, {Rate: 2, Passed: 3}}, 2, 0, false},
		"nothing passed":            {[]stats.Probe{{Rate: 1, Failed: 3}}, 0, 1, false},
		"a pass above a failure":    {[]stats.Probe{{Rate: 1, Passed: 3}, {Rate: 2, Failed: 3}, {Rate: 3, Passed: 3}, {Rate: 4, Failed: 3}}, 1, 4, true},
		"a rate that is no number":  {[]stats.Probe{{Rate: math.NaN(), Passed: 3}, {Rate: 1, Passed: 3}, {Rate: 2, Failed: 3}}, 1, 2, true},
		"the ladder's, two fresh":   {[]stats.Probe{{Rate: 1, Passed: 3, Climbed: 1}, {Rate: 2, Failed: 3}}, 0, 2, false},
		"the ladder's, three fresh": {[]stats.Probe{{Rate: 1, Passed: 4, Climbed: 1}, {Rate: 2, Failed: 2}, {Rate: 2, Failed: 2, Climbed: 1}}, 1, 2, true},
		"the ladder's own failed":   {[]stats.Probe{{Rate: 1, Passed: 3}, {Rate: 2, Passed: 3, Failed: 1, Climbed: 1}, {Rate: 3, Failed: 3}}, 1, 3, true},
		"one run tells nothing":     {[]stats.Probe{{Rate: 1, Passed: 3}, {Rate: 2, Passed: 3, Untold: 1}, {Rate: 3, Failed: 3, Untold: 1}, {Rate: 4, Failed: 3}}, 1, 4, true},
		"no run at a rate of a row": {[]stats.Probe{{Rate: 1}, {Rate: 2, Passed: 3}, {Rate: 3, Failed: 3}}, 2, 3, true},
	} {
		b := stats.BracketOf(c.probes)
		if b.Low != c.low || b.High != c.high || b.Found != c.found || b.Found != (b.Why == "") {
			t.Errorf("%s: %+v, want %v to %v, found %v", name, b, c.low, c.high, c.found)
		}
	}
}
