package logdir

import (
	"bytes"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/tidemark/tidemark/core/commitlog"
	"github.com/tidemark/tidemark/core/kafka"
	"github.com/tidemark/tidemark/core/vfs/vfstest"
)

// A deleted topic's folder is renamed, which a power loss undoes; meanwhile the topic was made anew, and its log lies in another
// folder, or nowhere yet. The earlier one's is not in the way, and is kept aside.
func TestALogOfAnEarlierTopicIsInNobodysWay(t *testing.T) {
	for _, used := range []bool{true, false} {
		var said bytes.Buffer
		f := newFolderTest(t, "log.dirs=a,b")
		f.log = &said
		at, old, id := tp("t", 0), kafka.TopicID{1}, kafka.TopicID{2}
		l := f.open(at, old, &commitlog.Config{})
		f.fill(l, 9)
		f.open(tp("in-b", 0), kafka.TopicID{3}, &commitlog.Config{})
		f.open(tp("in-a", 0), kafka.TopicID{4}, &commitlog.Config{})
		if err := f.dirs.Delete(tp("in-b", 0), kafka.TopicID{3}, 0); err != nil {
			t.Fatal(err)
		}
		if err := f.dirs.Delete(at, old, 3_600_000); err != nil {
			t.Fatal(err)
		}
		if used {
			if l = f.open(at, id, &commitlog.Config{}); l.Folder() != 1 {
				t.Fatalf("the new log is in folder %d", l.Folder())
			}
			f.fill(l, 4)
		}
		f.kill()
		i := slices.IndexFunc(f.holds("a", "t"), func(n string) bool { return strings.HasSuffix(n, deleteSuffix) })
		if err := f.fs.Rename("a/"+f.holds("a", "t")[i], "a/t-0"); err != nil {
			t.Fatal(err)
		}
		f.start()
		f.settle(map[kafka.TopicPartition]kafka.TopicID{at: id, tp("in-a", 0): {4}})
		l = f.open(at, id, &commitlog.Config{})
		if want := map[bool]kafka.Offset{true: 4}[used]; l.EndOffset() != want || l.StartOffset() != 0 {
			t.Errorf("the log is from %d to %d, want 0 to %d", l.StartOffset(), l.EndOffset(), want)
		}
		if !slices.Contains(f.holds("a", "t"), "t-0-stray") || !strings.Contains(said.String(), "to=a/t-0-stray") {
			t.Errorf("the earlier one's is not kept, or nobody is told: %v, %s", f.holds("a", "t"), said.String())
		}
		if f.open(tp("in-a", 0), kafka.TopicID{4}, &commitlog.Config{}).Folder() != 0 {
			t.Error("another log has gone")
		}
		f.kill()
	}
}

// Two folders hold a log of one topic's partition: the one that holds records is the partition's, of two such the longer one, and the
// other is kept aside. One that cannot be read may hold records.
func TestOfTwoLogsOfAPartitionTheFullerIsKept(t *testing.T) {
	for _, c := range []struct {
		name       string
		a, b       int
		unreadable string
		kept       int // the folder, -1: the log cannot be opened
	}{
		{"the first is empty", 0, 3, "", 1},
		{"the second is empty", 3, 0, "", 0},
		{"both are empty", 0, 0, "", 0},
		{"the second is longer", 2, 7, "", 1},
		{"the first is longer", 7, 2, "", 0},
		{"the first cannot be read, the second is empty", 3, 0, "a", -1},
		{"the second cannot be read, the first is empty", 0, 3, "b", -1},
		{"the first cannot be read, the second holds records", 3, 5, "a", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, fail := faulty(t, "a,b")
			at, id := tp("t", 0), kafka.TopicID{1}
			ends := []int{c.a, c.b}
			for i, r := range f.dirs.dirs {
				l := f.open(at, id, &commitlog.Config{})
				if l.Folder() != i {
					t.Fatalf("the log is in folder %d", l.Folder())
				}
				f.fill(l, ends[i])
				if err := l.Rest(); err != nil {
					t.Fatal(err)
				}
				delete(r.mu.logs, at)
				f.open(tp("other", i), id, &commitlog.Config{}) // in folder i: the next one goes to the other
			}
			f.kill()
			fail(func(op vfstest.Op) error {
				if op.Kind == "readdir" && c.unreadable != "" && within(c.unreadable+"/t-0", op) {
					return syscall.EACCES
				}
				return nil
			})
			f.start()
			f.settle(map[kafka.TopicPartition]kafka.TopicID{at: id, tp("other", 0): id, tp("other", 1): id})
			l, err := f.dirs.Open(at, id, &commitlog.Config{})
			fail(nil)
			switch {
			case c.kept < 0:
				if err == nil {
					t.Errorf("the empty log of folder %d is taken", l.Folder())
				}
				if l = f.open(at, id, &commitlog.Config{}); l.EndOffset() != kafka.Offset(max(c.a, c.b)) {
					t.Errorf("once it can be read again it ends at %d", l.EndOffset())
				}
			case err != nil || l.Folder() != c.kept || l.EndOffset() != kafka.Offset(ends[c.kept]):
				t.Errorf("kept is %v (%v), want that of folder %d", l, err, c.kept)
			}
			if len(f.holds("a", "t")) != 1 || len(f.holds("b", "t")) != 1 || slices.Contains(f.holds("a", "t"), "t-0") == slices.Contains(f.holds("b", "t"), "t-0") {
				t.Errorf("the folders hold %v and %v", f.holds("a", "t"), f.holds("b", "t"))
			}
			f.kill()
		})
	}
}
