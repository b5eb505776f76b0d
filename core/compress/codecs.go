package compress

import "errors"

// Codecs keeps encoders and decoders between calls. The zero value is ready; a nil *Codecs works and keeps nothing.
type Codecs struct{}

// New makes an empty Codecs.
func New() *Codecs { return &Codecs{} }

// Append compresses src behind dst and returns the longer slice. Level 0 is the codec's default; otherwise it is on the
// scale of Kafka's compression.gzip.level (1 to 9), compression.lz4.level (1 to 17), compression.zstd.level (-131072 to
// 22); snappy has none. dst and src must not overlap.
func (c *Codecs) Append(dst []byte, codec Codec, level int, src []byte) ([]byte, error) {
	return dst, errors.ErrUnsupported
}

// AppendDecompressed decompresses src behind dst and returns the longer slice. ErrTooLarge when it would add more than
// maxBytes, ErrCorrupt for damaged input.
func (c *Codecs) AppendDecompressed(dst []byte, codec Codec, src []byte, maxBytes int) ([]byte, error) {
	return dst, errors.ErrUnsupported
}

// NewReader decompresses src piece by piece with little memory; more than maxBytes of output is ErrTooLarge. src stays
// the caller's and must not change until Close.
func (c *Codecs) NewReader(codec Codec, src []byte, maxBytes int) (*Reader, error) {
	return nil, errors.ErrUnsupported
}

// Reader is a decompression under way. Close gives it back to its Codecs.
type Reader struct{}

// Read fills p as io.Reader asks.
func (r *Reader) Read(p []byte) (int, error) { return 0, errors.ErrUnsupported }

// Next returns the next piece of the output, valid until the next call, or io.EOF after the last one.
func (r *Reader) Next() ([]byte, error) { return nil, errors.ErrUnsupported }

// Close gives the Reader back to its Codecs; it must not be used afterwards.
func (r *Reader) Close() {}
