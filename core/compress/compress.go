// Package compress holds Kafka's record compressions: gzip, snappy (raw blocks, and the framing of Java's xerial
// library when reading), lz4 frames and zstd.
//
// Everything appends to a destination of the caller and takes a bound on what it may produce, because the input comes
// from a network. Encoders and decoders are large, so a Codecs keeps them between calls; a program makes one and hands
// it around. A nil *Codecs works and keeps nothing, which suits tests and commands. All methods of Codecs may be
// called from any goroutine; a Reader belongs to one.
package compress

import (
	"errors"
	"fmt"
)

// Codec is a compression as the lowest three bits of a record batch's attributes number it.
type Codec int8

// Kafka's codecs.
const (
	None   Codec = 0
	Gzip   Codec = 1
	Snappy Codec = 2
	Lz4    Codec = 3
	Zstd   Codec = 4
)

// Errors of this package; both come wrapped with what was being read.
var (
	// ErrTooLarge says that the output would pass the bound that the caller gave.
	ErrTooLarge = errors.New("decompressed data passes the bound")
	// ErrCorrupt says that the input is not what its codec would write.
	ErrCorrupt = errors.New("compressed data is damaged")
)

var codecNames = [...]string{None: "none", Gzip: "gzip", Snappy: "snappy", Lz4: "lz4", Zstd: "zstd"}

// String gives Kafka's name of the codec as in compression.type.
func (c Codec) String() string {
	if c.Valid() {
		return codecNames[c]
	}
	return fmt.Sprintf("codec(%d)", int8(c))
}

// Valid reports whether c is one of Kafka's codecs.
func (c Codec) Valid() bool { return c >= None && c <= Zstd }

// ParseCodec reads a name that String writes.
func ParseCodec(name string) (Codec, error) {
	for c, n := range codecNames {
		if n == name {
			return Codec(c), nil
		}
	}
	return None, fmt.Errorf("unknown compression %q: want one of none, gzip, snappy, lz4, zstd", name)
}
