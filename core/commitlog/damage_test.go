package commitlog

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidemark/tidemark/core/kafka"
	"github.com/tidemark/tidemark/core/record"
	"github.com/tidemark/tidemark/core/vfs"
)

// keptLog is the files of a small log after a clean stop, and what it holds.
type keptLog struct {
	t       *testing.T
	files   map[string][]byte
	want    []record.Batch
	middle  kafka.Offset // where the second segment begins
	end     kafka.Offset
	summary *Summary
	said    bytes.Buffer // the log of the last start
	fs      vfs.FS       // of the last start
}

var damagedTopic = kafka.TopicID{1, 2, 3, 4}

func keepSmallLog(t *testing.T) *keptLog {
	t.Helper()
	w, want := smallLog(t)
	k := &keptLog{t: t, files: map[string][]byte{}, want: want, middle: w.l.Segments()[1].Base, end: w.l.EndOffset()}
	if err := w.l.Close(); err != nil {
		t.Fatal(err)
	}
	k.summary = w.l.Summary()
	k.summary.TopicID = damagedTopic
	for _, name := range names(t, w.mem) {
		k.files[name] = readFile(t, w.mem, testDir+"/"+name)
	}
	k.files[metadataFile] = appendTopicID(nil, damagedTopic)
	return k
}

// openWays are the ways in which a start may open the log: after a power loss, after a kill, after either with a checkpoint that
// covers all, and after a clean stop.
var openWays = []string{"nothing known", "first segment known", "all known", "clean stop"}

// with opens the log with one file replaced.
func (k *keptLog) with(name string, content []byte, way string) (*Log, error) {
	now := time.UnixMilli(k.summary.Segments[len(k.summary.Segments)-1].LastWriteMS)
	fs := vfs.NewMem(func() time.Time { return now })
	if err := fs.MkdirAll(testDir); err != nil {
		k.t.Fatal(err)
	}
	for n, b := range k.files {
		if n == name {
			b = content
		}
		writeFile(k.t, fs, testDir+"/"+n, b)
	}
	k.fs = fs
	k.said.Reset()
	logger := slog.New(slog.NewTextHandler(&k.said, nil))
	o := Options{Env: (&Env{FS: fs, NowMS: func() int64 { return 0 }, Logger: logger}).withDefaults(), Config: &Config{SegmentBytes: 1500, IndexIntervalBytes: 150}, Dir: testDir}
	switch way {
	case "first segment known":
		o.RecoveryPoint = k.middle
	case "all known":
		o.RecoveryPoint = k.end
	case "clean stop":
		o.TopicID = damagedTopic
		return OpenFromSummary(o, k.summary)
	}
	return Open(o)
}

// readDamaged reads what a client gets: batches up to the first that it would refuse, and then why.
func readDamaged(l *Log) (got []record.Batch, err error) {
	var s Slice
	for from := l.StartOffset(); from < l.EndOffset(); {
		if err := l.Read(&s, from, 300, l.EndOffset(), true); err != nil {
			return got, err
		}
		if s.Bytes == 0 || s.Next <= from {
			return got, fmt.Errorf("%s: nothing at %d of %d: %w", l.Dir(), from, l.EndOffset(), ErrCorrupt)
		}
		from = s.Next
		b := make([]byte, s.Bytes)
		err := s.CopyTo(b)
		s.Release()
		for len(b) > 0 && err == nil {
			var batch record.Batch
			if batch, b, err = record.Next(b); err == nil && batch.CRC() != batch.ComputeCRC() {
				err = fmt.Errorf("%s: wrong CRC: %w", l.Dir(), ErrCorrupt)
			}
			if err == nil {
				got = append(got, batch)
			}
		}
		if errors.Is(err, record.ErrCorrupt) || errors.Is(err, record.ErrShort) {
			err = fmt.Errorf("%s: %w", l.Dir(), err) // the client's, who knows what it has asked for
		}
		if err != nil {
			return got, err
		}
	}
	return got, nil
}

// Bytes of a batch's header that its CRC does not cover. Nothing else tells a wrong leader epoch, nor a wrong base offset of a
// batch that none follows; a consumer that trusts the CRC cannot know either.
func uncovered(i int) bool { return i < 8 || i >= 12 && i < 16 }

// differ compares a batch with the one that was written: -1 when equal, the place when one byte differs, -2 for anything else.
func differ(got, want record.Batch) int {
	if len(got) != len(want) {
		return -2
	}
	at := -1
	for i := range got {
		if got[i] == want[i] {
			continue
		}
		if at >= 0 {
			return -2
		}
		at = i
	}
	return at
}

