package workload

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// chiSquareP is the probability of a statistic at least as large where counts follow the shares. Cells with small
// expectations are put together.
func chiSquareP(counts []int64, shares []float64) float64 {
	total := 0.0
	for _, c := range counts {
		total += float64(c)
	}
	statistic, cells := 0.0, 0
	pooledCount, pooledExpect := 0.0, 0.0
	for i, c := range counts {
		pooledCount, pooledExpect = pooledCount+float64(c), pooledExpect+shares[i]*total
		if pooledExpect >= 20 || i == len(counts)-1 {
			d := pooledCount - pooledExpect
			statistic += d * d / pooledExpect
			cells++
			pooledCount, pooledExpect = 0, 0
		}
	}
	return 1 - distuv.ChiSquared{K: float64(cells - 1)}.CDF(statistic)
}

func TestZipfIsExactForAnyExponent(t *testing.T) {
	draws := 500000
	if testing.Short() {
		draws = 50000
	}
	if NewKeySpace(Keys{Kind: KeysZipf, N: 1, S: 1.1}).Picker(7, 0).Next() != 0 {
		t.Error("one key is not always that key")
	}
	for _, s := range []float64{0, 0.5, 0.99, 1, 1.1, 2.5} {
		for _, n := range []int{2, 1000, 4096} {
			k := Keys{Kind: KeysZipf, N: n, S: s}
			shares, sum := make([]float64, n), 0.0
			for i := range shares {
				shares[i] = math.Pow(float64(i+1), -s)
				sum += shares[i]
			}
			for i := range shares {
				shares[i] /= sum
			}
			counts := make([]int64, n)
			space := NewKeySpace(k)
			for producer := range int32(4) {
				p := space.Picker(7, producer)
				for range draws {
					counts[p.Next()]++
				}
			}
			if p := chiSquareP(counts, shares); p < 1e-4 {
				t.Errorf("zipf(%d, %v): chi-square p = %v", n, s, p)
			}
		}
	}
}

func TestHotKeysTakeTheirShare(t *testing.T) {
	p := NewKeySpace(Keys{Kind: KeysHot, N: 1000, Share: 0.9, Fraction: 0.01}).Picker(1, 0)
	counts := make([]int64, 1000)
	shares := make([]float64, 1000)
	for i := range shares {
		shares[i] = 0.1 / 990
		if i < 10 {
			shares[i] = 0.09
		}
	}
	for range 1000000 {
		counts[p.Next()]++
	}
	if p := chiSquareP(counts, shares); p < 1e-4 {
		t.Errorf("hot(0.9, 0.01): chi-square p = %v", p)
	}
}

func TestOtherKeys(t *testing.T) {
	if n := NewKeySpace(Keys{Kind: KeysNone}).Picker(1, 0).Next(); n != -1 {
		t.Errorf("none gave key %d", n)
	}
	p := NewKeySpace(Keys{Kind: KeysRoundRobin, N: 5}).Picker(1, 3)
	counts := make([]int, 5)
	for range 50 {
		counts[p.Next()]++
	}
	if slices.Min(counts) != 10 || slices.Max(counts) != 10 {
		t.Errorf("roundrobin(5) gave %v", counts)
	}
	if got := string(AppendKey(nil, 0x0123abcd)); got != "0123abcd" || len(got) != KeyBytes {
		t.Errorf("key is %q", got)
	}
}

func TestStreamsDifferAndDependOnNothingElse(t *testing.T) {
	seen := map[uint64]string{}
	for seed := range uint64(20) {
		for producer := range int32(20) {
			for purpose := ForArrivals; purpose <= ForPartitions; purpose++ {
				a, b := NewStream(seed, producer, purpose), NewStream(seed, producer, purpose)
				first := a.Uint64()
				if first != b.Uint64() {
					t.Fatal("the same stream twice gives different draws")
				}
				name := fmt.Sprint(seed, producer, purpose)
				if other, ok := seen[first]; ok {
					t.Errorf("streams %s and %s begin alike", name, other)
				}
				seen[first] = name
			}
		}
	}
}

// TestProducersGapsAreUncorrelated would fail with fastrand seeded by producer number: first draws then follow each
// other. Both the first gap over many producers and whole series of pairs are looked at.
func TestProducersGapsAreUncorrelated(t *testing.T) {
	const producers = 64
	gaps := 4096
	if testing.Short() {
		gaps = 512
	}
	series := make([][]float64, producers)
	for p := range series {
		s := NewStream(1, int32(p), ForArrivals)
		for range gaps {
			series[p] = append(series[p], s.Exponential())
		}
	}
	bound := 5 / math.Sqrt(float64(gaps)) // five standard deviations, 2016 pairs
	for a := range series {
		for b := range a {
			if r := stat.Correlation(series[a], series[b], nil); math.Abs(r) > bound {
				t.Errorf("producers %d and %d: correlation %v", a, b, r)
			}
		}
		if r := stat.Correlation(series[a][1:], series[a][:gaps-1], nil); math.Abs(r) > bound {
			t.Errorf("producer %d: gaps follow each other, %v", a, r)
		}
	}
	var first []float64
	for p := range 4096 {
		s := NewStream(1, int32(p), ForArrivals)
		first = append(first, s.Exponential())
	}
	if r := stat.Correlation(first[1:], first[:len(first)-1], nil); math.Abs(r) > 5/math.Sqrt(4096) {
		t.Errorf("first draws of neighbouring producers: correlation %v", r)
	}
	if mean := stat.Mean(first, nil); math.Abs(mean-1) > 5/math.Sqrt(4096) {
		t.Errorf("first gaps have mean %v", mean)
	}
}

func TestSizesFollowTheirHistogram(t *testing.T) {
	var z Sizes
	if err := z.UnmarshalText([]byte("histogram(100B:90, 1KiB:9, 10KiB:1)")); err != nil {
		t.Fatal(err)
	}
	s := NewSizer(z, 1, 0)
	counts := make([]int64, 3)
	for range 200000 {
		switch s.Next() {
		case 100:
			counts[0]++
		case 1024:
			counts[1]++
		case 10240:
			counts[2]++
		default:
			t.Fatal("a size that is not in the histogram")
		}
	}
	if p := chiSquareP(counts, []float64{0.9, 0.09, 0.01}); p < 1e-4 {
		t.Errorf("chi-square p = %v for %v", p, counts)
	}
	if mean := z.Mean(); math.Abs(mean-(90+92.16+102.4)) > 1e-9 {
		t.Errorf("mean is %v", mean)
	}
	u := NewSizer(Sizes{Min: 3, Max: 5}, 1, 0)
	seen := map[int]bool{}
	for range 1000 {
		seen[u.Next()] = true
	}
	if len(seen) != 3 || !seen[3] || !seen[5] {
		t.Errorf("uniform(3, 5) gave %v", seen)
	}
}
