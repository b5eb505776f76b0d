package commitlog

import (
	"errors"
	"fmt"
	"math"

	"github.com/tidemark/tidemark/core/clock"
	"github.com/tidemark/tidemark/core/kafka"
)

// DeleteBefore moves the log start offset up to off: DeleteRecords, or a follower that follows its leader. Whole
// segments below it go with the next Retain. ErrOffsetOutOfRange above the log end; an offset below the start changes
// nothing. The caller keeps the new start in its checkpoint file.
func (l *Log) DeleteBefore(off kafka.Offset) error {
	if err := l.ready(); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if off > l.EndOffset() {
		return ErrOffsetOutOfRange
	}
	l.raiseStartLocked(off)
	return nil
}

func (l *Log) raiseStartLocked(off kafka.Offset) {
	if int64(off) > l.start.Load() {
		l.start.Store(int64(off))
		l.mu.epochs.cutStart(off)
	}
}

// Retain removes the segments at the head of the log that lie below the log start, that have expired, or that are
// more than retention.bytes allow; nothing at limit (the high watermark) or above goes, nor does the active segment.
// Their files are renamed to *.deleted and unlinked by a later Retain once file.delete.delay.ms has passed. roll says
// that the active segment has expired too: the caller takes the append lock, calls Roll, and Retain again.
//
// A segment expires retention.ms after its highest timestamp or after its last append, whichever is earlier: a record
// cannot be younger than its file, so a timestamp in the far future does not keep the log for ever.
func (l *Log) Retain(nowMS int64, limit kafka.Offset) (deleted int, roll bool, err error) {
	if err := l.ready(); err != nil {
		return 0, false, err
	}
	l.work.Lock()
	defer l.work.Unlock()
	if l.state.Load() != stateReady {
		return 0, false, ErrClosed
	}
	if err := l.unlinkDue(nowMS); err != nil {
		return 0, false, err
	}
	limit = min(limit, l.EndOffset())
	c := l.Config()
	l.mu.Lock()
	segs := l.mu.segs
	n, all := l.expiredLocked(c, nowMS, limit)
	gone := append([]*segment(nil), segs[:n]...)
	if n > 0 {
		// The start moves before a file does: a reader that comes too late finds its offset below the start.
		l.raiseStartLocked(segs[n].base)
		l.mu.segs = append([]*segment(nil), segs[n:]...)
	}
	l.mu.Unlock()
	l.work.gone = append(l.work.gone, gone...)
	if deleted, err = l.retireGone(clock.Later(nowMS, c.FileDeleteDelayMS)); err != nil {
		return deleted, false, err
	}
	if err := l.unlinkDue(nowMS); err != nil {
		return deleted, false, err
	}
	return deleted, all, nil
}

// retireGone retires the segments that have left the log. What fails is tried again by the next Retain. [work]
func (l *Log) retireGone(dueMS int64) (retired int, err error) {
	for _, s := range l.work.gone {
		if err = l.retire(s, dueMS); err != nil {
			err = fmt.Errorf("delete segment %d of %s: %w", s.base, l.Dir(), err)
			break
		}
		retired++
	}
	l.work.gone = l.work.gone[retired:]
	return retired, err
}

// clear removes what the log holds no more at its end: a start that takes the folder as it was left does not look for it. [work]
func (l *Log) clear() {
	_, err := l.retireGone(0)
	if err = errors.Join(err, l.unlinkDue(math.MaxInt64)); err != nil {
		l.env.Logger.Warn("deleted segments stay in the folder until it is recovered", "folder", l.Dir(), "error", err)
	}
}

// expiredLocked counts the segments at the head that must go, and says whether the active one has expired with them.
func (l *Log) expiredLocked(c *Config, nowMS int64, limit kafka.Offset) (n int, all bool) {
	segs := l.mu.segs
	var excess int64
	for _, s := range segs {
		excess += s.size
	}
	excess -= c.RetentionBytes
	for i, s := range segs {
		last := i == len(segs)-1
		end := s.end
		if !last {
			end = segs[i+1].base
		}
		at := s.lastWriteMS
		if s.maxTS >= 0 {
			at = min(at, s.maxTS)
		}
		old := c.DeleteOnRetention && c.RetentionMS >= 0 && nowMS-at > c.RetentionMS
		large := c.DeleteOnRetention && c.RetentionBytes >= 0 && excess >= s.size
		below := !last && int64(end) <= l.start.Load()
		if end > limit || !old && !large && !below {
			return n, false
		}
		if last {
			return n, s.size > 0
		}
		excess -= s.size
		n++
	}
	return n, false
}

// retire renames a segment's files and the producer snapshot that it begins with, which a log beginning later does
// not need.
func (l *Log) retire(s *segment, dueMS int64) error {
	l.dropFiles(s, true)
	names := []string{l.fileName(s.base, suffixSnapshot)}
	for k := kindLog; k < kinds; k++ {
		names = append(names, l.fileName(s.base, k.suffix()))
	}
	return l.renameDeleted(names, dueMS)
}

// renameDeleted renames files to *.deleted; unlinkDue removes them. [work]
func (l *Log) renameDeleted(names []string, dueMS int64) error {
	for _, name := range names {
		err := l.env.FS.Rename(name, name+suffixDeleted)
		if err != nil && !isNotExist(err) { // a full disk may have no room for the longer name
			err = l.env.FS.Remove(name)
		}
		if isNotExist(err) {
			continue
		}
		if err != nil {
			return err
		}
		l.work.deleted = append(l.work.deleted, deletedFile{offsetNameOf(name) + suffixDeleted, dueMS})
	}
	return nil
}

// offsetNameOf is the last part of a path.
func offsetNameOf(name string) string {
	for i := len(name) - 1; i >= 0; i-- {
		if name[i] == '/' {
			return name[i+1:]
		}
	}
	return name
}

// unlinkDue removes renamed files whose delay has passed. [work]
func (l *Log) unlinkDue(nowMS int64) error {
	kept := l.work.deleted[:0]
	var failed error
	for _, d := range l.work.deleted {
		if d.dueMS > nowMS || failed != nil {
			kept = append(kept, d)
			continue
		}
		if err := l.env.FS.Remove(l.Dir() + "/" + d.name); err != nil && !isNotExist(err) {
			failed = err
			kept = append(kept, d)
		}
	}
	l.work.deleted = kept
	return failed
}