// check opens the log one way with a file damaged and says what is wrong with what it gives.
func (k *keptLog) check(name string, content []byte, way string) (problem string) {
	l, err := k.with(name, content, way)
	if way == "clean stop" { // which touches no file: tidemark dump sees the damage
		if err := Dump(io.Discard, k.fs, testDir+"/"+name, DumpOptions{Deep: true, Data: true}); err != nil && !errors.Is(err, ErrDamaged) {
			return fmt.Sprintf("dump: %v", err)
		}
	}
	if err != nil {
		return named(err)
	}
	isLog := strings.HasSuffix(name, ".log")
	got, err := readDamaged(l)
	if err != nil {
		if problem := named(err); problem != "" {
			return problem
		}
		if way == "nothing known" {
			return fmt.Sprintf("what a recovery has checked cannot be read: %v", err)
		}
	}
	if err == nil && way != "nothing known" && !isLog && len(got) != len(k.want) {
		return fmt.Sprintf("%d batches of %d and no word", len(got), len(k.want))
	}
	checked := map[string]kafka.Offset{"nothing known": 0, "first segment known": k.middle}
	want := k.want
	for i, b := range got {
		if isLog && way != "nothing known" {
			// What is known to be whole is not read again. That a part of it is missing all the same must be said.
			for len(want) > i && differ(b, want[i]) == -2 && b.BaseOffset() > want[i].BaseOffset() {
				if !strings.Contains(k.said.String(), name) {
					return fmt.Sprintf("batch at %d is missing and no word", want[i].BaseOffset())
				}
				want = slices.Delete(slices.Clone(want), i, i+1)
			}
		}
		if i >= len(want) {
			return fmt.Sprintf("%d batches, there were %d", len(got), len(want))
		}
		switch at := differ(b, want[i]); {
		case at == -1:
		case at == -2 || !isLog:
			return fmt.Sprintf("batch %d is another one", i)
		case !uncovered(at):
			return fmt.Sprintf("batch %d differs at byte %d and has the right CRC", i, at)
		case at < 8 && i < len(got)-1:
			if from, ok := checked[way]; ok && want[i].BaseOffset() >= from {
				return fmt.Sprintf("batch %d has a wrong base offset and others follow", i)
			}
		}
	}
	// Everything else that a broker asks must end, in an answer or in an error that names the place.
	_, err1 := l.Producers()
	_, err2 := l.AbortedTxns(l.StartOffset(), l.EndOffset())
	_, err3 := l.OffsetForTime(1050, l.EndOffset())
	_, err4 := l.MaxTimestamp(l.EndOffset())
	for _, err := range []error{err1, err2, err3, err4} {
		if problem := named(err); problem != "" {
			return problem
		}
	}
	return ""
}

// named says what is wrong with an error that a person reads: it does not name the folder.
func named(err error) string {
	if err != nil && !strings.Contains(err.Error(), testDir) {
		return fmt.Sprintf("an error that does not say where: %v", err)
	}
	return ""
}

// Each bit that flips, and each place at which a file may end, of each file of a log: the log is repaired or refused by name, and
// what it gives is what was written.
func TestDamageAtEveryByte(t *testing.T) {
	k := keepSmallLog(t)
	for name, whole := range k.files {
		t.Run(name, func(t *testing.T) {
			for i := range whole {
				flipped := bytes.Clone(whole)
				flipped[i] ^= 1 << (i % 8)
				for _, way := range openWays {
					if problem := k.check(name, flipped, way); problem != "" {
						t.Errorf("bit %d of byte %d flipped, %s: %s", i%8, i, way, problem)
					}
					if problem := k.check(name, whole[:i], way); problem != "" {
						t.Errorf("cut to %d bytes, %s: %s", i, way, problem)
					}
				}
			}
		})
	}
}

// Files that only say faster what the records say too are made again from them when nothing is known of the log, whatever is
// wrong with them.
func TestDamagedIndexesAndSnapshotsAreMadeAgain(t *testing.T) {
	k := keepSmallLog(t)
	for name, whole := range k.files {
		if strings.HasSuffix(name, ".log") || name == metadataFile || name == epochsFile {
			continue
		}
		t.Run(name, func(t *testing.T) {
			for i := range whole {
				for _, content := range [][]byte{whole[:i], slices.Concat(whole[:i], []byte{whole[i] ^ 1<<(i%8)}, whole[i+1:])} {
					l, err := k.with(name, content, "nothing known")
					if err != nil {
						t.Fatalf("byte %d: %v", i, err)
					}
					if expect(t, l, k.want); t.Failed() {
						t.Fatalf("damaged at byte %d", i)
					}
				}
			}
		})
	}
}

// Any recovery point and any log start, as damaged checkpoints give them, leave every record in its place.
func TestAnyRecoveryPointIsSurvived(t *testing.T) {
	k := keepSmallLog(t)
	for point := range k.end + 5 {
		for _, far := range []kafka.Offset{0, 1 << 40} {
			w, want := smallLog(t)
			w.l.Abandon()
			w.open(0, point+far)
			w.check(want)
			w.l.Abandon()
		}
	}
}

// A topic id that is far too long for one is written again, as a torn one is.
func TestAnOverwrittenTopicIDIsMadeAgain(t *testing.T) {
	k := keepSmallLog(t)
	for _, content := range [][]byte{[]byte("version: 0\n"), make([]byte, 1<<16)} {
		if l, err := k.with(metadataFile, content, "nothing known"); err == nil {
			t.Fatalf("%d bytes: opened without an id as topic %s", len(content), l.TopicID())
		}
		l, err := Open(Options{Env: (&Env{FS: k.fs}).withDefaults(), Dir: testDir, TopicID: damagedTopic})
		if err != nil {
			t.Fatalf("%d bytes: %v", len(content), err)
		}
		expect(t, l, k.want)
		if b := readFile(t, k.fs, testDir+"/"+metadataFile); !bytes.Equal(b, k.files[metadataFile]) {
			t.Errorf("%d bytes became %q", len(content), b)
		}
	}
}
