package workload

import "math"

// Schedule is one producer's intended send times, in order: nanoseconds since the schedule's start, the same for the
// same (seed, producer) however the run went. It belongs to one goroutine.
//
// Constant schedules are staggered: producer i of n takes every n-th slot of the total rate, beginning with slot i, so
// that n producers together send evenly. Poisson gaps are exponential with n/rate as mean, each rounded to the
// nanosecond before it is added.
type Schedule struct {
	poisson  bool
	gap      float64 // mean gap of this producer, nanoseconds
	slot     float64 // gap of all producers together
	producer float64
	many     float64
	state    arrivals
}

// arrivals is what a later point of the schedule needs to go on: a checkpoint.
type arrivals struct {
	stream Stream
	seq    uint64
	at     int64
}

// NewSchedule begins the schedule of one producer of a latency run (Rate above 0, producer below Producers).
func NewSchedule(s *Spec, producer int32) *Schedule {
	return &Schedule{
		poisson: s.Arrivals == ArrivalsPoisson,
		gap:     1e9 * float64(s.Producers) / s.Rate, slot: 1e9 / s.Rate,
		producer: float64(producer), many: float64(s.Producers),
		state: arrivals{stream: NewStream(s.Seed, producer, ForArrivals)},
	}
}

// Next is the intended time of the next record; the first call is sequence 0.
func (s *Schedule) Next() int64 {
	seq := s.state.seq
	s.state.seq++
	if !s.poisson {
		// float64 conversions forbid fused multiply-add, which would differ between architectures.
		slot := float64(float64(seq)*s.many) + s.producer
		return int64(math.Round(float64(slot * s.slot)))
	}
	s.state.at += int64(float64(s.state.stream.Exponential()*s.gap) + 0.5)
	return s.state.at
}

// recallSpan is the number of sequences between checkpoints; recallCached how many spans are kept unfolded.
const (
	recallSpan   = 512
	recallCached = 16
)

// Recall tells intended times again by sequence, for a consumer that sees records of many partitions in about their
// order. Near the last ones asked it is an array look-up; elsewhere it unfolds 512 gaps from a checkpoint (some 10 µs),
// beyond the last checkpoint it walks there. Memory: 24 bytes for each 512 records. It belongs to one goroutine.
type Recall struct {
	schedule    Schedule
	checkpoints []arrivals
	spans       [recallCached]recallSpanTimes
}

type recallSpanTimes struct {
	number uint64 // of the span, plus one; 0 is empty
	times  [recallSpan]int64
}

// NewRecall begins a Recall of one producer's schedule.
func NewRecall(s *Spec, producer int32) *Recall {
	r := &Recall{schedule: *NewSchedule(s, producer)}
	if r.schedule.poisson {
		r.checkpoints = []arrivals{r.schedule.state}
	}
	return r
}

// At is the intended time of the record with that sequence.
func (r *Recall) At(seq uint64) int64 {
	if !r.schedule.poisson {
		r.schedule.state.seq = seq
		return r.schedule.Next()
	}
	number := seq / recallSpan
	span := &r.spans[number%recallCached]
	if span.number != number+1 {
		r.unfold(number, span)
	}
	return span.times[seq%recallSpan]
}

func (r *Recall) unfold(number uint64, span *recallSpanTimes) {
	for uint64(len(r.checkpoints)) <= number {
		r.schedule.state = r.checkpoints[len(r.checkpoints)-1]
		for range recallSpan {
			r.schedule.Next()
		}
		r.checkpoints = append(r.checkpoints, r.schedule.state)
	}
	r.schedule.state = r.checkpoints[number]
	for i := range span.times {
		span.times[i] = r.schedule.Next()
	}
	span.number = number + 1
}
