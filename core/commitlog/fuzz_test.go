package commitlog

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"testing"

	"github.com/tidemark/tidemark/core/kafka"
	"github.com/tidemark/tidemark/core/record"
	"github.com/tidemark/tidemark/core/vfs"
)

// FuzzRecovery puts any bytes into a log's folder: it opens, what it reads are whole batches with right CRCs and
// rising offsets, and it can be appended to.
func FuzzRecovery(f *testing.F) {
	w, _ := smallLog(f)
	if err := w.l.Close(); err != nil {
		f.Fatal(err)
	}
	last := offsetName(w.l.Segments()[1].Base)
	data := func(name string) []byte { return readFile(f, w.mem, testDir+"/"+name) }
	f.Add(data(offsetName(0)+".log"), data(offsetName(0)+".index"), data(offsetName(0)+".timeindex"), data(last+".snapshot"), data(epochsFile), int64(0))
	f.Add(data(offsetName(0) + ".log")[:500], []byte{}, []byte{1}, []byte{}, []byte("0\n0\n"), int64(6))
	f.Fuzz(func(t *testing.T, log, index, times, snap, epochs []byte, point int64) {
		fs := vfs.NewMem(nil)
		if err := fs.MkdirAll(testDir); err != nil {
			t.Fatal(err)
		}
		for name, b := range map[string][]byte{offsetName(0) + ".log": log, offsetName(0) + ".index": index, offsetName(0) + ".timeindex": times, offsetName(3) + ".snapshot": snap, epochsFile: epochs} {
			writeFile(t, fs, testDir+"/"+name, b)
		}
		env := (&Env{FS: fs, NowMS: func() int64 { return 0 }}).withDefaults()
		l, err := Open(Options{Env: env, Config: &Config{IndexIntervalBytes: 100}, Dir: testDir, RecoveryPoint: kafka.Offset(point)})
		if err != nil {
			if errors.Is(err, record.ErrCorrupt) || errors.Is(err, ErrCorrupt) {
				return // a marker whose CRC is right and whose content is not
			}
			t.Fatal(err)
		}
		next := kafka.Offset(0)
		for _, b := range readAll(t, l, l.StartOffset(), l.EndOffset(), 1000) {
			if b.BaseOffset() < next || point <= 0 && b.ComputeCRC() != b.CRC() {
				t.Fatalf("batch at %d: CRC or offset is wrong", b.BaseOffset())
			}
			next = b.LastOffset() + 1
		}
		if l.AppendEnd() > 1<<62 {
			return
		}
		b := batchSpec{}.build(t, l.AppendEnd())
		if err := l.Append([]AppendBatch{toAppend(b)}); err != nil {
			t.Fatal(err)
		}
		l.Publish()
		if got := readAll(t, l, b.BaseOffset(), l.EndOffset(), 1000); len(got) != 1 || !bytes.Equal(got[0], b) {
			t.Fatal("what was appended is not read back")
		}
	})
}

func FuzzEpochs(f *testing.F) {
	f.Add([]byte("0\n2\n0 0\n5 100\n"))
	f.Add([]byte("0\n0\n"))
	f.Add([]byte("0\n1\n-1 5\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		list, err := parseEpochs(b)
		if err != nil {
			return
		}
		again, err := parseEpochs(appendEpochs(nil, list))
		if err != nil || !slices.Equal(list, again) {
			t.Fatalf("%v became %v, %v", list, again, err)
		}
	})
}

func FuzzTopicID(f *testing.F) {
	f.Add([]byte("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ"))
	f.Fuzz(func(t *testing.T, b []byte) {
		id, err := parseTopicID(b)
		if err != nil {
			return
		}
		if again, err := parseTopicID(appendTopicID(nil, id)); err != nil || again != id {
			t.Fatalf("%v became %v, %v", id, again, err)
		}
	})
}

func FuzzAbortedTxn(f *testing.F) {
	f.Add(AbortedTxn{1, 2, 3, 4}.appendTo(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) < txnEntryBytes {
			return
		}
		a, err := parseAbortedTxn(b)
		if err == nil && !bytes.Equal(a.appendTo(nil), b[:txnEntryBytes]) {
			t.Fatalf("%v is encoded otherwise", a)
		}
	})
}

// FuzzDump prints any bytes under any of the names.
func FuzzDump(f *testing.F) {
	w, _ := smallLog(f)
	if err := w.l.Close(); err != nil {
		f.Fatal(err)
	}
	kinds := []string{"00000000000000000000.log", "00000000000000000000.index", "00000000000000000000.timeindex", "00000000000000000000.txnindex", "00000000000000000017.snapshot", epochsFile, metadataFile}
	for i, name := range kinds {
		if b, err := vfs.ReadFile(w.mem, testDir+"/"+name, 1<<20); err == nil {
			f.Add(b, uint8(i))
		}
	}
	f.Fuzz(func(t *testing.T, b []byte, kind uint8) {
		fs := vfs.NewMem(nil)
		name := kinds[int(kind)%len(kinds)]
		writeFile(t, fs, name, b)
		if err := Dump(io.Discard, fs, name, DumpOptions{Deep: true, Data: true}); err != nil && !errors.Is(err, ErrDamaged) {
			t.Fatal(err)
		}
	})
}

// FuzzIndexSearch compares the search in an index file with one in memory.
func FuzzIndexSearch(f *testing.F) {
	f.Add(uint16(2000), uint16(777), uint8(3))
	f.Fuzz(func(t *testing.T, n, want uint16, block uint8) {
		var file []byte
		for i := range int(n) {
			file = offsetEntry{int32(2 * i), int32(i)}.appendTo(file)
		}
		scratch := make([]byte, offsetEntryBytes*(1+int(block)))
		got, err := fileEntries(bytes.NewReader(file), int(n), offsetEntryBytes, scratch, func(b []byte) bool { return parseOffsetEntry(b).rel <= int32(want) })
		if expect := min(int(want)/2, int(n)-1); err != nil || got != expect {
			t.Fatalf("search for %d in %d entries: %d, %v; want %d", want, n, got, err, expect)
		}
	})
}
