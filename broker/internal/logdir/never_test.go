package logdir

import (
	"math"
	"strconv"
	"testing"

	"github.com/tidemark/tidemark/core/commitlog"
	"github.com/tidemark/tidemark/core/kafka"
	"github.com/tidemark/tidemark/core/vfs/vfstest"
)

// flushMS is an owner with a flush.ms of its own.
type flushMS struct {
	*testOwner
	ms int64
}

func (o flushMS) FlushMS() int64 { return o.ms }

// A stop of many logs syncs those that have a flush.ms, and none for which that is the default: never.
func TestAStopSyncsWhatHasAFlushMS(t *testing.T) {
	f, fail := faulty(t, "a")
	const many = syncEachUpTo + 6
	for i := range many {
		l := f.open(tp("t"+strconv.Itoa(i), 0), kafka.TopicID{1, byte(i)}, &commitlog.Config{})
		ms := int64(math.MaxInt64)
		if i < 2 {
			ms = int64(i) * 3_600_000 // 0 is each time, and a promise too
		}
		l.Attach(flushMS{&testOwner{log: l}, ms})
		f.fill(l, 3)
	}
	synced := map[string]bool{}
	fail(func(op vfstest.Op) error {
		if op.Kind == "sync" && len(op.Name) > 4 && op.Name[len(op.Name)-4:] == ".log" {
			synced[op.Name] = true
		}
		return nil
	})
	if err := f.dirs.Close(); err != nil {
		t.Fatal(err)
	}
	if len(synced) != 2 {
		t.Errorf("%d of %d logs were synced, want 2: %v", len(synced), many, synced)
	}
}

// flush.ms=0 flushes at each of the schedule's turns.
func TestAFlushMSOfNothingFlushesEachTime(t *testing.T) {
	f, _ := faulty(t, "a")
	l := f.open(tp("t", 0), kafka.TopicID{1}, &commitlog.Config{})
	l.Attach(flushMS{&testOwner{log: l}, 0})
	f.fill(l, 3)
	f.dirs.dirs[0].flushDue(f.now)
	if l.FlushedOffset() != 3 {
		t.Errorf("flushed up to %d of 3", l.FlushedOffset())
	}
}
