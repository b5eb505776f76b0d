package record

import (
	"encoding/binary"
	"hash/crc32"
)

const (
	// pieceBytes is how far plain walks before it computes the CRC of the same bytes, which then come from the first
	// cache. crc32 takes up to 8 bytes to align itself, and blocks of 4,032 by its fastest way.
	pieceBytes = 2*4032 + 8
	// smallRecordBytes is the mean size up to which plain walks first.
	smallRecordBytes = 128
	// shortDelta is above every timestamp delta of two bytes.
	shortDelta = 1 << 13
)

// plain computes the CRC of an uncompressed batch and walks its n records, which must fill it exactly. It does both
// whatever either finds, and allocates nothing unless it finds an error.
//
// Small records it walks first, a piece at a time. The walk then touches each cache line in turn, which the processor
// foresees, where crc32 reads in three places at once: of a batch of 1 MiB that has just come from a socket, a record of
// 110 bytes takes 30 ns so, and 42 with the CRC first; while the caches hold all there is no difference. Large records
// are the other way round: the walk touches a line here and there and waits for each (200 bytes out of the caches: 131
// ns, 70 with the CRC first). To touch each line of a piece beforehand helps those that no cache holds, and costs those
// just received 10%.
func (w *walk) plain(b Batch, n int32) (crc uint32, err error) {
	if len(b) > smallRecordBytes*int(n) {
		crc = b.ComputeCRC()
		_, _, err = w.stretch(b, HeaderBytes, len(b), 0, n)
		return crc, err
	}
	table := crcTable()
	i, k := HeaderBytes, int32(0)
	for from, to := crcStart, 0; to < len(b); from = to {
		if to = len(b); to-from > 2*pieceBytes {
			to = from + pieceBytes
		}
		if err == nil {
			i, k, err = w.stretch(b, i, to, k, n)
		}
		crc = crc32.Update(crc, table, b[from:to])
	}
	return crc, err
}

// stretch checks the records that begin at i, with record k of n, and before to. It returns the position behind the last
// of them and how many records there were up to it. With to at the end of b all n must be there, and nothing behind them.
func (w *walk) stretch(b []byte, i, to int, k, n int32) (int, int32, error) {
	for k < n && (i < to || to == len(b)) {
		if i, k = w.usual(b, i, to, k, n); k == n || i >= to && to < len(b) {
			break
		}
		var err error
		if i, err = w.any(b, i, k); err != nil {
			return i, k, err
		}
		k++
	}
	if to == len(b) && i != to {
		return i, k, errTrailing(to - i)
	}
	return i, k, nil
}

// usual checks records as stretch does, as long as they have the usual shape: less than 8 KiB, a key below 64 bytes, a
// time within 8 s of the batch's and nothing wrong. It stops at the first that has not, for any to look again and to
// say what is wrong. A record of 100 bytes takes 7 ns so, and 22 by any.
//
// All that stands before the key comes from one load of 8 bytes, most of the rest from what must be there: the offset
// delta is k, and the value ends one byte before the record does, if that has no headers.
func (w *walk) usual(b []byte, i, to int, k, n int32) (int, int32) {
	if !w.takesShortDeltas() {
		return i, k
	}
	nullKey := w.nullKeyLength()
	base := w.baseTimestamp
	latest, latestAt := w.maxTimestamp-base, w.maxTimestampAt
	last := min(to-1, len(b)-8)
	for k < n && i <= last {
		u := binary.LittleEndian.Uint64(b[i:])
		j, end := i+6, 0 // j is where the key begins
		if u&0x80 == 0 {
			if u&1 != 0 {
				break
			}
			end = i + 1 + int(u>>1)&0x3f
			u >>= 16 // with the attributes
			j--
		} else {
			if u&0x8001 != 0 {
				break
			}
			end = i + 2 + (int(u>>1)&0x3f | int(u>>2)&0x1fc0)
			u >>= 24
		}
		delta := u & 0x7f
		if u&0x80 != 0 {
			if u&0x8000 != 0 {
				break
			}
			delta |= u >> 1 & 0x3f80
			u >>= 8
			j++
		}
		u >>= 8
		if d := int64(delta>>1) ^ -int64(delta&1); d > latest {
			latest, latestAt = d, k // before all is checked: any finds the same
		}
		if k < 64 {
			if u&0xff != uint64(k)<<1 {
				break
			}
			u >>= 8
		} else if k < 8192 {
			if u&0xffff != uint64(k)<<1&0x7f|0x80|uint64(k)<<2&^0xff {
				break
			}
			u >>= 16
			j++
		} else {
			z := uint64(k) << 1
			if k >= 1<<20 || u&0xffffff != z&0x7f|0x80|z<<1&0x7f00|0x8000|z<<2&^0xffff || j+1 >= len(b) {
				break
			}
			j += 2
			u = uint64(b[j-1]) // the load does not always reach it
		}
		key := u & 0xff
		if key&0x81 != 0 && key != nullKey {
			break
		}
		j += int(key >> 1)
		size := end - 2 - j // of the value, if its length takes one byte and no headers follow it
		if size < 0 || end > len(b) {
			break
		}
		value := int(b[j])
		if value >= 0x80 {
			value = value&0x7f | int(b[j+1])<<7
			size--
		}
		if (value != size<<1 && (value != 1 || size != 0) || b[end-1] != 0) && !headed(b[:end], j) {
			break
		}
		i = end
		k++
	}
	w.maxTimestamp, w.maxTimestampAt = base+latest, latestAt
	return i, k
}

// takesShortDeltas reports whether no time with a delta below shortDelta is refused, nor overflows.
func (w *walk) takesShortDeltas() bool {
	return w.baseTimestamp >= 0 && w.baseTimestamp-shortDelta >= w.minTimestamp && w.baseTimestamp <= w.maxAllowed-shortDelta
}

// nullKeyLength is what a null key has for its length, or more than a byte holds where there must be keys.
func (w *walk) nullKeyLength() uint64 {
	if w.requireKeys {
		return 1 << 8
	}
	return 1
}

// headed reports whether a value and headers begin at j that fill rec to its end.
func headed(rec []byte, j int) bool {
	n, j := varint32(rec, j)
	if j < 0 || n < -1 || int(n) > len(rec)-j {
		return false
	}
	headers, j := varint32(rec, j+max(int(n), 0))
	for ; headers > 0 && j >= 0; headers-- {
		j = skipHeader(rec, j)
	}
	return headers == 0 && j == len(rec)
}
