package compress

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/snappy"
)

// The framing of Java's xerial library, which Kafka's own producer writes:
//
//	0x82 "SNAPPY" 0x00 | version int32 | oldest compatible version int32 | chunks
//	chunk: length int32 | raw snappy block
//
// A header may come again between chunks, where streams were joined. Other clients write one raw block without framing.
const (
	xerialMagic       = "\x82SNAPPY\x00"
	xerialHeaderBytes = len(xerialMagic) + 8
)

// snappyRatio is more than the output that one byte of snappy can stand for: a copy of 64 bytes takes three.
const snappyRatio = 22

func isXerial(src []byte) bool {
	return len(src) >= xerialHeaderBytes && string(src[:len(xerialMagic)]) == xerialMagic
}

// appendSnappy writes one raw block, as librdkafka and franz-go do; every client reads it.
func appendSnappy(dst []byte, level int, src []byte) ([]byte, error) {
	if level != 0 {
		return dst, fmt.Errorf("snappy has no levels: %d", level)
	}
	bound := snappy.MaxEncodedLen(len(src))
	if bound < 0 {
		return dst, fmt.Errorf("snappy: %d bytes are too many for one block", len(src))
	}
	dst = grow(dst, bound)
	n := len(snappy.Encode(dst[len(dst):len(dst)+bound], src))
	return dst[:len(dst)+n], nil
}

// appendRawSnappy decodes one raw block behind dst. The length that the block claims is believed only within limit and
// within what so many bytes can hold. Snappy's own operations alone are taken: the decoder
// would also take the repeats of S2, which no other client reads.
func appendRawSnappy(dst, src []byte, limit int) ([]byte, error) {
	n, err := snappy.DecodedLen(src)
	switch {
	case err != nil:
		return dst, wrap(Snappy, err)
	case n > limit:
		return dst, wrap(Snappy, ErrTooLarge)
	case n > snappyRatio*len(src):
		return dst, wrap(Snappy, fmt.Errorf("%d bytes cannot hold the %d that they claim", len(src), n))
	case hasRepeats(src):
		return dst, wrap(Snappy, errRepeat)
	}
	dst = grow(dst, n)
	if _, err := snappy.Decode(dst[len(dst):len(dst)+n], src); err != nil {
		return dst, wrap(Snappy, err)
	}
	return dst[:len(dst)+n], nil
}

// errRepeat is the error for S2 where snappy was promised.
var errRepeat = errors.New("a copy with offset 0, as S2 writes it")

// hasRepeats reports whether a block holds copies with offset 0, which mean a repeat in S2 and nothing in snappy. This
// pass and the assembly of Decode together take half the time of the library's DecodeStrict.
func hasRepeats(src []byte) bool {
	_, i := binary.Uvarint(src)
	for i = max(i, 0); i < len(src); {
		tag := int(src[i])
		switch tag & 3 {
		case 0: // literal: its length follows in 0 to 4 bytes
			n, extra := tag>>2, 0
			if n >= 60 {
				if extra = n - 59; i+extra >= len(src) {
					return false // cut short: Decode says so
				}
				n = 0
				for k := extra; k > 0; k-- {
					n = n<<8 | int(src[i+k])
				}
			}
			i += 1 + extra + n + 1
		case 1:
			if tag&0xe0 == 0 && i+1 < len(src) && src[i+1] == 0 {
				return true
			}
			i += 2
		case 2:
			i += 3
		case 3:
			i += 5
		}
	}
	return false
}

// snappyStream decodes a xerial stream chunk by chunk, or one raw block.
type snappyStream struct {
	src   []byte
	limit int
	raw   bool
	buf   []byte
}

// snappyKeepBytes is the largest buffer that a resting snappyStream keeps.
const snappyKeepBytes = 4 << 20

func (s *snappyStream) reset(src []byte, limit int) error {
	s.src, s.limit = src, limit
	s.raw = !isXerial(src)
	if s.raw && len(src) == 0 {
		return io.ErrUnexpectedEOF
	}
	return nil
}

func (s *snappyStream) release() {
	s.src = nil
	if cap(s.buf) > snappyKeepBytes {
		s.buf = nil
	}
}

func (s *snappyStream) next() ([]byte, error) {
	block := s.src
	if s.raw {
		s.src = nil
	} else {
		for isXerial(s.src) {
			s.src = s.src[xerialHeaderBytes:]
		}
		if len(s.src) == 0 {
			return nil, io.EOF
		}
		if len(s.src) < 4 {
			return nil, io.ErrUnexpectedEOF
		}
		n := int(int32(binary.BigEndian.Uint32(s.src)))
		if n <= 0 || n > len(s.src)-4 {
			return nil, fmt.Errorf("chunk of %d bytes with %d left", n, len(s.src)-4)
		}
		block, s.src = s.src[4:4+n], s.src[4+n:]
	}
	if len(block) == 0 {
		return nil, io.EOF
	}
	out, err := appendRawSnappy(s.buf[:0], block, s.limit)
	if err != nil {
		return nil, err
	}
	s.buf = out
	return out, nil
}
