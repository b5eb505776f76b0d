package commitlog

import (
	"encoding/binary"
	"io"
	"sort"

	"github.com/tidemark/tidemark/core/kafka"
)

// Sizes of index entries on disk.
const (
	offsetEntryBytes = 8
	timeEntryBytes   = 12
)

// spillEntries is how many entries gather in memory before they are written: 4 KiB of them.
const spillEntries = 512

// offsetEntry says that the batch whose last offset is base+rel begins at pos.
type offsetEntry struct{ rel, pos int32 }

// timeEntry says that ts is the highest timestamp up to and with the batch whose last offset is base+rel.
type timeEntry struct {
	ts  int64
	rel int32
}

func (e offsetEntry) appendTo(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint32(dst, uint32(e.rel))
	return binary.BigEndian.AppendUint32(dst, uint32(e.pos))
}

func (e timeEntry) appendTo(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint64(dst, uint64(e.ts))
	return binary.BigEndian.AppendUint32(dst, uint32(e.rel))
}

func parseOffsetEntry(b []byte) offsetEntry {
	return offsetEntry{int32(binary.BigEndian.Uint32(b)), int32(binary.BigEndian.Uint32(b[4:]))}
}

func parseTimeEntry(b []byte) timeEntry {
	return timeEntry{int64(binary.BigEndian.Uint64(b)), int32(binary.BigEndian.Uint32(b[8:]))}
}

// column is the newest part of an index file in memory: all that has not been written, and some before it.
type column[E interface{ appendTo([]byte) []byte }] struct {
	entries []E
	first   int // number, in the file, of entries[0]
	written int // how many entries the file holds
}

func (c *column[E]) len() int { return c.first + len(c.entries) }

func (c *column[E]) pending() int { return c.len() - c.written }

func (c *column[E]) add(e E) {
	if len(c.entries) == 2*spillEntries {
		// The older half goes if it has been written; if spilling keeps failing the column grows, and appends fail.
		if drop := min(c.written-c.first, spillEntries); drop > 0 {
			n := copy(c.entries, c.entries[drop:])
			c.entries = c.entries[:n]
			c.first += drop
		}
	}
	c.entries = append(c.entries, e)
}

// unwritten appends the encoding of what the file lacks, and says for which entry it begins.
func (c *column[E]) unwritten(dst []byte) ([]byte, int) {
	for _, e := range c.entries[c.written-c.first:] {
		dst = e.appendTo(dst)
	}
	return dst, c.written
}

// indexTail is what a segment holds of its indexes in memory while it is being written; Log.mu guards it.
type indexTail struct {
	offsets column[offsetEntry]
	times   column[timeEntry]
	txns    column[AbortedTxn]
	since   int // bytes appended since the last entry of offsets
}

// note accounts for a batch that begins at pos, and adds entries when the interval has passed.
func (t *indexTail) note(seg *segment, last kafka.Offset, pos, size int64, interval int) {
	if t.since > interval {
		t.offsets.add(offsetEntry{int32(last - seg.base), int32(pos)})
		t.noteTime(seg)
		t.since = 0
	}
	t.since += int(size)
}

// noteTime adds the highest timestamp so far, if it is higher than that of the last entry.
func (t *indexTail) noteTime(seg *segment) {
	if seg.maxTS > seg.indexedTS {
		t.times.add(timeEntry{seg.maxTS, int32(seg.maxTSAt - seg.base)})
		seg.indexedTS = seg.maxTS
	}
}

// fileEntries searches an index file of n entries of size bytes: the number of the last one for which le holds, -1
// when there is none. le must hold for a first part of them and for no other. It reads single entries until a block
// of 4 KiB is left, then the block.
func fileEntries(r io.ReaderAt, n, size int, scratch []byte, le func(entry []byte) bool) (int, error) {
	lo, hi := 0, n // entries before lo satisfy le, those from hi on do not
	block := len(scratch) / size
	for hi-lo > block {
		mid := lo + (hi-lo)/2
		e := scratch[:size]
		if _, err := r.ReadAt(e, int64(mid)*int64(size)); err != nil {
			return 0, err
		}
		if le(e) {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	b := scratch[:(hi-lo)*size]
	if len(b) > 0 {
		if _, err := r.ReadAt(b, int64(lo)*int64(size)); err != nil {
			return 0, err
		}
	}
	k := sort.Search(hi-lo, func(i int) bool { return !le(b[i*size : (i+1)*size]) })
	return lo + k - 1, nil
}
