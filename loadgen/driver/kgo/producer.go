package kgo

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark/tidemark/core/clock"
	"github.com/tidemark/tidemark/core/kafka"
	"github.com/tidemark/tidemark/loadgen/driver"
)

// slowProduce is the length of a call from which on it counts as having waited for room in the buffer.
const slowProduce = 200 * time.Microsecond

// Producer is one franz-go client. Its records come from a pool and go back there when their promise has been called.
type Producer struct {
	d      *Driver
	id     int32
	acked  func(*driver.Ack)
	cl     *kgo.Client
	ctx    context.Context // ends with Close: Produce returns then
	cancel context.CancelFunc
	pool   sync.Pool
	counts counters
	closed atomic.Bool
}

// slot is a record on its way, with what its promise needs; it is the record's context.
type slot struct {
	context.Context
	rec      kgo.Record
	topic    int32
	seq      [1]uint64
	intended [1]int64
}

// NewProducer connects a client.
func (d *Driver) NewProducer(ctx context.Context, id int32, acked func(*driver.Ack)) (driver.Producer, error) {
	p := &Producer{d: d, id: id, acked: acked}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.pool.New = func() any { return &slot{Context: context.Background()} }
	opts := append(d.common(d.cfg.ClientID+"-p"+strconv.Itoa(int(id))), d.producing()...)
	cl, err := client(ctx, append(opts, kgo.WithHooks(&p.counts)))
	if err != nil {
		p.cancel()
		return nil, err
	}
	p.cl = cl
	return p, nil
}

// Produce hands each record over by a call of its own, as applications do.
func (p *Producer) Produce(rs []driver.Record) (int, time.Duration, error) {
	waited := time.Duration(0)
	last := clock.Nanos()
	for i := range rs {
		if p.closed.Load() {
			return i, waited, driver.ErrClosed
		}
		r := &rs[i]
		s := p.pool.Get().(*slot)
		s.topic, s.seq[0], s.intended[0] = r.Topic, r.Seq, r.IntendedNanos
		key, value := s.rec.Key[:0], s.rec.Value[:0]
		if r.Key == nil {
			key = nil
		} else {
			key = append(key, r.Key...)
		}
		s.rec = kgo.Record{Topic: p.d.cfg.Topics[r.Topic].Name, Partition: r.Partition, Key: key, Value: append(append(value, r.Head...), r.Value...), Context: s}
		p.cl.Produce(p.ctx, &s.rec, p.promise)
		now := clock.Nanos()
		if took := time.Duration(now - last); took >= slowProduce {
			waited += took
			if i+1 < len(rs) {
				return i + 1, waited, nil // the rest is offered anew, with its own time
			}
		}
		last = now
	}
	return len(rs), waited, nil
}

func (p *Producer) promise(r *kgo.Record, err error) {
	s := r.Context.(*slot)
	a := driver.Ack{Producer: p.id, Topic: s.topic, Partition: r.Partition, BaseOffset: kafka.Offset(r.Offset), AckedNanos: clock.Nanos(),
		Bytes: int64(len(r.Key) + len(r.Value)), Seqs: s.seq[:], IntendedNanos: s.intended[:]}
	if err != nil {
		a.Err, a.BaseOffset = translate(err), -1
	} else if p.d.cfg.Acks == 0 {
		a.BaseOffset = -1
	}
	p.acked(&a)
	p.pool.Put(s)
}

// translate keeps the library's words and adds the protocol's code, where there is one.
func translate(err error) error {
	var ke *kerr.Error
	if errors.As(err, &ke) {
		return fmt.Errorf("%w (%w)", kafka.ErrorCode(ke.Code), err)
	}
	if errors.Is(err, kgo.ErrRecordTimeout) {
		return fmt.Errorf("%w (%w)", kafka.RequestTimedOut, err)
	}
	return err
}

// Flush waits until every record has its promise.
func (p *Producer) Flush(ctx context.Context) error {
	if err := p.cl.Flush(ctx); err != nil {
		return fmt.Errorf("flush: %d records have no end yet: %w", p.cl.BufferedProduceRecords(), err)
	}
	return nil
}

// TakeStats returns what was counted since the last call.
func (p *Producer) TakeStats() driver.Stats { return p.counts.take() }

// Close drops the connections.
func (p *Producer) Close() error {
	if p.closed.Swap(true) {
		return nil
	}
	p.cancel()
	p.cl.CloseAllowingRebalance()
	return nil
}

// counters are the hooks that count what a client does.
type counters struct {
	mu       sync.Mutex
	s        driver.Stats
	sinceReq int64
}

func (c *counters) take() driver.Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.s
	c.s = driver.Stats{}
	return s
}

// OnProduceBatchWritten counts a batch; its header's 61 bytes are added to what went over the wire.
func (c *counters) OnProduceBatchWritten(_ kgo.BrokerMetadata, _ string, _ int32, m kgo.ProduceBatchMetrics) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sinceReq++
	c.s.Batch(int64(m.NumRecords), int64(m.UncompressedBytes), int64(m.CompressedBytes)+61)
}

// OnFetchBatchRead counts a fetched batch.
func (c *counters) OnFetchBatchRead(_ kgo.BrokerMetadata, _ string, _ int32, m kgo.FetchBatchMetrics) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.s.Batch(int64(m.NumRecords), int64(m.UncompressedBytes), int64(m.CompressedBytes)+61)
}

// OnBrokerE2E counts produce and fetch requests, and produce requests that had no answer. The batches of a request are told separately, mostly after it.
func (c *counters) OnBrokerE2E(_ kgo.BrokerMetadata, key int16, e kgo.BrokerE2E) {
	if key > 1 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if e.Err() != nil {
		if key == 0 && e.BytesWritten > 0 { // its batches may be in the log, and are sent again
			c.s.Retries++
		}
		return
	}
	if key == 1 {
		c.s.Request(0, int64(e.BytesRead))
		return
	}
	c.s.Request(max(c.sinceReq, 1), int64(e.BytesWritten))
	c.sinceReq = 0
}

// OnBrokerThrottle sums throttle times.
func (c *counters) OnBrokerThrottle(_ kgo.BrokerMetadata, d time.Duration, _ bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.s.ThrottleNanos += int64(d)
}

// OnBrokerDisconnect counts the ends of connections; each is followed by a new one where it is needed.
func (c *counters) OnBrokerDisconnect(kgo.BrokerMetadata, net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.s.Reconnections++
}
