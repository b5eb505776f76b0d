package wire

import (
	"encoding/binary"
	"math"

	"github.com/tidemark/tidemark/core/kafka"
)

// reader takes fields off the front of a request. The first field that is not there sets bad; after it every field is
// zero, so that callers check once at the end of each loop.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) take(n int) []byte {
	if n < 0 || n > len(r.b) {
		r.bad, r.b = true, nil
		return nil
	}
	v := r.b[:n:n]
	r.b = r.b[n:]
	return v
}

func (r *reader) int8() int8 {
	if len(r.b) < 1 {
		r.bad, r.b = true, nil
		return 0
	}
	v := int8(r.b[0])
	r.b = r.b[1:]
	return v
}

func (r *reader) int16() int16 {
	if len(r.b) < 2 {
		r.bad, r.b = true, nil
		return 0
	}
	v := int16(binary.BigEndian.Uint16(r.b))
	r.b = r.b[2:]
	return v
}

func (r *reader) int32() int32 {
	if len(r.b) < 4 {
		r.bad, r.b = true, nil
		return 0
	}
	v := int32(binary.BigEndian.Uint32(r.b))
	r.b = r.b[4:]
	return v
}

func (r *reader) int64() int64 {
	if len(r.b) < 8 {
		r.bad, r.b = true, nil
		return 0
	}
	v := int64(binary.BigEndian.Uint64(r.b))
	r.b = r.b[8:]
	return v
}

func (r *reader) uuid() (id kafka.TopicID) {
	copy(id[:], r.take(16))
	return id
}

// uvarint takes an unsigned varint of at most 32 bits.
func (r *reader) uvarint() uint32 {
	var v uint64
	for i := 0; i < 5; i++ {
		if i >= len(r.b) {
			break
		}
		c := r.b[i]
		v |= uint64(c&0x7f) << (7 * i)
		if c < 0x80 {
			r.b = r.b[i+1:]
			if v > 0xffffffff {
				break
			}
			return uint32(v)
		}
	}
	r.bad, r.b = true, nil
	return 0
}

// length takes the length of a string or of bytes; -1 is null.
func (r *reader) compactLength() int { return int(r.uvarint()) - 1 }

// nullableString takes a string; nil is null. A compact one may be no longer than the older kind can, as in Kafka.
func (r *reader) nullableString(flexible bool) []byte {
	var n int
	if flexible {
		if n = r.compactLength(); n > math.MaxInt16 {
			n = -2
		}
	} else {
		n = int(r.int16())
	}
	if r.bad || n == -1 {
		return nil
	}
	return r.take(n)
}

// string takes a string that must not be null.
func (r *reader) string(flexible bool) []byte {
	s := r.nullableString(flexible)
	if s == nil {
		r.bad = true
	}
	return s
}

// nullableBytes takes bytes; nil is null.
func (r *reader) nullableBytes(flexible bool) []byte {
	var n int
	if flexible {
		n = r.compactLength()
	} else {
		n = int(r.int32())
	}
	if r.bad || n == -1 {
		return nil
	}
	return r.take(n)
}

// count takes the length of an array whose elements take at least minBytes each; null counts as empty.
func (r *reader) count(flexible bool, minBytes int) int {
	var n int
	if flexible {
		n = r.compactLength()
	} else {
		n = int(r.int32())
	}
	switch {
	case r.bad || n == -1:
		return 0
	case n < -1 || n > MaxEntries || n > len(r.b)/minBytes:
		r.bad, r.b = true, nil
		return 0
	}
	return n
}

// skipTags takes tagged fields and forgets them.
func (r *reader) skipTags(flexible bool) {
	if !flexible {
		return
	}
	n := r.uvarint()
	for ; n > 0 && !r.bad; n-- {
		r.uvarint()
		r.take(int(r.uvarint()))
	}
}

// tag takes the next tagged field's number and value.
func (r *reader) tag() (number uint32, value []byte) {
	number = r.uvarint()
	return number, r.take(int(r.uvarint()))
}
