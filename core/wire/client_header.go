package wire

import (
	"encoding/binary"
	"errors"
)

// The client's half of the hot codecs (client_*.go): requests are appended, answers are read as views over the frame.
// A request frame is
//
//	length int32 | api key int16 | version int16 | correlation id int32 | client id nullable string | [tags] | body
//
// and an answer's is
//
//	length int32 | correlation id int32 | [tags] | body
//
// with the tags in flexible versions only (Produce from 9, Fetch from 12).

// errShortAnswer is returned for an answer that ends before its last field.
var errShortAnswer = errors.New("answer is shorter than its fields say")

// ClientHeader is what a client says in front of each request.
type ClientHeader struct {
	Version       int16
	CorrelationID int32
	ClientID      string
}

// append writes the frame's length as 0 (endFrame patches it) and the request header.
func (h ClientHeader) append(dst []byte, key int16, flexible bool) []byte {
	dst = append(dst, 0, 0, 0, 0)
	dst = binary.BigEndian.AppendUint16(dst, uint16(key))
	dst = binary.BigEndian.AppendUint16(dst, uint16(h.Version))
	dst = binary.BigEndian.AppendUint32(dst, uint32(h.CorrelationID))
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(h.ClientID)))
	dst = append(dst, h.ClientID...)
	if flexible {
		dst = append(dst, 0)
	}
	return dst
}

// endFrame writes the length of the frame that begins at start; more bytes follow it from elsewhere.
func endFrame(dst []byte, start, more int) {
	binary.BigEndian.PutUint32(dst[start:], uint32(len(dst)-start-4+more))
}

func clientAppendString(dst []byte, s string, flexible bool) []byte {
	if flexible {
		dst = binary.AppendUvarint(dst, uint64(len(s))+1)
	} else {
		dst = binary.BigEndian.AppendUint16(dst, uint16(len(s)))
	}
	return append(dst, s...)
}

func clientAppendArrayLen(dst []byte, n int, flexible bool) []byte {
	if flexible {
		return binary.AppendUvarint(dst, uint64(n)+1)
	}
	return binary.BigEndian.AppendUint32(dst, uint32(n))
}

// answerReader reads an answer's fields in order; after the first shortage all that follows is zero and bad is set.
type answerReader struct {
	b        []byte
	flexible bool
	bad      bool
}

func (r *answerReader) take(n int) []byte {
	if r.bad || n < 0 || n > len(r.b) {
		r.bad = true
		return nil
	}
	v := r.b[:n:n]
	r.b = r.b[n:]
	return v
}

func (r *answerReader) int16() int16 {
	if v := r.take(2); v != nil {
		return int16(binary.BigEndian.Uint16(v))
	}
	return 0
}

func (r *answerReader) int32() int32 {
	if v := r.take(4); v != nil {
		return int32(binary.BigEndian.Uint32(v))
	}
	return 0
}

func (r *answerReader) int64() int64 {
	if v := r.take(8); v != nil {
		return int64(binary.BigEndian.Uint64(v))
	}
	return 0
}

func (r *answerReader) uvarint() uint64 {
	v, n := binary.Uvarint(r.b)
	if r.bad || n <= 0 {
		r.bad = true
		return 0
	}
	r.b = r.b[n:]
	return v
}

// bytes reads a nullable byte string with a 4-byte or compact length; nil is null.
func (r *answerReader) bytes() []byte {
	n := 0
	if r.flexible {
		n = int(min(r.uvarint(), 1<<31)) - 1
	} else {
		n = int(r.int32())
	}
	if n < 0 {
		return nil
	}
	return r.take(n)
}

// string reads a nullable string with a 2-byte or compact length; nil is null.
func (r *answerReader) string() []byte {
	n := 0
	if r.flexible {
		n = int(min(r.uvarint(), 1<<31)) - 1
	} else {
		n = int(r.int16())
	}
	if n < 0 {
		return nil
	}
	return r.take(n)
}

// arrayLen reads an array's length; null is 0. An array cannot have more elements than bytes are left.
func (r *answerReader) arrayLen() int {
	n := 0
	if r.flexible {
		n = int(min(r.uvarint(), 1<<31)) - 1
	} else {
		n = int(r.int32())
	}
	if n > len(r.b) {
		r.bad = true
		return 0
	}
	return max(n, 0)
}

// eachTag calls fn with each tagged field; fn may be nil.
func (r *answerReader) eachTag(fn func(tag uint64, v []byte)) {
	if !r.flexible {
		return
	}
	for n := r.uvarint(); n > 0 && !r.bad; n-- {
		tag := r.uvarint()
		v := r.take(int(min(r.uvarint(), 1<<31)))
		if fn != nil && !r.bad {
			fn(tag, v)
		}
	}
}

// answerBody skips the response header (the correlation id has been read to find the request) and returns a reader of the
// body.
func answerBody(b []byte, flexible bool) answerReader {
	r := answerReader{b: b, flexible: flexible}
	r.eachTag(nil)
	return r
}
