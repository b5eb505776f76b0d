package record

import (
	"errors"
	"io"
	"math"

	"github.com/tidemark/tidemark/core/compress"
)

// errEnds is a cursor's error at the end of data that decompressed well.
var errEnds = errors.New("they end too early")

// cursor reads fields from decompressed pieces, which end anywhere. Its first error stays, and reads after it give
// zeros, so that a record is checked once.
type cursor struct {
	r     *compress.Reader
	piece []byte // unread part of the current piece
	left  int    // bytes that the current record still has
	err   error
}

// fill gets the next piece when the last one is used up, and reports whether there are bytes.
func (s *cursor) fill() bool {
	if len(s.piece) > 0 {
		return true
	}
	if s.err != nil {
		return false
	}
	if s.piece, s.err = s.r.Next(); s.err != nil {
		s.piece = nil
		if s.err == io.EOF {
			s.err = errEnds
		}
		return false
	}
	return true
}

// varint reads a zigzag varint of at most maxBytes bytes; ok is false when there is none.
func (s *cursor) varint(maxBytes int) (v int64, ok bool) {
	if len(s.piece) >= maxBytes {
		u, n := uvarint(s.piece, 0, maxBytes)
		if n < 0 {
			return 0, false
		}
		s.piece = s.piece[n:]
		s.left -= n
		return int64(u>>1) ^ -int64(u&1), true
	}
	var held [maxVarint64Bytes]byte
	for n := 0; n < maxBytes && s.fill(); {
		c := s.piece[0]
		s.piece = s.piece[1:]
		s.left--
		held[n] = c
		if n++; c < 0x80 {
			u, end := uvarint(held[:n], 0, maxBytes)
			return int64(u>>1) ^ -int64(u&1), end > 0
		}
	}
	return 0, false
}

// length reads a field's length, low at least, which must fit the record; null is 0.
func (s *cursor) length(low int64) (n int, null, ok bool) {
	v, ok := s.varint(maxVarint32Bytes)
	if !ok || v < low || v > int64(s.left) {
		return 0, false, false
	}
	return max(int(v), 0), v < 0, true
}

// skip passes n bytes, which length has checked against the record.
func (s *cursor) skip(n int) bool {
	s.left -= n
	for n > 0 {
		if !s.fill() {
			return false
		}
		step := min(n, len(s.piece))
		s.piece = s.piece[step:]
		n -= step
	}
	return true
}

// field passes a length and as many bytes.
func (s *cursor) field(low int64) (null, ok bool) {
	n, null, ok := s.length(low)
	return null, ok && s.skip(n)
}

// finish checks that nothing follows the last record, and that the compressed data ends undamaged.
func (s *cursor) finish() error {
	if len(s.piece) > 0 {
		return errTrailing(len(s.piece))
	}
	switch piece, err := s.r.Next(); {
	case err == nil:
		return errTrailing(len(piece))
	case err != io.EOF:
		return invalid("the records cannot be decompressed: %w", err)
	}
	return nil
}

// streamed checks record k, as plain does. An error of the decompression is left in the cursor.
func (w *walk) streamed(s *cursor, k int32) error {
	size, ok := s.varint(maxVarint32Bytes)
	if !ok || size < 1 || size > w.maxRecord {
		if size > w.maxRecord && size <= math.MaxInt32 {
			return errLarge(k, size, w.maxRecord)
		}
		return errFraming(k, "length")
	}
	s.left = int(size)
	s.skip(1) // attributes
	timestampDelta, ok1 := s.varint(maxVarint64Bytes)
	offsetDelta, ok2 := s.varint(maxVarint32Bytes)
	noKey, ok3 := s.field(-1)
	if !ok1 || !ok2 || !ok3 {
		return errFraming(k, "key")
	}
	if _, ok := s.field(-1); !ok {
		return errFraming(k, "value")
	}
	headers, ok := s.varint(maxVarint32Bytes)
	if !ok || headers < 0 || headers > int64(s.left) {
		return errFraming(k, "headers")
	}
	for ; headers > 0; headers-- {
		_, ok1 := s.field(0)
		_, ok2 := s.field(-1)
		if !ok1 || !ok2 {
			return errFraming(k, "headers")
		}
	}
	if s.left != 0 {
		return errFraming(k, "length")
	}
	if offsetDelta != int64(k) {
		return errDelta(k, int32(offsetDelta))
	}
	if w.requireKeys && noKey {
		return errNoKey(k)
	}
	return w.observe(k, timestampDelta)
}
