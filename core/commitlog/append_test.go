package commitlog

import (
	"errors"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/tidemark/tidemark/core/buf"
	"github.com/tidemark/tidemark/core/invariants"
	"github.com/tidemark/tidemark/core/kafka"
	"github.com/tidemark/tidemark/core/record"
	"github.com/tidemark/tidemark/core/vfs"
	"github.com/tidemark/tidemark/core/vfs/vfstest"
)

func TestAppendedBatchesAreReadInAnyPieces(t *testing.T) {
	for _, maxBytes := range []int{1, 100, 1000, 10_000, 1 << 20} {
		w := newWorld(t, Config{SegmentBytes: 20_000, IndexIntervalBytes: 300})
		var want []record.Batch
		for i := range 300 {
			want = append(want, w.append(batchSpec{records: 1 + i%4, valueLen: i % 90, ts: int64(1000 + i)}))
		}
		if n := len(w.l.Segments()); n < 2 {
			t.Fatalf("%d segments, want several", n)
		}
		checkBatches(t, w.l, want, maxBytes)
		w.reopen()
		checkBatches(t, w.l, want, maxBytes)
	}
}

func TestOffsetInsideABatchReturnsThatBatch(t *testing.T) {
	w := newWorld(t, Config{IndexIntervalBytes: 100})
	var want []record.Batch
	for i := range 50 {
		want = append(want, w.append(batchSpec{records: 5, valueLen: 20, ts: int64(i)}))
	}
	for off := range w.l.EndOffset() {
		got := readAll(t, w.l, off, off/5*5+5, 1)
		if len(got) != 1 || got[0].BaseOffset() != want[off/5].BaseOffset() {
			t.Fatalf("offset %d: got %d batches", off, len(got))
		}
	}
}

func TestReadRespectsLimitAndMaxBytes(t *testing.T) {
	ring, w := newWorld(t, Config{}), newWorld(t, Config{})
	ring.ring(1 << 20)
	for range 2 {
		ring.append(batchSpec{records: 2, valueLen: 100})
	}
	a := w.append(batchSpec{records: 2, valueLen: 100})
	b := w.append(batchSpec{records: 2, valueLen: 100})
	var s Slice
	for _, c := range []struct {
		name     string
		from     kafka.Offset
		maxBytes int
		limit    kafka.Offset
		minOne   bool
		bytes    int
	}{
		{"all", 0, 1 << 20, 4, false, len(a) + len(b)},
		{"limit between batches", 0, 1 << 20, 2, false, len(a)},
		{"limit inside the second", 0, 1 << 20, 3, false, len(a)},
		{"limit inside the first", 0, 1 << 20, 1, true, 0},
		{"room for one", 0, len(a) + 1, 4, false, len(a)},
		{"room for none", 0, 10, 4, false, 0},
		{"room for none but one is due", 0, 10, 4, true, len(a)},
		{"at the end", 4, 10, 4, true, 0},
		{"limit past the end", 0, 1 << 20, 99, false, len(a) + len(b)},
	} {
		for _, l := range []*Log{w.l, ring.l} {
			if err := l.Read(&s, c.from, c.maxBytes, c.limit, c.minOne); err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
			if s.Bytes != c.bytes {
				t.Errorf("%s (ring %v): %d bytes, want %d", c.name, l == ring.l, s.Bytes, c.bytes)
			}
			if l == ring.l && s.Bytes > 0 && s.File.Lease != nil {
				t.Errorf("%s: answered from the file, want the tail ring", c.name)
			}
			s.Release()
		}
	}
	for _, from := range []kafka.Offset{-1, 5} {
		if err := w.l.Read(&s, from, 1, 9, true); !errors.Is(err, ErrOffsetOutOfRange) {
			t.Errorf("read at %d: %v, want ErrOffsetOutOfRange", from, err)
		}
	}
}

func TestNothingShowsBeforePublish(t *testing.T) {
	w := newWorld(t, Config{})
	w.ring(1 << 20)
	w.append(batchSpec{})
	if err := w.l.Append([]AppendBatch{toAppend(batchSpec{}.build(t, 1))}); err != nil {
		t.Fatal(err)
	}
	if got := readAll(t, w.l, 0, 99, 1<<20); len(got) != 1 {
		t.Fatalf("%d batches before Publish, want 1", len(got))
	}
	w.l.Publish()
	if got := readAll(t, w.l, 0, 99, 1<<20); len(got) != 2 {
		t.Fatalf("%d batches after Publish, want 2", len(got))
	}
}

