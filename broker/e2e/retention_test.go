package e2e

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark/tidemark/broker/proc"
)

// quickRetention looks at logs often and unlinks at once.
var quickRetention = []string{"log.retention.check.interval.ms=20", "log.segment.delete.delay.ms=50"}

// logBytes is what a partition's segments take on disk.
func logBytes(t *testing.T, data, partition string) (total int64, files int) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(data, partition, "*.log"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if info, err := os.Stat(name); err == nil { // it may be gone meanwhile
			total += info.Size()
			files++
		}
	}
	return total, files
}

// TestSegmentsRollBySize: files stay below segment.bytes, each begins where the one before has ended, and is named so.
func TestSegmentsRollBySize(t *testing.T) {
	data := t.TempDir()
	b := start(t, proc.Options{NoAdmin: true, Data: data})
	create(t, b, "t", 1, "segment.bytes=1048576")
	fill(t, b, "t", 0, 500, 10_000, kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.ProducerBatchMaxBytes(100_000))
	names, _ := filepath.Glob(filepath.Join(data, "t-0", "*.log"))
	if len(names) < 5 {
		t.Errorf("5 MB in segments of 1 MiB: %v", names)
	}
	for _, name := range names {
		if info, err := os.Stat(name); err != nil || info.Size() > 1<<20 {
			t.Errorf("%s has %d bytes", name, info.Size())
		}
	}
	b.Kill()
	checkFiles(t, data)
	b = start(t, proc.Options{NoAdmin: true, Data: data})
	w := dial(t, b.Addr)
	for from := int64(0); from < 500; {
		got := batches(t, w.fetchOne("t", from).RecordBatches)
		if len(got) == 0 || got[0].FirstOffset > from {
			t.Fatalf("nothing at %d", from)
		}
		last := got[len(got)-1]
		from = last.FirstOffset + int64(last.LastOffsetDelta) + 1
	}
}

// TestRetentionBySize keeps the newest retention.bytes, deletes whole segments from the start, and tells readers.
func TestRetentionBySize(t *testing.T) {
	data := t.TempDir()
	b := start(t, proc.Options{NoAdmin: true, Data: data, Properties: quickRetention})
	create(t, b, "t", 1, "segment.bytes=1048576", "retention.bytes=2000000", "file.delete.delay.ms=50")
	l := newLedger()
	c := newClient(t, b, kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.ProducerBatchMaxBytes(50_000))
	s := &sender{l: l, c: c, next: map[place]uint64{}, r: seeded(t), maxBytes: 20_000, strict: true}
	for range 3000 {
		s.sendOne(t.Context(), "t", 0)
	}
	for range 600 {
		v := encodeValue(origin{1, s.next[place{topic: "x"}]}, 10_000)
		s.next[place{topic: "x"}]++
		c.Produce(t.Context(), &kgo.Record{Topic: "t", Value: v}, nil)
	}
	if err := c.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	// Settled: without the oldest segment less than retention.bytes would be left, so nothing more is deleted.
	until(t, "old segments are deleted", func() bool {
		names, _ := filepath.Glob(filepath.Join(data, "t-0", "*.log"))
		if len(names) == 0 {
			return false
		}
		oldest, err := os.Stat(names[0])
		total, _ := logBytes(t, data, "t-0")
		return err == nil && total-oldest.Size() < 2_000_000 && dialStart(t, b) > 0
	})
	total, _ := logBytes(t, data, "t-0")
	if total < 2_000_000 {
		t.Errorf("%d bytes are left, less than retention.bytes", total)
	}
	w := dial(t, b.Addr)
	start0 := w.listOffset("t", -2).Offset
	if p := w.fetchOne("t", start0-1); p.ErrorCode != 1 {
		t.Errorf("fetch below the log start %d: %+v", start0, p)
	}
	l.check(t, b, "t")
	b.Kill()
	b = start(t, proc.Options{NoAdmin: true, Data: data, Properties: quickRetention})
	if again := dial(t, b.Addr).listOffset("t", -2).Offset; again < start0 {
		t.Errorf("the log start was %d and is %d after a kill", start0, again)
	}
}

func dialStart(t *testing.T, b *proc.Broker) int64 {
	t.Helper()
	w := dial(t, b.Addr)
	defer func() { _ = w.Close() }()
	return w.listOffset("t", -2).Offset
}

