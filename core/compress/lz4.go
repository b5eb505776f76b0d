package compress

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/pierrec/lz4/v4"
)

// An lz4 frame, all integers little-endian (lz4_Frame_format.md, version 1.6):
//
//	magic uint32 | FLG | BD | content size uint64, if in FLG | dictionary id uint32, if in FLG | header checksum
//	block: size uint32, high bit: stored | bytes | checksum uint32, if in FLG
//	0 uint32 | content checksum uint32, if in FLG
//
// The frames are walked here and only the blocks are the library's, because its Reader allocates for each frame and
// takes blocks of 4 MiB at its word. Kafka's own decoder skips the content checksum too: the batch has a CRC.
const (
	lz4Magic         = 0x184D2204
	lz4FlagVersion   = 0xC0 // the two high bits, which must be 01
	lz4FlagIndep     = 0x20
	lz4FlagBlockSum  = 0x10
	lz4FlagSize      = 0x08
	lz4FlagSum       = 0x04
	lz4FlagReserved  = 0x02
	lz4FlagDict      = 0x01
	lz4Stored        = 1 << 31
	lz4Window        = 64 << 10
	lz4BlockBytes    = 64 << 10 // of the blocks written: as Kafka's
	lz4Ratio         = 255      // output that a byte of lz4 can stand for, but for the first few
	lz4DefaultLevel  = 9        // Kafka's name for the fast compressor
	lz4MaxLevel      = 17
	lz4KeepBytes     = 1 << 20
	lz4FrameHeader   = "\x04\x22\x4d\x18\x60\x40\x82" // independent blocks of 64 KiB, no sizes, no checksums
	lz4DepthShift    = 8                              // pierrec's Level1 is 1 << 9
	lz4DeepestDepths = 9
)

var (
	errLz4Header  = errors.New("not an lz4 frame header")
	errLz4Sum     = errors.New("checksum does not match")
	errLz4Size    = errors.New("content size does not match")
	errLz4Trailer = errors.New("bytes behind the frame's end")
)

func (c *Codecs) appendLz4(dst []byte, level int, src []byte) ([]byte, error) {
	if level < 0 || level > lz4MaxLevel {
		return dst, errLevel(Lz4, level, 1, lz4MaxLevel)
	}
	if level == 0 || level == lz4DefaultLevel {
		z, ok := c.lz4Fast.Get().(*lz4.Compressor)
		if !ok {
			z = &lz4.Compressor{}
		}
		dst = appendLz4Frame(dst, z, src)
		c.lz4Fast.Put(z)
		return dst, nil
	}
	z, ok := c.lz4High.Get().(*lz4.CompressorHC)
	if !ok {
		z = &lz4.CompressorHC{}
	}
	z.Level = 1 << (lz4DepthShift + min(level, lz4DeepestDepths))
	dst = appendLz4Frame(dst, z, src)
	c.lz4High.Put(z)
	return dst, nil
}

// lz4Blocks is either of the library's block compressors.
type lz4Blocks interface {
	CompressBlock(src, dst []byte) (int, error)
}

func appendLz4Frame(dst []byte, z lz4Blocks, src []byte) []byte {
	dst = append(dst, lz4FrameHeader...)
	for len(src) > 0 {
		block := src[:min(len(src), lz4BlockBytes)]
		src = src[len(block):]
		dst = grow(dst, 4+len(block))
		head, body := dst[len(dst):len(dst)+4], dst[len(dst)+4:len(dst)+4+len(block)]
		n, err := z.CompressBlock(block, body)
		size := uint32(n)
		if err != nil || n == 0 || n >= len(block) { // not worth it, or no room
			n = copy(body, block)
			size = uint32(n) | lz4Stored
		}
		binary.LittleEndian.PutUint32(head, size)
		dst = dst[:len(dst)+4+n]
	}
	return append(dst, 0, 0, 0, 0)
}

// lz4Stream decodes one frame block by block, blocks that refer to earlier ones included (Python's lz4 writes them).
type lz4Stream struct {
	src      []byte
	flags    byte
	blockMax int
	size     uint64 // of the content, if flags has it
	out      uint64
	buf      []byte
	window   []byte // the last 64 KiB of output, for linked blocks
}

