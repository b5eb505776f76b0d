package logdir

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemark/tidemark/broker/config"
	"github.com/tidemark/tidemark/core/commitlog"
	"github.com/tidemark/tidemark/core/kafka"
	"github.com/tidemark/tidemark/core/vfs"
	"github.com/tidemark/tidemark/core/vfs/vfstest"
)

// stalling is two log folders, a and b, of which a does not answer while the test says so.
type stalling struct {
	t    *testing.T
	fs   *vfs.Mem
	cfg  *config.Broker
	dirs *Dirs
	skew atomic.Int64 // of the wall clock
	mu   struct {
		sync.Mutex
		until   chan struct{}
		removal time.Duration // of a deleted log
		log     bytes.Buffer
	}
}

// Write takes the broker's log.
func (s *stalling) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.log.Write(b)
}

func (s *stalling) said(text string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Count(s.mu.log.String(), text)
}

func (s *stalling) hang(until chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.until = until
}

func newStalling(t *testing.T) *stalling {
	t.Helper()
	cfg, _, err := config.Load("", []string{"log.dirs=a,b", "node.id=0"})
	if err != nil {
		t.Fatal(err)
	}
	s := &stalling{t: t, fs: vfs.NewMem(nil), cfg: cfg}
	faulty := &vfstest.Faulty{FS: s.fs, Hook: func(op vfstest.Op) error {
		s.mu.Lock()
		until, removal := s.mu.until, s.mu.removal
		s.mu.Unlock()
		if op.Kind == "remove" && strings.HasSuffix(op.Name, deleteSuffix) {
			<-time.After(removal)
		}
		if until != nil && (op.Name == "a" || strings.HasPrefix(op.Name, "a/")) {
			<-until
		}
		return nil
	}}
	s.dirs, err = Open(Options{FS: faulty, Dirs: cfg.LogDirs, NodeID: 0, Config: cfg, Logger: slog.New(slog.NewTextHandler(s, nil)),
		NowMS: func() int64 { return time.Now().Add(time.Duration(s.skew.Load())).UnixMilli() }})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.dirs.Adopt("cluster"); err != nil {
		t.Fatal(err)
	}
	if err := s.dirs.Recover(context.Background()); err != nil {
		t.Fatal(err)
	}
	s.dirs.Start()
	return s
}

func (s *stalling) open(name string) (folder int) {
	s.t.Helper()
	l, err := s.dirs.Open(tp(name, 0), kafka.TopicID{1}, &commitlog.Config{})
	if err != nil {
		s.t.Fatal(err)
	}
	return l.Folder()
}

// attach opens a log and puts an owner over it.
func (s *stalling) attach(name string) *testOwner {
	s.t.Helper()
	l, err := s.dirs.Open(tp(name, 0), kafka.TopicID{1}, &commitlog.Config{})
	if err != nil {
		s.t.Fatal(err)
	}
	o := &testOwner{log: l}
	l.Attach(o)
	return o
}

