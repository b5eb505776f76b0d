package commitlog

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidemark/tidemark/core/compress"
	"github.com/tidemark/tidemark/core/kafka"
	"github.com/tidemark/tidemark/core/record"
)

// kv is one record of a keyed batch; a nil value is a tombstone.
type kv struct {
	key   string
	value []byte
}

// keyed builds a batch of records at ts; s gives producer, codec and flags.
func keyed(t testing.TB, s batchSpec, base kafka.Offset, kvs ...kv) record.Batch {
	t.Helper()
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
	for _, r := range kvs {
		b.Append(s.ts, []byte(r.key), r.value)
	}
	out, err := b.Finish(nil)
	if err != nil {
		t.Fatal(err)
	}
	batch := record.Batch(out)
	batch.SetBaseOffset(base)
	batch.SetLeaderEpoch(s.leaderEpo)
	return batch
}

func (w *world) put(s batchSpec, kvs ...kv) record.Batch {
	w.t.Helper()
	b := keyed(w.t, s, w.l.AppendEnd(), kvs...)
	if err := w.tryAppend(b); err != nil {
		w.t.Fatal(err)
	}
	return b
}

func (w *world) roll() {
	w.t.Helper()
	if err := w.l.Roll(); err != nil {
		w.t.Fatal(err)
	}
}

// clean compacts all that can be.
func (w *world) clean() Cleaned {
	w.t.Helper()
	done, err := cleanLog(w.l, w.now, CleanerOptions{DedupeBytes: 1 << 16})
	if err != nil {
		w.t.Fatal(err)
	}
	return done
}

func cleanLog(l *Log, now int64, o CleanerOptions) (Cleaned, error) {
	d, err := l.Dirty(l.EndOffset(), now)
	if err != nil || d.Bytes == 0 {
		return Cleaned{}, err
	}
	p, err := l.Producers()
	if err != nil {
		return Cleaned{}, err
	}
	return NewCleaner(o).Clean(l, Cleaning{Until: d.Until, Producers: p.Active(), NowMS: now})
}

// seen is a record as a consumer gets it.
type seen struct {
	off   kafka.Offset
	key   string
	value string
	ts    int64
	dead  bool // a tombstone
}

