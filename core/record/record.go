// Package record reads, checks and builds Kafka's record batches (magic 2, KIP-98) as views over bytes. It does no I/O
// and keeps no state; the message sets of magic 0 and 1 are refused.
//
// A batch, all integers big-endian:
//
//	 0  base offset            int64   ┐ outside the CRC: the broker patches
//	 8  length                 int32   │ base offset and leader epoch without
//	12  partition leader epoch int32   │ computing a new one
//	16  magic                  int8    │ (2)
//	17  crc                    uint32  ┘ CRC-32C of all that follows
//	21  attributes             int16   bits 0-2 codec, 3 time type, 4 transactional, 5 control, 6 delete horizon
//	23  last offset delta      int32
//	27  base timestamp         int64   milliseconds (the delete horizon, if bit 6 is set)
//	35  max timestamp          int64
//	43  producer id            int64   -1 none
//	51  producer epoch         int16   -1 none
//	53  base sequence          int32   -1 none
//	57  records                int32
//	61  the records, compressed as one piece if there is a codec
//
// "length" counts the bytes that follow it. A record, all lengths zigzag varints:
//
//	length | attributes int8 (unused) | timestamp delta varlong | offset delta |
//	key length (-1: null) | key | value length (-1: null) | value | headers count | headers
//	header: key length | key | value length (-1: null) | value
//
// Batch, Validate and the Append functions may be used from any goroutine; an Iterator and a Builder belong to one.
package record

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"math"

	"github.com/tidemark/tidemark/core/compress"
	"github.com/tidemark/tidemark/core/kafka"
)

// Sizes of a batch's header.
const (
	// HeaderBytes is the length of a batch without records.
	HeaderBytes = 61
	// prefixBytes is what "length" does not count: base offset and length.
	prefixBytes = 12
	// crcStart is where the bytes begin that the CRC covers.
	crcStart = 21
	// Magic is the only format that is read and written.
	Magic = 2
)

// Positions in a batch's header.
const (
	posBaseOffset      = 0
	posLength          = 8
	posLeaderEpoch     = 12
	posMagic           = 16
	posCRC             = 17
	posAttributes      = 21
	posLastOffsetDelta = 23
	posBaseTimestamp   = 27
	posMaxTimestamp    = 35
	posProducerID      = 43
	posProducerEpoch   = 51
	posBaseSequence    = 53
	posNumRecords      = 57
)

// Attributes are the flags of a batch.
type Attributes int16

// Bits of Attributes.
const (
	codecMask        Attributes = 0x07
	LogAppendTimeBit Attributes = 1 << 3
	TransactionalBit Attributes = 1 << 4
	ControlBit       Attributes = 1 << 5
	DeleteHorizonBit Attributes = 1 << 6
)

// NoTimestamp is the time of a record that has none.
const NoTimestamp int64 = -1

// NoSequence is the base sequence of a batch without idempotence.
const NoSequence int32 = -1

// TimestampType says who gave the records their times.
type TimestampType int8

// Kafka's message.timestamp.type.
const (
	CreateTime    TimestampType = 0
	LogAppendTime TimestampType = 1
)

// Errors of Next.
var (
	// ErrShort says that the bytes end inside a batch: at the end of a read from a log that is no damage.
	ErrShort = errors.New("record batch is cut short")
	// ErrCorrupt says that a batch or record breaks the format.
	ErrCorrupt = errors.New("record batch is damaged")
)

// crcTable is the table of CRC-32C; hash/crc32 makes it once, and uses the processor's instruction for it.
func crcTable() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) }

// Batch is a view over one whole record batch, as Next returns it. The accessors do not check lengths: a Batch from
// elsewhere must have HeaderBytes at least.
type Batch []byte

// Next splits the first batch off a run of batches, such as a Fetch answer or a piece of a segment. ErrShort when b
// holds less than the whole batch, ErrCorrupt when its length or magic cannot be; the CRC is not looked at. At the end,
// when b is empty, it returns ErrShort with an empty rest.
func Next(b []byte) (batch Batch, rest []byte, err error) {
	if len(b) < posCRC {
		return nil, b, ErrShort
	}
	length := int(int32(binary.BigEndian.Uint32(b[posLength:])))
	if length < HeaderBytes-prefixBytes || b[posMagic] != Magic {
		return nil, b, ErrCorrupt
	}
	if length > len(b)-prefixBytes {
		return nil, b, ErrShort
	}
	n := prefixBytes + length
	return Batch(b[:n:n]), b[n:], nil
}

// BaseOffset is the offset of the first record (or, after compaction, of the first that once was).
func (b Batch) BaseOffset() kafka.Offset {
	return kafka.Offset(binary.BigEndian.Uint64(b[posBaseOffset:]))
}

// LastOffset is the offset of the last record.
func (b Batch) LastOffset() kafka.Offset { return b.BaseOffset() + kafka.Offset(b.LastOffsetDelta()) }

// Length is the batch's length field: the bytes behind that field.
func (b Batch) Length() int32 { return int32(binary.BigEndian.Uint32(b[posLength:])) }

// PartitionLeaderEpoch is the epoch of the leader that appended the batch.
func (b Batch) PartitionLeaderEpoch() kafka.LeaderEpoch {
	return kafka.LeaderEpoch(binary.BigEndian.Uint32(b[posLeaderEpoch:]))
}

