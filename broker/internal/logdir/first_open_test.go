package logdir

import (
	"fmt"
	"path"
	"strings"
	"syscall"
	"testing"

	"github.com/tidemark/tidemark/core/commitlog"
	"github.com/tidemark/tidemark/core/kafka"
	"github.com/tidemark/tidemark/core/vfs/vfstest"
)

// faulty makes folders whose calls fail as the function that it gives back says; nil: none does.
func faulty(t *testing.T, folders string) (f *folderTest, fail func(func(vfstest.Op) error)) {
	t.Helper()
	f = newFolderTest(t, "log.dirs="+folders)
	f.kill()
	var fault func(vfstest.Op) error
	f.hook = func(op vfstest.Op) error {
		if fault != nil {
			return fault(op)
		}
		return nil
	}
	f.start()
	return f, func(now func(vfstest.Op) error) { fault = now }
}

// fill appends so many records, one a batch.
func (f *folderTest) fill(l *Log, records int) {
	f.t.Helper()
	for i := range records {
		f.append(l, [2][]byte{nil, fmt.Append(nil, "value ", i)})
	}
}

// settle tells the folders what the cluster knows, as the first image does.
func (f *folderTest) settle(topics map[kafka.TopicPartition]kafka.TopicID) {
	f.dirs.Strays(func(tp kafka.TopicPartition) (kafka.TopicID, bool) {
		id, known := topics[tp]
		return id, known
	})
}

// holds is what a folder holds of a topic.
func (f *folderTest) holds(folder, topic string) (names []string) {
	f.t.Helper()
	infos, err := f.fs.ReadDir(folder)
	if err != nil {
		f.t.Fatal(err)
	}
	for _, n := range infos {
		if strings.HasPrefix(n.Name, topic+"-") {
			names = append(names, n.Name)
		}
	}
	return names
}

func within(folder string, op vfstest.Op) bool {
	return op.Name == folder || strings.HasPrefix(op.Name, folder+"/")
}

// The first use of a partition fails half-way in one folder, and the client's next try is served by another: after a kill the log
// with the records is the partition's, whatever the first try has left.
func TestAFirstUseThatFailedHidesNoRecords(t *testing.T) {
	for _, c := range []struct {
		name  string
		fault func(op vfstest.Op) error
	}{
		{"no room for the log", func(op vfstest.Op) error {
			if op.Kind == "create" && strings.HasSuffix(op.Name, ".log") {
				return syscall.ENOSPC
			}
			return nil
		}},
		{"no room for the id", func(op vfstest.Op) error {
			if op.Kind == "create" && strings.Contains(op.Name, "partition.metadata") {
				return syscall.ENOSPC
			}
			return nil
		}},
		{"no room, and what is there cannot be removed", func(op vfstest.Op) error {
			if op.Kind == "create" && strings.HasSuffix(op.Name, ".log") || op.Kind == "remove" {
				return syscall.ENOSPC
			}
			return nil
		}},
		{"the disk has failed", func(op vfstest.Op) error {
			if op.Kind == "create" || op.Kind == "remove" || op.Kind == "write" {
				return syscall.EIO
			}
			return nil
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, fail := faulty(t, "a,b")
			at, id := tp("t", 0), kafka.TopicID{1}
			fail(func(op vfstest.Op) error {
				if within("a/t-0", op) {
					return c.fault(op)
				}
				return nil
			})
			if _, err := f.dirs.Open(at, id, &commitlog.Config{}); err == nil {
				t.Fatal("the first use did not fail")
			}
			l, err := f.dirs.Open(at, id, &commitlog.Config{})
			if err != nil { // the partition stays where its folder could not be taken away
				fail(nil)
				l = f.open(at, id, &commitlog.Config{})
			}
			f.fill(l, 5)
			folder := l.Folder()
			fail(nil)
			f.kill()
			f.start()
			f.settle(map[kafka.TopicPartition]kafka.TopicID{at: id})
			l = f.open(at, id, &commitlog.Config{})
			if l.EndOffset() != 5 || l.Folder() != folder {
				t.Errorf("after a kill the log of folder %d ends at %d, want folder %d and 5", l.Folder(), l.EndOffset(), folder)
			}
			f.fill(l, 1)
			if err := f.dirs.Close(); err != nil {
				t.Fatal(err)
			}
			f.start()
			f.settle(map[kafka.TopicPartition]kafka.TopicID{at: id})
			if l = f.open(at, id, &commitlog.Config{}); l.EndOffset() != 6 {
				t.Errorf("after a stop the log ends at %d, want 6", l.EndOffset())
			}
		})
	}
}

// A first use that failed does not keep the next stop from being a clean one.
func TestAFirstUseThatFailedLeavesNothing(t *testing.T) {
	f, fail := faulty(t, "a")
	fail(func(op vfstest.Op) error {
		if op.Kind == "create" && within("a/t-0", op) && strings.HasSuffix(op.Name, ".log") {
			return syscall.ENOSPC
		}
		return nil
	})
	if _, err := f.dirs.Open(tp("t", 0), kafka.TopicID{1}, &commitlog.Config{}); err == nil {
		t.Fatal("the first use did not fail")
	}
	if names := f.holds("a", "t"); len(names) > 0 {
		t.Errorf("it has left %v", names)
	}
	if err := f.dirs.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := f.fs.Stat(path.Join("a", cleanFile)); err != nil {
		t.Error("the stop is not marked as a clean one")
	}
}

// A topic whose first use has failed is deleted and made anew: its folder is nobody else's.
func TestATopicMadeAnewAfterAFirstUseThatFailed(t *testing.T) {
	f, fail := faulty(t, "a")
	used := false
	fail(func(op vfstest.Op) error { // no descriptor is free any more
		used = used || op.Kind == "create" && strings.HasSuffix(op.Name, "/00000000000000000000.log")
		if used && (op.Kind == "create" || op.Kind == "readdir") {
			return syscall.EMFILE
		}
		return nil
	})
	at := tp("t", 0)
	if _, err := f.dirs.Open(at, kafka.TopicID{1}, &commitlog.Config{}); err == nil {
		t.Fatal("the first use did not fail")
	}
	fail(nil)
	if err := f.dirs.Delete(at, kafka.TopicID{1}, 0); err != nil {
		t.Fatal(err)
	}
	f.fill(f.open(at, kafka.TopicID{2}, &commitlog.Config{}), 1)
}

// What is in a folder that the start has not found is not removed, whatever a first use of the name meets there.
func TestAFirstUseThatFailedRemovesNoRecords(t *testing.T) {
	f, _ := faulty(t, "a")
	at := tp("t", 0)
	l := f.open(at, kafka.TopicID{1}, &commitlog.Config{})
	f.fill(l, 3)
	r := f.dirs.dirs[0]
	delete(r.mu.logs, at)
	if _, err := f.dirs.Open(at, kafka.TopicID{2}, &commitlog.Config{}); err == nil {
		t.Fatal("another topic's folder is taken")
	}
	if err := f.dirs.Delete(at, kafka.TopicID{2}, 0); err != nil {
		t.Fatal(err)
	}
	r.remove(f.now)
	f.kill()
	f.start()
	if l = f.open(at, kafka.TopicID{1}, &commitlog.Config{}); l.EndOffset() != 3 {
		t.Errorf("the log ends at %d, want 3", l.EndOffset())
	}
}
