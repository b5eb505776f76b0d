package commitlog

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"math"
	"slices"
	"testing"

	"github.com/tidemark/tidemark/core/kafka"
)

func TestSequences(t *testing.T) {
	type step struct {
		s    batchSpec
		code kafka.ErrorCode
		dup  kafka.Offset // of the first append; -1: none
	}
	b := func(epoch kafka.ProducerEpoch, seq int32, n int) batchSpec {
		return batchSpec{id: 1, epoch: epoch, seq: seq, records: n}
	}
	for name, steps := range map[string][]step{
		"in order":                   {{b(0, 0, 3), 0, -1}, {b(0, 3, 1), 0, -1}, {b(0, 4, 2), 0, -1}},
		"a gap":                      {{b(0, 0, 1), 0, -1}, {b(0, 2, 1), kafka.OutOfOrderSequenceNumber, -1}},
		"again":                      {{b(0, 0, 3), 0, -1}, {b(0, 3, 2), 0, -1}, {b(0, 0, 3), 0, 0}, {b(0, 3, 2), 0, 3}},
		"again with another length":  {{b(0, 0, 3), 0, -1}, {b(0, 0, 2), kafka.OutOfOrderSequenceNumber, -1}},
		"the sixth last":             {{b(0, 0, 1), 0, -1}, {b(0, 1, 1), 0, -1}, {b(0, 2, 1), 0, -1}, {b(0, 3, 1), 0, -1}, {b(0, 4, 1), 0, -1}, {b(0, 0, 1), 0, 0}, {b(0, 5, 1), 0, -1}, {b(0, 0, 1), kafka.OutOfOrderSequenceNumber, -1}, {b(0, 1, 1), 0, 1}},
		"unknown at any sequence":    {{b(3, 77, 1), 0, -1}, {b(3, 78, 1), 0, -1}},
		"a new epoch begins at 0":    {{b(0, 0, 1), 0, -1}, {b(1, 0, 1), 0, -1}, {b(1, 1, 1), 0, -1}},
		"a new epoch not at 0":       {{b(0, 0, 1), 0, -1}, {b(1, 1, 1), kafka.OutOfOrderSequenceNumber, -1}},
		"an old epoch":               {{b(5, 0, 1), 0, -1}, {b(4, 0, 1), kafka.InvalidProducerEpoch, -1}},
		"the sequence wraps":         {{b(0, math.MaxInt32, 1), 0, -1}, {b(0, 0, 1), 0, -1}},
		"the sequence wraps inside":  {{b(0, math.MaxInt32-1, 3), 0, -1}, {b(0, 1, 1), 0, -1}, {b(0, math.MaxInt32-1, 3), 0, 0}},
		"a transaction is open":      {{batchSpec{id: 1, txn: true}, 0, -1}, {b(0, 1, 1), kafka.InvalidTxnState, -1}},
		"no sequence, as for groups": {{batchSpec{id: 1, txn: true, seq: -1}, 0, -1}, {batchSpec{id: 1, txn: true, seq: -1}, 0, -1}},
	} {
		w := newWorld(t, Config{})
		for i, st := range steps {
			p, err := w.l.Producers()
			if err != nil {
				t.Fatal(err)
			}
			batch := st.s.build(t, w.l.AppendEnd())
			dup, isDup, code := p.Check(batch)
			if code != st.code || isDup != (st.dup >= 0) || isDup && dup.Base != st.dup {
				t.Errorf("%s, step %d: dup %v %+v, error %d; want dup of %d, error %d", name, i, isDup, dup, code, st.dup, st.code)
			}
			if code == kafka.None && !isDup {
				if err := w.tryAppend(batch); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

// Two batches of one producer are combined into one append: the second is checked against the first, which is only
// staged; Unstage forgets both.
func TestStagedBatchesCount(t *testing.T) {
	w := newWorld(t, Config{})
	p, _ := w.l.Producers()
	first, second := batchSpec{id: 4}.build(t, 0), batchSpec{id: 4, seq: 1}.build(t, 1)
	if err := p.Stage(first); err != nil {
		t.Fatal(err)
	}
	if _, dup, code := p.Check(second); dup || code != kafka.None {
		t.Fatalf("second batch: dup %v, %v", dup, code)
	}
	if err := p.Stage(second); err != nil {
		t.Fatal(err)
	}
	if _, dup, _ := p.Check(second); !dup {
		t.Error("a staged batch that comes again is no duplicate")
	}
	p.Unstage()
	if list := p.Active(); len(list) != 0 {
		t.Errorf("producers after Unstage: %+v", list)
	}
}

func TestIdleProducersExpireAndComeBack(t *testing.T) {
	w := newWorld(t, Config{})
	w.append(batchSpec{id: 1, ts: 1}) // its record is old, it is not
	w.append(batchSpec{id: 2, ts: 1, txn: true})
	p, _ := w.l.Producers()
	if n := p.Expire(w.now+999, 1000); n != 0 {
		t.Errorf("%d producers expired too early", n)
	}
	if n := p.Expire(w.now+1000, 1000); n != 1 {
		t.Errorf("%d producers expired, want the one without a transaction", n)
	}
	if _, dup, code := p.Check(batchSpec{id: 1, seq: 1}.build(t, 2)); dup || code != kafka.None {
		t.Errorf("a producer that comes back gets dup %v, %v", dup, code)
	}
}

// Retention takes the records of a live producer; its sequence still counts, across a restart too.
func TestRetentionKeepsProducers(t *testing.T) {
	w := newWorld(t, Config{SegmentBytes: 200, RetentionMS: 1000, RetentionBytes: -1, DeleteOnRetention: true})
	w.append(batchSpec{id: 1, ts: w.now, valueLen: 100})
	for range 3 {
		w.append(batchSpec{ts: w.now, valueLen: 100})
	}
	if err := w.l.Roll(); err != nil {
		t.Fatal(err)
	}
	w.now += 2000
	if n, _, err := w.l.Retain(w.now, w.l.EndOffset()); err != nil || n == 0 {
		t.Fatalf("%d segments deleted, %v", n, err)
	}
	for range 2 {
		p, _ := w.l.Producers()
		if _, dup, _ := p.Check(batchSpec{id: 1}.build(t, 9)); !dup {
			t.Fatal("the producer is forgotten")
		}
		w.reopen()
	}
}

func TestTransactionsMoveTheFirstUnstableOffset(t *testing.T) {
	w := newWorld(t, Config{IndexIntervalBytes: 50})
	p, _ := w.l.Producers()
	at := func(want kafka.Offset) {
		t.Helper()
		if got := p.FirstUnstable(); got != want {
			t.Fatalf("first unstable offset is %d, want %d", got, want)
		}
	}
	at(-1)
	w.append(batchSpec{})                             // 0
	w.append(batchSpec{id: 1, txn: true, records: 2}) // 1, 2
	w.append(batchSpec{id: 2, txn: true})             // 3
	at(1)
	w.append(batchSpec{id: 1, seq: 2, txn: true}) // 4
	w.append(batchSpec{id: 1, control: true})     // 5: abort
	at(1)
	p.AdvanceHighWatermark(5) // the marker is not below it
	at(1)
	p.AdvanceHighWatermark(6)
	at(3)
	w.append(batchSpec{id: 2, control: true, commit: true}) // 6
	w.append(batchSpec{id: 3, control: true})               // 7: nothing to end
	p.AdvanceHighWatermark(8)
	at(-1)
	want := []AbortedTxn{{ProducerID: 1, First: 1, Last: 5, LastStableOffset: 3}}
	for range 2 {
		for _, c := range []struct {
			from, limit kafka.Offset
			n           int
		}{{0, 8, 1}, {0, 1, 0}, {0, 2, 1}, {5, 8, 1}, {6, 8, 0}} {
			got, err := w.l.AbortedTxns(c.from, c.limit)
			if err != nil || !slices.Equal(got, want[:c.n]) {
				t.Errorf("aborted in [%d,%d): %v (%v), want %v", c.from, c.limit, got, err, want[:c.n])
			}
		}
		w.reopen()
	}
}

func TestMarkersAreFenced(t *testing.T) {
	w := newWorld(t, Config{})
	w.append(batchSpec{id: 1, epoch: 3, txn: true})
	p, _ := w.l.Producers()
	for _, c := range []struct {
		name    string
		epoch   kafka.ProducerEpoch
		version int16
		want    kafka.ErrorCode
	}{
		{"the same epoch", 3, 1, kafka.None},
		{"an old epoch", 2, 1, kafka.InvalidProducerEpoch},
		{"the same epoch at transaction.version 2", 3, 2, kafka.InvalidProducerEpoch},
		{"the next epoch at transaction.version 2", 4, 2, kafka.None},
	} {
		if got := p.CheckMarker(1, c.epoch, 0, c.version); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
	w.append(batchSpec{id: 1, epoch: 4, control: true})
	if got := p.CheckMarker(1, 4, 0, 2); got != kafka.None {
		t.Errorf("a marker that comes again: %v", got)
	}
	if got := p.CheckMarker(1, 4, -1, 2); got != kafka.TransactionCoordinatorFenced {
		t.Errorf("a marker of an older coordinator: %v", got)
	}
}

// A roll happens inside the append whose batches are staged already: its snapshot must not hold them.
func TestSnapshotOfARollHoldsNothingBehindIt(t *testing.T) {
	w := newWorld(t, Config{SegmentBytes: 300})
	w.append(batchSpec{id: 1, valueLen: 150})
	w.append(batchSpec{id: 1, seq: 1, valueLen: 150, txn: true}) // rolls at 1
	got, err := parseSnapshot(readFile(t, w.mem, testDir+"/"+offsetName(1)+".snapshot"))
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 1 || got[0].LastSequence != 0 || got[0].TxnFirstOffset != -1 {
		t.Errorf("snapshot at 1 holds %+v", got)
	}
}

// sealSnapshot gives the bytes of a snapshot's file a right CRC.
func sealSnapshot(b []byte) []byte {
	if len(b) >= snapshotHeader {
		b = bytes.Clone(b)
		binary.BigEndian.PutUint32(b[2:], crc32.Checksum(b[snapshotCRCStart:], crc32.MakeTable(crc32.Castagnoli)))
	}
	return b
}

// FuzzSnapshot gives any bytes a right CRC, or none but the old would ever get in.
func FuzzSnapshot(f *testing.F) {
	f.Add(appendSnapshot(nil, nil))
	f.Add(appendSnapshot(nil, []ProducerState{{ID: 1, Epoch: 2, LastSequence: 3, LastOffset: 4, TxnFirstOffset: -1}, {ID: 9}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		list, err := parseSnapshot(sealSnapshot(b))
		if err != nil {
			return
		}
		again, err := parseSnapshot(appendSnapshot(nil, list))
		if err != nil || !slices.Equal(again, list) {
			t.Fatalf("%+v became %+v, %v", list, again, err)
		}
		newProducers(func() int64 { return 0 }).load(list)
	})
}
