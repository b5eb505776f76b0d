package raw

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/tidemark/tidemark/core/clock"
	"github.com/tidemark/tidemark/core/kafka"
	"github.com/tidemark/tidemark/core/record"
	"github.com/tidemark/tidemark/core/wire"
	"github.com/tidemark/tidemark/loadgen/driver"
)

// maxDecompressedBytes bounds what one fetched batch may become.
const maxDecompressedBytes = 128 << 20

// fetchRequest is one Fetch on its way; its answer's bytes are its own.
type fetchRequest struct {
	c       *Consumer
	node    *fetchNode
	from    *conn
	msg     wire.ClientFetch
	version int16
	asked   map[askedPart]*fetchPart
	body    []byte
	err     error
}

type askedPart struct {
	topic int32
	index kafka.Partition
}

func (r *fetchRequest) seal(c *conn, id int32) net.Buffers {
	return net.Buffers{wire.AppendClientFetch(nil, wire.ClientHeader{Version: r.version, CorrelationID: id, ClientID: c.clientID}, &r.msg)}
}

func (r *fetchRequest) wantsAnswer() bool { return true }
func (r *fetchRequest) written(int64)     {}
func (r *fetchRequest) keeps() bool       { return true }

func (r *fetchRequest) answered(body []byte, _ int64) {
	r.body = body
	r.c.arrived <- r
}

func (r *fetchRequest) failed(err error) {
	r.err = err
	r.c.arrived <- r
}

// fetch asks a node for all of its partitions. When some rest because of an error it returns for how long.
func (c *Consumer) fetch(n *fetchNode, now int64) (muted time.Duration) {
	v, err := n.conn.version(1, 4, c.d.fetchVersion)
	if err != nil {
		n.conn.fail(err)
		return 0
	}
	cfg := &c.d.cfg
	r := &fetchRequest{c: c, node: n, from: n.conn, version: v, asked: map[askedPart]*fetchPart{}}
	r.msg = wire.ClientFetch{MaxWaitMS: int32(cfg.FetchMaxWait.Milliseconds()), MinBytes: cfg.FetchMinBytes, MaxBytes: cfg.FetchMaxBytes, SessionEpoch: -1}
	if cfg.ReadCommitted {
		r.msg.Isolation = kafka.ReadCommitted
	}
	at := map[int32]int{}
	for _, p := range c.mu.parts {
		if p.node != n || p.next < 0 {
			continue
		}
		if p.muted > now {
			if d := time.Duration(p.muted - now); muted == 0 || d < muted {
				muted = d
			}
			continue
		}
		i, ok := at[p.topic]
		if !ok {
			i = len(r.msg.Topics)
			at[p.topic] = i
			r.msg.Topics = append(r.msg.Topics, wire.ClientFetchTopic{Name: cfg.Topics[p.topic].Name, ID: c.d.topicIDs[p.topic]})
		}
		r.msg.Topics[i].Partitions = append(r.msg.Topics[i].Partitions, wire.ClientFetchPartition{Index: p.index, LeaderEpoch: -1, Offset: p.next, MaxBytes: cfg.FetchMaxPartitionBytes})
		r.asked[askedPart{p.topic, p.index}] = p
	}
	if len(r.asked) == 0 {
		return muted
	}
	if err := n.conn.enqueue(r); err != nil {
		return muted
	}
	n.flying = true
	n.conn.flush()
	return muted
}

// piece is what one answer holds of one partition.
type piece struct {
	part    *fetchPart
	from    kafka.Offset
	records []byte
	aborted []abortedTxn
}

type abortedTxn struct {
	id    kafka.ProducerID
	first kafka.Offset
}

// take handles one answer: positions move on, the next fetch leaves, then the records are handed over.
func (c *Consumer) take(ctx context.Context, r *fetchRequest, fn func([]driver.Fetched)) error {
	r.node.flying = false
	if r.err != nil {
		if !c.stop.Load() {
			c.d.refresh()
		}
		return nil
	}
	a := wire.ParseClientFetchAnswer(r.body, r.version)
	pieces := c.pieces(r, a)
	if err := a.Whole(); err != nil {
		r.node.conn.fail(fmt.Errorf("fetch answer of broker %s: %w", r.node.addr, err))
		return nil
	}
	c.mu.Lock()
	c.mu.stats.Request(0, int64(len(r.body)))
	c.mu.stats.ThrottleNanos += int64(a.ThrottleMS) * 1e6
	if len(pieces) == 0 {
		c.mu.stats.EmptyFetches++
	}
	c.mu.Unlock()
	if a.Err != kafka.None && !a.Err.Retriable() {
		return fmt.Errorf("fetch from broker %s: %w", r.node.addr, a.Err)
	}
	if r.node.conn.failure() == nil {
		c.fetch(r.node, clock.Nanos())
	}
	if len(pieces) == 0 {
		r.from.giveBack(r.body)
		return c.lookUp(ctx)
	}
	if c.group != nil && c.cfg.Commit == driver.CommitBefore {
		if err := c.group.commit(ctx, true, true); err != nil {
			return err
		}
	}
	for i := range pieces {
		c.deliver(&pieces[i], fn)
	}
	r.from.giveBack(r.body)
	if c.group != nil && (c.cfg.Commit == driver.CommitSync || c.cfg.Commit == driver.CommitAsync) {
		return c.group.commit(ctx, c.cfg.Commit == driver.CommitSync, false)
	}
	return nil
}