// Magic is the batch's format, 2 in every batch that is stored.
func (b Batch) Magic() int8 { return int8(b[posMagic]) }

// CRC is the checksum in the header.
func (b Batch) CRC() uint32 { return binary.BigEndian.Uint32(b[posCRC:]) }

// ComputeCRC computes the checksum that CRC should be.
func (b Batch) ComputeCRC() uint32 { return crc32.Checksum(b[crcStart:], crcTable()) }

// Attributes are the batch's flags.
func (b Batch) Attributes() Attributes {
	return Attributes(binary.BigEndian.Uint16(b[posAttributes:]))
}

// Codec is the compression of the records; it may be none of Kafka's.
func (b Batch) Codec() compress.Codec { return compress.Codec(b.Attributes() & codecMask) }

// IsTransactional reports whether the batch is part of a transaction.
func (b Batch) IsTransactional() bool { return b.Attributes()&TransactionalBit != 0 }

// IsControl reports whether the batch holds a marker that clients do not see.
func (b Batch) IsControl() bool { return b.Attributes()&ControlBit != 0 }

// HasDeleteHorizon reports whether the base timestamp is the time from which compaction may drop tombstones.
func (b Batch) HasDeleteHorizon() bool { return b.Attributes()&DeleteHorizonBit != 0 }

// TimestampType says what the times of the records are: with LogAppendTime every one is MaxTimestamp.
func (b Batch) TimestampType() TimestampType {
	if b.Attributes()&LogAppendTimeBit != 0 {
		return LogAppendTime
	}
	return CreateTime
}

// LastOffsetDelta is the distance of the last offset from the base offset.
func (b Batch) LastOffsetDelta() int32 { return int32(binary.BigEndian.Uint32(b[posLastOffsetDelta:])) }

// BaseTimestamp is what the records' timestamp deltas count from, in milliseconds.
func (b Batch) BaseTimestamp() int64 { return int64(binary.BigEndian.Uint64(b[posBaseTimestamp:])) }

// MaxTimestamp is the largest time of the records in milliseconds, or NoTimestamp.
func (b Batch) MaxTimestamp() int64 { return int64(binary.BigEndian.Uint64(b[posMaxTimestamp:])) }

// ProducerID is the idempotent producer's id, or kafka.NoProducerID.
func (b Batch) ProducerID() kafka.ProducerID {
	return kafka.ProducerID(binary.BigEndian.Uint64(b[posProducerID:]))
}

// ProducerEpoch is the producer's epoch, or kafka.NoEpoch.
func (b Batch) ProducerEpoch() kafka.ProducerEpoch {
	return kafka.ProducerEpoch(binary.BigEndian.Uint16(b[posProducerEpoch:]))
}

// BaseSequence is the sequence number of the first record, or NoSequence.
func (b Batch) BaseSequence() int32 { return int32(binary.BigEndian.Uint32(b[posBaseSequence:])) }

// LastSequence is the sequence number of the last record, or NoSequence. Sequences wrap from 2^31-1 to 0.
func (b Batch) LastSequence() int32 { return AddSequence(b.BaseSequence(), b.LastOffsetDelta()) }

// AddSequence moves a sequence number on by n >= 0, wrapping from 2^31-1 to 0; NoSequence stays.
func AddSequence(seq, n int32) int32 {
	if seq == NoSequence {
		return NoSequence
	}
	return int32((int64(seq) + int64(n)) & math.MaxInt32)
}

// NumRecords is the header's count of records.
func (b Batch) NumRecords() int32 { return int32(binary.BigEndian.Uint32(b[posNumRecords:])) }

// SetBaseOffset patches the base offset, which the CRC does not cover.
func (b Batch) SetBaseOffset(o kafka.Offset) {
	binary.BigEndian.PutUint64(b[posBaseOffset:], uint64(o))
}

// SetLeaderEpoch patches the partition leader epoch, which the CRC does not cover.
func (b Batch) SetLeaderEpoch(e kafka.LeaderEpoch) {
	binary.BigEndian.PutUint32(b[posLeaderEpoch:], uint32(e))
}

// SetMaxTimestamp patches the max timestamp and the time type, and the CRC with them.
func (b Batch) SetMaxTimestamp(t TimestampType, ms int64) {
	b.setTime(t, ms)
	b.SealCRC()
}

// setTime patches max timestamp and time type and leaves the CRC wrong.
func (b Batch) setTime(t TimestampType, ms int64) {
	attrs := b.Attributes() &^ LogAppendTimeBit
	if t == LogAppendTime {
		attrs |= LogAppendTimeBit
	}
	binary.BigEndian.PutUint16(b[posAttributes:], uint16(attrs))
	binary.BigEndian.PutUint64(b[posMaxTimestamp:], uint64(ms))
}

// SetProducer patches producer id, epoch and base sequence, and leaves the CRC wrong until SealCRC.
func (b Batch) SetProducer(id kafka.ProducerID, epoch kafka.ProducerEpoch, baseSequence int32) {
	binary.BigEndian.PutUint64(b[posProducerID:], uint64(id))
	binary.BigEndian.PutUint16(b[posProducerEpoch:], uint16(epoch))
	binary.BigEndian.PutUint32(b[posBaseSequence:], uint32(baseSequence))
}

// SealCRC computes the CRC anew and writes it.
func (b Batch) SealCRC() { binary.BigEndian.PutUint32(b[posCRC:], b.ComputeCRC()) }
