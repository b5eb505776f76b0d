package commitlog

import (
	"bytes"
	"encoding/hex"
	"errors"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/tidemark/tidemark/core/kafka"
)

// The bytes that Apache Kafka 4 writes for the same content, field by field from its sources.
func TestFormats(t *testing.T) {
	for _, c := range []struct {
		name string
		got  []byte
		want string
	}{
		{"index entry", offsetEntry{7, 4097}.appendTo(nil), "00000007 00001001"},
		{"time index entry", timeEntry{1_700_000_000_000, 7}.appendTo(nil), "0000018bcfe56800 00000007"},
		{"aborted transaction", AbortedTxn{4000, 1, 5, 3}.appendTo(nil), "0000 0000000000000fa0 0000000000000001 0000000000000005 0000000000000003"},
		{"snapshot", appendSnapshot(nil, []ProducerState{{ID: 4000, Epoch: 2, LastSequence: 9, LastOffset: 77, OffsetDelta: 3, Timestamp: 1, CoordinatorEpoch: -1, TxnFirstOffset: -1}})[6:],
			"00000001 0000000000000fa0 0002 00000009 000000000000004d 00000003 0000000000000001 ffffffff ffffffffffffffff"},
		{"leader epochs", appendEpochs(nil, []EpochStart{{0, 0}, {5, 100}}), hex.EncodeToString([]byte("0\n2\n0 0\n5 100\n"))},
		{"topic id", appendTopicID(nil, kafka.TopicID{15: 1}), hex.EncodeToString([]byte("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ"))},
	} {
		if got, want := hex.EncodeToString(c.got), strings.ReplaceAll(c.want, " ", ""); got != want {
			t.Errorf("%s is\n%s, want\n%s", c.name, got, want)
		}
	}
	if got := offsetName(42); got != "00000000000000000042" {
		t.Errorf("name of offset 42 is %s", got)
	}
}

// Kafka's DumpLogSegments holds an index entry to the last offset of the batch at its position, and a time index
// entry to the highest timestamp of the batch with that last offset; entries rise.
func TestIndexEntriesAreAsDumpLogSegmentsWants(t *testing.T) {
	w := newWorld(t, Config{SegmentBytes: 5000, IndexIntervalBytes: 200})
	for i := range 200 {
		w.append(batchSpec{records: 1 + i%5, valueLen: 40, ts: int64(1000 + i*37%500)})
	}
	if err := w.l.Close(); err != nil {
		t.Fatal(err)
	}
	for _, s := range w.l.Segments() {
		name := testDir + "/" + offsetName(s.Base)
		log := readFile(t, w.mem, name+".log")
		maxOf := map[kafka.Offset]int64{}
		lastAt := map[int32]kafka.Offset{}
		highest := int64(-1)
		for pos, rest := int32(0), log; len(rest) > 0; {
			sc := newScanner(bytes.NewReader(log), int64(len(log)), w.env.Pool, 512)
			b, err := sc.batch(int64(pos))
			if err != nil {
				t.Fatal(err)
			}
			lastAt[pos], maxOf[b.LastOffset()] = b.LastOffset(), b.MaxTimestamp()
			highest = max(highest, b.MaxTimestamp())
			pos += int32(len(b))
			rest = log[pos:]
			sc.close()
		}
		prev := offsetEntry{-1, -1}
		for b := readFile(t, w.mem, name+".index"); len(b) > 0; b = b[offsetEntryBytes:] {
			e := parseOffsetEntry(b)
			if lastAt[e.pos] != s.Base+kafka.Offset(e.rel) || e.rel <= prev.rel || e.pos <= prev.pos {
				t.Fatalf("index entry %+v after %+v: the batch there ends at %d", e, prev, lastAt[e.pos])
			}
			prev = e
		}
		prevTime := timeEntry{-1, -1}
		for b := readFile(t, w.mem, name+".timeindex"); len(b) > 0; b = b[timeEntryBytes:] {
			e := parseTimeEntry(b)
			if maxOf[s.Base+kafka.Offset(e.rel)] != e.ts || e.ts <= prevTime.ts || e.rel < prevTime.rel {
				t.Fatalf("time index entry %+v after %+v: that batch has %d", e, prevTime, maxOf[s.Base+kafka.Offset(e.rel)])
			}
			prevTime = e
		}
		if prevTime.ts != highest {
			t.Errorf("time index of segment %d ends with %d, highest timestamp is %d", s.Base, prevTime.ts, highest)
		}
	}
}

