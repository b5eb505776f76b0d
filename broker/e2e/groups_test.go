// Package e2e holds black-box tests: real clients against processes of the real binary, a file for each promise.
package e2e

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/tidemark/tidemark/broker/proc"
)

func startBroker(t *testing.T, data string) (*proc.Broker, *kadm.Client) {
	t.Helper()
	b, err := proc.Start(t.Context(), proc.Options{Bin: proc.Binary(t), Data: data, NoAdmin: true,
		Properties: []string{"group.initial.rebalance.delay.ms=0"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Kill)
	return b, kadm.NewClient(newClient(t, b))
}

func newClient(t *testing.T, b *proc.Broker, o ...kgo.Opt) *kgo.Client {
	t.Helper()
	c, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(b.Addr), kgo.RetryTimeout(time.Minute)}, o...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// TestCommittedOffsetsSurviveKill commits as fast as it can, kills the broker in the middle, and finds after the restart
// what was acknowledged last, or something later.
func TestCommittedOffsetsSurviveKill(t *testing.T) {
	data := t.TempDir()
	b, admin := startBroker(t, data)
	if _, err := admin.CreateTopic(t.Context(), 3, 1, nil, "t"); err != nil {
		t.Fatal(err)
	}
	const groups = 4
	var acked [groups]atomic.Int64
	for round := range 5 {
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{}, groups)
		for g := range groups {
			own := kadm.NewClient(newClient(t, b))
			go func() {
				defer func() { ended <- struct{}{} }()
				for next := acked[g].Load() + 1; ctx.Err() == nil; next++ {
					var o kadm.Offsets
					o.AddOffset("t", 0, next, -1)
					if err := own.CommitAllOffsets(ctx, fmt.Sprintf("group-%d", g), o); err != nil {
						return
					}
					acked[g].Store(next)
				}
			}()
		}
		deadline := time.Now().Add(patience)
		for want := acked[0].Load() + 50; acked[0].Load() < want; {
			if time.Now().After(deadline) {
				t.Fatalf("round %d: no commits are acknowledged", round)
			}
			<-time.After(time.Millisecond)
		}
		b.Kill()
		stop()
		for range groups {
			<-ended
		}
		b, admin = startBroker(t, data)
		for g := range groups {
			r, err := admin.FetchOffsets(t.Context(), fmt.Sprintf("group-%d", g))
			if err != nil {
				t.Fatal(err)
			}
			at, _ := r.Lookup("t", 0)
			if at.At < acked[g].Load() {
				t.Fatalf("round %d: group %d was acknowledged at %d and is at %d", round, g, acked[g].Load(), at.At)
			}
			acked[g].Store(at.At)
		}
	}
	listed, err := admin.ListGroups(t.Context())
	if err != nil || len(listed) != groups {
		t.Errorf("listed %v, %v", listed.Groups(), err)
	}
}

// TestConsumersGoOnAfterKill: members of a group outlive the broker's kill: they keep generation and partitions, and read
// on from what they have committed.
func TestConsumersGoOnAfterKill(t *testing.T) {
	data := t.TempDir()
	b, admin := startBroker(t, data)
	if _, err := admin.CreateTopic(t.Context(), 2, 1, nil, "t"); err != nil {
		t.Fatal(err)
	}
	produce := func(from, to int) {
		p := newClient(t, b)
		for i := from; i < to; i++ {
			p.Produce(t.Context(), &kgo.Record{Topic: "t", Value: fmt.Append(nil, i)}, func(_ *kgo.Record, err error) {
				if err != nil {
					t.Error(err)
				}
			})
		}
		if err := p.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	consume := func(n int) map[string]int {
		c := newClient(t, b, kgo.ConsumerGroup("g"), kgo.ConsumeTopics("t"), kgo.InstanceID("one"), kgo.DisableAutoCommit(),
			kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
		defer c.Close()
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		seen := map[string]int{}
		for len(seen) < n && ctx.Err() == nil {
			c.PollRecords(ctx, n-len(seen)).EachRecord(func(r *kgo.Record) { seen[string(r.Value)]++ })
		}
		if err := c.CommitUncommittedOffsets(ctx); err != nil {
			t.Fatal(err)
		}
		return seen
	}
	produce(0, 100)
	if seen := consume(60); len(seen) != 60 {
		t.Fatalf("%d records", len(seen))
	}
	b.Kill()
	b, admin = startBroker(t, data)
	described, err := admin.DescribeGroups(t.Context(), "g")
	if g := described["g"]; err != nil || g.State != "Stable" || len(g.Members) != 1 || *g.Members[0].InstanceID != "one" {
		t.Errorf("after the kill: %+v, %v", g, err)
	}
	produce(100, 120)
	seen := consume(60)
	for value, times := range seen {
		if times > 1 {
			t.Errorf("record %s came %d times", value, times)
		}
	}
	if len(seen) != 60 {
		t.Errorf("%d records after the restart, want the 60 that were not committed", len(seen))
	}
}

// TestStopDoesNotWaitForARebalance: a member's JoinGroup waits for another member, for five minutes if need be; a clean
// stop ends it at once.
func TestStopDoesNotWaitForARebalance(t *testing.T) {
	b, _ := startBroker(t, t.TempDir())
	join := func(c *kgo.Client) (*kmsg.JoinGroupResponse, error) {
		req := kmsg.NewPtrJoinGroupRequest()
		req.Version, req.Group, req.ProtocolType = 3, "g", "consumer"
		req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = 300_000, 300_000
		req.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range"}}
		return req.RequestWith(t.Context(), c)
	}
	oldest := kgo.MaxVersions(kversion.V1_0_0()) // no MEMBER_ID_REQUIRED
	if r, err := join(newClient(t, b, oldest)); err != nil || r.ErrorCode != 0 {
		t.Fatalf("%+v, %v", r, err)
	}
	parked := make(chan struct{})
	go func() {
		defer close(parked)
		_, _ = join(newClient(t, b, oldest, kgo.RequestRetries(0)))
	}()
	admin := kadm.NewClient(newClient(t, b))
	for deadline := time.Now().Add(patience); ; {
		d, err := admin.DescribeGroups(t.Context(), "g")
		if err == nil && d["g"].State == "PreparingRebalance" {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%+v, %v", d, err)
		}
	}
	stopped := make(chan error, 1)
	go func() { stopped <- b.Stop() }()
	select {
	case err := <-stopped:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(patience):
		t.Fatal("the broker waits for the rebalance")
	}
	<-parked
}
