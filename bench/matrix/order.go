package matrix

import (
	"math/rand/v2"

	"github.com/tidemark/tidemark/bench/store"
)

// Order returns the runs of the cells: probes first, then rounds. Round k holds every cell's k-th repeat, shuffled by
// the seed, so that slow drift of the host meets all cells alike; the baseline's repeats are then dealt out at even
// distances over the whole.
func Order(cells []store.Cell, seed uint64) []store.RunPlan {
	random := rand.New(rand.NewPCG(seed, 0x7469_6465_6d61_726b))
	var probes, baseline, rest []store.RunPlan
	rounds := 0
	for _, c := range cells {
		rounds = max(rounds, c.Repeats)
	}
	for repeat := 1; repeat <= rounds; repeat++ {
		var round []store.RunPlan
		for _, c := range cells {
			if repeat > c.Repeats || c.Searched {
				continue
			}
			run := store.RunPlan{Cell: c.Number, Repeat: repeat, Seed: mix(seed, uint64(c.Number), uint64(repeat))}
			switch c.Role {
			case store.Probe:
				probes = append(probes, run)
			case store.Baseline:
				baseline = append(baseline, run)
			default:
				round = append(round, run)
			}
		}
		random.Shuffle(len(round), func(i, j int) { round[i], round[j] = round[j], round[i] })
		rest = append(rest, round...)
	}
	return append(probes, deal(baseline, rest)...)
}

// Searched returns the runs that a search for the capacity under the objective may make, by cell and repeat; it makes those
// that it needs, in an order of its own.
func Searched(cells []store.Cell, seed uint64) []store.RunPlan {
	var out []store.RunPlan
	for _, c := range cells {
		for repeat := 1; repeat <= c.Repeats && c.Searched; repeat++ {
			out = append(out, store.RunPlan{Cell: c.Number, Repeat: repeat, Seed: mix(seed, uint64(c.Number), uint64(repeat))})
		}
	}
	return out
}

// Profiled returns the runs that carry heavy profiles: one for each cell that is to have one, after all others.
func Profiled(cells []store.Cell, seed uint64) []store.RunPlan {
	var out []store.RunPlan
	for _, c := range cells {
		if c.Profiled {
			out = append(out, store.RunPlan{Cell: c.Number, Repeat: c.Repeats + 1, Seed: mix(seed, uint64(c.Number), uint64(c.Repeats+1))})
		}
	}
	return out
}

// deal puts the baseline's n runs at the middles of n equal parts of the whole.
func deal(baseline, rest []store.RunPlan) []store.RunPlan {
	total := len(baseline) + len(rest)
	out := make([]store.RunPlan, 0, total)
	dealt := 0
	for place := range total {
		due := dealt < len(baseline) && place >= (2*dealt+1)*total/(2*len(baseline))
		if due || len(rest) == 0 {
			out = append(out, baseline[dealt])
			dealt++
			continue
		}
		out = append(out, rest[0])
		rest = rest[1:]
	}
	return out
}

// mix spreads a seed over cells and repeats (the finaliser of splitmix64); the result is never 0.
func mix(seed, cell, repeat uint64) uint64 {
	z := seed + 0x9e3779b97f4a7c15*(cell<<20|repeat)
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	z ^= z >> 31
	return max(z>>11, 1) // 53 bits: the same number in YAML, JSON and JavaScript
}
