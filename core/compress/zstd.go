package compress

import (
	"encoding/binary"
	"errors"
	"io"

	"github.com/klauspost/compress/zstd"
)

const (
	zstdMagic = 0xFD2FB528
	// zstdMaxWindow is the largest window that a decoder sets up, 8 MiB: what the levels up to 19 use.
	zstdMaxWindow     = 8 << 20
	zstdMaxWindowByte = 13 << 3 // the same in the frame's window descriptor: 2^(10+13) bytes
	zstdSingleSegment = 0x20    // in the frame header's descriptor
	zstdEncoderWindow = 2 << 20 // as zstd's level 3
	zstdDefaultLevel  = 3       // Kafka's compression.zstd.level
	zstdMinLevel      = -131072
	zstdMaxLevel      = 22
	zstdPiece         = 32 << 10
)

func (c *Codecs) appendZstd(dst []byte, level int, src []byte) ([]byte, error) {
	if level < zstdMinLevel || level > zstdMaxLevel {
		return dst, errLevel(Zstd, level, zstdMinLevel, zstdMaxLevel)
	}
	if level == 0 {
		level = zstdDefaultLevel
	}
	speed := zstd.EncoderLevelFromZstd(level)
	pool := &c.zstdWriters[speed]
	e, ok := pool.Get().(*zstd.Encoder)
	if !ok {
		var err error
		e, err = zstd.NewWriter(nil, zstd.WithEncoderLevel(speed), zstd.WithEncoderConcurrency(1),
			zstd.WithWindowSize(zstdEncoderWindow), zstd.WithEncoderCRC(false), zstd.WithZeroFrames(true))
		if err != nil {
			return dst, err
		}
	}
	dst = e.EncodeAll(src, dst)
	pool.Put(e)
	return dst, nil
}

// appendWholeZstd decodes a frame that tells its size straight into dst, which saves the window. ok is false when the
// frame does not, and must be streamed.
func (c *Codecs) appendWholeZstd(dst, src []byte, limit int) (out []byte, ok bool, err error) {
	var h zstd.Header
	if h.Decode(src) != nil || h.Skippable || !h.HasFCS || h.WindowSize > zstdMaxWindow || h.FrameContentSize > zstdMaxWindow {
		return dst, false, nil
	}
	size := int(h.FrameContentSize)
	if size > limit {
		return dst, true, wrap(Zstd, ErrTooLarge)
	}
	d, found := c.zstdWhole.Get().(*zstd.Decoder)
	if !found {
		d, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxWindow(zstdMaxWindow), zstd.WithDecodeAllCapLimit(true))
		if err != nil {
			return dst, true, err
		}
	}
	dst = grow(dst, size)
	out, err = d.DecodeAll(src, dst[:len(dst):len(dst)+size])
	c.zstdWhole.Put(d)
	switch {
	case errors.Is(err, zstd.ErrDecoderSizeExceeded):
		return dst, false, nil // another frame follows
	case err != nil:
		return dst, true, wrap(Zstd, err)
	}
	return dst[:len(out)], true, nil
}

// zstdStream decodes zstd frames, one after another, to the end of the input.
type zstdStream struct {
	src zstdSource
	d   *zstd.Decoder
	buf []byte
}

// newZstdStream sets the decoder up without goroutines of its own: the collector may then take it out of its pool.
func newZstdStream() (*zstdStream, error) {
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxWindow(zstdMaxWindow), zstd.WithDecodeBuffersBelow(0))
	if err != nil {
		return nil, err
	}
	return &zstdStream{d: d, buf: make([]byte, zstdPiece)}, nil
}

func (s *zstdStream) reset(src []byte, _ int) error {
	if len(src) == 0 {
		return io.ErrUnexpectedEOF
	}
	s.src = newZstdSource(src)
	return s.d.Reset(&s.src)
}

func (s *zstdStream) release() {
	_ = s.d.Reset(nil) // an error only of a decoder that was closed, which these never are
	s.src = zstdSource{}
}

func (s *zstdStream) next() ([]byte, error) {
	n, err := s.d.Read(s.buf)
	if n > 0 {
		return s.buf[:n], nil // an error comes back at the next call
	}
	if errors.Is(err, zstd.ErrWindowSizeExceeded) || errors.Is(err, zstd.ErrDecoderSizeExceeded) {
		return nil, errors.Join(ErrTooLarge, err)
	}
	return nil, err
}

// zstdSource reads a frame whose window descriptor is lowered to zstdMaxWindow. A streaming encoder at level 20 to 22
// announces up to 128 MiB, however little follows, and the decoder would allocate them. A frame that really refers
// back over more than 8 MiB then fails as damaged.
type zstdSource struct {
	src    []byte
	pos    int
	window byte // what stands at zstdWindowPos
}

const zstdWindowPos = 5

func newZstdSource(src []byte) zstdSource {
	s := zstdSource{src: src}
	if len(src) > zstdWindowPos {
		s.window = src[zstdWindowPos]
		if binary.LittleEndian.Uint32(src) == zstdMagic && src[4]&zstdSingleSegment == 0 && s.window > zstdMaxWindowByte {
			s.window = zstdMaxWindowByte
		}
	}
	return s
}

// Read copies on as io.Reader asks.
func (s *zstdSource) Read(p []byte) (int, error) {
	if s.pos == len(s.src) {
		return 0, io.EOF
	}
	n := copy(p, s.src[s.pos:])
	if at := zstdWindowPos - s.pos; at >= 0 && at < n {
		p[at] = s.window
	}
	s.pos += n
	return n, nil
}
