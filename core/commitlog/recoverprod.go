package commitlog

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"

	"github.com/tidemark/tidemark/core/kafka"
	"github.com/tidemark/tidemark/core/vfs"
)

func isNotExist(err error) bool { return errors.Is(err, fs.ErrNotExist) }

// loadProducers makes the producer state as of the log end: from the newest snapshot at or below from that can be
// read, and the batches behind it. Aborted transactions whose markers lie at from or behind go into the transaction
// index anew; entries of older ones are in the files. Snapshots above the end go. [work, append lock or not yet open]
func (l *Log) loadProducers(snaps []kafka.Offset, from kafka.Offset) error {
	end := l.appendEnd
	if from < 0 {
		from = end
	}
	if l.producers != nil {
		l.producers.reset()
	}
	if err := l.cutTxns(from); err != nil {
		return err
	}
	loaded, newest := kafka.NoOffset, kafka.NoOffset
	for _, o := range slices.Backward(snaps) {
		name := l.fileName(o, suffixSnapshot)
		if o > end {
			if err := l.env.FS.Remove(name); err != nil && !isNotExist(err) {
				return err
			}
			continue
		}
		newest = max(newest, o)
		if loaded >= 0 && l.mu.segs[l.findLocked(o)].base != o {
			// One that a mark or a stop has taken, and that a newer one has replaced.
			if err := l.env.FS.Remove(name); err != nil && !isNotExist(err) {
				return err
			}
		}
		if o > from || loaded >= 0 {
			continue
		}
		list, err := l.readSnapshot(o)
		if errors.Is(err, ErrCorrupt) {
			l.env.Logger.Warn("producer snapshot cannot be read; an older one and more of the log are", "file", name, "error", err)
			if err := l.env.FS.Remove(name); err != nil {
				return err
			}
			continue
		}
		if err != nil {
			return err
		}
		if len(list) > 0 {
			l.needProducers().load(list)
		}
		loaded = o
	}
	err := l.replay(max(loaded, 0), from)
	l.mu.Lock()
	l.mu.lastSnap = newest
	l.mu.producers = l.producers != nil && l.producers.count() > 0
	l.mu.Unlock()
	return err
}

func (l *Log) readSnapshot(o kafka.Offset) ([]ProducerState, error) {
	name := l.fileName(o, suffixSnapshot)
	b, err := vfs.ReadFile(l.env.FS, name, maxMetaBytes)
	if err != nil {
		return nil, err
	}
	list, err := parseSnapshot(b)
	if err != nil {
		return nil, fmt.Errorf("%s %w", name, err)
	}
	return list, nil
}

func (l *Log) needProducers() *Producers {
	if l.producers == nil {
		l.producers = newProducers(l.env.NowMS)
		l.producers.recall = l.recall
	}
	return l.producers
}

// Producers is the log's producer state. It also makes a log that was opened from a summary ready, so that AppendEnd
// is true after it. [append lock]
func (l *Log) Producers() (*Producers, error) {
	if err := l.ready(); err != nil {
		return nil, err
	}
	return l.needProducers(), nil
}

// replay brings the producers up to the log end from an offset on.
func (l *Log) replay(start, from kafka.Offset) error {
	for i, s := range l.mu.segs {
		if s.size == 0 || i+1 < len(l.mu.segs) && l.mu.segs[i+1].base <= start {
			continue
		}
		if err := l.replaySegment(s, start, from); err != nil {
			return err
		}
	}
	return nil
}

func (l *Log) replaySegment(s *segment, start, from kafka.Offset) error {
	lease, err := l.acquire(s, kindLog)
	if err != nil {
		return err
	}
	defer lease.Release()
	sc := newScanner(lease, s.size, l.env.Pool, lookupChunk)
	defer sc.close()
	pos := int64(0)
	if start > s.base {
		if pos, err = l.locate(&sc, s, start); err != nil {
			if err == io.EOF {
				return nil
			}
			return l.replayDamage(s, err)
		}
	}
	for {
		b, size, err := sc.header(pos)
		if err == io.EOF {
			return nil
		}
		if err == nil && b.ProducerID() >= 0 {
			if b.IsControl() {
				b, err = sc.batch(pos)
			}
			var aborted []AbortedTxn
			if err == nil {
				aborted, err = l.needProducers().replay(b)
			}
			if err == nil && b.BaseOffset() >= from && len(aborted) > 0 {
				l.mu.Lock()
				t := s.tailLocked()
				t.txns.entries = append(t.txns.entries, aborted...)
				l.mu.Unlock()
			}
		}
		if err != nil {
			return l.replayDamage(s, fmt.Errorf("at %d: %w", pos, err))
		}
		pos += size
	}
}

