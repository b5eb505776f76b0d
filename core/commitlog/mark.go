package commitlog

import (
	"fmt"

	"github.com/tidemark/tidemark/core/kafka"
	"github.com/tidemark/tidemark/core/vfs"
)

// MarkBytes is a good bound for Mark: reading fewer bytes again at a start takes less than writing a mark does.
const MarkBytes = 64 << 10

// markState is what a log knows of its last mark; Log.mu guards it.
type markState struct {
	pending kafka.Offset // of the mark that has been taken and not written; -1: none
	data    []byte       // its producer snapshot
	base    kafka.Offset // the segment and position of the last mark taken
	pos     int64
	file    kafka.Offset // of the snapshot that the last mark has written; -1: none
}

// WrittenPoint is the offset up to which the files, as the system has them in its cache, are whole with indexes, leader
// epochs and producers: a start under the same boot (Options.WrittenPoint) reads only what lies behind it. It is never
// below the recovery point, which holds after a power loss too.
func (l *Log) WrittenPoint() kafka.Offset {
	return kafka.Offset(max(l.written.Load(), l.recovery.Load()))
}

// Mark notes the log end as the next written point, if minBytes have been appended since the last one, and reports whether
// WriteMark has something to do. [append lock]
func (l *Log) Mark(minBytes int64) bool {
	if l.state.Load() != stateReady || l.broken != nil {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	m := l.mu.mark
	grown := l.cur.size
	if m != nil && m.base == l.cur.base {
		grown -= m.pos
	}
	if grown < minBytes || l.appendEnd <= l.WrittenPoint() {
		return m != nil && m.pending >= 0
	}
	if m == nil {
		m = &markState{file: kafka.NoOffset}
		l.mu.mark = m
	}
	m.pending, m.data, m.base, m.pos = l.appendEnd, l.producers.snapshot(), l.cur.base, l.cur.size
	return true
}

// WriteMark writes out what the last Mark noted and moves the written point there. It forces nothing to disk but a new
// list of leader epochs, which a power loss must not tear: index entries and the producer snapshot can be made again.
func (l *Log) WriteMark() error {
	if l.state.Load() != stateReady {
		return nil
	}
	l.work.Lock()
	defer l.work.Unlock()
	l.mu.Lock()
	m := l.mu.mark
	if m == nil || m.pending < 0 || l.mu.failed != nil || l.state.Load() != stateReady {
		l.mu.Unlock()
		return nil
	}
	off, data, old := m.pending, m.data, m.file
	m.pending, m.data = kafka.NoOffset, nil
	for _, s := range l.mu.segs {
		s.closeTimes()
	}
	l.mu.Unlock()
	if off > l.appendEndAtMost() {
		return nil // truncated meanwhile
	}
	err := l.spillAll()
	if err == nil {
		err = l.writeEpochs()
	}
	if err == nil {
		err = vfs.ReplaceFile(l.env.FS, l.fileName(off, suffixSnapshot), data, false)
	}
	if err == nil && old >= 0 && old != off && !l.needsSnapshot(old) {
		err = l.removeName(offsetName(old) + suffixSnapshot)
	}
	if err != nil {
		return fmt.Errorf("write marks of %s: %w", l.Dir(), err)
	}
	l.mu.Lock()
	m.file = off
	l.mu.Unlock()
	l.written.Store(int64(off))
	return nil
}

// appendEndAtMost is the end of what has been written by the segments, for those who do not hold the append lock.
func (l *Log) appendEndAtMost() kafka.Offset {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.segs[len(l.mu.segs)-1].end
}

// needsSnapshot reports whether a producer snapshot belongs to the log beside its marks: a segment begins there, or it is
// the newest one that a roll or stop has taken.
func (l *Log) needsSnapshot(off kafka.Offset) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return off == l.mu.lastSnap || l.mu.segs[l.findLocked(off)].base == off
}

// dropMark forgets the marks at off and behind: the log is cut there. [append lock, work]
func (l *Log) dropMark(off kafka.Offset) {
	l.written.Store(min(l.written.Load(), int64(off)))
	l.mu.Lock()
	defer l.mu.Unlock()
	if m := l.mu.mark; m != nil {
		*m = markState{pending: kafka.NoOffset, file: m.file, base: kafka.NoOffset}
	}
}
