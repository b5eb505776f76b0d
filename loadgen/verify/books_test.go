package verify

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/tidemark/tidemark/core/kafka"
	"github.com/tidemark/tidemark/loadgen/driver"
	"github.com/tidemark/tidemark/loadgen/result"
	"github.com/tidemark/tidemark/loadgen/workload"
	"pgregory.net/rapid"
)

const run = 0xfeedbeef12345678

func record(producer int32, seq uint64, offset kafka.Offset) driver.Fetched {
	value := make([]byte, 100)
	for i := range value {
		value[i] = byte(seq) + byte(i)
	}
	key := binary.BigEndian.AppendUint32(nil, uint32(seq%7))
	Seal(value, Envelope{run, producer, seq}, key, Sum(value[EnvelopeBytes:]))
	return driver.Fetched{Offset: offset, Key: key, Value: value}
}

// log is producer 0's records 0..n-1 at offsets 0..n-1 of partition 0, acked ten at a time.
func ackedLog(n int) (*Ledger, []driver.Fetched) {
	l := NewLedger(run, []string{"t"})
	var records []driver.Fetched
	for i := 0; i < n; i += 10 {
		var seqs []uint64
		for s := i; s < min(i+10, n); s++ {
			seqs = append(seqs, uint64(s))
			records = append(records, record(0, uint64(s), kafka.Offset(s)))
		}
		l.Acked(0, 0, 0, kafka.Offset(i), seqs)
	}
	return l, records
}

func finding(v result.Verification, kind string) []int64 {
	var offsets []int64
	for _, f := range v.Findings {
		if f.Kind == kind {
			offsets = append(offsets, f.Offset)
		}
	}
	return offsets
}

func TestACleanRunIsClean(t *testing.T) {
	l, records := ackedLog(1000)
	c := l.NewChecker("g")
	for len(records) > 0 {
		n := min(7, len(records))
		for _, o := range c.Check(nil, records[:n]) {
			if o.Fate != First {
				t.Fatalf("fate %v", o)
			}
		}
		records = records[n:]
	}
	if l.Outstanding() != 0 {
		t.Errorf("%d outstanding", l.Outstanding())
	}
	if v := l.Verification(true, ""); !v.Clean() || v.Acked != 1000 || v.Delivered != 1000 || v.Unacked != 0 || len(v.Findings) != 0 {
		t.Errorf("%+v", v)
	}
}

