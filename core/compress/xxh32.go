package compress

import (
	"encoding/binary"
	"math/bits"
)

// Primes of xxHash32.
const (
	xxPrime1 uint32 = 2654435761
	xxPrime2 uint32 = 2246822519
	xxPrime3 uint32 = 3266489917
	xxPrime4 uint32 = 668265263
	xxPrime5 uint32 = 374761393
)

// xxh32 is xxHash32 with seed 0, the checksum of lz4 frames.
func xxh32(b []byte) uint32 {
	total := uint32(len(b))
	h := xxPrime5
	if len(b) >= 16 {
		one, two := xxPrime1, xxPrime2 // the sums wrap, which constants may not
		v1, v2, v3, v4 := one+two, two, uint32(0), -one
		for ; len(b) >= 16; b = b[16:] {
			v1 = xxRound(v1, binary.LittleEndian.Uint32(b))
			v2 = xxRound(v2, binary.LittleEndian.Uint32(b[4:]))
			v3 = xxRound(v3, binary.LittleEndian.Uint32(b[8:]))
			v4 = xxRound(v4, binary.LittleEndian.Uint32(b[12:]))
		}
		h = bits.RotateLeft32(v1, 1) + bits.RotateLeft32(v2, 7) + bits.RotateLeft32(v3, 12) + bits.RotateLeft32(v4, 18)
	}
	h += total
	for ; len(b) >= 4; b = b[4:] {
		h = bits.RotateLeft32(h+binary.LittleEndian.Uint32(b)*xxPrime3, 17) * xxPrime4
	}
	for _, c := range b {
		h = bits.RotateLeft32(h+uint32(c)*xxPrime5, 11) * xxPrime1
	}
	h = (h ^ h>>15) * xxPrime2
	h = (h ^ h>>13) * xxPrime3
	return h ^ h>>16
}

func xxRound(v, lane uint32) uint32 { return bits.RotateLeft32(v+lane*xxPrime2, 13) * xxPrime1 }
