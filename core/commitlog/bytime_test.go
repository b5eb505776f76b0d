package commitlog

import (
	"encoding/binary"
	"errors"
	"runtime"
	"slices"
	"testing"

	"github.com/tidemark/tidemark/core/compress"
	"github.com/tidemark/tidemark/core/kafka"
	"github.com/tidemark/tidemark/core/record"
)

// zeros is a batch of two records, at times 1000 and 2000, whose first value is n zeros: some bytes of zstd for each 128 KiB.
func zeros(t *testing.T, n int) record.Batch {
	t.Helper()
	builder := record.NewBuilder(nil, compress.None, 0)
	builder.Reset(1000, kafka.NoProducerID, kafka.NoEpoch, record.NoSequence, 0)
	builder.Append(1000, nil, nil)
	builder.Append(2000, nil, nil)
	b, err := builder.Finish(nil)
	if err != nil {
		t.Fatal(err)
	}
	const (
		rawBlock, rleBlock = 0, 1
		maxBlock           = 128 << 10
	)
	block := func(dst []byte, kind, size int, last bool, body []byte) []byte {
		head := uint32(size<<3 | kind<<1)
		if last {
			head |= 1
		}
		return append(append(dst, byte(head), byte(head>>8), byte(head>>16)), body...)
	}
	front := []byte{0, 0, 0, 1}                  // attributes, time delta, offset delta, no key
	front = binary.AppendVarint(front, int64(n)) // the value's length
	size := int64(len(front) + n + 1)            // no headers
	front = append(binary.AppendVarint(nil, size), front...)
	second := binary.AppendVarint([]byte{0}, 1000) // attributes, time delta
	second = append(second, 2, 1, 1, 0)            // offset delta 1, no key, no value, no headers
	second = append(binary.AppendVarint(nil, int64(len(second))), second...)

	b = append(b[:record.HeaderBytes:record.HeaderBytes], 0x28, 0xb5, 0x2f, 0xfd, 0, 7<<3) // a frame with a window of 128 KiB
	b = block(b, rawBlock, len(front), false, front)
	for left := n; left > 0; left -= maxBlock {
		b = block(b, rleBlock, min(left, maxBlock), false, []byte{0})
	}
	tail := append([]byte{0}, second...) // the first record's headers
	b = block(b, rawBlock, len(tail), true, tail)
	b[22] |= byte(compress.Zstd)
	binary.BigEndian.PutUint32(b[8:], uint32(len(b)-12))
	record.Batch(b).SealCRC()
	return b
}

// TestALookUpByTimeKeepsNothingOfABatch: a few kilobytes may hold gigabytes, and a client who asks again and again must not take
// the broker's memory with it.
func TestALookUpByTimeKeepsNothingOfABatch(t *testing.T) {
	b := zeros(t, 32<<20)
	w := newWorld(t, Config{SegmentBytes: 1 << 20})
	if err := w.tryAppend(b); err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	found, err := w.l.OffsetForTime(1500, 2)
	runtime.ReadMemStats(&after)
	if err != nil || found.Offset != 1 || found.Timestamp != 2000 {
		t.Errorf("%+v, %v", found, err)
	}
	t.Logf("%d KiB", (after.TotalAlloc-before.TotalAlloc)>>10)
	if took := after.TotalAlloc - before.TotalAlloc; took > 16<<20 {
		t.Errorf("a look-up took %d KiB", took>>10)
	}
}

// A look-up by time in a compacted topic with LogAppendTime names a record that is there: the first of its batch may have gone.
func TestALookUpByTimeNamesARecordThatIsLeft(t *testing.T) {
	const ts = 5000
	for _, codec := range []compress.Codec{compress.None, compress.Zstd} {
		w := newWorld(t, compactConfig())
		for _, keys := range [][3]string{{"k", "a", "b"}, {"k", "c", "k"}} { // the first record of each goes
			kvs := []kv{{keys[0], []byte("1")}, {keys[1], []byte("2")}, {keys[2], []byte("3")}}
			b := keyed(t, batchSpec{ts: 1, codec: codec}, w.l.AppendEnd(), kvs...)
			b.SetMaxTimestamp(record.LogAppendTime, ts+int64(b.BaseOffset()))
			if err := w.tryAppend(b); err != nil {
				t.Fatal(err)
			}
		}
		w.roll()
		w.clean()
		var left []kafka.Offset
		for _, s := range consume(t, w.l, false) {
			left = append(left, s.off)
		}
		if !slices.Equal(left, []kafka.Offset{1, 2, 4, 5}) {
			t.Fatalf("%s: records %d are left", codec, left)
		}
		end := w.l.EndOffset()
		first, err1 := w.l.OffsetForTime(ts, end)
		second, err2 := w.l.OffsetForTime(ts+1, end)
		latest, err3 := w.l.MaxTimestamp(end)
		if err := errors.Join(err1, err2, err3); err != nil || first.Offset != 1 || second.Offset != 4 || latest.Offset != 4 || latest.Timestamp != ts+3 {
			t.Errorf("%s: %+v, %+v and the latest %+v, %v; want offsets 1, 4 and 4", codec, first, second, latest, err)
		}
		if none, err := w.l.OffsetForTime(ts+1, 4); err != nil || none.Offset != -1 {
			t.Errorf("%s: %+v below offset 4, %v", codec, none, err)
		}
	}
}