// consume reads all records from the log start, as read_committed with txns.
func consume(t testing.TB, l *Log, committed bool) []seen {
	t.Helper()
	var list []seen
	aborted := map[kafka.ProducerID]bool{}
	txns, err := l.AbortedTxns(l.StartOffset(), l.EndOffset())
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(txns, func(a, b AbortedTxn) int { return int(a.First - b.First) }) // as clients do
	for _, b := range readAll(t, l, l.StartOffset(), l.EndOffset(), 1<<20) {
		if b.CRC() != b.ComputeCRC() {
			t.Fatalf("batch at %d has a wrong CRC", b.BaseOffset())
		}
		for len(txns) > 0 && txns[0].First <= b.LastOffset() {
			aborted[txns[0].ProducerID] = true
			txns = txns[1:]
		}
		if b.IsControl() {
			if c, ok, _ := controlOf(b); ok && c.Kind == record.Abort {
				delete(aborted, b.ProducerID())
			}
			continue
		}
		if committed && b.IsTransactional() && aborted[b.ProducerID()] {
			continue
		}
		it, err := b.Records(nil, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		for it.Next() {
			r := it.Record()
			off := b.BaseOffset() + kafka.Offset(r.OffsetDelta)
			if off >= l.StartOffset() {
				list = append(list, seen{off, string(r.Key), string(r.Value), b.BaseTimestamp() + r.TimestampDelta, r.Value == nil})
			}
		}
		if it.Err() != nil {
			t.Fatal(it.Err())
		}
	}
	return list
}

func controlOf(b record.Batch) (record.Control, bool, error) {
	if b.NumRecords() == 0 {
		return record.Control{}, false, nil
	}
	return record.ParseControl(b)
}

// table is what a consumer that keeps the last value of each key ends with.
func table(list []seen) map[string]string {
	m := map[string]string{}
	for _, r := range list {
		if r.dead {
			delete(m, r.key)
		} else {
			m[r.key] = r.value
		}
	}
	return m
}

func compactConfig() Config {
	return Config{SegmentBytes: 1 << 20, IndexIntervalBytes: 100, Compact: true, DeleteRetentionMS: 1000}
}

// The last record of each key stays with its offset, time and bytes; the active segment is not touched; the end stays.
func TestCompactionKeepsTheLastOfEachKey(t *testing.T) {
	for _, codec := range []compress.Codec{compress.None, compress.Zstd, compress.Lz4} {
		w := newWorld(t, compactConfig())
		for i := range 40 {
			w.put(batchSpec{ts: int64(1000 + i), codec: codec}, kv{fmt.Sprint("a", i%3), []byte(fmt.Sprint("v", i))}, kv{fmt.Sprint("b", i%5), []byte(fmt.Sprint("w", i))})
			if i%10 == 9 {
				w.roll()
			}
		}
		w.put(batchSpec{ts: 3000, codec: codec}, kv{"a0", []byte("new")})
		want, end := table(consume(t, w.l, false)), w.l.EndOffset()
		all := consume(t, w.l, false)
		done := w.clean()
		if done.To != 80 || done.SegmentsBefore != 4 || done.SegmentsNow != 1 {
			t.Fatalf("%+v", done)
		}
		check := func() {
			got := consume(t, w.l, false)
			if len(got) != 9 || !maps.Equal(table(got), want) || w.l.EndOffset() != end {
				t.Fatalf("%s: %d records are left: %+v", codec, len(got), got)
			}
			for _, r := range got {
				if !slices.Contains(all, r) {
					t.Fatalf("%+v was never written", r)
				}
			}
			for _, b := range readAll(t, w.l, 0, end, 1<<20) {
				if b.Codec() != codec && b.NumRecords() > 0 {
					t.Fatalf("codec is %s, was %s", b.Codec(), codec)
				}
			}
			// An offset in a hole gives what comes behind it.
			for off := range end {
				if got := readAll(t, w.l, off, end, 1); len(got) == 0 {
					t.Fatalf("nothing at %d", off)
				}
			}
		}
		check()
		if d, _ := w.l.Dirty(end, w.now); d.Bytes != 0 {
			t.Fatalf("it is still dirty: %+v", d)
		}
		w.reopen()
		check()
		w.l.Abandon()
		w.open(0, 0)
		check()
	}
}

// A tombstone stays for delete.retention.ms after it became clean, then goes, and with it the key.
func TestTombstonesStayForTheirTime(t *testing.T) {
	w := newWorld(t, compactConfig())
	w.put(batchSpec{ts: 1}, kv{"k", []byte("v")}, kv{"other", []byte("o")})
	w.put(batchSpec{ts: 2}, kv{"k", nil})
	step := func() []seen {
		w.put(batchSpec{ts: 3}, kv{"x", []byte("y")})
		w.roll()
		w.clean()
		return consume(t, w.l, false)
	}
	has := func(list []seen) bool {
		return slices.ContainsFunc(list, func(r seen) bool { return r.key == "k" && r.dead && r.ts == 2 })
	}
	first := step()
	if !has(first) || len(first) != 3 {
		t.Fatalf("%+v", first)
	}
	var horizons []int64
	for _, b := range readAll(t, w.l, 0, w.l.EndOffset(), 1<<20) {
		if b.HasDeleteHorizon() {
			horizons = append(horizons, b.BaseTimestamp())
		}
	}
	if !slices.Equal(horizons, []int64{w.now + 1000}) {
		t.Fatalf("delete horizons %v", horizons)
	}
	w.now += 999
	if list := step(); !has(list) {
		t.Fatalf("gone too early: %+v", list)
	}
	w.now++
	if list := step(); has(list) {
		t.Fatalf("still there: %+v", list)
	}
}

// A producer whose records are all superseded is still known, after a restart too: its last batch is there, empty.
func TestCompactionKeepsProducers(t *testing.T) {
	w := newWorld(t, compactConfig())
	for i := range 5 {
		w.put(batchSpec{ts: 1, id: 7, seq: int32(i)}, kv{"k", []byte{byte(i)}})
	}
	w.put(batchSpec{ts: 2}, kv{"k", []byte("last")})
	w.roll()
	w.clean()
	for range 2 {
		p, err := w.l.Producers()
		if err != nil {
			t.Fatal(err)
		}
		if _, dup, _ := p.Check(keyed(t, batchSpec{id: 7, seq: 4}, 9, kv{"k", nil})); !dup {
			t.Fatal("the duplicate of the last batch is not known")
		}
		if _, _, code := p.Check(keyed(t, batchSpec{id: 7, seq: 6}, 9, kv{"k", nil})); code != kafka.OutOfOrderSequenceNumber {
			t.Fatal("a gap in the sequence is taken")
		}
		w.l.Abandon()
		for _, n := range names(t, w.mem) {
			if strings.HasSuffix(n, suffixSnapshot) {
				_ = w.mem.Remove(testDir + "/" + n)
			}
		}
		w.open(0, 0)
	}
	if got := consume(t, w.l, false); len(got) != 1 {
		t.Fatalf("%+v", got)
	}
}

// Aborted records go at once; the marker stays while anything is left that it explains, and delete.retention.ms longer.
// Committed readers see the same before and after, and markers never count as records of one key.
func TestCompactionOfTransactions(t *testing.T) {
	w := newWorld(t, compactConfig())
	mark := func(id kafka.ProducerID, commit bool) {
		w.append(batchSpec{id: id, epoch: 1, control: true, commit: commit, txn: true, ts: 5})
	}
	w.put(batchSpec{ts: 1, id: 1, epoch: 1, txn: true}, kv{"a", []byte("committed")})
	mark(1, true)
	w.put(batchSpec{ts: 1, id: 2, epoch: 1, txn: true}, kv{"a", []byte("aborted")}, kv{"b", []byte("aborted")})
	mark(2, false)
	w.put(batchSpec{ts: 1, id: 3, epoch: 1, txn: true}, kv{"c", []byte("kept")})
	mark(3, true)
	w.put(batchSpec{ts: 1, id: 1, epoch: 1, seq: 1, txn: true}, kv{"d", []byte("1")})
	mark(1, false)
	before := table(consume(t, w.l, true))
	markers := func() (n int) {
		for _, b := range readAll(t, w.l, 0, w.l.EndOffset(), 1<<20) {
			if b.IsControl() && b.NumRecords() > 0 {
				n++
			}
		}
		return n
	}
	if n := markers(); n != 4 {
		t.Fatal(n)
	}
	for i := range 12 {
		if i == 6 {
			// Producers 1 and 2 are remembered by batches of aborted transactions, empty by now: until they are forgotten
			// the markers stay too.
			if n := markers(); n != 4 {
				t.Fatalf("%d markers are left, want 4", n)
			}
			p, err := w.l.Producers()
			if err != nil {
				t.Fatal(err)
			}
			p.Expire(w.now, 0)
		}
		w.put(batchSpec{ts: 9}, kv{"x", []byte{byte(i)}})
		w.roll()
		w.clean()
		w.now += 1001
		got := table(consume(t, w.l, true))
		delete(got, "x")
		if !maps.Equal(got, before) {
			t.Fatalf("round %d: committed readers see %v, want %v", i, got, before)
		}
		for _, r := range consume(t, w.l, false) {
			if r.value == "aborted" {
				t.Fatalf("round %d: aborted record %+v is left", i, r)
			}
		}
		w.reopen()
	}
	// The committed transactions still have records.
	if n := markers(); n != 2 {
		t.Fatalf("%d markers are left, want 2", n)
	}
}

// With a map that holds few keys a log becomes clean in steps, each as far as the map reaches.
func TestSmallMapsCleanInSteps(t *testing.T) {
	w := newWorld(t, compactConfig())
	for i := range 300 {
		w.put(batchSpec{ts: 1}, kv{fmt.Sprint(i % 60), []byte(fmt.Sprint(i))})
		if i%50 == 49 {
			w.roll()
		}
	}
	want := table(consume(t, w.l, false))
	steps := 0
	for ; steps < 100; steps++ {
		from := w.l.CleanedTo()
		done, err := cleanLog(w.l, w.now, CleanerOptions{DedupeBytes: 24 * 20})
		if err != nil {
			t.Fatal(err)
		}
		if !maps.Equal(table(consume(t, w.l, false)), want) {
			t.Fatalf("step %d (%+v) changes what consumers see", steps, done)
		}
		if w.l.CleanedTo() == from {
			break
		}
	}
	if n := len(consume(t, w.l, false)); n != 60 || steps < 10 {
		t.Fatalf("%d records left after %d steps", n, steps)
	}
}

// Segments that lie too far apart for one index are not put together, whatever little is left of them.
func TestGroupsFitTheIndex(t *testing.T) {
	w := newWorld(t, compactConfig())
	for i := range 4 {
		b := keyed(t, batchSpec{ts: 1}, w.l.AppendEnd()+kafka.Offset(i)*1_200_000_000, kv{"k", []byte{byte(i)}})
		if err := w.tryAppend(b); err != nil {
			t.Fatal(err)
		}
		w.roll()
	}
	end := w.l.EndOffset()
	w.clean()
	for _, s := range w.l.mu.segs {
		if s.end-1-s.base > 1<<31-1 {
			t.Fatalf("segment %d ends at %d", s.base, s.end)
		}
	}
	for range 2 {
		got := consume(t, w.l, false)
		if len(got) != 1 || got[0].value != "\x03" || w.l.EndOffset() != end {
			t.Fatalf("%+v, end %d", got, w.l.EndOffset())
		}
		w.l.Abandon()
		w.open(0, 0)
	}
}

// Only what is old enough is cleaned; what is too old is, whatever the share of it.
func TestCompactionLags(t *testing.T) {
	cfg := compactConfig()
	cfg.MinCompactionLagMS, cfg.MaxCompactionLagMS, cfg.MinCleanableRatio = 500, 10_000, 0.9
	w := newWorld(t, cfg)
	for range 3 {
		w.put(batchSpec{ts: w.now}, kv{"k", []byte("v")})
		w.roll()
		w.now += 300
	}
	dirty := func(limit kafka.Offset) Dirty {
		d, err := w.l.Dirty(limit, w.now)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	if d := dirty(99); d.Until != 2 || d.Due || !d.Wanted(w.l.Config()) {
		t.Fatalf("%+v", d)
	}
	if d := dirty(1); d.Until != 1 {
		t.Fatalf("%+v", d)
	}
	w.clean()
	w.now += 300
	if d := dirty(99); d.Until != 3 || d.Wanted(w.l.Config()) {
		t.Fatalf("%+v", d)
	}
	w.now += 10_000
	if d := dirty(99); !d.Due || !d.Wanted(w.l.Config()) {
		t.Fatalf("%+v", d)
	}
	s := w.l.Summary()
	if d := s.Dirty(w.l.Config(), w.l.CleanedTo(), w.now); !d.Due || d.Until != 3 {
		t.Fatalf("by the summary %+v", d)
	}
}

// A damaged batch ends the cleaning with an error that names it, and nothing is lost.
func TestDamageEndsCleaning(t *testing.T) {
	w := newWorld(t, compactConfig())
	for i := range 5 {
		w.put(batchSpec{ts: 1}, kv{"k", []byte{byte(i)}})
	}
	w.roll()
	f, err := w.mem.OpenFile(testDir+"/"+offsetName(0)+".log", 0)
	if err != nil {
		t.Fatal(err)
	}
	size, _ := f.Size()
	var last [1]byte
	_, _ = f.ReadAt(last[:], size-1)
	last[0] ^= 1
	_, _ = f.WriteAt(last[:], size-1)
	if _, err := cleanLog(w.l, w.now, CleanerOptions{}); !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), ".log at ") {
		t.Fatalf("the answer is %v", err)
	}
	for _, n := range names(t, w.mem) {
		if strings.HasSuffix(n, suffixCleaned) {
			t.Fatalf("%s is left over", n)
		}
	}
	if got := readAll(t, w.l, 0, 5, 1<<20); len(got) != 5 {
		t.Fatal(len(got))
	}
}

