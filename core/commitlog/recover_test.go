package commitlog

import (
	"bytes"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/tidemark/tidemark/core/kafka"
	"github.com/tidemark/tidemark/core/record"
)

// smallLog is a log of two segments with producers, an aborted transaction and two leader epochs.
func smallLog(t testing.TB) (*world, []record.Batch) {
	w := newWorld(t, Config{SegmentBytes: 1500, IndexIntervalBytes: 150})
	var want []record.Batch
	for i := range 12 {
		s := batchSpec{records: 1 + i%3, valueLen: 30 + i, ts: int64(1000 + i*10), leaderEpo: kafka.LeaderEpoch(i / 7)}
		switch {
		case i == 3 || i == 8:
			s.id, s.seq, s.txn = 9, int32(i/8*2), true
			s.records = 2
		case i == 10:
			s = batchSpec{control: true, id: 9, ts: 1100, leaderEpo: 1}
		case i%2 == 0:
			s.id, s.seq, s.records = 7, int32(i/2), 1
		}
		want = append(want, w.append(s))
	}
	if n := len(w.l.Segments()); n != 2 {
		t.Fatalf("%d segments, want 2", n)
	}
	return w, want
}

// expect checks everything that must hold of a log that consists of the given batches.
func expect(t testing.TB, l *Log, want []record.Batch) {
	t.Helper()
	checkBatches(t, l, want, 300)
	model := newProducers(func() int64 { return 0 })
	var epochs epochCache
	var aborted []AbortedTxn
	end := kafka.Offset(0)
	for _, b := range want {
		a, err := model.replay(b)
		if err != nil {
			t.Fatal(err)
		}
		aborted = append(aborted, a...)
		epochs.assign(b.PartitionLeaderEpoch(), b.BaseOffset())
		end = b.LastOffset() + 1
	}
	if l.EndOffset() != end {
		t.Errorf("end offset is %d, want %d", l.EndOffset(), end)
	}
	p, err := l.Producers()
	if err != nil {
		t.Fatal(err)
	}
	if got, want := p.Active(), model.Active(); !slices.Equal(got, want) {
		t.Errorf("producers are\n%+v, want\n%+v", got, want)
	}
	p.AdvanceHighWatermark(end)
	model.AdvanceHighWatermark(end)
	if got, want := p.FirstUnstable(), model.FirstUnstable(); got != want {
		t.Errorf("first unstable offset is %d, want %d", got, want)
	}
	if got := l.Epochs(); !slices.Equal(got, epochs.list) {
		t.Errorf("epochs are %v, want %v", got, epochs.list)
	}
	got, err := l.AbortedTxns(0, end)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got, aborted) {
		t.Errorf("aborted transactions are %v, want %v", got, aborted)
	}
	checkTimes(t, l, want)
}

// checkTimes looks up every timestamp.
func checkTimes(t testing.TB, l *Log, want []record.Batch) {
	t.Helper()
	for ts := int64(995); ts < 1120; ts += 5 {
		found := notFound()
		for _, b := range want {
			if f, err := findInBatch(b, l.StartOffset(), l.EndOffset(), func(t int64) bool { return t >= ts }); err == nil && f.Offset >= 0 {
				found = f
				break
			}
		}
		got, err := l.OffsetForTime(ts, l.EndOffset())
		if err != nil || got != found {
			t.Errorf("offset for time %d is %+v (%v), want %+v", ts, got, err, found)
		}
	}
}

func TestRecoveryAfterACleanStop(t *testing.T) {
	w, want := smallLog(t)
	for _, point := range []kafka.Offset{0, 1, 5, 10, 15, 99} {
		end := w.l.EndOffset()
		if err := w.l.Close(); err != nil {
			t.Fatal(err)
		}
		w.open(0, min(point, max(end, 99)))
		expect(t, w.l, want)
	}
}