// A write that fails or stops half way leaves the log as it was, in memory and on disk, and staged producers as they
// were; the next append goes on from there.
func TestFailedAppendLeavesNothing(t *testing.T) {
	for _, cause := range []error{syscall.ENOSPC, syscall.EIO, vfstest.ShortWrite{N: 70, Err: syscall.ENOSPC}} {
		w := newWorld(t, Config{SegmentBytes: 4096, IndexIntervalBytes: 100})
		var want []record.Batch
		for i := range 10 {
			want = append(want, w.append(batchSpec{id: 7, seq: int32(i), valueLen: 50, txn: true}))
		}
		fail := true
		w.env.FS = &vfstest.Faulty{FS: w.mem, Hook: func(op vfstest.Op) error {
			if fail && op.Kind == "write" {
				return cause
			}
			return nil
		}}
		w.l.env.Files.drop(&w.l.cur.files[kindLog], false) // so that the file is opened through the faulty one
		p, _ := w.l.Producers()
		before := p.Active()[0]
		var errno syscall.Errno
		err := w.tryAppend(batchSpec{id: 7, seq: 10, txn: true}.build(t, 10), batchSpec{id: 7, seq: 11, txn: true}.build(t, 11))
		if !errors.As(err, &errno) {
			t.Fatalf("append: %v, want %v", err, cause)
		}
		if got := p.Active()[0]; got != before {
			t.Errorf("%v: producer is %+v after the failure, want %+v", cause, got, before)
		}
		w.check(want)
		fail = false
		want = append(want, w.append(batchSpec{id: 7, seq: 10, txn: true}))
		w.check(want)
		w.reopen()
		w.check(want)
	}
}

// A log that is opened more often than segment.ms rolls by time all the same, after a stop and after a kill. Records of the far
// past cost one roll for each start, those of the far future and those without a time none.
func TestSegmentAgeOutlivesRestarts(t *testing.T) {
	const second = 1000
	for _, c := range []struct {
		name string
		ts   func(now int64) int64
		want []int // segments after each start's two appends
	}{
		{"now", func(now int64) int64 { return now }, []int{1, 1, 1, 2, 2, 2, 3}},
		{"far past", func(int64) int64 { return 5 }, []int{1, 2, 3, 4, 5, 6, 7}},
		{"far future", func(now int64) int64 { return 2 * now }, []int{1, 1, 1, 1, 1, 1, 1}},
		{"none", func(int64) int64 { return record.NoTimestamp }, []int{1, 1, 1, 1, 1, 1, 1}},
	} {
		for _, how := range []string{"stop", "kill"} {
			w := &world{t: t, cfg: &Config{SegmentMS: 10 * second}, now: 1_700_000_000_000}
			w.mem = vfs.NewMem(func() time.Time { return time.UnixMilli(w.now) })
			w.env = (&Env{FS: w.mem, NowMS: func() int64 { return w.now }}).withDefaults()
			w.open(0, 0)
			var got []int
			for range c.want {
				w.append(batchSpec{ts: c.ts(w.now)})
				w.now += second
				w.append(batchSpec{ts: c.ts(w.now)})
				got = append(got, len(w.l.Segments()))
				w.now += 3 * second
				end := w.l.EndOffset()
				if how == "kill" {
					w.l.Abandon()
					w.open(0, 0)
					continue
				}
				if err := w.l.Close(); err != nil {
					t.Fatal(err)
				}
				var err error
				if w.l, err = OpenFromSummary(Options{Env: w.env, Config: w.cfg, Dir: testDir}, w.l.Summary()); err != nil || w.l.EndOffset() != end {
					t.Fatalf("ends at %d, want %d: %v", w.l.EndOffset(), end, err)
				}
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("times %s, %s: %v segments, want %v", c.name, how, got, c.want)
			}
			w.l.Abandon()
		}
	}
}

