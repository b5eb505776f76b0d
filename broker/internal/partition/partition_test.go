package partition

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidemark/tidemark/core/buf"
	"github.com/tidemark/tidemark/core/commitlog"
	"github.com/tidemark/tidemark/core/compress"
	"github.com/tidemark/tidemark/core/kafka"
	"github.com/tidemark/tidemark/core/record"
	"github.com/tidemark/tidemark/core/vfs"
)

// leader makes a partition over a log in memory that leads with an ISR; 0 is this broker.
func leader(t *testing.T, minISR int, isr ...kafka.BrokerID) *Partition {
	t.Helper()
	cfg := &Config{Codec: -1, MinInsyncReplicas: minISR, Log: &commitlog.Config{}}
	l, err := commitlog.Open(commitlog.Options{Env: &commitlog.Env{FS: vfs.NewMem(time.Now), Pool: buf.NewPool(), Tail: commitlog.NewTailBudget(1 << 20)},
		Config: cfg.Log, Dir: "t-0", TopicID: kafka.TopicID{1}})
	if err != nil {
		t.Fatal(err)
	}
	p, err := New(Options{Topic: "t", ID: kafka.TopicID{1}, Log: l, Config: cfg, Failed: func(err error) { t.Error(err) }})
	if err != nil {
		t.Fatal(err)
	}
	p.BecomeLeader(1, isr)
	return p
}

func one(t *testing.T) record.Batch {
	t.Helper()
	b := record.NewBuilder(compress.New(), compress.None, 0)
	b.Reset(1000, kafka.NoProducerID, kafka.NoEpoch, record.NoSequence, 0)
	b.Append(1000, nil, []byte("value"))
	out, err := b.Finish(nil)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// put appends one record and tells how often Done was called, and the result.
func put(t *testing.T, p *Partition, acks int16) (*Append, *atomic.Int32) {
	t.Helper()
	var done atomic.Int32
	a := &Append{Batch: one(t), Acks: acks, Done: Func(func(*Append) { done.Add(1) })}
	if !p.Append(a) {
		done.Add(1)
	}
	return a, &done
}

func TestTheHighWatermarkIsTheLowestEndOfTheISR(t *testing.T) {
	p := leader(t, 2, 0, 1, 2)
	a, done := put(t, p, -1)
	b, later := put(t, p, -1)
	if p.HighWatermark() != 0 || p.LogEnd() != 2 || done.Load() != 0 {
		t.Fatal("nothing is acknowledged before the followers have it")
	}
	p.Follower(1, 2)
	if p.HighWatermark() != 0 || done.Load() != 0 {
		t.Fatal("the slowest counts")
	}
	p.Follower(2, 1)
	if p.HighWatermark() != 1 || done.Load() != 1 || a.Result.Err != 0 || a.Result.Base != 0 || later.Load() != 0 {
		t.Fatalf("high watermark %d, %+v", p.HighWatermark(), a.Result)
	}
	p.BecomeLeader(1, []kafka.BrokerID{0, 1}) // the ISR shrinks: what the others have is committed
	if p.HighWatermark() != 2 || later.Load() != 1 || b.Result.Base != 1 {
		t.Fatalf("high watermark %d, %+v", p.HighWatermark(), b.Result)
	}
}

func TestAcksOneDoesNotWaitAndTooSmallISRRefuses(t *testing.T) {
	p := leader(t, 2, 0, 1)
	if a, done := put(t, p, 1); done.Load() != 1 || a.Result.Err != 0 {
		t.Fatalf("%+v", a.Result)
	}
	p.BecomeLeader(1, []kafka.BrokerID{0})
	if a, done := put(t, p, -1); done.Load() != 1 || a.Result.Err != kafka.NotEnoughReplicas {
		t.Fatalf("%+v", a.Result)
	}
	if a, done := put(t, p, 1); done.Load() != 1 || a.Result.Err != 0 || a.Result.Base != 1 {
		t.Fatalf("%+v", a.Result)
	}
}

func TestALostLeadershipFailsWhatWaits(t *testing.T) {
	p := leader(t, 1, 0, 1)
	a, done := put(t, p, -1)
	p.Resign()
	if done.Load() != 1 || a.Result.Err != kafka.NotLeaderForPartition {
		t.Fatalf("%+v", a.Result)
	}
	if a, _ := put(t, p, 1); a.Result.Err != kafka.NotLeaderForPartition {
		t.Fatalf("%+v", a.Result)
	}
	p.BecomeLeader(2, []kafka.BrokerID{0})
	if a, _ := put(t, p, -1); a.Result.Err != 0 || a.Result.Base != 1 {
		t.Fatalf("%+v", a.Result)
	}
	if e, end := p.EpochEnd(1); e != 1 || end != 1 {
		t.Fatalf("epoch 1 ended at %d %d", e, end)
	}
}

type ready struct{ n atomic.Int32 }

func (r *ready) FetchReady() { r.n.Add(1) }

func TestAWaitCountsBytesToTheHighWatermark(t *testing.T) {
	p := leader(t, 1, 0, 1)
	size := int64(len(one(t)))
	var w Wait
	var r ready
	w.Arm(2*size, &r)
	x := Waiter{Wait: &w}
	if !p.Watch(&x, p.Look()) {
		t.Fatal("nothing has come yet")
	}
	for range 3 {
		put(t, p, 1)
	}
	p.Follower(1, 1)
	if r.n.Load() != 0 {
		t.Fatal("one batch is not enough, and those past the high watermark do not count")
	}
	p.Follower(1, 3)
	p.Follower(1, 3)
	if r.n.Load() != 1 {
		t.Fatalf("told %d times", r.n.Load())
	}
	x.Unwatch()
	x.Unwatch()
}

func TestBytesBetweenLookAndWatchCount(t *testing.T) {
	p := leader(t, 1, 0)
	seen := p.Look()
	put(t, p, 1)
	var w Wait
	var r ready
	w.Arm(1, &r)
	x := Waiter{Wait: &w}
	if p.Watch(&x, seen) {
		t.Fatal("it has what it needs")
	}
	w.Arm(1, &r)
	seen = p.Look()
	p.BecomeLeader(2, []kafka.BrokerID{0})
	if p.Watch(&x, seen) {
		t.Fatal("the leader's epoch has changed")
	}
}

func TestExclusiveRunsAloneAndAppendsGoOnBehindIt(t *testing.T) {
	p := leader(t, 1, 0)
	var a *Append
	var done *atomic.Int32
	p.Exclusive(func() {
		a, done = put(t, p, 1)
		if done.Load() != 0 || p.LogEnd() != 0 {
			t.Error("an append ran inside")
		}
	})
	if done.Load() != 1 || a.Result.Base != 0 || p.LogEnd() != 1 {
		t.Fatalf("%+v", a.Result)
	}
}
