package e2e

import (
	"encoding/binary"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/broker/proc"
)

func containsAll(text string, parts ...string) bool {
	for _, p := range parts {
		if !strings.Contains(text, p) {
			return false
		}
	}
	return true
}

func nowMS() int64 { return time.Now().UnixMilli() }

// TestAcks: all, one and none are served; any other number is error 21. With none there is no answer, and an error closes
// the connection, which is all that the producer can learn.
func TestAcks(t *testing.T) {
	b := start(t, proc.Options{NoAdmin: true, Data: t.TempDir()})
	create(t, b, "t", 1)
	w := dial(t, b.Addr)
	for i, acks := range []int16{-1, 1} {
		p := ask[*kmsg.ProduceResponse](w, produceRequest("t", 0, acks, batch(nobody(), []byte("v"), nowMS()))).Topics[0].Partitions[0]
		if p.ErrorCode != 0 || p.BaseOffset != int64(i) {
			t.Errorf("acks=%d: %+v", acks, p)
		}
	}
	for _, acks := range []int16{2, -2, 32767, -32768} {
		p := ask[*kmsg.ProduceResponse](w, produceRequest("t", 0, acks, batch(nobody(), []byte("v"), nowMS()))).Topics[0].Partitions[0]
		if p.ErrorCode != 21 || p.BaseOffset != -1 {
			t.Errorf("acks=%d: %+v", acks, p)
		}
	}
	for range 10 {
		w.send(produceRequest("t", 0, 0, batch(nobody(), []byte("v"), nowMS())))
		w.read++ // it has no answer
	}
	w.alive() // the next answer belongs to the next request
	if end := w.listOffset("t", -1); end.Offset != 12 {
		t.Errorf("the end is %d after 12 records", end.Offset)
	}
	damaged := batch(nobody(), []byte("v"), nowMS())
	damaged[len(damaged)-1] ^= 1
	for name, r := range map[string]*kmsg.ProduceRequest{
		"a topic that does not exist": produceRequest("none", 0, 0, batch(nobody(), []byte("v"), nowMS())),
		"a damaged batch":             produceRequest("t", 0, 0, damaged),
	} {
		bad := dial(t, b.Addr)
		bad.send(r)
		bad.closes()
		if t.Failed() {
			t.Fatal(name)
		}
	}
	w.alive()
}

// TestRefusedBatches: each kind of bad batch has its error, leaves nothing in the log, and harms no other partition of the
// request.
func TestRefusedBatches(t *testing.T) {
	b := start(t, proc.Options{NoAdmin: true, Data: t.TempDir()})
	create(t, b, "t", 2)
	create(t, b, "compacted", 1, "cleanup.policy=compact")
	create(t, b, "small", 1, "max.message.bytes=1000")
	w := dial(t, b.Addr)
	change := func(f func(b []byte)) []byte {
		x := batch(nobody(), []byte("value"), nowMS(), nowMS())
		f(x)
		return seal(x)
	}
	badCRC := batch(nobody(), []byte("value"), nowMS())
	badCRC[30] ^= 1
	good := batch(nobody(), []byte("value"), nowMS())
	for _, c := range []struct {
		name, topic string
		records     []byte
		want        int16
	}{
		{"checksum", "t", badCRC, 2},
		{"no record bytes", "t", nil, 87},
		{"half a batch", "t", good[:40], 87},
		{"two batches", "t", append(append([]byte{}, good...), good...), 87},
		{"magic 1", "t", change(func(b []byte) { b[16] = 1 }), 87},
		{"count above the records", "t", change(func(b []byte) { b[60] = 3 }), 87},
		{"last delta above the records", "t", change(func(b []byte) { b[26] = 9 }), 87},
		{"control batch", "t", change(func(b []byte) { b[22] |= 0x20 }), 87},
		{"codec 7", "t", change(func(b []byte) { b[22] |= 7 }), 87},
		{"not what the codec says", "t", change(func(b []byte) { b[22] |= 3 }), 87},
		{"far future", "t", batch(nobody(), []byte("v"), nowMS()+100*24*3600_000), 32},
		{"no key where keys are needed", "compacted", good, 87},
		{"too large", "small", batch(nobody(), make([]byte, 2000), nowMS()), 10},
		{"no such topic", "none", good, 3},
	} {
		p := w.produce(c.topic, 0, c.records)
		if p.ErrorCode != c.want {
			t.Errorf("%s: error %d, want %d (%v)", c.name, p.ErrorCode, c.want, p.ErrorMessage)
		}
	}
	r := produceRequest("t", 0, -1, badCRC)
	second := kmsg.NewProduceRequestTopicPartition()
	second.Partition, second.Records = 1, good
	third := kmsg.NewProduceRequestTopicPartition()
	third.Partition, third.Records = 7, good
	r.Topics[0].Partitions = append(r.Topics[0].Partitions, second, third)
	got := ask[*kmsg.ProduceResponse](w, r).Topics[0].Partitions
	if got[0].ErrorCode != 2 || got[1].ErrorCode != 0 || got[1].BaseOffset != 0 || got[2].ErrorCode != 3 {
		t.Errorf("one bad, one good, one missing partition: %+v", got)
	}
	if end := w.listOffset("t", -1); end.Offset != 0 {
		t.Errorf("refused batches have left %d records", end.Offset)
	}
}

