package commitlog

import (
	"bytes"
	"log/slog"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/tidemark/tidemark/core/kafka"
	"github.com/tidemark/tidemark/core/record"
)

// A stop of many logs writes no file for one that has little to write; the start after it has everything all the same, at
// the cost of one look at the log's file, and so have the stops and starts after that.
func TestAStopOfManyLogsLeavesThemToTheirSummaries(t *testing.T) {
	w := newWorld(t, Config{IndexIntervalBytes: 100, SegmentMS: 1 << 60})
	var postpone atomic.Bool
	w.l.Abandon()
	w.env = (&Env{FS: w.mem, NowMS: func() int64 { return w.now }, Postpone: &postpone}).withDefaults()
	w.open(0, 0)
	var want []record.Batch
	add := func(seq int32) {
		want = append(want, w.append(batchSpec{id: 7, seq: seq, valueLen: 150, ts: 1000 + int64(seq), leaderEpo: kafka.LeaderEpoch(seq / 2)}))
	}
	for seq := range int32(4) {
		add(seq)
	}
	before := names(t, w.mem)
	for round := range int32(3) {
		postpone.Store(true)
		if err := w.l.Close(); err != nil {
			t.Fatal(err)
		}
		postpone.Store(false)
		if got := names(t, w.mem); !slices.Equal(got, before) {
			t.Fatalf("round %d: the stop has made %v of %v", round, got, before)
		}
		s := w.l.Summary()
		if s.Recovery != 0 || s.Flushed != 0 || s.Unsynced() == 0 {
			t.Fatalf("round %d: recovery point %d, flushed up to %d, %d bytes not synced", round, s.Recovery, s.Flushed, s.Unsynced())
		}
		l, err := OpenFromSummary(Options{Env: w.env, Config: w.cfg, Dir: testDir}, s)
		if err != nil {
			t.Fatal(err)
		}
		w.l = l
		if round == 1 {
			continue // not used between two stops
		}
		w.check(want)
		p, err := l.Producers()
		if err != nil {
			t.Fatal(err)
		}
		last := want[len(want)-1]
		if dup, isDup, code := p.Check(last); !isDup || dup.Base != last.BaseOffset() || code != kafka.None {
			t.Fatalf("round %d: the last batch again: %+v %v %v", round, dup, isDup, code)
		}
		if got, _ := l.EndOffsetForEpoch(1); got != 1 {
			t.Fatalf("round %d: leader epoch 1 is not known, %d is", round, got)
		}
		if found, err := l.OffsetForTime(1002, l.EndOffset()); err != nil || found.Offset != 2 {
			t.Fatalf("round %d: time 1002 is found at %d, %v", round, found.Offset, err)
		}
		add(4 + round)
	}
	// What was left is written once the log is used like any other.
	if _, err := w.l.Checkpoint(); err != nil {
		t.Fatal(err)
	}
	end := w.l.EndOffset()
	w.l.Abandon()
	w.mem = w.mem.CrashClone(func() bool { return false })
	w.env = (&Env{FS: w.mem, NowMS: func() int64 { return w.now }}).withDefaults()
	w.open(0, end)
	w.check(want)
}

// What a stop has left does not fit a folder that somebody has changed, or is damaged itself: the log is recovered.
func TestWhatAStopHasLeftIsNotTrustedBlindly(t *testing.T) {
	for _, damage := range []struct {
		what string
		do   func(w *world, s *Summary)
	}{
		{"an index file has grown", func(w *world, _ *Summary) {
			writeFile(w.t, w.mem, testDir+"/"+offsetName(0)+".index", make([]byte, 80))
		}},
		{"it is cut", func(_ *world, s *Summary) { s.Left = s.Left[:len(s.Left)-1] }},
		{"it is of another form", func(_ *world, s *Summary) { s.Left = []byte{255, 255, 255, 255, 255, 255} }},
	} {
		w := newWorld(t, Config{IndexIntervalBytes: 100})
		var postpone atomic.Bool
		w.env.Postpone = &postpone
		var want []record.Batch
		for seq := range int32(6) {
			want = append(want, w.append(batchSpec{id: 7, seq: seq, valueLen: 150, ts: 1000}))
			if err := w.l.Rest(); err != nil {
				t.Fatal(err)
			}
		}
		postpone.Store(true)
		if err := w.l.Close(); err != nil {
			t.Fatal(err)
		}
		postpone.Store(false)
		s := w.l.Summary()
		damage.do(w, s)
		l, err := OpenFromSummary(Options{Env: w.env, Config: w.cfg, Dir: testDir}, s)
		if err != nil {
			t.Fatal(err)
		}
		w.l = l
		w.check(want)
		p, err := l.Producers()
		if err != nil {
			t.Fatal(err)
		}
		if _, isDup, _ := p.Check(want[5]); !isDup {
			t.Errorf("%s: the producer is forgotten", damage.what)
		}
	}
}

// Producers after a stop are those that were known before it: none where all have expired, which must not cost a look at every
// record, and the newest where the records themselves have been deleted.
func TestAStopKeepsProducersAsTheyWere(t *testing.T) {
	for _, many := range []bool{false, true} {
		for _, expired := range []bool{false, true} {
			w := newWorld(t, Config{})
			var postpone atomic.Bool
			var said bytes.Buffer // a log that is recovered says so
			w.env.Postpone, w.env.Logger = &postpone, slog.New(slog.NewTextHandler(&said, nil))
			stop := func() {
				t.Helper()
				postpone.Store(many)
				if err := w.l.Close(); err != nil {
					t.Fatal(err)
				}
				postpone.Store(false)
				l, err := OpenFromSummary(Options{Env: w.env, Config: w.cfg, Dir: testDir}, w.l.Summary())
				if err != nil {
					t.Fatal(err)
				}
				w.l = l
			}
			for seq := range int32(5) {
				w.append(batchSpec{id: 7, seq: seq, valueLen: 50, ts: 1000})
			}
			stop()
			last := w.append(batchSpec{id: 7, seq: 5, valueLen: 50, ts: 1000})
			p, err := w.l.Producers()
			if err != nil {
				t.Fatal(err)
			}
			if expired {
				p.Expire(1<<50, 1)
			} else if err := w.l.DeleteBefore(w.l.EndOffset()); err != nil {
				t.Fatal(err)
			}
			stop()
			if err := w.l.ready(); err != nil {
				t.Fatal(err)
			}
			if said.Len() > 0 {
				t.Errorf("many %v, expired %v: %s", many, expired, said.String())
			}
			if p, err = w.l.Producers(); err != nil {
				t.Fatal(err)
			}
			if _, isDup, _ := p.Check(last); isDup == expired {
				t.Errorf("many %v, expired %v: the last batch again is a duplicate: %v", many, expired, isDup)
			}
		}
	}
}
