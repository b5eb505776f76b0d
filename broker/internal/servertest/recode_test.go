package servertest

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/tidemark/tidemark/core/compress"
	"github.com/tidemark/tidemark/core/kafka"
	"github.com/tidemark/tidemark/core/record"
)

// coded is a batch of one record, compressed.
func coded(t *testing.T, codec compress.Codec, value []byte) []byte {
	t.Helper()
	b := record.NewBuilder(compress.New(), codec, 0)
	ts := time.Now().UnixMilli()
	b.Reset(ts, kafka.NoProducerID, kafka.NoEpoch, record.NoSequence, 0)
	b.Append(ts, nil, value)
	out, err := b.Finish(nil)
	must(t, err)
	return out
}

// A batch that fits its topic as it was sent, and not with the topic's own codec, is refused as Kafka does; what fits is taken
// however small its producer made it, also while memory is scarce.
func TestABatchMustFitWithItsTopicsCodec(t *testing.T) {
	random := make([]byte, 40_000)
	for i := range random {
		random[i] = byte('a' + rand.IntN(16)) // half its size with gzip, hardly less with snappy
	}
	zeros := make([]byte, 1<<20)
	for _, tc := range []struct {
		what, codec, most string
		batch             []byte
		want              kafka.ErrorCode
	}{
		{"sent gzipped, kept as it is", "uncompressed", "30000", coded(t, compress.Gzip, random), kafka.MessageTooLarge},
		{"sent gzipped, kept with snappy", "snappy", "30000", coded(t, compress.Gzip, random), kafka.MessageTooLarge},
		{"a bomb, kept as it is", "uncompressed", "30000", coded(t, compress.Gzip, zeros), kafka.MessageTooLarge},
		{"sent gzipped, and there is room", "uncompressed", "50000", coded(t, compress.Gzip, random), kafka.None},
		{"zeros from gzip to zstd", "zstd", "30000", coded(t, compress.Gzip, zeros), kafka.None},
		{"zeros from zstd to lz4", "lz4", "30000", coded(t, compress.Zstd, zeros), kafka.None},
		{"zeros from nothing to gzip", "gzip", "2000000", coded(t, compress.None, zeros), kafka.None},
	} {
		n := startNode(t, t.TempDir(), "socket.request.max.bytes=2097152", "queued.max.request.bytes=16777216")
		id := n.topic("t", 1, "compression.type", tc.codec, "max.message.bytes", tc.most)
		c := n.dial()
		for range 3 { // what a recode has taken is given back
			r := c.do(produceRequest(9, 1, "t", id, map[int32][]byte{0: tc.batch}))
			if p := produced(t, r, 0); kafka.ErrorCode(p.ErrorCode) != tc.want {
				t.Errorf("%s (%d bytes): %v, want %v", tc.what, len(tc.batch), kafka.ErrorCode(p.ErrorCode), tc.want)
			}
		}
		n.stop()
	}
}

// What would take more than half of the memory that requests may have is refused and told so.
func TestARecodeStaysWithinTheMemoryOfRequests(t *testing.T) {
	n := startNode(t, t.TempDir(), "socket.request.max.bytes=1048576", "queued.max.request.bytes=4194304")
	id := n.topic("t", 1, "compression.type", "zstd")
	c := n.dial()
	put := func(size int) kafka.ErrorCode {
		r := c.do(produceRequest(9, 1, "t", id, map[int32][]byte{0: coded(t, compress.Gzip, make([]byte, size))}))
		return kafka.ErrorCode(produced(t, r, 0).ErrorCode)
	}
	for range 2 {
		if code := put(8 << 20); code != kafka.MessageTooLarge {
			t.Errorf("8 MiB of zeros: %v", code)
		}
		if code := put(100_000); code != kafka.None {
			t.Errorf("100 kB of zeros: %v", code)
		}
	}
}
