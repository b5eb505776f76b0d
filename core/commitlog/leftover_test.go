package commitlog

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/tidemark/tidemark/core/vfs/vfstest"
)

// deletedFiles counts what waits to be unlinked.
func (w *world) deletedFiles() int {
	return len(slices.DeleteFunc(names(w.t, w.mem), func(n string) bool { return !strings.HasSuffix(n, suffixDeleted) }))
}

// A start that takes the folder as the stop left it does not look for deleted files: the stop leaves none.
func TestAStopLeavesNoDeletedFiles(t *testing.T) {
	w, want := segments(t, Config{RetentionMS: 1000, FileDeleteDelayMS: 60_000}, 4, func(int) int64 { return 1 })
	w.now += 5000
	if _, _, err := w.l.Retain(w.now, 4); err != nil {
		t.Fatal(err)
	}
	if w.deletedFiles() == 0 {
		t.Fatal("nothing is waiting to be unlinked")
	}
	if err := w.l.Close(); err != nil {
		t.Fatal(err)
	}
	if n := w.deletedFiles(); n > 0 {
		t.Errorf("%d deleted files are left", n)
	}
	w.open(3, 0)
	w.check(want[3:])
}

// A segment whose files cannot be renamed, as on a full disk, is unlinked; where that fails too, the next pass tries it again.
func TestSegmentsThatCannotBeRenamedGo(t *testing.T) {
	for _, unlinks := range []bool{true, false} {
		w, want := segments(t, Config{RetentionMS: 1000, FileDeleteDelayMS: 60_000}, 4, func(int) int64 { return 1 })
		full := true
		w.env.FS = &vfstest.Faulty{FS: w.mem, Hook: func(op vfstest.Op) error {
			if full && (op.Kind == "rename" && strings.HasSuffix(op.Name, suffixDeleted) || op.Kind == "remove" && !unlinks) {
				return syscall.ENOSPC
			}
			return nil
		}}
		w.now += 5000
		if _, _, err := w.l.Retain(w.now, 4); (err == nil) != unlinks {
			t.Errorf("unlinking works: %v; %v", unlinks, err)
		}
		w.check(want[3:])
		full = false
		for range 2 { // renamed, and unlinked after the delay
			w.now += 60_000
			if _, _, err := w.l.Retain(w.now, 4); err != nil {
				t.Fatal(err)
			}
		}
		if left := slices.DeleteFunc(names(t, w.mem), func(n string) bool { return !strings.Contains(n, ".log") }); len(left) != 1 {
			t.Errorf("unlinking works: %v; left are %q", unlinks, left)
		}
	}
}

// A roll that finds no room for a preallocated segment leaves no file: at the next start the log would end there.
func TestAFailedRollLeavesNoFile(t *testing.T) {
	w := newWorld(t, Config{Preallocate: true, SegmentBytes: 1000})
	want := []byte(w.append(batchSpec{valueLen: 600}))
	full := true
	w.env.FS = &vfstest.Faulty{FS: w.mem, Hook: func(op vfstest.Op) error {
		if full && op.Kind == "preallocate" {
			return syscall.ENOSPC
		}
		return nil
	}}
	if err := w.tryAppend(batchSpec{valueLen: 600}.build(t, 1)); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("the roll: %v", err)
	}
	small := w.append(batchSpec{valueLen: 100}) // fits the segment that is there
	w.l.Abandon()
	w.open(0, w.l.EndOffset())
	if got := readAll(t, w.l, 0, w.l.EndOffset(), 1000); len(got) != 2 || !bytes.Equal(got[0], want) || !bytes.Equal(got[1], small) {
		t.Errorf("%d batches are left", len(got))
	}
	full = false
	w.append(batchSpec{valueLen: 600})
}
