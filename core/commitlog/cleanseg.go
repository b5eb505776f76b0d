package commitlog

import (
	"errors"
	"fmt"
	"math"

	"github.com/tidemark/tidemark/core/clock"
	"github.com/tidemark/tidemark/core/kafka"
	"github.com/tidemark/tidemark/core/record"
	"github.com/tidemark/tidemark/core/vfs"
)

// Suffixes of a segment that is being made by compaction, see replace.
const (
	suffixCleaned = ".cleaned"
	suffixSwap    = ".swap"
)

// cleanedChunk is how many bytes of a new segment are written at once.
const cleanedChunk = 256 << 10

// cleaned is a new segment in the making. Its files are leased until it has its final names, so that none of them is
// opened by name meanwhile.
type cleaned struct {
	l      *Log
	s      *segment
	leases [kinds]*Lease
	buf    []byte // batches that end at s.size and are not written
}

// newCleaned makes the .cleaned files of a segment, all but the transaction index.
func (l *Log) newCleaned(base kafka.Offset) (*cleaned, error) {
	w := &cleaned{l: l, s: newSegment(base)}
	for k := kindLog; k <= kindTime; k++ {
		if err := w.create(k); err != nil {
			return nil, errors.Join(err, w.abandon())
		}
	}
	return w, nil
}

func (w *cleaned) create(k kind) (err error) {
	w.leases[k], err = w.l.env.Files.acquire(&w.s.files[k], func() (vfs.File, error) {
		return w.l.env.FS.Create(w.l.fileName(w.s.base, k.suffix()) + suffixCleaned)
	})
	return err
}

// add appends a batch.
func (w *cleaned) add(b record.Batch) error {
	s := w.s
	if int64(len(b))+s.size > math.MaxInt32 || b.LastOffset()-s.base > math.MaxInt32 {
		return fmt.Errorf("segment %d would not fit the index format", s.base)
	}
	w.l.mu.Lock()
	if ts := b.MaxTimestamp(); ts > s.maxTS {
		s.maxTS, s.maxTSAt = ts, b.LastOffset()
	}
	s.tailLocked().note(s, b.LastOffset(), s.size, int64(len(b)), w.l.Config().indexInterval())
	s.size += int64(len(b))
	s.end = b.LastOffset() + 1
	w.l.mu.Unlock()
	w.buf = append(w.buf, b...)
	if len(w.buf) < cleanedChunk {
		return nil
	}
	if err := w.flush(); err != nil {
		return err
	}
	return w.l.spill(s, false)
}

// addTxn adds an entry to the transaction index.
func (w *cleaned) addTxn(a AbortedTxn) error {
	if w.leases[kindTxn] == nil {
		if err := w.create(kindTxn); err != nil {
			return err
		}
	}
	w.l.mu.Lock()
	w.s.tailLocked().txns.add(a)
	w.l.mu.Unlock()
	return nil
}

func (w *cleaned) flush() error {
	if len(w.buf) == 0 {
		return nil
	}
	_, err := w.leases[kindLog].f.WriteAt(w.buf, w.s.size-int64(len(w.buf)))
	w.buf = w.buf[:0]
	return err
}

// finish writes everything and makes it durable.
func (w *cleaned) finish() error {
	if err := w.flush(); err != nil {
		return err
	}
	w.l.mu.Lock()
	w.s.tailLocked() // or the entries that are written would not be counted
	w.s.closeTimes()
	w.l.mu.Unlock()
	if err := w.l.spill(w.s, true); err != nil {
		return err
	}
	w.l.mu.Lock()
	w.s.dropTailLocked()
	clear(w.s.unsynced[:])
	w.l.mu.Unlock()
	for _, lease := range w.leases {
		if lease == nil {
			continue
		}
		if err := lease.f.Sync(); err != nil {
			return err
		}
	}
	return nil
}

// release ends the leases; the files stay open in the cache.
func (w *cleaned) release() {
	for k, lease := range w.leases {
		if lease != nil {
			lease.Release()
			w.leases[k] = nil
		}
	}
}

// abandon removes what was written. The .log file goes last, see finishSwaps.
func (w *cleaned) abandon() error {
	w.l.dropFiles(w.s, true)
	w.release()
	var failed error
	for k := kinds - 1; k >= kindLog; k-- {
		for _, suffix := range []string{suffixSwap, suffixCleaned} {
			if err := w.l.env.FS.Remove(w.l.fileName(w.s.base, k.suffix()) + suffix); err != nil && !isNotExist(err) {
				failed = err
			}
		}
	}
	return failed
}

