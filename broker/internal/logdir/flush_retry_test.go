package logdir

import (
	"io/fs"
	"strings"
	"syscall"
	"testing"

	"github.com/tidemark/tidemark/core/commitlog"
	"github.com/tidemark/tidemark/core/kafka"
	"github.com/tidemark/tidemark/core/vfs/vfstest"
)

// everyMS is an owner with a flush.ms.
type everyMS struct{ *testOwner }

func (everyMS) FlushMS() int64 { return 1 }

// unflushable is a log with records whose topic's id cannot be opened to be synced, and afterwards cannot be synced.
func unflushable(t *testing.T) (f *folderTest, l *Log, o *testOwner, fault *error) {
	t.Helper()
	f, fail := faulty(t, "a")
	l = f.open(tp("t", 0), kafka.TopicID{1}, &commitlog.Config{})
	o = &testOwner{log: l}
	l.Attach(everyMS{o})
	f.fill(l, 3)
	fault = new(error)
	fail(func(op vfstest.Op) error {
		if strings.HasSuffix(op.Name, "/partition.metadata") && (op.Kind == "open" || op.Kind == "sync") {
			return *fault
		}
		return nil
	})
	return f, l, o, fault
}

// A round of flushes that finds no free descriptor is no failed disk: who waits is told, and the schedule tries again.
func TestARoundWithoutADescriptorIsTriedAgain(t *testing.T) {
	f, l, o, fault := unflushable(t)
	r := f.dirs.dirs[0]
	*fault = &fs.PathError{Op: "open", Path: "partition.metadata", Err: syscall.EMFILE}
	l.FlushSoon()
	r.flushed()
	for n := range 3 {
		if r.offline.Load() || o.failed > 0 {
			t.Fatal("the folder counts as failed")
		}
		if o.unflushed != n+1 || o.flushed > 0 || l.FlushedOffset() != 0 {
			t.Fatalf("after %d tries the owner was told %d times that nothing is flushed, %d times that it is", n+1, o.unflushed, o.flushed)
		}
		r.flushAgain()
		r.flushed()
	}
	*fault = nil
	r.flushAgain()
	r.flushed()
	if o.flushed != 1 || l.FlushedOffset() != 3 {
		t.Fatalf("with descriptors the owner was told %d times, flushed up to %d", o.flushed, l.FlushedOffset())
	}
	rounds := r.flush.rounds.Load()
	r.flushAgain()
	r.flushed()
	if r.flush.rounds.Load() != rounds {
		t.Error("a log that is flushed is tried again")
	}
}

// So is flush.ms, with the schedule's next turn; the logs behind it are not held up.
func TestAFlushThatIsDueWithoutADescriptorIsTriedAgain(t *testing.T) {
	f, l, o, fault := unflushable(t)
	next := f.open(tp("u", 0), kafka.TopicID{2}, &commitlog.Config{})
	*fault = &fs.PathError{Op: "open", Path: "partition.metadata", Err: syscall.EMFILE}
	r := f.dirs.dirs[0]
	r.flushDue(f.now)
	if r.offline.Load() || o.failed > 0 || l.FlushedOffset() != 0 {
		t.Fatalf("offline %v, flushed up to %d", r.offline.Load(), l.FlushedOffset())
	}
	*fault = nil
	next.Attach(everyMS{&testOwner{log: next}})
	f.fill(next, 2)
	f.now++
	r.flushDue(f.now)
	if l.FlushedOffset() != 3 || next.FlushedOffset() != 2 {
		t.Fatalf("flushed up to %d and %d, want 3 and 2", l.FlushedOffset(), next.FlushedOffset())
	}
}

// A failed fsync is a failed disk, whoever asked for it.
func TestAFsyncThatFailsTakesTheFolderOffline(t *testing.T) {
	for name, ask := range map[string]func(f *folderTest, l *Log){
		"a round":        func(f *folderTest, l *Log) { l.FlushSoon(); f.dirs.dirs[0].flushed() },
		"flush.ms":       func(f *folderTest, _ *Log) { f.dirs.dirs[0].flushDue(f.now) },
		"flush.messages": func(_ *folderTest, l *Log) { _, err := l.Flush(); l.Failed(err) },
	} {
		f, l, o, fault := unflushable(t)
		*fault = &fs.PathError{Op: "sync", Path: "partition.metadata", Err: syscall.ENOSPC}
		ask(f, l)
		if !f.dirs.dirs[0].offline.Load() || o.failed != 1 || o.unflushed > 0 {
			t.Errorf("%s: offline %v, the owner was told %d times", name, f.dirs.dirs[0].offline.Load(), o.failed)
		}
	}
}
