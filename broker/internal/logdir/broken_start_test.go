package logdir

import (
	"context"
	"io"
	"log/slog"
	"testing"

	"github.com/tidemark/tidemark/core/commitlog"
	"github.com/tidemark/tidemark/core/kafka"
)

// A start that is ended before it has seen every log, by a signal or by what fails before, leaves the folder as it was: a stop
// must not write down the few logs that it knows as all there are.
func TestAStartThatDoesNotComeToItsEndWritesNothing(t *testing.T) {
	ended, end := context.WithCancel(context.Background())
	end()
	for _, c := range []struct {
		name string
		stop func(f *folderTest)
		try  func(d *Dirs) error
	}{
		{"ended while logs are recovered", (*folderTest).kill, func(d *Dirs) error { return d.Recover(ended) }},
		{"ended before", (*folderTest).kill, nil},
		{"ended before, after a clean stop", func(f *folderTest) { _ = f.dirs.Close() }, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFolderTest(t)
			var logs []kafka.TopicPartition
			for p := range 4 {
				at := tp("p", p)
				logs = append(logs, at)
				l := f.open(at, kafka.TopicID{1}, &commitlog.Config{})
				for range 10 {
					f.append(l, [2][]byte{nil, []byte("v")})
				}
				if err := l.DeleteBefore(3); err != nil {
					t.Fatal(err)
				}
			}
			for _, r := range f.dirs.dirs {
				if err := r.checkpoint(); err != nil {
					t.Fatal(err)
				}
			}
			c.stop(f)
			d, err := Open(Options{FS: f.fs, Dirs: f.cfg.LogDirs, NodeID: 0, Config: f.cfg, Logger: slog.New(slog.NewTextHandler(io.Discard, nil)), NowMS: func() int64 { return f.now },
				ElapsedMS: func() int64 { return f.now }})
			if err != nil {
				t.Fatal(err)
			}
			if c.try != nil && c.try(d) == nil {
				t.Fatal("the start was not ended")
			}
			if err := d.Close(); err != nil {
				t.Fatal(err)
			}
			f.start()
			for _, at := range logs {
				if f.dirs.Empty(at) {
					t.Fatalf("%s counts as empty", at)
				}
				if l := f.open(at, kafka.TopicID{1}, &commitlog.Config{}); l.StartOffset() != 3 || l.EndOffset() != 10 {
					t.Errorf("%s is from %d to %d, want 3 to 10", at, l.StartOffset(), l.EndOffset())
				}
			}
		})
	}
}
