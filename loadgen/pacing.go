package loadgen

import (
	"sync/atomic"
	"time"

	"github.com/tidemark/tidemark/core/clock"
	"github.com/tidemark/tidemark/core/lie"
	"github.com/tidemark/tidemark/loadgen/driver"
	"github.com/tidemark/tidemark/loadgen/workload"
)

// pacer drives one producer, on a goroutine of its own.
type pacer struct {
	r        *run
	source   *source
	producer driver.Producer
	book     *book
	schedule *workload.Schedule  // nil in a closed loop
	begin    int64               // nanoseconds; the schedule counts from here
	intended int64               // records intended inside the window, so far
	seconds  []int64             // intended, by second of the window
	owed     int64               // lateness that waiting in the driver has caused and no pause has made up yet
	offered  atomic.Int64        // records that the driver has been offered and has not taken
	due      atomic.Int64        // when the next record that has not been handed to the driver is intended; 0 before the first
	times    [chunkRecords]int64 // scratch: when the chunk's records are intended
	err      error
}

// open offers every record at its intended time, or as soon as the driver takes it.
func (p *pacer) open() {
	sleeper := clock.NewSleeper()
	defer sleeper.Close()
	next := p.begin + p.schedule.Next()
	for next < p.r.window.end.Load() && !p.r.stopped() {
		now := clock.Nanos()
		if next > now {
			sleeper.Until(min(next, now+int64(maxNap)))
			if now = clock.Nanos(); now < next {
				continue // a nap, to look at the window's end
			}
			p.owed = 0
		}
		p.source.begin()
		n := 0
		for end := p.r.window.end.Load(); n < chunkRecords && next <= now && next < end; n++ {
			p.times[n] = next
			if lie.Told == lie.StampAtSend {
				p.times[n] = now
			}
			p.intend(next)
			next = p.begin + p.schedule.Next()
		}
		bytes := p.source.fill(p.times[:n])
		p.due.Store(next)
		if !p.r.spend(int64(bytes)) || !p.offer() {
			break
		}
	}
	p.rest(next)
}

// maxNap is how long a pacer sleeps at most before it looks whether the run has ended.
const maxNap = 50 * time.Millisecond

// intend counts a record of the schedule that belongs to the window.
func (p *pacer) intend(at int64) { p.intendMany(at, 1) }

func (p *pacer) intendMany(at, n int64) {
	since := at - p.r.window.start
	if since < 0 {
		return
	}
	p.intended += n
	i := int(since / int64(time.Second))
	for i >= len(p.seconds) {
		p.seconds = append(p.seconds, 0)
	}
	p.seconds[i] += n
}

// rest walks the schedule to the window's end: what was not offered was intended nevertheless.
func (p *pacer) rest(next int64) {
	if lie.Told == lie.UnsentDropped {
		return
	}
	for end := p.r.window.end.Load(); next < end; next = p.begin + p.schedule.Next() {
		p.intend(next)
	}
}

// offer hands the chunk over; false when the run has ended before the driver took it all.
func (p *pacer) offer() bool {
	for rs := p.source.records; len(rs) > 0; {
		p.offered.Store(int64(len(rs)))
		h := handover{offered: clock.Nanos(), owed: p.owed}
		n, waited, err := p.producer.Produce(rs)
		h.accepted, h.waited = clock.Nanos(), int64(waited)
		if p.schedule != nil {
			p.owed += int64(waited)
		}
		if n > 0 {
			p.book.accepted(rs[:n], h)
			p.offered.Store(int64(len(rs) - n))
		}
		if err != nil {
			p.err = err
			return false
		}
		rs = rs[n:]
		if len(rs) > 0 && p.r.stopped() {
			return false
		}
	}
	return true
}

// closed offers records as fast as the driver takes them: a record is intended when the driver is free.
func (p *pacer) closed() {
	for !p.r.stopped() {
		now := clock.Nanos()
		if now >= p.r.window.end.Load() {
			return
		}
		p.source.begin()
		for i := range p.times {
			p.times[i] = now
		}
		if !p.r.spend(int64(p.source.fill(p.times[:]))) {
			return
		}
		p.intendMany(now, chunkRecords)
		if !p.offer() {
			return
		}
	}
}
