package record

import "encoding/binary"

// Records use zigzag varints: of at most 5 bytes for lengths and offset deltas, of at most 10 for timestamp deltas. The
// readers below take a position and return the next one, or -1 when there is no such varint; a position of -1 stays -1,
// so a run of fields is checked once at its end.

const (
	maxVarint32Bytes = 5
	maxVarint64Bytes = binary.MaxVarintLen64
)

// varint32 reads a zigzag varint of 32 bits. Nearly all take one byte or two, which have their own ways.
func varint32(b []byte, i int) (int32, int) {
	if uint(i) < uint(len(b)) && b[i] < 0x80 {
		return int32(b[i]>>1) ^ -int32(b[i]&1), i + 1
	}
	if i >= 0 && i+1 < len(b) && b[i+1] < 0x80 {
		u := uint32(b[i]&0x7f) | uint32(b[i+1])<<7
		return int32(u>>1) ^ -int32(u&1), i + 2
	}
	v, i := uvarint(b, i, maxVarint32Bytes)
	if v > 1<<32-1 {
		return 0, -1
	}
	return int32(uint32(v)>>1) ^ -int32(v&1), i
}

// varint64 reads a zigzag varint of 64 bits.
func varint64(b []byte, i int) (int64, int) {
	if uint(i) < uint(len(b)) && b[i] < 0x80 {
		return int64(b[i]>>1) ^ -int64(b[i]&1), i + 1
	}
	if i >= 0 && i+1 < len(b) && b[i+1] < 0x80 {
		u := uint64(b[i]&0x7f) | uint64(b[i+1])<<7
		return int64(u>>1) ^ -int64(u&1), i + 2
	}
	v, i := uvarint(b, i, maxVarint64Bytes)
	return int64(v>>1) ^ -int64(v&1), i
}

// uvarint reads at most maxBytes bytes of an unsigned varint.
func uvarint(b []byte, i, maxBytes int) (uint64, int) {
	if i < 0 {
		return 0, -1
	}
	var v uint64
	for n := 0; n < maxBytes && i < len(b); n++ {
		c := b[i]
		i++
		if n == maxVarint64Bytes-1 && c > 1 {
			return 0, -1 // more than 64 bits
		}
		v |= uint64(c&0x7f) << (7 * n)
		if c < 0x80 {
			return v, i
		}
	}
	return 0, -1
}

// appendVarint appends v as a zigzag varint.
func appendVarint(dst []byte, v int64) []byte {
	u := uint64(v<<1) ^ uint64(v>>63)
	for u >= 0x80 {
		dst = append(dst, byte(u)|0x80)
		u >>= 7
	}
	return append(dst, byte(u))
}

// varintSize is the number of bytes that appendVarint takes for v.
func varintSize(v int64) int {
	u := uint64(v<<1) ^ uint64(v>>63)
	n := 1
	for ; u >= 0x80; u >>= 7 {
		n++
	}
	return n
}
