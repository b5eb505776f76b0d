package null_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/tidemark/tidemark/core/kafka"
	"github.com/tidemark/tidemark/loadgen/driver"
	"github.com/tidemark/tidemark/loadgen/driver/null"
)

func TestEveryRecordIsAckedOnceWithItsOffset(t *testing.T) {
	d := null.New(driver.Config{Topics: []driver.Topic{{Name: "t", Partitions: 2}}})
	var seqs []uint64
	ends := map[int32]kafka.Offset{}
	p, err := d.NewProducer(t.Context(), 3, func(a *driver.Ack) {
		if a.Producer != 3 || a.Err != nil || len(a.Seqs) != len(a.IntendedNanos) || a.BaseOffset != ends[a.Partition] {
			t.Errorf("ack %+v", a)
		}
		ends[a.Partition] += kafka.Offset(len(a.Seqs))
		seqs = append(seqs, a.Seqs...)
	})
	if err != nil {
		t.Fatal(err)
	}
	var rs []driver.Record
	for i := range 100 {
		rs = append(rs, driver.Record{Seq: uint64(i), IntendedNanos: 1, Partition: int32(i / 7 % 2)})
	}
	for chunk := range slices.Chunk(rs, 30) {
		if n, _, err := p.Produce(chunk); n != len(chunk) || err != nil {
			t.Fatalf("accepted %d, %v", n, err)
		}
	}
	for i, seq := range seqs {
		if seq != uint64(i) {
			t.Fatalf("ack %d is of record %d", i, seq)
		}
	}
	if s := p.TakeStats(); len(seqs) != 100 || s.Records != 100 || ends[0]+ends[1] != 100 {
		t.Errorf("%d acked, stats %+v, ends %v", len(seqs), s, ends)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	if _, _, err := p.Produce(rs); !errors.Is(err, driver.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
	if _, err := d.NewConsumer(t.Context(), 0, driver.ConsumerConfig{}); !errors.Is(err, null.ErrNoConsumers) {
		t.Errorf("a consumer: %v", err)
	}
}
