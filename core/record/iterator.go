package record

import (
	"errors"

	"github.com/tidemark/tidemark/core/compress"
)

// Header is one header of a record. A nil Value is Kafka's null.
type Header struct {
	Key   string
	Value []byte
}

// Record is one record of a batch. Key, Value and Headers are views, valid until the Iterator moves on to another
// batch or is closed; a nil Key or Value is Kafka's null.
type Record struct {
	OffsetDelta    int32
	TimestampDelta int64
	Key, Value     []byte
	Headers        []Header
}

// Iterator walks the records of a batch.
type Iterator struct{}

// Records opens the batch for reading. Compressed records are decompressed whole, maxBytes at most (ErrTooLarge of
// package compress); codecs may be nil. The CRC is not looked at.
func (b Batch) Records(codecs *compress.Codecs, maxBytes int) (*Iterator, error) {
	return nil, errors.ErrUnsupported
}

// Reset opens another batch with the same buffers, for readers that allocate nothing.
func (it *Iterator) Reset(b Batch, codecs *compress.Codecs, maxBytes int) error {
	return errors.ErrUnsupported
}

// Next moves to the next record and reports whether there is one.
func (it *Iterator) Next() bool { return false }

// Record is the current record. Its Headers slice is reused by the next call of Next.
func (it *Iterator) Record() *Record { return nil }

// Err is why Next stopped early, or nil at the batch's end.
func (it *Iterator) Err() error { return nil }