// replace puts a new segment in the place of the group that it was made from. cuts tells whether the log has been
// truncated since the group was read.
//
// Every step is one rename, and after a crash between any two a start knows what to do (finishSwaps):
//
//	1  .index .timeindex .txnindex .cleaned -> .swap   while the .log is .cleaned nothing has happened: all go
//	2  .log.cleaned -> .log.swap, durable              from here on the new segment counts
//	3  old files -> .deleted, the .log last            while the first one's .log is there, its indexes are old ones
//	4  .swap -> final names, the .log last             while there is a .log.swap, go on
//
// Readers never miss a file. Before step 3 the new segment is put in the list, with its files open and leased; who still
// holds the old one may open a file by a name that by now belongs to the new one, so the old ones are marked dead first,
// and acquire looks at the mark after it has opened.
func (l *Log) replace(w *cleaned, group []*segment, cuts int) error {
	l.work.Lock()
	defer l.work.Unlock()
	l.mu.Lock()
	_, ok := l.holdsLocked(group)
	l.mu.Unlock()
	if !ok || l.work.cuts != cuts || l.notCleaned() {
		return errGroupGone
	}
	fs, dir := l.env.FS, l.Dir()
	name := func(k kind) string { return l.fileName(w.s.base, k.suffix()) }
	for k := kindIndex; k < kinds; k++ {
		if w.leases[k] != nil {
			if err := fs.Rename(name(k)+suffixCleaned, name(k)+suffixSwap); err != nil {
				return err
			}
		}
	}
	if err := fs.SyncDir(dir); err != nil {
		return err
	}
	if err := fs.Rename(name(kindLog)+suffixCleaned, name(kindLog)+suffixSwap); err != nil {
		return err
	}
	if err := fs.SyncDir(dir); err != nil {
		return l.swapFailed(w, err)
	}
	l.mu.Lock()
	at, _ := l.holdsLocked(group)
	segs := append([]*segment(nil), l.mu.segs[:at]...)
	segs = append(append(segs, w.s), l.mu.segs[at+len(group):]...)
	l.mu.segs, l.mu.hints, l.mu.newFiles = segs, nil, true
	l.mu.Unlock()
	if r := l.tail.Load(); r != nil {
		l.env.Tail.dropBefore(r, w.s.end)
	}
	due := clock.Later(l.env.NowMS(), l.Config().FileDeleteDelayMS)
	for i, old := range group {
		if err := l.retireOld(old, due, i > 0); err != nil {
			return l.swapFailed(w, err)
		}
	}
	for k := kinds - 1; k >= kindLog; k-- {
		if w.leases[k] != nil {
			if err := fs.Rename(name(k)+suffixSwap, name(k)); err != nil {
				return l.swapFailed(w, err)
			}
		}
	}
	w.release()
	return nil
}

// errGroupGone says that the segments are no longer there, or not as they were read. It is no failure: what is dirty
// stays dirty.
var errGroupGone = fmt.Errorf("segments have changed while they were cleaned: %w", ErrClosed)

// swapFailed stops all work on a log whose files stand between two steps of replace; the next start goes on from there.
func (l *Log) swapFailed(w *cleaned, err error) error {
	err = fmt.Errorf("put cleaned segment %d of %s in place: %w", w.s.base, l.Dir(), err)
	l.mu.Lock()
	if l.mu.failed == nil {
		l.mu.failed = err
	}
	l.mu.Unlock()
	w.leases = [kinds]*Lease{} // kept for good: the names that the files will have are not theirs yet
	w.s = newSegment(-1)       // so that abandon finds nothing
	return err
}

// retireOld renames a replaced segment's files, indexes first. snapshot says whether the producer snapshot at its base
// goes too: no segment begins there any more.
func (l *Log) retireOld(s *segment, dueMS int64, snapshot bool) error {
	l.dropFiles(s, true)
	names := []string{}
	if snapshot {
		names = append(names, l.fileName(s.base, suffixSnapshot))
	}
	for k := kinds - 1; k >= kindLog; k-- {
		names = append(names, l.fileName(s.base, k.suffix()))
	}
	return l.renameDeleted(names, dueMS)
}
