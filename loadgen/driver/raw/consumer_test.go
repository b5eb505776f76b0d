package raw_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark/tidemark/core/compress"
	"github.com/tidemark/tidemark/loadgen/driver"
)

func fill(t testing.TB, addrs []string, partitions int32, n int, codec kgo.CompressionCodec) {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(addrs...), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchCompression(codec))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	for i := range n {
		cl.Produce(t.Context(), &kgo.Record{Topic: fmt.Sprintf("t%d", i%2), Partition: int32(i/2) % partitions, Key: fmt.Appendf(nil, "k%d", i), Value: text(i)}, nil)
	}
	if err := cl.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func every(partitions int32) (tps []driver.TopicPartition) {
	for t := range int32(2) {
		for p := range partitions {
			tps = append(tps, driver.TopicPartition{Topic: t, Partition: p})
		}
	}
	return tps
}

// reading polls until stop, and counts each record.
type reading struct {
	mu  sync.Mutex
	got map[string]int
	n   int
}

func (r *reading) take(fs []driver.Fetched) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, f := range fs {
		r.n++
		r.got[fmt.Sprintf("%s=%s", f.Key, f.Value)]++
	}
}

func (r *reading) total() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.n
}

func poll(t testing.TB, ctx context.Context, c driver.Consumer, r *reading) {
	for ctx.Err() == nil {
		if err := c.Poll(ctx, r.take); err != nil && ctx.Err() == nil {
			t.Error(err)
			return
		}
	}
}

func until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	end := time.Now().Add(2 * time.Minute)
	for !ok() {
		if time.Now().After(end) {
			t.Fatalf("not within two minutes: %s", what)
		}
		<-time.After(5 * time.Millisecond)
	}
}

func TestAssignedPartitionsAreReadWhole(t *testing.T) {
	for _, codec := range []kgo.CompressionCodec{kgo.NoCompression(), kgo.ZstdCompression(), kgo.Lz4Compression()} {
		c := fake(t, 3)
		fill(t, c.ListenAddrs(), 3, 2000, codec)
		cons, err := open(t, config(c.ListenAddrs(), 3)).NewConsumer(t.Context(), 0, driver.ConsumerConfig{Partitions: every(3)})
		if err != nil {
			t.Fatal(err)
		}
		r := &reading{got: map[string]int{}}
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		for r.n < 2000 && ctx.Err() == nil {
			if err := cons.Poll(ctx, r.take); err != nil {
				t.Fatal(err)
			}
		}
		cancel()
		for i := range 2000 {
			if n := r.got[fmt.Sprintf("k%d=%s", i, text(i))]; n != 1 {
				t.Fatalf("record %d was read %d times", i, n)
			}
		}
		if lag := cons.Lag(); lag != 0 {
			t.Errorf("lag %d at the end", lag)
		}
		if s := cons.TakeStats(); s.Records != 2000 {
			t.Errorf("stats count %d records", s.Records)
		}
	}
}

func TestLatestBeginsAtTheEnd(t *testing.T) {
	c := fake(t, 1)
	fill(t, c.ListenAddrs(), 1, 100, kgo.NoCompression())
	cfg := config(c.ListenAddrs(), 1)
	d := open(t, cfg)
	cons, err := d.NewConsumer(t.Context(), 0, driver.ConsumerConfig{Partitions: every(1), FromLatest: true})
	if err != nil {
		t.Fatal(err)
	}
	p, err := d.NewProducer(t.Context(), 0, func(*driver.Ack) {})
	if err != nil {
		t.Fatal(err)
	}
	produce(t, p, 10, 1, func(i int) []byte { return text(1000 + i) })
	r := &reading{got: map[string]int{}}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for r.n < 10 && ctx.Err() == nil {
		if err := cons.Poll(ctx, r.take); err != nil {
			t.Fatal(err)
		}
	}
	if r.n != 10 || r.got[fmt.Sprintf("k0=%s", text(1000))] != 1 {
		t.Fatalf("read %v", r.got)
	}
}

func TestGroupSharesMovesAndCommits(t *testing.T) {
	for _, assignor := range []string{"range", "roundrobin"} {
		t.Run(assignor, func(t *testing.T) {
			c := fake(t, 4)
			d := open(t, config(c.ListenAddrs(), 4))
			cc := driver.ConsumerConfig{Group: "g", Assignor: assignor, Commit: driver.CommitSync, SessionTimeout: 2 * time.Minute,
				RebalanceTimeout: 2 * time.Minute, HeartbeatInterval: 20 * time.Millisecond}
			r := &reading{got: map[string]int{}}
			var members []driver.Consumer
			var wg sync.WaitGroup
			var stops []context.CancelFunc
			ended := make([]chan struct{}, 2)
			for i := range 2 {
				m, err := d.NewConsumer(t.Context(), int32(i), cc)
				if err != nil {
					t.Fatal(err)
				}
				ctx, stop := context.WithCancel(t.Context())
				members, stops = append(members, m), append(stops, stop)
				ended[i] = make(chan struct{})
				wg.Go(func() { poll(t, ctx, m, r); close(ended[i]) })
			}
			share := func(i int) int { tps, _ := members[i].Assigned(); return len(tps) }
			until(t, "both members hold four partitions", func() bool { return share(0) == 4 && share(1) == 4 })
			fill(t, c.ListenAddrs(), 4, 1000, kgo.SnappyCompression())
			until(t, "all is read", func() bool { return r.total() >= 1000 })
			stops[1]()
			<-ended[1]
			if err := members[1].Close(); err != nil {
				t.Fatal(err)
			}
			until(t, "the other holds all", func() bool { return share(0) == 8 })
			fill(t, c.ListenAddrs(), 4, 500, kgo.NoCompression())
			until(t, "the rest is read", func() bool { return r.total() >= 1500 })
			stops[0]()
			wg.Wait()
			if err := members[0].Close(); err != nil {
				t.Fatal(err)
			}
			if r.n != 1500 {
				t.Errorf("read %d records of 1500: committed offsets were not used", r.n)
			}
		})
	}
}

func TestUnknownAssignorIsRefused(t *testing.T) {
	c := fake(t, 1)
	cfg := config(c.ListenAddrs(), 1)
	cfg.Codec = compress.None
	if _, err := open(t, cfg).NewConsumer(t.Context(), 0, driver.ConsumerConfig{Group: "g", Assignor: "cooperative-sticky"}); err == nil {
		t.Fatal("cooperative-sticky was taken")
	}
}
