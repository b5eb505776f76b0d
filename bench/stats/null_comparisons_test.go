package stats_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/tidemark/tidemark/bench/stats"
)

// untidy is a bench of cells that do not differ, on a host as hosts are: it drifts over the bench, some runs meet a stall,
// and what is left has tails far heavier than the normal's. Runs are interleaved in random order, as the plan does it.
func untidy(random *rand.Rand, repeats []int) [][]float64 {
	type slot struct{ cell int }
	var order []slot
	for c, n := range repeats {
		for range n {
			order = append(order, slot{c})
		}
	}
	random.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	drift := 0.1 * random.NormFloat64() // from the first run to the last
	walk := 0.0
	cells := make([][]float64, len(repeats))
	for i, s := range order {
		walk += 0.005 * random.NormFloat64()
		log := drift*float64(i)/float64(len(order)) + walk + 0.05*student(random, 5)
		if random.Float64() < 0.05 {
			log += math.Log1p(0.3 * random.ExpFloat64()) // a stall in one run of twenty
		}
		cells[s.cell] = append(cells[s.cell], math.Exp(log))
	}
	return cells
}

// student is a draw with df degrees of freedom.
func student(random *rand.Rand, df int) float64 {
	square := 0.0
	for range df {
		z := random.NormFloat64()
		square += z * z
	}
	return random.NormFloat64() / math.Sqrt(square/float64(df))
}

// TestFalseAlarmsOnAnUntidyHost makes 2,000 null comparisons: the 95% interval misses 1 in 5% of them, and at most 5% read
// better or worse, within one point.
func TestFalseAlarmsOnAnUntidyHost(t *testing.T) {
	const trials, seed = 2000, 21
	random := rand.New(rand.NewPCG(seed, 0))
	repeats := []int{9}
	for range 14 {
		repeats = append(repeats, 2)
	}
	missed, worse, better := 0, 0, 0
	for range trials {
		cells := untidy(random, repeats)
		r := stats.Compare(cells[1], cells[0], stats.Pool(cells))
		if !r.Contains(1) {
			missed++
		}
		switch stats.Decide(r.Change(stats.LowerIsBetter), math.Log1p(0.05)) {
		case stats.Worse:
			worse++
		case stats.Better:
			better++
		}
	}
	share := func(n int) float64 { return 100 * float64(n) / trials }
	if math.Abs(share(missed)-5) > 1 {
		t.Errorf("seed %d: %.2f%% of the intervals miss, want 5%% within one point", seed, share(missed))
	}
	// Stalls are one-sided, so that more of the misses are on the bad side; together they are what is stated.
	if both := share(worse + better); both > 6 || worse == 0 || better == 0 {
		t.Errorf("seed %d: %.2f%% read worse and %.2f%% better, stated are 5%% together", seed, share(worse), share(better))
	}
	t.Logf("missed %.2f%%, worse %.2f%%, better %.2f%%", share(missed), share(worse), share(better))
}

// TestHolmHoldsTheFamily compares six cells with their baseline 2,000 times: in at most 5% of the benches, within one
// point, does any of the six stand.
func TestHolmHoldsTheFamily(t *testing.T) {
	const trials, seed = 2000, 22
	random := rand.New(rand.NewPCG(seed, 0))
	repeats := []int{9}
	for range 14 {
		repeats = append(repeats, 2)
	}
	alarms, fails := 0, 0
	for range trials {
		cells := untidy(random, repeats)
		noise := stats.Pool(cells)
		var p []float64
		var judgements []stats.Judgement
		for i := 1; i <= 6; i++ {
			r := stats.Compare(cells[i], cells[0], noise)
			p = append(p, r.P)
			j := stats.Judgement{Ratio: r, Verdict: stats.Decide(r.Change(stats.LowerIsBetter), math.Log1p(0.05))}
			judgements = append(judgements, j)
		}
		for i, stands := range stats.Holm(p, 0.05) {
			if stands && !judgements[i].Ratio.RestsOnOneRun() {
				alarms++
				break
			}
		}
		if stats.Gate(judgements) == stats.Regression {
			fails++
		}
	}
	if share := 100 * float64(alarms) / trials; share > 6 {
		t.Errorf("seed %d: in %.2f%% of the benches one of six stands by chance, want at most 5%% within one point", seed, share)
	}
	if share := 100 * float64(fails) / trials; share > 3.5 {
		t.Errorf("seed %d: a gate of six fails %.2f%% of identical builds, want at most 2.5%% within one point", seed, share)
	}
	t.Logf("a finding in %.2f%%, a failed gate in %.2f%%", 100*float64(alarms)/trials, 100*float64(fails)/trials)
}

