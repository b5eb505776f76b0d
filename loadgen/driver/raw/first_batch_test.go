package raw_test

import (
	"context"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/core/kafka"
	"github.com/tidemark/tidemark/loadgen/driver"
	"github.com/tidemark/tidemark/loadgen/sink"
)

// A broker that knows nothing of a producer yet takes whatever sequence comes first (KIP-360), so that batches behind a
// refused first one would go before it: an idempotent producer sends nothing more until the first batch is acknowledged.
// kafka-tuned of bench/versus lost the order of 43 records in a topic that had just been made.
func TestNothingOvertakesTheFirstBatchOfAnIdempotentProducer(t *testing.T) {
	k, err := sink.New(sink.Script{Partitions: 1, Faults: []sink.Fault{{Kind: sink.Refuse, Batch: 1, Code: kafka.NotLeaderForPartition}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = k.Close() })
	cl, err := kgo.NewClient(kgo.SeedBrokers(k.Addr()))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	topic := kmsg.NewMetadataRequestTopic()
	topic.Topic = kmsg.StringPtr("t0")
	auto := kmsg.NewPtrMetadataRequest()
	auto.Topics, auto.AllowAutoTopicCreation = append(auto.Topics, topic), true
	if _, err := auto.RequestWith(t.Context(), cl); err != nil {
		t.Fatal(err)
	}
	cfg := config([]string{k.Addr()}, 1)
	cfg.Topics = cfg.Topics[:1]
	cfg.Idempotence, cfg.BatchBytes = true, 100 // a record each
	d := open(t, cfg)
	e := newEnds()
	p, err := d.NewProducer(t.Context(), 0, e.acked)
	if err != nil {
		t.Fatal(err)
	}
	const n = 50
	var rs []driver.Record
	for i := range n {
		rs = append(rs, driver.Record{Seq: uint64(i), Value: text(i)})
	}
	if k, _, err := p.Produce(rs); err != nil || k != n {
		t.Fatalf("%d of %d records taken: %v", k, n, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	if err := p.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	for i := range uint64(n) {
		if e.ok[i] != kafka.Offset(i) {
			t.Errorf("record %d is at offset %d", i, e.ok[i])
		}
	}
	if s := p.TakeStats(); s.Retries == 0 || len(e.errs) != 0 {
		t.Errorf("%d retries, errors %v", s.Retries, e.errs)
	}
}
