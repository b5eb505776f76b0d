package logdir

import (
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemark/tidemark/core/commitlog"
	"github.com/tidemark/tidemark/core/kafka"
	"github.com/tidemark/tidemark/core/vfs"
)

// Whatever becomes of the wall clock, the schedule goes on: flush.ms is honoured, retention looks at the logs, a deleted log goes
// when its delay is over and not before, and checkpoints are written.
func TestTheScheduleGoesOnWhenTheWallClockIsSet(t *testing.T) {
	for name, step := range map[string]time.Duration{"back": -6 * time.Hour, "forth": 6 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStalling(t)
				var looks atomic.Int32
				s.dirs.OnIdle(func(kafka.TopicPartition, *commitlog.Summary) { looks.Add(1) })
				f := &folderTest{t: t, now: time.Now().UnixMilli()}
				open := func(name string) *Log {
					l, err := s.dirs.Open(tp(name, 0), kafka.TopicID{1}, &commitlog.Config{})
					if err != nil {
						t.Fatal(err)
					}
					return l
				}
				l := open("flushed")
				owner := &testOwner{log: l}
				l.Attach(everyMS{owner})
				open("unused")
				open("deleted")
				<-time.After(5*time.Minute + time.Second) // the clocks of the intervals have begun
				owner.Exclusive(func() { f.fill(l, 2) })
				if err := s.dirs.Delete(tp("deleted", 0), kafka.TopicID{1}, 60_000); err != nil {
					t.Fatal(err)
				}
				<-time.After(2 * time.Second)
				before := looks.Load()
				s.skew.Store(int64(step))
				owner.Exclusive(func() { f.fill(l, 3) })
				<-time.After(3 * time.Second)
				if l.FlushedOffset() != 5 {
					t.Errorf("flush.ms is over and the log is flushed up to %d of 5", l.FlushedOffset())
				}
				if got := s.deleted(); got != 1 {
					t.Errorf("%d deleted logs are there 5 s after the deletion", got)
				}
				<-time.After(5*time.Minute + time.Second)
				if looks.Load() == before {
					t.Error("retention has not looked at the logs for 5 minutes")
				}
				if got := s.deleted(); got != 0 {
					t.Errorf("%d deleted logs are there after their delay", got)
				}
				if text, err := vfs.ReadFile(s.fs, s.cfg.LogDirs[l.Folder()]+"/"+hwFile, 1<<20); !strings.Contains(string(text), "flushed 0 5\n") {
					t.Errorf("the checkpoint is %q (%v)", text, err)
				}
				if err := s.dirs.Close(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// deleted counts the deleted logs that are still in the folders.
func (s *stalling) deleted() (n int) {
	s.t.Helper()
	for _, folder := range []string{"a", "b"} {
		infos, err := s.fs.ReadDir(folder)
		if err != nil {
			s.t.Fatal(err)
		}
		for _, i := range infos {
			if strings.HasSuffix(i.Name, deleteSuffix) {
				n++
			}
		}
	}
	return n
}
