package logdir

import (
	"syscall"
	"testing"

	"github.com/tidemark/tidemark/core/commitlog"
	"github.com/tidemark/tidemark/core/kafka"
	"github.com/tidemark/tidemark/core/vfs/vfstest"
)

// A log that a start could not read keeps its log start and its recovery point: what was deleted stays deleted when a later start
// reads it.
func TestALogThatCannotBeReadKeepsItsPoints(t *testing.T) {
	for _, end := range []string{"a kill", "a stop"} {
		f, fail := faulty(t, "a")
		at := tp("t", 0)
		l := f.open(at, kafka.TopicID{1}, &commitlog.Config{})
		f.fill(l, 10)
		if err := l.DeleteBefore(3); err != nil {
			t.Fatal(err)
		}
		if _, err := l.Checkpoint(); err != nil {
			t.Fatal(err)
		}
		if err := f.dirs.dirs[0].checkpoint(); err != nil {
			t.Fatal(err)
		}
		f.kill()
		fail(func(op vfstest.Op) error {
			if within("a/t-0", op) {
				return syscall.EMFILE
			}
			return nil
		})
		f.start()
		if err := f.dirs.dirs[0].checkpoint(); err != nil {
			t.Fatal(err)
		}
		fail(nil)
		if end == "a stop" {
			if err := f.dirs.Close(); err != nil {
				t.Fatal(err)
			}
		} else {
			f.kill()
		}
		f.start()
		l = f.open(at, kafka.TopicID{1}, &commitlog.Config{})
		if l.StartOffset() != 3 || l.EndOffset() != 10 || l.RecoveryPoint() != 10 {
			t.Errorf("after %s the log is from %d to %d with its recovery point at %d", end, l.StartOffset(), l.EndOffset(), l.RecoveryPoint())
		}
	}
}
