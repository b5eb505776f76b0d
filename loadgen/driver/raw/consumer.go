package raw

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidemark/tidemark/core/clock"
	"github.com/tidemark/tidemark/core/kafka"
	"github.com/tidemark/tidemark/core/record"
	"github.com/tidemark/tidemark/loadgen/driver"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Consumer fetches with connections of its own, one fetch in flight for each broker: the next one is sent as soon as
// an answer is taken, before its records are handed over. It belongs to the goroutine that polls; answers reach it
// through a channel. What other goroutines may ask for stands under mu.
type Consumer struct {
	d        *Driver
	id       int32
	clientID string
	cfg      driver.ConsumerConfig
	group    *membership // nil without a group
	nodes    map[kafka.BrokerID]*fetchNode
	arrived  chan *fetchRequest
	wake     chan struct{} // the view changed or the group rebalances
	view     atomic.Pointer[View]
	seen     *View
	it       record.Iterator
	chunk    []driver.Fetched
	stop     atomic.Bool

	mu struct {
		sync.Mutex
		parts      []*fetchPart
		generation int
		member     bool // of a group, between rebalances
		stats      driver.Stats
	}
}

type fetchPart struct {
	topic     int32
	index     kafka.Partition
	node      *fetchNode
	epoch     kafka.LeaderEpoch
	next      kafka.Offset // to be fetched; -1: must be looked up
	delivered kafka.Offset // behind the last record handed over
	committed kafka.Offset
	high      kafka.Offset
	muted     int64
	gone      bool // not assigned any more
}

type fetchNode struct {
	id      kafka.BrokerID
	addr    string
	conn    *conn
	retryAt int64
	flying  bool
}

// NewConsumer connects a consumer; a member of a group joins it at its first Poll.
func (d *Driver) NewConsumer(ctx context.Context, id int32, cc driver.ConsumerConfig) (driver.Consumer, error) {
	c := &Consumer{d: d, id: id, clientID: d.cfg.ClientID + "-c" + strconv.Itoa(int(id)), cfg: cc, nodes: map[kafka.BrokerID]*fetchNode{},
		arrived: make(chan *fetchRequest, 64), wake: make(chan struct{}, 1)}
	d.mu.Lock()
	c.view.Store(d.mu.view)
	d.mu.consumers = append(d.mu.consumers, c)
	d.mu.Unlock()
	if cc.Group != "" {
		g, err := newMembership(c)
		if err != nil {
			return nil, err
		}
		c.group = g
		return c, nil
	}
	c.assign(cc.Partitions)
	if err := c.position(ctx); err != nil {
		return nil, err
	}
	return c, nil
}

// moved takes new metadata.
func (c *Consumer) moved(v *View) {
	c.view.Store(v)
	c.poke()
}

func (c *Consumer) poke() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// assign replaces the partitions that are read; their positions are looked up next.
func (c *Consumer) assign(tps []driver.TopicPartition) {
	parts := make([]*fetchPart, 0, len(tps))
	for _, tp := range tps {
		parts = append(parts, &fetchPart{topic: tp.Topic, index: kafka.Partition(tp.Partition), next: -1, delivered: -1, committed: -1, epoch: -1, high: -1})
	}
	c.mu.Lock()
	for _, p := range c.mu.parts {
		p.gone = true
	}
	c.mu.parts = parts
	c.mu.generation++
	c.mu.Unlock()
	c.seen = nil
}

// place finds each partition's leader in the newest view.
func (c *Consumer) place() {
	v := c.view.Load()
	if v == c.seen {
		return
	}
	c.seen = v
	for _, p := range c.mu.parts {
		p.node = nil
		tv := v.Topics[c.d.cfg.Topics[p.topic].Name]
		if tv == nil || int(p.index) >= len(tv.Partitions) {
			continue
		}
		leader := tv.Partitions[p.index].Leader
		addr, ok := v.Brokers[leader]
		if !ok {
			continue
		}
		n := c.nodes[leader]
		if n == nil {
			n = &fetchNode{id: leader, addr: addr}
			c.nodes[leader] = n
		}
		n.addr = addr
		p.node, p.epoch = n, tv.Partitions[p.index].LeaderEpoch
	}
}

// position looks up where to begin in partitions that do not know: committed offsets first (in a group), then the
// start or the end.
func (c *Consumer) position(ctx context.Context) error {
	for {
		c.place()
		missing := map[string][]*fetchPart{}
		for _, p := range c.mu.parts {
			if p.next >= 0 {
				continue
			}
			if p.node == nil {
				missing[""] = append(missing[""], p)
				continue
			}
			missing[p.node.addr] = append(missing[p.node.addr], p)
		}
		if len(missing) == 0 {
			return nil
		}
		var last error
		for addr, parts := range missing {
			if addr == "" {
				last = fmt.Errorf("topic %s partition %d: %w", c.d.cfg.Topics[parts[0].topic].Name, parts[0].index, kafka.LeaderNotAvailable)
				continue
			}
			if err := c.listOffsets(ctx, addr, parts); err != nil {
				last = err
			}
		}
		if last == nil {
			continue
		}
		var code kafka.ErrorCode
		if errors.As(last, &code) && !code.Retriable() {
			return last
		}
		c.d.refresh()
		if err := pause(ctx, 20*time.Millisecond); err != nil {
			return fmt.Errorf("%w: %w", last, err)
		}
	}
}

