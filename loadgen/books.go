package loadgen

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/tidemark/tidemark/core/kafka"
	"github.com/tidemark/tidemark/core/lie"
	"github.com/tidemark/tidemark/loadgen/driver"
)

// span is the measured window, shared by everything that records. A record belongs to it by its intended time.
type span struct {
	start  int64        // nanoseconds, set before anybody records
	end    atomic.Int64 // exclusive; earlier than planned where the run is ended early
	inTime atomic.Int64 // an ack until then is in time
}

// second counts what happened in, or was intended for, one second of the run since the window's start.
type second struct {
	failed                    int64 // by intended time
	acked, ackedBytes         int64 // by completion
	delivered, deliveredBytes int64 // by completion
	blockedNanos              int64
	// Of them what completed after the window's end: its last second may be cut short, and the drain is none of it.
	ackedAfter, ackedBytesAfter         int64
	deliveredAfter, deliveredBytesAfter int64
}

// book is what a few goroutines write into. There are as many books as cores, not as many as producers: a histogram
// takes 300 KB, and one lock for each batch does not hurt.
type book struct {
	window  *span
	perTop  int  // partitions of a topic
	latency bool // the clocks are kept (not in a capacity run)

	mu struct {
		sync.Mutex
		clocks  [numClocks]clockRecorder
		spare   [numClocks]*hdrhistogram.Histogram
		seconds []second
		ends    counts
		closed  bool    // no more acks are entered
		parts   []int64 // acked, by topic and partition
	}
}

// counts are the window's sums.
type counts struct {
	accepted, acked, failed, inTime int64
	ackedBytes                      int64
	ackedDuring, ackedDuringBytes   int64 // completed inside the window, whatever they were intended for
	allAccepted, allEnded           int64 // warm-up and probes included
	warmUp                          int64
	delivered, deliveredBytes       int64 // intended in the window
	deliveredDuring, deliveredBytesDuring,
	deliveredAll int64
	blockedNanos int64
	errors       map[string]*errorKind
	lastAckNanos int64
}

// notAcked is how many records of the whole run the driver took and nobody acknowledged.
func (c *counts) notAcked() int64 {
	n := c.allAccepted - c.allEnded
	for _, e := range c.errors {
		n += e.records
	}
	return n
}

type errorKind struct {
	events, records int64
	firstNanos      int64
	text            string
}

// secondLocked is the second that holds a moment; nil before the window.
func (b *book) secondLocked(nanos int64) *second {
	since := nanos - b.window.start
	if since < 0 {
		return nil
	}
	i := int(since / 1e9)
	for i >= len(b.mu.seconds) {
		b.mu.seconds = append(b.mu.seconds, second{})
	}
	return &b.mu.seconds[i]
}

// close ends the entering of acks. What pacers had accepted stays entered until the last of them ends, or acks could be
// more than the records accepted.
func (b *book) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.closed = true
}

// acked enters an ack.
func (b *book) acked(a *driver.Ack) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.mu.closed {
		return
	}
	n := int64(len(a.Seqs))
	c := &b.mu.ends
	c.allEnded += n
	in, start, end := int64(0), b.window.start, b.window.end.Load()
	each := a.Bytes / max(n, 1)
	if a.Err != nil {
		b.failedLocked(a, start, end)
		return
	}
	c.lastAckNanos = max(c.lastAckNanos, a.AckedNanos)
	if s := b.secondLocked(a.AckedNanos); s != nil {
		s.acked += n
		s.ackedBytes += a.Bytes
		if a.AckedNanos < end {
			c.ackedDuring += n
			c.ackedDuringBytes += a.Bytes
		} else {
			s.ackedAfter += n
			s.ackedBytesAfter += a.Bytes
		}
	}
	for _, at := range a.IntendedNanos {
		belongs := at
		if lie.Told == lie.WindowByCompletion {
			belongs = a.AckedNanos
		}
		if belongs < start || belongs >= end {
			continue
		}
		in++
		if b.latency {
			b.mu.clocks[clockAck].record(a.AckedNanos-at, at-start)
		}
	}
	c.acked += in
	if at := int(a.Topic)*b.perTop + int(a.Partition); in > 0 {
		for at >= len(b.mu.parts) {
			b.mu.parts = append(b.mu.parts, 0)
		}
		b.mu.parts[at] += in
	}
	c.ackedBytes += in * each
	if in == n {
		c.ackedBytes += a.Bytes - n*each
	}
	if a.AckedNanos <= b.window.inTime.Load() {
		c.inTime += in
	}
}

func (b *book) failedLocked(a *driver.Ack, start, end int64) {
	c := &b.mu.ends
	in := int64(0)
	for _, at := range a.IntendedNanos {
		if at < start || at >= end {
			continue
		}
		in++
		b.secondLocked(at).failed++
	}
	c.failed += in
	if c.errors == nil {
		c.errors = map[string]*errorKind{}
	}
	kind := errorName(a.Err)
	e := c.errors[kind]
	if e == nil {
		e = &errorKind{firstNanos: a.AckedNanos, text: a.Err.Error()}
		c.errors[kind] = e
	}
	e.events++
	e.records += int64(len(a.Seqs))
}

// handover is what the pacer tells about records that it offered together.
type handover struct {
	offered, accepted int64 // nanos
	owed              int64 // nanos by which the driver had made the pacer late before
	waited            int64 // nanos for which it kept it waiting now
}