// A folder whose disk answers nothing is named once, takes no new logs, and is named again when it answers; a stop leaves it as
// it is and the other folder whole.
func TestAFolderThatDoesNotAnswerIsNamedAndSpared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStalling(t)
		if got := []int{s.open("t0"), s.open("t1"), s.open("t2")}; got[0] != 0 || got[1] != 1 || got[2] != 0 {
			t.Fatalf("new logs went to folders %v", got)
		}
		s.open("t3")
		stuck, healthy := s.attach("t0"), s.attach("t1")
		until := make(chan struct{})
		s.hang(until)
		waits := make(chan int)
		go func() { waits <- s.open("t4") }()
		<-time.After(10*time.Second + stallCheck/2) // between two looks
		if !stuck.stalled.Load() || stuck.givenUp.Load() {
			t.Error("10 s later the partitions of a are not told that it is stalled, or that it has been for long")
		}
		<-time.After(50 * time.Second)
		if s.said("log folder does not answer") != 1 || s.said("folder=a") != 1 {
			t.Errorf("the log says %q", s.mu.log.String())
		}
		if !stuck.stalled.Load() || !stuck.givenUp.Load() || !stuck.log.Stalled() || healthy.stalled.Load() || healthy.log.Stalled() {
			t.Error("the partitions of a are not told, or others are")
		}
		if !s.dirs.Stalled(tp("t2", 0)) || s.dirs.Stalled(tp("t3", 0)) || s.dirs.Stalled(tp("t9", 0)) {
			t.Error("a partition of a does not count as stalled, or another one does")
		}
		probes := 0
		for stuck.log.Probe() && s.dirs.Probe(tp("t2", 0)) {
			probes += 2
		}
		if probes != stallProbes {
			t.Errorf("%d appends and first uses may try a, want %d", probes, stallProbes)
		}
		if got := []int{s.open("t5"), s.open("t6")}; got[0] != 1 || got[1] != 1 {
			t.Errorf("while a hangs new logs go to folders %v", got)
		}
		s.dirs.Counts(func(c Counts) {
			if c.Stalled != (c.Path == "a") {
				t.Errorf("folder %s stalled: %v", c.Path, c.Stalled)
			}
		})
		close(until)
		if got := <-waits; got != 0 {
			t.Errorf("what waited went to folder %d", got)
		}
		if r := s.dirs.dirs[0]; stuck.log.Stalled() || s.dirs.Stalled(tp("t2", 0)) || !r.stalled.Load() {
			t.Error("a has answered a call and still takes nothing, or the watch has looked already")
		}
		<-time.After(3 * time.Second)
		if s.said("log folder answers again") != 1 {
			t.Errorf("the log says %q", s.mu.log.String())
		}
		if s.dirs.dirs[0].stalled.Load() {
			t.Error("a still counts as stalled")
		}
		if got := s.open("t7"); got != 0 {
			t.Errorf("when a answers again a new log goes to folder %d", got)
		}

		until = make(chan struct{})
		s.hang(until)
		err := s.dirs.Close()
		if err == nil || !strings.Contains(err.Error(), "log folder a is left as it is") {
			t.Errorf("a stop while a hangs: %v", err)
		}
		for folder, want := range map[string]bool{"a": false, "b": true} {
			if _, err := s.fs.Stat(folder + "/" + cleanFile); (err == nil) != want {
				t.Errorf("%s is marked as cleanly stopped: %v", folder, err == nil)
			}
		}
		close(until)
		synctest.Wait()
	})
}

// A stop gives the removal of deleted logs a fifth of a second, and names those that it leaves to the next start.
func TestAStopHasLittleTimeForDeletedLogs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStalling(t)
		const logs = 8 // four in each folder
		for i := range logs {
			s.open(fmt.Sprint("t", i))
		}
		for i := range logs {
			if err := s.dirs.Delete(tp(fmt.Sprint("t", i), 0), kafka.TopicID{1}, 3_600_000); err != nil {
				t.Fatal(err)
			}
		}
		s.mu.Lock()
		s.mu.removal = 150 * time.Millisecond // the second begins within the time, the third does not
		s.mu.Unlock()
		if err := s.dirs.Close(); err != nil {
			t.Fatal(err)
		}
		for _, folder := range []string{"a", "b"} {
			infos, err := s.fs.ReadDir(folder)
			if err != nil {
				t.Fatal(err)
			}
			here := 0
			for _, n := range infos {
				if strings.HasSuffix(n.Name, deleteSuffix) {
					here++
				}
			}
			b, err := vfs.ReadFile(s.fs, folder+"/"+leftFile, 1<<20)
			if here != 2 || err != nil || bytes.Count(b, []byte(deleteSuffix+"\n")) != here {
				t.Errorf("folder %s holds %d deleted logs, its file says %q (%v)", folder, here, b, err)
			}
		}
	})
}
