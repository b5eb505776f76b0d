package record_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/tidemark/tidemark/core/compress"
	"github.com/tidemark/tidemark/core/invariants"
	"github.com/tidemark/tidemark/core/kafka"
	"github.com/tidemark/tidemark/core/record"
)

const now = 1_700_000_000_000

// policy is a topic's with Kafka's defaults: any past, one hour of future.
func policy() record.Policy {
	return record.Policy{NowMS: now, BeforeMaxMS: math.MaxInt64, AfterMaxMS: 3_600_000, AllowZstd: true, MaxBatchBytes: 1 << 20}
}

// three is a batch of three records, the second the latest.
func three(t testing.TB, codec compress.Codec) record.Batch {
	t.Helper()
	b := record.NewBuilder(nil, codec, 0)
	b.Reset(now, 42, 3, 2147483646, 0)
	b.Append(now-5, []byte("a"), []byte("first"))
	b.Append(now+7, nil, nil, record.Header{Key: "h", Value: []byte("v")}, record.Header{Key: "", Value: nil})
	b.Append(now+7, []byte{}, bytes.Repeat([]byte("x"), 300))
	out, err := b.Finish(nil)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// eachCodec runs f for every codec.
func eachCodec(t *testing.T, f func(t *testing.T, codec compress.Codec)) {
	for codec := compress.None; codec <= compress.Zstd; codec++ {
		t.Run(codec.String(), func(t *testing.T) { f(t, codec) })
	}
}

// code is the error's Kafka code, UnknownServerError when it has none.
func code(err error) kafka.ErrorCode {
	var c kafka.ErrorCode
	switch {
	case err == nil:
		return kafka.None
	case errors.As(err, &c):
		return c
	}
	return kafka.UnknownServerError
}

func TestValidateTellsWhatTheBatchHolds(t *testing.T) {
	eachCodec(t, func(t *testing.T, codec compress.Codec) {
		b := three(t, codec)
		before := slices.Clone(b)
		v, err := record.Validate(b, policy())
		want := record.Validated{
			Records: 3, MaxTimestamp: now + 7, MaxTimestampAt: 1, ProducerID: 42, ProducerEpoch: 3,
			BaseSequence: 2147483646, LastSequence: 0, Codec: codec,
		}
		if err != nil || v != want {
			t.Fatalf("%+v, %v", v, err)
		}
		if !bytes.Equal(b, before) {
			t.Fatal("a batch that was right was changed")
		}
	})
}

// TestValidateRefuses breaks one thing at a time, behind a right CRC.
func TestValidateRefuses(t *testing.T) {
	put16 := binary.BigEndian.PutUint16
	put32 := binary.BigEndian.PutUint32
	put64 := binary.BigEndian.PutUint64
	for _, c := range []struct {
		name string
		want kafka.ErrorCode
		edit func(b record.Batch, p *record.Policy) record.Batch
	}{
		{"empty", kafka.InvalidRecord, func(record.Batch, *record.Policy) record.Batch { return nil }},
		{"magic 1", kafka.InvalidRecord, func(b record.Batch, _ *record.Policy) record.Batch { b[16] = 1; return b }},
		{"magic 0", kafka.InvalidRecord, func(b record.Batch, _ *record.Policy) record.Batch { b[16] = 0; return b }},
		{"two batches", kafka.InvalidRecord, func(b record.Batch, _ *record.Policy) record.Batch { return append(b, b...) }},
		{"a byte more", kafka.InvalidRecord, func(b record.Batch, _ *record.Policy) record.Batch { return append(b, 0) }},
		{"negative length", kafka.InvalidRecord, func(b record.Batch, _ *record.Policy) record.Batch { put32(b[8:], 1<<31); return b }},
		{"length of a header less one", kafka.InvalidRecord, func(b record.Batch, _ *record.Policy) record.Batch { put32(b[8:], 48); return b }},
		{"base offset", kafka.InvalidRecord, func(b record.Batch, _ *record.Policy) record.Batch { b.SetBaseOffset(1); return b }},
		{"control bit", kafka.InvalidRecord, func(b record.Batch, _ *record.Policy) record.Batch { b[22] |= 0x20; return b }},
		{"codec 5", kafka.InvalidRecord, func(b record.Batch, _ *record.Policy) record.Batch { b[22] |= 5; return b }},
		{"count too large", kafka.InvalidRecord, func(b record.Batch, _ *record.Policy) record.Batch { put32(b[57:], 4); return b }},
		{"count and delta too large", kafka.InvalidRecord, func(b record.Batch, _ *record.Policy) record.Batch {
			put32(b[57:], 4)
			put32(b[23:], 3)
			return b
		}},
		{"count and delta too small", kafka.InvalidRecord, func(b record.Batch, _ *record.Policy) record.Batch {
			put32(b[57:], 2)
			put32(b[23:], 1)
			return b
		}},
		{"no records", kafka.InvalidRecord, func(b record.Batch, _ *record.Policy) record.Batch {
			put32(b[57:], 0)
			put32(b[23:], 0xffffffff)
			return b
		}},
		{"negative count", kafka.InvalidRecord, func(b record.Batch, _ *record.Policy) record.Batch {
			put32(b[57:], 1<<31)
			put32(b[23:], 1<<31-1)
			return b
		}},
		{"transaction without producer", kafka.InvalidRecord, func(b record.Batch, _ *record.Policy) record.Batch {
			put16(b[21:], uint16(b.Attributes()|record.TransactionalBit))
			put64(b[43:], math.MaxUint64)
			return b
		}},
		{"no sequence", kafka.InvalidRecord, func(b record.Batch, _ *record.Policy) record.Batch { put32(b[53:], 1<<32-1); return b }},
		{"too large", kafka.MessageTooLarge, func(b record.Batch, p *record.Policy) record.Batch {
			p.MaxBatchBytes = len(b) - 1
			return b
		}},
		{"too far in the future", kafka.InvalidTimestamp, func(b record.Batch, p *record.Policy) record.Batch { p.AfterMaxMS = 6; return b }},
		{"too far in the past", kafka.InvalidTimestamp, func(b record.Batch, p *record.Policy) record.Batch { p.BeforeMaxMS = 4; return b }},
		{"keys wanted", kafka.InvalidRecord, func(b record.Batch, p *record.Policy) record.Batch { p.RequireKeys = true; return b }},
		{"time type", kafka.InvalidTimestamp, func(b record.Batch, p *record.Policy) record.Batch {
			put16(b[21:], uint16(b.Attributes()|record.LogAppendTimeBit))
			p.TimestampType = record.LogAppendTime
			return b
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for codec := compress.None; codec <= compress.Zstd; codec++ {
				p := policy()
				b := c.edit(three(t, codec), &p)
				if len(b) > record.HeaderBytes {
					b.SealCRC()
				}
				before := slices.Clone(b)
				_, err := record.Validate(b, p)
				if got := code(err); got != c.want {
					t.Errorf("%s: %v (%v), want %v", codec, got, err, c.want)
				}
				if !bytes.Equal(b, before) {
					t.Errorf("%s: a refused batch was changed", codec)
				}
			}
		})
	}
}

func TestValidateLimitsAreInclusive(t *testing.T) {
	p := policy()
	p.BeforeMaxMS, p.AfterMaxMS = 5, 7
	b := three(t, compress.None)
	p.MaxBatchBytes = len(b)
	if _, err := record.Validate(b, p); err != nil {
		t.Fatal(err)
	}
}

func TestValidateZstdNeedsAVersion(t *testing.T) {
	p := policy()
	p.AllowZstd = false
	if _, err := record.Validate(three(t, compress.Zstd), p); code(err) != kafka.UnsupportedCompressionType {
		t.Fatal(err)
	}
	if _, err := record.Validate(three(t, compress.Lz4), p); err != nil {
		t.Fatal(err)
	}
}

func TestEveryFlippedBitIsRefused(t *testing.T) {
	b := three(t, compress.None)
	for bit := range len(b) * 8 {
		b[bit/8] ^= 1 << (bit % 8)
		_, err := record.Validate(slices.Clone(b), policy())
		want := code(err) != kafka.None
		if at := bit / 8; at >= 12 && at < 16 { // the leader epoch, which a producer may set to anything
			want = err == nil
		}
		if at := bit / 8; at >= 17 && code(err) != kafka.CorruptMessage {
			want = false
		}
		if !want {
			t.Fatalf("bit %d of byte %d: %v", bit%8, bit/8, err)
		}
		b[bit/8] ^= 1 << (bit % 8)
	}
}

func TestEveryTruncationIsRefused(t *testing.T) {
	eachCodec(t, func(t *testing.T, codec compress.Codec) {
		b := three(t, codec)
		for n := range b {
			if _, err := record.Validate(slices.Clone(b[:n]), policy()); code(err) != kafka.InvalidRecord {
				t.Fatalf("cut to %d bytes: %v", n, err)
			}
			if n < record.HeaderBytes {
				continue
			}
			cut := slices.Clone(b[:n]) // and with a header that agrees
			binary.BigEndian.PutUint32(cut[8:], uint32(n-12))
			cut.SealCRC()
			if _, err := record.Validate(cut, policy()); code(err) != kafka.InvalidRecord {
				t.Fatalf("cut to %d bytes, header too: %v", n, err)
			}
		}
	})
}

func TestMaxTimestampIsComputed(t *testing.T) {
	eachCodec(t, func(t *testing.T, codec compress.Codec) {
		for _, sent := range []int64{record.NoTimestamp, 0, now - 5, now + 8, math.MaxInt64} {
			b := three(t, codec)
			b.SetMaxTimestamp(record.CreateTime, sent)
			v, err := record.Validate(b, policy())
			if err != nil || v.MaxTimestamp != now+7 || b.MaxTimestamp() != now+7 || b.CRC() != b.ComputeCRC() {
				t.Fatalf("sent %d: %+v, header %d, %v", sent, v, b.MaxTimestamp(), err)
			}
		}
	})
}

func TestRecordsWithoutTimes(t *testing.T) {
	b := record.NewBuilder(nil, compress.None, 0)
	b.Reset(record.NoTimestamp, -1, -1, record.NoSequence, 0)
	b.Append(record.NoTimestamp, nil, []byte("v"))
	batch, _ := b.Finish(nil)
	p := policy()
	p.BeforeMaxMS = 0
	v, err := record.Validate(batch, p)
	if err != nil || v.MaxTimestamp != record.NoTimestamp || v.MaxTimestampAt != 0 || v.LastSequence != record.NoSequence {
		t.Fatalf("%+v, %v", v, err)
	}
}

func TestLogAppendTime(t *testing.T) {
	eachCodec(t, func(t *testing.T, codec compress.Codec) {
		p := policy()
		p.TimestampType, p.AfterMaxMS, p.BeforeMaxMS = record.LogAppendTime, 0, 0
		b := three(t, codec)
		records := slices.Clone(b[record.HeaderBytes:])
		v, err := record.Validate(b, p)
		if err != nil || v.MaxTimestamp != now || v.MaxTimestampAt != 0 {
			t.Fatalf("%+v, %v", v, err)
		}
		if b.TimestampType() != record.LogAppendTime || b.MaxTimestamp() != now || b.CRC() != b.ComputeCRC() {
			t.Fatalf("header: %v %d", b.TimestampType(), b.MaxTimestamp())
		}
		if b.Codec() != codec || !bytes.Equal(records, b[record.HeaderBytes:]) {
			t.Fatal("more than the header's times changed")
		}
		// A topic of CreateTime clears the bit that a client set.
		if _, err := record.Validate(b, policy()); err != nil || b.TimestampType() != record.CreateTime || b.CRC() != b.ComputeCRC() {
			t.Fatalf("%v: %v", b.TimestampType(), err)
		}
	})
}

// rawBatch puts hand-made records behind a right header.
func rawBatch(t testing.TB, codec compress.Codec, n int32, records []byte) record.Batch {
	t.Helper()
	b := record.NewBuilder(nil, compress.None, 0)
	b.Reset(now, -1, -1, -1, 0)
	head, _ := b.Finish(nil)
	packed, err := compress.New().Append(head, codec, 0, records)
	if err != nil {
		t.Fatal(err)
	}
	out := record.Batch(packed)
	binary.BigEndian.PutUint32(out[8:], uint32(len(out)-12))
	binary.BigEndian.PutUint16(out[21:], uint16(codec))
	binary.BigEndian.PutUint32(out[23:], uint32(n-1))
	binary.BigEndian.PutUint32(out[57:], uint32(n))
	out.SetMaxTimestamp(record.CreateTime, now)
	return out
}

// TestMalformedRecords: lengths are zigzag, so 0x0c is 6, 0x01 is -1, 0x03 is -2.
func TestMalformedRecords(t *testing.T) {
	long := []byte{0x80, 0x80, 0x80, 0x80, 0x80, 0x00} // a zero in six bytes
	for _, c := range []struct {
		name, text string
		records    []byte
		n          int32
	}{
		{"length 0", "length", []byte{0}, 1},
		{"negative length", "length", []byte{1}, 1},
		{"length beyond the end", "length", []byte{14, 0, 0, 0, 1, 1, 0}, 1},
		{"length too short", "", []byte{10, 0, 0, 0, 1, 1, 0}, 1},
		{"length too long", "length", []byte{14, 0, 0, 0, 1, 1, 0, 0}, 1},
		{"length varint too long", "length", append(long, 0, 0, 0, 1, 1, 0), 1},
		{"key of -2", "key", []byte{12, 0, 0, 0, 3, 1, 0}, 1},
		{"key beyond the record", "key", []byte{12, 0, 0, 0, 20, 1, 0}, 1},
		{"value of -2", "value", []byte{12, 0, 0, 0, 1, 3, 0}, 1},
		{"value beyond the record", "value", []byte{12, 0, 0, 0, 1, 20, 0}, 1},
		{"negative headers", "headers", []byte{12, 0, 0, 0, 1, 1, 1}, 1},
		{"headers that are not there", "headers", []byte{12, 0, 0, 0, 1, 1, 2}, 1},
		{"2^31-1 headers", "headers", []byte{20, 0, 0, 0, 1, 1, 0xfe, 0xff, 0xff, 0xff, 0x0f}, 1},
		{"header key null", "headers", []byte{16, 0, 0, 0, 1, 1, 2, 1, 1}, 1},
		{"header value of -2", "headers", []byte{16, 0, 0, 0, 1, 1, 2, 0, 3}, 1},
		{"delta 1 first", "delta", []byte{12, 0, 0, 2, 1, 1, 0}, 1},
		{"delta 0 twice", "delta", []byte{12, 0, 0, 0, 1, 1, 0, 12, 0, 0, 0, 1, 1, 0}, 2},
		{"negative delta", "delta", []byte{12, 0, 0, 1, 1, 1, 0}, 1},
		{"one record for two", "", []byte{12, 0, 0, 0, 1, 1, 0}, 2},
		{"two records for one", "left over", []byte{12, 0, 0, 0, 1, 1, 0, 12, 0, 0, 2, 1, 1, 0}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			for codec := compress.None; codec <= compress.Zstd; codec++ {
				_, err := record.Validate(rawBatch(t, codec, c.n, c.records), policy())
				if code(err) != kafka.InvalidRecord || !strings.Contains(err.Error(), c.text) {
					t.Errorf("%s: %v", codec, err)
				}
			}
		})
	}
	good := []byte{12, 0, 0, 0, 1, 1, 0, 16, 0, 0, 2, 1, 1, 2, 0, 1}
	eachCodec(t, func(t *testing.T, codec compress.Codec) {
		if _, err := record.Validate(rawBatch(t, codec, 2, good), policy()); err != nil {
			t.Fatal(err)
		}
	})
}

