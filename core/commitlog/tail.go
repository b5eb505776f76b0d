package commitlog

import (
	"sync"

	"github.com/tidemark/tidemark/core/buf"
	"github.com/tidemark/tidemark/core/kafka"
)

// copyShare is the part of its buffer that a batch must fill to be kept in it: a smaller one would hold memory many
// times its own size, and is copied out.
const copyShare = 4

// maxTailAppend is the most bytes of an append that the ring keeps. Larger ones are answered from the file: sendfile moves
// them at the price of a copy, and buffers that wait in the ring come back when they have left the processor's cache. With
// batches of 1 MiB the ring cost 6 to 17% of the broker's produce rate.
const maxTailAppend = 256 << 10

// A log keeps its appends in the ring for as many as wantedAppends after somebody has read at its end, where a further one
// counts for each wantedBytes of an append: a ring that nobody reads costs what a large append does, at every size. A log
// that is written alone has none, nor has one whose readers are far behind.
const (
	wantedAppends = 256
	wantedBytes   = 16 << 10
)

// Batches below a quarter of a slab are copied into one together, whichever log they belong to: a ring of small batches
// then is buffers of one size, which go round. In buffers of their own sizes every change of what producers send left a
// ring's worth of the former sizes in the pool.
const (
	maxSlabBytes = 64 << 10
	minSlabBytes = 512
	slabShare    = 256 // of the budget, at most
)

// slab is a buffer that is being filled, of which it holds a reference.
type slab struct {
	buf *buf.Buf
	at  int
}

// TailBudget bounds the memory of the tail rings of all logs, counted in whole buffers. The oldest batch of all goes
// first, whichever log it belongs to, so a busy partition does not keep a quiet one's fresh batches for ever, nor
// push them out sooner than its own.
//
// One mutex guards all rings. Sharding it was not tried: it is held for about 50 ns an append.
type TailBudget struct {
	limit     int64
	slabBytes int
	slabs     sync.Pool // *slab: one for each processor, roughly
	mu        struct {
		sync.Mutex
		used  int64
		live  int             // batches in all rings
		queue fifo[*tailRing] // a ring for each batch that came in, oldest first; more than live after cuts
	}
}

// NewTailBudget keeps at most limit bytes of buffers.
func NewTailBudget(limit int64) *TailBudget {
	t := &TailBudget{limit: limit, slabBytes: maxSlabBytes}
	for t.slabBytes > minSlabBytes && int64(t.slabBytes)*slabShare > limit {
		t.slabBytes /= 2
	}
	return t
}

// keeps says whether there are rings at all.
func (t *TailBudget) keeps() bool { return t != nil && t.limit > 0 }

// Used is how many bytes the rings hold now.
func (t *TailBudget) Used() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.mu.used
}

// tailRing holds the newest batches of one log, without gaps. TailBudget.mu guards it.
type tailRing struct {
	batches fifo[tailBatch]
	kept    int         // scratch of sweepLocked
	fresh   []tailBatch // scratch of Append, the append lock guards it
}

// tailBatch is one batch in memory. bytes lies in buf.
type tailBatch struct {
	buf        *buf.Buf
	bytes      []byte
	base, last kafka.Offset
	slab       bool // buf is one
}

// hold takes a reference to a batch's bytes for add. Where they have no buffer, or are small for it, they are copied.
func (t *TailBudget) hold(pool *buf.Pool, ab *AppendBatch) tailBatch {
	b, bytes, inSlab := ab.Buf, ab.Bytes, false
	switch n := len(bytes); {
	case b != nil && n*copyShare >= b.Cap():
		b.Retain()
	case n*copyShare > t.slabBytes:
		b = pool.Get(n)
		copy(b.B, bytes)
		bytes = b.B
	default:
		s, ok := t.slabs.Get().(*slab)
		if !ok {
			s = &slab{buf: pool.Get(t.slabBytes)}
		}
		if s.at+n > t.slabBytes {
			s.buf.Release()
			s.buf, s.at = pool.Get(t.slabBytes), 0
		}
		b = s.buf
		b.Retain()
		s.at += copy(b.B[s.at:], bytes)
		bytes = b.B[s.at-n : s.at : s.at]
		t.slabs.Put(s)
		inSlab = true
	}
	return tailBatch{b, bytes, ab.Base, ab.Last, inSlab}
}

// add keeps batches that hold has taken. A slab counts once. A request's buffer counts for each batch in it, which is too
// much for one that a read has filled with several requests: counted once, the ring took four times the memory at 16 KiB
// batches, none of which is in the processor's cache when its turn comes, and a request cost a tenth more.
func (t *TailBudget) add(r *tailRing, fresh []tailBatch) {
	t.mu.Lock()
	for _, b := range fresh {
		if !b.slab || b.buf.Kept == 0 {
			t.mu.used += int64(b.buf.Cap())
		}
		b.buf.Kept++
		t.mu.live++
		r.batches.push(b)
		t.mu.queue.push(r)
	}
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
	if b.buf.Kept--; !b.slab || b.buf.Kept == 0 {
		t.mu.used -= int64(b.buf.Cap())
	}
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
