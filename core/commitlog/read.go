package commitlog

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"sort"

	"github.com/tidemark/tidemark/core/buf"
	"github.com/tidemark/tidemark/core/kafka"
)

// Slice is an answer of Read: buffers of the tail ring, or one piece of a segment's file. The zero value is ready;
// one Slice serves any number of Reads, each after a Release.
type Slice struct {
	Tail  [][]byte     // whole batches in order, valid until Release
	File  Piece        // Lease is nil when Tail answers
	Bytes int          // of all of it
	Next  kafka.Offset // where the next Read goes on; the offset asked for when Bytes is 0
	From  Source       // set before a Read; Release resets it
	bufs  []*buf.Buf
}

// Source says from where a Read may answer.
type Source int8

// Sources of reads.
const (
	AnySource  Source = iota
	TailSource        // from memory, without any file: else ErrNotInTail
	FileSource        // from files, so that the answer holds no memory
)

// Piece is a range of a segment's .log file.
type Piece struct {
	Lease *Lease
	Pos   int64
	N     int
}

// Release gives the buffers and the lease back.
func (s *Slice) Release() {
	for i, b := range s.bufs {
		b.Release()
		s.bufs[i] = nil
	}
	clear(s.Tail)
	if s.File.Lease != nil {
		s.File.Lease.Release()
	}
	*s = Slice{Tail: s.Tail[:0], bufs: s.bufs[:0], Next: s.Next}
}

// CopyTo copies the s.Bytes bytes to dst.
func (s *Slice) CopyTo(dst []byte) error {
	for _, b := range s.Tail {
		dst = dst[copy(dst, b):]
	}
	if s.File.Lease == nil {
		return nil
	}
	if n, err := s.File.Lease.ReadAt(dst[:s.File.N], s.File.Pos); err != nil {
		return fmt.Errorf("read %d bytes at %d of %s, got %d: %w", s.File.N, s.File.Pos, s.File.Lease.f.Name(), n, err)
	}
	return nil
}

// readHints remembers where recent reads ended, which is where the next ones begin: a reader that goes on needs no
// search. Log.mu guards it.
type readHints struct {
	at   [8]readHint
	next int
}

type readHint struct {
	off kafka.Offset
	seg *segment
	pos int64
}

// Read fills s with whole batches of one segment: the one that holds from, and those behind it, up to maxBytes and
// only such as end below limit (the high watermark, the last stable offset or the log end; exclusive). With minOne the
// first batch comes whole even if it alone is larger than maxBytes. Nothing to read is no error and leaves s empty.
// ErrOffsetOutOfRange when from lies below the log start or above the log end.
//
// What Append has added last is answered from the tail ring; everything else is a leased piece of a file, whose bytes
// the caller sends or copies. Read itself touches little of the file: an index entry or two and some batch headers.
func (l *Log) Read(s *Slice, from kafka.Offset, maxBytes int, limit kafka.Offset, minOne bool) error {
	if s.From == TailSource && l.state.Load() == stateLazy {
		return ErrNotInTail
	}
	if err := l.ready(); err != nil {
		return err
	}
	s.Bytes, s.Next = 0, from
	var err error
	for range 3 {
		// start first: it never passes an end that is loaded after it.
		start, end := l.StartOffset(), l.EndOffset()
		if from < start || from > end {
			return ErrOffsetOutOfRange
		}
		limit := min(limit, end)
		if from >= limit {
			l.Want()
			return nil
		}
		if r := l.tail.Load(); r != nil && s.From != FileSource && l.env.Tail.read(r, s, from, maxBytes, limit, minOne) {
			l.Want()
			return nil
		}
		if s.From == TailSource {
			return ErrNotInTail
		}
		err = l.readFile(s, from, maxBytes, limit, minOne)
		if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, errTorn) {
			return err
		}
		// The segment may have been deleted, or cut, between the look-up and the read: look again.
		if l.state.Load() == stateClosed {
			return ErrClosed
		}
	}
	if errors.Is(err, errTorn) {
		err = errors.Join(err, ErrCorrupt)
	}
	return err
}

// Want notes that somebody reads at the log's end: what is appended next stays for a while in the tail ring.
func (l *Log) Want() {
	if l.wanted.Load() != wantedAppends {
		l.wanted.Store(wantedAppends)
	}
}

