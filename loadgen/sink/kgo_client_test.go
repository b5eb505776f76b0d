package sink_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark/tidemark/core/kafka"
	"github.com/tidemark/tidemark/loadgen/driver"
	"github.com/tidemark/tidemark/loadgen/sink"
	"github.com/tidemark/tidemark/loadgen/verify"
)

const runID = 77

// start runs a sink for the test.
func start(t *testing.T, s sink.Script) *sink.Sink {
	t.Helper()
	k, err := sink.New(s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := k.Close(); err != nil {
			t.Error(err)
		}
	})
	return k
}

func client(t *testing.T, k *sink.Sink, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	c, err := kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(k.Addr()), kgo.RetryTimeout(3 * time.Minute), kgo.RequestTimeoutOverhead(time.Minute),
		kgo.AllowAutoTopicCreation(),
	}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func deadline(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// sealed is one record of producer 0, in the partition that its sequence gives.
func sealed(topic string, seq uint64, partitions int) *kgo.Record {
	value := make([]byte, 100)
	key := fmt.Appendf(nil, "%d", seq%5)
	verify.Seal(value, verify.Envelope{Run: runID, Sequence: seq}, key, verify.Sum(value[verify.EnvelopeBytes:]))
	return &kgo.Record{Topic: topic, Key: key, Value: value, Partition: int32(seq % uint64(partitions))}
}

// produceEach sends records one by one, each in a batch of its own, and enters the acks.
func produceEach(t *testing.T, c *kgo.Client, l *verify.Ledger, topic string, from, n uint64, partitions int) (failed []error) {
	t.Helper()
	for seq := from; seq < from+n; seq++ {
		r, err := c.ProduceSync(deadline(t), sealed(topic, seq, partitions)).First()
		if err != nil {
			failed = append(failed, err)
			continue
		}
		l.Acked(0, 0, r.Partition, kafka.Offset(r.Offset), []uint64{seq})
	}
	return failed
}

// consume delivers records to the checker until n came.
func consume(t *testing.T, c *kgo.Client, check *verify.Checker, n int64) {
	t.Helper()
	ctx := deadline(t)
	for check.Delivered() < n {
		f := c.PollFetches(ctx)
		if ctx.Err() != nil {
			t.Errorf("delivered %d of %d", check.Delivered(), n)
			return
		}
		for _, e := range f.Errors() {
			t.Errorf("fetch: %v", e.Err)
			return
		}
		f.EachRecord(func(r *kgo.Record) {
			check.Check(nil, []driver.Fetched{{Partition: r.Partition, Offset: kafka.Offset(r.Offset), Key: r.Key, Value: r.Value}})
		})
	}
}

func TestARealClientProducesAndConsumes(t *testing.T) {
	for _, idempotent := range []bool{false, true} {
		k := start(t, sink.Script{Partitions: 6, KeepBytes: 16 << 20, LogArrivals: true})
		opts := []kgo.Opt{kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchCompression(kgo.NoCompression())}
		if !idempotent {
			opts = append(opts, kgo.DisableIdempotentWrite())
		}
		p := client(t, k, opts...)
		l := verify.NewLedger(runID, []string{"t"})
		check := l.NewChecker("")
		const n = 5000
		var mu sync.Mutex
		for seq := range uint64(n) {
			p.Produce(deadline(t), sealed("t", seq, 6), func(r *kgo.Record, err error) {
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					t.Error(err)
				}
				l.Acked(0, 0, r.Partition, kafka.Offset(r.Offset), []uint64{seq})
			})
		}
		if err := p.Flush(deadline(t)); err != nil {
			t.Fatal(err)
		}
		consume(t, client(t, k, kgo.ConsumeTopics("t")), check, n)
		if v := l.Verification(true, ""); !v.Clean() || v.Acked != n || v.Delivered != n {
			t.Errorf("idempotent %v: %+v", idempotent, v)
		}
		records, last := int32(0), int64(0)
		for _, a := range k.Arrivals() {
			records += a.Records
			if a.Producer != 0 || a.FirstSequence > a.LastSequence || a.Nanos < last || a.AckNanos < a.Nanos || a.Topic != "t" {
				t.Fatalf("arrival %+v", a)
			}
			last = a.Nanos
		}
		if s := k.Stats(); records != n || s.Records != n || s.Batches != int64(len(k.Arrivals())) {
			t.Errorf("%d records in the log, stats %+v", records, s)
		}
	}
}

