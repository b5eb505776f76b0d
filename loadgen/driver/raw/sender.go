package raw

import (
	"errors"
	"fmt"
	"net"
	"slices"

	"github.com/tidemark/tidemark/core/clock"
	"github.com/tidemark/tidemark/core/kafka"
	"github.com/tidemark/tidemark/core/wire"
	"github.com/tidemark/tidemark/loadgen/driver"
)

// gatherBytes is the size up to which a frame is copied together instead of written in pieces.
const gatherBytes = 8 << 10

// pumpLocked makes requests of a node's ready partitions while in-flight has room. It returns the connection that has
// something to write now, or nil.
func (p *Producer) pumpLocked(nd *node) (flush *conn) {
	for nd.conn != nil && nd.inflight < p.d.cfg.InFlight && nd.ready.len() > 0 && !p.mu.renumber && !p.mu.renumbers {
		r := p.gatherLocked(nd)
		if r == nil {
			break
		}
		nd.inflight++
		if err := nd.conn.enqueue(r); err != nil {
			p.mu.freeReqs = append(p.mu.freeReqs, p.giveBackLocked(r))
			nd.conn = nil
			break
		}
		flush = nd.conn
	}
	return flush
}

// gatherLocked takes one batch of each ready partition, as many as one request holds.
func (p *Producer) gatherLocked(nd *node) *produceRequest {
	var r *produceRequest
	size, now := 0, int64(0)
	for left := nd.ready.len(); left > 0; left-- {
		pt := nd.ready.pop()
		if pt.node != nd {
			pt.ready = false
			p.readyLocked(pt)
			continue
		}
		if pt.muted != 0 {
			if now == 0 {
				now = clock.Nanos()
			}
			if pt.muted > now {
				pt.ready = false // the driver's tick makes it ready again
				continue
			}
			pt.muted = 0
		}
		b := pt.next(p.d.cfg.Linger == 0 || p.mu.flushing)
		if b == nil || pt.flying > 0 && (b.attempts > 0 || !pt.known && p.d.cfg.Idempotence) {
			// An answer, linger or the tick makes it ready again. A leader that knows nothing of a producer takes any sequence
			// first (KIP-360): behind a first batch that it refuses nothing may be on its way.
			pt.ready = false
			continue
		}
		if r != nil && size+b.long() > p.d.cfg.MaxRequestBytes {
			nd.ready.push(pt)
			break
		}
		if r == nil {
			r = p.newRequestLocked(nd)
		}
		p.takeLocked(pt, b)
		size += b.long()
		r.batches = append(r.batches, b)
		if pt.next(p.d.cfg.Linger == 0 || p.mu.flushing) != nil {
			nd.ready.push(pt)
		} else {
			pt.ready = false
		}
	}
	if r != nil {
		r.pid, r.epoch = p.mu.pid, p.mu.epoch
	}
	return r
}

// next is the batch that a partition would send now.
func (pt *part) next(anyOpen bool) *batch {
	if pt.queue.len() > 0 {
		return pt.queue.peek()
	}
	if b := pt.open; b != nil && b.n > 0 && (anyOpen || b.due) {
		return b
	}
	return nil
}

func (p *Producer) takeLocked(pt *part, b *batch) {
	if pt.queue.len() > 0 {
		pt.queue.pop()
	} else {
		pt.open = nil
	}
	if p.d.cfg.Idempotence && b.seq < 0 {
		b.seq = pt.nextSeq
		pt.nextSeq = int32((int64(pt.nextSeq) + int64(b.n)) & 0x7fffffff)
	}
	b.seen, b.code, b.text, b.err = false, kafka.None, "", nil
	pt.flying++
	p.mu.inflight++
}

// giveBackLocked takes a request's batches back, to be sent again, and empties it.
func (p *Producer) giveBackLocked(r *produceRequest) *produceRequest {
	r.node.inflight--
	for _, b := range r.batches {
		p.landedLocked(b)
		b.part.putBack(b)
		p.readyLocked(b.part)
	}
	r.batches = r.batches[:0]
	return r
}

func (p *Producer) landedLocked(b *batch) {
	b.part.flying--
	p.mu.inflight--
}

// putBack puts a batch in front of those that came after it.
func (pt *part) putBack(b *batch) {
	q := pt.queue.q[pt.queue.head:]
	i := 0
	for i < len(q) && q[i].order < b.order {
		i++
	}
	pt.queue.q = slices.Insert(pt.queue.q, pt.queue.head+i, b)
}

// produceRequest is one Produce request on its way; it owns its batches until it ends.
type produceRequest struct {
	p       *Producer
	node    *node
	batches []*batch
	pid     kafka.ProducerID
	epoch   kafka.ProducerEpoch
	version int16
	frame   int64
	failure error // of sealing

	msg    wire.ClientProduce
	parts  []wire.ClientProducePartition
	head   []byte
	cuts   []int
	pieces net.Buffers
	done   []*batch
	ack    driver.Ack
}

func (p *Producer) newRequestLocked(nd *node) *produceRequest {
	if k := len(p.mu.freeReqs); k > 0 {
		r := p.mu.freeReqs[k-1]
		p.mu.freeReqs = p.mu.freeReqs[:k-1]
		r.node, r.failure = nd, nil
		return r
	}
	return &produceRequest{p: p, node: nd}
}

