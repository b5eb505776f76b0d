package commitlog

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/tidemark/tidemark/core/kafka"
)

// maxMetaBytes bounds the small files that are read whole.
const maxMetaBytes = 64 << 20

// Open opens the log of a folder, makes the folder when it is not there, and recovers what a crash has left: a torn
// last batch is cut off with everything behind it, indexes that are missing, padded or damaged are made again, leader
// epochs and producers are brought up to the end. Only what lies behind the recovery point is read and checked.
func Open(o Options) (*Log, error) {
	l := newLog(o)
	l.work.Lock()
	defer l.work.Unlock()
	l.cleanedTo.Store(int64(o.CleanedTo)) // for the recovery alone: SetCleanedTo knows what of it is left
	defer l.cleanedTo.Store(0)
	if err := l.recover(o.StartOffset, o.RecoveryPoint, o.WrittenPoint, o.WrittenTopicID); err != nil {
		return nil, fmt.Errorf("open log %s: %w", o.Dir, err)
	}
	l.state.Store(stateReady)
	return l, nil
}

// folder is what a partition's folder holds.
type folder struct {
	bases []kafka.Offset // of .log files, ascending
	snaps []kafka.Offset // of .snapshot files, ascending
}

// list reads the folder and removes what a crash may have left over: deleted and temporary files, and indexes
// without a log.
func (l *Log) list() (folder, error) {
	var d folder
	infos, err := l.env.FS.ReadDir(l.Dir())
	if isNotExist(err) {
		if err = l.env.FS.MkdirAll(l.Dir()); err == nil {
			infos, err = l.env.FS.ReadDir(l.Dir())
		}
	}
	if err != nil {
		return d, err
	}
	var all []string
	for _, st := range infos {
		all = append(all, st.Name)
	}
	if changed, err := l.finishSwaps(all); err != nil {
		return d, err
	} else if changed {
		if infos, err = l.env.FS.ReadDir(l.Dir()); err != nil {
			return d, err
		}
	}
	var strays []string
	indexes := map[string]kafka.Offset{}
	for _, st := range infos {
		base, suffix, ok := parseOffsetName(st.Name)
		switch {
		case hasSuffix(st.Name, suffixDeleted), hasSuffix(st.Name, suffixTmp):
			strays = append(strays, st.Name)
		case !ok:
		case suffix == kindLog.suffix():
			d.bases = append(d.bases, base)
		case suffix == suffixSnapshot:
			d.snaps = append(d.snaps, base)
		case suffix == kindIndex.suffix(), suffix == kindTime.suffix(), suffix == kindTxn.suffix():
			indexes[st.Name] = base
		}
	}
	slices.Sort(d.bases)
	slices.Sort(d.snaps)
	for name, base := range indexes {
		if _, found := slices.BinarySearch(d.bases, base); !found {
			strays = append(strays, name)
		}
	}
	for _, name := range strays {
		if err := l.env.FS.Remove(l.Dir() + "/" + name); err != nil {
			return d, err
		}
	}
	l.listed = make([]string, len(infos))
	for i, st := range infos {
		l.listed[i] = st.Name
	}
	return d, nil
}

// absent tells that a folder that is being recovered does not hold a file. It saves the system calls that would find that
// out: a start after a kill looks for four files that a small log does not have. false may also mean that it is not known.
func (l *Log) absent(name string) bool {
	if l.listed == nil {
		return false
	}
	_, found := slices.BinarySearch(l.listed, name)
	return !found
}

// absentFile is absent for one of a segment's files.
func (l *Log) absentFile(s *segment, k kind) bool {
	return l.listed != nil && l.absent(offsetName(s.base)+k.suffix())
}

func hasSuffix(name, suffix string) bool {
	return len(name) > len(suffix) && name[len(name)-len(suffix):] == suffix
}

