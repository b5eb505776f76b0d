package commitlog

import (
	"errors"
	"io"
)

// indexCheckBytes bounds what tailFits reads for each of its questions.
const indexCheckBytes = 64 << 10

// tailFits tells whether a whole segment's indexes reach its end, as their sizes cannot: a file that a crash has cut
// between two entries looks like a shorter one. The batches behind the last offset entry must be too few for another
// entry, and none behind the last time entry may have a higher timestamp. Only the first 64 KiB behind an entry are looked
// at: where one was cut off, what it stood for lies there. It also finds out how many bytes the segment has had since its
// last entry.
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
	whole, err := walkHeaders(&sc, at.pos, func(_, size, _ int64) bool {
		if since > interval {
			return false // here stood an entry
		}
		since += size
		return true
	})
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
	return fits, ignoreDamage(err)
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