func TestEachFaultIsFoundAndNamed(t *testing.T) {
	flip := func(r []driver.Fetched, at int, bit int) []driver.Fetched {
		r[at].Value = slices.Clone(r[at].Value)
		r[at].Value[bit/8] ^= 1 << (bit % 8)
		return r
	}
	cut := func(r []driver.Fetched, from, to int) []driver.Fetched {
		return slices.Delete(slices.Clone(r), from, to)
	}
	foreign := record(0, 5, 1000)
	Seal(foreign.Value, Envelope{run + 1, 0, 5}, foreign.Key, Sum(foreign.Value[EnvelopeBytes:]))
	for _, c := range []struct {
		name    string
		harm    func(r []driver.Fetched) []driver.Fetched
		want    result.Verification
		kind    string
		offsets []int64
	}{
		{"one lost", func(r []driver.Fetched) []driver.Fetched { return cut(r, 57, 58) },
			result.Verification{Lost: 1}, Lost, []int64{57}},
		{"a batch lost", func(r []driver.Fetched) []driver.Fetched { return cut(r, 60, 70) },
			result.Verification{Lost: 10}, Lost, []int64{60, 61, 62, 63, 64, 65, 66, 67}},
		{"the last lost", func(r []driver.Fetched) []driver.Fetched { return cut(r, 999, 1000) },
			result.Verification{Lost: 1}, Lost, []int64{999}},
		{"all lost", func([]driver.Fetched) []driver.Fetched { return nil },
			result.Verification{Lost: 1000}, Lost, []int64{0, 1, 2, 3, 4, 5, 6, 7}},
		{"repeated", func(r []driver.Fetched) []driver.Fetched { return append(r, record(0, 5, 1000)) },
			result.Verification{Duplicated: 1}, Duplicated, []int64{1000}},
		{"offset again", func(r []driver.Fetched) []driver.Fetched { return append(r, r[990:]...) },
			result.Verification{Redelivered: 10}, "", nil},
		{"swapped", func(r []driver.Fetched) []driver.Fetched {
			for i := range 10 {
				r[20+i], r[30+i] = record(0, uint64(30+i), kafka.Offset(20+i)), record(0, uint64(20+i), kafka.Offset(30+i))
			}
			return r
		}, result.Verification{OutOfOrder: 10}, OutOfOrder, []int64{30, 31, 32, 33, 34, 35, 36, 37}},
		{"payload bit", func(r []driver.Fetched) []driver.Fetched { return flip(r, 42, 8*99) },
			result.Verification{Corrupt: 1}, Corrupt, []int64{42}},
		{"sequence bit", func(r []driver.Fetched) []driver.Fetched { return flip(r, 42, 8*16+3) },
			result.Verification{Corrupt: 1}, Corrupt, []int64{42}},
		{"producer bit", func(r []driver.Fetched) []driver.Fetched { return flip(r, 42, 8*11+7) },
			result.Verification{Corrupt: 1}, Corrupt, []int64{42}},
		{"run id bit", func(r []driver.Fetched) []driver.Fetched { return flip(r, 42, 5) },
			result.Verification{Corrupt: 1}, Corrupt, []int64{42}},
		{"foreign", func(r []driver.Fetched) []driver.Fetched { return append(r, foreign) },
			result.Verification{Foreign: 1}, Foreign, []int64{1000}},
		{"no envelope", func(r []driver.Fetched) []driver.Fetched { return append(r, driver.Fetched{Offset: 1000}) },
			result.Verification{Foreign: 1}, Foreign, []int64{1000}},
		{"unacked", func(r []driver.Fetched) []driver.Fetched { return append(r, record(0, 1000, 1000)) },
			result.Verification{Unacked: 1}, "", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, records := ackedLog(1000)
			l.NewChecker("g").Check(nil, c.harm(records))
			v := l.Verification(true, "")
			got := result.Verification{Lost: v.Lost, Duplicated: v.Duplicated, OutOfOrder: v.OutOfOrder, Corrupt: v.Corrupt,
				Foreign: v.Foreign, Unacked: v.Unacked, Redelivered: v.Redelivered}
			if got.Lost != c.want.Lost || got.Duplicated != c.want.Duplicated || got.OutOfOrder != c.want.OutOfOrder ||
				got.Corrupt != c.want.Corrupt || got.Foreign != c.want.Foreign || got.Unacked != c.want.Unacked || got.Redelivered != c.want.Redelivered {
				t.Errorf("got %+v", got)
			}
			if offsets := finding(v, c.kind); !slices.Equal(offsets, c.offsets) {
				t.Errorf("%s at %v, want %v", c.kind, offsets, c.offsets)
			}
			for _, f := range v.Findings {
				if f.Group != "g" || f.Topic != "t" || f.Kind != c.kind {
					t.Errorf("finding %+v", f)
				}
			}
		})
	}
}

func TestAnEarlyEndTellsLostFromNotYetRead(t *testing.T) {
	l, records := ackedLog(1000)
	l.NewChecker("g").Check(nil, slices.Delete(records[:500], 57, 58))
	v := l.Verification(false, "drain ended")
	if v.Lost != 1 || v.Undelivered != 500 || v.Complete || !slices.Equal(finding(v, Lost), []int64{57}) {
		t.Errorf("%+v", v)
	}
}

func TestPlacesOfRecordsThatDoNotFollowEachOther(t *testing.T) {
	l := NewLedger(run, []string{"t", "u"})
	c := l.NewChecker("g")
	l.Acked(0, 1, 3, 100, []uint64{1, 5, 3})
	l.Acked(0, 0, 2, 7, []uint64{0, 2})
	l.Acked(1, 0, 0, -1, []uint64{0})
	l.Acked(0, 1, 3, 103, []uint64{4})
	fetched := record(0, 4, 103)
	fetched.Topic, fetched.Partition = 1, 3
	c.Check(nil, []driver.Fetched{fetched})
	v := l.Verification(true, "")
	want := []result.Finding{
		{Topic: "u", Partition: 3, Offset: 100, Sequence: 1}, {Topic: "u", Partition: 3, Offset: 101, Sequence: 5},
		{Topic: "u", Partition: 3, Offset: 102, Sequence: 3}, {Topic: "t", Partition: 2, Offset: 7},
		{Topic: "t", Partition: 2, Offset: 8, Sequence: 2}, {Topic: "t", Offset: -1, Producer: 1},
	}
	if v.Lost != 6 || len(v.Findings) != len(want) {
		t.Fatalf("%+v", v)
	}
	for i, f := range v.Findings {
		f.Kind, f.Group, f.Text = "", "", ""
		if f != want[i] {
			t.Errorf("finding %d is %+v, want %+v", i, f, want[i])
		}
	}
	if v := l.Verification(false, "stopped"); v.Lost != 3 || v.Undelivered != 3 {
		t.Errorf("%+v", v)
	}
}