func TestDamagedCompressionIsRefused(t *testing.T) {
	for codec := compress.Gzip; codec <= compress.Zstd; codec++ {
		b := three(t, codec)
		copy(b[record.HeaderBytes:], "not compressed at all")
		b.SealCRC()
		if _, err := record.Validate(b, policy()); code(err) != kafka.InvalidRecord || !errors.Is(err, compress.ErrCorrupt) {
			t.Errorf("%s: %v", codec, err)
		}
	}
}

func TestDecompressionIsBounded(t *testing.T) {
	for codec := compress.Gzip; codec <= compress.Zstd; codec++ {
		b := record.NewBuilder(nil, codec, 0)
		b.Reset(now, -1, -1, -1, 0)
		b.Append(now, nil, make([]byte, 8<<20))
		bomb, err := b.Finish(nil)
		if err != nil {
			t.Fatal(err)
		}
		p := policy()
		p.MaxDecompressedBytes = 4 << 20
		if _, err := record.Validate(bomb, p); code(err) != kafka.InvalidRecord || !errors.Is(err, compress.ErrTooLarge) {
			t.Errorf("%s: %v", codec, err)
		}
		p.MaxDecompressedBytes = 9 << 20
		if _, err := record.Validate(bomb, p); err != nil {
			t.Errorf("%s: %v", codec, err)
		}
	}
}

