package commitlog

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"

	"github.com/tidemark/tidemark/core/kafka"
	"github.com/tidemark/tidemark/core/vfs"
)

// indexCheckBytes bounds what tailFits reads for each of its questions.
const indexCheckBytes = 64 << 10

// tailFits tells whether a whole segment's indexes reach its end, as their sizes cannot: a file that a crash has cut
// between two entries looks like a shorter one. The batches behind the last offset entry must be too few for another
// entry, by the interval in force or by the other entries' distances, and none behind the last time entry may have a
// higher timestamp. Only the first 64 KiB behind an entry are looked at: where one was cut off, what it stood for lies
// there. It also finds out how many bytes the segment has had since its last entry.
func (l *Log) tailFits(s *segment) (bool, error) {
	lease, err := l.acquire(s, kindLog)
	if err != nil {
		return false, err
	}
	defer lease.Release()
	sc := newScanner(lease, s.size, l.env.Pool, lookupChunk)
	defer sc.close()
	at, err := l.resumePoint(s, func(offsetEntry) bool { return true })
	if err != nil {
		return false, err
	}
	// Twice as much: a writer that counts from 0 after a restart, as Kafka does, leaves wider gaps.
	interval, since := int64(2*l.Config().indexInterval()), int64(0)
	walk := func() (bool, error) {
		since = 0
		return walkHeaders(&sc, at.pos, func(_, size, _ int64) bool {
			if since > interval {
				return false // here stood an entry
			}
			since += size
			return true
		})
	}
	whole, err := walk()
	if err == nil && !whole {
		// A start does not know the topic's interval, and it may have changed since: the entries that are left tell it too. Where
		// two are missing and no more, that may pass; a look-up is right all the same and goes on over a gap like the others.
		var widest int64
		if widest, err = l.widestGap(s); err == nil && 2*widest > interval {
			interval = 2 * widest
			whole, err = walk()
		}
	}
	if err == nil && !whole {
		return false, nil
	}
	if err != nil {
		return true, ignoreDamage(err)
	}
	l.mu.Lock()
	if s.idx == nil {
		s.since = int32(min(since, 1<<30))
	}
	highest, rel := s.maxTS, int32(s.maxTSAt-s.base)
	l.mu.Unlock()
	pos, err := l.lookup(s, func(e offsetEntry) bool { return e.rel <= rel })
	if err != nil {
		return false, err
	}
	fits := true
	_, err = walkHeaders(&sc, pos, func(at, _, ts int64) bool {
		fits = fits && ts <= highest
		return fits && at-pos < indexCheckBytes
	})
	if fits {
		l.tellHole(s, endFrom(&sc, at.pos, s.base), s.end)
	}
	return fits, ignoreDamage(err)
}

// widestGap is the most bytes between two of the last entries of a segment's offset index, the segment's beginning counting as one;
// 0 where there is none, or where they do not ascend.
func (l *Log) widestGap(s *segment) (widest int64, err error) {
	n := int64(s.counts[kindIndex])
	if n == 0 {
		return 0, nil
	}
	lease, err := l.acquire(s, kindIndex)
	if err != nil {
		return 0, err
	}
	defer lease.Release()
	size := min(n*offsetEntryBytes, indexCheckBytes)
	scratch := l.env.Pool.Get(int(size))
	defer scratch.Release()
	b := scratch.B[:size]
	if _, err := lease.ReadAt(b, n*offsetEntryBytes-size); err != nil {
		return 0, err
	}
	before := int64(0)
	if n*offsetEntryBytes > size {
		before = int64(parseOffsetEntry(b).pos)
		b = b[offsetEntryBytes:]
	}
	for ; len(b) > 0; b = b[offsetEntryBytes:] {
		pos := int64(parseOffsetEntry(b).pos)
		if pos <= before {
			return 0, nil
		}
		widest, before = max(widest, pos-before), pos
	}
	return widest, nil
}

// endFrom is where the batches from pos on end; base when there is none.
func endFrom(sc *scanner, pos int64, base kafka.Offset) kafka.Offset {
	for end := base; ; {
		h, size, err := sc.header(pos)
		if err != nil {
			return end
		}
		end, pos = h.LastOffset()+1, pos+size
	}
}

// tellHole tells of offsets that are missing at the end of a segment which is known to be whole, where no compaction has been:
// the file has been cut since, and nobody can bring them back.
func (l *Log) tellHole(s *segment, from, end kafka.Offset) {
	if from < end && end > l.CleanedTo() && end-s.base <= math.MaxInt32 { // a wider gap is one that no index can span
		l.env.Logger.Error("records are missing at the end of a segment that was whole on disk; they cannot be read any more",
			"file", l.fileName(s.base, kindLog.suffix()), "from", from, "to", end-1)
	}
}