func (r *produceRequest) wantsAnswer() bool { return r.p.d.cfg.Acks != 0 }
func (r *produceRequest) keeps() bool       { return false }

// seal finishes the batches and builds the frame: a small one in one piece, a large one without copying the batches.
func (r *produceRequest) seal(c *conn, id int32) net.Buffers {
	cfg := &r.p.d.cfg
	r.version, _ = c.version(0, 3, r.p.d.produceVersion)
	total := 0
	for _, b := range r.batches {
		if err := b.seal(r.p.d.pool, r.p.d.codecs, cfg.Codec, cfg.CodecLevel, &r.p.d.joins, r.pid, r.epoch); err != nil {
			b.err = err
			b.wire = b.wire[:0]
		}
		total += b.wireBytes()
	}
	r.message()
	r.msg.Acks, r.msg.TimeoutMS = cfg.Acks, int32(cfg.RequestTimeout.Milliseconds())
	r.head, r.cuts = wire.AppendClientProduce(r.head[:0], wire.ClientHeader{Version: r.version, CorrelationID: id, ClientID: c.clientID}, &r.msg, r.cuts[:0])
	r.frame = int64(len(r.head) + total)
	if r.frame <= gatherBytes {
		return r.gathered()
	}
	r.pieces = r.pieces[:0]
	at := 0
	for i, cut := range r.cuts {
		r.pieces = r.batches[i].appendPieces(append(r.pieces, r.head[at:cut]))
		at = cut
	}
	if at < len(r.head) {
		r.pieces = append(r.pieces, r.head[at:])
	}
	return r.pieces
}

// gathered moves the batches into their places between the pieces of head, from the last to the first.
func (r *produceRequest) gathered() net.Buffers {
	end := len(r.head)
	r.head = slices.Grow(r.head, int(r.frame)-end)[:r.frame]
	to := len(r.head)
	for i := len(r.cuts) - 1; i >= 0; i-- {
		to -= copy(r.head[to-(end-r.cuts[i]):], r.head[r.cuts[i]:end])
		end = r.cuts[i]
		w := r.batches[i].wireBytes()
		to -= r.batches[i].copyTo(r.head[to-w : to])
	}
	r.pieces = append(r.pieces[:0], r.head)
	return r.pieces
}

// message lists the batches by topic; pump took them in any order.
func (r *produceRequest) message() {
	slices.SortStableFunc(r.batches, func(a, b *batch) int { return int(a.part.topic) - int(b.part.topic) })
	r.msg.Topics, r.parts = r.msg.Topics[:0], r.parts[:0]
	for _, b := range r.batches {
		r.parts = append(r.parts, wire.ClientProducePartition{Index: b.part.index, RecordBytes: b.wireBytes()})
	}
	for from := 0; from < len(r.batches); {
		t, end := r.batches[from].part.topic, from
		for end < len(r.batches) && r.batches[end].part.topic == t {
			end++
		}
		r.msg.Topics = append(r.msg.Topics, wire.ClientProduceTopic{Name: r.p.d.cfg.Topics[t].Name, ID: r.p.d.topicIDs[t], Partitions: r.parts[from:end]})
		from = end
	}
}

// written ends a request that wants no answer.
func (r *produceRequest) written(nanos int64) {
	for _, b := range r.batches {
		b.seen = true
		b.base = -1
	}
	r.p.ended(r, nanos, nil, 0)
}

func (r *produceRequest) answered(body []byte, nanos int64) {
	a := wire.ParseClientProduceAnswer(body, r.version)
	var q wire.ClientProduced
	for i := 0; a.Next(&q); i++ {
		b := r.find(i, &q)
		if b == nil {
			continue
		}
		b.seen, b.code, b.base = true, q.Err, q.BaseOffset
		if q.Err != kafka.None {
			b.text = string(q.Message)
		}
	}
	err := a.Err()
	if err != nil {
		err = fmt.Errorf("produce answer of broker %s: %w", r.node.addr, err)
	}
	r.p.ended(r, nanos, err, int64(a.ThrottleMS)*1e6)
}

func (r *produceRequest) failed(err error) { r.p.ended(r, 0, err, 0) }

// find matches an answer to its batch: brokers answer in the order of the request, which is looked at first.
func (r *produceRequest) find(i int, q *wire.ClientProduced) *batch {
	if i < len(r.batches) && r.is(r.batches[i], q) {
		return r.batches[i]
	}
	for _, b := range r.batches {
		if r.is(b, q) {
			return b
		}
	}
	return nil
}

func (r *produceRequest) is(b *batch, q *wire.ClientProduced) bool {
	if b.part.index != q.Index {
		return false
	}
	if r.version >= 13 {
		return r.p.d.topicIDs[b.part.topic] == q.Topic.ID
	}
	return r.p.d.cfg.Topics[b.part.topic].Name == string(q.Topic.Name)
}

// errNoAnswer stands for a partition that an answer left out.
var errNoAnswer = errors.New("the answer does not mention the partition")
