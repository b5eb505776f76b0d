package commitlog

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/tidemark/tidemark/core/kafka"
	"github.com/tidemark/tidemark/core/record"
)

// segments makes n full segments of one batch each and an empty active one.
func segments(t testing.TB, cfg Config, n int, ts func(i int) int64) (*world, []record.Batch) {
	cfg.SegmentBytes, cfg.DeleteOnRetention, cfg.RetentionBytes = 200, true, -1
	if cfg.RetentionMS == 0 {
		cfg.RetentionMS = -1
	}
	w := newWorld(t, cfg)
	var want []record.Batch
	for i := range n {
		want = append(want, w.append(batchSpec{valueLen: 100, ts: ts(i)}))
		w.now += 1000
	}
	return w, want
}

func TestRetentionByTime(t *testing.T) {
	w, want := segments(t, Config{RetentionMS: 5500}, 10, func(i int) int64 { return 1_700_000_000_000 + int64(i)*1000 })
	n, roll, err := w.l.Retain(w.now, 10)
	if err != nil || n != 5 || roll {
		t.Fatalf("deleted %d, roll %v, %v; want 5, no roll", n, roll, err)
	}
	if w.l.StartOffset() != 5 {
		t.Errorf("log start is %d, want 5", w.l.StartOffset())
	}
	w.check(want[5:])
	var s Slice
	if err := w.l.Read(&s, 4, 1, 10, true); !errors.Is(err, ErrOffsetOutOfRange) {
		t.Errorf("read of a deleted offset: %v", err)
	}
}

func TestRetentionStopsAtTheHighWatermark(t *testing.T) {
	w, _ := segments(t, Config{RetentionMS: 1}, 10, func(int) int64 { return 1 })
	if n, roll, err := w.l.Retain(w.now, 3); err != nil || n != 3 || roll {
		t.Fatalf("deleted %d, roll %v, %v; want 3", n, roll, err)
	}
}

func TestRetentionBySize(t *testing.T) {
	w, want := segments(t, Config{}, 10, func(int) int64 { return 1 })
	one := int64(len(want[0]))
	w.l.SetConfig(&Config{RetentionBytes: 4 * one, RetentionMS: -1, DeleteOnRetention: true})
	if n, _, err := w.l.Retain(w.now, 10); err != nil || n != 6 {
		t.Fatalf("deleted %d, %v; want 6", n, err)
	}
	if w.l.Size() != 4*one {
		t.Errorf("%d bytes are left, want %d", w.l.Size(), 4*one)
	}
}

// A bound of 0 keeps nothing, the active segment neither: how people empty a topic. Below 0 there is no bound.
func TestRetentionOfZeroEmptiesTheLog(t *testing.T) {
	for _, c := range []struct {
		bytes, ms int64
		empties   bool
	}{{0, -1, true}, {-1, 0, true}, {0, 0, true}, {-1, -1, false}, {-2, -1, false}} {
		w, want := segments(t, Config{}, 3, func(i int) int64 { return 1_700_000_000_000 + int64(i)*1000 })
		w.l.SetConfig(&Config{RetentionBytes: c.bytes, RetentionMS: c.ms, DeleteOnRetention: true})
		n, roll, err := w.l.Retain(w.now, 3)
		if !c.empties {
			if err != nil || n != 0 || roll {
				t.Fatalf("%+v: deleted %d, roll %v, %v; want nothing", c, n, roll, err)
			}
			w.check(want)
			continue
		}
		if err != nil || n != 2 || !roll {
			t.Fatalf("%+v: deleted %d, roll %v, %v; want 2 and a roll", c, n, roll, err)
		}
		if err := w.l.Roll(); err != nil {
			t.Fatal(err)
		}
		if n, roll, err := w.l.Retain(w.now, 3); err != nil || n != 1 || roll || w.l.StartOffset() != 3 {
			t.Fatalf("%+v: deleted %d, roll %v, %v, start %d; want the last one", c, n, roll, err, w.l.StartOffset())
		}
		w.check(nil)
	}
}

func TestFarFutureTimestampDoesNotFreezeRetention(t *testing.T) {
	w, _ := segments(t, Config{RetentionMS: 5500}, 10, func(i int) int64 {
		if i == 1 {
			return 9_000_000_000_000
		}
		return 1_700_000_000_000 + int64(i)*1000
	})
	if n, _, err := w.l.Retain(w.now, 10); err != nil || n < 4 {
		t.Fatalf("deleted %d, %v; want 4 or 5", n, err)
	}
}

