package workload

import (
	"math"

	"github.com/valyala/fastrand"
)

// Purpose tells the random streams of one producer apart, so that a change of one setting leaves the others' draws as
// they were.
type Purpose uint64

// The purposes. Values are part of what a seed means: append, never renumber.
const (
	ForArrivals Purpose = iota + 1
	ForKeys
	ForSizes
	ForPayload
	ForPartitions
)

// firstDraws are thrown away: fastrand's first outputs after neighbouring seeds are correlated.
const firstDraws = 16

// Stream is one stream of random numbers: fastrand's xorshift, seeded by splitmix64 over (run seed, producer, purpose),
// plus a Weyl sequence with the stream's own odd step. The sum, not the xorshift alone, is what callers see: all 32-bit
// xorshifts walk one cycle of 2^32-1, in which 64 streams of a million draws overlap about every second time, and a
// stream that repeats another's gaps some minutes later makes bursts that no Poisson process has.
//
// A Stream is a value: a copy goes on independently from the same point, which is what Recall's checkpoints are.
type Stream struct {
	rng        fastrand.RNG
	weyl, step uint32
}

// NewStream begins the stream of one producer and purpose. Draws depend on the three arguments alone.
func NewStream(seed uint64, producer int32, purpose Purpose) Stream {
	state := splitmix64(splitmix64(splitmix64(seed)^uint64(uint32(producer))) ^ uint64(purpose))
	start := uint32(state >> 32)
	for start == 0 { // fastrand would take its seed from the clock
		state = splitmix64(state)
		start = uint32(state >> 32)
	}
	next := splitmix64(state)
	s := Stream{weyl: uint32(next), step: uint32(next>>32) | 1}
	s.rng.Seed(start)
	for range firstDraws {
		s.Uint32()
	}
	return s
}

// splitmix64 is Steele, Lea and Flood's mixing step, applied to one counter value.
func splitmix64(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// Uint32 is the next 32 bits.
func (s *Stream) Uint32() uint32 {
	s.weyl += s.step
	return s.rng.Uint32() + s.weyl
}

// Uint64 is the next 64 bits.
func (s *Stream) Uint64() uint64 { return uint64(s.Uint32())<<32 | uint64(s.Uint32()) }

// Below is uniform in [0, n); n is 1 to 2^32.
func (s *Stream) Below(n uint64) uint64 { return uint64(s.Uint32()) * n >> 32 }

// Float64 is uniform in (0, 1]: its logarithm is finite.
func (s *Stream) Float64() float64 { return float64(s.Uint64()>>11+1) * 0x1p-53 }

// Exponential is exponentially distributed with mean 1.
func (s *Stream) Exponential() float64 { return -math.Log(s.Float64()) }

// alias is Walker's alias table in Vose's construction: any weights, one draw of 64 bits and one look-up for a sample.
// Immutable, shared by all producers.
type alias struct {
	keep  []uint32 // the column's own outcome below this, of 2^32
	other []uint32
}

// newAlias builds the table; weights are not negative and not all zero.
func newAlias(weights []float64) *alias {
	n := len(weights)
	sum := 0.0
	for _, w := range weights {
		sum += w
	}
	a := &alias{make([]uint32, n), make([]uint32, n)}
	scaled := make([]float64, n)
	var small, large []uint32
	for i, w := range weights {
		scaled[i] = w / sum * float64(n)
		if scaled[i] < 1 {
			small = append(small, uint32(i))
		} else {
			large = append(large, uint32(i))
		}
	}
	for len(small) > 0 && len(large) > 0 {
		s, l := small[len(small)-1], large[len(large)-1]
		small = small[:len(small)-1]
		a.keep[s], a.other[s] = uint32(min(scaled[s]*0x1p32, math.MaxUint32)), l
		if scaled[l] -= 1 - scaled[s]; scaled[l] < 1 {
			large = large[:len(large)-1]
			small = append(small, l)
		}
	}
	for _, rest := range [][]uint32{small, large} { // rounding leaves these at 1
		for _, i := range rest {
			a.keep[i], a.other[i] = math.MaxUint32, i
		}
	}
	return a
}

func (a *alias) sample(s *Stream) int {
	column := s.Below(uint64(len(a.keep)))
	if s.Uint32() < a.keep[column] {
		return int(column)
	}
	return int(a.other[column])
}
