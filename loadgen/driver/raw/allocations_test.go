package raw

import (
	"hash/crc32"
	"net"
	"os"
	"testing"

	"github.com/tidemark/tidemark/core/buf"
	"github.com/tidemark/tidemark/core/compress"
	"github.com/tidemark/tidemark/core/record"
	"github.com/tidemark/tidemark/loadgen/driver"
)

// alike are n records as a workload makes them.
func alike(n, valueBytes int) (rs []driver.Record) {
	value := make([]byte, valueBytes)
	for i := range n {
		rs = append(rs, driver.Record{Seq: uint64(i), Head: make([]byte, headBytes), Value: value, Lasting: true,
			ValueSum: crc32.Checksum(value, crc32.MakeTable(crc32.Castagnoli))})
	}
	return rs
}

func newTestBatch(scatter bool) *batch {
	return &batch{buf: make([]byte, record.HeaderBytes, 64<<10), limit: 64 << 10, scatter: scatter}
}

// TestABatchAllocatesNothing: from its first record to the socket, copied or in pieces, once its lists have grown.
func TestABatchAllocatesNothing(t *testing.T) {
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = null.Close() }()
	fd := int(null.Fd())
	for _, valueBytes := range []int{76, 1000} {
		rs := alike(50, valueBytes)
		b := newTestBatch(true)
		var js joins
		var pieces net.Buffers
		var vector buf.Vector
		once := func() {
			b.reset(nil, 1, 1000)
			if n := b.addRun(rs, 1003, len(rs)); n != len(rs) {
				t.Fatalf("%d of %d records", n, len(rs))
			}
			if err := b.seal(nil, nil, compress.None, 0, &js, -1, -1); err != nil {
				t.Fatal(err)
			}
			pieces = b.appendPieces(pieces[:0])
			if n, err := vector.Write(fd, pieces); n != b.wireBytes() || err != nil {
				t.Fatalf("wrote %d of %d bytes: %v", n, b.wireBytes(), err)
			}
		}
		if n := testing.AllocsPerRun(100, once); n != 0 {
			t.Errorf("values of %d: %v allocations a batch", valueBytes, n)
		}
	}
}

// TestDeliveringABatchAllocatesNothing.
func TestDeliveringABatchAllocatesNothing(t *testing.T) {
	b := newTestBatch(false)
	b.reset(nil, 1, 1000)
	b.addRun(alike(200, 100), 1000, 200)
	if err := b.seal(nil, nil, compress.None, 0, new(joins), -1, -1); err != nil {
		t.Fatal(err)
	}
	c := &Consumer{d: &Driver{codecs: compress.New(), cfg: driver.Config{MaxPollRecords: 64}}}
	got := 0
	take := func(fs []driver.Fetched) { got += len(fs) }
	once := func() {
		if n := c.deliverBatch(record.Batch(b.wire), 0, driver.Fetched{}, take); n != 200 {
			t.Fatalf("%d records", n)
		}
	}
	if n := testing.AllocsPerRun(100, once); n != 0 || got%200 != 0 {
		t.Errorf("%v allocations a batch, %d records", n, got)
	}
}

// BenchmarkBatch is what framing and sealing take from a record.
func BenchmarkBatch(b *testing.B) {
	for _, c := range []struct {
		name       string
		valueBytes int
	}{{"value=100B", 76}, {"value=1KiB", 1000}} {
		b.Run(c.name, func(b *testing.B) {
			rs := alike(50, c.valueBytes)
			bt := newTestBatch(true)
			var js joins
			b.ReportAllocs()
			b.SetBytes(int64(len(rs) * (c.valueBytes + headBytes)))
			for b.Loop() {
				bt.reset(nil, 1, 1000)
				bt.addRun(rs, 1003, len(rs))
				_ = bt.seal(nil, nil, compress.None, 0, &js, -1, -1)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(rs)), "ns/record")
		})
	}
}