// TestDuplicatesKeepTheirOffset: a duplicate of any of a producer's last five batches is answered with the offset that the
// first one got, by a restarted broker too, clean or killed; a gap is error 45.
func TestDuplicatesKeepTheirOffset(t *testing.T) {
	data := t.TempDir()
	b := start(t, proc.Options{NoAdmin: true, Data: data})
	create(t, b, "t", 1, "segment.index.bytes=24", "index.interval.bytes=1") // rolls every few batches, each time with a snapshot
	w := dial(t, b.Addr)
	p := w.initProducer()
	send := func(seq int32) kmsg.ProduceResponseTopicPartition {
		p.seq = seq
		return w.produce("t", 0, batch(p, []byte("v"), nowMS(), nowMS()))
	}
	for i := range int32(7) {
		if r := send(2 * i); r.ErrorCode != 0 || r.BaseOffset != int64(2*i) {
			t.Fatalf("batch %d: %+v", i, r)
		}
	}
	duplicates := func(when string) {
		t.Helper()
		for i := int32(2); i < 7; i++ {
			if r := send(2 * i); r.ErrorCode != 0 || r.BaseOffset != int64(2*i) {
				t.Errorf("%s: duplicate of batch %d: %+v", when, i, r)
			}
		}
		for _, seq := range []int32{16, 100} {
			if r := send(seq); r.ErrorCode != 45 {
				t.Errorf("%s: sequence %d where 14 is due: error %d, want 45", when, seq, r.ErrorCode)
			}
		}
		if r := send(0); r.ErrorCode != 45 && r.ErrorCode != 46 {
			t.Errorf("%s: a duplicate older than five batches: error %d, want 45 or 46", when, r.ErrorCode)
		}
		p.epoch--
		if r := send(14); r.ErrorCode != 47 {
			t.Errorf("%s: an older epoch: error %d, want 47", when, r.ErrorCode)
		}
		p.epoch++
		if end := w.listOffset("t", -1); end.Offset != 14 {
			t.Errorf("%s: the end is %d, want 14", when, end.Offset)
		}
	}
	duplicates("at once")
	if err := b.Stop(); err != nil {
		t.Fatal(err)
	}
	b = start(t, proc.Options{NoAdmin: true, Data: data})
	w = dial(t, b.Addr)
	duplicates("after a clean stop")
	b.Kill()
	b = start(t, proc.Options{NoAdmin: true, Data: data})
	w = dial(t, b.Addr)
	duplicates("after a kill")
	if r := send(14); r.ErrorCode != 0 || r.BaseOffset != 14 {
		t.Errorf("the next batch: %+v", r)
	}
	if q := w.initProducer(); q.id == p.id {
		t.Errorf("producer id %d was given out again", q.id)
	}
}

