package raw

import (
	"bytes"
	"hash/crc32"
	"math/rand/v2"
	"testing"

	"github.com/tidemark/tidemark/core/compress"
	"github.com/tidemark/tidemark/core/kafka"
	"github.com/tidemark/tidemark/core/record"
	"github.com/tidemark/tidemark/loadgen/driver"
)

// TestABatchWithValuesApartIsTheBatchWithoutThem: the same records make the same bytes and the same CRC, copied or not, and
// sealing again under another number does too.
func TestABatchWithValuesApartIsTheBatchWithoutThem(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	block := make([]byte, 1<<20)
	for i := range block {
		block[i] = byte(rng.Uint32())
	}
	var js joins
	for round := range 200 {
		lengths := 1 + rng.IntN(2*maxJoins) // more than have tables, in some rounds
		var rs []driver.Record
		for seq := range 1 + rng.IntN(100) {
			at, n := rng.IntN(len(block)/2), rng.IntN(lengths)*100
			r := driver.Record{Seq: uint64(seq), Value: block[at : at+n], Lasting: rng.IntN(4) > 0}
			r.ValueSum = crc32.Checksum(r.Value, crc32.MakeTable(crc32.Castagnoli))
			switch rng.IntN(3) {
			case 0:
				r.Key = block[at : at+rng.IntN(200)]
			case 1:
				r.Head = block[at : at+headBytes]
			}
			rs = append(rs, r)
		}
		limit := 1000 + rng.IntN(1<<20)
		build := func(scatter bool) *batch {
			b := &batch{buf: make([]byte, record.HeaderBytes, limit)}
			b.reset(nil, 5, 1000)
			b.limit, b.scatter = limit, scatter
			for done := 0; done < len(rs); {
				k := b.addRun(rs[done:], 1000+int64(done), 1+done%9)
				if done += k; k == 0 {
					break
				}
			}
			return b
		}
		apart, whole := build(true), build(false)
		if apart.n != whole.n || apart.long() != whole.long() || apart.bytes != whole.bytes {
			t.Fatalf("round %d: %d records in %d bytes, copied %d in %d", round, apart.n, apart.long(), whole.n, whole.long())
		}
		if apart.n == 0 {
			continue
		}
		for sent := range 2 {
			for _, b := range []*batch{apart, whole} {
				b.baseMS, b.lastMS, b.seq = 1000, 1000, int32(sent)
				if err := b.seal(nil, nil, compress.None, 0, &js, 77, kafka.ProducerEpoch(sent)); err != nil {
					t.Fatal(err)
				}
			}
			joined := make([]byte, apart.wireBytes())
			if n := apart.copyTo(joined); n != len(joined) {
				t.Fatalf("round %d: copied %d of %d bytes", round, n, len(joined))
			}
			if !bytes.Equal(joined, whole.wire) {
				t.Fatalf("round %d: the bytes differ", round)
			}
			if b := record.Batch(joined); b.CRC() != b.ComputeCRC() {
				t.Fatalf("round %d: CRC %08x, want %08x", round, b.CRC(), b.ComputeCRC())
			}
			if pieces := apart.appendPieces(nil); !bytes.Equal(bytes.Join(pieces, nil), joined) {
				t.Fatalf("round %d: the pieces are not the batch", round)
			}
		}
	}
	if len(js.made) != maxJoins {
		t.Errorf("%d lengths have tables, want %d", len(js.made), maxJoins)
	}
}
