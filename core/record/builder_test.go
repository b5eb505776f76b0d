package record_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/core/compress"
	"github.com/tidemark/tidemark/core/invariants"
	"github.com/tidemark/tidemark/core/record"
)

// sample is one record as a test means it.
type sample struct {
	ts         int64
	key, value []byte
	headers    []record.Header
}

// samples draws n records of every shape: null and empty fields, headers, times that go backwards.
func samples(r *rand.Rand, n int) []sample {
	field := func(limit int) []byte {
		switch r.IntN(6) {
		case 0:
			return nil
		case 1:
			return []byte{}
		}
		return bytes.Repeat([]byte{byte(r.Uint32())}, r.IntN(limit))
	}
	out := make([]sample, n)
	for i := range out {
		s := sample{ts: 1_000_000 + r.Int64N(1<<r.IntN(40)) - r.Int64N(1000), key: field(200), value: field(20_000)}
		for range r.IntN(4) * r.IntN(2) {
			s.headers = append(s.headers, record.Header{Key: string(field(100)), Value: field(300)})
		}
		out[i] = s
	}
	return out
}

func build(t testing.TB, codec compress.Codec, in []sample) record.Batch {
	t.Helper()
	b := record.NewBuilder(nil, codec, 0)
	b.Reset(in[0].ts, 99, 5, 1000, record.TransactionalBit)
	for _, s := range in {
		want := b.BytesWith(s.ts, s.key, s.value, s.headers...)
		b.Append(s.ts, s.key, s.value, s.headers...)
		if b.Bytes() != want {
			t.Fatalf("BytesWith %d, Bytes %d", want, b.Bytes())
		}
	}
	out, err := b.Finish([]byte("front"))
	if err != nil || !bytes.HasPrefix(out, []byte("front")) {
		t.Fatal(err)
	}
	return out[5:]
}

func TestBuilderAndIteratorAgree(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	eachCodec(t, func(t *testing.T, codec compress.Codec) {
		var it record.Iterator
		for range 20 {
			in := samples(r, 1+r.IntN(300))
			b := build(t, codec, in)
			if err := it.Reset(b, nil, 64<<20); err != nil {
				t.Fatal(err)
			}
			for i, s := range in {
				if !it.Next() {
					t.Fatalf("ended at record %d of %d: %v", i, len(in), it.Err())
				}
				rec := it.Record()
				got := sample{b.BaseTimestamp() + rec.TimestampDelta, rec.Key, rec.Value, slices.Clone(rec.Headers)}
				if len(got.headers) == 0 {
					got.headers = nil
				}
				if rec.OffsetDelta != int32(i) || !reflect.DeepEqual(got, s) {
					t.Fatalf("record %d came back as %+v, was %+v", i, got, s)
				}
			}
			if it.Next() || it.Err() != nil {
				t.Fatalf("a record too many, or %v", it.Err())
			}
		}
	})
}