// recover reads the folder and makes the log's state from it: what lies behind durable is not known to be on disk, what
// lies behind written is not known to be whole. [work]
func (l *Log) recover(start, durable, written kafka.Offset, writtenID kafka.TopicID) error {
	d, err := l.list()
	if err != nil {
		return err
	}
	defer func() { l.listed = nil }()
	if err := l.loadTopicID(); err != nil {
		return err
	}
	if !writtenID.IsZero() && writtenID != l.id {
		written = 0
	}
	point := max(durable, written)
	learn := !l.loadEpochs()
	known := l.Epochs()
	var segs []*segment
	for _, base := range d.bases {
		segs = append(segs, newSegment(base))
	}
	segs, from, err := l.recoverSegments(segs, point, learn)
	if err != nil {
		return err
	}
	if n := len(segs); n > 0 && from >= 0 && point <= segs[n-1].end {
		from = max(from, point) // transaction indexes are whole up to there
	}
	l.mu.Lock()
	for _, s := range segs {
		if s.end > durable {
			s.unsynced = [kinds]bool{true, true, true, true}
		}
	}
	l.mu.segs = segs
	l.mu.newFiles, l.mu.newFolder = true, true
	l.mu.Unlock()
	if n := len(segs); n == 0 || segs[n-1].end < start {
		// Nothing is left that may be read: begin at the start offset, as Kafka does.
		if err := l.startOver(start); err != nil {
			return err
		}
		from = start
	}
	segs = l.mu.segs
	l.cur = segs[len(segs)-1]
	l.appendEnd = l.cur.end
	start = max(start, segs[0].base)
	l.start.Store(int64(start))
	l.end.Store(int64(l.appendEnd))
	durable = min(max(durable, start), l.appendEnd)
	l.recovery.Store(int64(durable))
	l.flushed.Store(int64(durable))
	l.written.Store(int64(min(point, l.appendEnd)))
	l.mu.Lock()
	l.mu.epochs.cutEnd(l.appendEnd)
	if n := len(known); n > 0 && known[n-1].Start == l.appendEnd {
		l.mu.epochs.assign(known[n-1].Epoch, l.appendEnd) // begun, and without a record yet
	}
	l.mu.epochs.cutStart(start)
	l.mu.Unlock()
	if err := l.loadProducers(d.snaps, from); err != nil {
		return err
	}
	for _, s := range segs {
		l.dropFiles(s, false)
	}
	return nil
}

// startOver removes all segments and begins an empty one. [work, append lock or not yet open]
func (l *Log) startOver(base kafka.Offset) error {
	for _, s := range slices.Backward(l.mu.segs) { // from the end: a crash in between leaves no hole
		if err := l.removeSegment(s); err != nil {
			return err
		}
	}
	s := newSegment(base)
	if err := l.create(s); err != nil {
		return err
	}
	l.mu.Lock()
	l.mu.segs = []*segment{s}
	l.mu.newFiles = true
	l.mu.hints = nil
	l.mu.Unlock()
	return nil
}

// removeSegment unlinks a segment's files.
func (l *Log) removeSegment(s *segment) error {
	l.dropFiles(s, true)
	for k := kindLog; k < kinds; k++ {
		err := l.env.FS.Remove(l.fileName(s.base, k.suffix()))
		if err != nil && !isNotExist(err) {
			return err
		}
	}
	return nil
}