func (c *Consumer) listOffsets(ctx context.Context, addr string, parts []*fetchPart) error {
	req := kmsg.NewPtrListOffsetsRequest()
	req.ReplicaID = -1
	at := int64(-2)
	if c.cfg.FromLatest {
		at = -1
	}
	byTopic := map[int32]int{}
	for _, p := range parts {
		i, ok := byTopic[p.topic]
		if !ok {
			i = len(req.Topics)
			byTopic[p.topic] = i
			t := kmsg.NewListOffsetsRequestTopic()
			t.Topic = c.d.cfg.Topics[p.topic].Name
			req.Topics = append(req.Topics, t)
		}
		q := kmsg.NewListOffsetsRequestTopicPartition()
		q.Partition, q.Timestamp, q.CurrentLeaderEpoch = int32(p.index), at, -1
		req.Topics[i].Partitions = append(req.Topics[i].Partitions, q)
	}
	kresp, err := c.d.cluster.AskBroker(ctx, addr, req)
	if err != nil {
		return err
	}
	var last error
	for _, t := range kresp.(*kmsg.ListOffsetsResponse).Topics {
		for _, q := range t.Partitions {
			if code := kafka.ErrorCode(q.ErrorCode); code != kafka.None {
				last = fmt.Errorf("offsets of topic %s partition %d: %w", t.Topic, q.Partition, code)
				continue
			}
			for _, p := range parts {
				if int32(p.index) == q.Partition && c.d.cfg.Topics[p.topic].Name == t.Topic {
					c.setPosition(p, kafka.Offset(q.Offset))
				}
			}
		}
	}
	return last
}

func (c *Consumer) setPosition(p *fetchPart, o kafka.Offset) {
	c.mu.Lock()
	p.next, p.delivered = o, o
	c.mu.Unlock()
}

// Poll waits for an answer with records and hands them over. A group's member joins, rejoins and commits in here.
func (c *Consumer) Poll(ctx context.Context, fn func([]driver.Fetched)) error {
	if c.stop.Load() {
		return driver.ErrClosed
	}
	if c.group != nil {
		if err := c.group.poll(ctx); err != nil {
			return err
		}
	}
	c.place()
	wait := c.sendFetches(ctx)
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case r := <-c.arrived:
		return c.take(ctx, r, fn)
	case <-c.wake:
		return nil
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// sendFetches sends a fetch to every node that has none in flight, and returns when it wants to try again.
func (c *Consumer) sendFetches(ctx context.Context) time.Duration {
	now := clock.Nanos()
	wait := time.Second
	for _, n := range c.nodes {
		if n.flying {
			continue
		}
		if n.conn == nil || n.conn.failure() != nil {
			if now < n.retryAt {
				wait = min(wait, time.Duration(n.retryAt-now))
				continue
			}
			if !c.leads(n) {
				continue
			}
			k, err := dial(ctx, n.addr, c.clientID, c.d.cfg.Access)
			if err != nil {
				n.retryAt = clock.Nanos() + int64(max(c.d.cfg.RetryBackoff, 10*time.Millisecond))
				wait = min(wait, c.d.cfg.RetryBackoff)
				c.d.refresh()
				continue
			}
			n.conn = k
		}
		if muted := c.fetch(n, now); muted > 0 {
			wait = min(wait, muted)
		}
	}
	return max(wait, time.Millisecond)
}

func (c *Consumer) leads(n *fetchNode) bool {
	return slices.ContainsFunc(c.mu.parts, func(p *fetchPart) bool { return p.node == n })
}

// Assigned lists the partitions that are read.
func (c *Consumer) Assigned() ([]driver.TopicPartition, int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	tps := make([]driver.TopicPartition, 0, len(c.mu.parts))
	if c.group != nil && !c.mu.member {
		return nil, 0
	}
	for _, p := range c.mu.parts {
		tps = append(tps, driver.TopicPartition{Topic: p.topic, Partition: int32(p.index)})
	}
	return tps, c.mu.generation
}

// Lag sums what the high watermarks are ahead of what was handed over.
func (c *Consumer) Lag() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	lag := int64(0)
	for _, p := range c.mu.parts {
		if p.high < 0 {
			return -1
		}
		lag += max(0, int64(p.high-p.delivered))
	}
	return lag
}

// TakeStats returns what was counted since the last call.
func (c *Consumer) TakeStats() driver.Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.mu.stats
	c.mu.stats = driver.Stats{}
	return s
}

// Close commits where the mode asks for it, leaves the group and disconnects.
func (c *Consumer) Close() error {
	if c.stop.Swap(true) {
		return nil
	}
	var err error
	if c.group != nil {
		err = c.group.leave()
	}
	for _, n := range c.nodes {
		if n.conn != nil {
			n.conn.fail(errClosed)
		}
	}
	c.d.mu.Lock()
	c.d.mu.consumers = slices.DeleteFunc(slices.Clone(c.d.mu.consumers), func(o *Consumer) bool { return o == c })
	c.d.mu.Unlock()
	return err
}
