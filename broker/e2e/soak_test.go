package e2e

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark/tidemark/broker/proc"
)

// soak is a long run of mixed load over restarts.
type soak struct {
	r       *rand.Rand
	data    string
	b       *proc.Broker
	amount  int // records acknowledged in a phase
	next    uint32
	peaks   []int // KiB, of each life of the broker
	records int
}

// TestSoak runs mixed load in cycles: idempotent producers held to a ledger, producers without acks, a group whose members
// come and go, topics made and deleted, and in the middle of it a stop, a kill or nothing. Each cycle checks its data, that the
// group has seen every acknowledged record, and the broker's memory. TIDEMARK_SOAK is how long; without it three small cycles.
func TestSoak(t *testing.T) {
	s := &soak{r: seeded(t), data: t.TempDir(), amount: 800}
	var deadline time.Time
	if text := os.Getenv("TIDEMARK_SOAK"); text != "" {
		d, err := time.ParseDuration(text)
		if err != nil {
			t.Fatalf("TIDEMARK_SOAK=%q: %v", text, err)
		}
		deadline, s.amount = time.Now().Add(d), 20_000
	}
	s.start(t, "")
	cycle := 0
	for ; cycle < 3 || time.Now().Before(deadline); cycle++ {
		s.cycle(t, cycle)
		if t.Failed() {
			t.Fatalf("cycle %d failed", cycle)
		}
		if !deadline.IsZero() {
			t.Logf("cycle %d: %d records so far, resident %d MiB", cycle, s.records, residentKiB(t, s.b.PID, "VmRSS")>>10)
		}
	}
	s.end(t, true)
	t.Logf("%d cycles, %d records, peaks of memory %v KiB", cycle, s.records, s.peaks)
	if n := len(s.peaks); n >= 9 {
		early, late := slices.Max(s.peaks[:n/3]), slices.Max(s.peaks[n-n/3:])
		if late > 2*early {
			t.Errorf("memory grows: a peak of %d KiB in the first third, %d in the last", early, late)
		}
	}
}

func (s *soak) start(t *testing.T, addr string) {
	s.b = start(t, proc.Options{Data: s.data, Listen: addr, NoAdmin: true, Properties: []string{
		"log.retention.check.interval.ms=100", "log.segment.delete.delay.ms=200", "offsets.topic.num.partitions=5",
		"log.flush.offset.checkpoint.interval.ms=500", "socket.transfer=" + pick(s.r, transfers...),
	}})
}

// end ends the broker and notes its peak.
func (s *soak) end(t *testing.T, clean bool) {
	t.Helper()
	s.peaks = append(s.peaks, residentKiB(t, s.b.PID, "VmHWM"))
	if !clean {
		s.b.Kill()
	} else if err := s.b.Stop(); err != nil {
		t.Errorf("stop: %v", err)
	}
}

// cycle runs one round on topics of its own, which it deletes at the end.
func (s *soak) cycle(t *testing.T, cycle int) {
	parts := map[string]int32{}
	for i := range 3 {
		parts[fmt.Sprintf("soak-%d-%d", cycle, i)] = 1 + s.r.Int32N(6)
	}
	topics := slices.Sorted(maps.Keys(parts))
	for _, topic := range topics {
		create(t, s.b, topic, parts[topic], fmt.Sprint("segment.bytes=", pick(s.r, 1<<20, 16<<20)), fmt.Sprint("segment.index.bytes=", pick(s.r, 200, 10<<20)),
			"compression.type="+pick(s.r, "producer", "producer", "zstd", "gzip"))
	}
	noise := fmt.Sprintf("noise-%d", cycle)
	create(t, s.b, noise, 4, "segment.bytes=1048576", "retention.bytes=2097152")

	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var running sync.WaitGroup
	l := newLedger()
	var senders []*sender
	for range 2 {
		one := l.newSender(t, s.b.Addr, s.next, s.r)
		s.next++
		senders = append(senders, one)
		running.Go(func() {
			for ctx.Err() == nil {
				topic := pick(one.r, topics...)
				one.sendOne(ctx, topic, one.r.Int32N(parts[topic]))
			}
		})
	}
	s.noise(t, ctx, &running, noise)
	running.Go(func() { s.churn(ctx, t, fmt.Sprintf("churn-%d", cycle)) })
	g := newGroupReader(t, s.b.Addr, fmt.Sprintf("soak-%d", cycle), topics, pick(s.r, kgo.CooperativeStickyBalancer(), kgo.RangeBalancer()))
	g.join()

	s.await(t, l, g)
	g.join()
	if how := cycle % 3; how > 0 {
		addr := s.b.Addr
		s.end(t, how == 1)
		s.start(t, addr)
	}
	s.await(t, l, g)
	g.leave()
	g.join()
	s.await(t, l, g)

	stop()
	running.Wait()
	for _, one := range senders {
		flush, cancel := context.WithTimeout(t.Context(), patience)
		if err := one.c.Flush(flush); err != nil {
			t.Errorf("flush: %v", err)
		}
		cancel()
		one.c.Close()
	}
	if err := l.err(); err != nil {
		t.Error(err)
	}
	g.sawAll(t, l)
	s.records += l.count()
	admin := adminOf(t, s.b)
	for _, topic := range topics {
		l.check(t, s.b, topic)
	}
	if r, err := admin.DeleteTopics(t.Context(), append(topics, noise)...); err != nil || r.Error() != nil {
		t.Errorf("delete: %v %v", err, r.Error())
	}
	if _, err := admin.ListGroups(t.Context()); err != nil {
		t.Error(err)
	}
}

