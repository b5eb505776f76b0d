// Package raw is the kit's own Kafka client: it sends what it is told, pipelined, at the least cost, and measures
// itself. It closes batches as Kafka's accumulator does (per partition, at batch bytes or linger after the first
// record, longer while in-flight is full), numbers them when idempotence is on, and sends again what Kafka's producer
// would. Its consumer fetches assigned partitions or joins a classic group. It knows neither TLS nor SASL, and no
// transactions.
//
// What makes it cheap: records are framed once, straight into the batch that the socket takes; large values that last
// (driver.Record.Lasting) are sent from where they are, and their own CRC-32C is joined to the batch's; one lock for
// each call of Produce; one callback for each batch; nothing allocated in the steady state.
//
// Goroutines: for each connection a reader and a writer; for the driver one that wakes lingering batches on a thread
// with precise timers, one that ticks (reconnection, timeouts) and one that refreshes metadata. Close stops them.
package raw

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/tidemark/tidemark/core/clock"
	"github.com/tidemark/tidemark/core/compress"
	"github.com/tidemark/tidemark/core/kafka"
	"github.com/tidemark/tidemark/loadgen/driver"
)

var errClosed = fmt.Errorf("raw: %w", driver.ErrClosed)

const tickEvery = 10 * time.Millisecond

// Driver makes raw clients.
type Driver struct {
	cfg            driver.Config
	cluster        *Cluster
	codecs         *compress.Codecs
	pool           *payloadPool
	joins          joins
	topicIDs       []kafka.TopicID
	produceVersion int16
	fetchVersion   int16
	wantView       chan struct{}
	done           chan struct{}
	wg             sync.WaitGroup

	mu struct {
		sync.Mutex
		view      *View
		producers []*Producer
		consumers []*Consumer
		closed    bool
	}
}

// New asks for the topics' metadata and starts the driver. All topics of cfg exist and have leaders, or it fails.
func New(ctx context.Context, cfg driver.Config) (*Driver, error) {
	d := &Driver{cfg: cfg, cluster: NewCluster(cfg.Bootstrap, cfg.ClientID, cfg.Access), codecs: compress.New(), wantView: make(chan struct{}, 1),
		done: make(chan struct{}), produceVersion: 13, fetchVersion: 17}
	if cfg.PayloadPool > 0 {
		d.pool = &payloadPool{most: cfg.PayloadPool, kept: map[int32][][]byte{}}
	}
	if err := d.waitForLeaders(ctx); err != nil {
		d.cluster.Close()
		return nil, err
	}
	for _, t := range cfg.Topics {
		id := d.mu.view.Topics[t.Name].ID
		d.topicIDs = append(d.topicIDs, id)
		if id == (kafka.TopicID{}) {
			d.produceVersion, d.fetchVersion = 12, 12
		}
	}
	d.wg.Go(d.refreshLoop)
	d.wg.Go(d.tickLoop)
	if cfg.Linger > 0 {
		d.wg.Go(d.lingerLoop)
	}
	return d, nil
}

func (d *Driver) topicNames() []string {
	names := make([]string, len(d.cfg.Topics))
	for i, t := range d.cfg.Topics {
		names[i] = t.Name
	}
	return names
}

func (d *Driver) waitForLeaders(ctx context.Context) error {
	for {
		v, err := d.cluster.View(ctx, d.topicNames()...)
		if err != nil {
			return err
		}
		if err = d.missing(v); err == nil {
			d.mu.view = v
			return nil
		}
		var code kafka.ErrorCode
		if errors.As(err, &code) && !code.Retriable() {
			return err
		}
		if perr := pause(ctx, 20*time.Millisecond); perr != nil {
			return fmt.Errorf("%w: %w", err, perr)
		}
	}
}

