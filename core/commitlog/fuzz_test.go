package commitlog

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/tidemark/tidemark/core/kafka"
	"github.com/tidemark/tidemark/core/record"
	"github.com/tidemark/tidemark/core/vfs"
)

// sealBatches gives each whole batch of a segment's bytes a right CRC.
func sealBatches(b []byte) []byte {
	b = bytes.Clone(b)
	for rest := b; len(rest) >= record.HeaderBytes; {
		n := 12 + int64(int32(binary.BigEndian.Uint32(rest[8:])))
		if n < record.HeaderBytes || n > int64(len(rest)) {
			break
		}
		record.Batch(rest[:n]).SealCRC()
		rest = rest[n:]
	}
	return b
}

// FuzzRecovery puts any bytes into a log's folder: it opens, what it reads are whole batches with right CRCs and
// rising offsets, and it can be appended to. Sealed, batches and snapshot have right CRCs whatever they hold.
func FuzzRecovery(f *testing.F) {
	w, _ := smallLog(f)
	if err := w.l.Close(); err != nil {
		f.Fatal(err)
	}
	last := offsetName(w.l.Segments()[1].Base)
	data := func(name string) []byte { return readFile(f, w.mem, testDir+"/"+name) }
	f.Add(data(offsetName(0)+".log"), data(offsetName(0)+".index"), data(offsetName(0)+".timeindex"), data(last+".snapshot"), data(epochsFile), int64(0), false)
	f.Add(data(offsetName(0) + ".log")[:500], []byte{}, []byte{1}, []byte{}, []byte("0\n0\n"), int64(6), true)
	f.Fuzz(func(t *testing.T, log, index, times, snap, epochs []byte, point int64, seal bool) {
		if seal {
			log, snap = sealBatches(log), sealSnapshot(snap)
		}
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
		trusted := func(err error) bool { // what lies before the recovery point is believed until it is read
			return point > 0 && (errors.Is(err, record.ErrCorrupt) || errors.Is(err, ErrCorrupt))
		}
		whole, err := readBatches(l, l.StartOffset(), l.EndOffset(), 1000)
		if err != nil && !trusted(err) {
			t.Fatal(err)
		}
		for _, b := range whole {
			if point <= 0 && (b.BaseOffset() < next || b.ComputeCRC() != b.CRC()) {
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
		if got, err := readBatches(l, b.BaseOffset(), l.EndOffset(), 1000); !trusted(err) && (err != nil || len(got) != 1 || !bytes.Equal(got[0], b)) {
			t.Fatal("what was appended is not read back: ", err)
		}
	})
}

// FuzzSmallFiles reads any bytes as each of the small files of a log, and as what a stop leaves of one in the manifest: what is taken
// is written again as it was.
func FuzzSmallFiles(f *testing.F) {
	f.Add([]byte("0\n2\n0 0\n5 100\n"))
	f.Add([]byte("0\n0\n"))
	f.Add([]byte("0\n1\n-1 5\n"))
	f.Add([]byte("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ"))
	f.Add(AbortedTxn{1, 2, 3, 4}.appendTo(nil))
	var tail indexTail
	tail.offsets.add(offsetEntry{3, 200})
	tail.times.add(timeEntry{1000, 3})
	f.Add(appendLeft(nil, &tail, true, []byte("snapshot"), markState{file: 2, pos: 77}))
	f.Add([]byte{0, 0, 0, 0, 0, 0, 0, 0, 1, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		if l, err := parseLeft(b); err == nil {
			again, err := parseLeft(appendLeft(nil, &l.tail, l.epochs, l.snapshot, l.mark))
			if err != nil || !slices.Equal(again.tail.offsets.entries, l.tail.offsets.entries) || !slices.Equal(again.tail.times.entries, l.tail.times.entries) ||
				string(again.snapshot) != string(l.snapshot) || again.mark.file != l.mark.file || again.mark.pos != l.mark.pos || again.epochs != l.epochs {
				t.Fatalf("%+v comes back as %+v, %v", l, again, err)
			}
		} else if !errors.Is(err, ErrCorrupt) {
			t.Fatal(err)
		}
		if list, err := parseEpochs(b); err == nil {
			if again, err := parseEpochs(appendEpochs(nil, list)); err != nil || !slices.Equal(list, again) {
				t.Fatalf("%v became %v, %v", list, again, err)
			}
		}
		if id, err := parseTopicID(b); err == nil {
			if again, err := parseTopicID(appendTopicID(nil, id)); err != nil || again != id {
				t.Fatalf("%v became %v, %v", id, again, err)
			}
		}
		if len(b) < txnEntryBytes {
			return
		}
		if a, err := parseAbortedTxn(b); err == nil && !bytes.Equal(a.appendTo(nil), b[:txnEntryBytes]) {
			t.Fatalf("%v is encoded otherwise", a)
		}
	})
}

// FuzzDump prints any bytes under any of the names, with right CRCs or as they are.
func FuzzDump(f *testing.F) {
	w, _ := smallLog(f)
	if err := w.l.Close(); err != nil {
		f.Fatal(err)
	}
	kinds := []string{"00000000000000000000.log", "00000000000000000000.index", "00000000000000000000.timeindex", "00000000000000000000.txnindex", "00000000000000000017.snapshot", epochsFile, metadataFile}
	for i, name := range kinds {
		if b, err := vfs.ReadFile(w.mem, testDir+"/"+name, 1<<20); err == nil {
			f.Add(b, uint8(i), i%2 == 0)
		}
	}
	f.Fuzz(func(t *testing.T, b []byte, kind uint8, seal bool) {
		fs := vfs.NewMem(nil)
		name := kinds[int(kind)%len(kinds)]
		switch {
		case !seal:
		case strings.HasSuffix(name, ".log"):
			b = sealBatches(b)
		case strings.HasSuffix(name, ".snapshot"):
			b = sealSnapshot(b)
		}
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
