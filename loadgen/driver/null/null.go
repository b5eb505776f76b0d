// Package null is the driver that sends nothing: each record is accepted and acked at once, in memory. What a run reaches
// with it is what the generator itself can do, pacing, sealing, counting and histograms included; what it measures as
// latency is the generator's own. It reads nothing: there is nobody to read from.
//
// Concurrency: as package driver asks. The acked function is called on the producer's own goroutine, inside Produce.
package null

import (
	"context"
	"errors"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/tidemark/tidemark/core/clock"
	"github.com/tidemark/tidemark/core/kafka"
	"github.com/tidemark/tidemark/loadgen/driver"
)

// ErrNoConsumers is the answer to NewConsumer.
var ErrNoConsumers = errors.New("driver null has no target to consume from: leave out consumers and groups, or use raw or kgo")

// Driver is the driver.
type Driver struct {
	config driver.Config
	ends   [][]atomic.Int64 // next offset by topic and partition
}

// New makes the driver; it connects to nothing.
func New(c driver.Config) *Driver {
	d := &Driver{config: c}
	for _, t := range c.Topics {
		d.ends = append(d.ends, make([]atomic.Int64, t.Partitions))
	}
	return d
}

// NewProducer makes a producer that acks at once.
func (d *Driver) NewProducer(_ context.Context, id int32, acked func(*driver.Ack)) (driver.Producer, error) {
	return &producer{driver: d, acked: acked, ack: driver.Ack{Producer: id}}, nil
}

// NewConsumer refuses with ErrNoConsumers.
func (d *Driver) NewConsumer(context.Context, int32, driver.ConsumerConfig) (driver.Consumer, error) {
	return nil, ErrNoConsumers
}

// Effective lists what little is in effect.
func (d *Driver) Effective() map[string]string {
	return map[string]string{"acks": strconv.Itoa(int(d.config.Acks)), "linger.ms": "0", "compression.type": "none"}
}

// Close does nothing.
func (d *Driver) Close() error { return nil }

type producer struct {
	driver *Driver
	acked  func(*driver.Ack)
	ack    driver.Ack
	stats  driver.Stats
	closed bool
}

// Produce acks runs of records that share a partition as one batch each.
func (p *producer) Produce(rs []driver.Record) (int, time.Duration, error) {
	if p.closed {
		return 0, 0, driver.ErrClosed
	}
	for i := 0; i < len(rs); {
		first := &rs[i]
		p.ack.Topic, p.ack.Partition = first.Topic, first.Partition
		p.ack.Seqs, p.ack.IntendedNanos = p.ack.Seqs[:0], p.ack.IntendedNanos[:0]
		bytes := 0
		for ; i < len(rs) && rs[i].Topic == first.Topic && rs[i].Partition == first.Partition; i++ {
			p.ack.Seqs = append(p.ack.Seqs, rs[i].Seq)
			p.ack.IntendedNanos = append(p.ack.IntendedNanos, rs[i].IntendedNanos)
			bytes += len(rs[i].Key) + len(rs[i].Head) + len(rs[i].Value)
		}
		n := int64(len(p.ack.Seqs))
		p.ack.BaseOffset = kafka.Offset(p.driver.ends[first.Topic][first.Partition].Add(n) - n)
		p.ack.Bytes = int64(bytes)
		p.ack.AckedNanos = clock.Nanos()
		p.stats.Batch(n, int64(bytes), 0)
		p.stats.Request(1, 0)
		p.acked(&p.ack)
	}
	return len(rs), 0, nil
}

// Flush has nothing to wait for.
func (p *producer) Flush(context.Context) error { return nil }

// TakeStats returns what was counted since the last call.
func (p *producer) TakeStats() driver.Stats {
	s := p.stats
	p.stats = driver.Stats{}
	return s
}

// Close ends the producer.
func (p *producer) Close() error {
	p.closed = true
	return nil
}
