package commitlog

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"syscall"
	"testing"

	"github.com/tidemark/tidemark/core/record"
	"github.com/tidemark/tidemark/core/vfs/vfstest"
)

// fileBytes is the length of the active segment's file.
func (w *world) fileBytes() int64 {
	w.t.Helper()
	st, err := w.mem.Stat(w.activeFile())
	if err != nil {
		w.t.Fatal(err)
	}
	return st.Size
}

func (w *world) activeFile() string { return w.l.fileName(w.l.cur.base, kindLog.suffix()) }

// roomy is a log with room behind its last batch, and its batches.
func roomy(t *testing.T) (*world, []record.Batch) {
	t.Helper()
	w := newWorld(t, Config{IndexIntervalBytes: 300})
	w.env.Room = roomOf(512)
	var want []record.Batch
	for len(want) < 60 {
		want = append(want, w.append(batchSpec{valueLen: 10 + len(want)}))
	}
	if ahead := w.fileBytes() - w.l.Size(); ahead <= 0 || ahead > 512 {
		t.Fatalf("the file is %d bytes longer than the log, want room of up to 512", ahead)
	}
	w.check(want)
	return w, want
}

// A small log has no room, a larger one at most a quarter of its size, and never more than Env.Room.
func TestRoomGrowsWithTheLog(t *testing.T) {
	w := newWorld(t, Config{})
	w.env.Room = roomOf(512)
	for w.l.Size() < 6000 {
		w.append(batchSpec{valueLen: 20})
		switch ahead := w.fileBytes() - w.l.Size(); {
		case w.l.Size() < 512 && ahead != 0, ahead > 512, ahead > w.l.Size()/4:
			t.Fatalf("%d bytes of room behind a log of %d", ahead, w.l.Size())
		}
	}
	if w.fileBytes()%512 != 0 {
		t.Fatalf("the file ends at %d: not at a multiple of 512", w.fileBytes())
	}
}

// Whoever ends the use of a segment gives its room back.
func TestRoomIsGivenBack(t *testing.T) {
	for name, do := range map[string]func(*Log) error{
		"roll":  (*Log).Roll,
		"rest":  (*Log).Rest,
		"close": (*Log).Close,
		"truncate": func(l *Log) error {
			return l.TruncateTo(l.EndOffset() - 3)
		},
	} {
		w, want := roomy(t)
		file := w.activeFile()
		if err := do(w.l); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if name == "truncate" {
			want = want[:len(want)-3]
		}
		size := int64(0)
		for _, b := range want {
			size += int64(len(b))
		}
		if st, err := w.mem.Stat(file); err != nil || st.Size != size {
			t.Fatalf("%s: the file has %d bytes (%v), the log %d", name, st.Size, err, size)
		}
		if name == "close" {
			continue
		}
		want = append(want, w.append(batchSpec{valueLen: 700}), w.append(batchSpec{valueLen: 7}))
		w.check(want)
		w.reopen()
		w.check(want)
	}
}

// After a kill the room is cut off without a word, and what a torn append left in it is named.
func TestRoomAfterAKill(t *testing.T) {
	for _, torn := range []bool{false, true} {
		w, want := roomy(t)
		var said bytes.Buffer
		w.env.Logger = slog.New(slog.NewTextHandler(&said, nil))
		if torn {
			next := batchSpec{valueLen: 5}.build(t, w.l.AppendEnd())
			f, err := w.mem.OpenFile(w.activeFile(), 0)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := f.WriteAt(next[:len(next)-2], w.l.Size()); err != nil {
				t.Fatal(err)
			}
		}
		w.l.Abandon()
		w.open(0, 0)
		w.check(want)
		if w.fileBytes() != w.l.Size() {
			t.Errorf("the file has %d bytes, the log %d", w.fileBytes(), w.l.Size())
		}
		if got := strings.Contains(said.String(), "cut off the end"); got != torn {
			t.Errorf("torn %v: it said %q", torn, said.String())
		}
		w.append(batchSpec{})
	}
}

// A disk without room for the zeros takes the records all the same, and is not asked again for this segment.
func TestNoRoomOnTheDisk(t *testing.T) {
	w, want := roomy(t)
	if err := w.l.Rest(); err != nil {
		t.Fatal(err)
	}
	writes, short := 0, 0
	w.env.FS = &vfstest.Faulty{FS: w.mem, Hook: func(op vfstest.Op) error {
		if op.Kind != "write" || !strings.HasSuffix(op.Name, ".log") {
			return nil
		}
		if writes++; op.Bytes > 600 {
			short++
			return vfstest.ShortWrite{N: 600, Err: syscall.ENOSPC}
		}
		return nil
	}}
	for i := range 20 {
		b := batchSpec{valueLen: 500 - i}.build(t, w.l.AppendEnd())
		if err := w.tryAppend(b); err != nil {
			t.Fatal(err)
		}
		want = append(want, b)
	}
	if writes != 20 || short != 1 {
		t.Errorf("%d writes for twenty appends, %d of them short; want one", writes, short)
	}
	w.check(want)
	w.reopen()
	w.check(want)
}

