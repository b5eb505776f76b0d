package commitlog

import (
	"encoding/binary"
	"fmt"

	"github.com/tidemark/tidemark/core/kafka"
)

// A stop of many logs writes no file for each of them. What a log has not written yet, which is little when its marks are
// kept up (mark.go), goes into its Summary as Left, and the next start's log has it in memory as the one before had:
// index entries, leader epochs, the newest producer snapshot. A kill after that start loses nothing by it, since the recovery
// and written points of a Summary do not count what is only left.
//
// Left, all varints but the bytes of the snapshot:
//
//	entries in the files of .index, .timeindex, .txnindex | bytes since the last entry of .index |
//	offset entries: count, then offset, position | time entries: count, then timestamp, offset |
//	leader epochs differ from their file | snapshot: length, bytes | last mark: snapshot's offset, position

// Bounds of what is left to a Summary: all of them live in the manifest and, until their log is used, in memory.
const (
	leftEntries       = 16
	leftSnapshotBytes = 1024
)

// leave closes the books of a log that has little to write, and returns false when it has more: then files are written.
// [append lock, work]
func (l *Log) leave() bool {
	if l.env.durable() || l.broken != nil || l.Config().Preallocate {
		return false
	}
	end := l.appendEnd
	l.mu.Lock()
	defer l.mu.Unlock()
	s, at := l.cur, int64(0)
	snaps := l.mu.snaps
	if len(snaps) == 1 && l.mu.segs[l.findLocked(snaps[0].offset)].base != snaps[0].offset {
		snaps = nil // one that the stop before has left: this one takes it along, or takes a newer one
	}
	if l.mu.failed != nil || len(snaps) > 0 {
		return false
	}
	mark := markState{file: kafka.NoOffset}
	if m := l.mu.mark; m != nil {
		mark.file = m.file
		if m.base == s.base && m.pending < 0 {
			at = m.pos
		}
	}
	if end > l.WrittenPoint() && s.size-at >= MarkBytes {
		return false
	}
	for _, other := range l.mu.segs {
		if other != s && other.idx != nil && (other.idx.pending(kindIndex) > 0 || other.idx.pending(kindTime) > 0 || other.idx.pending(kindTxn) > 0) {
			return false
		}
	}
	if end <= l.WrittenPoint() {
		at = s.size
	}
	s.closeTimes()
	var snapshot []byte
	fresh := l.snapshotIsOldLocked()
	switch {
	case fresh:
		snapshot = l.producers.snapshot()
	case len(l.mu.snaps) > 0:
		snapshot = l.mu.snaps[0].data
	}
	t := s.idx
	if t == nil {
		t = &indexTail{since: int(s.since)}
		t.offsets.written, t.times.written, t.txns.written = int(s.counts[kindIndex]), int(s.counts[kindTime]), int(s.counts[kindTxn])
		t.offsets.first, t.times.first, t.txns.first = t.offsets.written, t.times.written, t.txns.written
	}
	if t.pending(kindTxn) > 0 || t.pending(kindIndex) > leftEntries || t.pending(kindTime) > leftEntries || len(snapshot) > leftSnapshotBytes {
		return false
	}
	mark.pos = at
	l.mu.left = appendLeft(nil, t, l.mu.epochs.dirty, snapshot, mark)
	l.mu.snaps = nil
	if fresh {
		l.mu.lastSnap = end
	}
	return true
}

// left is what Left says.
type left struct {
	tail     indexTail // its columns hold what the files lack
	epochs   bool      // dirty
	snapshot []byte    // nil: it is in its file, or there is none
	mark     markState // file and pos
}

func appendLeft(dst []byte, t *indexTail, epochs bool, snapshot []byte, mark markState) []byte {
	for _, n := range []int{t.offsets.written, t.times.written, t.txns.written, t.since, t.pending(kindIndex)} {
		dst = binary.AppendVarint(dst, int64(n))
	}
	for _, e := range t.offsets.entries[t.offsets.written-t.offsets.first:] {
		dst = binary.AppendVarint(binary.AppendVarint(dst, int64(e.rel)), int64(e.pos))
	}
	dst = binary.AppendVarint(dst, int64(t.pending(kindTime)))
	for _, e := range t.times.entries[t.times.written-t.times.first:] {
		dst = binary.AppendVarint(binary.AppendVarint(dst, e.ts), int64(e.rel))
	}
	dirty := int64(0)
	if epochs {
		dirty = 1
	}
	dst = binary.AppendVarint(dst, dirty)
	dst = append(binary.AppendVarint(dst, int64(len(snapshot))), snapshot...)
	return binary.AppendVarint(binary.AppendVarint(dst, int64(mark.file)), mark.pos)
}