// TestFaultsAreFoundExactly scripts one loss, one repetition, one swap of two batches, one flipped bit, and holds the
// verification to exactly these, named by offset.
func TestFaultsAreFoundExactly(t *testing.T) {
	k := start(t, sink.Script{Partitions: 1, KeepBytes: 16 << 20, Faults: []sink.Fault{
		{Kind: sink.Lose, Batch: 11}, {Kind: sink.Repeat, Batch: 21}, {Kind: sink.Swap, Batch: 31}, {Kind: sink.Flip, Batch: 41},
	}})
	p := client(t, k, kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchCompression(kgo.NoCompression()))
	l := verify.NewLedger(runID, []string{"t"})
	check := l.NewChecker("g")
	if failed := produceEach(t, p, l, "t", 0, 50, 1); len(failed) > 0 {
		t.Fatal(failed)
	}
	consume(t, client(t, k, kgo.ConsumeTopics("t")), check, 50)
	v := l.Verification(true, "")
	if v.Lost != 1 || v.Duplicated != 1 || v.OutOfOrder != 1 || v.Corrupt != 1 || len(v.Findings) != 4 {
		t.Errorf("%+v", v)
	}
	want := map[string]int64{verify.Lost: 10, verify.Duplicated: 21, verify.OutOfOrder: 32, verify.Corrupt: 41}
	for _, f := range v.Findings {
		if f.Offset != want[f.Kind] || f.Topic != "t" || f.Partition != 0 {
			t.Errorf("%s at %d, want %d", f.Kind, f.Offset, want[f.Kind])
		}
	}
	if got := k.Stats().Harmed; got[sink.Lose] != 1 || got[sink.Swap] != 1 || len(got) != 4 {
		t.Errorf("harmed %v", got)
	}
}

// TestFaultsAreFoundAtFullRate lets batches of many records be harmed while six partitions fill as fast as they can, and
// takes the truth from the sink's own arrival log.
func TestFaultsAreFoundAtFullRate(t *testing.T) {
	const n = 100000
	k := start(t, sink.Script{Partitions: 6, KeepBytes: 64 << 20, LogArrivals: true, Faults: []sink.Fault{
		{Kind: sink.Lose, Batch: 7, Every: 41}, {Kind: sink.Repeat, Batch: 11, Every: 43},
		{Kind: sink.Swap, Batch: 13, Every: 47}, {Kind: sink.Flip, Batch: 17, Every: 53},
	}})
	p := client(t, k, kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchCompression(kgo.NoCompression()),
		kgo.ProducerBatchMaxBytes(16<<10), kgo.ProducerLinger(time.Millisecond))
	l := verify.NewLedger(runID, []string{"t"})
	check := l.NewChecker("g")
	var mu sync.Mutex
	for seq := range uint64(n) {
		p.Produce(deadline(t), sealed("t", seq, 6), func(r *kgo.Record, err error) {
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Error(err)
			}
			l.Acked(0, 0, r.Partition, kafka.Offset(r.Offset), []uint64{seq})
		})
	}
	if err := p.Flush(deadline(t)); err != nil {
		t.Fatal(err)
	}
	// A last plain batch for each partition: a batch that waits for its swap would count as lost without it.
	k.Restart(sink.Script{Partitions: 6, KeepBytes: 64 << 20, LogArrivals: true})
	produceEach(t, p, l, "t", n, 6, 6)
	truth := map[sink.Kind]int64{}
	firstOffset := map[sink.Kind]map[int32]int64{}
	for _, a := range k.Arrivals() {
		if a.Harm == sink.Flip {
			truth[a.Harm]++
			continue
		}
		truth[a.Harm] += int64(a.Records)
		if firstOffset[a.Harm] == nil {
			firstOffset[a.Harm] = map[int32]int64{}
		}
		if _, seen := firstOffset[a.Harm][a.Partition]; !seen {
			firstOffset[a.Harm][a.Partition] = int64(a.Offset)
		}
	}
	consume(t, client(t, k, kgo.ConsumeTopics("t")), check, n+6-truth[sink.Lose]+truth[sink.Repeat])
	v := l.Verification(true, "")
	if v.Lost != truth[sink.Lose] || v.Duplicated != truth[sink.Repeat] || v.OutOfOrder != truth[sink.Swap] || v.Corrupt != truth[sink.Flip] {
		t.Errorf("found %+v\ntruth %v", v, truth)
	}
	if truth[sink.Lose] == 0 || truth[sink.Flip] == 0 || truth[sink.Swap] == 0 {
		t.Fatalf("nothing was harmed: %v", truth)
	}
	for _, f := range v.Findings {
		if first := firstOffset[sink.Lose][f.Partition]; f.Kind == verify.Lost && f.Offset < first {
			t.Errorf("lost %d of partition %d, the first lost batch is at %d", f.Offset, f.Partition, first)
		}
	}
}