// Dump takes zeros behind the last batch for what they are, and one that is not zero for damage.
func TestDumpOfRoom(t *testing.T) {
	w, _ := roomy(t)
	var out bytes.Buffer
	if err := Dump(&out, w.mem, w.activeFile(), DumpOptions{Deep: true}); err != nil || !strings.Contains(out.String(), "bytes of zeros") {
		t.Errorf("dump says %v:\n%s", err, out.String())
	}
	f, err := w.mem.OpenFile(w.activeFile(), 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte{1}, w.fileBytes()-1); err != nil {
		t.Fatal(err)
	}
	if err := Dump(&out, w.mem, w.activeFile(), DumpOptions{}); !errors.Is(err, ErrDamaged) {
		t.Errorf("dump of damaged room says %v", err)
	}
}

func TestNewRoom(t *testing.T) {
	for n, want := range map[int32]int{0: 0, 511: 0, 512: 512, 1000: 512, 65536: 65536, 1 << 20: 1 << 20, 1 << 30: MaxRoom} {
		if got := int(NewRoom(n).unit()); got != want {
			t.Errorf("NewRoom(%d) has %d bytes, want %d", n, got, want)
		}
	}
}

// What the logs of a folder have reserved is counted until it is given back, however a log ends.
func TestReservedBlocksAreCounted(t *testing.T) {
	for name, do := range map[string]func(*Log) error{
		"roll":     (*Log).Roll,
		"rest":     (*Log).Rest,
		"close":    (*Log).Close,
		"abandon":  func(l *Log) error { l.Abandon(); return nil },
		"truncate": func(l *Log) error { return l.TruncateTo(l.EndOffset() - 3) },
	} {
		w, _ := roomy(t)
		if n := w.env.Room.reserved.Load(); n <= 0 || n > w.l.Size()/reserveShare {
			t.Fatalf("%d bytes are reserved for a log of %d", n, w.l.Size())
		}
		if err := do(w.l); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if n := w.env.Room.reserved.Load(); n != 0 {
			t.Errorf("%s: %d bytes still count as reserved", name, n)
		}
	}
	w, _ := roomy(t)
	before := w.env.Room.reserved.Add(maxReserved)
	for range 100 {
		w.append(batchSpec{valueLen: 300})
	}
	if n := w.env.Room.reserved.Load(); n > before {
		t.Errorf("%d bytes are reserved, the bound is %d", n, maxReserved)
	}
}

// A preallocated segment has its blocks: it gets no zeros, and a rest leaves it alone.
func TestPreallocatedSegmentsNeedNoRoom(t *testing.T) {
	w := newWorld(t, Config{Preallocate: true})
	w.env.Room = roomOf(512)
	cuts := 0
	w.env.FS = &vfstest.Faulty{FS: w.mem, Hook: func(op vfstest.Op) error {
		if op.Kind == "truncate" {
			cuts++
		}
		return nil
	}}
	for range 40 {
		w.append(batchSpec{valueLen: 100})
	}
	if err := w.l.Rest(); err != nil {
		t.Fatal(err)
	}
	if w.fileBytes() != w.l.Size() || cuts != 0 {
		t.Errorf("the file has %d bytes, the log %d; it was cut %d times", w.fileBytes(), w.l.Size(), cuts)
	}
}

// Damage below the recovery point, in a segment that ends there, takes nothing away from the segments behind it: whether its
// index is there or not, the leader epochs are known or not, and also where a stop has left the folder and somebody changed it.
func TestRotBelowTheRecoveryPointTakesNoSegmentAway(t *testing.T) {
	for _, without := range []string{"nothing", "index", "epochs", "summary"} {
		w, want := roomy(t)
		sealed := w.activeFile()
		if err := w.l.Roll(); err != nil {
			t.Fatal(err)
		}
		point := w.l.RecoveryPoint()
		if point != w.l.EndOffset() {
			t.Fatalf("the roll has moved the recovery point to %d, the log ends at %d", point, w.l.EndOffset())
		}
		last := w.append(batchSpec{valueLen: 50, leaderEpo: 7})
		f, err := w.mem.OpenFile(sealed, 0)
		if err != nil {
			t.Fatal(err)
		}
		size, err := f.Size()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteAt([]byte{0xff, 0xff}, size-int64(len(want[len(want)-1]))+16); err != nil { // its magic and CRC
			t.Fatal(err)
		}
		switch without {
		case "summary":
			if err := w.l.Close(); err != nil {
				t.Fatal(err)
			}
		case "epochs":
			writeFile(t, w.mem, testDir+"/"+epochsFile, []byte("no list"))
		}
		if without == "index" || without == "summary" {
			if err := w.mem.Remove(strings.TrimSuffix(sealed, ".log") + ".index"); err != nil {
				t.Fatal(err)
			}
		}
		if without == "summary" {
			if w.l, err = OpenFromSummary(Options{Env: w.env, Config: w.cfg, Dir: testDir}, w.l.Summary()); err != nil {
				t.Fatal(err)
			}
			if _, err := w.l.Producers(); err != nil {
				t.Fatal(err)
			}
		} else {
			w.l.Abandon()
			w.open(0, point)
		}
		if w.l.EndOffset() != last.LastOffset()+1 {
			t.Fatalf("without %s: the log ends at %d, want %d", without, w.l.EndOffset(), last.LastOffset()+1)
		}
		if got := readAll(t, w.l, point, w.l.EndOffset(), 1000); len(got) != 1 || !bytes.Equal(got[0], last) {
			t.Errorf("without %s: the record behind the damage is not read back", without)
		}
		if got := w.l.Epochs(); len(got) != 2 || got[0] != (EpochStart{0, 0}) || got[1] != (EpochStart{7, last.BaseOffset()}) {
			t.Errorf("without %s: the leader epochs are %v", without, got)
		}
	}
}
