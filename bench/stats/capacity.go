package stats

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
)

// freshRuns is how many fresh runs at a rate must all pass, or all fail, before the rate bounds a capacity. The ladder's own
// run at a rate is not one of them: which rates are probed depends on it.
const freshRuns = 3

// Probe is what the runs at one offered rate said about an objective. Passing includes that the rate was held, that the
// backlog did not grow and that there were no errors.
type Probe struct {
	Rate   float64 `json:"rate"`
	Passed int     `json:"passed"`
	Failed int     `json:"failed"`
	// Climbed of these are the ladder's own runs, which are not fresh. Untold runs told nothing: the rate bounds nothing then.
	Climbed int `json:"climbed,omitempty"`
	Untold  int `json:"untold,omitempty"`
}

// Bracket is a capacity under an objective: it lies between Low, the highest rate of which three of three runs passed,
// and High, the lowest of which three of three failed.
type Bracket struct {
	Low   float64 `json:"low"`  // 0: no rate passed
	High  float64 `json:"high"` // 0: no rate failed
	Found bool    `json:"found"`
	// Why says what is missing where Found is false.
	Why string `json:"why"`
}

// BracketOf finds the bracket in probes of any order. Passing falls with the rate, so a monotone fit goes over all of
// them first (pool adjacent violators): a rate at which every run passed bounds nothing where the fit, which knows the
// failures below it, says otherwise.
func BracketOf(probes []Probe) Bracket {
	fit := monotone(probes)
	var b Bracket
	for _, p := range fit {
		switch fresh := p.Passed + p.Failed - p.Climbed; {
		case fresh < freshRuns || p.Untold > 0:
		case p.share == 1 && p.Failed == 0:
			b.Low = p.Rate
		case p.share == 0 && p.Passed == 0 && b.High == 0:
			b.High = p.Rate
		}
	}
	switch {
	case len(fit) == 0:
		b.Why = "no rate was tried"
	case b.Low == 0 && b.High == 0:
		b.Why = "no rate has three runs that agree"
	case b.Low == 0:
		b.Why = "no rate passed three of three runs"
	case b.High == 0:
		b.Why = "no rate failed three of three runs"
	default:
		b.Found = true
	}
	return b
}

type fitted struct {
	Probe
	share float64 // of runs that pass, after the fit
}

// monotone merges probes of one rate, orders them, and fits shares of passing that never rise with the rate.
func monotone(probes []Probe) []fitted {
	byRate := map[float64]Probe{}
	for _, p := range probes {
		if math.IsNaN(p.Rate) || p.Rate <= 0 {
			continue
		}
		q := byRate[p.Rate]
		byRate[p.Rate] = Probe{p.Rate, q.Passed + p.Passed, q.Failed + p.Failed, q.Climbed + p.Climbed, q.Untold + p.Untold}
	}
	var out []fitted
	for _, p := range byRate {
		if p.Passed+p.Failed > 0 {
			out = append(out, fitted{Probe: p})
		}
	}
	slices.SortFunc(out, func(a, b fitted) int { return cmp.Compare(a.Rate, b.Rate) })
	type block struct{ passed, all, rates int }
	var blocks []block
	for _, p := range out {
		blocks = append(blocks, block{p.Passed, p.Passed + p.Failed, 1})
		for n := len(blocks); n > 1; n = len(blocks) {
			a, b := blocks[n-2], blocks[n-1]
			if a.passed*b.all >= b.passed*a.all { // shares fall, or stay
				break
			}
			blocks = append(blocks[:n-2], block{a.passed + b.passed, a.all + b.all, a.rates + b.rates})
		}
	}
	i := 0
	for _, b := range blocks {
		for range b.rates {
			out[i].share = float64(b.passed) / float64(b.all)
			i++
		}
	}
	return out
}