// TestJitterLeavesPartOfTheSegmentsAge: a jitter longer than the age itself (segment.jitter.ms above segment.ms) still leaves each
// segment an age of its own, or every append would begin a segment.
func TestJitterLeavesPartOfTheSegmentsAge(t *testing.T) {
	const ms, jitter = 10_000, 1_234_567
	for _, c := range []struct{ jitterMS, age int64 }{
		{0, ms}, {1000, ms - 567}, {ms, ms - 4567}, {1 << 40, ms - 4567},
	} {
		w := newWorld(t, Config{SegmentMS: ms, SegmentJitterMS: c.jitterMS})
		w.l.jitter = jitter
		w.append(batchSpec{})
		w.now += c.age
		w.append(batchSpec{})
		if n := len(w.l.Segments()); n != 1 {
			t.Errorf("jitter of at most %d ms: %d segments after %d ms, want one", c.jitterMS, n, c.age)
		}
		w.now++
		w.append(batchSpec{})
		if n := len(w.l.Segments()); n != 2 {
			t.Errorf("jitter of at most %d ms: %d segments after %d ms, want two", c.jitterMS, n, c.age+1)
		}
	}
}

func TestLogIsBrokenWhenItCannotBeCutBack(t *testing.T) {
	w := newWorld(t, Config{})
	want := []record.Batch{w.append(batchSpec{})}
	w.env.FS = &vfstest.Faulty{FS: w.mem, Hook: func(op vfstest.Op) error {
		switch op.Kind {
		case "write":
			return vfstest.ShortWrite{N: 20, Err: syscall.EIO}
		case "truncate":
			return syscall.EIO
		}
		return nil
	}}
	w.l.env.Files.drop(&w.l.cur.files[kindLog], false)
	for range 2 {
		if err := w.tryAppend(batchSpec{}.build(t, 1)); !errors.Is(err, syscall.EIO) {
			t.Fatalf("append: %v, want EIO", err)
		}
	}
	w.check(want)
	w.l.Abandon()
	w.env.FS = w.mem
	w.open(0, 0)
	w.check(want)
}

func TestTailRingKeepsWithinItsBudget(t *testing.T) {
	w := newWorld(t, Config{SegmentBytes: 1 << 20})
	w.ring(8 << 10)
	var want []record.Batch
	for i := range 100 {
		want = append(want, w.append(batchSpec{valueLen: 300 + i}))
		if used := w.env.Tail.Used(); used > 8<<10 {
			t.Fatalf("ring holds %d bytes, budget is %d", used, 8<<10)
		}
	}
	w.check(want)
	var s Slice
	if err := w.l.Read(&s, 99, 1<<20, 100, true); err != nil || len(s.Tail) != 1 {
		t.Fatalf("newest batch is not in the ring: %v", err)
	}
	s.Release()
	if err := w.l.Rest(); err != nil {
		t.Fatal(err)
	}
	if used := w.env.Tail.Used(); used != 0 {
		t.Errorf("ring holds %d bytes after Rest", used)
	}
	if n := w.env.Files.Open(); n != 0 {
		t.Errorf("%d files are open after Rest", n)
	}
	w.check(want)
}

// A log has no ring before somebody reads at its end, and lets it go when nobody has for a while; reading elsewhere makes none.
func TestTheTailRingIsForLogsThatAreReadAtTheirEnd(t *testing.T) {
	w := newWorld(t, Config{SegmentBytes: 4 << 20})
	w.env.Tail = NewTailBudget(1 << 20)
	read := func(from kafka.Offset, ring int) {
		t.Helper()
		var s Slice
		if err := w.l.Read(&s, from, 1<<20, w.l.EndOffset(), true); err != nil || len(s.Tail) != ring {
			t.Errorf("from %d: %d batches of the ring, want %d: %v", from, len(s.Tail), ring, err)
		}
		s.Release()
	}
	var want []record.Batch
	put := func(n, bytes int) {
		for range n {
			want = append(want, w.append(batchSpec{valueLen: bytes}))
		}
	}
	put(2, 10)
	read(0, 0)
	put(1, 10)
	if used := w.env.Tail.Used(); used != 0 {
		t.Errorf("the ring of a log whose end nobody reads holds %d bytes", used)
	}
	read(3, 0) // at the end
	put(2, 10)
	read(3, 2)
	put(wantedAppends+1, 10)
	if used := w.env.Tail.Used(); used > maxSlabBytes { // the slab that is being filled
		t.Errorf("the ring holds %d bytes that nobody has read", used)
	}
	read(w.l.EndOffset()-1, 0)
	read(w.l.EndOffset(), 0)
	put(1, 10)
	read(w.l.EndOffset()-1, 1)
	put(wantedAppends/8+1, 7*wantedBytes)
	if used := w.env.Tail.Used(); used > maxSlabBytes {
		t.Errorf("after %d large appends the ring holds %d bytes that nobody has read", wantedAppends/8+1, used)
	}
	w.check(want)
}