func TestErrorsReachTheClient(t *testing.T) {
	k := start(t, sink.Script{Partitions: 1, Faults: []sink.Fault{{Kind: sink.Refuse, Batch: 2, Every: 3, Code: kafka.MessageTooLarge}}})
	p := client(t, k, kgo.DisableIdempotentWrite())
	failed := produceEach(t, p, verify.NewLedger(runID, nil), "t", 0, 9, 1)
	if len(failed) != 3 {
		t.Errorf("%d failed, want 3: %v", len(failed), failed)
	}
	for _, err := range failed {
		if err.Error()[:17] != "MESSAGE_TOO_LARGE" {
			t.Errorf("got %v", err)
		}
	}
}

func TestADroppedAckIsNeverAnswered(t *testing.T) {
	k := start(t, sink.Script{Partitions: 1, Faults: []sink.Fault{{Kind: sink.DropAck, Batch: 1, Every: 1}}})
	p := client(t, k, kgo.DisableIdempotentWrite())
	ctx, cancel := context.WithCancel(deadline(t))
	defer cancel()
	go func() { // the answer would come within 300 ms of the record's arrival
		for k.Stats().Records == 0 && ctx.Err() == nil {
			<-time.After(time.Millisecond)
		}
		<-time.After(300 * time.Millisecond)
		cancel()
	}()
	if err := p.ProduceSync(ctx, sealed("t", 0, 1)).FirstErr(); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want no answer", err)
	}
	if k.Stats().Records != 1 {
		t.Error("the record did not arrive")
	}
}

// TestDelaysHold compares times of one run with one another: no ack comes earlier than the script allows.
func TestDelaysHold(t *testing.T) {
	const delay = 20 * time.Millisecond
	k := start(t, sink.Script{Partitions: 1, AckDelay: delay, KeepBytes: 1 << 20, LogArrivals: true})
	p := client(t, k, kgo.DisableIdempotentWrite())
	l := verify.NewLedger(runID, []string{"t"})
	for seq := range uint64(5) {
		began := time.Now()
		produceEach(t, p, l, "t", seq, 1, 1)
		if took := time.Since(began); took < delay {
			t.Errorf("acked after %v", took)
		}
	}
	for _, a := range k.Arrivals() {
		if a.AckNanos-a.Nanos != int64(delay) {
			t.Errorf("truth says %v", time.Duration(a.AckNanos-a.Nanos))
		}
	}

	k.Restart(sink.Script{Partitions: 1, KeepBytes: 1 << 20, FetchDelay: delay})
	check := l.NewChecker("")
	c := client(t, k, kgo.ConsumeTopics("t"))
	consume(t, c, check, 5)
	began := time.Now()
	produceEach(t, p, l, "t", 5, 1, 1)
	if took := time.Since(began); took >= delay {
		t.Logf("the ack took %v with a delay on fetches alone", took) // a busy host; not a fault
	}
	consume(t, c, check, 6)
	if took := time.Since(began); took < delay {
		t.Errorf("delivered after %v", took)
	}
}

func TestAFreezeStopsEverything(t *testing.T) {
	k := start(t, sink.Script{Partitions: 1})
	p := client(t, k, kgo.DisableIdempotentWrite())
	l := verify.NewLedger(runID, []string{"t"})
	produceEach(t, p, l, "t", 0, 1, 1)
	const long = 200 * time.Millisecond
	began := time.Now() // the freeze begins after it, and whatever is sent in it is answered after its end
	k.Restart(sink.Script{Partitions: 1, Freezes: []sink.Freeze{{At: 0, For: long}}})
	produceEach(t, p, l, "t", 1, 1, 1)
	if took := time.Since(began); took < long {
		t.Errorf("acked after %v of a freeze of %v", took, long)
	}
}