// recoverSegments takes stock of every segment: those below the recovery point by their indexes, the others by
// reading them. It returns the offset of the first batch that it has read. The log ends where the batches do: what
// lies behind damage, or behind a hole that no compaction has made, goes. learn: nothing is known of the leader epochs, so the
// headers are read of what is believed too.
func (l *Log) recoverSegments(segs []*segment, point kafka.Offset, learn bool) ([]*segment, kafka.Offset, error) {
	from := kafka.Offset(-1)
	for i, s := range segs {
		whole := i+1 < len(segs) && segs[i+1].base <= point
		if whole {
			if segs[i+1].base == point { // the roll may have come behind it
				if err := l.cutRoom(s); err != nil {
					return nil, 0, err
				}
			}
			s.end = segs[i+1].base
			if err := l.trust(s); err != nil {
				return nil, 0, err
			}
			if learn {
				if err := l.learnEpochs(s, s.size); err != nil {
					return nil, 0, err
				}
			}
			continue
		}
		first, torn, err := l.reread(s, point, learn)
		if err != nil {
			return nil, 0, err
		}
		if from < 0 {
			from = first
		}
		if i+1 == len(segs) {
			continue
		}
		l.mu.Lock()
		s.closeTimes()
		l.mu.Unlock()
		if !torn && l.joins(s, segs[i+1]) {
			continue
		}
		l.env.Logger.Warn("the log is damaged; what lies behind is removed", "file", l.fileName(s.base, kindLog.suffix()), "end", s.end, "segments", len(segs)-i-1)
		for _, gone := range slices.Backward(segs[i+1:]) {
			if err := l.removeSegment(gone); err != nil {
				return nil, 0, err
			}
		}
		segs = segs[:i+1]
		break
	}
	return segs, from, nil
}

// joins reports whether next may follow s. Rolls begin a segment at the log end, so a hole between two segments that
// have not been flushed is lost data; the one exception is a gap too wide for an index.
func (l *Log) joins(s, next *segment) bool {
	return next.base == s.end || next.base > s.end && next.base-s.base > math.MaxInt32
}

// trust takes a segment that is known to be whole by its size and indexes, and makes the indexes again when they
// cannot be right.
func (l *Log) trust(s *segment) error {
	st, err := l.env.FS.Stat(l.fileName(s.base, kindLog.suffix()))
	if err != nil {
		return err
	}
	s.size, s.lastWriteMS = st.Size, st.ModTime.UnixMilli()
	ok, err := l.loadIndexes(s)
	if ok && err == nil {
		ok, err = l.tailFits(s)
	}
	if err != nil || ok {
		return err
	}
	l.env.Logger.Warn("indexes do not fit their segment and are made again", "file", l.fileName(s.base, kindLog.suffix()))
	end := s.end
	if _, err := l.rescan(s, rescanFrom{}, false); err != nil {
		return err
	}
	l.tellHole(s, s.end, end)
	s.end, s.size = end, st.Size
	l.mu.Lock()
	s.closeTimes()
	l.mu.Unlock()
	return l.spillAndDrop(s)
}

func (l *Log) spillAndDrop(s *segment) error {
	if err := l.spill(s, true); err != nil {
		return err
	}
	l.mu.Lock()
	s.dropTailLocked()
	l.mu.Unlock()
	return nil
}

// reread checks a segment from the last index entry below the recovery point on, cuts it off where the batches end,
// and makes its indexes anew from there. It returns the offset at which it began to read, and whether it cut.
func (l *Log) reread(s *segment, point kafka.Offset, learn bool) (kafka.Offset, bool, error) {
	st, err := l.env.FS.Stat(l.fileName(s.base, kindLog.suffix()))
	if err != nil {
		return 0, false, err
	}
	s.size, s.lastWriteMS = st.Size, st.ModTime.UnixMilli()
	var at rescanFrom
	if point > s.base {
		ok, err := l.loadIndexes(s)
		if err == nil && ok {
			at, err = l.resumePoint(s, func(e offsetEntry) bool { return s.base+kafka.Offset(e.rel) < point && int64(e.pos) < s.size })
		}
		if err != nil {
			return 0, false, err
		}
	}
	if at.pos > 0 && (!l.batchAt(s, &at) || !l.timesFit(s, at)) {
		at = rescanFrom{} // the index points into the middle of something, or the time index lacks entries
	}
	if learn && at.pos > 0 {
		if err := l.learnEpochs(s, at.pos); err != nil {
			return 0, false, err
		}
	}
	end, err := l.learn(s, at)
	if err != nil {
		return 0, false, err
	}
	if point > s.end && at.pos > 0 {
		// The recovery point promised more than there is, so it vouches for nothing.
		at = rescanFrom{}
		if end, err = l.learn(s, at); err != nil {
			return 0, false, err
		}
	}
	torn := false
	if end < st.Size {
		if torn, err = l.cutTail(s, end, st.Size); err != nil {
			return 0, false, err
		}
	}
	l.mu.Lock()
	for k := range s.unsynced {
		s.unsynced[k] = k != int(kindTxn)
	}
	l.mu.Unlock()
	first := s.base
	if at.pos > 0 {
		first = at.first
	}
	return first, torn, nil
}

