package kgo_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/tidemark/tidemark/core/clock"
	"github.com/tidemark/tidemark/core/compress"
	"github.com/tidemark/tidemark/loadgen/driver"
	"github.com/tidemark/tidemark/loadgen/driver/kgo"
)

func config(addrs []string) driver.Config {
	return driver.Config{
		Bootstrap: addrs, ClientID: "test", Topics: []driver.Topic{{Name: "t", Partitions: 3}},
		Acks: -1, InFlight: 5, BatchBytes: 16 << 10, MaxRequestBytes: 1 << 20, BufferBytes: 8 << 20,
		DeliveryTimeout: 4 * time.Minute, RequestTimeout: 2 * time.Minute, RetryBackoff: 10 * time.Millisecond, Retries: 100,
		FetchMinBytes: 1, FetchMaxBytes: 50 << 20, FetchMaxPartitionBytes: 1 << 20, FetchMaxWait: 100 * time.Millisecond, MaxPollRecords: 500,
	}
}

func TestEverySettingIsTakenAndRecordsArriveOnce(t *testing.T) {
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(3, "t"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	next := 0
	for _, change := range []func(*driver.Config){
		func(*driver.Config) {},
		func(c *driver.Config) { c.Idempotence = true },
		func(c *driver.Config) { c.Acks, c.InFlight = 1, 1 },
		func(c *driver.Config) { c.Codec, c.CodecLevel, c.Linger = compress.Zstd, 3, 5*time.Millisecond },
		func(c *driver.Config) { c.BufferRecords = 10 },
	} {
		cfg := config(c.ListenAddrs())
		change(&cfg)
		d, err := kgo.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		var mu sync.Mutex
		acked := map[uint64]int{}
		p, err := d.NewProducer(t.Context(), 1, func(a *driver.Ack) {
			mu.Lock()
			defer mu.Unlock()
			if a.Err != nil || a.BaseOffset < 0 || a.AckedNanos == 0 {
				t.Errorf("%+v", a)
			}
			acked[a.Seqs[0]]++
		})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 300 {
			r := driver.Record{Seq: uint64(i), IntendedNanos: clock.Nanos(), Partition: int32(i % 3), Key: []byte("k"), Head: []byte("head "), Value: fmt.Appendf(nil, "%d", next)}
			if n, _, err := p.Produce([]driver.Record{r}); n != 1 || err != nil {
				t.Fatal(n, err)
			}
			next++
		}
		if err := p.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		if len(acked) != 300 {
			t.Errorf("%d of 300 acked", len(acked))
		}
		s := p.TakeStats()
		for end := time.Now().Add(2 * time.Minute); s.Records < 300 && time.Now().Before(end); { // hooks come after promises
			<-time.After(time.Millisecond)
			more := p.TakeStats()
			s.Add(&more)
		}
		if s.Records != 300 || s.Requests == 0 || s.Batches == 0 {
			t.Errorf("stats %+v", s)
		}
		_ = p.Close()
	}
	readBack(t, c.ListenAddrs(), next)
}

// readBack reads everything, first without and then as a member of a group.
func readBack(t *testing.T, addrs []string, next int) {
	t.Helper()
	d, err := kgo.New(config(addrs))
	if err != nil {
		t.Fatal(err)
	}
	for _, cc := range []driver.ConsumerConfig{
		{Partitions: []driver.TopicPartition{{Partition: 0}, {Partition: 1}, {Partition: 2}}},
		{Group: "g", Assignor: "cooperative-sticky", Commit: driver.CommitSync, SessionTimeout: 2 * time.Minute, RebalanceTimeout: 2 * time.Minute, HeartbeatInterval: 100 * time.Millisecond},
	} {
		cons, err := d.NewConsumer(t.Context(), 0, cc)
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]int{}
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		for len(got) < next && ctx.Err() == nil {
			if err := cons.Poll(ctx, func(fs []driver.Fetched) {
				for _, f := range fs {
					got[string(f.Value)]++
				}
			}); err != nil {
				t.Fatal(err)
			}
		}
		cancel()
		for i := range next {
			if n := got[fmt.Sprintf("head %d", i)]; n != 1 {
				t.Fatalf("record %d was read %d times", i, n)
			}
		}
		if parts, generation := cons.Assigned(); len(parts) != 3 || generation == 0 || cons.Lag() != 0 {
			t.Errorf("assigned %v, generation %d, lag %d", parts, generation, cons.Lag())
		}
		if err := cons.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestWhatFranzGoCannotDoIsRefused(t *testing.T) {
	cfg := config([]string{"127.0.0.1:1"})
	cfg.Idempotence, cfg.InFlight = true, 3
	if _, err := kgo.New(cfg); err == nil {
		t.Error("idempotence with 3 in flight was taken")
	}
	cfg.InFlight, cfg.Acks = 5, 1
	if _, err := kgo.New(cfg); err == nil {
		t.Error("idempotence with acks=1 was taken")
	}
}
