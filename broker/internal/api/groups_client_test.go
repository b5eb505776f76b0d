package api

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/broker/internal/metadata"
	"github.com/tidemark/tidemark/core/kafka"
)

const clientPartitions = 6

// borrowed is a kfake cluster that serves everything but groups, which our handlers serve.
type borrowed struct {
	*groupNode
	addrs []string
}

func borrow(t *testing.T) *borrowed {
	t.Helper()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(clientPartitions, "t"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	b := &borrowed{groupNode: newGroupNode(t), addrs: cluster.ListenAddrs()}
	admin := kadm.NewClient(b.client())
	defer admin.Close()
	topics, err := admin.ListTopics(context.Background(), "t")
	if err != nil {
		t.Fatal(err)
	}
	b.change(&metadata.TopicRecord{Name: "t", ID: kafka.TopicID(topics["t"].ID)}, &metadata.PartitionsRecord{TopicID: kafka.TopicID(topics["t"].ID),
		Partitions: slices.Repeat([]metadata.Partition{{Leader: testNode}}, clientPartitions)})
	if err := b.groups.EnsureTopic(context.Background()); err != nil {
		t.Fatal(err)
	}
	for _, key := range []int16{8, 9, 11, 12, 13, 14, 15, 16} {
		cluster.ControlKey(key, func(req kmsg.Request) (kmsg.Response, error, bool) {
			cluster.KeepControl()
			answer := b.started(req, req.GetVersion())
			var resp kmsg.Response
			cluster.SleepControl(func() { resp = answer() })
			return resp, nil, true
		})
	}
	return b
}

func (b *borrowed) client(o ...kgo.Opt) *kgo.Client {
	b.t.Helper()
	c, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(b.addrs...)}, o...)...)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(c.Close)
	return c
}

// owners follows who owns what, by the callbacks of the clients.
type owners struct {
	sync.Mutex
	of     map[int32]string
	errors []string
}

func (o *owners) assigned(who string) func(context.Context, *kgo.Client, map[string][]int32) {
	return func(_ context.Context, _ *kgo.Client, m map[string][]int32) {
		o.Lock()
		defer o.Unlock()
		for _, p := range m["t"] {
			if other, ok := o.of[p]; ok {
				o.errors = append(o.errors, fmt.Sprintf("partition %d goes to %s while %s owns it", p, who, other))
			}
			o.of[p] = who
		}
	}
}

func (o *owners) lost(who string) func(context.Context, *kgo.Client, map[string][]int32) {
	return func(_ context.Context, _ *kgo.Client, m map[string][]int32) {
		o.Lock()
		defer o.Unlock()
		for _, p := range m["t"] {
			if o.of[p] == who {
				delete(o.of, p)
			}
		}
	}
}