// Search finds a capacity under an objective: an ascending ladder, one run a rung, until the objective broke twice; then
// the rungs around the break, in random order, until each has three fresh runs. It decides only which rate comes next; the
// caller makes each run on drained partitions and clean pages. It is not safe for concurrent use.
type Search struct {
	rungs  []float64
	probes []Probe
	random *rand.Rand
	broke  int
	climb  int       // next rung of the ladder
	queue  []float64 // after the ladder
	around bool
	silent map[float64]bool // rates at which a run told nothing
}

// SearchRuns is how often a search runs a rate at most: once on the ladder, and the fresh runs.
const SearchRuns = 1 + freshRuns

// NewSearch makes a search over the rates of a ladder, which it sorts; random decides the order of the probes.
func NewSearch(rates []float64, random *rand.Rand) *Search {
	rungs := slices.Clone(rates)
	slices.Sort(rungs)
	return &Search{rungs: slices.Compact(rungs), random: random}
}

// Next is the rate to try next; ok is false where the search is over.
func (s *Search) Next() (rate float64, ok bool) {
	if s.broke < 2 && s.climb < len(s.rungs) {
		return s.rungs[s.climb], true
	}
	if !s.around {
		s.around = true
		s.plan()
	}
	if len(s.queue) == 0 && !s.widen() {
		return 0, false
	}
	return s.queue[0], true
}

// Record takes the outcome of a run at the rate that Next gave.
func (s *Search) Record(rate float64, passed bool) {
	p := Probe{Rate: rate, Failed: 1}
	if passed {
		p = Probe{Rate: rate, Passed: 1}
	}
	if !s.around {
		p.Climbed = 1
	}
	s.probes = append(s.probes, p)
	if s.around {
		s.queue = s.queue[1:]
		return
	}
	s.climb++
	if !passed {
		s.broke++
	}
}

// Skip takes note that the run at the rate which Next gave tells nothing: a generator that was the limit, a target that
// throttled. The rate bounds nothing then and is asked no more, and a climb ends, for what kept this run from telling
// keeps those above it too.
func (s *Search) Skip(rate float64) {
	if s.silent == nil {
		s.silent = map[float64]bool{}
	}
	s.silent[rate] = true
	if !s.around {
		s.climb = len(s.rungs)
		return
	}
	s.queue = slices.DeleteFunc(s.queue, func(r float64) bool { return r == rate })
}

// Bracket is what has been found so far.
func (s *Search) Bracket() Bracket {
	probes := slices.Clone(s.probes)
	for rate := range s.silent {
		probes = append(probes, Probe{Rate: rate, Untold: 1})
	}
	return BracketOf(probes)
}

// plan queues the runs that rungs around the break still need.
func (s *Search) plan() {
	first := slices.IndexFunc(s.probes, func(p Probe) bool { return p.Failed > 0 })
	if first < 0 {
		first = len(s.probes) - 1
	}
	for i := max(0, first-2); i <= min(first+2, len(s.rungs)-1); i++ {
		s.fill(s.rungs[i])
	}
	s.random.Shuffle(len(s.queue), func(i, j int) { s.queue[i], s.queue[j] = s.queue[j], s.queue[i] })
}

// widen goes one rung further on the side that has no bound yet.
func (s *Search) widen() bool {
	b := s.Bracket()
	low, high := math.Inf(1), 0.0
	for _, p := range monotone(s.probes) {
		if p.Passed+p.Failed >= freshRuns {
			low, high = min(low, p.Rate), max(high, p.Rate)
		}
	}
	for i := range s.rungs {
		down := s.rungs[len(s.rungs)-1-i]
		if b.Low == 0 && down < low && !s.silent[down] {
			s.fill(down)
			break
		}
	}
	for _, up := range s.rungs {
		if b.High == 0 && up > high && !s.silent[up] {
			s.fill(up)
			break
		}
	}
	return len(s.queue) > 0
}

func (s *Search) fill(rate float64) {
	if s.silent[rate] {
		return
	}
	for range freshRuns {
		s.queue = append(s.queue, rate)
	}
}