func TestEachGroupIsHeldToAllRecords(t *testing.T) {
	l, records := ackedLog(1000)
	a, b := l.NewChecker("a"), l.NewChecker("b")
	a.Check(nil, records[:500]) // two consumers of one group share the checker
	a.Check(nil, records[500:])
	b.Check(nil, records[:990])
	v := l.Verification(true, "")
	if v.Lost != 10 || v.Delivered != 1990 || v.Duplicated != 0 || v.Findings[0].Group != "b" {
		t.Errorf("%+v", v)
	}
	if v := NewLedger(run, nil).Verification(true, ""); v.Complete || v.Reason == "" {
		t.Error("a run without consumers cannot be complete")
	}
}

func TestForgottenPlacesStillCount(t *testing.T) {
	l := NewLedger(run, []string{"t"})
	c := l.NewChecker("g")
	seqs := make([]uint64, 1)
	l.pages = 2
	const n = 300000 // about a dozen bytes each: more than two pages hold
	for i := range uint64(n) {
		seqs[0] = i
		l.Acked(0, 0, 0, kafka.Offset(i)<<20, seqs)
		if i != 5 && i != n-5 {
			c.mu.producers = append(c.mu.producers[:0], c.producerOrNew())
			c.mu.producers[0].add(i)
		}
	}
	if !l.mu.forgotten {
		t.Fatal("the journal was not filled")
	}
	v := l.Verification(true, "")
	if v.Lost != 2 || len(v.Findings) != 2 {
		t.Fatalf("%+v", v)
	}
	if offsets := finding(v, Lost); !slices.Equal(offsets, []int64{(n - 5) << 20, -1}) {
		t.Errorf("lost at %v", offsets)
	}
}

func (c *Checker) producerOrNew() *set {
	if s := c.producerLocked(0); s != nil {
		return s
	}
	return &set{}
}

func TestSetsAgreeWithMaps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s, other, runs set
		var at spans
		model, second, third := map[uint64]bool{}, map[uint64]bool{}, map[uint64]bool{}
		ops := rapid.SliceOfN(rapid.Uint64Range(0, 300), 1, 400).Draw(t, "sequences")
		base := rapid.SampledFrom([]uint64{0, chunkBits - 150, 5 * chunkBits}).Draw(t, "base")
		for i, n := range ops {
			seq := base + n
			if got := s.add(seq); got == model[seq] {
				t.Fatalf("add(%d) says new %v", seq, got)
			}
			if got := at.add(int64(seq)); got == model[seq] {
				t.Fatalf("spans.add(%d) says new %v", seq, got)
			}
			model[seq] = true
			if i%10 == 0 {
				runs.addRun(seq, int(n))
				runs.addRun(seq, int(n)) // the second time is no news
				for k := range n {
					third[seq+k] = true
				}
			}
			if i%3 == 0 {
				other.add(seq)
				second[seq] = true
			}
		}
		var missing, want []uint64
		s.missing(&other, func(seq uint64) { missing = append(missing, seq) })
		for seq := range model {
			if !second[seq] {
				want = append(want, seq)
			}
			if !s.has(seq) {
				t.Fatalf("%d is gone", seq)
			}
		}
		for seq := range third {
			if !runs.has(seq) {
				t.Fatalf("addRun forgot %d", seq)
			}
		}
		if runs.count != int64(len(third)) {
			t.Fatalf("runs hold %d, want %d", runs.count, len(third))
		}
		slices.Sort(want)
		if !slices.Equal(missing, want) || s.count != int64(len(model)) || at.count != s.count {
			t.Fatalf("missing %v, want %v", missing, want)
		}
		for i := 1; i < len(at.list); i++ {
			if at.list[i].start <= at.list[i-1].end {
				t.Fatalf("intervals touch: %v", at.list)
			}
		}
	})
}

func TestCompleteStretchesCostNothing(t *testing.T) {
	var s set
	order := rand.New(rand.NewPCG(1, 1)).Perm(3 * chunkBits)
	for _, i := range order {
		s.add(uint64(i))
	}
	for i, c := range s.chunks {
		if !c.full() || c.bits != nil {
			t.Errorf("stretch %d keeps its bitmap", i)
		}
	}
	if s.add(7) || !s.has(7) || s.has(3*chunkBits) {
		t.Error("a complete stretch forgot what it holds")
	}
	if s.add(1<<63) != true || len(s.chunks) != 3 {
		t.Error("an absurd sequence allocated")
	}
}