func (d *Driver) missing(v *View) error {
	for _, t := range d.cfg.Topics {
		tv := v.Topics[t.Name]
		if tv == nil {
			return fmt.Errorf("topic %s: %w", t.Name, kafka.UnknownTopicOrPartition)
		}
		if tv.Err != kafka.None {
			return fmt.Errorf("topic %s: %w", t.Name, tv.Err)
		}
		if len(tv.Partitions) < int(t.Partitions) {
			return fmt.Errorf("topic %s has %d partitions, %d are needed: %w", t.Name, len(tv.Partitions), t.Partitions, kafka.UnknownTopicOrPartition)
		}
		for i, p := range tv.Partitions[:t.Partitions] {
			if _, ok := v.Brokers[p.Leader]; !ok {
				return fmt.Errorf("topic %s partition %d has no leader: %w", t.Name, i, kafka.LeaderNotAvailable)
			}
		}
	}
	return nil
}

// Cluster is the driver's own way to ask the cluster.
func (d *Driver) Cluster() *Cluster { return d.cluster }

// NewProducer connects a producer to every leader.
func (d *Driver) NewProducer(ctx context.Context, id int32, acked func(*driver.Ack)) (driver.Producer, error) {
	p := &Producer{d: d, id: id, clientID: d.cfg.ClientID + "-p" + strconv.Itoa(int(id)), acked: acked, maxRecords: d.cfg.BufferRecords}
	if p.maxRecords == 0 {
		p.maxRecords = math.MaxInt
	}
	p.mu.room.L, p.mu.idle.L = &p.mu, &p.mu
	p.mu.nodes = map[kafka.BrokerID]*node{}
	p.mu.pid, p.mu.epoch, p.mu.starting = -1, -1, true
	if d.cfg.Idempotence {
		var err error
		if p.mu.pid, p.mu.epoch, err = d.initProducer(ctx); err != nil {
			return nil, err
		}
	}
	for t, topic := range d.cfg.Topics {
		parts := make([]*part, topic.Partitions)
		for i := range parts {
			parts[i] = &part{topic: int32(t), index: kafka.Partition(i)}
		}
		p.mu.parts = append(p.mu.parts, parts)
	}
	d.mu.Lock()
	view := d.mu.view
	d.mu.producers = append(d.mu.producers, p)
	d.mu.Unlock()
	p.moved(view)
	p.mu.Lock()
	nodes := slices.Collect(maps.Values(p.mu.nodes))
	p.mu.Unlock()
	for _, nd := range nodes {
		c, err := dial(ctx, nd.addr, p.clientID, d.cfg.Access)
		if err == nil {
			_, err = c.version(0, 3, d.produceVersion)
		}
		if err != nil {
			_ = p.Close()
			return nil, err
		}
		p.mu.Lock()
		nd.conn = c
		p.mu.Unlock()
	}
	p.mu.Lock()
	p.mu.starting = false
	p.mu.Unlock()
	return p, nil
}

// moved takes new metadata: partitions go to their leaders' nodes.
func (p *Producer) moved(v *View) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for t, ps := range p.mu.parts {
		tv := v.Topics[p.d.cfg.Topics[t].Name]
		if tv == nil || tv.Err != kafka.None {
			continue
		}
		for i, pt := range ps {
			if i >= len(tv.Partitions) {
				break
			}
			leader := tv.Partitions[i].Leader
			addr, ok := v.Brokers[leader]
			if !ok {
				continue
			}
			nd := p.mu.nodes[leader]
			if nd == nil {
				nd = &node{id: leader, addr: addr}
				p.mu.nodes[leader] = nd
			}
			nd.addr = addr
			if pt.node != nd {
				pt.node, pt.ready = nd, false
				if pt.queue.len() > 0 {
					p.readyLocked(pt)
				}
			}
		}
	}
}

func (d *Driver) forget(p *Producer) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.mu.producers = slices.DeleteFunc(slices.Clone(d.mu.producers), func(q *Producer) bool { return q == p })
}

// refresh asks for new metadata, soon.
func (d *Driver) refresh() {
	select {
	case d.wantView <- struct{}{}:
	default:
	}
}