// TestFranzReadsWhatWeBuild holds the builder to franz-go's own decoders of batch and record.
func TestFranzReadsWhatWeBuild(t *testing.T) {
	in := samples(rand.New(rand.NewPCG(7, 7)), 100)
	b := build(t, compress.None, in)
	var k kmsg.RecordBatch
	if err := k.ReadFrom(b); err != nil {
		t.Fatal(err)
	}
	latest := in[0].ts
	for _, s := range in {
		latest = max(latest, s.ts)
	}
	want := kmsg.RecordBatch{
		Length: int32(len(b) - 12), PartitionLeaderEpoch: -1, Magic: 2, CRC: int32(b.ComputeCRC()), Attributes: 0x10,
		LastOffsetDelta: 99, FirstTimestamp: in[0].ts, MaxTimestamp: latest, ProducerID: 99, ProducerEpoch: 5,
		FirstSequence: 1000, NumRecords: 100, Records: b[record.HeaderBytes:],
	}
	if !reflect.DeepEqual(k, want) {
		k.Records, want.Records = nil, nil
		t.Fatalf("franz-go sees %+v, want %+v", k, want)
	}
	rest := []byte(b[record.HeaderBytes:])
	for i, s := range in {
		var rec kmsg.Record
		size, n := binary.Varint(rest)
		if err := rec.ReadFrom(rest[:n+int(size)]); err != nil {
			t.Fatalf("record %d: %v", i, err)
		}
		rest = rest[n+int(size):]
		if rec.OffsetDelta != int32(i) || in[0].ts+rec.TimestampDelta64 != s.ts || len(rec.Headers) != len(s.headers) ||
			!reflect.DeepEqual(rec.Key, s.key) || !reflect.DeepEqual(rec.Value, s.value) {
			t.Fatalf("record %d: %+v, was %+v", i, rec, s)
		}
		for j, h := range rec.Headers {
			if h.Key != s.headers[j].Key || !reflect.DeepEqual(h.Value, s.headers[j].Value) {
				t.Fatalf("record %d header %d: %+v", i, j, h)
			}
		}
	}
	if len(rest) > 0 {
		t.Fatalf("%d bytes left", len(rest))
	}
	if again := k.AppendTo(nil); !bytes.Equal(again, b) {
		t.Fatal("franz-go writes the batch otherwise")
	}
}

func TestNextSplitsARun(t *testing.T) {
	one, two := three(t, compress.None), three(t, compress.Lz4)
	run := append(slices.Clone([]byte(one)), two...)
	first, rest, err := record.Next(run)
	if err != nil || !bytes.Equal(first, one) {
		t.Fatal(err)
	}
	second, rest, err := record.Next(rest)
	if err != nil || !bytes.Equal(second, two) || len(rest) != 0 {
		t.Fatal(err)
	}
	if _, _, err := record.Next(rest); !errors.Is(err, record.ErrShort) {
		t.Fatalf("at the end: %v", err)
	}
	for n := range one {
		if _, left, err := record.Next(run[:n]); !errors.Is(err, record.ErrShort) || len(left) != n {
			t.Fatalf("cut to %d: %v", n, err)
		}
	}
	if cap(first) != len(first) {
		t.Fatal("an append to the first batch would write into the second")
	}
}

func TestSequencesWrap(t *testing.T) {
	for _, c := range []struct{ seq, n, want int32 }{
		{0, 0, 0}, {5, 3, 8}, {2147483647, 0, 2147483647}, {2147483647, 1, 0}, {2147483646, 5, 3}, {-1, 7, -1},
		{2147483647, 2147483647, 2147483646},
	} {
		if got := record.AddSequence(c.seq, c.n); got != c.want {
			t.Errorf("AddSequence(%d, %d) = %d, want %d", c.seq, c.n, got, c.want)
		}
	}
}

func TestControlBatches(t *testing.T) {
	for _, kind := range []record.ControlKind{record.Abort, record.Commit} {
		b := record.Batch(record.AppendControl([]byte("front"), kind, 7, 2, 11, 1234)[5:])
		c, ok, err := record.ParseControl(b)
		if err != nil || !ok || c != (record.Control{Kind: kind, CoordinatorEpoch: 11}) {
			t.Fatalf("%+v %v %v", c, ok, err)
		}
		if !b.IsControl() || !b.IsTransactional() || b.NumRecords() != 1 || b.LastOffsetDelta() != 0 || b.BaseSequence() != -1 ||
			b.ProducerID() != 7 || b.ProducerEpoch() != 2 || b.MaxTimestamp() != 1234 || b.CRC() != b.ComputeCRC() {
			t.Fatalf("header of kind %d is wrong: %x", kind, []byte(b))
		}
		var key kmsg.ControlRecordKey
		var value kmsg.EndTxnMarker
		it, err := b.Records(nil, 0)
		if err != nil || !it.Next() {
			t.Fatal(err)
		}
		if err := key.ReadFrom(it.Record().Key); err != nil || int16(key.Type) != int16(kind) || key.Version != 0 {
			t.Fatalf("%+v, %v", key, err)
		}
		if err := value.ReadFrom(it.Record().Value); err != nil || value.CoordinatorEpoch != 11 || value.Version != 0 {
			t.Fatalf("%+v, %v", value, err)
		}
		for n := record.HeaderBytes; n < len(b); n++ {
			if _, _, err := record.ParseControl(b[:n]); !errors.Is(err, record.ErrCorrupt) {
				t.Fatalf("cut to %d: %v", n, err)
			}
		}
	}
	if _, ok, err := record.ParseControl(record.AppendControl(nil, 9, 7, 2, 11, 1234)); ok || err != nil {
		t.Fatalf("an unknown kind: %v, %v", ok, err)
	}
	if _, _, err := record.ParseControl(three(t, compress.None)); !errors.Is(err, record.ErrCorrupt) {
		t.Fatalf("records for a marker: %v", err)
	}
}

