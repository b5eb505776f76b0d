package workload

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash/crc32"
	"slices"
)

// payloadBytes is the size of the block from which payloads are cut: larger than the windows of lz4 and snappy and than
// any batch, so that a batch does not hold the same bytes twice.
const payloadBytes = 8 << 20

// unitBytes is the stretch within which the compressible share is exact: short enough for small records, long enough
// that what a codec spends on the match is under two percent.
const unitBytes = 256

// Payload is the source of the records' bytes: one block, walked through by each producer from a place of its own.
// Immutable; a run has one.
type Payload struct {
	block []byte
}

// NewPayload makes the block for the Spec: of the file's bytes where the Spec names a file (read by the caller, repeated
// to the block's size), otherwise random bytes of which the stated share is a filler that a codec removes.
func NewPayload(s *Spec, file []byte) *Payload {
	if len(file) > 0 {
		block := slices.Clone(file)
		for len(block) < payloadBytes {
			block = append(block, file[:min(len(file), payloadBytes-len(block))]...)
		}
		return &Payload{block}
	}
	stream := NewStream(s.Seed, 0, ForPayload)
	block := make([]byte, payloadBytes)
	random := unitBytes - int(s.Compressibility*unitBytes+0.5)
	for unit := 0; unit < len(block); unit += unitBytes {
		for i := unit; i < unit+random; i += 8 {
			binary.LittleEndian.PutUint64(block[i:], stream.Uint64())
		}
		for i := unit + random; i < unit+unitBytes; i++ {
			block[i] = filler[(i-unit)%len(filler)]
		}
	}
	return &Payload{block}
}

// filler is text, so that a dump of a compressible record looks like one.
const filler = "tidemark payload "

// Hash is the SHA-256 of the block.
func (p *Payload) Hash() string {
	sum := sha256.Sum256(p.block)
	return hex.EncodeToString(sum[:])
}

// Cutter walks through a Payload for one producer. It belongs to one goroutine.
type Cutter struct {
	block []byte
	at    int
	fixed int
	sums  []uint32 // of the pieces of length fixed; 0 not computed yet
}

// Cutter begins one producer's walk. fixedBytes above 0 says that every piece will have this length, and then sums come
// from a table after the first time round.
func (p *Payload) Cutter(seed uint64, producer int32, fixedBytes int) *Cutter {
	c := &Cutter{block: p.block}
	start := int(splitmix64(seed^0x7061796c^uint64(uint32(producer))<<32) % uint64(len(p.block)))
	if fixedBytes > 0 && fixedBytes <= len(p.block) {
		c.fixed = fixedBytes
		pieces := len(p.block) / fixedBytes
		c.sums = make([]uint32, pieces)
		start = start % pieces * fixedBytes
	}
	c.at = start
	return c
}

// Next is the next n bytes and their CRC-32C. The bytes belong to the Payload and must not be changed; longer pieces than
// the block are made by AppendTo.
func (c *Cutter) Next(n int) (piece []byte, sum uint32) {
	if n > len(c.block)-c.at {
		c.at = 0
	}
	n = min(n, len(c.block))
	piece = c.block[c.at : c.at+n : c.at+n]
	if n != c.fixed || n == 0 {
		c.at += n
		if c.fixed > 0 { // back to where the table's pieces begin
			c.at = (c.at + c.fixed - 1) / c.fixed * c.fixed % (len(c.sums) * c.fixed)
		}
		return piece, checksum(piece)
	}
	slot := &c.sums[c.at/n]
	c.at += n
	if c.at > len(c.sums)*n-n {
		c.at = 0
	}
	if *slot == 0 {
		*slot = checksum(piece)
	}
	return piece, *slot
}

// Pieces cuts the next pieces of n bytes each, which the block must have: as many as pieces and sums hold.
func (c *Cutter) Pieces(n int, pieces [][]byte, sums []uint32) {
	sums = sums[:len(pieces)]
	for i := 0; i < len(pieces); {
		if n != c.fixed || n == 0 || n > len(c.block)-c.at {
			pieces[i], sums[i] = c.Next(n)
			i++
			continue
		}
		k := min(len(pieces)-i, (len(c.block)-c.at)/n)
		first := c.at / n
		cut(c.block[c.at:], n, pieces[i:i+k], sums[i:i+k], c.sums[first:first+k])
		if c.at += k * n; c.at > len(c.sums)*n-n {
			c.at = 0
		}
		i += k
	}
}

// cut walks through block by n bytes.
func cut(block []byte, n int, pieces [][]byte, sums, known []uint32) {
	sums, known = sums[:len(pieces)], known[:len(pieces)]
	for i := range pieces {
		pieces[i], block = block[:n:n], block[n:]
		if known[i] == 0 {
			known[i] = checksum(pieces[i])
		}
		sums[i] = known[i]
	}
}

// AppendTo appends the next n bytes, any n, and gives their CRC-32C.
func (c *Cutter) AppendTo(dst []byte, n int) ([]byte, uint32) {
	if n <= len(c.block) {
		piece, sum := c.Next(n)
		return append(dst, piece...), sum
	}
	start := len(dst)
	for n > 0 {
		piece, _ := c.Next(min(n, len(c.block)))
		dst, n = append(dst, piece...), n-len(piece)
	}
	return dst, checksum(dst[start:])
}

func checksum(b []byte) uint32 { return crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)) }

// Sizer draws the sizes of one producer's values. It belongs to one goroutine.
type Sizer struct {
	sizes  Sizes
	table  *alias
	stream Stream
}

// NewSizer begins one producer's sizes.
func NewSizer(z Sizes, seed uint64, producer int32) *Sizer {
	s := &Sizer{sizes: z, stream: NewStream(seed, producer, ForSizes)}
	if len(z.Weights) > 0 {
		weights := make([]float64, len(z.Weights))
		for i, w := range z.Weights {
			weights[i] = w.Weight
		}
		s.table = newAlias(weights)
	}
	return s
}

// Next is the size of the next value in bytes.
func (s *Sizer) Next() int {
	switch {
	case s.table != nil:
		return s.sizes.Weights[s.table.sample(&s.stream)].Bytes
	case s.sizes.Fixed():
		return s.sizes.Min
	}
	return s.sizes.Min + int(s.stream.Below(uint64(s.sizes.Max-s.sizes.Min+1)))
}