// until polls until every partition is owned, by so many clients.
func (o *owners) until(t *testing.T, clients int) {
	t.Helper()
	deadline := time.After(3 * time.Minute)
	for {
		o.Lock()
		distinct := map[string]bool{}
		for who := range maps.Values(o.of) {
			distinct[who] = true
		}
		done := len(o.of) == clientPartitions && len(distinct) == clients
		state := fmt.Sprint(o.of)
		o.Unlock()
		if done {
			return
		}
		select {
		case <-deadline:
			t.Fatalf("want %d partitions owned by %d clients: %s", clientPartitions, clients, state)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func (b *borrowed) consumer(o *owners, who string, opts ...kgo.Opt) *kgo.Client {
	return b.client(append([]kgo.Opt{
		kgo.ConsumerGroup("g"), kgo.ConsumeTopics("t"), kgo.ClientID(who), kgo.HeartbeatInterval(50 * time.Millisecond),
		kgo.SessionTimeout(2 * time.Minute), kgo.DisableAutoCommit(), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.OnPartitionsAssigned(o.assigned(who)), kgo.OnPartitionsRevoked(o.lost(who)), kgo.OnPartitionsLost(o.lost(who)),
	}, opts...)...)
}

// TestRealClientsShareAGroup: franz-go consumers, eager and cooperative, join, share the partitions, leave; no partition
// is owned twice at any time; the offsets that one has committed are where the next goes on.
func TestRealClientsShareAGroup(t *testing.T) {
	for name, balancer := range map[string]kgo.GroupBalancer{"eager": kgo.RangeBalancer(), "cooperative": kgo.CooperativeStickyBalancer()} {
		t.Run(name, func(t *testing.T) {
			b := borrow(t)
			o := &owners{of: map[int32]string{}}
			producer := b.client(kgo.RecordPartitioner(kgo.ManualPartitioner()))
			for i := range 60 {
				producer.Produce(context.Background(), &kgo.Record{Topic: "t", Partition: int32(i % clientPartitions), Value: fmt.Append(nil, i)}, nil)
			}
			if err := producer.Flush(context.Background()); err != nil {
				t.Fatal(err)
			}
			one := b.consumer(o, "one", kgo.Balancers(balancer))
			o.until(t, 1)
			two := b.consumer(o, "two", kgo.Balancers(balancer))
			o.until(t, 2)
			three := b.consumer(o, "three", kgo.Balancers(balancer))
			o.until(t, 3)
			two.Close()
			o.until(t, 2)
			three.Close()
			o.until(t, 1)
			ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
			defer cancel()
			seen := 0
			for seen < 60 && ctx.Err() == nil {
				seen += one.PollRecords(ctx, 60-seen).NumRecords()
			}
			if err := one.CommitUncommittedOffsets(ctx); err != nil || seen != 60 {
				t.Fatalf("%d records, commit: %v", seen, err)
			}
			one.Close()

			admin := kadm.NewClient(producer)
			offsets, err := admin.FetchOffsets(ctx, "g")
			if err != nil {
				t.Fatal(err)
			}
			for p := range int32(clientPartitions) {
				if at, _ := offsets.Lookup("t", p); at.At != 10 {
					t.Errorf("partition %d is committed at %d, want 10", p, at.At)
				}
			}
			described, err := admin.DescribeGroups(ctx, "g")
			if err != nil || described["g"].State != "Empty" || described["g"].ProtocolType != "consumer" {
				t.Errorf("%+v, %v", described, err)
			}
			for _, e := range o.errors {
				t.Error(e)
			}
		})
	}
}

// TestRealStaticMemberComesBack: a static member that is started again gets its partitions back without a rebalance.
func TestRealStaticMemberComesBack(t *testing.T) {
	b := borrow(t)
	o := &owners{of: map[int32]string{}}
	balancer := kgo.Balancers(kgo.CooperativeStickyBalancer())
	b.consumer(o, "one", balancer, kgo.InstanceID("one"))
	o.until(t, 1)
	two := b.consumer(o, "two", balancer, kgo.InstanceID("two"))
	o.until(t, 2)
	admin := kadm.NewClient(b.client())
	defer admin.Close()
	generation := func() int32 {
		deadline := time.Now().Add(3 * time.Minute)
		for {
			d, err := admin.DescribeGroups(context.Background(), "g")
			if err == nil && d["g"].State == "Stable" && len(d["g"].Members) == 2 {
				return newestGeneration(t, b)
			}
			if time.Now().After(deadline) {
				t.Fatalf("the group does not become stable: %+v, %v", d, err)
			}
		}
	}
	before := generation()
	two.Close() // a static member does not leave
	b.consumer(o, "two", balancer, kgo.InstanceID("two"))
	o.until(t, 2)
	if after := generation(); after != before {
		t.Errorf("generation %d became %d", before, after)
	}
}

// newestGeneration reads group g's newest record out of the log.
func newestGeneration(t *testing.T, b *borrowed) (generation int32) {
	t.Helper()
	for _, log := range b.logs {
		log.mu.Lock()
		for _, batch := range log.batches {
			it, err := batch.Records(nil, 1<<20)
			if err != nil {
				t.Fatal(err)
			}
			for it.Next() {
				var v kmsg.GroupMetadataValue
				if r := it.Record(); r.Key[1] == 2 && v.ReadFrom(r.Value) == nil {
					generation = v.Generation
				}
			}
		}
		log.mu.Unlock()
	}
	return generation
}