func (s *soak) await(t *testing.T, l *ledger, g *groupReader) {
	t.Helper()
	acks, reads := l.count()+s.amount, g.count()+s.amount/2
	until(t, "records are acknowledged and read", func() bool { return l.count() >= acks && g.count() >= reads || l.err() != nil })
}

// noise runs producers that wait for one ack or none, at about a thousand records a second.
func (s *soak) noise(t *testing.T, ctx context.Context, running *sync.WaitGroup, topic string) {
	for _, acks := range []kgo.Acks{kgo.NoAck(), kgo.LeaderAck()} {
		c := newClient(t, s.b, kgo.RequiredAcks(acks), kgo.DisableIdempotentWrite(), kgo.DefaultProduceTopic(topic))
		running.Go(func() {
			defer c.Close()
			tick := time.NewTicker(time.Millisecond)
			defer tick.Stop()
			for value := make([]byte, 2000); ctx.Err() == nil; <-tick.C {
				c.TryProduce(ctx, kgo.SliceRecord(value), nil)
			}
		})
	}
}

// churn makes, grows, asks for and deletes topics.
func (s *soak) churn(ctx context.Context, t *testing.T, name string) {
	c, err := kgo.NewClient(kgo.SeedBrokers(s.b.Addr))
	if err != nil {
		t.Error(err)
		return
	}
	defer c.Close()
	admin := kadm.NewClient(c)
	for i := 0; ctx.Err() == nil; i++ {
		topic := fmt.Sprintf("%s-%d", name, i)
		_, _ = admin.CreateTopic(ctx, 2, 1, nil, topic)
		_, _ = admin.UpdatePartitions(ctx, 4, topic)
		_, _ = admin.ListEndOffsets(ctx, topic)
		_, _ = admin.DeleteTopics(ctx, topic)
	}
}

// groupReader is a group whose members come and go; it knows what they have read.
type groupReader struct {
	t    *testing.T
	addr string
	opts []kgo.Opt
	mu   struct {
		sync.Mutex
		seen    map[place]origin
		failure error
	}
	members []*kgo.Client
}

func newGroupReader(t *testing.T, addr, group string, topics []string, balancer kgo.GroupBalancer) *groupReader {
	g := &groupReader{t: t, addr: addr, opts: []kgo.Opt{kgo.SeedBrokers(addr), kgo.ConsumerGroup(group), kgo.ConsumeTopics(topics...),
		kgo.Balancers(balancer), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.HeartbeatInterval(100 * time.Millisecond),
		kgo.SessionTimeout(10 * time.Second), kgo.AutoCommitInterval(100 * time.Millisecond), kgo.FetchMaxWait(500 * time.Millisecond)}}
	g.mu.seen = map[place]origin{}
	return g
}

// join adds a member, which reads until it leaves.
func (g *groupReader) join() {
	c, err := kgo.NewClient(g.opts...)
	if err != nil {
		g.t.Fatal(err)
	}
	g.members = append(g.members, c)
	g.t.Cleanup(c.Close)
	go func() {
		for {
			f := c.PollFetches(context.Background())
			if f.IsClientClosed() {
				return
			}
			g.mu.Lock()
			f.EachRecord(func(r *kgo.Record) {
				o, err := decodeValue(r.Value)
				if err != nil {
					g.mu.failure = fmt.Errorf("%s/%d offset %d: %w", r.Topic, r.Partition, r.Offset, err)
				}
				g.mu.seen[place{r.Topic, r.Partition, r.Offset}] = o
			})
			g.mu.Unlock()
		}
	}()
}

func (g *groupReader) count() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.mu.seen)
}

// leave takes the oldest member away.
func (g *groupReader) leave() {
	g.members[0].Close()
	g.members = g.members[1:]
}

// sawAll waits until the members have read everything that was acknowledged, and ends them.
func (g *groupReader) sawAll(t *testing.T, l *ledger) {
	t.Helper()
	l.mu.Lock()
	acked := maps.Clone(l.acked)
	l.mu.Unlock()
	until(t, "the group has read every acknowledged record", func() bool {
		g.mu.Lock()
		defer g.mu.Unlock()
		for p := range acked {
			if _, ok := g.mu.seen[p]; !ok {
				return false
			}
		}
		return true
	})
	for len(g.members) > 0 {
		g.leave()
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.mu.failure != nil {
		t.Error(g.mu.failure)
	}
	for p, o := range acked {
		if g.mu.seen[p] != o {
			t.Fatalf("%v: the group has read %v, acknowledged is %v", p, g.mu.seen[p], o)
		}
	}
}