func TestLeaderEpochs(t *testing.T) {
	var c epochCache
	for _, e := range []EpochStart{{0, 0}, {2, 10}, {2, 15}, {1, 16}, {4, 20}, {6, 30}} {
		c.assign(e.Epoch, e.Start)
	}
	for _, q := range []struct {
		ask, epoch kafka.LeaderEpoch
		end        kafka.Offset
	}{{-1, -1, -1}, {0, 0, 10}, {1, 0, 10}, {2, 2, 20}, {3, 2, 20}, {4, 4, 30}, {5, 4, 30}, {6, 6, 44}, {7, -1, -1}} {
		if e, end := c.endOf(q.ask, 44); e != q.epoch || end != q.end {
			t.Errorf("end of epoch %d: (%d, %d), want (%d, %d)", q.ask, e, end, q.epoch, q.end)
		}
	}
	if e := c.epochAt(19); e != 2 {
		t.Errorf("epoch at 19 is %d, want 2", e)
	}
	c.assign(8, 30) // epoch 6 held no record
	c.cutStart(12)
	if want := []EpochStart{{2, 12}, {4, 20}, {8, 30}}; !slices.Equal(c.list, want) {
		t.Errorf("epochs are %v, want %v", c.list, want)
	}
	if e, end := c.endOf(1, 44); e != 1 || end != 12 {
		t.Errorf("end of an epoch below the first: (%d, %d), want (1, 12)", e, end)
	}
	c.cutEnd(20)
	if want := []EpochStart{{2, 12}}; !slices.Equal(c.list, want) {
		t.Errorf("epochs are %v, want %v", c.list, want)
	}
	var zero epochCache
	zero.assign(0, 0)
	if e, end := zero.endOf(0, 5); e != 0 || end != 5 {
		t.Errorf("epoch 0 is lost: (%d, %d)", e, end)
	}
}

func TestDumpNamesTheDamage(t *testing.T) {
	w, _ := smallLog(t)
	if err := w.l.Close(); err != nil {
		t.Fatal(err)
	}
	var clean bytes.Buffer
	if err := Dump(&clean, w.mem, testDir, DumpOptions{Deep: true, Data: true}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"offset 16 marker abort", "producer 9 offsets 4..16 last stable offset 17", "leader epoch 1 from offset 11", "codec none"} {
		if !strings.Contains(clean.String(), want) {
			t.Errorf("dump lacks %q", want)
		}
	}
	name := testDir + "/" + offsetName(0) + ".log"
	b := readFile(t, w.mem, name)
	b[300] ^= 1
	writeFile(t, w.mem, name, b)
	var out bytes.Buffer
	if err := Dump(&out, w.mem, testDir, DumpOptions{}); !errors.Is(err, ErrDamaged) {
		t.Fatalf("error is %v, want ErrDamaged", err)
	}
	if want := "DAMAGED at 235: CRC"; !strings.Contains(out.String(), want) {
		t.Errorf("dump lacks %q:\n%s", want, out.String())
	}
	if err := Dump(&out, w.mem, "data/nothing", DumpOptions{}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("missing file: %v", err)
	}
}

