package commitlog

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/tidemark/tidemark/core/compress"
	"github.com/tidemark/tidemark/core/kafka"
	"github.com/tidemark/tidemark/core/record"
	"github.com/tidemark/tidemark/core/vfs"
)

const testDir = "data/topic-0"

// batchSpec describes a batch of a test; the zero value is one record without producer.
type batchSpec struct {
	records   int
	valueLen  int
	ts        int64
	codec     compress.Codec
	id        kafka.ProducerID // 0: none
	epoch     kafka.ProducerEpoch
	seq       int32
	txn       bool
	control   bool
	commit    bool
	leaderEpo kafka.LeaderEpoch
}

// build encodes the batch with its first record at base; record i has timestamp ts+i.
func (s batchSpec) build(t testing.TB, base kafka.Offset) record.Batch {
	t.Helper()
	var out []byte
	if s.control {
		kind := record.Abort
		if s.commit {
			kind = record.Commit
		}
		out = record.AppendControl(nil, kind, s.id, s.epoch, 0, s.ts)
	} else {
		id, epoch, seq := kafka.NoProducerID, kafka.NoEpoch, record.NoSequence
		if s.id != 0 {
			id, epoch, seq = s.id, s.epoch, s.seq
		}
		var attrs record.Attributes
		if s.txn {
			attrs |= record.TransactionalBit
		}
		b := record.NewBuilder(nil, s.codec, 0)
		b.Reset(s.ts, id, epoch, seq, attrs)
		value := make([]byte, s.valueLen)
		for i := range value {
			value[i] = byte(int(base) + i)
		}
		for i := range max(s.records, 1) {
			b.Append(s.ts+int64(i), nil, value)
		}
		var err error
		if out, err = b.Finish(nil); err != nil {
			t.Fatal(err)
		}
	}
	batch := record.Batch(out)
	batch.SetBaseOffset(base)
	batch.SetLeaderEpoch(s.leaderEpo)
	return batch
}

func toAppend(b record.Batch) AppendBatch {
	return AppendBatch{Bytes: b, Base: b.BaseOffset(), Last: b.LastOffset(), Epoch: b.PartitionLeaderEpoch(), MaxTimestamp: b.MaxTimestamp()}
}

// world is a log with what it lies on.
type world struct {
	t   testing.TB
	mem *vfs.Mem
	env *Env
	cfg *Config
	l   *Log
	now int64
}

func newWorld(t testing.TB, cfg Config) *world {
	w := &world{t: t, cfg: &cfg, now: 1_700_000_000_000}
	w.mem = vfs.NewCrashable(nil)
	if err := errors.Join(w.mem.Mkdir("data"), w.mem.SyncDir("/")); err != nil {
		t.Fatal(err)
	}
	w.env = (&Env{FS: w.mem, NowMS: func() int64 { return w.now }}).withDefaults()
	w.open(0, 0)
	return w
}

func (w *world) open(start, point kafka.Offset) {
	w.t.Helper()
	l, err := Open(Options{Env: w.env, Config: w.cfg, Dir: testDir, StartOffset: start, RecoveryPoint: point})
	if err != nil {
		w.t.Fatal(err)
	}
	if w.l = l; w.env.Tail != nil {
		l.Want() // or a ring would be rare in what a random test does
	}
}

// roomOf is a Room smaller than NewRoom makes them, so that small logs have it; nil for 0.
func roomOf(n int) *Room {
	if n == 0 {
		return nil
	}
	return &Room{zeros: make([]byte, n)}
}

// ring gives the log a tail ring of so many bytes, and a reader at its end who makes it keep appends.
func (w *world) ring(bytes int64) {
	w.env.Tail = NewTailBudget(bytes)
	w.l.Want()
}

// append builds, stages, writes and publishes one batch and returns it.
func (w *world) append(s batchSpec) record.Batch {
	w.t.Helper()
	b := s.build(w.t, w.l.AppendEnd())
	if err := w.tryAppend(b); err != nil {
		w.t.Fatal(err)
	}
	return b
}

func (w *world) tryAppend(bs ...record.Batch) error {
	p, err := w.l.Producers()
	if err != nil {
		return err
	}
	var list []AppendBatch
	for _, b := range bs {
		if err := p.Stage(b); err != nil {
			return err
		}
		list = append(list, toAppend(b))
	}
	if err := w.l.Append(list); err != nil {
		return err
	}
	w.l.Publish()
	return nil
}

// readAll reads the log from an offset to a limit in pieces and returns the batches.
func readAll(t testing.TB, l *Log, from, limit kafka.Offset, maxBytes int) []record.Batch {
	t.Helper()
	got, err := readBatches(l, from, limit, maxBytes)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// readBatches is readAll that returns an error, and what it read before it.
func readBatches(l *Log, from, limit kafka.Offset, maxBytes int) (got []record.Batch, err error) {
	var s Slice
	for from < limit {
		if err := l.Read(&s, from, maxBytes, limit, true); err != nil {
			return got, fmt.Errorf("read at %d: %w", from, err)
		}
		if s.Bytes == 0 {
			break
		}
		b := make([]byte, s.Bytes)
		if err := s.CopyTo(b); err != nil {
			return got, fmt.Errorf("copy at %d: %w", from, err)
		}
		next := s.Next
		s.Release()
		for len(b) > 0 {
			batch, rest, err := record.Next(b)
			if err != nil {
				return got, fmt.Errorf("read at %d returned no whole batches: %w", from, err)
			}
			got = append(got, batch)
			b = rest
		}
		if last := got[len(got)-1].LastOffset(); next != last+1 {
			return got, fmt.Errorf("read at %d: next is %d after a batch that ends at %d", from, next, last)
		}
		from = next
	}
	return got, nil
}

func (w *world) check(want []record.Batch) {
	w.t.Helper()
	checkBatches(w.t, w.l, want, 1<<20)
}

func checkBatches(t testing.TB, l *Log, want []record.Batch, maxBytes int) {
	t.Helper()
	got := readAll(t, l, l.StartOffset(), l.EndOffset(), maxBytes)
	if len(got) != len(want) {
		t.Fatalf("read %d batches, want %d (log %d to %d)", len(got), len(want), l.StartOffset(), l.EndOffset())
	}
	for i := range got {
		if !bytes.Equal(got[i], want[i]) {
			t.Fatalf("batch %d at offset %d differs", i, want[i].BaseOffset())
		}
	}
}

// reopen closes the log and opens it again.
func (w *world) reopen() {
	w.t.Helper()
	start, point := w.l.StartOffset(), w.l.EndOffset()
	if err := w.l.Close(); err != nil {
		w.t.Fatal(err)
	}
	w.open(start, point)
}

func readFile(t testing.TB, fs vfs.FS, name string) []byte {
	t.Helper()
	b, err := vfs.ReadFile(fs, name, 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func writeFile(t testing.TB, fs vfs.FS, name string, data []byte) {
	t.Helper()
	f, err := fs.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt(data, 0); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		t.Fatal(err)
	}
}

func names(t testing.TB, fs vfs.FS) []string {
	t.Helper()
	infos, err := fs.ReadDir(testDir)
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, st := range infos {
		list = append(list, st.Name)
	}
	return list
}