func (s *lz4Stream) reset(src []byte, limit int) error {
	s.out, s.window = 0, s.window[:0]
	if len(src) < len(lz4FrameHeader) || binary.LittleEndian.Uint32(src) != lz4Magic {
		return errLz4Header
	}
	s.flags = src[4]
	bd := src[5]
	sizeID := bd >> 4
	if s.flags&lz4FlagVersion != 0x40 || s.flags&(lz4FlagReserved|lz4FlagDict) != 0 || bd&0x0F != 0 || sizeID < 4 || sizeID > 7 {
		return errLz4Header
	}
	s.blockMax = 1 << (8 + 2*sizeID)
	end := 6
	if s.flags&lz4FlagSize != 0 {
		if end += 8; len(src) <= end {
			return errLz4Header
		}
		if s.size = binary.LittleEndian.Uint64(src[6:]); s.size > uint64(max(limit, 0)) {
			return ErrTooLarge
		}
	}
	if byte(xxh32(src[4:end])>>8) != src[end] {
		return errLz4Header
	}
	s.src = src[end+1:]
	return nil
}

func (s *lz4Stream) release() {
	s.src = nil
	if cap(s.buf) > lz4KeepBytes {
		s.buf = nil
	}
}

func (s *lz4Stream) next() ([]byte, error) {
	if len(s.src) < 4 {
		return nil, io.ErrUnexpectedEOF
	}
	word := binary.LittleEndian.Uint32(s.src)
	s.src = s.src[4:]
	if word == 0 {
		return nil, s.finish()
	}
	n := int(word &^ lz4Stored)
	tail := 0
	if s.flags&lz4FlagBlockSum != 0 {
		tail = 4
	}
	if n > s.blockMax || n+tail > len(s.src) {
		return nil, fmt.Errorf("block of %d bytes with %d left, %d allowed", n, len(s.src), s.blockMax)
	}
	block := s.src[:n]
	if tail > 0 && binary.LittleEndian.Uint32(s.src[n:]) != xxh32(block) {
		return nil, errLz4Sum
	}
	s.src = s.src[n+tail:]
	piece := block
	if word&lz4Stored == 0 {
		var err error
		if piece, err = s.uncompress(block); err != nil {
			return nil, err
		}
	}
	if s.flags&lz4FlagIndep == 0 {
		s.remember(piece)
	}
	s.out += uint64(len(piece))
	return piece, nil
}

// uncompress decodes one block into buf, which is made no larger than the block can fill.
func (s *lz4Stream) uncompress(block []byte) ([]byte, error) {
	room := min(s.blockMax, lz4Ratio*len(block)+64)
	if cap(s.buf) < room {
		s.buf = make([]byte, room)
	}
	var n int
	var err error
	if s.flags&lz4FlagIndep == 0 && len(s.window) > 0 {
		n, err = lz4.UncompressBlockWithDict(block, s.buf[:room], s.window)
	} else {
		n, err = lz4.UncompressBlock(block, s.buf[:room])
	}
	if err != nil {
		return nil, err
	}
	return s.buf[:n], nil
}

// remember keeps the last 64 KiB of the output.
func (s *lz4Stream) remember(piece []byte) {
	if len(piece) >= lz4Window {
		s.window = append(s.window[:0], piece[len(piece)-lz4Window:]...)
		return
	}
	if drop := len(s.window) + len(piece) - lz4Window; drop > 0 {
		s.window = s.window[:copy(s.window, s.window[drop:])]
	}
	s.window = append(s.window, piece...)
}

// finish checks what follows the last block.
func (s *lz4Stream) finish() error {
	if s.flags&lz4FlagSum != 0 {
		if len(s.src) < 4 {
			return io.ErrUnexpectedEOF
		}
		s.src = s.src[4:]
	}
	switch {
	case len(s.src) > 0:
		return errLz4Trailer
	case s.flags&lz4FlagSize != 0 && s.size != s.out:
		return errLz4Size
	}
	return io.EOF
}