// A topic that is switched from compact to delete keeps its records: whichever batch the cleaner is at, it stops there.
func TestCompactionStopsWhenThePolicyChanges(t *testing.T) {
	clean := func(at int) (w *world, waits int, err error) {
		w = newWorld(t, compactConfig())
		for i := range 4 {
			w.put(batchSpec{ts: 1}, kv{"k", []byte{byte(i)}})
		}
		w.roll()
		deletes := *w.cfg
		deletes.Compact, deletes.DeleteOnRetention = false, true
		c := NewCleaner(CleanerOptions{BytesPerSec: 1})
		c.o.Wait = func(time.Duration) error {
			if waits++; waits == at {
				w.l.SetConfig(&deletes)
			}
			c.spent = 0 // waited for
			return nil
		}
		d, err := w.l.Dirty(w.l.EndOffset(), w.now)
		if err == nil {
			_, err = c.Clean(w.l, Cleaning{Until: d.Until, NowMS: w.now})
		}
		return w, waits, err
	}
	w, batches, err := clean(0)
	if err != nil || batches < 8 || len(consume(t, w.l, false)) != 1 {
		t.Fatalf("%d batches read and written: %v", batches, err)
	}
	for at := 1; at <= batches; at++ {
		w, waits, err := clean(at)
		if !errors.Is(err, ErrClosed) || waits != at {
			t.Errorf("switched at batch %d of %d: went on to %d, the answer is %v", at, batches, waits, err)
		}
		if n := len(consume(t, w.l, false)); n != 4 {
			t.Errorf("switched at batch %d of %d: %d of 4 records are left", at, batches, n)
		}
		w.l.SetConfig(w.cfg)
		if w.clean(); len(consume(t, w.l, false)) != 1 {
			t.Errorf("switched at batch %d of %d: not compacted after it was switched back", at, batches)
		}
	}
}

