package workload

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"
)

func latencySpec(arrivals string, rate float64, producers int) *Spec {
	s := Default()
	s.Arrivals, s.Rate, s.Producers = arrivals, rate, producers
	return &s
}

func TestConstantSchedulesAreStaggered(t *testing.T) {
	spec := latencySpec(ArrivalsConstant, 1000, 8)
	var all []int64
	for p := range int32(8) {
		s := NewSchedule(spec, p)
		for range 100 {
			all = append(all, s.Next())
		}
	}
	slices.Sort(all)
	for i, at := range all {
		if at != int64(i)*1e6 {
			t.Fatalf("slot %d is at %d ns, want %d", i, at, int64(i)*1e6)
		}
	}
}

// TestPoissonGapsAreExponential compares the merged arrivals of several producers with the distribution that makes a
// Poisson process, by Kolmogorov's distance.
func TestPoissonGapsAreExponential(t *testing.T) {
	const rate, producers, each = 10000.0, 16, 5000
	spec := latencySpec(ArrivalsPoisson, rate, producers)
	var all []int64
	for p := range int32(producers) {
		s := NewSchedule(spec, p)
		for range each {
			all = append(all, s.Next())
		}
	}
	slices.Sort(all)
	all = all[:len(all)*8/10] // producers end at different times
	var gaps []float64
	for i := 1; i < len(all); i++ {
		gaps = append(gaps, float64(all[i]-all[i-1])/1e9)
	}
	slices.Sort(gaps)
	distance := 0.0
	for i, g := range gaps {
		f := distuv.Exponential{Rate: rate}.CDF(g)
		distance = max(distance, math.Abs(f-float64(i)/float64(len(gaps))), math.Abs(f-float64(i+1)/float64(len(gaps))))
	}
	if bound := 2.2 / math.Sqrt(float64(len(gaps))); distance > bound { // p about 1e-4
		t.Errorf("distance %v from the exponential, bound %v", distance, bound)
	}
}

func TestRecallTellsTheScheduleAgain(t *testing.T) {
	for _, arrivals := range []string{ArrivalsPoisson, ArrivalsConstant} {
		spec := latencySpec(arrivals, 12345.678, 7)
		const n = 50000
		want := make([]int64, n)
		s := NewSchedule(spec, 5)
		for i := range want {
			want[i] = s.Next()
		}
		if !slices.IsSorted(want) {
			t.Fatal("intended times go backwards")
		}
		r := NewRecall(spec, 5)
		rng := rand.New(rand.NewPCG(1, 2))
		for i := range 200000 {
			seq := i % n
			switch i / n {
			case 1:
				seq = max(0, seq-rng.IntN(3000)) // about in order, as partitions interleave
			case 2, 3:
				seq = rng.IntN(n)
			}
			if i/n >= 2 && i%100 != 0 {
				continue
			}
			if got := r.At(uint64(seq)); got != want[seq] {
				t.Fatalf("%s: sequence %d recalled as %d, was %d", arrivals, seq, got, want[seq])
			}
		}
	}
}

// TestSeedPins holds draws that published results depend on: they may never change.
func TestSeedPins(t *testing.T) {
	s := NewSchedule(latencySpec(ArrivalsPoisson, 1000, 2), 1)
	var got [3]int64
	for i := range got {
		got[i] = s.Next()
	}
	if want := [3]int64{417880, 1413605, 5444650}; got != want {
		t.Errorf("seed 1, producer 1 intends %v, want %v", got, want)
	}
}

func BenchmarkNext(b *testing.B) {
	b.Run("arrivals=poisson", func(b *testing.B) {
		s := NewSchedule(latencySpec(ArrivalsPoisson, 1e6, 1), 0)
		b.ReportAllocs()
		for b.Loop() {
			s.Next()
		}
	})
	b.Run("recall=ordered", func(b *testing.B) {
		r := NewRecall(latencySpec(ArrivalsPoisson, 1e6, 1), 0)
		b.ReportAllocs()
		seq := uint64(0)
		for b.Loop() {
			r.At(seq)
			seq++
		}
	})
	for _, k := range []Keys{{Kind: KeysUniform, N: 10000}, {Kind: KeysZipf, N: 10000, S: 1.1}, {Kind: KeysZipf, N: 1 << 20, S: 0.99}} {
		b.Run("keys="+k.String(), func(b *testing.B) {
			p := NewKeySpace(k).Picker(1, 0)
			key := make([]byte, 0, KeyBytes)
			b.ReportAllocs()
			for b.Loop() {
				key = AppendKey(key[:0], p.Next())
				PartitionFor(key, 6)
			}
		})
	}
	for _, size := range []int{100, 1024} {
		b.Run("payload="+Bytes(size).String(), func(b *testing.B) {
			spec := Default()
			c := NewPayload(&spec, nil).Cutter(1, 0, size)
			dst := make([]byte, 0, size)
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				dst, _ = c.AppendTo(dst[:0], size)
			}
		})
	}
}
