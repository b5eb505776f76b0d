package logdir

import (
	"strings"
	"syscall"
	"testing"

	"github.com/tidemark/tidemark/core/commitlog"
	"github.com/tidemark/tidemark/core/kafka"
	"github.com/tidemark/tidemark/core/vfs"
	"github.com/tidemark/tidemark/core/vfs/vfstest"
)

// stuckDeletion is a log that has been deleted, whose folder cannot be removed until the test says so.
func stuckDeletion(t *testing.T) (f *folderTest, removable func()) {
	t.Helper()
	f, fail := faulty(t, "a")
	f.fs = vfs.NewCrashable(nil)
	f.kill()
	f.start()
	f.fill(f.open(tp("t", 0), kafka.TopicID{1}, &commitlog.Config{}), 3)
	f.open(tp("u", 0), kafka.TopicID{2}, &commitlog.Config{})
	fail(func(op vfstest.Op) error {
		if op.Kind == "remove" && strings.HasSuffix(op.Name, deleteSuffix) {
			return syscall.EBUSY
		}
		return nil
	})
	if err := f.dirs.Delete(tp("t", 0), kafka.TopicID{1}, 0); err != nil {
		t.Fatal(err)
	}
	return f, func() { fail(nil) }
}

// A deleted log that cannot be removed is tried again, and not with each turn of the schedule.
func TestADeletedLogThatCannotBeRemovedIsTriedAgain(t *testing.T) {
	f, removable := stuckDeletion(t)
	r := f.dirs.dirs[0]
	r.remove(f.now)
	removable()
	r.remove(f.now + 1)
	if names := f.holds("a", "t"); len(names) != 1 {
		t.Fatalf("tried again at once: %v", names)
	}
	f.now += 24 * 3600 * 1000
	r.remove(f.now)
	if names := f.holds("a", "t"); len(names) != 0 {
		t.Fatalf("a day later there is %v", names)
	}
	if n := len(r.mu.gone) + len(r.mu.deleted); n != 0 {
		t.Errorf("%d are still waited for", n)
	}
}

// A stop that cannot remove it tells the next start, by a kill, a power loss or none in between.
func TestADeletedLogThatCannotBeRemovedOutlivesNoStart(t *testing.T) {
	for _, end := range []string{"a stop", "a kill", "a stop and a power loss", "two stops"} {
		f, removable := stuckDeletion(t)
		f.dirs.dirs[0].remove(f.now)
		if end == "a kill" {
			f.kill()
		} else if err := f.dirs.Close(); err != nil {
			t.Fatal(err)
		}
		if end == "two stops" {
			f.start()
			f.dirs.dirs[0].remove(f.now)
			if err := f.dirs.Close(); err != nil {
				t.Fatal(err)
			}
		}
		if end == "a stop and a power loss" {
			f.fs = f.fs.CrashClone(func() bool { return false })
		}
		if names := f.holds("a", "t"); len(names) != 1 {
			t.Fatalf("%s: the folder holds %v", end, names)
		}
		removable()
		f.start()
		if r := f.dirs.dirs[0]; r.clean == (end == "a kill") {
			t.Fatalf("%s: a clean start: %v", end, r.clean)
		}
		f.dirs.dirs[0].remove(f.now)
		if names := f.holds("a", "t"); len(names) != 0 {
			t.Errorf("%s: there is still %v", end, names)
		}
		f.kill()
	}
}