// findLocked is the number of the segment that holds an offset: the last one that begins at or before it.
func (l *Log) findLocked(off kafka.Offset) int {
	segs := l.mu.segs
	n := len(segs)
	if n > 0 && segs[n-1].base <= off {
		return n - 1
	}
	return max(0, sort.Search(n, func(i int) bool { return segs[i].base > off })-1)
}

// readFile answers from a segment's file.
func (l *Log) readFile(s *Slice, from kafka.Offset, maxBytes int, limit kafka.Offset, minOne bool) error {
	l.mu.Lock()
	i := l.findLocked(from)
	seg := l.mu.segs[i]
	for from >= seg.end && i+1 < len(l.mu.segs) { // a gap, or an empty segment
		i++
		seg = l.mu.segs[i]
	}
	l.mu.Unlock()
	for {
		err := l.readSegment(s, seg, from, maxBytes, limit, minOne)
		if err != io.EOF {
			return err
		}
		// Compaction has left nothing between from and the segment's end: the next batch is in another one.
		l.mu.Lock()
		i := l.findLocked(seg.base) + 1
		last := i == len(l.mu.segs)
		if !last {
			seg = l.mu.segs[i]
		}
		l.mu.Unlock()
		if last {
			return nil
		}
	}
}

// readSegment is readFile within one segment; io.EOF when it has nothing at from or behind.
func (l *Log) readSegment(s *Slice, seg *segment, from kafka.Offset, maxBytes int, limit kafka.Offset, minOne bool) error {
	l.mu.Lock()
	size, end := seg.size, seg.end
	pos := l.hintLocked(seg, from)
	l.mu.Unlock()
	if size == 0 {
		return io.EOF
	}
	lease, err := l.acquire(seg, kindLog)
	if err != nil {
		return err
	}
	sc := newScanner(lease, size, l.env.Pool, lookupChunk)
	defer sc.close()
	n, next := int64(0), from
	if pos < 0 {
		pos, err = l.locate(&sc, seg, from)
	}
	if err == nil {
		if end <= limit && size-pos <= int64(maxBytes) {
			n, next = size-pos, end
		} else {
			n, next, err = l.measure(&sc, seg, pos, maxBytes, limit, minOne)
		}
	}
	if err != nil || n == 0 {
		lease.Release()
		if err != nil && err != io.EOF {
			return fmt.Errorf("read offset %d in %s: %w", from, lease.f.Name(), err)
		}
		return err
	}
	s.File = Piece{lease, pos, int(n)}
	s.Bytes, s.Next = int(n), next
	l.rememberHint(seg, next, pos+n)
	return nil
}

func (l *Log) hintLocked(seg *segment, off kafka.Offset) int64 {
	if l.mu.hints == nil {
		return -1
	}
	for i := range l.mu.hints.at {
		if h := &l.mu.hints.at[i]; h.seg == seg && h.off == off && h.pos < seg.size {
			return h.pos
		}
	}
	return -1
}

func (l *Log) rememberHint(seg *segment, off kafka.Offset, pos int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.hints == nil {
		l.mu.hints = &readHints{}
	}
	h := l.mu.hints
	h.at[h.next%len(h.at)] = readHint{off, seg, pos}
	h.next++
}

// locate finds the position of the batch that holds off, or of the first one behind it. io.EOF when there is none.
func (l *Log) locate(sc *scanner, seg *segment, off kafka.Offset) (int64, error) {
	pos, err := l.lookup(seg, func(e offsetEntry) bool { return int64(e.rel) <= int64(off-seg.base) })
	if err != nil {
		return 0, err
	}
	// An index that lies must not hide records: the batch that it points to has to be there, and begin at or before
	// off. Otherwise the segment is read from its beginning.
	if h, _, err := sc.header(pos); pos > 0 && (err != nil || h.BaseOffset() > off || h.BaseOffset() < seg.base) {
		l.env.Logger.Warn("offset index does not fit its segment, reading without it", "file", l.fileName(seg.base, kindIndex.suffix()), "position", pos)
		pos = 0
	}
	for {
		h, size, err := sc.header(pos)
		if err != nil {
			if err != io.EOF {
				err = fmt.Errorf("at %d: %w", pos, err)
			}
			return 0, err
		}
		if h.LastOffset() >= off {
			return pos, nil
		}
		pos += size
	}
}

