package replica

import (
	"context"
	"io"
	"io/fs"
	"log/slog"
	"strings"
	"sync/atomic"
	"syscall"
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

// While no descriptor is free to flush by, produces that wait for the disk are refused and nothing of them is shown; once there is
// one, they are flushed though nobody appends any more, and the broker goes on.
func TestNoDescriptorToFlushByIsNoFailedDisk(t *testing.T) {
	for _, setting := range []string{"tidemark.fsync=batch", "log.flush.interval.messages=1"} {
		synctest.Test(t, func(t *testing.T) {
			var none atomic.Bool
			disk := &vfstest.Faulty{FS: vfs.NewMem(nil), Hook: func(op vfstest.Op) error {
				if none.Load() && op.Kind == "syncdir" && strings.HasPrefix(op.Name, "d/topic-0-0") {
					return &fs.PathError{Op: "open", Path: op.Name, Err: syscall.EMFILE}
				}
				return nil
			}}
			cfg, _, err := config.Load("", []string{"log.dirs=d", "node.id=0", setting})
			if err != nil {
				t.Fatal(err)
			}
			logger, now := slog.New(slog.NewTextHandler(io.Discard, nil)), func() int64 { return time.Now().UnixMilli() }
			dirs, err := logdir.Open(logdir.Options{FS: disk, Dirs: cfg.LogDirs, Config: cfg, Logger: logger, NowMS: now,
				Failed: func(dir string, err error, _ bool) { t.Errorf("log folder %s has failed: %v", dir, err) }})
			if err == nil {
				err = dirs.Adopt("cluster")
			}
			if err == nil {
				err = dirs.Recover(context.Background())
			}
			if err != nil {
				t.Fatal(err)
			}
			s := NewSet(Options{Config: cfg, Dirs: dirs, Logger: logger, NowMS: now})
			dirs.Start()
			img, _ := change(t, metadata.Empty(), made(0)...)
			s.Apply(img, metadata.Delta{})
			p, code := s.ByTopic("topic-0", 0)
			if code != kafka.None {
				t.Fatal(code)
			}
			put := func(seq int32, acks int16) partition.Result {
				b := record.NewBuilder(compress.New(), compress.None, 0)
				b.Reset(now(), 7, 0, seq, 0)
				b.Append(now(), nil, []byte("value"))
				out, err := b.Finish(nil)
				if err != nil {
					t.Fatal(err)
				}
				done := make(chan struct{})
				a := &partition.Append{Batch: out, Acks: acks, Done: partition.Func(func(*partition.Append) { close(done) })}
				if p.Append(a) {
					<-done
				}
				return a.Result
			}
			none.Store(true)
			for seq, acks := range []int16{1, -1} {
				if r := put(int32(seq), acks); r.Err != kafka.KafkaStorageError {
					t.Errorf("%s: acks=%d without a descriptor: %+v", setting, acks, r)
				}
			}
			batch := p.Config().FsyncBatch
			if batch && p.HighWatermark() != 0 {
				t.Errorf("what is not flushed is shown: high watermark %d", p.HighWatermark())
			}
			none.Store(false)
			if batch {
				<-time.After(time.Minute)
				if p.HighWatermark() != 2 {
					t.Errorf("what was not flushed is never shown: high watermark %d", p.HighWatermark())
				}
			}
			for seq := range 3 {
				if r := put(int32(seq), -1); r.Err != kafka.None || int(r.Base) != seq {
					t.Errorf("%s: sent again: %+v", setting, r)
				}
			}
			if err := s.Close(context.Background()); err != nil {
				t.Error(err)
			}
			if err := dirs.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}