// Readers that hold pieces of old segments go on, and reads at any moment of a replacement find their records.
func TestReadersBesideCleaning(t *testing.T) {
	cfg := compactConfig()
	cfg.SegmentBytes = 600
	w := newWorld(t, cfg)
	w.env.Files = NewFileCache(2)
	stop, done := make(chan struct{}), make(chan error, 2)
	for i := range 60 {
		w.put(batchSpec{ts: 1}, kv{fmt.Sprint(i % 7), []byte(fmt.Sprint(i))})
	}
	var held Slice
	if err := w.l.Read(&held, 3, 1<<20, 60, true); err != nil {
		t.Fatal(err)
	}
	was := make([]byte, held.Bytes)
	if err := held.CopyTo(was); err != nil {
		t.Fatal(err)
	}
	for r := range 2 {
		go func() {
			rnd := rand.New(rand.NewPCG(uint64(r), 1))
			var s Slice
			buf := make([]byte, 1<<20)
			for {
				select {
				case <-stop:
					done <- nil
					return
				default:
				}
				end := w.l.EndOffset()
				from := kafka.Offset(rnd.Int64N(int64(end)))
				err := w.l.Read(&s, from, 300, end, true)
				if err == nil && s.Bytes == 0 && w.l.EndOffset() == end { // else what was below end may be superseded by now
					err = fmt.Errorf("nothing at %d of %d", from, end)
				}
				if err == nil {
					err = s.CopyTo(buf[:s.Bytes])
				}
				if err == nil && s.Bytes > 0 {
					if b, _, nerr := record.Next(buf[:s.Bytes]); nerr != nil || b.CRC() != b.ComputeCRC() || b.LastOffset() < from {
						err = fmt.Errorf("at %d: %v", from, nerr)
					}
				}
				s.Release()
				if err != nil {
					done <- err
					return
				}
			}
		}()
	}
	for i := range 150 {
		w.put(batchSpec{ts: 1}, kv{fmt.Sprint(i % 7), []byte(fmt.Sprint(i))})
		if i%3 == 0 {
			w.clean()
		}
	}
	close(stop)
	for range 2 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	again := make([]byte, held.Bytes)
	if err := held.CopyTo(again); err != nil || string(again) != string(was) {
		t.Fatalf("a held read has changed: %v", err)
	}
	held.Release()
	if n := len(consume(t, w.l, false)); n > 30 {
		t.Fatalf("%d records are left", n)
	}
}

// The tail ring does not go on answering with what has been compacted away.
func TestCompactionReachesTheTailRing(t *testing.T) {
	w := newWorld(t, compactConfig())
	w.ring(1 << 20)
	for i := range 10 {
		w.put(batchSpec{ts: 1}, kv{"k", []byte{byte(i)}})
	}
	w.roll()
	w.put(batchSpec{ts: 1}, kv{"x", []byte("fresh")})
	w.clean()
	if got := consume(t, w.l, false); len(got) != 2 {
		t.Fatalf("%d records are read", len(got))
	}
	if err := w.l.Close(); err != nil || w.env.Tail.Used() != 0 {
		t.Fatalf("%d bytes are in the ring after Close: %v", w.env.Tail.Used(), err)
	}
}