func (d *Driver) event(kind, text string) {
	if d.cfg.Logger != nil {
		d.cfg.Logger.Debug(kind, "what", text)
	}
}

func (d *Driver) refreshLoop() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		<-d.done
		cancel()
	}()
	for {
		select {
		case <-d.done:
			return
		case <-d.wantView:
		}
		one, stop := context.WithTimeout(ctx, min(d.cfg.RequestTimeout, 10*time.Second))
		v, err := d.cluster.View(one, d.topicNames()...)
		stop()
		if err != nil {
			d.event("metadata", err.Error())
		} else {
			d.mu.Lock()
			d.mu.view = v
			ps, cs := slices.Clone(d.mu.producers), slices.Clone(d.mu.consumers)
			d.mu.Unlock()
			for _, p := range ps {
				p.moved(v)
			}
			for _, c := range cs {
				c.moved(v)
			}
			if d.missing(v) != nil {
				d.refresh()
			}
		}
		_ = pause(ctx, max(d.cfg.RetryBackoff, tickEvery))
	}
}

func (d *Driver) tickLoop() {
	t := time.NewTicker(tickEvery)
	defer t.Stop()
	for {
		select {
		case <-d.done:
			return
		case <-t.C:
		}
		now := clock.Nanos()
		for _, p := range d.allProducers() {
			p.tick(now)
		}
	}
}

func (d *Driver) allProducers() []*Producer {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.mu.producers)
}

// lingerLoop wakes batches whose linger has passed. All lingers are equal, so a batch that opens while it sleeps is due
// after it wakes at the latest.
func (d *Driver) lingerLoop() {
	s := clock.NewSleeper()
	defer s.Close()
	for {
		select {
		case <-d.done:
			return
		default:
		}
		now := clock.Nanos()
		next := now + int64(min(d.cfg.Linger, 100*time.Millisecond))
		d.mu.Lock()
		ps := d.mu.producers
		d.mu.Unlock()
		for _, p := range ps {
			if at := p.lingered(now); at != 0 {
				next = min(next, at)
			}
		}
		s.Until(next)
	}
}

// Effective lists the producer's settings by Kafka's names.
func (d *Driver) Effective() map[string]string {
	c := &d.cfg
	return map[string]string{
		"acks": strconv.Itoa(int(c.Acks)), "enable.idempotence": strconv.FormatBool(c.Idempotence),
		"max.in.flight.requests.per.connection": strconv.Itoa(c.InFlight), "linger.ms": c.Linger.String(),
		"batch.size": strconv.Itoa(c.BatchBytes), "max.request.size": strconv.Itoa(c.MaxRequestBytes),
		"compression.type": c.Codec.String(), "compression.level": strconv.Itoa(c.CodecLevel),
		"buffer.memory": strconv.FormatInt(c.BufferBytes, 10), "delivery.timeout.ms": c.DeliveryTimeout.String(),
		"request.timeout.ms": c.RequestTimeout.String(), "retry.backoff.ms": c.RetryBackoff.String(), "retries": strconv.Itoa(c.Retries),
		"partitioner": "the workload's", "fetch.min.bytes": strconv.Itoa(int(c.FetchMinBytes)),
		"fetch.max.bytes": strconv.Itoa(int(c.FetchMaxBytes)), "max.partition.fetch.bytes": strconv.Itoa(int(c.FetchMaxPartitionBytes)),
		"fetch.max.wait.ms": c.FetchMaxWait.String(), "fetch sessions": "none",
	}
}

// Close stops the driver's goroutines and drops its connections.
func (d *Driver) Close() error {
	d.mu.Lock()
	if d.mu.closed {
		d.mu.Unlock()
		return nil
	}
	d.mu.closed = true
	ps, cs := slices.Clone(d.mu.producers), slices.Clone(d.mu.consumers)
	d.mu.Unlock()
	close(d.done)
	for _, p := range ps {
		_ = p.Close()
	}
	for _, c := range cs {
		_ = c.Close()
	}
	d.cluster.Close()
	d.wg.Wait()
	return nil
}
