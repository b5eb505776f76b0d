package record

import (
	"fmt"
	"math"

	"github.com/tidemark/tidemark/core/compress"
)

// EachTime tells visit of each record's offset delta and time, in order, until it returns false or the records end. Keys, values
// and headers are passed over as they are decompressed, however long: it needs the memory that a compress.Reader needs.
// Of a record it checks no more than that its length fits; codecs may be nil. The CRC is not looked at.
//
// An error is ErrCorrupt of this package, or what the codec says of its input.
func (b Batch) EachTime(codecs *compress.Codecs, visit func(offsetDelta int32, timestamp int64) bool) error {
	if len(b) < HeaderBytes {
		return ErrShort
	}
	n := b.NumRecords()
	if n < 0 {
		return fmt.Errorf("%w: %d records", ErrCorrupt, n)
	}
	if n == 0 {
		return nil
	}
	r, err := codecs.NewReader(b.Codec(), b[HeaderBytes:], math.MaxInt32) // the most that any topic takes of a batch
	if err != nil {
		return err
	}
	defer r.Close()
	s := cursor{r: r}
	for k := range n {
		offsetDelta, timestampDelta, ok := s.times()
		if s.err != nil && s.err != errEnds {
			return s.err
		}
		if !ok {
			return fmt.Errorf("%w: record %d of %d does not fit the bytes that are there", ErrCorrupt, k, n)
		}
		if !visit(offsetDelta, b.BaseTimestamp()+timestampDelta) {
			return nil
		}
	}
	return nil
}

// times passes one record.
func (s *cursor) times() (offsetDelta int32, timestampDelta int64, ok bool) {
	size, ok := s.varint(maxVarint32Bytes)
	if !ok || size < 1 || size > math.MaxInt32 {
		return 0, 0, false
	}
	s.left = int(size)
	s.skip(1) // attributes
	timestampDelta, ok1 := s.varint(maxVarint64Bytes)
	delta, ok2 := s.varint(maxVarint32Bytes)
	if !ok1 || !ok2 || s.left < 0 || !s.skip(s.left) {
		return 0, 0, false
	}
	return int32(delta), timestampDelta, true
}