// TestUnknownProducersAreAccepted: a producer whose state is gone (or was never here) may begin at any sequence, as in
// Kafka; a sequence wraps behind 2^31-1.
func TestUnknownProducersAreAccepted(t *testing.T) {
	b := start(t, proc.Options{NoAdmin: true, Data: t.TempDir()})
	create(t, b, "t", 1)
	w := dial(t, b.Addr)
	p := w.initProducer()
	p.seq = 1<<31 - 2
	if r := w.produce("t", 0, batch(p, []byte("v"), nowMS(), nowMS())); r.ErrorCode != 0 {
		t.Fatalf("begins at 2^31-2: %+v", r)
	}
	p.seq = 0
	if r := w.produce("t", 0, batch(p, []byte("v"), nowMS())); r.ErrorCode != 0 || r.BaseOffset != 2 {
		t.Errorf("goes on at 0: %+v", r)
	}
	p.seq = 0
	if r := w.produce("t", 0, batch(p, []byte("v"), nowMS())); r.ErrorCode != 0 || r.BaseOffset != 2 {
		t.Errorf("duplicate behind the wrap: %+v", r)
	}
	p.epoch, p.seq = p.epoch+1, 5
	if r := w.produce("t", 0, batch(p, []byte("v"), nowMS())); r.ErrorCode != 45 {
		t.Errorf("a new epoch that begins at 5: error %d, want 45", r.ErrorCode)
	}
	p.seq = 0
	if r := w.produce("t", 0, batch(p, []byte("v"), nowMS())); r.ErrorCode != 0 {
		t.Errorf("a new epoch that begins at 0: %+v", r)
	}
}

// TestProducerIDsAreNeverGivenTwice, over restarts and kills.
func TestProducerIDsAreNeverGivenTwice(t *testing.T) {
	data := t.TempDir()
	seen := map[int64]bool{}
	for i := range 3 {
		b := start(t, proc.Options{NoAdmin: true, Data: data})
		w := dial(t, b.Addr)
		for range 5 {
			id := w.initProducer().id
			if seen[id] {
				t.Fatalf("start %d: producer id %d comes again", i, id)
			}
			seen[id] = true
		}
		if i == 0 {
			if err := b.Stop(); err != nil {
				t.Fatal(err)
			}
		} else {
			b.Kill()
		}
	}
}

// TestMaxTimestampIsComputed: what a batch says of its newest record is not believed.
func TestMaxTimestampIsComputed(t *testing.T) {
	b := start(t, proc.Options{NoAdmin: true, Data: t.TempDir()})
	create(t, b, "t", 1)
	create(t, b, "append", 1, "message.timestamp.type=LogAppendTime")
	w := dial(t, b.Addr)
	now := nowMS()
	for _, lie := range []int64{-1, now - 5000, now + 5_000_000_000} {
		x := batch(nobody(), []byte("v"), now-1000, now, now-500)
		binary.BigEndian.PutUint64(x[35:], uint64(lie))
		if r := w.produce("t", 0, seal(x)); r.ErrorCode != 0 {
			t.Fatalf("max timestamp %d: %+v", lie, r)
		}
	}
	for _, got := range batches(t, w.fetchOne("t", 0).RecordBatches) {
		if got.MaxTimestamp != now {
			t.Errorf("batch at %d has max timestamp %d, want %d", got.FirstOffset, got.MaxTimestamp, now)
		}
	}
	if r := w.produce("append", 0, batch(nobody(), []byte("v"), 1000)); r.ErrorCode != 0 || r.LogAppendTime < now {
		t.Errorf("with LogAppendTime: %+v", r)
	}
	if got := batches(t, w.fetchOne("append", 0).RecordBatches); got[0].Attributes&8 == 0 || got[0].MaxTimestamp < now {
		t.Errorf("with LogAppendTime a batch is stored as %+v", got[0])
	}
}

// TestEveryCodec: what any codec of a client or a topic makes of records, consumers read.
func TestEveryCodec(t *testing.T) {
	b := start(t, proc.Options{NoAdmin: true, Data: t.TempDir()})
	codecs := []kgo.CompressionCodec{kgo.NoCompression(), kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(), kgo.ZstdCompression()}
	for _, stored := range []string{"producer", "uncompressed", "gzip", "snappy", "lz4", "zstd"} {
		create(t, b, stored, 1, "compression.type="+stored)
		for _, codec := range codecs {
			fill(t, b, stored, 0, 50, 300, kgo.ProducerBatchCompression(codec))
		}
		c := newClient(t, b, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{stored: {0: kgo.NewOffset().AtStart()}}))
		for n := 0; n < 250; {
			f := c.PollFetches(t.Context())
			if err := f.Err(); err != nil {
				t.Fatal(err)
			}
			f.EachRecord(func(r *kgo.Record) {
				if r.Offset != int64(n) || string(r.Value) != strings.Repeat("v", 300) {
					t.Errorf("%s: record %d at offset %d is %q", stored, n, r.Offset, r.Value)
				}
				n++
			})
		}
		c.Close()
	}
}