// parseLeft reads what appendLeft has written.
func parseLeft(b []byte) (left, error) {
	var l left
	bad := false
	next := func(least, most int64) int64 {
		v, n := binary.Varint(b)
		if n <= 0 || v < least || v > most {
			bad, b = true, nil
			return least
		}
		b = b[n:]
		return v
	}
	const int32s, int64s = 1<<31 - 1, 1<<63 - 1
	l.tail.offsets.written = int(next(0, int32s))
	l.tail.times.written = int(next(0, int32s))
	l.tail.txns.written = int(next(0, int32s))
	l.tail.since = int(next(0, int32s))
	for n := next(0, leftEntries); n > 0 && !bad; n-- {
		l.tail.offsets.entries = append(l.tail.offsets.entries, offsetEntry{int32(next(0, int32s)), int32(next(0, int32s))})
	}
	for n := next(0, leftEntries); n > 0 && !bad; n-- {
		l.tail.times.entries = append(l.tail.times.entries, timeEntry{next(0, int64s), int32(next(0, int32s))})
	}
	l.tail.offsets.first, l.tail.times.first, l.tail.txns.first = l.tail.offsets.written, l.tail.times.written, l.tail.txns.written
	l.epochs = next(0, 1) == 1
	if n := next(0, min(leftSnapshotBytes, int64(len(b)))); n > 0 && n <= int64(len(b)) {
		l.snapshot, b = b[:n], b[n:]
	}
	l.mark = markState{pending: kafka.NoOffset}
	l.mark.file = kafka.Offset(next(-1, int64s))
	l.mark.pos = next(0, int64s)
	if bad || len(b) != 0 {
		return l, fmt.Errorf("what a stop has left: %w", ErrCorrupt)
	}
	return l, nil
}

// adoptLeft gives the log what its Summary has left of it, and reports whether that fits the files. [work]
func (l *Log) adoptLeft() bool {
	v, err := parseLeft(l.mu.left)
	if err != nil {
		return false
	}
	s := l.cur
	for k := kindIndex; k < kinds; k++ {
		want := int64([...]int{kindIndex: v.tail.offsets.written, kindTime: v.tail.times.written, kindTxn: v.tail.txns.written}[k]) * int64(entryBytes(k))
		if want == 0 {
			continue // nothing is expected: an entry that is written goes to the beginning
		}
		if st, err := l.env.FS.Stat(l.fileName(s.base, k.suffix())); err != nil || st.Size != want {
			return false
		}
	}
	if v.snapshot != nil {
		list, err := parseSnapshot(v.snapshot)
		if err != nil {
			return false
		}
		if len(list) > 0 {
			l.needProducers().load(list)
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	tail := v.tail
	s.counts[kindIndex], s.counts[kindTime], s.counts[kindTxn] = int32(tail.offsets.written), int32(tail.times.written), int32(tail.txns.written)
	s.since = int32(tail.since)
	if tail.pending(kindIndex) > 0 || tail.pending(kindTime) > 0 {
		s.idx = &tail
	}
	if v.snapshot != nil {
		l.mu.snaps = append(l.mu.snaps, pendingSnapshot{l.mu.lastSnap, append([]byte(nil), v.snapshot...)})
	}
	l.mu.epochs.dirty = l.mu.epochs.dirty || v.epochs
	if v.mark.file >= 0 || v.mark.pos > 0 {
		v.mark.base = s.base
		l.mu.mark = &v.mark
	}
	return true
}

// reliedLocked says what a start may rely on of a log that has been closed: what has been written, and what has been forced to
// disk. [Log.mu]
func (l *Log) reliedLocked(s *Summary) {
	s.Recovery, s.Written, s.Flushed = l.RecoveryPoint(), l.WrittenPoint(), min(l.FlushedOffset(), l.EndOffset())
	s.Left = l.mu.left
}

// Unsynced is how many bytes a start would read again if the system lost what is not on disk: those of all segments behind
// the recovery point.
func (s *Summary) Unsynced() (bytes int64) {
	if s.Recovery >= s.End {
		return 0
	}
	for i, g := range s.Segments {
		if i+1 == len(s.Segments) || s.Segments[i+1].Base > s.Recovery {
			bytes += g.Size
		}
	}
	return bytes
}

// Synced says that all that the log has written has been forced to disk since it was closed (vfs.FS.SyncAll).
func (s *Summary) Synced() { s.Recovery, s.Flushed = s.Written, s.End }