// TestRetentionByTime: when everything has expired, the active segment goes too, and earliest equals latest; the next record
// gets the next offset. A far-future time freezes nothing: with message.timestamp.after.max.ms it is refused, and where it
// is allowed retention by size still works.
func TestRetentionByTime(t *testing.T) {
	data := t.TempDir()
	b := start(t, proc.Options{NoAdmin: true, Data: data, Properties: quickRetention})
	create(t, b, "t", 1, "retention.ms=60000", "file.delete.delay.ms=50")
	w := dial(t, b.Addr)
	p := w.initProducer()
	old := nowMS() - 120_000
	for i := range int32(10) {
		p.seq = i
		if r := w.produce("t", 0, batch(p, []byte("v"), old+int64(i))); r.ErrorCode != 0 || r.BaseOffset != int64(i) {
			t.Fatalf("%+v", r)
		}
	}
	until(t, "all records have expired", func() bool { return dialStart(t, b) == 10 })
	if early, late := w.listOffset("t", -2), w.listOffset("t", -1); early.Offset != late.Offset || early.ErrorCode != 0 || late.ErrorCode != 0 {
		t.Errorf("earliest %+v, latest %+v", early, late)
	}
	if r := w.listOffset("t", old); r.ErrorCode != 0 || r.Offset != -1 {
		t.Errorf("the time of an expired record: %+v", r)
	}
	until(t, "the files are gone", func() bool { _, n := logBytes(t, data, "t-0"); return n == 1 })

	for _, how := range []func() error{func() error { return nil }, b.Stop, func() error { b.Kill(); return nil }} {
		if err := how(); err != nil {
			t.Fatal(err)
		}
		select {
		case <-b.Done():
			b = start(t, proc.Options{NoAdmin: true, Data: data, Properties: quickRetention})
			w = dial(t, b.Addr)
		default:
		}
		if early, late := w.listOffset("t", -2), w.listOffset("t", -1); early.Offset != 10 || late.Offset != 10 {
			t.Errorf("earliest %+v, latest %+v", early, late)
		}
	}
	// Retention forgets no live producer: its duplicate is known, and its next sequence number is the next.
	p.seq = 9
	if r := w.produce("t", 0, batch(p, []byte("v"), nowMS())); r.ErrorCode != 0 || r.BaseOffset != 9 {
		t.Errorf("duplicate of an expired batch: %+v", r)
	}
	p.seq = 10
	if r := w.produce("t", 0, batch(p, []byte("v"), nowMS())); r.ErrorCode != 0 || r.BaseOffset != 10 {
		t.Errorf("the next batch of the producer: %+v", r)
	}
}

// TestRetentionOfZeroPurges: retention.ms=0, or retention.bytes=0, is how people empty a topic; its records go, the active
// segment's too, and the next one gets the next offset. It also holds for a log that nobody has used since the start.
func TestRetentionOfZeroPurges(t *testing.T) {
	data := t.TempDir()
	b := start(t, proc.Options{NoAdmin: true, Data: data, Properties: quickRetention})
	for topic, setting := range map[string]string{"ms": "retention.ms=0", "bytes": "retention.bytes=0"} {
		create(t, b, topic, 1)
		fill(t, b, topic, 0, 100, 1000)
		alterTopic(t, b, topic, setting)
	}
	emptied := func(topic string, end int64) {
		t.Helper()
		w := dial(t, b.Addr)
		until(t, topic+" is empty", func() bool { return w.listOffset(topic, -2).Offset == end })
	}
	for _, topic := range []string{"ms", "bytes"} {
		emptied(topic, 100)
		alterTopic(t, b, topic, "retention.ms=604800000", "retention.bytes=-1")
		fill(t, b, topic, 0, 1, 1000)
		if at := dial(t, b.Addr).listOffset(topic, -1); at.Offset != 101 {
			t.Errorf("the end of %s after another record: %+v", topic, at)
		}
	}
	alterTopic(t, b, "ms", "retention.ms=0")
	alterTopic(t, b, "bytes", "retention.bytes=0")
	if err := b.Stop(); err != nil {
		t.Fatal(err)
	}
	b = start(t, proc.Options{NoAdmin: true, Data: data, Properties: quickRetention})
	emptied("ms", 101)
	emptied("bytes", 101)
}

// TestFarFutureTimes do not freeze retention.
func TestFarFutureTimes(t *testing.T) {
	data := t.TempDir()
	b := start(t, proc.Options{NoAdmin: true, Data: data, Properties: quickRetention})
	create(t, b, "t", 1, "retention.ms=60000", "segment.index.bytes=40", "index.interval.bytes=1", "message.timestamp.after.max.ms=9223372036854775807",
		"file.delete.delay.ms=50", "retention.bytes=3000")
	w := dial(t, b.Addr)
	future := time.Now().Add(1000 * time.Hour).UnixMilli()
	for i := range 60 {
		ts := nowMS()
		if i == 5 {
			ts = future
		}
		if r := w.produce("t", 0, batch(nobody(), make([]byte, 100), ts)); r.ErrorCode != 0 {
			t.Fatalf("%+v", r)
		}
	}
	until(t, "the segment with the far-future record goes", func() bool { return dialStart(t, b) > 5 })
}
