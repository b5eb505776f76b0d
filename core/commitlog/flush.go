package commitlog

import (
	"errors"
	"fmt"
	"io/fs"
	"path"

	"github.com/tidemark/tidemark/core/kafka"
	"github.com/tidemark/tidemark/core/vfs"
)

// Flush makes the records up to the published end durable and returns that end: data alone, and the folder entries
// of new segments (tidemark.fsync=batch, flush.messages, flush.ms). A log that has not changed costs no system call.
// After a failed fsync every Flush and Checkpoint fails with the same error: a second fsync would lie (BROKER 6). Where a file
// could not be opened to be synced (EMFILE), nothing has failed yet: the error is no ErrFlush, and the next call does what is left.
func (l *Log) Flush() (kafka.Offset, error) {
	if l.state.Load() == stateLazy {
		return l.FlushedOffset(), nil
	}
	l.work.Lock()
	defer l.work.Unlock()
	if l.state.Load() == stateClosed {
		return l.FlushedOffset(), ErrClosed
	}
	end := l.EndOffset()
	return end, l.sync(kindLog, end)
}

// Checkpoint makes everything durable, indexes, leader epochs and producer snapshots too, and returns the new
// recovery point: recovery after a crash reads only what lies behind it.
func (l *Log) Checkpoint() (kafka.Offset, error) {
	if l.state.Load() == stateLazy {
		return l.RecoveryPoint(), nil
	}
	l.work.Lock()
	defer l.work.Unlock()
	return l.checkpoint(l.EndOffset())
}

func (l *Log) checkpoint(end kafka.Offset) (kafka.Offset, error) {
	// What lies below the recovery point is later known by its indexes alone, so they must be complete up to it.
	l.mu.Lock()
	for _, s := range l.mu.segs {
		s.closeTimes()
	}
	l.mu.Unlock()
	err := l.spillAll()
	if err == nil {
		err = l.writeMeta()
	}
	for k := kindLog; k < kinds && err == nil; k++ {
		err = l.sync(k, end)
	}
	if err != nil {
		return l.RecoveryPoint(), err
	}
	if !l.env.durable() { // whole, and not known to be on disk
		l.written.Store(int64(end))
		return l.RecoveryPoint(), nil
	}
	l.recovery.Store(int64(end))
	return end, nil
}

// settle is what a roll leaves to be done off the append path: the rolled segment becomes durable with its indexes
// and the producer snapshot, and the recovery point moves to its end.
func (l *Log) settle(old *segment) error {
	l.work.Lock()
	defer l.work.Unlock()
	if l.state.Load() != stateReady {
		return nil
	}
	end := max(min(old.end, l.EndOffset()), l.RecoveryPoint())     // old.end no longer changes
	if l.Config().Preallocate && !old.files[kindLog].dead.Load() { // else it has been removed meanwhile
		if err := l.trim(old); err != nil {
			return err
		}
	}
	if old.end <= l.RecoveryPoint() {
		return nil // a later segment's turn has come first and covered this one
	}
	_, err := l.checkpoint(end)
	return err
}

// trim gives back room that was reserved and not needed.
func (l *Log) trim(s *segment) error {
	lease, err := l.acquire(s, kindLog)
	if err != nil {
		return err
	}
	defer lease.Release()
	return lease.f.Truncate(s.size)
}

// spillAll writes all index entries that are in memory only. [work]
func (l *Log) spillAll() error {
	l.mu.Lock()
	segs := append([]*segment(nil), l.mu.segs...)
	l.mu.Unlock()
	for i, s := range segs {
		if err := l.spill(s, true); err != nil {
			return err
		}
		if i < len(segs)-1 {
			l.mu.Lock()
			s.dropTailLocked()
			l.mu.Unlock()
		}
	}
	return nil
}

// writeMeta writes leader epochs and snapshots that are in memory only, durably. [work]
func (l *Log) writeMeta() error {
	if err := l.writeEpochs(); err != nil {
		return err
	}
	l.mu.Lock()
	snaps := l.mu.snaps
	l.mu.Unlock()
	for _, s := range snaps {
		if err := vfs.ReplaceFile(l.env.FS, l.fileName(s.offset, suffixSnapshot), s.data, l.env.durable()); err != nil {
			return err
		}
	}
	l.mu.Lock()
	l.mu.snaps = append([]pendingSnapshot(nil), l.mu.snaps[len(snaps):]...)
	l.mu.Unlock()
	return nil
}

