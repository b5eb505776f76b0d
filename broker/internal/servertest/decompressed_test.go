package servertest

import (
	"encoding/binary"
	"testing"

	"github.com/tidemark/tidemark/core/commitlog"
	"github.com/tidemark/tidemark/core/compress"
	"github.com/tidemark/tidemark/core/kafka"
	"github.com/tidemark/tidemark/core/record"
)

// max.decompressed.message.bytes bounds a record and no batch: producers with large batches of small records go on when it is set.
func TestABatchMayHoldMoreThanItsLargestRecord(t *testing.T) {
	many := record.NewBuilder(compress.New(), compress.Zstd, 0)
	many.Reset(record.NoTimestamp, kafka.NoProducerID, kafka.NoEpoch, record.NoSequence, 0)
	for range 100 {
		many.Append(record.NoTimestamp, []byte("k"), make([]byte, 1000))
	}
	small, err := many.Finish(nil)
	must(t, err)
	n := startNode(t, t.TempDir())
	c := n.dial()
	for _, policy := range []string{"delete", "compact"} {
		id := n.topic(policy, 1, "cleanup.policy", policy, "max.decompressed.message.bytes", "20000")
		for _, tc := range []struct {
			what  string
			batch []byte
			want  kafka.ErrorCode
		}{
			{"100 records of a thousand bytes", small, kafka.None},
			{"one record of thirty thousand", keyedBatch(t, compress.Zstd, make([]byte, 30_000)), kafka.InvalidRecord},
			{"the same, not compressed", keyedBatch(t, compress.None, make([]byte, 30_000)), kafka.None},
		} {
			r := c.do(produceRequest(9, 1, policy, id, map[int32][]byte{0: tc.batch}))
			if p := produced(t, r, 0); kafka.ErrorCode(p.ErrorCode) != tc.want {
				t.Errorf("cleanup.policy=%s, %s: %v, want %v", policy, tc.what, kafka.ErrorCode(p.ErrorCode), tc.want)
			}
		}
	}
}

// keyedBatch is a batch of one record that has a key.
func keyedBatch(t *testing.T, codec compress.Codec, value []byte) []byte {
	t.Helper()
	b := record.NewBuilder(compress.New(), codec, 0)
	b.Reset(record.NoTimestamp, kafka.NoProducerID, kafka.NoEpoch, record.NoSequence, 0)
	b.Append(record.NoTimestamp, []byte("k"), value)
	out, err := b.Finish(nil)
	must(t, err)
	return out
}

// What compaction could not open would stop it for good: a compacted topic refuses the whole batch, whatever one record may have.
func TestACompactedTopicTakesWhatCompactionOpens(t *testing.T) {
	const each = commitlog.MaxOpenedBatch/2 + 1<<20
	b := zeroValues(t, 2, each)
	n := startNode(t, t.TempDir())
	c := n.dial()
	for _, tc := range []struct {
		policy string
		want   kafka.ErrorCode
	}{{"delete", kafka.None}, {"compact", kafka.InvalidRecord}} {
		id := n.topic(tc.policy, 1, "cleanup.policy", tc.policy)
		r := c.do(produceRequest(9, 1, tc.policy, id, map[int32][]byte{0: b}))
		if p := produced(t, r, 0); kafka.ErrorCode(p.ErrorCode) != tc.want {
			t.Errorf("cleanup.policy=%s, two records of %d bytes: %v, want %v", tc.policy, each, kafka.ErrorCode(p.ErrorCode), tc.want)
		}
	}
}

// zeroValues is a batch of n records with keys whose values are size zeros each: some bytes of zstd for each 128 KiB.
func zeroValues(t *testing.T, n byte, size int) []byte {
	t.Helper()
	b := record.NewBuilder(nil, compress.None, 0)
	b.Reset(record.NoTimestamp, kafka.NoProducerID, kafka.NoEpoch, record.NoSequence, 0)
	for range n {
		b.Append(record.NoTimestamp, []byte("k"), nil)
	}
	out, err := b.Finish(nil)
	must(t, err)
	const rawBlock, rleBlock, lastBlock, maxBlock = 0 << 1, 1 << 1, 1, 128 << 10
	out = append(out[:record.HeaderBytes:record.HeaderBytes], 0x28, 0xb5, 0x2f, 0xfd, 0, 7<<3) // a frame with a window of 128 KiB
	block := func(kind, size int, body ...byte) {
		head := size<<3 | kind
		out = append(append(out, byte(head), byte(head>>8), byte(head>>16)), body...)
	}
	for k := range n {
		front := []byte{0, 0, k << 1, 1 << 1, 'k'} // attributes, time delta, offset delta, the key and its length
		front = binary.AppendVarint(front, int64(size))
		front = append(binary.AppendVarint(nil, int64(len(front)+size+1)), front...)
		block(rawBlock, len(front), front...)
		for left := size; left > 0; left -= maxBlock {
			block(rleBlock, min(left, maxBlock), 0)
		}
		block(rawBlock, 1, 0) // no headers
	}
	block(rawBlock|lastBlock, 0)
	binary.BigEndian.PutUint32(out[8:], uint32(len(out)-12))
	out[22] |= byte(compress.Zstd)
	record.Batch(out).SealCRC()
	return out
}
