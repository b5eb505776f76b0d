package logdir

import (
	"encoding/binary"
	"errors"
	"hash/crc32"

	"github.com/tidemark/tidemark/core/commitlog"
	"github.com/tidemark/tidemark/core/kafka"
)

// The manifest of a clean stop, all integers varints but the last:
//
//	"TMF2" | boot id string | count | count times: topic string | partition | topic id 16 bytes | start | end |
//	         segments: count, then base, size, max timestamp, its offset, last write |
//	         epochs: count, then epoch, start | snapshot offset | has producers |
//	         recovery, written and flushed point | what is left of it, a string of commitlog's |
//	crc32c of all before it, 4 bytes big-endian
//
// With a boot id it holds for that run of the operating system alone, whose page cache has what is not on disk yet.
const manifestMagic = "TMF2"

var errManifest = errors.New("manifest is damaged")

// record32C is CRC-32C's table.
var record32C = crc32.MakeTable(crc32.Castagnoli)

type manifestEntry struct {
	tp      kafka.TopicPartition
	summary *commitlog.Summary
}

func appendManifest(dst []byte, bootID string, list []manifestEntry) []byte {
	dst = append(dst, manifestMagic...)
	dst = binary.AppendUvarint(dst, uint64(len(bootID)))
	dst = append(dst, bootID...)
	dst = binary.AppendUvarint(dst, uint64(len(list)))
	for _, m := range list {
		s := m.summary
		dst = binary.AppendUvarint(dst, uint64(len(m.tp.Topic)))
		dst = append(dst, m.tp.Topic...)
		dst = binary.AppendVarint(dst, int64(m.tp.Partition))
		dst = append(dst, s.TopicID[:]...)
		dst = binary.AppendVarint(dst, int64(s.Start))
		dst = binary.AppendVarint(dst, int64(s.End))
		dst = binary.AppendUvarint(dst, uint64(len(s.Segments)))
		for _, g := range s.Segments {
			for _, v := range []int64{int64(g.Base), g.Size, g.MaxTimestamp, int64(g.MaxTimestampAt), g.LastWriteMS} {
				dst = binary.AppendVarint(dst, v)
			}
		}
		dst = binary.AppendUvarint(dst, uint64(len(s.Epochs)))
		for _, e := range s.Epochs {
			dst = binary.AppendVarint(dst, int64(e.Epoch))
			dst = binary.AppendVarint(dst, int64(e.Start))
		}
		dst = binary.AppendVarint(dst, int64(s.SnapshotOffset))
		has := int64(0)
		if s.Producers {
			has = 1
		}
		for _, v := range []int64{has, int64(s.Recovery), int64(s.Written), int64(s.Flushed)} {
			dst = binary.AppendVarint(dst, v)
		}
		dst = binary.AppendUvarint(dst, uint64(len(s.Left)))
		dst = append(dst, s.Left...)
	}
	return binary.BigEndian.AppendUint32(dst, crc32.Checksum(dst, record32C))
}

// manifestReader takes varints off the front; the first that is not there sets bad.
type manifestReader struct {
	b   []byte
	bad bool

	summaries blocks[commitlog.Summary]
	segments  blocks[commitlog.Segment]
	epochs    blocks[commitlog.EpochStart]
	left      blocks[byte]
}

func (r *manifestReader) int() int64 {
	v, n := binary.Varint(r.b)
	if n <= 0 {
		r.bad, r.b = true, nil
		return 0
	}
	r.b = r.b[n:]
	return v
}

// count reads a number of things that take at least minBytes each.
func (r *manifestReader) count(minBytes int) int {
	v, n := binary.Uvarint(r.b)
	if n <= 0 || v > uint64(len(r.b)/minBytes) {
		r.bad, r.b = true, nil
		return 0
	}
	r.b = r.b[n:]
	return int(v)
}

func (r *manifestReader) take(n int) []byte {
	if n > len(r.b) {
		r.bad, r.b = true, nil
		return nil
	}
	v := r.b[:n]
	r.b = r.b[n:]
	return v
}

// parseManifest reads a manifest. Nothing that it returns stays part of b.
func parseManifest(b []byte) (bootID string, list []manifestEntry, err error) {
	if len(b) < len(manifestMagic)+4 || string(b[:len(manifestMagic)]) != manifestMagic {
		return "", nil, errManifest
	}
	body := b[:len(b)-4]
	if crc32.Checksum(body, record32C) != binary.BigEndian.Uint32(b[len(b)-4:]) {
		return "", nil, errManifest
	}
	r := manifestReader{b: body[len(manifestMagic):]}
	bootID = string(r.take(r.count(1)))
	n := r.count(1)
	list = make([]manifestEntry, 0, min(n, 1<<20))
	topic := ""
	for ; n > 0 && !r.bad; n-- {
		s := &r.summaries.take(1)[0]
		if name := r.take(r.count(1)); string(name) != topic { // neighbours mostly are of one topic
			topic = string(name)
		}
		m := manifestEntry{tp: kafka.TopicPartition{Topic: topic, Partition: kafka.Partition(r.int())}, summary: s}
		copy(s.TopicID[:], r.take(16))
		s.Start, s.End = kafka.Offset(r.int()), kafka.Offset(r.int())
		s.Segments = r.segments.take(r.count(5))
		for i := range s.Segments {
			s.Segments[i] = commitlog.Segment{Base: kafka.Offset(r.int()), Size: r.int(), MaxTimestamp: r.int(), MaxTimestampAt: kafka.Offset(r.int()),
				LastWriteMS: r.int()}
		}
		s.Epochs = r.epochs.take(r.count(2))
		for i := range s.Epochs {
			s.Epochs[i] = commitlog.EpochStart{Epoch: kafka.LeaderEpoch(r.int()), Start: kafka.Offset(r.int())}
		}
		s.SnapshotOffset = kafka.Offset(r.int())
		s.Producers = r.int() != 0
		s.Recovery, s.Written, s.Flushed = kafka.Offset(r.int()), kafka.Offset(r.int()), kafka.Offset(r.int())
		left := r.take(r.count(1))
		s.Left = r.left.take(len(left))
		copy(s.Left, left) // or a log that is never used would keep the whole file
		list = append(list, m)
	}
	if r.bad || len(r.b) != 0 {
		return "", nil, errManifest
	}
	return bootID, list, nil
}

// blocks gives out memory for a few things at a time, allocated together with others': 100,000 logs would else take 500,000 small
// allocations. The one that is used last keeps the block.
type blocks[T any] struct{ rest []T }

// blockOf is how many things a block holds.
const blockOf = 64

// take gives n things, nil for none.
func (b *blocks[T]) take(n int) []T {
	switch {
	case n == 0:
		return nil
	case n > blockOf/4:
		return make([]T, n)
	case n > len(b.rest):
		b.rest = make([]T, blockOf)
	}
	out := b.rest[:n:n]
	b.rest = b.rest[n:]
	return out
}