// writeEpochs writes the leader epochs, durably, when they differ from the file. [work]
func (l *Log) writeEpochs() error {
	l.mu.Lock()
	var epochs []byte
	if l.mu.epochs.dirty {
		epochs = appendEpochs(nil, l.mu.epochs.list)
		l.mu.epochs.dirty = false
	}
	l.mu.Unlock()
	if epochs == nil {
		return nil
	}
	err := vfs.ReplaceFile(l.env.FS, l.Dir()+"/"+epochsFile, epochs, l.env.durable())
	if err != nil {
		l.mu.Lock()
		l.mu.epochs.dirty = true
		l.mu.Unlock()
	}
	return err
}

// unsynced is what has to be synced, less what has been.
type unsynced struct {
	kind                       kind
	segs                       []*segment // of kind
	newFiles, newFolder, newID bool       // of Log.mu
}

// notOpened marks what could not be opened to be synced: no fsync has been tried, so none has failed.
type notOpened struct{ error }

// Unwrap gives the cause.
func (e notOpened) Unwrap() error { return e.error }

// sync makes one kind of file durable in every segment where it has been written, and new folder entries. With
// kindLog it moves the flushed offset to end. [work]
func (l *Log) sync(k kind, end kafka.Offset) error {
	if !l.env.durable() {
		return nil
	}
	u, err := l.takeUnsynced(k)
	if err == nil {
		err = l.syncAll(&u)
	}
	switch {
	case err == nil:
	case errors.As(err, &notOpened{}):
		l.leaveUnsynced(u)
		return fmt.Errorf("flush %s: %w", l.Dir(), err)
	default:
		l.mu.Lock()
		l.mu.failed = err
		l.mu.Unlock()
		return fmt.Errorf("%w: %s: %w", ErrFlush, l.Dir(), err)
	}
	if k == kindLog && int64(end) > l.flushed.Load() {
		l.flushed.Store(int64(end))
	}
	return nil
}

// takeUnsynced gives what an append that comes during the fsync adds to anew, or the error of an earlier fsync.
func (l *Log) takeUnsynced(k kind) (unsynced, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	u := unsynced{kind: k, newFolder: l.mu.newFolder, newID: l.mu.newID}
	for _, s := range l.mu.segs {
		if s.unsynced[k] {
			s.unsynced[k] = false
			u.segs = append(u.segs, s)
		}
	}
	u.newFiles = l.mu.newFiles || len(u.segs) > 0 && k != kindLog
	l.mu.newFiles, l.mu.newFolder, l.mu.newID = false, false, false
	return u, l.mu.failed
}

// leaveUnsynced gives back what has not been synced.
func (l *Log) leaveUnsynced(u unsynced) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range u.segs {
		s.unsynced[u.kind] = true
	}
	l.mu.newFiles = l.mu.newFiles || u.newFiles
	l.mu.newFolder = l.mu.newFolder || u.newFolder
	l.mu.newID = l.mu.newID || u.newID
}

// syncAll syncs what it takes out of u, up to the first error.
func (l *Log) syncAll(u *unsynced) error {
	if u.newID {
		if err := judgeOpen(l.syncTopicID()); err != nil {
			return err
		}
		u.newID = false
	}
	for len(u.segs) > 0 {
		if err := l.syncFile(u.segs[0], u.kind); err != nil {
			return err
		}
		u.segs = u.segs[1:]
	}
	if u.newFiles {
		if err := judgeOpen(l.env.FS.SyncDir(l.Dir())); err != nil {
			return err
		}
		u.newFiles = false
	}
	if u.newFolder {
		if err := judgeOpen(l.env.FS.SyncDir(path.Dir(l.Dir()))); err != nil {
			return err
		}
		u.newFolder = false
	}
	return nil
}

func (l *Log) syncFile(s *segment, k kind) error {
	lease, err := l.acquire(s, k)
	if k != kindLog && isNotExist(err) {
		return nil // an index without an entry has no file
	}
	if err != nil {
		return notOpened{err}
	}
	defer lease.Release()
	return lease.f.SyncData()
}

// judgeOpen marks the error of a call that opens what it syncs, where the opening has failed.
func judgeOpen(err error) error {
	var at *fs.PathError
	if errors.As(err, &at) && at.Op == "open" {
		return notOpened{err}
	}
	return err
}

// Rest writes index entries that are in memory only, without fsync, and gives back the memory and files of a log that
// has become idle. It stays usable.
func (l *Log) Rest() error {
	if l.state.Load() != stateReady {
		return nil
	}
	l.work.Lock()
	defer l.work.Unlock()
	if l.writing.TryLock() { // else it is idle no more
		err := l.giveBack() // first: a full disk may have no room for the rest
		l.writing.Unlock()
		if err != nil {
			return err
		}
	}
	if err := l.spillAll(); err != nil {
		return err
	}
	l.release(false)
	return nil
}