// TestIntervalsCoverClusteredStalls asks for a run's own p99 in 1,000 worlds in which latency comes in stalls: across
// runs the interval of the log of each run's p99 must hold the world's typical p99 in 88 to 98% of them. (Merged counts
// would hold it in a fifth: stalls cluster, so that a run's records are no independent draws.)
func TestIntervalsCoverClusteredStalls(t *testing.T) {
	const seeds = 1000
	truth := stalledP99Log(rand.New(rand.NewPCG(99, 99)), 1500)
	covered, merged := 0, 0
	for seed := range uint64(seeds) {
		random := rand.New(rand.NewPCG(seed, 3))
		var groups [][]float64
		var own []float64
		for cell := range 9 {
			var g []float64
			for range 2 + 4*btoi(cell == 0) {
				g = append(g, stalledP99(random))
			}
			groups = append(groups, g)
			if cell == 0 {
				own = g
			}
		}
		if e := stats.Mean(own, stats.Pool(groups)); e.Contains(math.Exp(truth)) {
			covered++
		}
		// Order statistics of the pooled records, as if they were independent: about 600 of 60,000 lie above.
		if half := 1.96 / math.Sqrt(600); math.Abs(math.Log(own[0])-truth) < half {
			merged++
		}
	}
	if share := 100 * float64(covered) / seeds; share < 88 || share > 98 {
		t.Errorf("%.1f%% of the intervals cover the truth, want 88 to 98", share)
	}
	if share := 100 * float64(merged) / seeds; share > 50 {
		t.Errorf("intervals from merged counts cover %.1f%%: the world has no clustered stalls and the test shows nothing", share)
	}
	t.Logf("covered %.1f%%, from merged counts %.1f%%", 100*float64(covered)/seeds, 100*float64(merged)/seeds)
}

// stalledP99 is the p99 in ms of one run: 60 seconds, most of them quiet, a Poisson number of stalls that each hold up
// a stretch of records.
func stalledP99(random *rand.Rand) float64 {
	const seconds, parts = 60, 1000 // the run is cut into slots of 60 ms
	late := make([]float64, parts)
	for i := range late {
		late[i] = 1 + 0.2*random.ExpFloat64()
	}
	for at := random.ExpFloat64() * 2; at < seconds; at += random.ExpFloat64() * 2 {
		length := 0.005 + 0.05*random.ExpFloat64()
		for t := 0.0; t < length; t += seconds / float64(parts) {
			if slot := int((at + t) / seconds * parts); slot < parts {
				late[slot] += 1000 * (length - t)
			}
		}
	}
	// The hundredth part that is latest.
	k := parts / 100
	top := make([]float64, 0, k+1)
	for _, v := range late {
		i := len(top)
		for i > 0 && top[i-1] < v {
			i--
		}
		if i <= k {
			top = append(top[:i], append([]float64{v}, top[i:]...)...)
			top = top[:min(len(top), k+1)]
		}
	}
	return top[k]
}

func stalledP99Log(random *rand.Rand, runs int) float64 {
	sum := 0.0
	for range runs {
		sum += math.Log(stalledP99(random))
	}
	return sum / float64(runs)
}