// Cut the log off at every byte: all whole batches before the cut are there, nothing else, and appending goes on.
func TestTornTailIsCutAtEveryByte(t *testing.T) {
	w, want := smallLog(t)
	if err := w.l.Close(); err != nil {
		t.Fatal(err)
	}
	last := w.l.Segments()[1]
	name := testDir + "/" + offsetName(last.Base) + ".log"
	whole := readFile(t, w.mem, name)
	for n := 0; n < len(whole); n++ {
		for _, point := range []kafka.Offset{0, last.Base, last.Base + 3} {
			fs := w.mem.CrashClone(func() bool { return true })
			writeFile(t, fs, name, whole[:n])
			keep := 0
			for _, b := range want {
				if b.BaseOffset() < last.Base || bytes.Contains(whole[:n], b) {
					keep++
				}
			}
			w2 := &world{t: t, mem: fs, cfg: w.cfg, now: w.now}
			w2.env = (&Env{FS: fs, NowMS: func() int64 { return 0 }}).withDefaults()
			w2.open(0, point)
			expect(t, w2.l, want[:keep])
			more := w2.append(batchSpec{ts: 1115, leaderEpo: 2})
			expect(t, w2.l, append(slices.Clone(want[:keep]), more))
			if t.Failed() {
				t.Fatalf("cut at %d of %d, recovery point %d", n, len(whole), point)
			}
		}
	}
}

// Damage a byte anywhere: the log opens, and what it returns is a first part of what was written.
func TestDamagedByteNeverShowsWrongRecords(t *testing.T) {
	w, want := smallLog(t)
	if err := w.l.Close(); err != nil {
		t.Fatal(err)
	}
	for _, file := range names(t, w.mem) {
		name := testDir + "/" + file
		whole := readFile(t, w.mem, name)
		for i := range whole {
			fs := w.mem.CrashClone(func() bool { return true })
			bad := bytes.Clone(whole)
			bad[i] ^= byte(1 + i%255)
			writeFile(t, fs, name, bad)
			w2 := &world{t: t, mem: fs, cfg: w.cfg}
			w2.env = (&Env{FS: fs, NowMS: func() int64 { return 0 }}).withDefaults()
			w2.open(0, 0)
			got := readAll(t, w2.l, 0, w2.l.EndOffset(), 1<<20)
			for k, b := range got {
				// Base offset and leader epoch lie outside the CRC.
				if !bytes.Equal(b[16:], want[k][16:]) || b.BaseOffset() != want[k].BaseOffset() && !strings.HasSuffix(file, ".log") {
					t.Fatalf("%s damaged at %d: batch %d is not what was written", file, i, k)
				}
			}
			if !strings.HasSuffix(file, ".log") && len(got) != len(want) {
				t.Fatalf("%s damaged at %d: %d batches, want %d", file, i, len(got), len(want))
			}
			if !strings.HasSuffix(file, ".log") && file != epochsFile {
				expect(t, w2.l, want)
				if t.Failed() {
					t.Fatalf("%s damaged at %d", file, i)
				}
			}
			if _, err := w2.l.Producers(); err != nil {
				t.Fatal(err)
			}
			w2.append(batchSpec{ts: 1, leaderEpo: 5})
		}
	}
}

// Indexes that are missing, cut at any byte or padded with zeros are made again, in trusted segments too.
func TestIndexesAreMadeAgain(t *testing.T) {
	w, want := smallLog(t)
	if err := w.l.Close(); err != nil {
		t.Fatal(err)
	}
	end := w.l.EndOffset()
	for _, file := range names(t, w.mem) {
		if !strings.HasSuffix(file, "index") {
			continue
		}
		whole := readFile(t, w.mem, testDir+"/"+file)
		damages := map[string][]byte{"missing": nil, "padded": append(bytes.Clone(whole), make([]byte, 240)...)}
		for n := range whole {
			damages[fmt.Sprint("cut at ", n)] = whole[:n]
		}
		for what, data := range damages {
			for _, point := range []kafka.Offset{0, end} {
				if strings.HasSuffix(file, ".txnindex") && point > 0 {
					continue // below the recovery point it is the only source
				}
				fs := w.mem.CrashClone(func() bool { return true })
				if what == "missing" {
					if err := fs.Remove(testDir + "/" + file); err != nil {
						t.Fatal(err)
					}
				} else {
					writeFile(t, fs, testDir+"/"+file, data)
				}
				w2 := &world{t: t, mem: fs, cfg: w.cfg}
				w2.env = (&Env{FS: fs, NowMS: func() int64 { return 0 }}).withDefaults()
				w2.open(0, point)
				expect(t, w2.l, want)
				if t.Failed() {
					t.Fatalf("%s %s, recovery point %d", file, what, point)
				}
			}
		}
	}
}