// replayDamage decides on an error inside a segment that was trusted: damage there does not keep the log from
// opening, since readers of other offsets are not concerned, but I/O errors do.
func (l *Log) replayDamage(s *segment, err error) error {
	name := l.fileName(s.base, kindLog.suffix())
	var path *fs.PathError
	if errors.As(err, &path) {
		return fmt.Errorf("read %s: %w", name, err)
	}
	l.env.Logger.Error("segment is damaged; producers that wrote behind the damage are not known", "file", name, "error", err)
	return nil
}

// cutTxns takes entries of markers at end or behind out of the transaction indexes.
func (l *Log) cutTxns(end kafka.Offset) error {
	for i := len(l.mu.segs) - 1; i >= 0; i-- {
		s := l.mu.segs[i]
		if s.end <= end && i < len(l.mu.segs)-1 {
			break
		}
		if err := l.cutTxnFile(s, end); err != nil {
			return err
		}
	}
	return nil
}

func (l *Log) cutTxnFile(s *segment, end kafka.Offset) error {
	name := l.fileName(s.base, kindTxn.suffix())
	var b []byte
	if !l.absentFile(s, kindTxn) {
		var err error
		if b, err = vfs.ReadFile(l.env.FS, name, maxMetaBytes); err != nil && !isNotExist(err) {
			return err
		}
	}
	n := 0
	for n+txnEntryBytes <= len(b) {
		a, err := parseAbortedTxn(b[n:])
		if err != nil || a.Last >= end || a.Last < s.base {
			break
		}
		n += txnEntryBytes
	}
	l.mu.Lock()
	if t := s.idx; t != nil {
		t.txns = column[AbortedTxn]{first: n / txnEntryBytes, written: n / txnEntryBytes}
	}
	s.counts[kindTxn] = int32(n / txnEntryBytes)
	l.mu.Unlock()
	if n == len(b) {
		return nil
	}
	lease, err := l.acquire(s, kindTxn)
	if err != nil {
		return err
	}
	defer lease.Release()
	return lease.f.Truncate(int64(n))
}

// AbortedTxns lists the aborted transactions that a reader of [from, limit) must know, as Fetch with read_committed
// returns them: those with a record or marker at from or behind that began below limit.
func (l *Log) AbortedTxns(from, limit kafka.Offset) ([]AbortedTxn, error) {
	if err := l.ready(); err != nil {
		return nil, err
	}
	for {
		found, err := l.abortedTxns(from, limit)
		if !errors.Is(err, errDead) {
			return found, err
		}
		if err := l.readyAgain(); err != nil {
			return nil, err // all of its segments have left
		}
		// A segment was deleted or replaced between look-up and read: look again. What replaced it is in the list.
	}
}

func (l *Log) abortedTxns(from, limit kafka.Offset) ([]AbortedTxn, error) {
	l.mu.Lock()
	segs := l.mu.segs[l.findLocked(from):]
	l.mu.Unlock()
	var found []AbortedTxn
	for _, s := range segs {
		done, err := l.segmentTxns(s, func(a AbortedTxn) bool {
			if a.Last >= from && a.First < limit {
				found = append(found, a)
			}
			// A marker that was written when everything below limit was decided: no later one concerns the range.
			return a.LastStableOffset >= limit
		})
		if err != nil || done {
			return found, err
		}
	}
	return found, nil
}

// segmentTxns passes a segment's aborted transactions to visit until it answers true.
func (l *Log) segmentTxns(s *segment, visit func(AbortedTxn) bool) (bool, error) {
	l.mu.Lock()
	n := int(s.counts[kindTxn])
	var fresh []AbortedTxn
	if s.idx != nil {
		n = s.idx.txns.first
		fresh = slices.Clone(s.idx.txns.entries)
	}
	l.mu.Unlock()
	if n > 0 {
		lease, err := l.acquire(s, kindTxn)
		if isNotExist(err) && s.files[kindTxn].dead.Load() {
			return false, errDead
		}
		if err != nil {
			return false, err
		}
		defer lease.Release()
		b := make([]byte, n*txnEntryBytes)
		if _, err := lease.ReadAt(b, 0); err != nil {
			return false, fmt.Errorf("read %s: %w", lease.f.Name(), err)
		}
		for ; len(b) > 0; b = b[txnEntryBytes:] {
			a, err := parseAbortedTxn(b)
			if err != nil {
				return false, fmt.Errorf("%s: %w", lease.f.Name(), err)
			}
			if visit(a) {
				return true, nil
			}
		}
	}
	for _, a := range fresh {
		if visit(a) {
			return true, nil
		}
	}
	return false, nil
}
