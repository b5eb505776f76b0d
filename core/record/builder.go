package record

import (
	"errors"

	"github.com/tidemark/tidemark/core/compress"
	"github.com/tidemark/tidemark/core/kafka"
)

// Builder builds batches, one after another, in a buffer of its own.
type Builder struct{}

// NewBuilder makes a Builder for one codec and level (0: the codec's default). codecs may be nil.
func NewBuilder(codecs *compress.Codecs, codec compress.Codec, level int) *Builder { return &Builder{} }

// Reset begins a batch. attrs takes TransactionalBit, ControlBit and LogAppendTimeBit; the codec's bits are added. The
// partition leader epoch is -1 and the base offset 0, as a producer sends them.
func (b *Builder) Reset(baseTimestamp int64, id kafka.ProducerID, epoch kafka.ProducerEpoch, baseSequence int32, attrs Attributes) {
}

// Append adds a record; nil key or value is Kafka's null. The bytes are copied.
func (b *Builder) Append(timestamp int64, key, value []byte, headers ...Header) {}

// Records is the number of records so far.
func (b *Builder) Records() int { return 0 }

// Bytes is the length of the batch so far, before compression.
func (b *Builder) Bytes() int { return 0 }

// Finish appends the finished batch to dst. The Builder must be Reset before its next batch.
func (b *Builder) Finish(dst []byte) ([]byte, error) { return dst, errors.ErrUnsupported }