// cutTail lets a segment's file end with its last whole batch, and reports whether it cut more than a broker's room.
func (l *Log) cutTail(s *segment, end, size int64) (torn bool, err error) {
	lease, err := l.acquire(s, kindLog)
	if err != nil {
		return false, err
	}
	defer lease.Release()
	room := false
	if size-end <= MaxRoom {
		if room, err = onlyZeros(lease, l.env.Pool, end, size); err != nil {
			return false, err
		}
	}
	if !room {
		l.env.Logger.Warn("cut off the end of a segment that is no whole batch", "file", l.fileName(s.base, kindLog.suffix()), "position", end, "bytes", size-end)
	}
	return !room, lease.f.Truncate(end)
}

// learn is rescan with check. What the checkpoint file says of the leader epochs from there on may be older than a
// truncation, so it is forgotten first.
func (l *Log) learn(s *segment, at rescanFrom) (int64, error) {
	first := s.base
	if at.pos > 0 {
		first = at.first
	}
	l.mu.Lock()
	l.mu.epochs.cutEnd(first)
	l.mu.Unlock()
	return l.rescan(s, at, true)
}

// rescanFrom is a state of a segment's indexes that a rescan goes on from: before the batch at pos, which the last
// kept entry of the offset index names. The zero value is the beginning.
type rescanFrom struct {
	pos            int64
	first          kafka.Offset // base offset of the batch at pos
	offsets, times int32        // entries kept
	time           timeEntry    // the last one kept
}

// resumePoint finds the last entry of the offset index for which ok holds, and what of the time index goes with it.
func (l *Log) resumePoint(s *segment, ok func(offsetEntry) bool) (rescanFrom, error) {
	var at rescanFrom
	scratch := l.env.Pool.Get(spillEntries * timeEntryBytes)
	defer scratch.Release()
	if s.counts[kindIndex] == 0 {
		return at, nil
	}
	lease, err := l.acquire(s, kindIndex)
	if err != nil {
		return at, err
	}
	defer lease.Release()
	i, err := fileEntries(lease, int(s.counts[kindIndex]), offsetEntryBytes, scratch.B, func(b []byte) bool { return ok(parseOffsetEntry(b)) })
	if err != nil || i < 0 {
		return at, err
	}
	if _, err := lease.ReadAt(scratch.B[:offsetEntryBytes], int64(i)*offsetEntryBytes); err != nil {
		return at, err
	}
	e := parseOffsetEntry(scratch.B)
	if e.pos <= 0 {
		return at, nil // no writer has an entry for a segment's first batch: the index is damaged
	}
	at.pos, at.offsets = int64(e.pos), int32(i+1)
	if s.counts[kindTime] == 0 {
		return at, nil
	}
	times, err := l.acquire(s, kindTime)
	if err != nil {
		return at, err
	}
	defer times.Release()
	j, err := fileEntries(times, int(s.counts[kindTime]), timeEntryBytes, scratch.B, func(b []byte) bool { return parseTimeEntry(b).rel <= e.rel })
	if err != nil || j < 0 {
		return at, err
	}
	if _, err := times.ReadAt(scratch.B[:timeEntryBytes], int64(j)*timeEntryBytes); err != nil {
		return at, err
	}
	at.times, at.time = int32(j+1), parseTimeEntry(scratch.B)
	return at, nil
}

// batchAt reports whether a batch begins at the resume point, and notes its base offset.
func (l *Log) batchAt(s *segment, at *rescanFrom) bool {
	lease, err := l.acquire(s, kindLog)
	if err != nil {
		return false
	}
	defer lease.Release()
	sc := newScanner(lease, s.size, l.env.Pool, lookupChunk)
	defer sc.close()
	b, err := sc.batch(at.pos)
	if err != nil || b.ComputeCRC() != b.CRC() || b.BaseOffset() < s.base || b.LastOffset()-s.base > math.MaxInt32 {
		return false
	}
	at.first = b.BaseOffset()
	return true
}

