package record_test

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/tidemark/tidemark/core/compress"
	"github.com/tidemark/tidemark/core/record"
)

// payload is text that compresses about as well as JSON events do.
func payload(r *rand.Rand, n int) []byte {
	var b bytes.Buffer
	for b.Len() < n {
		fmt.Fprintf(&b, `{"user":%d,"event":"click","at":%d},`, r.IntN(1000), r.Uint64())
	}
	return b.Bytes()[:n]
}

// batchOf builds a batch of n records with values of size bytes.
func batchOf(tb testing.TB, codec compress.Codec, n, size int) record.Batch {
	tb.Helper()
	r := rand.New(rand.NewPCG(1, 2))
	b := record.NewBuilder(nil, codec, 0)
	b.Reset(1000, -1, -1, record.NoSequence, 0)
	for i := range n {
		b.Append(1000+int64(i), fmt.Appendf(nil, "key-%d", i), payload(r, size))
	}
	out, err := b.Finish(nil)
	if err != nil {
		tb.Fatal(err)
	}
	return out
}

// anyTime is a policy without a bound on times.
func anyTime() record.Policy {
	return record.Policy{MaxBatchBytes: -1, BeforeMaxMS: math.MaxInt64, AfterMaxMS: math.MaxInt64, AllowZstd: true}
}

func BenchmarkValidate(b *testing.B) {
	for _, c := range []struct{ n, size int }{{1, 100}, {10, 100}, {100, 100}, {1000, 100}, {1000, 10}, {16, 1024}, {1, 1 << 20}} {
		b.Run(fmt.Sprintf("records=%d/bytes=%d", c.n, c.size), func(b *testing.B) {
			benchValidate(b, batchOf(b, compress.None, c.n, c.size))
		})
	}
}

// BenchmarkValidateSet takes turns among batches that the caches do not hold together (a set of 64 MiB), or hold in
// part (1 MiB), of records of one size, of changing sizes, and with a header each.
func BenchmarkValidateSet(b *testing.B) {
	for _, c := range []struct {
		set, batch int
		shape      string
	}{
		{1 << 20, 16 << 10, "even"}, {64 << 20, 16 << 10, "even"}, {4 << 20, 1 << 20, "even"}, {64 << 20, 1 << 20, "even"},
		{1 << 20, 16 << 10, "mixed"}, {1 << 20, 16 << 10, "headers"},
	} {
		b.Run(fmt.Sprintf("set=%d/batch=%d/shape=%s", c.set, c.batch, c.shape), func(b *testing.B) {
			set := []record.Batch{batchOfShape(b, c.shape, c.batch)}
			for len(set) < c.set/c.batch {
				set = append(set, slices.Clone(set[0]))
			}
			p, records, i := anyTime(), int(set[0].NumRecords()), 0
			b.ReportAllocs()
			for b.Loop() {
				if _, err := record.Validate(set[i], p); err != nil {
					b.Fatal(err)
				}
				if i++; i == len(set) {
					i = 0
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(records), "ns/record")
		})
	}
}

// batchOfShape fills size bytes with records without keys, of 100 bytes (even and headers) or of 20 to 180 (mixed).
func batchOfShape(tb testing.TB, shape string, size int) record.Batch {
	tb.Helper()
	r := rand.New(rand.NewPCG(3, 4))
	b := record.NewBuilder(nil, compress.None, 0)
	b.Reset(1000, -1, -1, record.NoSequence, 0)
	value := payload(r, 180)
	for i := 0; b.Bytes() < size-250; i++ {
		n, headers := 100, []record.Header(nil)
		switch shape {
		case "mixed":
			n = 20 + r.IntN(160)
		case "headers":
			headers = []record.Header{{Key: "trace", Value: value[:16]}}
		}
		b.Append(1000+int64(i/100), nil, value[:n], headers...)
	}
	out, err := b.Finish(nil)
	if err != nil {
		tb.Fatal(err)
	}
	return out
}

func BenchmarkValidateCompressed(b *testing.B) {
	for codec := compress.Gzip; codec <= compress.Zstd; codec++ {
		b.Run("codec="+codec.String(), func(b *testing.B) { benchValidate(b, batchOf(b, codec, 160, 100)) })
	}
}

func benchValidate(b *testing.B, batch record.Batch) {
	p := anyTime()
	p.Codecs = compress.New()
	b.SetBytes(int64(len(batch)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := record.Validate(batch, p); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkBuild(b *testing.B) {
	for _, c := range []struct{ n, size int }{{160, 100}, {16, 1024}} {
		for codec := compress.None; codec <= compress.Zstd; codec++ {
			b.Run(fmt.Sprintf("records=%d/bytes=%d/codec=%s", c.n, c.size, codec), func(b *testing.B) {
				benchBuild(b, codec, c.n, c.size)
			})
		}
	}
}

func benchBuild(b *testing.B, codec compress.Codec, n, size int) {
	builder := record.NewBuilder(compress.New(), codec, 0)
	value := payload(rand.New(rand.NewPCG(1, 2)), size)
	key := []byte("key-0001")
	var dst []byte
	b.SetBytes(int64(n * size))
	b.ReportAllocs()
	for b.Loop() {
		builder.Reset(1000, 7, 0, 0, 0)
		for i := range n {
			builder.Append(1000+int64(i), key, value)
		}
		var err error
		if dst, err = builder.Finish(dst[:0]); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkIterate(b *testing.B) {
	for codec := compress.None; codec <= compress.Zstd; codec++ {
		b.Run("codec="+codec.String(), func(b *testing.B) {
			batch, codecs := batchOf(b, codec, 160, 100), compress.New()
			var it record.Iterator
			b.SetBytes(160 * 100)
			b.ReportAllocs()
			for b.Loop() {
				if err := it.Reset(batch, codecs, 1<<20); err != nil {
					b.Fatal(err)
				}
				for it.Next() {
				}
			}
		})
	}
}
