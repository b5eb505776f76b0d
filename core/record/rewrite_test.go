package record

import (
	"bytes"
	"testing"

	"github.com/tidemark/tidemark/core/compress"
)

// Records taken out of a batch leave the offsets, times, keys and headers of the others as they were, whatever the codec,
// with and without a delete horizon; the sequence numbers still cover all.
func TestRewriteKeepsWhatIsLeft(t *testing.T) {
	for _, codec := range []compress.Codec{compress.None, compress.Gzip, compress.Snappy, compress.Lz4, compress.Zstd} {
		for _, horizon := range []int64{NoTimestamp, 5_000_000} {
			b := NewBuilder(nil, codec, 0)
			b.Reset(1000, 7, 2, 40, TransactionalBit)
			for i := range 6 {
				b.Append(1000+int64(10-i), []byte{byte('a' + i)}, bytes.Repeat([]byte{byte(i)}, 30), Header{Key: "h", Value: []byte{byte(i)}})
			}
			raw, err := b.Finish(nil)
			if err != nil {
				t.Fatal(err)
			}
			in := Batch(raw)
			in.SetBaseOffset(100)
			in.SetLeaderEpoch(3)
			w := NewRewriter(nil)
			if err := w.Open(in, 1<<20); err != nil {
				t.Fatal(err)
			}
			for w.Next() {
				if w.Record().OffsetDelta%2 == 1 {
					w.Keep()
				}
			}
			got, err := w.Append([]byte("before"), horizon)
			if err != nil || w.Err() != nil {
				t.Fatal(err, w.Err())
			}
			out := Batch(got[len("before"):])
			if out.CRC() != out.ComputeCRC() || int(out.Length()) != len(out)-prefixBytes {
				t.Fatal("the header does not fit")
			}
			if out.BaseOffset() != 100 || out.LastOffset() != 105 || out.PartitionLeaderEpoch() != 3 || out.ProducerID() != 7 || out.LastSequence() != 45 ||
				!out.IsTransactional() || out.Codec() != codec || out.NumRecords() != 3 || out.MaxTimestamp() != 1009 || out.HasDeleteHorizon() != (horizon >= 0) {
				t.Fatalf("%s: header % x", codec, out[:HeaderBytes])
			}
			if horizon >= 0 && out.BaseTimestamp() != horizon {
				t.Fatalf("horizon %d", out.BaseTimestamp())
			}
			it, err := out.Records(nil, 1<<20)
			if err != nil {
				t.Fatal(err)
			}
			for i := int32(1); it.Next(); i += 2 {
				r := it.Record()
				if r.OffsetDelta != i || out.BaseTimestamp()+r.TimestampDelta != 1010-int64(i) || r.Key[0] != byte('a'+i) || r.Value[0] != byte(i) || r.Headers[0].Value[0] != byte(i) {
					t.Fatalf("%s, horizon %d: record %d is %+v", codec, horizon, i, r)
				}
			}
			if it.Err() != nil {
				t.Fatal(it.Err())
			}
			e := Batch(AppendEmpty(nil, out))
			if e.NumRecords() != 0 || len(e) != HeaderBytes || e.LastSequence() != 45 || e.LastOffset() != 105 || e.CRC() != e.ComputeCRC() || e.HasDeleteHorizon() || e.Codec() != compress.None || e.MaxTimestamp() != 1009 {
				t.Fatalf("empty % x", e)
			}
		}
	}
}
