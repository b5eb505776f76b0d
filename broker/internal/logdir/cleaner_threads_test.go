package logdir

import (
	"testing"

	"github.com/tidemark/tidemark/core/commitlog"
	"github.com/tidemark/tidemark/core/kafka"
)

// A cleaning that takes hours leaves the other threads to the other logs.
func TestALongCleaningHoldsUpNoOther(t *testing.T) {
	f := newFolderTest(t, "log.cleaner.threads=2")
	cfg := &commitlog.Config{SegmentBytes: 200, Compact: true}
	var logs []*Log
	for i := range 2 {
		l := f.open(tp("t", i), kafka.TopicID{1}, cfg)
		for range 10 {
			f.append(l, [2][]byte{[]byte("k"), []byte("v")})
		}
		logs = append(logs, l)
	}
	r := f.dirs.dirs[0]
	r.cleaner.active.Add(1) // as if one were at the first log
	r.cleaner.mu.Lock()
	r.cleaner.mu.busy[logs[0].Log] = struct{}{}
	r.cleaner.mu.Unlock()
	for range 2 { // the first turn only notes the time
		f.clean()
		f.now += 1 << 20
	}
	if a, b := logs[0].CleanedTo(), logs[1].CleanedTo(); a != 0 || b == 0 {
		t.Errorf("cleaned up to %d in the log that is busy, %d in the other", a, b)
	}
	r.cleaner.mu.Lock()
	delete(r.cleaner.mu.busy, logs[0].Log)
	r.cleaner.mu.Unlock()
	r.cleaner.active.Add(-1)
	f.clean()
	if logs[0].CleanedTo() == 0 {
		t.Error("the other log is never cleaned")
	}
}