// TestARecordIsBoundedOnceDecompressed: max.decompressed.message.bytes counts one record, behind its length, and only what comes out
// of a codec; a batch of many such records is taken, and one that nobody compressed has max.message.bytes alone.
func TestARecordIsBoundedOnceDecompressed(t *testing.T) {
	eachCodec(t, func(t *testing.T, codec compress.Codec) {
		b := record.NewBuilder(nil, codec, 0)
		b.Reset(now, -1, -1, -1, 0)
		for range 50 {
			b.Append(now, nil, make([]byte, 1000))
		}
		out, err := b.Finish(nil)
		if err != nil {
			t.Fatal(err)
		}
		const size = 1 + 1 + 1 + 1 + 2 + 1000 + 1 // attributes, two deltas, no key, the value and its length, no headers
		for _, c := range []struct {
			most    int
			refused bool
		}{{0, false}, {1, true}, {size - 1, true}, {size, false}, {math.MaxInt32 - 8, false}} {
			p := policy()
			p.MaxRecordBytes = c.most
			_, err := record.Validate(out, p)
			if c.refused = c.refused && codec != compress.None; (err != nil) != c.refused {
				t.Errorf("50 records of %d bytes, at most %d each: %v", size, c.most, err)
			}
			if err != nil && (code(err) != kafka.InvalidRecord || !strings.Contains(err.Error(), "record 0 has 1007 bytes")) {
				t.Errorf("at most %d bytes: %v", c.most, err)
			}
		}
	})
}

