package commitlog

import (
	"bytes"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/tidemark/tidemark/core/kafka"
	"github.com/tidemark/tidemark/core/record"
	"github.com/tidemark/tidemark/core/vfs"
)

// Readers, retention, flushes and idle rests run beside an appender; every read gives whole, right batches. Files are
// real and few may be open, so leases, eviction and deletion meet.
func TestReadersBesideEverything(t *testing.T) {
	dir := t.TempDir() + "/topic-0"
	var works sync.WaitGroup
	env := (&Env{FS: vfs.OS{}, Files: NewFileCache(3), Tail: NewTailBudget(6000), Room: roomOf(512), Later: func(_ *Log, work func() error) {
		works.Go(func() {
			if err := work(); err != nil && !errors.Is(err, ErrClosed) {
				t.Error(err)
			}
		})
	}}).withDefaults()
	cfg := &Config{SegmentBytes: 4000, IndexIntervalBytes: 200, RetentionBytes: 20_000, RetentionMS: -1, DeleteOnRetention: true}
	l, err := Open(Options{Env: env, Config: cfg, Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	// The payload of a batch follows from its base offset: 3 records, the value filled with the offset.
	batches := map[kafka.Offset]record.Batch{}
	const total = 600
	for i := range total {
		b := batchSpec{records: 3, valueLen: i % 200, id: 1, seq: int32(3 * i)}.build(t, kafka.Offset(3*i))
		batches[b.BaseOffset()] = b
	}
	var done atomic.Bool
	var wg sync.WaitGroup
	for r := range 3 {
		wg.Go(func() { readOn(t, l, batches, 500+r*3000, &done) })
	}
	wg.Go(func() {
		for !done.Load() {
			if _, _, err := l.Retain(env.NowMS(), l.EndOffset()); err != nil {
				t.Error(err)
			}
			if _, err := l.Flush(); err != nil {
				t.Error(err)
			}
			if err := l.Rest(); err != nil {
				t.Error(err)
			}
			if _, err := l.OffsetForTime(1, l.EndOffset()); err != nil {
				t.Error(err)
			}
		}
	})
	p, err := l.Producers()
	if err != nil {
		t.Fatal(err)
	}
	for i := range total {
		b := batches[kafka.Offset(3*i)]
		if err := p.Stage(b); err != nil {
			t.Fatal(err)
		}
		if err := l.Append([]AppendBatch{toAppend(b)}); err != nil {
			t.Fatal(err)
		}
		l.Publish()
		p.AdvanceHighWatermark(l.EndOffset())
	}
	done.Store(true)
	wg.Wait()
	works.Wait()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if n := env.Files.Open(); n != 0 {
		t.Errorf("%d files are open after Close", n)
	}
}

// readOn reads the log from start to end, again and again, and compares.
func readOn(t *testing.T, l *Log, batches map[kafka.Offset]record.Batch, maxBytes int, done *atomic.Bool) {
	var s Slice
	from := kafka.Offset(0)
	for !done.Load() {
		err := l.Read(&s, from, maxBytes, l.EndOffset(), true)
		if errors.Is(err, ErrOffsetOutOfRange) {
			from = l.StartOffset()
			continue
		}
		b := make([]byte, s.Bytes)
		if err = errors.Join(err, s.CopyTo(b)); err != nil {
			t.Error(err)
			return
		}
		for len(b) > 0 {
			var batch record.Batch
			if batch, b, err = record.Next(b); err != nil {
				t.Error(err)
				return
			}
			if !bytes.Equal(batch, batches[batch.BaseOffset()]) {
				t.Errorf("batch at %d is not what was written", batch.BaseOffset())
				return
			}
		}
		from = s.Next
		s.Release()
		if from >= l.EndOffset() {
			from = l.StartOffset()
		}
	}
}
