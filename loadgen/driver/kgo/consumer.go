package kgo

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/core/clock"
	"github.com/tidemark/tidemark/core/kafka"
	"github.com/tidemark/tidemark/loadgen/driver"
)

// Consumer is one franz-go client that reads partitions or takes part in a group.
type Consumer struct {
	d      *Driver
	cfg    driver.ConsumerConfig
	cl     *kgo.Client
	topics map[string]int32
	chunk  []driver.Fetched
	counts counters
	closed atomic.Bool

	mu struct {
		sync.Mutex
		parts      map[driver.TopicPartition]*progress
		generation int
		lostNanos  int64 // since when partitions were taken away for a rebalance, 0: not now
		joined     bool
	}
}

// progress is how far one partition was read.
type progress struct {
	delivered, high int64
}

// NewConsumer connects a client.
func (d *Driver) NewConsumer(ctx context.Context, id int32, cc driver.ConsumerConfig) (driver.Consumer, error) {
	c := &Consumer{d: d, cfg: cc, topics: map[string]int32{}}
	c.mu.parts = map[driver.TopicPartition]*progress{}
	for i, t := range d.cfg.Topics {
		c.topics[t.Name] = int32(i)
	}
	start := kgo.NewOffset().AtStart()
	if cc.FromLatest {
		start = kgo.NewOffset().AtEnd()
	}
	opts := append(d.common(d.cfg.ClientID+"-c"+strconv.Itoa(int(id))), d.fetching()...)
	opts = append(opts, kgo.WithHooks(&c.counts), kgo.ConsumeResetOffset(start))
	if cc.Group == "" {
		opts = append(opts, kgo.ConsumePartitions(c.direct(start)))
	} else {
		more, err := c.member()
		if err != nil {
			return nil, err
		}
		opts = append(opts, more...)
	}
	cl, err := client(ctx, opts)
	if err != nil {
		return nil, err
	}
	c.cl = cl
	return c, nil
}

func (c *Consumer) direct(start kgo.Offset) map[string]map[int32]kgo.Offset {
	out := map[string]map[int32]kgo.Offset{}
	for _, tp := range c.cfg.Partitions {
		name := c.d.cfg.Topics[tp.Topic].Name
		if out[name] == nil {
			out[name] = map[int32]kgo.Offset{}
		}
		out[name][tp.Partition] = start
		c.mu.parts[tp] = &progress{-1, -1}
	}
	c.mu.generation = 1
	return out
}

func (c *Consumer) member() ([]kgo.Opt, error) {
	balancers := map[string]kgo.GroupBalancer{"range": kgo.RangeBalancer(), "roundrobin": kgo.RoundRobinBalancer(),
		"sticky": kgo.StickyBalancer(), "cooperative-sticky": kgo.CooperativeStickyBalancer()}
	b, ok := balancers[c.cfg.Assignor]
	if !ok {
		return nil, fmt.Errorf("driver kgo does not know the assignor %q: use range, roundrobin, sticky or cooperative-sticky", c.cfg.Assignor)
	}
	names := make([]string, 0, len(c.d.cfg.Topics))
	for _, t := range c.d.cfg.Topics {
		names = append(names, t.Name)
	}
	opts := []kgo.Opt{
		kgo.ConsumerGroup(c.cfg.Group), kgo.ConsumeTopics(names...), kgo.Balancers(b), kgo.SessionTimeout(c.cfg.SessionTimeout),
		kgo.RebalanceTimeout(c.cfg.RebalanceTimeout), kgo.HeartbeatInterval(c.cfg.HeartbeatInterval),
		kgo.OnPartitionsAssigned(c.assigned), kgo.OnPartitionsRevoked(c.revoked), kgo.OnPartitionsLost(c.revoked),
	}
	if c.cfg.InstanceID != "" {
		opts = append(opts, kgo.InstanceID(c.cfg.InstanceID))
	}
	if c.cfg.Commit == driver.CommitAuto {
		opts = append(opts, kgo.AutoCommitInterval(c.cfg.CommitInterval), kgo.AutoCommitCallback(func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, _ *kmsg.OffsetCommitResponse, err error) {
			c.committed(err)
		}))
	} else {
		opts = append(opts, kgo.DisableAutoCommit())
	}
	return opts, nil
}

func (c *Consumer) assigned(_ context.Context, _ *kgo.Client, parts map[string][]int32) {
	c.mu.Lock()
	for name, ps := range parts {
		for _, p := range ps {
			c.mu.parts[driver.TopicPartition{Topic: c.topics[name], Partition: p}] = &progress{-1, -1}
		}
	}
	c.mu.generation++
	lost, again := c.mu.lostNanos, c.mu.joined
	c.mu.lostNanos, c.mu.joined = 0, true
	c.mu.Unlock()
	if !again {
		return
	}
	c.counts.mu.Lock()
	defer c.counts.mu.Unlock()
	c.counts.s.Rebalances++
	if lost != 0 {
		c.counts.s.RebalanceNanos += clock.Nanos() - lost
	}
}