// accepted enters records that the driver has taken.
func (b *book) accepted(rs []driver.Record, h handover) {
	b.mu.Lock()
	defer b.mu.Unlock()
	start, end := b.window.start, b.window.end.Load()
	c := &b.mu.ends
	c.allAccepted += int64(len(rs))
	if s := b.secondLocked(h.offered); s != nil && h.offered < end {
		s.blockedNanos += h.waited
		c.blockedNanos += h.waited
	}
	if n := len(rs); !b.latency && rs[0].IntendedNanos >= start && rs[n-1].IntendedNanos < end { // a pacer's are in order
		c.accepted += int64(n)
		return
	}
	for i := range rs {
		at := rs[i].IntendedNanos
		if at < start || at >= end {
			if at < start {
				c.warmUp++
			}
			continue
		}
		c.accepted++
		if !b.latency {
			continue
		}
		late := h.offered - at
		blocked := max(0, min(late, h.owed))
		b.mu.clocks[clockPacer].record(late-blocked, at-start)
		b.mu.clocks[clockBlocked].record(blocked+h.waited, at-start)
		b.mu.clocks[clockAccepted].record(h.accepted-at, at-start)
	}
}

// swap takes the histograms of the second that has passed and hands each to take, which must be done with it when it returns.
func (b *book) swap(take func(clock int, h *hdrhistogram.Histogram)) {
	var full [numClocks]*hdrhistogram.Histogram
	b.mu.Lock()
	for i := range full {
		full[i] = b.mu.clocks[i].hist
		b.mu.clocks[i].hist = b.mu.spare[i]
		b.mu.spare[i] = nil
	}
	b.mu.Unlock()
	for i, h := range full {
		if h != nil {
			take(i, h)
			h.Reset()
		}
	}
	b.mu.Lock()
	b.mu.spare = full
	b.mu.Unlock()
}

// skew is the busiest partition's acked records over the mean of all.
func skew(books []*book, partitions int) float64 {
	sums := make([]int64, partitions)
	total := int64(0)
	for _, b := range books {
		b.mu.Lock()
		for i, n := range b.mu.parts {
			if i < len(sums) {
				sums[i] += n
				total += n
			}
		}
		b.mu.Unlock()
	}
	if total == 0 {
		return 0
	}
	return float64(slices.Max(sums)) * float64(partitions) / float64(total)
}

// totals are all books together.
func totals(books []*book) (sum counts, seconds []second, clocks [numClocks]clockRecorder) {
	sum.errors = map[string]*errorKind{}
	for _, b := range books {
		b.mu.Lock()
		sum.add(&b.mu.ends)
		for i := range b.mu.seconds {
			if i == len(seconds) {
				seconds = append(seconds, second{})
			}
			s, o := &seconds[i], &b.mu.seconds[i]
			s.failed += o.failed
			s.acked += o.acked
			s.ackedBytes += o.ackedBytes
			s.delivered += o.delivered
			s.deliveredBytes += o.deliveredBytes
			s.blockedNanos += o.blockedNanos
			s.ackedAfter += o.ackedAfter
			s.ackedBytesAfter += o.ackedBytesAfter
			s.deliveredAfter += o.deliveredAfter
			s.deliveredBytesAfter += o.deliveredBytesAfter
		}
		for i := range clocks {
			clocks[i].add(&b.mu.clocks[i])
		}
		b.mu.Unlock()
	}
	return sum, seconds, clocks
}

// add joins slots and counts; histograms come through swap.
func (c *clockRecorder) add(o *clockRecorder) {
	c.overflow += o.overflow
	c.negative += o.negative
	for i, v := range o.slots {
		if i == len(c.slots) {
			c.slots = append(c.slots, 0)
		}
		c.slots[i] = max(c.slots[i], v)
	}
}

func (c *counts) add(o *counts) {
	c.accepted += o.accepted
	c.acked += o.acked
	c.failed += o.failed
	c.inTime += o.inTime
	c.ackedBytes += o.ackedBytes
	c.ackedDuring += o.ackedDuring
	c.ackedDuringBytes += o.ackedDuringBytes
	c.allAccepted += o.allAccepted
	c.allEnded += o.allEnded
	c.warmUp += o.warmUp
	c.delivered += o.delivered
	c.deliveredBytes += o.deliveredBytes
	c.deliveredDuring += o.deliveredDuring
	c.deliveredBytesDuring += o.deliveredBytesDuring
	c.deliveredAll += o.deliveredAll
	c.blockedNanos += o.blockedNanos
	c.lastAckNanos = max(c.lastAckNanos, o.lastAckNanos)
	for k, e := range o.errors {
		mine := c.errors[k]
		if mine == nil {
			copied := *e
			c.errors[k] = &copied
			continue
		}
		mine.events += e.events
		mine.records += e.records
		if e.firstNanos < mine.firstNanos {
			mine.firstNanos, mine.text = e.firstNanos, e.text
		}
	}
}

// delivery is one group's records as they reached the application at one moment.
func (b *book) delivered(nanos int64, intended []int64, all, bytes int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	start, end := b.window.start, b.window.end.Load()
	c := &b.mu.ends
	c.deliveredAll += all
	if s := b.secondLocked(nanos); s != nil {
		s.delivered += all
		s.deliveredBytes += bytes
		if nanos < end {
			c.deliveredDuring += all
			c.deliveredBytesDuring += bytes
		} else {
			s.deliveredAfter += all
			s.deliveredBytesAfter += bytes
		}
	}
	for _, at := range intended {
		if at < start || at >= end {
			continue
		}
		c.delivered++
		if b.latency {
			b.mu.clocks[clockDelivery].record(nanos-at, at-start)
		}
	}
}

func errorName(err error) string {
	var code kafka.ErrorCode
	if asCode(err, &code) {
		return code.Error()
	}
	return "connection"
}