func TestOpenFromSummaryTouchesNothingUntilUsed(t *testing.T) {
	w, want := smallLog(t)
	if err := w.l.Close(); err != nil {
		t.Fatal(err)
	}
	sum := w.l.Summary()
	open := func(fs *world) *Log {
		l, err := OpenFromSummary(Options{Env: fs.env, Config: fs.cfg, Dir: testDir}, sum)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	l := open(w)
	l.AssignEpoch(9, l.EndOffset())
	if _, err := l.Checkpoint(); err != nil {
		t.Fatal(err)
	}
	if n := w.env.Files.Open(); n != 0 {
		t.Errorf("%d files are open", n)
	}
	if l.LatestEpoch() != 9 || l.EndOffset() != sum.End {
		t.Errorf("epoch %d, end %d", l.LatestEpoch(), l.EndOffset())
	}
	checkBatches(t, l, want, 1<<20)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	// Closed without being used, it still knows the new epoch.
	l = open(w)
	l.AssignEpoch(9, l.EndOffset())
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if s := l.Summary(); s.Epochs[len(s.Epochs)-1].Epoch != 9 {
		t.Error("the summary has lost an epoch")
	}
	// Somebody has changed the folder: it is recovered.
	name := testDir + "/" + offsetName(17) + ".log"
	b := readFile(t, w.mem, name)
	writeFile(t, w.mem, name, b[:len(b)-1])
	l = open(w)
	l.AssignEpoch(9, l.EndOffset())
	if _, err := l.Producers(); err != nil {
		t.Fatal(err)
	}
	if l.AppendEnd() != 17 || l.LatestEpoch() != 9 {
		t.Errorf("end %d, epoch %d; want 17, 9", l.AppendEnd(), l.LatestEpoch())
	}
}

func TestTopicIDIsHeldTo(t *testing.T) {
	w := newWorld(t, Config{})
	w.l.Abandon()
	open := func(id kafka.TopicID) (*Log, error) {
		return Open(Options{Env: w.env, Config: w.cfg, Dir: "data/other-3", TopicID: id})
	}
	if _, err := open(kafka.TopicID{1}); err != nil {
		t.Fatal(err)
	}
	l, err := open(kafka.TopicID{})
	if err != nil || l.TopicID() != (kafka.TopicID{1}) {
		t.Errorf("topic id is %v, %v", l.TopicID(), err)
	}
	if _, err := open(kafka.TopicID{2}); err == nil || !strings.Contains(err.Error(), "belongs to another topic") {
		t.Errorf("another topic's id: %v", err)
	}
}

func TestRollsByIndexSizeTimeAndOffset(t *testing.T) {
	w := newWorld(t, Config{SegmentIndexBytes: 80, IndexIntervalBytes: 1})
	for range 30 {
		w.append(batchSpec{})
	}
	if n := len(w.l.Segments()); n < 3 {
		t.Errorf("%d segments with indexes of 10 entries, want 3 or more", n)
	}
	w = newWorld(t, Config{SegmentMS: 1000})
	w.append(batchSpec{ts: 9_000_000_000_000})
	w.append(batchSpec{ts: 1})
	w.now += 1001
	w.append(batchSpec{})
	if n := len(w.l.Segments()); n != 2 {
		t.Errorf("%d segments, want one for each second", n)
	}
	w = newWorld(t, Config{})
	b := batchSpec{}.build(t, math.MaxInt32+100)
	if err := w.tryAppend(batchSpec{}.build(t, 0)); err != nil {
		t.Fatal(err)
	}
	if err := w.tryAppend(b); err != nil {
		t.Fatal(err)
	}
	if got := readAll(t, w.l, 1, w.l.EndOffset(), 1<<20); len(got) != 1 {
		t.Errorf("%d batches behind a wide gap", len(got))
	}
	w.l.Abandon()
	w.open(0, 0)
	if got := readAll(t, w.l, 0, w.l.EndOffset(), 1<<20); len(got) != 2 {
		t.Errorf("%d batches after recovery over a wide gap, want 2", len(got))
	}
}