// TestEverySingleBitIsCaught flips each bit of a record, key and value, in turn.
func TestEverySingleBitIsCaught(t *testing.T) {
	r := record(3, 1234567, 0)
	for bit := range 8 * len(r.Value) {
		r.Value[bit/8] ^= 1 << (bit % 8)
		if _, err := Open(r.Value, r.Key, run); err == nil {
			t.Errorf("bit %d of the value went unseen", bit)
		}
		r.Value[bit/8] ^= 1 << (bit % 8)
	}
	for bit := range 8 * len(r.Key) {
		r.Key[bit/8] ^= 1 << (bit % 8)
		if _, err := Open(r.Value, r.Key, run); err == nil {
			t.Errorf("bit %d of the key went unseen", bit)
		}
		r.Key[bit/8] ^= 1 << (bit % 8)
	}
	if _, err := Open(r.Value[:99], r.Key, run); err == nil {
		t.Error("a cut went unseen")
	}
	if _, err := Open(r.Value, nil, run); err == nil {
		t.Error("a missing key went unseen")
	}
	if e, err := Open(r.Value, r.Key, run); err != nil || e.Producer != 3 || e.Sequence != 1234567 {
		t.Errorf("%v, %v", e, err)
	}
	if !strings.Contains(ErrCorrupt.Error(), "checksum") {
		t.Error("the error does not say what differs")
	}
}

func FuzzOpen(f *testing.F) {
	r := record(3, 99, 0)
	f.Add(r.Value, r.Key)
	f.Add([]byte{}, []byte(nil))
	f.Fuzz(func(t *testing.T, value, key []byte) {
		c := NewLedger(run, nil).NewChecker("")
		e, err := Open(value, key, run)
		if err == nil && (e.Run != run || len(value) < EnvelopeBytes) {
			t.Error("accepted without an envelope of the run")
		}
		c.Check(nil, []driver.Fetched{{Value: value, Key: key}})
	})
}

func BenchmarkEnvelope(b *testing.B) {
	for _, size := range []int{100, 1024} {
		value, key := make([]byte, size), []byte("00000123")
		sum := Sum(value[EnvelopeBytes:])
		b.Run("op=seal/size="+workload.Bytes(size).String(), func(b *testing.B) {
			b.SetBytes(int64(size))
			b.ReportAllocs()
			seq := uint64(0)
			for b.Loop() {
				Seal(value, Envelope{run, 1, seq}, key, sum)
				seq++
			}
		})
		b.Run("op=check/size="+workload.Bytes(size).String(), func(b *testing.B) {
			c := NewLedger(run, []string{"t"}).NewChecker("")
			batch := make([]driver.Fetched, 100)
			for i := range batch {
				batch[i] = driver.Fetched{Key: key, Value: slices.Clone(value)}
			}
			var out []Outcome
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for i := 0; i < b.N; i += len(batch) {
				for j := range batch {
					batch[j].Offset = kafka.Offset(i + j)
					Seal(batch[j].Value, Envelope{run, 1, uint64(i + j)}, key, sum)
				}
				out = c.Check(out[:0], batch)
			}
		})
		b.Run("op=acked/size="+workload.Bytes(size).String(), func(b *testing.B) {
			l := NewLedger(run, []string{"t"})
			seqs := make([]uint64, 12)
			b.ReportAllocs()
			for i := 0; i < b.N; i += len(seqs) {
				for j := range seqs {
					seqs[j] = uint64(i + j)
				}
				l.Acked(0, 0, 0, kafka.Offset(i), seqs)
			}
		})
	}
}

// TestTheBooksAllocateNothing in their steady state: neither for what is acked nor for what is delivered, whether sequences
// follow each other or come in runs.
func TestTheBooksAllocateNothing(t *testing.T) {
	l := NewLedger(run, []string{"t"})
	c := l.NewChecker("")
	var records []driver.Fetched
	for i := range 200 {
		records = append(records, record(0, uint64(i), kafka.Offset(i)))
	}
	var outcomes []Outcome
	sequences := make([]uint64, 200)
	next := uint64(0)
	once := func() {
		for i := range sequences {
			sequences[i] = next + uint64(i) + uint64(i/100)*1000 // two runs
		}
		next += 100
		l.Acked(0, 0, 0, kafka.Offset(next), sequences)
		outcomes = c.Check(outcomes[:0], records)
	}
	for range 30 { // two stretches' bitmaps, a page of the journal, the redelivered records' first sight
		once()
	}
	if n := testing.AllocsPerRun(100, once); n != 0 {
		t.Errorf("%v allocations a batch", n)
	}
}
