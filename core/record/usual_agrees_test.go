package record

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/tidemark/tidemark/core/compress"
)

// bySteps is what Validate must find in an uncompressed batch: CRC, header and then each record by any.
func bySteps(b Batch, p *Policy) (walk, error) {
	w := newWalk(b, p)
	if err := checkHeader(b, b.ComputeCRC(), p); err != nil {
		return w, err
	}
	i, err := HeaderBytes, error(nil)
	for k := range b.NumRecords() {
		if i, err = w.any(b, i, k); err != nil {
			return w, err
		}
	}
	if i != len(b) {
		return w, errTrailing(len(b) - i)
	}
	return w, nil
}

// agree fails the test if Validate says anything else about b than bySteps.
func agree(t *testing.T, b Batch, p Policy) error {
	t.Helper()
	before := slices.Clone(b)
	want, wantErr := bySteps(b, &p)
	got, err := Validate(b, p)
	if fmt.Sprint(err) != fmt.Sprint(wantErr) {
		t.Fatalf("%v, step by step %v\n%x", err, wantErr, before)
	}
	if err != nil {
		if !slices.Equal(b, before) {
			t.Fatal("a refused batch was changed")
		}
		return err
	}
	if p.TimestampType == LogAppendTime {
		want.maxTimestamp, want.maxTimestampAt = p.NowMS, 0
	}
	if got.MaxTimestamp != want.maxTimestamp || got.MaxTimestampAt != want.maxTimestampAt {
		t.Fatalf("%+v, step by step %d at %d\n%x", got, want.maxTimestamp, want.maxTimestampAt, before)
	}
	return nil
}

// paddedVarint appends v as a zigzag varint, with up to pad bytes more than it needs.
func paddedVarint(dst []byte, v int64, pad int) []byte {
	dst = appendVarint(dst, v)
	for ; pad > 0; pad-- {
		dst[len(dst)-1] |= 0x80
		dst = append(dst, 0)
	}
	return dst
}

// oddBatch is an uncompressed batch of n records, right in themselves, whose fields take all widths.
func oddBatch(r *rand.Rand, n, valueBytes int, base int64) Batch {
	pick := func(of ...int) int { return of[r.IntN(len(of))] }
	rare := func() bool { return r.IntN(8) == 0 }
	pad := func() int {
		if r.IntN(60) == 0 {
			return 1 + r.IntN(2)
		}
		return 0
	}
	bytes := make([]byte, 8*1200)
	for i := range bytes {
		bytes[i] = byte(r.Uint32())
	}
	b := binary.BigEndian.AppendUint32(make([]byte, posLength), 0)
	b = append(b, make([]byte, HeaderBytes-len(b))...)
	var rec []byte
	for k := range n {
		rec = append(rec[:0], byte(r.Uint32()&uint32(pick(0, 0, 0xff))))
		delta := r.Int64N(300)
		if rare() {
			delta = int64(pick(-1, -64, -65, 63, 64, 8191, 8192, -8192, -8193, 20_000_000, r.IntN(20000)-10000))
		}
		rec = paddedVarint(rec, delta, pad())
		rec = paddedVarint(rec, int64(k), pad())
		field := func(n int) {
			rec = paddedVarint(rec, int64(n), pad())
			rec = append(rec, bytes[:max(n, 0)]...)
		}
		key, value := pick(-1, -1, -1, 0, 8), r.IntN(valueBytes+1)
		if rare() {
			key = pick(1, 62, 63, 64, 65, 300)
		}
		if rare() {
			value = pick(-1, 0, 62, 63, 64, 65, valueBytes, 8*valueBytes)
		}
		field(key)
		field(value)
		headers := 0
		if rare() {
			headers = pick(0, 1, 2, 70)
		}
		rec = paddedVarint(rec, int64(headers), pad())
		for range headers {
			field(r.IntN(5))
			field(r.IntN(80) - 1)
		}
		b = append(paddedVarint(b, int64(len(rec)), pad()), rec...)
	}
	b[posMagic] = Magic
	out := Batch(b)
	binary.BigEndian.PutUint32(out[posLength:], uint32(len(out)-prefixBytes))
	binary.BigEndian.PutUint64(out[posBaseTimestamp:], uint64(base))
	out.SetProducer(-1, -1, NoSequence)
	return count(out, int32(n))
}

// count sets how many records the header tells of, and seals the batch.
func count(b Batch, n int32) Batch {
	binary.BigEndian.PutUint32(b[posLastOffsetDelta:], uint32(n-1))
	binary.BigEndian.PutUint32(b[posNumRecords:], uint32(n))
	b.SealCRC()
	return b
}

