package raw

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/tidemark/tidemark/core/clock"
	"github.com/tidemark/tidemark/core/compress"
	"github.com/tidemark/tidemark/core/kafka"
	"github.com/tidemark/tidemark/core/record"
	"github.com/tidemark/tidemark/loadgen/driver"
)

// directBytes is the largest request that the thread of Produce writes itself: handing a small one to the writer costs
// more than writing it, a large one would keep the pacer from its next record.
const directBytes = 64 << 10

// Producer is a pipelined producing client with connections of its own.
//
//	Produce (pacer's thread) ── append to the partition's open batch ──> full, due or linger 0: ready
//	pump (whoever holds the lock) ── one batch of each ready partition, while in-flight has room ──> conn queue
//	conn writer ── seal: compress, header, CRC ──> socket            conn reader ── answer ──> pump, acked, free memory
//
// One lock guards it all; it is taken once for a call of Produce and twice for an answer, and never held while sealing,
// writing, or calling back. Requests enter a connection's queue under the lock, which keeps a partition's batches in
// order.
type Producer struct {
	d          *Driver
	id         int32
	clientID   string
	acked      func(*driver.Ack)
	maxRecords int // bound of records accepted and not ended

	dirty []*node // scratch of Produce
	out   []*conn // the same

	mu struct {
		sync.Mutex
		parts     [][]*part // by topic and partition
		nodes     map[kafka.BrokerID]*node
		room      sync.Cond // memory was freed, or it closed
		idle      sync.Cond // the last accepted record ended, or it closed
		used      int64     // bytes of batches
		records   int       // accepted and not ended
		free      []*batch
		freeReqs  []*produceRequest
		linger    fifo[lingering]
		flushing  bool
		stats     driver.Stats
		order     int64
		closed    bool
		fatal     error
		pid       kafka.ProducerID
		epoch     kafka.ProducerEpoch
		inflight  int  // batches
		renumber  bool // a numbered batch was given up: numbers start anew when nothing is in flight
		renumbers bool // being done
		starting  bool // NewProducer connects, not the tick
		scanAt    int64
	}
}

// part is one partition as a producer sees it.
type part struct {
	topic   int32
	index   kafka.Partition
	node    *node // leader, nil while there is none
	open    *batch
	queue   fifo[*batch] // closed or to be sent again, in order
	nextSeq int32
	flying  int  // batches in flight
	known   bool // its leader has accepted a batch of this producer id
	ready   bool
	muted   int64 // no sending before: a retry backs off
}

// node is one broker as a producer sees it.
type node struct {
	id         kafka.BrokerID
	addr       string
	conn       *conn
	connecting bool
	retryAt    int64
	inflight   int // requests
	ready      fifo[*part]
}

type lingering struct {
	b     *batch
	gen   int
	until int64
}

// fifo is a queue in a slice.
type fifo[T any] struct {
	q    []T
	head int
}

func (f *fifo[T]) len() int { return len(f.q) - f.head }
func (f *fifo[T]) push(v T) { f.q = append(f.q, v) }
func (f *fifo[T]) peek() T  { return f.q[f.head] }

func (f *fifo[T]) pop() T {
	v := f.q[f.head]
	var zero T
	f.q[f.head] = zero
	f.head++
	switch {
	case f.head == len(f.q):
		f.q, f.head = f.q[:0], 0
	case f.head > 64 && f.head*2 > len(f.q):
		f.q = f.q[:copy(f.q, f.q[f.head:])]
		f.head = 0
	}
	return v
}

// Produce appends records to their partitions' batches and sends what is ready.
func (p *Producer) Produce(rs []driver.Record) (int, time.Duration, error) {
	now, nowMS := clock.Nanos(), time.Now().UnixMilli()
	waited := time.Duration(0)
	n := 0
	dirty := p.dirty[:0]
	p.mu.Lock()
	for n < len(rs) {
		if p.mu.fatal != nil {
			p.mu.Unlock()
			return n, waited, p.mu.fatal
		}
		r := &rs[n]
		pt := p.mu.parts[r.Topic][r.Partition]
		if b := pt.open; b != nil { // it waits for linger, or is ready already: most records go this way
			if k := b.addRun(rs[n:], nowMS, p.maxRecords-p.mu.records); k > 0 {
				p.mu.records += k
				n += k
				continue
			}
		}
		nd, ok := p.appendLocked(pt, rs[n:], now, nowMS)
		if nd != nil && (len(dirty) == 0 || dirty[len(dirty)-1] != nd) {
			dirty = append(dirty, nd)
		}
		if ok {
			n++
			continue
		}
		if n > 0 {
			break
		}
		if p.hurryLocked() {
			continue
		}
		from := clock.Nanos()
		p.mu.room.Wait()
		now, nowMS = clock.Nanos(), time.Now().UnixMilli()
		waited += time.Duration(now - from)
	}
	out := p.out[:0]
	for _, nd := range dirty {
		if c := p.pumpLocked(nd); c != nil {
			out = append(out, c)
		}
	}
	p.mu.Unlock()
	for _, c := range out {
		waited += p.send(c)
	}
	p.dirty, p.out = dirty, out
	return n, waited, nil
}

// send writes what pump has enqueued, here or by the connection's writer.
func (p *Producer) send(c *conn) time.Duration {
	if p.d.cfg.Codec != 0 || p.d.cfg.BatchBytes > directBytes {
		c.flushElsewhere()
		return 0
	}
	return c.flush()
}