func (c *Consumer) revoked(ctx context.Context, cl *kgo.Client, parts map[string][]int32) {
	if c.cfg.Commit == driver.CommitAuto || c.cfg.Commit == driver.CommitSync || c.cfg.Commit == driver.CommitAsync {
		if len(parts) > 0 {
			c.committed(cl.CommitUncommittedOffsets(ctx))
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, ps := range parts {
		for _, p := range ps {
			delete(c.mu.parts, driver.TopicPartition{Topic: c.topics[name], Partition: p})
		}
	}
	c.mu.generation++
	if c.mu.lostNanos == 0 {
		c.mu.lostNanos = clock.Nanos()
	}
}

func (c *Consumer) committed(err error) {
	c.counts.mu.Lock()
	defer c.counts.mu.Unlock()
	c.counts.s.Commits++
	if err != nil {
		c.counts.s.CommitErrors++
	}
}

// Poll hands over the records of one poll, partition by partition.
func (c *Consumer) Poll(ctx context.Context, fn func([]driver.Fetched)) error {
	fs := c.cl.PollRecords(ctx, max(c.d.cfg.MaxPollRecords, 1))
	if c.closed.Load() || fs.IsClientClosed() {
		return driver.ErrClosed
	}
	if ctx.Err() != nil && fs.NumRecords() == 0 {
		return context.Cause(ctx)
	}
	var bad error
	fs.EachError(func(topic string, p int32, err error) {
		if !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
			bad = fmt.Errorf("fetch topic %s partition %d: %w", topic, p, translate(err))
		}
	})
	if bad != nil {
		return bad
	}
	if fs.NumRecords() == 0 {
		return nil
	}
	if c.cfg.Group != "" && c.cfg.Commit == driver.CommitBefore {
		c.committed(c.cl.CommitUncommittedOffsets(ctx))
	}
	fs.EachPartition(func(p kgo.FetchTopicPartition) { c.hand(p, fn) })
	if c.cfg.Group == "" {
		return nil
	}
	switch c.cfg.Commit {
	case driver.CommitSync:
		c.committed(c.cl.CommitUncommittedOffsets(ctx))
	case driver.CommitAsync:
		c.cl.CommitOffsets(context.WithoutCancel(ctx), c.cl.UncommittedOffsets(), func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, _ *kmsg.OffsetCommitResponse, err error) {
			c.committed(err)
		})
	}
	return nil
}

func (c *Consumer) hand(p kgo.FetchTopicPartition, fn func([]driver.Fetched)) {
	topic := c.topics[p.Topic]
	chunk := c.chunk[:0]
	for _, r := range p.Records {
		chunk = append(chunk, driver.Fetched{Topic: topic, Partition: p.Partition, Offset: kafka.Offset(r.Offset), TimestampMS: r.Timestamp.UnixMilli(), Key: r.Key, Value: r.Value})
	}
	c.chunk = chunk[:0]
	if len(chunk) > 0 {
		fn(chunk)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if at := c.mu.parts[driver.TopicPartition{Topic: topic, Partition: p.Partition}]; at != nil {
		at.high = p.HighWatermark
		if len(chunk) > 0 {
			at.delivered = int64(chunk[len(chunk)-1].Offset) + 1
		}
	}
}

// Assigned lists the partitions that are read.
func (c *Consumer) Assigned() ([]driver.TopicPartition, int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cfg.Group != "" && (!c.mu.joined || c.mu.lostNanos != 0) {
		return nil, 0
	}
	tps := make([]driver.TopicPartition, 0, len(c.mu.parts))
	for tp := range c.mu.parts {
		tps = append(tps, tp)
	}
	return tps, c.mu.generation
}

// Lag sums what the high watermarks, as last fetched, are ahead of what was handed over; a partition that has not
// brought anything yet counts as read.
func (c *Consumer) Lag() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	lag := int64(0)
	for _, p := range c.mu.parts {
		if p.delivered >= 0 {
			lag += max(0, p.high-p.delivered)
		}
	}
	return lag
}

// TakeStats returns what was counted since the last call.
func (c *Consumer) TakeStats() driver.Stats { return c.counts.take() }

// Close commits where the mode asks for it, leaves the group and disconnects.
func (c *Consumer) Close() error {
	if c.closed.Swap(true) {
		return nil
	}
	c.cl.CloseAllowingRebalance()
	return nil
}