// measure works out how far a read from pos goes: the bytes of whole batches within maxBytes and below limit, and the
// offset behind them.
func (l *Log) measure(sc *scanner, seg *segment, pos int64, maxBytes int, limit kafka.Offset, minOne bool) (int64, kafka.Offset, error) {
	start, stop := pos, pos+int64(maxBytes)
	next := kafka.Offset(-1)
	if maxBytes > lookupChunk {
		rel := min(int64(limit-seg.base), math.MaxInt32)
		at, err := l.lookup(seg, func(e offsetEntry) bool { return int64(e.pos) <= stop && int64(e.rel) < rel })
		if err != nil {
			return 0, 0, err
		}
		if at > pos && at < sc.end {
			if h, _, err := sc.header(at); err == nil && h.LastOffset() < limit && h.BaseOffset() >= seg.base {
				pos, next = at, h.BaseOffset()
			}
		}
	}
	for {
		h, size, err := sc.header(pos)
		if err == io.EOF {
			break
		}
		if err != nil {
			if pos > start {
				break // what lies before the damage can be read
			}
			return 0, 0, fmt.Errorf("at %d: %w", pos, err)
		}
		if h.LastOffset() >= limit || pos+size > stop && !(minOne && pos == start) {
			break
		}
		pos += size
		next = h.LastOffset() + 1
	}
	return pos - start, next, nil
}

// lookup finds the last entry of the offset index for which le holds and returns its position, 0 when there is none.
func (l *Log) lookup(seg *segment, le func(offsetEntry) bool) (int64, error) {
	l.mu.Lock()
	n := int(seg.counts[kindIndex])
	if t := seg.idx; t != nil {
		n = t.offsets.first
		es := t.offsets.entries
		if len(es) > 0 && le(es[0]) {
			i := sort.Search(len(es), func(i int) bool { return !le(es[i]) })
			pos := int64(es[i-1].pos)
			l.mu.Unlock()
			return pos, nil
		}
	}
	l.mu.Unlock()
	if n == 0 {
		return 0, nil
	}
	lease, err := l.acquire(seg, kindIndex)
	if isNotExist(err) {
		return 0, nil // deleted with its segment, as opening that will show, or lost: read from the beginning
	}
	if err != nil {
		return 0, err
	}
	defer lease.Release()
	scratch := l.env.Pool.Get(spillEntries * offsetEntryBytes)
	defer scratch.Release()
	var last offsetEntry
	i, err := fileEntries(lease, n, offsetEntryBytes, scratch.B, func(b []byte) bool {
		e := parseOffsetEntry(b)
		ok := le(e)
		if ok && e.pos >= last.pos {
			last = e
		}
		return ok
	})
	if errors.Is(err, io.EOF) {
		return 0, nil // shorter than it was: the segment is read from its beginning
	}
	if err != nil || i < 0 {
		return 0, err
	}
	return int64(last.pos), nil
}

// BytesBetween is how many bytes of batches lie in [from, limit), give or take an index interval at either end, and
// never more than atMost: what a waiting fetch counts down from.
func (l *Log) BytesBetween(from, limit kafka.Offset, atMost int64) (int64, error) {
	if err := l.ready(); err != nil {
		return 0, err
	}
	from, limit = max(from, l.StartOffset()), min(limit, l.EndOffset())
	if from >= limit {
		return 0, nil
	}
	var n int64
	l.mu.Lock()
	first, last := l.findLocked(from), l.findLocked(limit-1)
	segs := l.mu.segs[first : last+1]
	for _, s := range segs {
		n += s.size
	}
	a, b := segs[0], segs[len(segs)-1]
	bEnd, bSize := b.end, b.size
	l.mu.Unlock()
	if from > a.base {
		pos, err := l.lookup(a, func(e offsetEntry) bool { return int64(e.rel) <= int64(from-a.base) })
		if err != nil {
			return 0, err
		}
		n -= pos
	}
	if limit < bEnd {
		pos, err := l.lookup(b, func(e offsetEntry) bool { return int64(e.rel) < int64(limit-b.base) })
		if err != nil {
			return 0, err
		}
		n -= bSize - pos
	}
	return min(max(n, 1), atMost), nil
}
