package commitlog

import (
	"errors"
	"io/fs"
	"strings"
	"syscall"
	"testing"

	"github.com/tidemark/tidemark/core/kafka"
	"github.com/tidemark/tidemark/core/record"
	"github.com/tidemark/tidemark/core/vfs/vfstest"
)

// faultyWorld is a log with a topic id whose file calls fail as the function that it gives back says.
func faultyWorld(t *testing.T, cfg Config) (w *world, fail func(func(vfstest.Op) error)) {
	t.Helper()
	w = newWorld(t, cfg)
	if err := w.mem.RemoveAll(testDir); err != nil {
		t.Fatal(err)
	}
	var fault func(vfstest.Op) error
	w.env.FS = &vfstest.Faulty{FS: w.mem, Hook: func(op vfstest.Op) error {
		if fault != nil {
			return fault(op)
		}
		return nil
	}}
	var err error
	if w.l, err = Open(Options{Env: w.env, Config: w.cfg, Dir: testDir, TopicID: kafka.TopicID{7}}); err != nil {
		t.Fatal(err)
	}
	return w, func(now func(vfstest.Op) error) { fault = now }
}

func noDescriptor(name string) error {
	return &fs.PathError{Op: "open", Path: name, Err: syscall.EMFILE}
}

// Where a file or folder cannot be opened to be synced, no fsync has failed: the flush is an error, nothing counts as flushed, and
// the next one makes durable all that this one has not.
func TestAFlushWithoutADescriptorIsTriedAgain(t *testing.T) {
	for name, what := range map[string]func(op vfstest.Op) bool{
		"of the first segment": func(op vfstest.Op) bool {
			return op.Kind == "open" && strings.HasSuffix(op.Name, "/00000000000000000000.log")
		},
		"of any segment": func(op vfstest.Op) bool { return op.Kind == "open" && strings.HasSuffix(op.Name, ".log") },
		"of the second segment": func(op vfstest.Op) bool {
			return op.Kind == "open" && strings.HasSuffix(op.Name, "/00000000000000000002.log")
		},
		"of the topic's id":      func(op vfstest.Op) bool { return op.Kind == "open" && strings.HasSuffix(op.Name, metadataFile) },
		"of the folder":          func(op vfstest.Op) bool { return op.Kind == "syncdir" && op.Name == testDir },
		"of the folder's folder": func(op vfstest.Op) bool { return op.Kind == "syncdir" && op.Name == "data" },
		"of anything but the log": func(op vfstest.Op) bool {
			return op.Kind == "syncdir" || op.Kind == "open" && !strings.HasSuffix(op.Name, ".log")
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, fail := faultyWorld(t, Config{})
			w.env.Later = func(*Log, func() error) {}
			var want []record.Batch
			for range 3 {
				want = append(want, w.append(batchSpec{}), w.append(batchSpec{}))
				if err := w.l.Roll(); err != nil {
					t.Fatal(err)
				}
			}
			w.l.release(false) // closes the files
			fail(func(op vfstest.Op) error {
				if what(op) {
					return noDescriptor(op.Name)
				}
				return nil
			})
			for range 2 {
				if _, err := w.l.Flush(); errors.Is(err, ErrFlush) || !errors.Is(err, syscall.EMFILE) || !strings.Contains(err.Error(), testDir) {
					t.Fatalf("without a descriptor: %v", err)
				}
				if off := w.l.FlushedOffset(); off != 0 {
					t.Fatalf("flushed up to %d", off)
				}
			}
			fail(nil)
			if end, err := w.l.Flush(); err != nil || end != 6 || w.l.FlushedOffset() != 6 {
				t.Fatalf("with descriptors again: %d, %v, flushed up to %d", end, err, w.l.FlushedOffset())
			}
			if point, err := w.l.Checkpoint(); err != nil || point != 6 {
				t.Fatalf("a checkpoint: %d, %v", point, err)
			}
			lost := w.mem.CrashClone(func() bool { return false })
			l, err := Open(Options{Env: (&Env{FS: lost}).withDefaults(), Config: w.cfg, Dir: testDir})
			if err != nil {
				t.Fatal(err)
			}
			if l.EndOffset() != 6 || l.TopicID() != (kafka.TopicID{7}) {
				t.Errorf("after a power loss the log of topic %s ends at %d", l.TopicID(), l.EndOffset())
			}
			w.l = l
			w.check(want)
		})
	}
}

// A checkpoint without a descriptor moves no recovery point and is tried again too.
func TestACheckpointWithoutADescriptorIsTriedAgain(t *testing.T) {
	w, fail := faultyWorld(t, Config{})
	w.append(batchSpec{})
	w.l.release(false)
	fail(func(op vfstest.Op) error {
		if op.Kind == "open" {
			return noDescriptor(op.Name)
		}
		return nil
	})
	if point, err := w.l.Checkpoint(); err == nil || errors.Is(err, ErrFlush) || point != 0 {
		t.Fatalf("without a descriptor: %d, %v", point, err)
	}
	fail(nil)
	if point, err := w.l.Checkpoint(); err != nil || point != 1 {
		t.Fatalf("with descriptors again: %d, %v", point, err)
	}
}

// A failed fsync is never repeated, whatever was synced before it.
func TestAFailedFsyncStaysFailed(t *testing.T) {
	for name, what := range map[string]func(op vfstest.Op) bool{
		"of a segment":           func(op vfstest.Op) bool { return op.Kind == "sync" && strings.HasSuffix(op.Name, ".log") },
		"of the topic's id":      func(op vfstest.Op) bool { return op.Kind == "sync" && strings.HasSuffix(op.Name, metadataFile) },
		"of the folder":          func(op vfstest.Op) bool { return op.Kind == "syncdir" && op.Name == testDir },
		"of the folder's folder": func(op vfstest.Op) bool { return op.Kind == "syncdir" && op.Name == "data" },
	} {
		w, fail := faultyWorld(t, Config{})
		w.append(batchSpec{})
		fail(func(op vfstest.Op) error {
			if what(op) {
				return &fs.PathError{Op: "sync", Path: op.Name, Err: syscall.EIO}
			}
			return nil
		})
		if _, err := w.l.Flush(); !errors.Is(err, ErrFlush) || !errors.Is(err, syscall.EIO) {
			t.Errorf("%s: %v", name, err)
		}
		syncs := 0
		fail(func(op vfstest.Op) error {
			if op.Kind == "sync" || op.Kind == "syncdir" {
				syncs++
			}
			return nil
		})
		if _, err := w.l.Flush(); !errors.Is(err, ErrFlush) || syncs > 0 || w.l.FlushedOffset() != 0 {
			t.Errorf("%s, once more: %v after %d syncs, flushed up to %d", name, err, syncs, w.l.FlushedOffset())
		}
	}
}
