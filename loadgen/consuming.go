package loadgen

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidemark/tidemark/core/clock"
	"github.com/tidemark/tidemark/core/kafka"
	"github.com/tidemark/tidemark/loadgen/driver"
	"github.com/tidemark/tidemark/loadgen/verify"
	"github.com/tidemark/tidemark/loadgen/workload"
)

// What Kafka's consumers call max.poll.interval.ms and heartbeat.interval.ms. Members learn of a rebalance by their next
// heartbeat: Kafka's 3 s would be most of a short run's preparation.
const (
	rebalanceTimeout  = 5 * time.Minute
	heartbeatInterval = 500 * time.Millisecond
)

// group is a consumer group of the run, or (name "") the consumers without one.
type group struct {
	name    string
	index   int
	checker *verify.Checker // nil without verification
	members []*reader
	joined  time.Duration
	lagMax  int64
}

// reader is one consumer on a goroutine of its own, from before the window to the end of the drain.
type reader struct {
	r        *run
	group    *group
	consumer driver.Consumer
	book     *book
	counting atomic.Bool // the window's start stands
	cancel   context.CancelFunc
	done     chan struct{}
	outcomes []verify.Outcome
	intended []int64
	count    atomic.Int64
	stats    driver.Stats
	closed   bool

	mu struct {
		sync.Mutex
		seen       map[driver.TopicPartition]bool // delivered from since the assignment changed
		generation int
		err        error
	}
}

// recall tells the intended times of one producer to all readers.
type recall struct {
	mu    sync.Mutex
	r     *workload.Recall
	begin int64
}

func newRecall(s *workload.Spec, producer int32) *recall {
	if s.Question != workload.Latency {
		return &recall{}
	}
	return &recall{r: workload.NewRecall(s, producer)}
}