// A large append is read from the file, and the ring begins anew behind it.
func TestLargeAppendsLeaveTheTailRing(t *testing.T) {
	w := newWorld(t, Config{SegmentBytes: 1 << 20})
	w.ring(1 << 20)
	want := []record.Batch{w.append(batchSpec{valueLen: 300})}
	want = append(want, w.append(batchSpec{valueLen: maxTailAppend}))
	if used := w.env.Tail.Used(); used > maxSlabBytes {
		t.Errorf("ring holds %d bytes after a large append", used)
	}
	w.check(want)
	want = append(want, w.append(batchSpec{valueLen: 300}))
	for from, ring := range map[kafka.Offset]bool{0: false, 1: false, 2: true} {
		var s Slice
		if err := w.l.Read(&s, from, 1<<20, 3, true); err != nil || (len(s.Tail) > 0) != ring {
			t.Errorf("from %d: %d batches of the ring, want some %v: %v", from, len(s.Tail), ring, err)
		}
		s.Release()
	}
	w.check(want)
}

// The ring keeps a batch in the request's own buffer unless it is small for it. Small ones share a buffer, which counts
// once, unless they are large for that.
func TestTailRingCopiesSmallBatchesOut(t *testing.T) {
	w := newWorld(t, Config{})
	w.ring(1 << 20)
	for _, c := range []struct {
		valueLen int
		want     int64
	}{{100, 4096}, {4000, 8192}, {1500, 2048}} {
		big := w.env.Pool.Get(8192)
		b := batchSpec{valueLen: c.valueLen}.build(t, w.l.AppendEnd())
		n := copy(big.B, b)
		before := w.env.Tail.Used()
		ab := toAppend(record.Batch(big.B[:n]))
		ab.Buf = big
		if err := w.l.Append([]AppendBatch{ab}); err != nil {
			t.Fatal(err)
		}
		w.l.Publish()
		big.Release()
		if got := w.env.Tail.Used() - before; got != c.want {
			t.Errorf("batch of %d bytes in a buffer of 8192 takes %d of the budget, want %d", n, got, c.want)
		}
	}
	if got := readAll(t, w.l, 0, 3, 1<<20); len(got) != 3 {
		t.Fatal("batches are not readable from the ring")
	}
}

// A slab stays counted, once, until its last batch has gone.
func TestASlabCountsOnce(t *testing.T) {
	pool, tail, r := buf.NewPool(), NewTailBudget(1<<20), &tailRing{}
	b := pool.Get(4096)
	for i := range kafka.Offset(3) {
		b.Retain()
		tail.add(r, []tailBatch{{buf: b, bytes: b.B[:10], base: i, last: i, slab: true}})
	}
	b.Release()
	for _, c := range []struct {
		end  kafka.Offset
		want int64
	}{{3, 4096}, {1, 4096}, {0, 0}} {
		if tail.cut(r, c.end); tail.Used() != c.want {
			t.Errorf("cut to %d: %d bytes are counted, want %d", c.end, tail.Used(), c.want)
		}
	}
}

func TestSteadyAppendAllocatesNothing(t *testing.T) {
	if invariants.Enabled {
		t.Skip("buffers are checked, not pooled, in this build")
	}
	w := newWorld(t, Config{})
	w.ring(256 << 10)
	w.env.FS = discard{}
	w.l.env.Files.drop(&w.l.cur.files[kindLog], false)
	batch := batchSpec{valueLen: 1000, id: 5}.build(t, 0)
	list := make([]AppendBatch, 1)
	p, err := w.l.Producers()
	if err != nil {
		t.Fatal(err)
	}
	seq := int32(0)
	step := func() {
		b := w.env.Pool.Get(len(batch))
		copy(b.B, batch)
		v := record.Batch(b.B)
		v.SetBaseOffset(w.l.AppendEnd())
		v.SetProducer(5, 0, seq)
		seq++
		if _, dup, code := p.Check(v); dup || code != kafka.None {
			t.Fatal(dup, code)
		}
		if err := p.Stage(v); err != nil {
			t.Fatal(err)
		}
		list[0] = toAppend(v)
		list[0].Buf = b
		if err := w.l.Append(list); err != nil {
			t.Fatal(err)
		}
		w.l.Publish()
		b.Release()
	}
	for range 5000 {
		step()
	}
	if n := testing.AllocsPerRun(2000, step); n > 0 {
		t.Errorf("%v allocations an append, want 0", n)
	}
}