// walkHeaders passes position, size and highest timestamp of the batches from pos on to visit while it answers true, and
// reports whether it came to the end.
func walkHeaders(sc *scanner, pos int64, visit func(pos, size, maxTS int64) bool) (bool, error) {
	for {
		h, size, err := sc.header(pos)
		if err == io.EOF {
			return true, nil
		}
		if err != nil {
			return false, err
		}
		if !visit(pos, size, h.MaxTimestamp()) {
			return false, nil
		}
		pos += size
	}
}

// ignoreDamage leaves the judgement of damaged batches to those who read them: the indexes are not to blame.
func ignoreDamage(err error) error {
	if errors.Is(err, ErrCorrupt) || errors.Is(err, errTorn) {
		return nil
	}
	return err
}

// timesFit tells whether the time index holds what belongs to the batches before a resume point, as tailFits does.
func (l *Log) timesFit(s *segment, at rescanFrom) bool {
	highest, pos := int64(-1), int64(0)
	if at.times > 0 {
		highest = at.time.ts
		var err error
		if pos, err = l.lookup(s, func(e offsetEntry) bool { return e.rel <= at.time.rel }); err != nil {
			return false
		}
	}
	lease, err := l.acquire(s, kindLog)
	if err != nil {
		return false
	}
	defer lease.Release()
	sc := newScanner(lease, at.pos, l.env.Pool, lookupChunk)
	defer sc.close()
	fits := true
	_, err = walkHeaders(&sc, pos, func(p, _, ts int64) bool {
		fits = fits && ts <= highest
		return fits && p-pos < indexCheckBytes
	})
	return fits && err == nil
}

// loadIndexes counts the entries of a segment's indexes and takes the highest timestamp from the last one. It reports
// whether sizes and last entries are such as a whole segment has.
func (l *Log) loadIndexes(s *segment) (bool, error) {
	if err := l.countTxns(s); err != nil {
		return false, err
	}
	var last [kinds][]byte
	var counts [kinds]int32
	thin := false // no entry, though only one large batch explains that
	for k := kindIndex; k <= kindTime; k++ {
		var st vfs.Info
		err := fs.ErrNotExist
		if !l.absentFile(s, k) {
			st, err = l.env.FS.Stat(l.fileName(s.base, k.suffix()))
		}
		if isNotExist(err) {
			if k == kindTime && s.size > 0 {
				return false, nil
			}
			thin = thin || s.size > int64(l.Config().indexInterval())
			continue
		}
		if err != nil {
			return false, err
		}
		size := int64(entryBytes(k))
		if st.Size%size != 0 || st.Size > math.MaxInt32 {
			return false, nil
		}
		counts[k] = int32(st.Size / size)
		if counts[k] == 0 {
			if k == kindTime && s.size > 0 {
				return false, nil
			}
			thin = thin || s.size > int64(l.Config().indexInterval())
			continue
		}
		lease, err := l.acquire(s, k)
		if err != nil {
			return false, err
		}
		last[k] = make([]byte, size)
		_, err = lease.ReadAt(last[k], st.Size-size)
		lease.Release()
		if err != nil {
			return false, fmt.Errorf("read %s: %w", l.fileName(s.base, k.suffix()), err)
		}
	}
	if !l.adoptIndexes(s, counts, last) {
		return false, nil
	}
	if thin {
		return l.tailFits(s)
	}
	return true, nil
}

// adoptIndexes takes what loadIndexes has found, and reports whether the last entries can be a whole segment's.
func (l *Log) adoptIndexes(s *segment, counts [kinds]int32, last [kinds][]byte) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	s.counts[kindIndex], s.counts[kindTime] = counts[kindIndex], counts[kindTime]
	span := int64(s.end - s.base)
	if b := last[kindIndex]; b != nil {
		e := parseOffsetEntry(b)
		if e.pos <= 0 || int64(e.pos) >= s.size || e.rel < 0 || span > 0 && int64(e.rel) >= span {
			return false
		}
	}
	if b := last[kindTime]; b != nil {
		e := parseTimeEntry(b)
		if e.ts < 0 || e.rel < 0 || e == (timeEntry{}) || span > 0 && int64(e.rel) >= span {
			return false
		}
		s.maxTS, s.maxTSAt, s.indexedTS = e.ts, s.base+kafka.Offset(e.rel), e.ts
	}
	return true
}

// countTxns counts the entries of a transaction index.
func (l *Log) countTxns(s *segment) error {
	if l.absentFile(s, kindTxn) {
		return nil
	}
	st, err := l.env.FS.Stat(l.fileName(s.base, kindTxn.suffix()))
	if isNotExist(err) {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	s.counts[kindTxn] = int32(st.Size / txnEntryBytes)
	return err
}
