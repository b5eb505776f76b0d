package commitlog

import (
	"sync"

	"github.com/tidemark/tidemark/core/buf"
	"github.com/tidemark/tidemark/core/kafka"
)

// copyShare is the part of its buffer that a batch must fill to be kept in it: a smaller one would hold memory many
// times its own size, and is copied out.
const copyShare = 4

// TailBudget bounds the memory of the tail rings of all logs, counted in whole buffers. The oldest batch of all goes
// first, whichever log it belongs to, so a busy partition does not keep a quiet one's fresh batches for ever, nor
// push them out sooner than its own.
//
// One mutex guards all rings. Sharding it was not tried: it is held for about 50 ns an append.
type TailBudget struct {
	limit int64
	mu    struct {
		sync.Mutex
		used  int64
		live  int             // batches in all rings
		queue fifo[*tailRing] // a ring for each batch that came in, oldest first; more than live after cuts
	}
}

// NewTailBudget keeps at most limit bytes of buffers.
func NewTailBudget(limit int64) *TailBudget { return &TailBudget{limit: limit} }

// Used is how many bytes the rings hold now.
func (t *TailBudget) Used() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.mu.used
}

// tailRing holds the newest batches of one log, without gaps. TailBudget.mu guards it.
type tailRing struct {
	batches fifo[tailBatch]
	kept    int // scratch of sweepLocked
}

// tailBatch is one batch in memory. bytes lies in buf.
type tailBatch struct {
	buf        *buf.Buf
	bytes      []byte
	base, last kafka.Offset
}

// add keeps a batch. b may be nil: then, or when the batch is small for its buffer, it is copied.
func (t *TailBudget) add(r *tailRing, pool *buf.Pool, ab *AppendBatch) {
	b := ab.Buf
	bytes := ab.Bytes
	if b == nil || len(bytes)*copyShare < b.Cap() {
		b = pool.Get(len(bytes))
		copy(b.B, bytes)
		bytes = b.B
	} else {
		b.Retain()
	}
	t.mu.Lock()
	t.mu.used += int64(b.Cap())
	t.mu.live++
	r.batches.push(tailBatch{b, bytes, ab.Base, ab.Last})
	t.mu.queue.push(r)
	for t.mu.used > t.limit && t.mu.queue.n > 0 {
		if r := t.mu.queue.pop(); r.batches.n > 0 {
			t.releaseLocked(r.batches.pop())
		}
	}
	if t.mu.queue.n > 2*t.mu.live+1024 {
		t.sweepLocked()
	}
	t.mu.Unlock()
}

func (t *TailBudget) releaseLocked(b tailBatch) {
	t.mu.live--
	t.mu.used -= int64(b.buf.Cap())
	b.buf.Release()
}

// sweepLocked takes out of the queue what cuts have left in it, so that it names each ring once for each batch.
func (t *TailBudget) sweepLocked() {
	for i := range t.mu.queue.n {
		(*t.mu.queue.at(i)).kept = 0
	}
	for range t.mu.queue.n {
		r := t.mu.queue.pop()
		if r.kept < r.batches.n {
			r.kept++
			t.mu.queue.push(r)
		}
	}
}

// cut lets all batches go that reach to end or beyond; the rest stays.
func (t *TailBudget) cut(r *tailRing, end kafka.Offset) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for r.batches.n > 0 && r.batches.at(r.batches.n-1).last >= end {
		t.releaseLocked(r.batches.popLast())
	}
}

// dropBefore lets all batches go that end below off: compaction has rewritten them.
func (t *TailBudget) dropBefore(r *tailRing, off kafka.Offset) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for r.batches.n > 0 && r.batches.at(0).last < off {
		t.releaseLocked(r.batches.pop())
	}
}

// read fills s from the ring and reports whether the ring can answer: it must reach back to from.
func (t *TailBudget) read(r *tailRing, s *Slice, from kafka.Offset, maxBytes int, limit kafka.Offset, minOne bool) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := r.batches.n
	if n == 0 || from < r.batches.at(0).base {
		return false
	}
	lo, hi := 0, n
	for lo < hi {
		mid := (lo + hi) / 2
		if r.batches.at(mid).last < from {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	s.Next = from
	for ; lo < n; lo++ {
		b := r.batches.at(lo)
		if b.last >= limit || s.Bytes+len(b.bytes) > maxBytes && !(minOne && s.Bytes == 0) {
			break
		}
		b.buf.Retain()
		s.bufs = append(s.bufs, b.buf)
		s.Tail = append(s.Tail, b.bytes)
		s.Bytes += len(b.bytes)
		s.Next = b.last + 1
	}
	return true
}

// fifo is a queue in a circle that grows by doubling.
type fifo[T any] struct {
	items []T
	head  int
	n     int
}

func (q *fifo[T]) at(i int) *T { return &q.items[(q.head+i)&(len(q.items)-1)] }

func (q *fifo[T]) push(v T) {
	if q.n == len(q.items) {
		bigger := make([]T, max(8, 2*len(q.items)))
		for i := range q.n {
			bigger[i] = *q.at(i)
		}
		q.items, q.head = bigger, 0
	}
	q.n++
	*q.at(q.n - 1) = v
}

func (q *fifo[T]) pop() T {
	p := q.at(0)
	v := *p
	*p = *new(T)
	q.head = (q.head + 1) & (len(q.items) - 1)
	q.n--
	return v
}

func (q *fifo[T]) popLast() T {
	p := q.at(q.n - 1)
	v := *p
	*p = *new(T)
	q.n--
	return v
}