// A start does not know a topic's index.interval.bytes: an index that is wider than the broker's own is whole all the same, and no
// segment is read for it. One that has been cut between two entries is found out where it would cost look-ups more than
// the others' distance, and wherever it was cut every offset and time is found.
func TestAWideIndexIsWhole(t *testing.T) {
	w := newWorld(t, Config{IndexIntervalBytes: 20_000})
	var want []record.Batch
	for i := 0; i < 100 || w.l.cur.idx.since < 15_000; i++ { // so much may stand behind the last entry
		want = append(want, w.append(batchSpec{records: 2, valueLen: 500, ts: 1000 + 10*int64(i)}))
	}
	if err := w.l.Roll(); err != nil {
		t.Fatal(err)
	}
	want = append(want, w.append(batchSpec{ts: 9000}))
	if err := w.l.Close(); err != nil {
		t.Fatal(err)
	}
	name := testDir + "/" + offsetName(0) + ".index"
	whole := readFile(t, w.mem, name)
	entries := len(whole) / offsetEntryBytes
	if entries < 5 {
		t.Fatalf("%d entries", entries)
	}
	for _, interval := range []int{0, 1, 20_000, 1 << 20} {
		for left := entries; left >= 0; left-- {
			mem := w.mem.CrashClone(func() bool { return true })
			writeFile(t, mem, name, whole[:left*offsetEntryBytes])
			var said bytes.Buffer
			w2 := &world{t: t, mem: mem, cfg: &Config{IndexIntervalBytes: interval}}
			w2.env = (&Env{FS: mem, NowMS: func() int64 { return 0 }, Logger: slog.New(slog.NewTextHandler(&said, nil))}).withDefaults()
			w2.open(0, w.l.EndOffset())
			made := strings.Contains(said.String(), "made again")
			if made != (said.Len() > 0) || left == entries && made {
				t.Errorf("interval %d, %d entries of %d: %s", interval, left, entries, said.String())
			}
			if left < entries-2 && !made && interval < 1<<20 {
				t.Errorf("interval %d, %d entries of %d count as all", interval, left, entries)
			}
			checkBatches(t, w2.l, want, 3000)
			checkTimes(t, w2.l, want)
		}
	}
}

func TestLeftoversAreRemoved(t *testing.T) {
	w, want := smallLog(t)
	if err := w.l.Close(); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"00000000000000000000.log.deleted", "leader-epoch-checkpoint.tmp", "00000000000000000777.index", "00000000000000000001.timeindex"} {
		writeFile(t, w.mem, testDir+"/"+name, []byte("left over"))
	}
	w.open(0, 0)
	expect(t, w.l, want)
	for _, name := range names(t, w.mem) {
		if strings.Contains(name, "deleted") || strings.Contains(name, "tmp") || strings.Contains(name, "777") || strings.HasPrefix(name, "00000000000000000001.") {
			t.Errorf("%s is still there", name)
		}
	}
}

// A hole between segments that were not flushed is lost data: nothing behind it may be served.
func TestLogEndsBeforeAHole(t *testing.T) {
	w, want := smallLog(t)
	if err := w.l.Close(); err != nil {
		t.Fatal(err)
	}
	first := testDir + "/" + offsetName(0) + ".log"
	whole := readFile(t, w.mem, first)
	keep := 3
	size := 0
	for _, b := range want[:keep] {
		size += len(b)
	}
	writeFile(t, w.mem, first, whole[:size])
	w.open(0, 0)
	expect(t, w.l, want[:keep])
}

func TestStartOffsetAboveTheEndBeginsAnew(t *testing.T) {
	w, _ := smallLog(t)
	if err := w.l.Close(); err != nil {
		t.Fatal(err)
	}
	w.open(500, 0)
	if w.l.StartOffset() != 500 || w.l.EndOffset() != 500 {
		t.Fatalf("log is %d to %d, want 500 to 500", w.l.StartOffset(), w.l.EndOffset())
	}
	b := w.append(batchSpec{})
	w.check([]record.Batch{b})
	w.reopen()
	w.check([]record.Batch{b})
}