func TestEverythingExpired(t *testing.T) {
	w, _ := segments(t, Config{RetentionMS: 1000}, 3, func(int) int64 { return 1 })
	w.now += 5000
	n, roll, err := w.l.Retain(w.now, 3)
	if err != nil || n != 2 || !roll {
		t.Fatalf("deleted %d, roll %v, %v; want 2 and a roll", n, roll, err)
	}
	if err := w.l.Roll(); err != nil {
		t.Fatal(err)
	}
	if n, roll, err := w.l.Retain(w.now, 3); err != nil || n != 1 || roll {
		t.Fatalf("deleted %d, roll %v, %v; want 1", n, roll, err)
	}
	if w.l.StartOffset() != 3 || w.l.EndOffset() != 3 {
		t.Errorf("log is %d to %d, want 3 to 3", w.l.StartOffset(), w.l.EndOffset())
	}
	w.check(nil)
	w.reopen()
	b := w.append(batchSpec{})
	if b.BaseOffset() != 3 {
		t.Errorf("next offset is %d, want 3", b.BaseOffset())
	}
}

// Deleted files stay as *.deleted for their delay, and a lease keeps reading them even after that.
func TestDeletedSegmentsStayForReaders(t *testing.T) {
	w, want := segments(t, Config{RetentionMS: 1000, FileDeleteDelayMS: 60_000}, 4, func(int) int64 { return 1 })
	var s Slice
	if err := w.l.Read(&s, 0, 1<<20, 4, true); err != nil {
		t.Fatal(err)
	}
	w.now += 5000
	if _, _, err := w.l.Retain(w.now, 4); err != nil {
		t.Fatal(err)
	}
	deleted := func() int {
		return len(slices.DeleteFunc(names(t, w.mem), func(n string) bool { return !strings.HasSuffix(n, ".log.deleted") }))
	}
	if n := deleted(); n != 3 {
		t.Errorf("%d files are renamed, want 3", n)
	}
	if _, _, err := w.l.Retain(w.now+60_000, 4); err != nil {
		t.Fatal(err)
	}
	if n := deleted(); n != 0 {
		t.Errorf("%d renamed files are left after the delay", n)
	}
	got := make([]byte, s.Bytes)
	if err := s.CopyTo(got); err != nil || string(got) != string(want[0]) {
		t.Errorf("the lease does not read its segment any more: %v", err)
	}
	s.Release()
	if n := w.env.Files.Open(); n > 3 {
		t.Errorf("%d files are open", n)
	}
}

func TestDeleteBefore(t *testing.T) {
	w, want := segments(t, Config{}, 5, func(int) int64 { return 1 })
	if err := w.l.DeleteBefore(6); !errors.Is(err, ErrOffsetOutOfRange) {
		t.Errorf("above the end: %v", err)
	}
	if err := w.l.DeleteBefore(3); err != nil {
		t.Fatal(err)
	}
	if err := w.l.DeleteBefore(1); err != nil || w.l.StartOffset() != 3 {
		t.Errorf("start is %d, %v", w.l.StartOffset(), err)
	}
	if n, _, err := w.l.Retain(w.now, 5); err != nil || n != 3 {
		t.Errorf("deleted %d, %v; want 3", n, err)
	}
	w.check(want[3:])
}

func TestTruncate(t *testing.T) {
	for to := kafka.Offset(0); to <= 26; to++ {
		w := newWorld(t, Config{SegmentBytes: 600, IndexIntervalBytes: 100})
		w.ring(1 << 20)
		var want []record.Batch
		for i := range 12 {
			want = append(want, w.append(batchSpec{records: 2, valueLen: 40, ts: int64(1000 + 10*i), id: 1, seq: int32(2 * i), leaderEpo: kafka.LeaderEpoch(i / 4)}))
		}
		if err := w.l.TruncateTo(to); err != nil {
			t.Fatal(err)
		}
		want = want[:min(int(to)/2, 12)]
		if got, end := w.l.AppendEnd(), kafka.Offset(len(want)*2); got != end {
			t.Errorf("to %d: log ends at %d, want %d", to, got, end)
		}
		// A snapshot holds a producer's last batch alone; what a reload must know is that.
		checkBatches(t, w.l, want, 150)
		expectState(t, w.l, want)
		more := w.append(batchSpec{records: 2, ts: 1120, leaderEpo: 7})
		want = append(want, more)
		checkBatches(t, w.l, want, 150)
		checkTimes(t, w.l, want)
		w.reopen()
		checkBatches(t, w.l, want, 150)
		expectState(t, w.l, want)
		checkTimes(t, w.l, want)
		if t.Failed() {
			t.Fatalf("truncated to %d", to)
		}
	}
}

func TestTruncateFully(t *testing.T) {
	w, _ := smallLog(t)
	if err := w.l.TruncateFully(1000); err != nil {
		t.Fatal(err)
	}
	if w.l.StartOffset() != 1000 || w.l.EndOffset() != 1000 || w.l.LatestEpoch() != -1 {
		t.Errorf("log is %d to %d, epoch %d", w.l.StartOffset(), w.l.EndOffset(), w.l.LatestEpoch())
	}
	b := w.append(batchSpec{leaderEpo: 4})
	w.check([]record.Batch{b})
	w.reopen()
	w.check([]record.Batch{b})
}
