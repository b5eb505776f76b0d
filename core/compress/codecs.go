package compress

import (
	"errors"
	"fmt"
	"slices"
	"sync"
)

// Codecs keeps encoders and decoders between calls, in pools that the garbage collector empties when they rest. The
// zero value is ready; a nil *Codecs works and keeps nothing.
type Codecs struct {
	readers     [Zstd + 1]sync.Pool // *Reader
	gzipWriters [10]sync.Pool       // *gzipWriter by level, 0 the default
	lz4Fast     sync.Pool           // *lz4.Compressor
	lz4High     sync.Pool           // *lz4.CompressorHC
	zstdWriters [5]sync.Pool        // *zstd.Encoder by zstd.EncoderLevel
	zstdWhole   sync.Pool           // *zstd.Decoder for DecodeAll
}

// New makes an empty Codecs.
func New() *Codecs { return &Codecs{} }

// Append compresses src behind dst and returns the longer slice. Level 0 is the codec's default; otherwise it is on the
// scale of Kafka's compression.gzip.level (1 to 9), compression.lz4.level (1 to 17), compression.zstd.level (-131072 to
// 22); snappy has none. dst and src must not overlap.
func (c *Codecs) Append(dst []byte, codec Codec, level int, src []byte) ([]byte, error) {
	if c == nil {
		c = New()
	}
	switch codec {
	case None:
		return append(dst, src...), nil
	case Gzip:
		return c.appendGzip(dst, level, src)
	case Snappy:
		return appendSnappy(dst, level, src)
	case Lz4:
		return c.appendLz4(dst, level, src)
	case Zstd:
		return c.appendZstd(dst, level, src)
	}
	return dst, errUnknown(codec)
}

// AppendDecompressed decompresses src behind dst and returns the longer slice. ErrTooLarge when it would add more than
// maxBytes, ErrCorrupt for damaged input; dst is then returned as it was, its spare capacity overwritten. Memory is
// bounded by maxBytes and by what src can hold, whatever its headers claim.
func (c *Codecs) AppendDecompressed(dst []byte, codec Codec, src []byte, maxBytes int) ([]byte, error) {
	if c == nil {
		c = New()
	}
	if codec == Zstd {
		if out, ok, err := c.appendWholeZstd(dst, src, maxBytes); ok {
			return out, err
		}
	}
	if codec == Snappy && !isXerial(src) {
		return appendRawSnappy(dst, src, maxBytes)
	}
	r, err := c.NewReader(codec, src, maxBytes)
	if err != nil {
		return dst, err
	}
	defer r.Close()
	out := dst
	for {
		piece, err := r.Next()
		if err != nil {
			if r.ended() {
				return out, nil
			}
			return dst, err
		}
		out = append(out, piece...)
	}
}

// NewReader decompresses src piece by piece with little memory: 32 KiB for gzip, a block for lz4 and Java's snappy, the
// window for zstd (8 MiB at most). Only a raw snappy block, which cannot be cut, is held whole. More than maxBytes of
// output is ErrTooLarge. src stays the caller's and must not change until Close.
func (c *Codecs) NewReader(codec Codec, src []byte, maxBytes int) (*Reader, error) {
	if !codec.Valid() {
		return nil, errUnknown(codec)
	}
	if c == nil {
		c = New()
	}
	r, ok := c.readers[codec].Get().(*Reader)
	if !ok {
		s, err := newStream(codec)
		if err != nil {
			return nil, err
		}
		r = &Reader{codecs: c, codec: codec, stream: s}
	}
	r.err, r.rest, r.left = nil, nil, maxBytes
	if err := r.stream.reset(src, maxBytes); err != nil {
		r.Close()
		return nil, wrap(codec, err)
	}
	return r, nil
}

// newStream makes the decoder of one codec.
func newStream(codec Codec) (stream, error) {
	switch codec {
	case Gzip:
		return &gzipStream{}, nil
	case Snappy:
		return &snappyStream{}, nil
	case Lz4:
		return &lz4Stream{}, nil
	case Zstd:
		return newZstdStream()
	}
	return &plainStream{}, nil
}

func errUnknown(codec Codec) error { return fmt.Errorf("unknown compression codec %d", int8(codec)) }

// errLevel is the error for a level outside the codec's scale.
func errLevel(codec Codec, level, low, high int) error {
	return fmt.Errorf("%s level %d: want %d to %d, or 0 for the default", codec, level, low, high)
}

// wrap names the codec, and marks what is not known to be something else as damage.
func wrap(codec Codec, err error) error {
	if errors.Is(err, ErrTooLarge) || errors.Is(err, ErrCorrupt) {
		return fmt.Errorf("%s: %w", codec, err)
	}
	return fmt.Errorf("%s: %w: %w", codec, ErrCorrupt, err)
}

// grow returns dst with room for n more bytes.
func grow(dst []byte, n int) []byte { return slices.Grow(dst, n) }