// appendLocked appends the first record; false where there is no room. node is not nil when something became ready there.
func (p *Producer) appendLocked(pt *part, rs []driver.Record, now, nowMS int64) (nd *node, ok bool) {
	r := &rs[0]
	need := recordOverhead + len(r.Key) + len(r.Head) + len(r.Value)
	if p.mu.records >= p.maxRecords {
		return nil, false
	}
	b := pt.open
	if b != nil && b.long()+need > b.limit {
		pt.open = nil
		pt.queue.push(b)
		p.readyLocked(pt)
		if p.d.cfg.Codec == compress.None && !p.d.cfg.Idempotence && b.away < b.limit/2 {
			// Its bytes are in the core's cache now; when its turn comes to be sent they may be megabytes away, and the
			// CRC then takes as long as the copy.
			_ = b.seal(nil, nil, compress.None, 0, &p.d.joins, -1, -1)
		}
		b, nd = nil, pt.node
	}
	if b == nil {
		if b = p.newBatchLocked(need, pt, now, nowMS); b == nil {
			return nd, false
		}
		pt.open = b
		if p.d.cfg.Linger > 0 {
			p.mu.linger.push(lingering{b: b, gen: b.gen, until: now + int64(p.d.cfg.Linger)})
		} else {
			p.readyLocked(pt)
		}
	}
	b.addRun(rs[:1], nowMS, 1)
	p.mu.records++
	if p.d.cfg.Linger == 0 {
		nd = pt.node
	}
	return nd, true
}

func (p *Producer) newBatchLocked(need int, pt *part, now, nowMS int64) *batch {
	size := max(p.d.cfg.BatchBytes, record.HeaderBytes+need)
	if p.mu.used > 0 && p.mu.used+int64(size) > p.d.cfg.BufferBytes {
		return nil
	}
	var b *batch
	if k := len(p.mu.free); k > 0 && size == p.d.cfg.BatchBytes {
		b, p.mu.free = p.mu.free[k-1], p.mu.free[:k-1]
	} else {
		b = &batch{buf: make([]byte, record.HeaderBytes, size)}
	}
	b.reset(pt, now, nowMS)
	b.size, b.limit, b.scatter = int64(size), size, scatters(&p.d.cfg)
	p.mu.used += b.size
	p.mu.order++
	b.order = p.mu.order
	return b
}

func (p *Producer) freeBatchLocked(b *batch) {
	p.mu.used -= b.size
	p.mu.records -= int(b.n)
	b.gen++
	if cap(b.buf) == p.d.cfg.BatchBytes {
		p.mu.free = append(p.mu.free, b)
	}
}

// readyLocked puts a partition among those with something to send.
func (p *Producer) readyLocked(pt *part) {
	if !pt.ready && pt.node != nil {
		pt.ready = true
		pt.node.ready.push(pt)
	}
}

// hurryLocked makes every open batch ready, because memory is short or somebody flushes, and lets the connections'
// writers send them. It reports whether something was enqueued.
func (p *Producer) hurryLocked() bool {
	enqueued := false
	for _, ps := range p.mu.parts {
		for _, pt := range ps {
			if pt.open != nil {
				pt.open.due = true
				p.readyLocked(pt)
			}
		}
	}
	for _, nd := range p.mu.nodes {
		if c := p.pumpLocked(nd); c != nil {
			c.flushElsewhere()
			enqueued = true
		}
	}
	return enqueued
}

// lingered makes the batches ready whose linger has passed, and returns when the next one's will have, or 0.
func (p *Producer) lingered(now int64) int64 {
	p.mu.Lock()
	var nodes []*node
	for p.mu.linger.len() > 0 && p.mu.linger.peek().until <= now {
		l := p.mu.linger.pop()
		if pt := l.b.part; l.gen == l.b.gen && pt.open == l.b {
			l.b.due = true
			p.readyLocked(pt)
			if pt.node != nil && (len(nodes) == 0 || nodes[len(nodes)-1] != pt.node) {
				nodes = append(nodes, pt.node)
			}
		}
	}
	next := int64(0)
	if p.mu.linger.len() > 0 {
		next = p.mu.linger.peek().until
	}
	for _, nd := range nodes {
		if c := p.pumpLocked(nd); c != nil {
			c.flushElsewhere()
		}
	}
	p.mu.Unlock()
	return next
}

// Flush sends everything without waiting for linger and waits until every accepted record has ended.
func (p *Producer) Flush(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.mu.idle.Broadcast()
	})
	defer stop()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.flushing = true
	defer func() { p.mu.flushing = false }()
	for p.mu.records > 0 {
		if p.mu.closed {
			return driver.ErrClosed
		}
		if ctx.Err() != nil {
			return fmt.Errorf("flush: %d records have no end yet: %w", p.mu.records, context.Cause(ctx))
		}
		p.hurryLocked()
		p.mu.idle.Wait()
	}
	return nil
}

// TakeStats returns what was counted since the last call.
func (p *Producer) TakeStats() driver.Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.mu.stats
	p.mu.stats = driver.Stats{}
	return s
}

// Close drops the connections; a blocked Produce returns.
func (p *Producer) Close() error {
	p.mu.Lock()
	p.mu.closed = true
	if p.mu.fatal == nil {
		p.mu.fatal = driver.ErrClosed
	}
	var conns []*conn
	for _, nd := range p.mu.nodes {
		if nd.conn != nil {
			conns = append(conns, nd.conn)
		}
	}
	p.mu.room.Broadcast()
	p.mu.idle.Broadcast()
	p.mu.Unlock()
	for _, c := range conns {
		c.fail(errClosed)
	}
	p.d.forget(p)
	return nil
}