func TestValidateAllocatesNothing(t *testing.T) {
	if invariants.Enabled {
		t.Skip("sync.Pool drops at random under the race detector")
	}
	eachCodec(t, func(t *testing.T, codec compress.Codec) {
		p := anyTime()
		p.Codecs = compress.New()
		b := batchOf(t, codec, 200, 100)
		if n := testing.AllocsPerRun(100, func() { _, _ = record.Validate(b, p) }); n >= 1 {
			t.Fatalf("%v allocations", n)
		}
	})
}

// FuzzValidate: whatever passes is whole, walks as many records as it says, and passes again unchanged. The fuzzer's
// bytes get a right length and CRC, or it would never get in.
func FuzzValidate(f *testing.F) {
	codecs := compress.New()
	for codec := compress.None; codec <= compress.Zstd; codec++ {
		f.Add([]byte(three(f, codec)), true)
		f.Add([]byte(batchOf(f, codec, 40, 20)), false)
	}
	f.Fuzz(func(t *testing.T, b []byte, logAppend bool) {
		if len(b) >= record.HeaderBytes {
			binary.BigEndian.PutUint32(b[8:], uint32(len(b)-12))
			record.Batch(b).SealCRC()
		}
		p := anyTime()
		p.Codecs, p.MaxDecompressedBytes, p.NowMS = codecs, 1<<20, now
		if logAppend {
			p.TimestampType = record.LogAppendTime
		}
		v, err := record.Validate(b, p)
		if err != nil {
			if code(err) == kafka.UnknownServerError {
				t.Fatalf("an error without a code: %v", err)
			}
			return
		}
		batch, rest, err := record.Next(b)
		if err != nil || len(rest) > 0 || batch.CRC() != batch.ComputeCRC() {
			t.Fatalf("%v, %d left", err, len(rest))
		}
		it, err := batch.Records(codecs, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		n, latest := int32(0), record.NoTimestamp
		for ; it.Next(); n++ {
			if it.Record().OffsetDelta != n {
				t.Fatalf("record %d has delta %d", n, it.Record().OffsetDelta)
			}
			latest = max(latest, batch.BaseTimestamp()+it.Record().TimestampDelta)
		}
		if it.Err() != nil || n != v.Records || !logAppend && latest != v.MaxTimestamp || batch.MaxTimestamp() != v.MaxTimestamp {
			t.Fatalf("%d of %+v, latest %d: %v", n, v, latest, it.Err())
		}
		if logAppend {
			return // a second time the bit would be the client's
		}
		before := slices.Clone(b)
		if again, err := record.Validate(b, p); err != nil || again != v || !bytes.Equal(before, b) {
			t.Fatalf("%+v, then %+v, %v", v, again, err)
		}
	})
}

func TestErrorsTellWhatToDo(t *testing.T) {
	p := policy()
	p.RequireKeys = true
	_, err := record.Validate(three(t, compress.None), p)
	if got := fmt.Sprint(err); got != "INVALID_RECORD: record 1 has no key: a compacted topic needs one in every record" {
		t.Fatal(got)
	}
}