// rescan reads a segment from a resume point to its end, or to the first batch that is not whole, and leaves size,
// end, timestamps and indexes as appending those batches would have. It returns the position where it stopped. With
// check it computes CRCs, and leader epochs are learnt.
func (l *Log) rescan(s *segment, at rescanFrom, check bool) (int64, error) {
	if err := l.cutIndexes(s, at); err != nil {
		return 0, err
	}
	lease, err := l.acquire(s, kindLog)
	if err != nil {
		return 0, err
	}
	defer lease.Release()
	sc := newScanner(lease, s.size, l.env.Pool, scanChunk)
	defer sc.close()
	interval := l.Config().indexInterval()
	pos, next := at.pos, max(s.base, at.first)
	hole := int64(-1) // position of the batch before, if offsets are missing before it
	for {
		b, err := sc.batch(pos)
		if err == nil && b.BaseOffset() < next && hole >= 0 {
			// No CRC covers a base offset. The batch before claims to lie behind a hole, as compaction leaves them, and this one
			// says that it does not: it is the one before that is wrong.
			l.mu.Lock()
			s.size = hole
			if check {
				l.mu.epochs.cutEnd(max(s.base, at.first))
			}
			l.mu.Unlock()
			return l.rescan(s, at, check)
		}
		if err == nil && (b.BaseOffset() < next || b.LastOffset()-s.base > math.MaxInt32 || check && b.ComputeCRC() != b.CRC()) {
			err = ErrCorrupt
		}
		if err == io.EOF || errors.Is(err, errTorn) || errors.Is(err, ErrCorrupt) {
			break
		}
		if err != nil {
			return 0, fmt.Errorf("read %s at %d: %w", lease.f.Name(), pos, err)
		}
		l.mu.Lock()
		if check {
			l.mu.epochs.assign(b.PartitionLeaderEpoch(), b.BaseOffset())
		}
		if ts := b.MaxTimestamp(); ts > s.maxTS {
			s.maxTS, s.maxTSAt = ts, b.LastOffset()
		}
		s.tailLocked().note(s, b.LastOffset(), pos, int64(len(b)), interval)
		l.mu.Unlock()
		hole = -1
		if b.BaseOffset() > next {
			hole = pos
		}
		next = b.LastOffset() + 1
		pos += int64(len(b))
		if err := l.spill(s, false); err != nil {
			return 0, err
		}
	}
	l.mu.Lock()
	s.size, s.end = pos, next
	l.mu.Unlock()
	return pos, nil
}

// cutIndexes brings a segment's index files and timestamps back to a resume point.
func (l *Log) cutIndexes(s *segment, at rescanFrom) error {
	keep := [kinds]int32{kindIndex: at.offsets, kindTime: at.times}
	for k := kindIndex; k <= kindTime; k++ {
		if l.absentFile(s, k) {
			continue
		}
		name := l.fileName(s.base, k.suffix())
		size := int64(keep[k]) * int64(entryBytes(k))
		st, err := l.env.FS.Stat(name)
		if isNotExist(err) || err == nil && st.Size == size {
			continue
		}
		if err != nil {
			return err
		}
		lease, err := l.acquire(s, k)
		if err != nil {
			return err
		}
		err = lease.f.Truncate(size)
		lease.Release()
		if err != nil {
			return err
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	s.idx, s.since = nil, 0
	s.counts[kindIndex], s.counts[kindTime] = at.offsets, at.times
	s.maxTS, s.maxTSAt, s.indexedTS = -1, s.base, -1
	if at.times > 0 {
		s.maxTS, s.maxTSAt, s.indexedTS = at.time.ts, s.base+kafka.Offset(at.time.rel), at.time.ts
	}
	return nil
}
