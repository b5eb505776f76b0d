package raw_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/core/clock"
	"github.com/tidemark/tidemark/core/compress"
	"github.com/tidemark/tidemark/core/kafka"
	"github.com/tidemark/tidemark/loadgen/driver"
	"github.com/tidemark/tidemark/loadgen/driver/raw"
)

func fake(t testing.TB, partitions int32, opts ...kfake.Opt) *kfake.Cluster {
	t.Helper()
	c, err := kfake.NewCluster(append([]kfake.Opt{kfake.NumBrokers(2), kfake.SeedTopics(partitions, "t0", "t1")}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func config(addrs []string, partitions int32) driver.Config {
	return driver.Config{
		Bootstrap: addrs, ClientID: "test", Topics: []driver.Topic{{Name: "t0", Partitions: partitions}, {Name: "t1", Partitions: partitions}},
		Acks: -1, InFlight: 5, BatchBytes: 16 << 10, MaxRequestBytes: 1 << 20, BufferBytes: 8 << 20,
		DeliveryTimeout: 4 * time.Minute, RequestTimeout: 2 * time.Minute, RetryBackoff: 10 * time.Millisecond, Retries: 100,
		FetchMinBytes: 1, FetchMaxBytes: 50 << 20, FetchMaxPartitionBytes: 1 << 20, FetchMaxWait: 100 * time.Millisecond, MaxPollRecords: 500,
	}
}

func open(t testing.TB, cfg driver.Config) *raw.Driver {
	t.Helper()
	d, err := raw.New(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d
}

// ends collects what became of each record.
type ends struct {
	mu   sync.Mutex
	ok   map[uint64]kafka.Offset
	errs map[uint64]error
	dup  int
}

func newEnds() *ends { return &ends{ok: map[uint64]kafka.Offset{}, errs: map[uint64]error{}} }

func (e *ends) acked(a *driver.Ack) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for i, s := range a.Seqs {
		_, seen := e.ok[s]
		_, failed := e.errs[s]
		if seen || failed {
			e.dup++
		}
		if a.Err != nil {
			e.errs[s] = a.Err
			continue
		}
		o := a.BaseOffset
		if o >= 0 {
			o += kafka.Offset(i)
		}
		e.ok[s] = o
	}
}

func produce(t testing.TB, p driver.Producer, n int, partitions int32, value func(i int) []byte) {
	t.Helper()
	for i := 0; i < n; {
		chunk := make([]driver.Record, 0, 50)
		for j := i; j < min(n, i+50); j++ {
			chunk = append(chunk, driver.Record{Seq: uint64(j), IntendedNanos: clock.Nanos(), Topic: int32(j % 2), Partition: int32(j/2) % partitions,
				Key: fmt.Appendf(nil, "k%d", j), Value: value(j)})
		}
		k, _, err := p.Produce(chunk)
		if err != nil {
			t.Fatal(err)
		}
		i += k
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	if err := p.Flush(ctx); err != nil {
		t.Fatal(err)
	}
}

func text(i int) []byte {
	return fmt.Appendf(nil, "value %d of a record that compresses, compresses, compresses", i)
}

// readAll reads with franz-go, so that the driver does not vouch for itself.
func readAll(t testing.TB, addrs []string, n int) map[string]int {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(addrs...), kgo.ConsumeTopics("t0", "t1"))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	got := map[string]int{}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for total := 0; total < n; {
		fs := cl.PollFetches(ctx)
		if err := fs.Err0(); err != nil {
			t.Fatalf("%d of %d read: %v", total, n, err)
		}
		fs.EachRecord(func(r *kgo.Record) {
			total++
			got[fmt.Sprintf("%s=%s", r.Key, r.Value)]++
		})
	}
	return got
}

func TestEveryCodecAndAcksArriveOnce(t *testing.T) {
	for _, codec := range []compress.Codec{compress.None, compress.Gzip, compress.Snappy, compress.Lz4, compress.Zstd} {
		for _, acks := range []int16{-1, 1, 0} {
			for _, linger := range []time.Duration{0, 2 * time.Millisecond} {
				t.Run(fmt.Sprintf("%s/acks=%d/linger=%v", codec, acks, linger), func(t *testing.T) {
					c := fake(t, 3)
					cfg := config(c.ListenAddrs(), 3)
					cfg.Codec, cfg.Acks, cfg.Linger = codec, acks, linger
					p, err := open(t, cfg).NewProducer(t.Context(), 0, func(*driver.Ack) {})
					if err != nil {
						t.Fatal(err)
					}
					_ = p.Close()
					e := newEnds()
					if p, err = open(t, cfg).NewProducer(t.Context(), 0, e.acked); err != nil {
						t.Fatal(err)
					}
					produce(t, p, 1000, 3, text)
					if len(e.ok) != 1000 || len(e.errs) != 0 || e.dup != 0 {
						t.Fatalf("acked %d, failed %d, told twice %d", len(e.ok), len(e.errs), e.dup)
					}
					got := readAll(t, c.ListenAddrs(), 1000)
					for i := range 1000 {
						if n := got[fmt.Sprintf("k%d=%s", i, text(i))]; n != 1 {
							t.Fatalf("record %d arrived %d times", i, n)
						}
					}
					s := p.TakeStats()
					if s.Records != 1000 || s.Batches == 0 || s.Requests == 0 || s.Requests > s.Batches {
						t.Errorf("stats %+v", s)
					}
				})
			}
		}
	}
}

func TestRetriableErrorsAreSentAgainInOrder(t *testing.T) {
	for _, idempotent := range []bool{false, true} {
		t.Run(fmt.Sprintf("idempotence=%v", idempotent), func(t *testing.T) {
			c := fake(t, 1)
			refuse := 3
			c.ControlKey(0, func(kreq kmsg.Request) (kmsg.Response, error, bool) {
				c.KeepControl()
				if refuse == 0 {
					return nil, nil, false
				}
				refuse--
				req := kreq.(*kmsg.ProduceRequest)
				resp := req.ResponseKind().(*kmsg.ProduceResponse)
				for _, t := range req.Topics {
					rt := kmsg.NewProduceResponseTopic()
					rt.Topic, rt.TopicID = t.Topic, t.TopicID
					for _, p := range t.Partitions {
						rp := kmsg.NewProduceResponseTopicPartition()
						rp.Partition, rp.ErrorCode = p.Partition, int16(kafka.NotLeaderForPartition)
						rt.Partitions = append(rt.Partitions, rp)
					}
					resp.Topics = append(resp.Topics, rt)
				}
				return resp, nil, true
			})
			cfg := config(c.ListenAddrs(), 1)
			cfg.Idempotence = idempotent
			e := newEnds()
			p, err := open(t, cfg).NewProducer(t.Context(), 0, e.acked)
			if err != nil {
				t.Fatal(err)
			}
			produce(t, p, 500, 1, text)
			if len(e.ok) != 500 || e.dup != 0 {
				t.Fatalf("acked %d, failed %v, told twice %d", len(e.ok), e.errs, e.dup)
			}
			if s := p.TakeStats(); s.Retries < 3 {
				t.Errorf("retries %d", s.Retries)
			}
			if idempotent {
				for i := uint64(2); i < 500; i++ {
					if e.ok[i] >= 0 && e.ok[i-2] >= e.ok[i] {
						t.Fatalf("record %d at %d, record %d at %d", i-2, e.ok[i-2], i, e.ok[i])
					}
				}
			}
		})
	}
}

func TestAnErrorThatStaysFailsTheRecords(t *testing.T) {
	c := fake(t, 2)
	c.ControlKey(0, func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		req := kreq.(*kmsg.ProduceRequest)
		resp := req.ResponseKind().(*kmsg.ProduceResponse)
		for _, t := range req.Topics {
			rt := kmsg.NewProduceResponseTopic()
			rt.Topic, rt.TopicID = t.Topic, t.TopicID
			for _, p := range t.Partitions {
				rp := kmsg.NewProduceResponseTopicPartition()
				rp.Partition, rp.ErrorCode = p.Partition, int16(kafka.TopicAuthorizationFailed)
				rt.Partitions = append(rt.Partitions, rp)
			}
			resp.Topics = append(resp.Topics, rt)
		}
		return resp, nil, true
	})
	e := newEnds()
	p, err := open(t, config(c.ListenAddrs(), 2)).NewProducer(t.Context(), 0, e.acked)
	if err != nil {
		t.Fatal(err)
	}
	produce(t, p, 100, 2, text)
	if len(e.errs) != 100 {
		t.Fatalf("failed %d of 100", len(e.errs))
	}
	for _, err := range e.errs {
		if !errors.Is(err, kafka.TopicAuthorizationFailed) {
			t.Fatal(err)
		}
	}
}

func TestABrokenConnectionLosesNothingWithIdempotence(t *testing.T) {
	c := fake(t, 3)
	cfg := config(c.ListenAddrs(), 3)
	cfg.Idempotence = true
	n := 0
	c.ControlKey(0, func(kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		if n++; n%7 == 3 && n < 60 {
			return nil, errors.New("hang up"), true
		}
		return nil, nil, false
	})
	e := newEnds()
	p, err := open(t, cfg).NewProducer(t.Context(), 0, e.acked)
	if err != nil {
		t.Fatal(err)
	}
	produce(t, p, 3000, 3, text)
	if len(e.ok) != 3000 || e.dup != 0 {
		t.Fatalf("acked %d, failed %d, told twice %d", len(e.ok), len(e.errs), e.dup)
	}
	for k, n := range readAll(t, c.ListenAddrs(), 3000) {
		if n != 1 {
			t.Fatalf("%s arrived %d times", k, n)
		}
	}
}

func TestDeliveryTimeoutEndsRecordsOfADeadBroker(t *testing.T) {
	c := fake(t, 2)
	cfg := config(c.ListenAddrs(), 2)
	cfg.DeliveryTimeout, cfg.RequestTimeout = 2*time.Second, time.Minute // time enough to connect on a busy host
	e := newEnds()
	p, err := open(t, cfg).NewProducer(t.Context(), 0, e.acked)
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	produce(t, p, 100, 2, text)
	if len(e.errs) != 100 {
		t.Fatalf("failed %d, acked %d", len(e.errs), len(e.ok))
	}
}

func TestProduceWaitsForMemoryAndTellsHowLong(t *testing.T) {
	c := fake(t, 1)
	cfg := config(c.ListenAddrs(), 1)
	cfg.BufferBytes, cfg.Linger = int64(2*cfg.BatchBytes), time.Hour
	release := make(chan struct{})
	c.ControlKey(0, func(kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		<-release
		return nil, nil, false
	})
	e := newEnds()
	p, err := open(t, cfg).NewProducer(t.Context(), 0, e.acked)
	if err != nil {
		t.Fatal(err)
	}
	value := make([]byte, 10<<10)
	done := make(chan time.Duration)
	go func() {
		total := time.Duration(0)
		for i := range 10 {
			_, waited, err := p.Produce([]driver.Record{{Seq: uint64(i), Value: value}})
			if err != nil {
				t.Error(err)
			}
			total += waited
		}
		done <- total
	}()
	select {
	case <-done:
		t.Fatal("ten batches were taken where two have room")
	case <-time.After(100 * time.Millisecond):
	}
	close(release)
	if waited := <-done; waited <= 0 {
		t.Errorf("waited %v", waited)
	}
}
