package e2e

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/broker/proc"
)

// TestOffsetsByTime: the first record at or after a time, inside compressed batches too, over segments, and after a restart.
func TestOffsetsByTime(t *testing.T) {
	data := t.TempDir()
	b := start(t, proc.Options{NoAdmin: true, Data: data})
	create(t, b, "t", 1, "segment.index.bytes=64", "index.interval.bytes=1")
	base := nowMS() - 1_000_000
	var want []int64 // time of each offset
	for i, codec := range []kgo.CompressionCodec{kgo.NoCompression(), kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(), kgo.ZstdCompression()} {
		for j := range 6 {
			c := newClient(t, b, kgo.ProducerBatchCompression(codec))
			var records []*kgo.Record
			for k := range int64(10) {
				ts := base + int64(i*100_000+j*10_000) + k*100
				want = append(want, ts)
				r := kgo.KeySliceRecord(nil, make([]byte, 100))
				r.Topic, r.Timestamp = "t", timeOf(ts)
				records = append(records, r)
			}
			if err := c.ProduceSync(t.Context(), records...).FirstErr(); err != nil {
				t.Fatal(err)
			}
			c.Close()
		}
	}
	check := func(when string) {
		t.Helper()
		w := dial(t, b.Addr)
		for offset, ts := range want {
			for _, back := range []int64{0, 1, 99} { // between two records the later one is due
				if r := w.listOffset("t", ts-back); r.ErrorCode != 0 || r.Offset != int64(offset) || r.Timestamp != ts {
					t.Fatalf("%s: time %d (that of offset %d, less %d) is answered with %+v", when, ts, offset, back, r)
				}
			}
		}
		if r := w.listOffset("t", want[len(want)-1]+1); r.ErrorCode != 0 || r.Offset != -1 || r.Timestamp != -1 {
			t.Errorf("%s: a time behind the last record is answered with %+v", when, r)
		}
		if r := w.listOffset("t", 0); r.Offset != 0 {
			t.Errorf("%s: time 0 is answered with %+v", when, r)
		}
	}
	check("at once")
	b.Kill()
	b = start(t, proc.Options{NoAdmin: true, Data: data})
	check("after a kill")
	if err := b.Stop(); err != nil {
		t.Fatal(err)
	}
	b = start(t, proc.Options{NoAdmin: true, Data: data})
	check("after a clean stop")
}

// TestSpecialTimes: -1 to -6 as Kafka defines them, each from the version that knows it on; other negatives are error 35.
func TestSpecialTimes(t *testing.T) {
	b := start(t, proc.Options{NoAdmin: true, Data: t.TempDir()})
	create(t, b, "t", 1)
	create(t, b, "empty", 1)
	w := dial(t, b.Addr)
	now := nowMS()
	for _, ts := range []int64{now - 1000, now, now - 500} { // the newest record is the second
		if r := w.produce("t", 0, batch(nobody(), []byte("v"), ts)); r.ErrorCode != 0 {
			t.Fatalf("%+v", r)
		}
	}
	for special, want := range map[int64]kmsg.ListOffsetsResponseTopicPartition{
		-1: {Offset: 3, Timestamp: -1}, -2: {Offset: 0, Timestamp: -1}, -3: {Offset: 1, Timestamp: now}, -4: {Offset: 0, Timestamp: -1},
		-5: {Offset: -1, Timestamp: -1}, -6: {Offset: -1, Timestamp: -1}, -7: {ErrorCode: 35, Offset: -1, Timestamp: -1},
		-1 << 63: {ErrorCode: 35, Offset: -1, Timestamp: -1},
	} {
		if r := w.listOffset("t", special); r.ErrorCode != want.ErrorCode || r.Offset != want.Offset || r.Timestamp != want.Timestamp {
			t.Errorf("time %d is answered with %+v, want %+v", special, r, want)
		}
	}
	for special, offset := range map[int64]int64{-1: 0, -2: 0, -3: -1, -4: 0} {
		if r := w.listOffset("empty", special); r.ErrorCode != 0 || r.Offset != offset {
			t.Errorf("empty: time %d is answered with %+v, want offset %d", special, r, offset)
		}
	}
}