// TestValidateAgreesWithItsSteps takes batches of all shapes and damages, behind a right CRC or not: the way for usual
// records in pieces must say what a walk record by record says, to the last word of the error.
func TestValidateAgreesWithItsSteps(t *testing.T) {
	const now = 1_700_000_000_000
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	passed, refused := 0, 0
	for round := range 500 {
		n := 1 + r.IntN(1+r.IntN(100))
		if round%40 == 0 {
			n = 500 + r.IntN(500) // more than a piece
		}
		base := []int64{now, now, now, 0, -1, 8191, now + 3_600_000 - 8192, math.MaxInt64 - 8192, math.MinInt64}[r.IntN(9)]
		b := oddBatch(r, n, []int{5, 40, 150, 1200}[r.IntN(4)], base)
		p := Policy{MaxBatchBytes: -1, NowMS: now, BeforeMaxMS: math.MaxInt64, AfterMaxMS: math.MaxInt64, RequireKeys: r.IntN(8) == 0}
		switch r.IntN(6) {
		case 0:
			p.BeforeMaxMS, p.AfterMaxMS = 9000, 9000
		case 1:
			p.AfterMaxMS = 3_600_000
		case 2:
			p.TimestampType = LogAppendTime
		}
		for range 6 {
			broken := slices.Clone(b)
			switch r.IntN(6) {
			case 0:
			case 1:
				count(broken, int32(n+r.IntN(3)-1))
			case 2:
				broken = broken[:HeaderBytes+r.IntN(len(b)-HeaderBytes)]
				binary.BigEndian.PutUint32(broken[posLength:], uint32(len(broken)-prefixBytes))
				broken.SealCRC()
			default:
				at := r.IntN(len(b)-HeaderBytes) + HeaderBytes
				broken[at] ^= 1 << r.IntN(8)
				if r.IntN(4) > 0 {
					broken.SealCRC()
				}
			}
			if agree(t, broken, p) == nil {
				passed++
			} else {
				refused++
			}
		}
	}
	t.Logf("%d passed, %d were refused", passed, refused)
	if passed < 200 || refused < 200 {
		t.Fatalf("%d batches passed and %d were refused: the test shows little", passed, refused)
	}
}

// TestOffsetDeltasOfEachWidth puts one record where its delta changes width: one byte up to record 63, two up to 8,191,
// three up to 1,048,575, and four. It has the right delta, or another, or none that is whole; what follows may be right
// for a delta of another width.
func TestOffsetDeltasOfEachWidth(t *testing.T) {
	for _, k := range []int32{
		0, 1, 63, 64, 65, 127, 128, 8190, 8191, 8192, 8193, 16_383, 16_384, 20_000, 1<<20 - 1, 1 << 20, 1<<20 + 1, 1 << 21, 1 << 27, 1<<31 - 2,
	} {
		right := appendVarint(nil, int64(k))
		for n, delta := range [][]byte{
			right, paddedVarint(nil, int64(k), 1), appendVarint(nil, int64(k)+1), appendVarint(nil, int64(k)-1), appendVarint(nil, int64(k)^64),
			appendVarint(nil, int64(k)^8192), appendVarint(nil, int64(k)^1<<20), right[:len(right)-1], {right[0] | 0x80},
		} {
			for _, rest := range [][]byte{{1, 1, 0}, {1, 6, 1, 2, 3, 0}, {1, 0}, {1, 0, 0}, {1, 1, 0, 0}} {
				for _, time := range [][]byte{{0}, {0x80, 1}} {
					rec := slices.Concat([]byte{0}, time, delta, rest)
					b := append(appendVarint(nil, int64(len(rec))), rec...)
					w := walk{maxAllowed: math.MaxInt64, minTimestamp: math.MinInt64}
					steps := w
					_, _, err := w.stretch(b, 0, len(b), k, k+1)
					_, want := steps.any(b, 0, k)
					if fmt.Sprint(err) != fmt.Sprint(want) || n == 0 && len(rest)%3 == 0 && rest[1] > 0 && err != nil {
						t.Fatalf("record %d, %x: %v, by any %v", k, b, err, want)
					}
				}
			}
		}
	}
	b := oddBatch(rand.New(rand.NewPCG(1, 1)), 20_000, 3, 1000)
	if err := agree(t, b, Policy{MaxBatchBytes: -1, BeforeMaxMS: math.MaxInt64, AfterMaxMS: math.MaxInt64}); err != nil {
		t.Fatal(err)
	}
}

// TestUsualRecordsTakeTheUsualWay: the agreement above would be cheap if the way were never taken.
func TestUsualRecordsTakeTheUsualWay(t *testing.T) {
	b := NewBuilder(nil, compress.None, 0)
	const n = 9000
	b.Reset(1000, -1, -1, NoSequence, 0)
	for k := range n {
		key := []byte("key")
		if k%2 == 0 {
			key = nil
		}
		b.Append(1000+int64(k%5000), key, make([]byte, k%100))
	}
	batch, err := b.Finish(nil)
	if err != nil {
		t.Fatal(err)
	}
	p := Policy{MaxBatchBytes: -1, NowMS: 1 << 40, BeforeMaxMS: math.MaxInt64, AfterMaxMS: math.MaxInt64}
	w := newWalk(batch, &p)
	if _, k := w.usual(batch, HeaderBytes, len(batch), 0, n); k < n-1 {
		t.Fatalf("it ends at record %d of %d", k, n)
	}
}

// FuzzValidateAgreesWithItsSteps gives the fuzzer's records a right header.
func FuzzValidateAgreesWithItsSteps(f *testing.F) {
	for seed := range uint64(8) {
		r := rand.New(rand.NewPCG(seed, 2))
		n := 1 + r.IntN(80)
		f.Add([]byte(oddBatch(r, n, 20, 5000)[HeaderBytes:]), int32(n), int64(5000), seed%2 == 0)
	}
	f.Fuzz(func(t *testing.T, records []byte, n int32, base int64, keys bool) {
		b := append(oddBatch(rand.New(rand.NewPCG(1, 1)), 0, 1, base), records...)
		binary.BigEndian.PutUint32(b[posLength:], uint32(len(b)-prefixBytes))
		_ = agree(t, count(b, n), Policy{MaxBatchBytes: -1, NowMS: 1000, BeforeMaxMS: math.MaxInt64, AfterMaxMS: 1 << 20, RequireKeys: keys})
	})
}
