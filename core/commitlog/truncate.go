package commitlog

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/tidemark/tidemark/core/kafka"
)

// TruncateTo cuts the log so that it ends at off: a follower whose log has diverged from its leader's. A batch that
// holds off goes whole, so the log may end below it; AppendEnd tells. Indexes, leader epochs, producers and the tail
// ring forget what was cut. An offset below the first segment empties the log, which then begins at off; one at the
// end or above changes nothing. The cut is durable before it returns: otherwise a power loss could bring a cut batch
// back in front of a newer one that was written over its successor, and no leader epoch would tell. [append lock]
func (l *Log) TruncateTo(off kafka.Offset) error {
	if err := l.ready(); err != nil {
		return err
	}
	l.work.Lock()
	defer l.work.Unlock()
	if off >= l.appendEnd {
		return nil
	}
	if off < l.mu.segs[0].base || off < 0 {
		return l.truncateFully(off)
	}
	if err := l.truncate(off); err != nil {
		return fmt.Errorf("truncate %s to offset %d: %w", l.Dir(), off, err)
	}
	return nil
}

// TruncateFully throws all records away; the log is empty and begins at off: a follower whose whole log lies outside
// its leader's. [append lock]
func (l *Log) TruncateFully(off kafka.Offset) error {
	if err := l.ready(); err != nil {
		return err
	}
	l.work.Lock()
	defer l.work.Unlock()
	return l.truncateFully(max(off, 0))
}

func (l *Log) truncateFully(off kafka.Offset) error {
	off = max(off, 0)
	l.hide(off)
	if err := l.startOver(off); err != nil {
		return fmt.Errorf("empty %s: %w", l.Dir(), err)
	}
	if err := l.env.FS.SyncDir(l.Dir()); err != nil {
		return err
	}
	l.cur = l.mu.segs[0]
	l.appendEnd = off
	l.start.Store(int64(off))
	l.end.Store(int64(off))
	l.mu.Lock()
	l.mu.epochs.list, l.mu.epochs.dirty = nil, true
	l.mu.Unlock()
	l.flushed.Store(int64(off))
	l.recovery.Store(int64(off))
	return l.reloadProducers(true)
}

// hide takes the end back, so that no reader finds what is about to be cut, and lets go of it in memory.
func (l *Log) hide(off kafka.Offset) {
	l.forgetRoom() // whatever is cut, the file ends there afterwards
	l.work.cuts++
	l.dropMark(off)
	l.cleanedTo.Store(min(l.cleanedTo.Load(), int64(off)))
	l.end.Store(min(l.end.Load(), int64(off)))
	l.flushed.Store(min(l.flushed.Load(), int64(off)))
	l.recovery.Store(min(l.recovery.Load(), int64(off)))
	if r := l.tail.Load(); r != nil {
		l.env.Tail.cut(r, off)
	}
}

// truncate cuts at an offset within the segments.
func (l *Log) truncate(off kafka.Offset) error {
	l.hide(off)
	// Index files are cut by what they hold: all of it must be there.
	if err := l.spillAll(); err != nil {
		return err
	}
	l.mu.Lock()
	i := l.findLocked(off)
	s := l.mu.segs[i]
	gone := slices.Clone(l.mu.segs[i+1:])
	l.mu.segs = slices.Clone(l.mu.segs[:i+1])
	l.mu.hints = nil
	s.dropTailLocked()
	l.mu.Unlock()
	for _, g := range slices.Backward(gone) { // from the end: a crash in between leaves no hole
		if err := l.removeSegment(g); err != nil {
			return err
		}
	}
	if len(gone) > 0 {
		if err := l.env.FS.SyncDir(l.Dir()); err != nil {
			return err
		}
	}
	if err := l.cutSegment(s, off); err != nil {
		return err
	}
	l.cur = s
	end := s.end
	l.mu.Lock()
	l.mu.epochs.cutEnd(end)
	l.mu.newFiles = true
	l.mu.Unlock()
	l.appendEnd = end
	l.hide(end)
	l.start.Store(min(l.start.Load(), int64(end)))
	l.end.Store(int64(end))
	return l.reloadProducers(false)
}

// cutSegment cuts a segment before the batch that holds off or is the first behind it.
func (l *Log) cutSegment(s *segment, off kafka.Offset) error {
	lease, err := l.acquire(s, kindLog)
	if err != nil {
		return err
	}
	defer lease.Release()
	sc := newScanner(lease, s.size, l.env.Pool, lookupChunk)
	pos, err := l.locate(&sc, s, off)
	sc.close()
	if err == io.EOF {
		pos, err = s.size, nil // off lies in a gap behind the last batch
	}
	if err != nil {
		return err
	}
	at, err := l.resumePoint(s, func(e offsetEntry) bool { return int64(e.pos) < pos })
	if err != nil {
		return err
	}
	if err := errors.Join(lease.f.Truncate(pos), lease.f.SyncData()); err != nil {
		return err
	}
	l.mu.Lock()
	s.size = pos
	for k := range s.unsynced {
		s.unsynced[k] = s.unsynced[k] || k != int(kindTxn)
	}
	l.mu.Unlock()
	_, err = l.rescan(s, at, false)
	return err
}

// reloadProducers makes the producer state anew after a truncation. all removes every snapshot.
func (l *Log) reloadProducers(all bool) error {
	infos, err := l.env.FS.ReadDir(l.Dir())
	if err != nil {
		return err
	}
	l.mu.Lock()
	l.mu.snaps = slices.DeleteFunc(slices.Clone(l.mu.snaps), func(p pendingSnapshot) bool { return all || p.offset > l.appendEnd })
	l.mu.Unlock()
	var snaps []kafka.Offset
	for _, st := range infos {
		o, suffix, ok := parseOffsetName(st.Name)
		if !ok || suffix != suffixSnapshot {
			continue
		}
		if all {
			if err := l.env.FS.Remove(l.Dir() + "/" + st.Name); err != nil {
				return err
			}
			continue
		}
		snaps = append(snaps, o)
	}
	return l.loadProducers(snaps, l.appendEnd)
}
