package record

import (
	"encoding/binary"

	"github.com/tidemark/tidemark/core/compress"
	"github.com/tidemark/tidemark/core/kafka"
)

// Builder builds batches, one after another, in a buffer of its own, which grows to the largest of them. With a codec
// it borrows an encoder for the length of Finish, so that many builders hold few encoders.
type Builder struct {
	codecs *compress.Codecs
	codec  compress.Codec
	level  int

	buf           []byte // the header, written by Finish, and the records
	n             int32
	baseTimestamp int64
	maxTimestamp  int64
	attrs         Attributes
	id            kafka.ProducerID
	epoch         kafka.ProducerEpoch
	baseSequence  int32
}

// NewBuilder makes a Builder for one codec and level (0: the codec's default); it must be Reset before its first
// record. codecs may be nil.
func NewBuilder(codecs *compress.Codecs, codec compress.Codec, level int) *Builder {
	return &Builder{codecs: codecs, codec: codec, level: level}
}

// Reset begins a batch. attrs takes TransactionalBit, ControlBit and LogAppendTimeBit; the codec's bits are added. The
// partition leader epoch is -1 and the base offset 0, as a producer sends them.
func (b *Builder) Reset(baseTimestamp int64, id kafka.ProducerID, epoch kafka.ProducerEpoch, baseSequence int32, attrs Attributes) {
	if cap(b.buf) < HeaderBytes {
		b.buf = make([]byte, HeaderBytes, 4096)
	}
	b.buf = b.buf[:HeaderBytes]
	b.n, b.maxTimestamp, b.baseTimestamp = 0, NoTimestamp, baseTimestamp
	b.id, b.epoch, b.baseSequence = id, epoch, baseSequence
	b.attrs = attrs&^codecMask | Attributes(b.codec)&codecMask
}

// Append adds a record; nil key or value is Kafka's null. The bytes are copied.
func (b *Builder) Append(timestamp int64, key, value []byte, headers ...Header) {
	b.buf = appendRecord(b.buf, timestamp-b.baseTimestamp, b.n, key, value, headers)
	b.n++
	b.maxTimestamp = max(b.maxTimestamp, timestamp)
}

// Records is the number of records so far.
func (b *Builder) Records() int { return int(b.n) }

// Bytes is the length of the batch so far, before compression.
func (b *Builder) Bytes() int { return len(b.buf) }

// BytesWith is what Bytes would be with one more record of that key, value and headers at that time.
func (b *Builder) BytesWith(timestamp int64, key, value []byte, headers ...Header) int {
	n := recordSize(timestamp-b.baseTimestamp, b.n, key, value, headers)
	return len(b.buf) + varintSize(int64(n)) + n
}

// Finish appends the finished batch to dst. The Builder must be Reset before its next batch. An error, and then dst as
// it was, comes only from a codec or level that cannot be.
func (b *Builder) Finish(dst []byte) ([]byte, error) {
	start := len(dst)
	if b.codec == compress.None {
		dst = append(dst, b.buf...)
	} else {
		dst = append(dst, b.buf[:HeaderBytes]...)
		var err error
		if dst, err = b.codecs.Append(dst, b.codec, b.level, b.buf[HeaderBytes:]); err != nil {
			return dst[:start], err
		}
	}
	h := Batch(dst[start:])
	binary.BigEndian.PutUint64(h[posBaseTimestamp:], uint64(b.baseTimestamp))
	h.seal(b.attrs, b.n, b.maxTimestamp, b.id, b.epoch, b.baseSequence)
	return dst, nil
}

// seal writes all of the header but the base timestamp, the CRC last.
func (b Batch) seal(attrs Attributes, n int32, maxTimestamp int64, id kafka.ProducerID, epoch kafka.ProducerEpoch, baseSequence int32) {
	b.SetBaseOffset(0)
	binary.BigEndian.PutUint32(b[posLength:], uint32(len(b)-prefixBytes))
	b.SetLeaderEpoch(kafka.NoLeaderEpoch)
	b[posMagic] = Magic
	binary.BigEndian.PutUint16(b[posAttributes:], uint16(attrs))
	binary.BigEndian.PutUint32(b[posLastOffsetDelta:], uint32(n-1))
	binary.BigEndian.PutUint64(b[posMaxTimestamp:], uint64(maxTimestamp))
	b.SetProducer(id, epoch, baseSequence)
	binary.BigEndian.PutUint32(b[posNumRecords:], uint32(n))
	b.SealCRC()
}

// recordSize is the value of a record's length field.
func recordSize(timestampDelta int64, offsetDelta int32, key, value []byte, headers []Header) int {
	n := 1 + varintSize(timestampDelta) + varintSize(int64(offsetDelta)) + fieldSize(key) + fieldSize(value)
	n += varintSize(int64(len(headers)))
	for i := range headers {
		h := &headers[i]
		n += varintSize(int64(len(h.Key))) + len(h.Key) + fieldSize(h.Value)
	}
	return n
}

func fieldSize(b []byte) int {
	if b == nil {
		return 1
	}
	return varintSize(int64(len(b))) + len(b)
}

// appendRecord appends one record.
func appendRecord(dst []byte, timestampDelta int64, offsetDelta int32, key, value []byte, headers []Header) []byte {
	dst = appendVarint(dst, int64(recordSize(timestampDelta, offsetDelta, key, value, headers)))
	dst = append(dst, 0)
	dst = appendVarint(dst, timestampDelta)
	dst = appendVarint(dst, int64(offsetDelta))
	dst = appendField(dst, key)
	dst = appendField(dst, value)
	dst = appendVarint(dst, int64(len(headers)))
	for i := range headers {
		h := &headers[i]
		dst = appendVarint(dst, int64(len(h.Key)))
		dst = append(dst, h.Key...)
		dst = appendField(dst, h.Value)
	}
	return dst
}

func appendField(dst, b []byte) []byte {
	if b == nil {
		return appendVarint(dst, -1)
	}
	return append(appendVarint(dst, int64(len(b))), b...)
}

// MaxRecordOverhead is the most that a record without headers takes beside its key and value.
const MaxRecordOverhead = 1 + maxVarint64Bytes + 4*maxVarint32Bytes + 1