// lookUp finds positions again that an error has made unknown.
func (c *Consumer) lookUp(ctx context.Context) error {
	for _, p := range c.mu.parts {
		if p.next < 0 {
			return c.position(ctx)
		}
	}
	return nil
}

func (c *Consumer) pieces(r *fetchRequest, a *wire.ClientFetchAnswer) []piece {
	var out []piece
	var q wire.ClientFetched
	for a.Next(&q) {
		p := r.asked[askedPart{c.topicIndex(r, &q.Topic), q.Index}]
		if p == nil || p.gone {
			continue // a rebalance came between
		}
		if q.Err != kafka.None {
			c.partitionError(p, q.Err)
			continue
		}
		c.mu.Lock()
		p.high = q.HighWatermark
		if c.d.cfg.ReadCommitted {
			p.high = q.LastStable
		}
		c.mu.Unlock()
		next, whole := scan(q.Records, p.next)
		if next == p.next {
			continue
		}
		pc := piece{part: p, from: p.next, records: whole}
		if c.d.cfg.ReadCommitted {
			for i := range q.Aborted {
				id, first := q.AbortedAt(i)
				pc.aborted = append(pc.aborted, abortedTxn{id, first})
			}
		}
		p.next = next
		out = append(out, pc)
	}
	return out
}

func (c *Consumer) topicIndex(r *fetchRequest, t *wire.ClientAnswerTopic) int32 {
	for i := range c.d.cfg.Topics {
		if r.version >= 13 && c.d.topicIDs[i] == t.ID || r.version < 13 && c.d.cfg.Topics[i].Name == string(t.Name) {
			return int32(i)
		}
	}
	return -1
}

func (c *Consumer) partitionError(p *fetchPart, code kafka.ErrorCode) {
	if code == kafka.OffsetOutOfRange {
		p.next = -1
		return
	}
	p.muted = clock.Nanos() + int64(max(c.d.cfg.RetryBackoff, 10*time.Millisecond))
	c.d.refresh()
	c.d.event("fetch", fmt.Sprintf("topic %s partition %d: %v", c.d.cfg.Topics[p.topic].Name, p.index, code))
}

// scan finds where the whole batches of an answer end, and the offset behind them.
func scan(b []byte, next kafka.Offset) (kafka.Offset, []byte) {
	rest := b
	for len(rest) > 0 {
		batch, more, err := record.Next(rest)
		if err != nil {
			break // the last batch is cut short
		}
		next = max(next, batch.LastOffset()+1)
		rest = more
	}
	return next, b[:len(b)-len(rest)]
}

// deliver hands over the records of one partition's batches.
func (c *Consumer) deliver(pc *piece, fn func([]driver.Fetched)) {
	p := pc.part
	base := driver.Fetched{Topic: p.topic, Partition: int32(p.index)}
	var records, bytes int64
	for rest := pc.records; len(rest) > 0; {
		batch, more, err := record.Next(rest)
		if err != nil {
			break
		}
		rest = more
		if batch.IsControl() {
			pc.endOfTransaction(batch)
			continue
		}
		if pc.isAborted(batch) {
			continue
		}
		n := c.deliverBatch(batch, pc.from, base, fn)
		records, bytes = records+n, bytes+int64(len(batch))
		c.mu.Lock()
		c.mu.stats.Batch(n, int64(len(batch)), int64(len(batch)))
		p.delivered = batch.LastOffset() + 1
		c.mu.Unlock()
	}
}

func (c *Consumer) deliverBatch(batch record.Batch, from kafka.Offset, base driver.Fetched, fn func([]driver.Fetched)) int64 {
	chunk := c.chunk[:0]
	total := int64(0)
	err := c.it.Reset(batch, c.d.codecs, maxDecompressedBytes)
	if err == nil {
		first, stamp := batch.BaseOffset(), batch.BaseTimestamp()
		for c.it.Next() {
			r := c.it.Record()
			f := base
			if f.Offset = first + kafka.Offset(r.OffsetDelta); f.Offset < from {
				continue
			}
			f.TimestampMS, f.Key, f.Value = stamp+r.TimestampDelta, r.Key, r.Value
			chunk = append(chunk, f)
			if len(chunk) == max(c.d.cfg.MaxPollRecords, 1) {
				fn(chunk)
				total += int64(len(chunk))
				chunk = chunk[:0]
			}
		}
		err = c.it.Err()
	}
	if len(chunk) > 0 {
		fn(chunk)
		total += int64(len(chunk))
	}
	if err != nil {
		base.Offset, base.Err = batch.BaseOffset()+kafka.Offset(total), fmt.Errorf("batch at offset %d: %w", batch.BaseOffset(), err)
		chunk = append(chunk[:0], base)
		fn(chunk)
	}
	c.chunk = chunk[:0]
	return total
}

// isAborted reports whether a batch belongs to a transaction that was aborted.
func (pc *piece) isAborted(b record.Batch) bool {
	if !b.IsTransactional() {
		return false
	}
	for _, t := range pc.aborted {
		if t.id == b.ProducerID() && t.first <= b.BaseOffset() {
			return true
		}
	}
	return false
}

// endOfTransaction forgets the aborted transaction that a control batch ends.
func (pc *piece) endOfTransaction(b record.Batch) {
	for i, t := range pc.aborted {
		if t.id == b.ProducerID() && t.first <= b.BaseOffset() {
			pc.aborted = append(pc.aborted[:i], pc.aborted[i+1:]...)
			return
		}
	}
}