func TestCapacityIsServedAndNoMore(t *testing.T) {
	k := start(t, sink.Script{Partitions: 1, Capacity: 10000, LogArrivals: true})
	p := client(t, k, kgo.DisableIdempotentWrite())
	l := verify.NewLedger(runID, []string{"t"})
	var records int32
	began := time.Now()
	for seq := range uint64(2000) {
		p.Produce(deadline(t), sealed("t", seq, 1), func(r *kgo.Record, err error) {
			if err != nil {
				t.Error(err)
			}
		})
	}
	if err := p.Flush(deadline(t)); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took < 199*time.Millisecond {
		t.Errorf("2,000 records at 10,000/s took %v", took)
	}
	_ = l
	for _, a := range k.Arrivals() {
		if records += a.Records; a.AckNanos < a.Nanos {
			t.Errorf("arrival %+v", a)
		}
	}
	if records != 2000 {
		t.Errorf("%d records", records)
	}
}

func TestGroupsShareAndRebalance(t *testing.T) {
	k := start(t, sink.Script{Partitions: 4, KeepBytes: 1 << 20})
	k.Create("t", 4)
	l := verify.NewLedger(runID, []string{"t"})
	check := l.NewChecker("g")
	p := client(t, k, kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.DisableIdempotentWrite())
	group := []kgo.Opt{kgo.ConsumerGroup("g"), kgo.ConsumeTopics("t"), kgo.HeartbeatInterval(50 * time.Millisecond),
		kgo.Balancers(kgo.RangeBalancer()), kgo.AutoCommitInterval(100 * time.Millisecond)}
	assigned := make(chan int, 100)
	watch := func(_ context.Context, _ *kgo.Client, a map[string][]int32) { assigned <- len(a["t"]) }
	first := client(t, k, append(group, kgo.OnPartitionsAssigned(watch))...)
	produceEach(t, p, l, "t", 0, 40, 4)
	consume(t, first, check, 40)
	if n := <-assigned; n != 4 {
		t.Fatalf("the only member was assigned %d of 4", n)
	}
	second := client(t, k, append(group, kgo.OnPartitionsAssigned(watch))...)
	stop, cancel := context.WithCancel(deadline(t))
	var wg sync.WaitGroup
	for _, c := range []*kgo.Client{first, second} {
		wg.Go(func() {
			for stop.Err() == nil {
				c.PollFetches(stop).EachRecord(func(r *kgo.Record) {
					check.Check(nil, []driver.Fetched{{Partition: r.Partition, Offset: kafka.Offset(r.Offset), Key: r.Key, Value: r.Value}})
				})
			}
		})
	}
	if a, b := <-assigned, <-assigned; a != 2 || b != 2 {
		t.Errorf("two members were assigned %d and %d of 4", a, b)
	}
	produceEach(t, p, l, "t", 40, 40, 4)
	for ctx := deadline(t); l.Outstanding() > 0 && ctx.Err() == nil; {
		select {
		case <-time.After(5 * time.Millisecond):
		case <-ctx.Done():
		}
	}
	cancel()
	wg.Wait()
	if v := l.Verification(true, ""); !v.Clean() {
		t.Errorf("%+v", v)
	}
}

func TestTopicsAreCreatedAndRefused(t *testing.T) {
	k := start(t, sink.Script{})
	p := client(t, k, kgo.UnknownTopicRetries(0))
	if err := p.ProduceSync(deadline(t), &kgo.Record{Topic: "nope", Value: []byte("x")}).FirstErr(); !errors.Is(err, kafkaError(3)) {
		t.Errorf("an unknown topic: %v", err)
	}
	if _, err := sink.Listen("0.0.0.0:0", sink.Script{}); err == nil {
		t.Error("a sink listens beyond loopback")
	}
}

// kafkaError is franz-go's error for a code.
func kafkaError(code int16) error { return kerr.ErrorForCode(code) }