func TestIteratorStopsAtDamage(t *testing.T) {
	b := three(t, compress.None)
	for n := record.HeaderBytes; n < len(b); n++ {
		it, err := b[:n].Records(nil, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		for it.Next() {
		}
		if !errors.Is(it.Err(), record.ErrCorrupt) {
			t.Fatalf("cut to %d: %v", n, it.Err())
		}
	}
	if _, err := b[:record.HeaderBytes-1].Records(nil, 1); !errors.Is(err, record.ErrShort) {
		t.Fatal(err)
	}
	if _, err := three(t, compress.Zstd).Records(nil, 10); !errors.Is(err, compress.ErrTooLarge) {
		t.Fatal(err)
	}
}

func TestBuildAndIterateAllocateNothing(t *testing.T) {
	if invariants.Enabled {
		t.Skip("sync.Pool drops at random under the race detector")
	}
	eachCodec(t, func(t *testing.T, codec compress.Codec) {
		codecs := compress.New()
		b := record.NewBuilder(codecs, codec, 0)
		key, value := []byte("key"), bytes.Repeat([]byte("value"), 20)
		var dst []byte
		var it record.Iterator
		n := testing.AllocsPerRun(100, func() {
			b.Reset(1, 2, 3, 4, 0)
			for i := range 100 {
				b.Append(int64(i), key, value)
			}
			dst, _ = b.Finish(dst[:0])
			if err := it.Reset(dst, codecs, 1<<20); err != nil {
				t.Fatal(err)
			}
			for it.Next() {
			}
		})
		if n >= 1 {
			t.Fatalf("%v allocations", n)
		}
	})
}

// FuzzIterator walks any bytes behind any header, as whole records and by their times alone, which agree.
func FuzzIterator(f *testing.F) {
	for codec := compress.None; codec <= compress.Zstd; codec++ {
		f.Add([]byte(three(f, codec)))
		f.Add([]byte(batchOf(f, codec, 40, 20)))
	}
	f.Add(record.AppendControl(nil, record.Commit, 7, 2, 11, 1234))
	f.Fuzz(func(t *testing.T, b []byte) {
		for rest := b; len(rest) > 0; {
			batch, left, err := record.Next(rest)
			if err != nil {
				break
			}
			if len(left) >= len(rest) {
				t.Fatal("Next does not move on")
			}
			rest = left
			_, _, _ = record.ParseControl(batch)
			it, err := batch.Records(nil, 1<<20)
			if err != nil {
				continue
			}
			var want []recordTime
			for it.Next() {
				want = append(want, recordTime{it.Record().OffsetDelta, batch.BaseTimestamp() + it.Record().TimestampDelta})
			}
			if it.Err() != nil {
				seen := 0
				_ = batch.EachTime(nil, func(int32, int64) bool { seen++; return seen < 1<<16 })
			} else if got, err := timesOf(batch); err != nil || !slices.Equal(got, want) {
				t.Fatalf("by times alone %v, %v, want %v", got, err, want)
			}
			if int32(len(want)) > batch.NumRecords() || it.Err() == nil && int32(len(want)) != batch.NumRecords() {
				t.Fatalf("%d of %d records, %v", len(want), batch.NumRecords(), it.Err())
			}
		}
	})
}