// makeConsumers starts the readers.
func (r *run) makeConsumers(ctx context.Context) error {
	var all []driver.TopicPartition
	for t, topic := range r.topics {
		for p := range topic.Partitions {
			all = append(all, driver.TopicPartition{Topic: int32(t), Partition: p})
		}
	}
	add := func(g *group, cc driver.ConsumerConfig) error {
		one, cancel := context.WithTimeout(ctx, contactTimeout)
		defer cancel()
		n := len(r.readers)
		c, err := r.driver.NewConsumer(one, int32(n), cc)
		if err != nil {
			return failure(fmt.Errorf("connect consumer %d: %w", n, err))
		}
		rd := &reader{r: r, group: g, consumer: c, book: r.bookFor(n), done: make(chan struct{})}
		rd.mu.seen = map[driver.TopicPartition]bool{}
		var polling context.Context
		polling, rd.cancel = context.WithCancel(context.Background())
		g.members = append(g.members, rd)
		r.readers = append(r.readers, rd)
		go rd.poll(polling)
		return nil
	}
	base := driver.ConsumerConfig{FromLatest: r.spec.ConsumeFrom == workload.FromLatest}
	if n := r.spec.Consumers; n > 0 {
		g := r.addGroup("")
		for i := range n {
			cc := base
			for j := i; j < len(all); j += n {
				cc.Partitions = append(cc.Partitions, all[j])
			}
			if err := add(g, cc); err != nil {
				return err
			}
		}
	}
	for i, size := range r.spec.Groups {
		g := r.addGroup(r.prefix + "-group-" + strconv.Itoa(i))
		for range size {
			cc := base
			cc.Group, cc.Assignor, cc.Commit = g.name, r.spec.Assignor, driver.CommitMode(r.spec.Commit)
			cc.CommitInterval, cc.SessionTimeout = r.spec.CommitInterval.D(), r.spec.SessionTimeout.D()
			cc.RebalanceTimeout, cc.HeartbeatInterval = rebalanceTimeout, heartbeatInterval
			if err := add(g, cc); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *run) addGroup(name string) *group {
	g := &group{name: name, index: len(r.groups)}
	if r.ledger != nil {
		g.checker = r.ledger.NewChecker(name)
	}
	r.groups = append(r.groups, g)
	return g
}

func (rd *reader) poll(ctx context.Context) {
	defer close(rd.done)
	for ctx.Err() == nil {
		err := rd.consumer.Poll(ctx, rd.take)
		if err == nil || ctx.Err() != nil {
			continue
		}
		if errors.Is(err, driver.ErrClosed) {
			return
		}
		rd.mu.Lock()
		rd.mu.err = err
		rd.mu.Unlock()
		var code kafka.ErrorCode
		if asCode(err, &code) && !code.Retriable() {
			return
		}
		t := time.NewTimer(10 * time.Millisecond)
		select {
		case <-t.C:
		case <-ctx.Done():
		}
		t.Stop()
	}
}

// take is the application's hand: records are checked, and only then stamped.
func (rd *reader) take(fs []driver.Fetched) {
	rd.count.Add(int64(len(fs)))
	bytes := int64(0)
	for i := range fs {
		bytes += int64(len(fs[i].Key) + len(fs[i].Value))
	}
	if rd.group.checker == nil {
		if rd.counting.Load() {
			rd.book.delivered(clock.Nanos(), nil, int64(len(fs)), bytes)
		} else {
			rd.notice(fs)
		}
		return
	}
	rd.outcomes = rd.group.checker.Check(rd.outcomes[:0], fs)
	nanos := clock.Nanos()
	if !rd.counting.Load() {
		rd.notice(fs)
		return
	}
	rd.intended = rd.intended[:0]
	if rd.r.spec.Question == workload.Latency {
		rd.recall()
	}
	rd.book.delivered(nanos, rd.intended, int64(len(fs)), bytes)
}

// recall computes when the records of a chunk were intended. Probes come from a producer of their own and have no time.
func (rd *reader) recall() {
	var rc *recall
	last := int32(-1)
	for i := range rd.outcomes {
		o := &rd.outcomes[i]
		if o.Fate != verify.First || int(o.Producer) >= len(rd.r.recalls) {
			continue
		}
		if o.Producer != last {
			if rc != nil {
				rc.mu.Unlock()
			}
			rc, last = rd.r.recalls[o.Producer], o.Producer
			rc.mu.Lock()
		}
		rd.intended = append(rd.intended, rc.begin+rc.r.At(o.Sequence))
	}
	if rc != nil {
		rc.mu.Unlock()
	}
}

// notice remembers from which partitions something was delivered, for as long as the assignment stays.
func (rd *reader) notice(fs []driver.Fetched) {
	_, generation := rd.consumer.Assigned()
	rd.mu.Lock()
	defer rd.mu.Unlock()
	if generation != rd.mu.generation {
		rd.mu.generation = generation
		clear(rd.mu.seen)
	}
	for i := range fs {
		rd.mu.seen[driver.TopicPartition{Topic: fs[i].Topic, Partition: fs[i].Partition}] = true
	}
}

// ready reports whether the reader has an assignment and has delivered from all of it.
func (rd *reader) ready() (partitions int, ok bool, err error) {
	tps, generation := rd.consumer.Assigned()
	rd.mu.Lock()
	defer rd.mu.Unlock()
	if generation == 0 || rd.mu.err != nil {
		return 0, false, rd.mu.err
	}
	if len(tps) == 0 {
		return 0, true, nil
	}
	if generation != rd.mu.generation {
		return len(tps), false, nil
	}
	for _, tp := range tps {
		if !rd.mu.seen[tp] {
			return len(tps), false, nil
		}
	}
	return len(tps), true, nil
}

// ready sends probes until every consumer has delivered one from each of its partitions, and every partition has a
// consumer in every group.
func (r *run) ready(ctx context.Context) error {
	if len(r.readers) == 0 {
		return nil
	}
	from := time.Now()
	probes := newSource(r.spec, r.id, int32(r.spec.Producers), r.keys, r.payload)
	producer, err := r.driver.NewProducer(ctx, int32(r.spec.Producers), func(a *driver.Ack) {
		if r.ledger != nil && a.Err == nil && r.spec.Acks != workload.AcksNone {
			r.ledger.Acked(a.Producer, a.Topic, a.Partition, a.BaseOffset, a.Seqs)
		}
	})
	if err != nil {
		return failure(fmt.Errorf("connect the probing producer: %w", err))
	}
	defer func() {
		_ = producer.Close()
		s := producer.TakeStats()
		r.retries += s.Retries
	}()
	one, cancel := context.WithTimeoutCause(ctx, readyTimeout, errors.New("not within "+readyTimeout.String()))
	defer cancel()
	refused := 0
	for next := time.Now(); ; {
		if time.Now().After(next) {
			if err := r.probe(one, producer, probes); err != nil {
				return failure(fmt.Errorf("probe: %w", err))
			}
			next = time.Now().Add(200 * time.Millisecond)
			if why := r.gone(one, &refused); why != "" {
				r.dies(why)
				return failure(fmt.Errorf("the target died: %s", why))
			}
		}
		what, err := r.waiting(from)
		if err != nil && !isRetriable(err) {
			return failure(fmt.Errorf("consumers: %w", err))
		}
		if what == "" {
			break
		}
		t := time.NewTimer(2 * time.Millisecond)
		select {
		case <-t.C:
		case <-one.Done():
			t.Stop()
			return failure(errors.Join(fmt.Errorf("the consumers did not become ready: %s: %w", what, context.Cause(one)), err))
		}
	}
	r.probed = time.Since(from)
	flushing, stop := context.WithTimeout(ctx, contactTimeout)
	defer stop()
	if err := producer.Flush(flushing); err != nil {
		return failure(fmt.Errorf("probe: %w", err))
	}
	return nil
}

// readyTimeout is how long the consumers may take to deliver a probe from each of their partitions.
const readyTimeout = 60 * time.Second

func isRetriable(err error) bool {
	var code kafka.ErrorCode
	return !asCode(err, &code) || code.Retriable()
}

// gone tells that nobody listened on any of the target's addresses five times in a row, a second in all, and "" otherwise.
func (r *run) gone(ctx context.Context, refused *int) string {
	if r.cluster == nil {
		return ""
	}
	why, all := refusesAll(ctx, r.addresses())
	if !all {
		*refused = 0
		return ""
	}
	if *refused++; *refused < 5 {
		return ""
	}
	return why
}

// diedEarly reports whether the run could not begin because nobody listens any more; the run then ends with a result that
// says so, like one whose target dies later.
func (r *run) diedEarly(ctx context.Context) bool {
	if r.died() == "" && r.cluster != nil && ctx.Err() == nil {
		if why, all := refusesAll(ctx, r.addresses()); all {
			r.dies(why)
		}
	}
	if r.died() == "" {
		return false
	}
	r.dies(r.died() + ", before anything was measured")
	now := clock.Nanos()
	r.begin, r.planned, r.window.start = now, now, now
	r.window.end.Store(now)
	r.use[0] = sampleUsage()
	r.use[1] = r.use[0]
	r.collector = newCollector(r)
	r.end("target")
	for _, b := range r.books {
		b.close()
	}
	return true
}

// probe sends one record to each partition.
func (r *run) probe(ctx context.Context, p driver.Producer, src *source) error {
	for t, topic := range r.topics {
		for part := int32(0); part < topic.Partitions; {
			src.begin()
			for ; part < topic.Partitions && len(src.records) < chunkRecords; part++ {
				src.next(clock.Nanos())
				rec := &src.records[len(src.records)-1]
				rec.Topic, rec.Partition = int32(t), part
			}
			for rs := src.records; len(rs) > 0; {
				n, _, err := p.Produce(rs)
				if err != nil {
					return err
				}
				rs = rs[n:]
			}
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
		}
	}
	return nil
}

// waiting says what the consumers still wait for, "" for nothing.
func (r *run) waiting(from time.Time) (string, error) {
	total := 0
	for _, t := range r.topics {
		total += int(t.Partitions)
	}
	for _, g := range r.groups {
		held := 0
		for i, rd := range g.members {
			n, ok, err := rd.ready()
			if !ok {
				return fmt.Sprintf("consumer %d of %s has not delivered a probe from each of its %d partitions", i, g.label(), n), err
			}
			held += n
		}
		if held != total {
			return fmt.Sprintf("%s holds %d of %d partitions", g.label(), held, total), nil
		}
		if g.joined == 0 {
			g.joined = time.Since(from)
		}
	}
	return "", nil
}

func (g *group) label() string {
	if g.name == "" {
		return "the consumers without a group"
	}
	return "group " + g.name
}

func (rd *reader) close() {
	if rd.closed {
		return
	}
	rd.closed = true
	rd.cancel()
	select {
	case <-rd.done:
		_ = rd.consumer.Close()
	case <-time.After(5 * time.Second):
		_ = rd.consumer.Close()
	}
}
