package replica

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemark/tidemark/broker/config"
	"github.com/tidemark/tidemark/broker/internal/logdir"
	"github.com/tidemark/tidemark/broker/internal/metadata"
	"github.com/tidemark/tidemark/broker/internal/partition"
	"github.com/tidemark/tidemark/core/compress"
	"github.com/tidemark/tidemark/core/kafka"
	"github.com/tidemark/tidemark/core/record"
	"github.com/tidemark/tidemark/core/vfs"
	"github.com/tidemark/tidemark/core/vfs/vfstest"
)

// stalledTopics is more than the calls that a stalled folder takes all the same.
const stalledTopics = 12

// stalledSet is a broker's partitions after a restart, none of them in use, whose disk hangs in what the test says.
type stalledSet struct {
	*Set
	t     *testing.T
	dirs  *logdir.Dirs
	hangs atomic.Pointer[func(vfstest.Op) bool]
	until chan struct{}
}

func (s *stalledSet) start(disk vfs.FS) {
	cfg, _, err := config.Load("", []string{"log.dirs=d", "node.id=0", "tidemark.fsync=batch"})
	if err != nil {
		s.t.Fatal(err)
	}
	logger, now := slog.New(slog.NewTextHandler(io.Discard, nil)), func() int64 { return time.Now().UnixMilli() }
	s.dirs, err = logdir.Open(logdir.Options{FS: disk, Dirs: cfg.LogDirs, Config: cfg, Logger: logger, NowMS: now})
	if err == nil {
		err = s.dirs.Adopt("cluster")
	}
	if err == nil {
		err = s.dirs.Recover(context.Background())
	}
	if err != nil {
		s.t.Fatal(err)
	}
	s.Set = NewSet(Options{Config: cfg, Dirs: s.dirs, Logger: logger, NowMS: now})
	s.dirs.Start()
	img := metadata.Empty()
	for i := range stalledTopics {
		img, _ = change(s.t, img, made(i)...)
	}
	s.Apply(img, metadata.Delta{})
}

func (s *stalledSet) end() {
	if err := s.Close(context.Background()); err != nil {
		s.t.Error(err)
	}
	if err := s.dirs.Close(); err != nil {
		s.t.Error(err)
	}
}

// newStalledSet gives partitions whose disk hangs in one fsync, or in everything since, for long enough to be found stalled.
func newStalledSet(t *testing.T, everything bool) *stalledSet {
	s := &stalledSet{t: t, until: make(chan struct{})}
	disk := &vfstest.Faulty{FS: vfs.NewMem(nil), Hook: func(op vfstest.Op) error {
		if f := s.hangs.Load(); f != nil && (*f)(op) {
			<-s.until
		}
		return nil
	}}
	s.start(disk)
	for i := range stalledTopics {
		if _, code := s.ByTopic(name(i), 0); code != kafka.None {
			t.Fatal(code)
		}
	}
	s.end()
	s.start(disk)
	s.hang(func(op vfstest.Op) bool { return op.Kind == "sync" && strings.HasPrefix(op.Name, "d/topic-0-0/") })
	s.append(0, nil)
	synctest.Wait()
	if everything {
		s.hang(func(vfstest.Op) bool { return true })
	}
	<-time.After(10*time.Second + 500*time.Millisecond) // between two looks
	if !s.dirs.Stalled(kafka.TopicPartition{Topic: name(1)}) {
		t.Fatal("the folder does not count as stalled")
	}
	return s
}

func name(topic int) string { return fmt.Sprint("topic-", topic) }

func (s *stalledSet) hang(in func(vfstest.Op) bool) { s.hangs.Store(&in) }

// append appends a batch to a topic; what becomes of it goes to done, unless nil.
func (s *stalledSet) append(topic int, done chan *partition.Append) (a *partition.Append, pending bool) {
	s.t.Helper()
	p, code := s.ByTopic(name(topic), 0)
	if code != kafka.None {
		s.t.Fatal(code)
	}
	b := record.NewBuilder(compress.New(), compress.None, 0)
	b.Reset(0, kafka.NoProducerID, kafka.NoEpoch, record.NoSequence, 0)
	b.Append(0, nil, []byte("value"))
	out, err := b.Finish(nil)
	if err != nil {
		s.t.Fatal(err)
	}
	a = &partition.Append{Batch: out, Acks: 0, Done: partition.Func(func(a *partition.Append) {
		if done != nil {
			done <- a
		}
	})}
	return a, p.Append(a)
}

// After a restart no log is in use. One long fsync is no stalled disk, which the first use of a partition shows as an append does: then
// all partitions can be used at once, and appends wait for each other as ever, before the watch has seen that the disk answers.
func TestALongFsyncRefusesNoPartition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStalledSet(t, false)
		for i := 1; i < stalledTopics; i++ {
			if _, code := s.ByTopic(name(i), 0); code != kafka.None {
				t.Errorf("%s: %v", name(i), code)
			}
		}
		s.hang(func(op vfstest.Op) bool { return op.Kind == "write" && strings.HasPrefix(op.Name, "d/topic-1-0/") })
		done := make(chan *partition.Append, 2)
		go func() {
			if a, pending := s.append(1, done); !pending {
				done <- a
			}
		}()
		synctest.Wait()
		if a, pending := s.append(1, done); !pending {
			t.Errorf("an append behind another one: %+v", a.Result)
			done <- a
		}
		p, _ := s.ByTopic(name(1), 0)
		p.Stalled(false)
		close(s.until)
		for range 2 {
			if a := <-done; a.Result.Err != kafka.None {
				t.Errorf("an append: %+v", a.Result)
			}
		}
		s.end()
	})
}

// Of those that would use a partition of a disk that answers nothing, a few wait for it, one a partition, and the others are refused.
func TestAFewUsesProbeAStalledFolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStalledSet(t, true)
		var codes [stalledTopics]atomic.Int32
		for i := 1; i < stalledTopics; i++ {
			codes[i].Store(-100)
			go func() {
				_, code := s.ByTopic(name(i), 0)
				codes[i].Store(int32(code))
			}()
			if i > 1 {
				continue
			}
			synctest.Wait()
			go func() {
				_, code := s.ByTopic(name(1), 0)
				codes[0].Store(int32(code))
			}()
			synctest.Wait()
			if code := codes[0].Load(); code != int32(kafka.KafkaStorageError) {
				t.Errorf("a use behind one that waits: %d", code)
			}
		}
		count := func(code int32) (n int) {
			synctest.Wait()
			for i := 1; i < stalledTopics; i++ {
				if codes[i].Load() == code {
					n++
				}
			}
			return n
		}
		if wait, refused := count(-100), count(int32(kafka.KafkaStorageError)); wait != 8 || refused != stalledTopics-1-8 {
			t.Errorf("%d wait for the disk, %d are refused", wait, refused)
		}
		close(s.until)
		if n := count(int32(kafka.None)); n != 8 {
			t.Errorf("when the disk answers %d can be used", n)
		}
		s.end()
	})
}