// release closes files and frees buffers. [work]
func (l *Log) release(dead bool) {
	l.mu.Lock()
	segs := append([]*segment(nil), l.mu.segs...)
	for _, s := range segs {
		s.dropTailLocked()
	}
	l.mu.hints = nil
	l.mu.Unlock()
	for _, s := range segs {
		l.dropFiles(s, dead)
	}
	if r := l.tail.Load(); r != nil {
		l.env.Tail.cut(r, 0)
		l.env.Tail.shrink(r)
	}
}

func (l *Log) dropFiles(s *segment, dead bool) {
	for k := range s.files {
		l.env.Files.drop(&s.files[k], dead)
	}
}

// Close writes everything out durably with a final producer snapshot, and closes all files; leases stay valid until
// they are released. Under Env.Postpone nothing is forced to disk, and what is little stays for the Summary alone. A log
// that was opened from a summary and never used is not touched. [append lock]
func (l *Log) Close() error {
	if l.state.Load() == stateLazy {
		l.state.Store(stateClosed)
		return nil
	}
	l.work.Lock()
	defer l.work.Unlock()
	if l.state.Load() == stateClosed {
		return nil
	}
	if l.producers != nil { // those that have expired are in no snapshot
		l.mu.Lock()
		l.mu.producers = l.producers.count() > 0
		l.mu.Unlock()
	}
	if err := l.giveBack(); err != nil {
		l.env.Logger.Warn("room behind the last batch could not be given back; the next start cuts it off", "folder", l.Dir(), "error", err)
		l.forgetRoom()
	}
	l.clear()
	if l.leave() {
		err := l.stampLast()
		l.state.Store(stateClosed)
		l.release(true)
		return err
	}
	end := l.appendEnd
	l.mu.Lock()
	if l.snapshotIsOldLocked() {
		l.mu.snaps = append(l.mu.snaps, pendingSnapshot{end, l.producers.snapshot()})
		l.mu.lastSnap = end
	}
	l.mu.Unlock()
	_, err := l.checkpoint(end)
	if m := l.mu.mark; err == nil && m != nil && m.file >= 0 && m.file != end && !l.needsSnapshot(m.file) {
		err = l.removeName(offsetName(m.file) + suffixSnapshot)
	}
	if l.Config().Preallocate && err == nil {
		err = l.trim(l.cur)
	}
	err = errors.Join(err, l.stampLast())
	l.state.Store(stateClosed)
	l.release(true)
	return err
}

// snapshotIsOldLocked says whether a stop has to write a snapshot of the producers. A log may be empty and know producers: its
// records have been deleted up to the end. [append lock, Log.mu]
func (l *Log) snapshotIsOldLocked() bool {
	return l.mu.lastSnap != l.appendEnd && (l.appendEnd > l.StartOffset() || l.producers != nil && l.producers.count() > 0)
}

// stampLast takes over the active segment's modification time, by which a start knows the file again.
func (l *Log) stampLast() error {
	st, err := l.env.FS.Stat(l.fileName(l.cur.base, kindLog.suffix()))
	if err != nil {
		return err
	}
	l.mu.Lock()
	l.cur.lastWriteMS = st.ModTime.UnixMilli()
	l.mu.Unlock()
	return nil
}

// closeTimes ends the time index with the highest timestamp, so that a start need not look for it. [Log.mu]
func (s *segment) closeTimes() {
	if s.maxTS > s.indexedTS {
		s.tailLocked().noteTime(s)
	}
}

// Abandon closes all files and writes nothing: the folder has failed, or is being removed. [append lock]
func (l *Log) Abandon() {
	l.work.Lock()
	defer l.work.Unlock()
	l.forgetRoom()
	l.state.Store(stateClosed)
	l.release(true)
}

// Summary describes the log for the clean-stop manifest. [after Close]
func (l *Log) Summary() *Summary {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := &Summary{TopicID: l.id, Start: l.StartOffset(), End: l.EndOffset(), Epochs: l.mu.epochs.list, SnapshotOffset: l.mu.lastSnap, Producers: l.mu.producers}
	l.reliedLocked(s)
	for _, seg := range l.mu.segs {
		s.Segments = append(s.Segments, seg.describeLocked())
	}
	return s
}

// shrink frees what an empty ring keeps for batches to come.
func (t *TailBudget) shrink(r *tailRing) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if r.batches.n == 0 {
		r.batches = fifo[tailBatch]{}
	}
}
