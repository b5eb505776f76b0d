package commitlog

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/tidemark/tidemark/core/kafka"
	"github.com/tidemark/tidemark/core/vfs"
)

// OpenFromSummary opens a log without touching its folder: 100,000 of them must be open in two seconds. The first
// use compares size and modification time of the last segment with the summary, and recovers the log from the start
// when they differ. The options' offsets are not used.
func OpenFromSummary(o Options, s *Summary) (*Log, error) {
	if len(s.Segments) == 0 {
		return nil, fmt.Errorf("summary of %s has no segment: %w", o.Dir, ErrCorrupt)
	}
	l := newLog(o)
	l.id = s.TopicID
	for i, d := range s.Segments {
		seg := newSegment(d.Base)
		seg.size, seg.maxTS, seg.maxTSAt, seg.indexedTS, seg.lastWriteMS = d.Size, d.MaxTimestamp, d.MaxTimestampAt, d.MaxTimestamp, d.LastWriteMS
		seg.end = s.End
		if i+1 < len(s.Segments) {
			seg.end = s.Segments[i+1].Base
		}
		l.mu.segs = append(l.mu.segs, seg)
	}
	l.cur = l.mu.segs[len(l.mu.segs)-1]
	l.appendEnd = s.End
	l.start.Store(int64(s.Start))
	l.end.Store(int64(s.End))
	l.flushed.Store(int64(s.Flushed))
	l.recovery.Store(int64(s.Recovery))
	l.written.Store(int64(s.Written))
	l.mu.left = s.Left
	if s.Flushed < s.End || s.Recovery < s.Written {
		l.mu.newFiles, l.mu.newFolder = true, true
		for _, seg := range l.mu.segs {
			if seg.end > s.Recovery {
				seg.unsynced = [kinds]bool{true, true, true, true}
			}
		}
	}
	l.mu.epochs.list = slices.Clone(s.Epochs)
	l.mu.lastSnap = s.SnapshotOffset
	l.mu.producers = s.Producers
	return l, nil
}

// wake looks at the folder of a log that was opened from a summary.
func (l *Log) wake() error {
	l.work.Lock()
	defer l.work.Unlock()
	if l.state.Load() != stateLazy {
		return l.readyAgain()
	}
	if !l.asSummarised() {
		l.env.Logger.Warn("the folder is not as the last stop left it; the log is recovered", "dir", l.Dir())
		epochs := l.Epochs()
		l.mu.snaps, l.mu.mark = nil, nil
		if err := l.recover(l.StartOffset(), l.RecoveryPoint(), 0, l.id); err != nil {
			return fmt.Errorf("open log %s: %w", l.Dir(), err)
		}
		if n := len(epochs); n > 0 { // the one that this start has been given
			l.AssignEpoch(epochs[n-1].Epoch, l.appendEnd)
		}
	}
	l.mu.Lock()
	l.mu.left = nil
	l.mu.Unlock()
	l.state.Store(stateReady)
	return nil
}

func (l *Log) readyAgain() error {
	if l.state.Load() == stateReady {
		return nil
	}
	return ErrClosed
}

// asSummarised compares the folder with the summary and loads what the summary leaves out: how long the indexes are,
// and the producers.
func (l *Log) asSummarised() bool {
	st, err := l.env.FS.Stat(l.fileName(l.cur.base, kindLog.suffix()))
	if err != nil || st.Size != l.cur.size || st.ModTime.UnixMilli() != l.cur.lastWriteMS {
		return false
	}
	hasLeft := len(l.mu.left) > 0
	if hasLeft && !l.adoptLeft() {
		return false
	}
	for _, s := range l.mu.segs {
		if hasLeft && s == l.cur {
			continue
		}
		max, at := s.maxTS, s.maxTSAt
		if ok, err := l.loadIndexes(s); err != nil || !ok {
			return false
		}
		if s.maxTS != max {
			return false
		}
		if s == l.cur { // the others were whole when it was begun
			if ok, err := l.tailFits(s); err != nil || !ok {
				return false
			}
		}
		l.mu.Lock()
		s.maxTSAt = at
		l.mu.Unlock()
		l.dropFiles(s, false)
	}
	if !l.mu.producers || l.producers != nil && l.producers.count() > 0 {
		return true
	}
	list, err := l.readSnapshot(l.mu.lastSnap)
	if err != nil {
		return false
	}
	l.needProducers().load(list)
	return true
}

// loadTopicID reads partition.metadata, or writes it when it is not there and the id is known. What it writes is synced
// with the log's first records: a thousand new logs in one request would else wait for two thousand fsyncs.
func (l *Log) loadTopicID() error {
	name := l.Dir() + "/" + metadataFile
	write := func() error {
		l.mu.Lock()
		l.mu.newID = true
		l.mu.Unlock()
		return vfs.ReplaceFile(l.env.FS, name, appendTopicID(nil, l.id), false)
	}
	var id kafka.TopicID
	b, err := vfs.ReadFile(l.env.FS, name, 4096)
	if isNotExist(err) {
		if l.id.IsZero() {
			return nil
		}
		return write()
	}
	if err != nil && !errors.Is(err, vfs.ErrTooLarge) {
		return err
	}
	if err == nil {
		id, err = parseTopicID(b)
	}
	switch {
	case err != nil && l.id.IsZero():
		return fmt.Errorf("%s: %w", name, err)
	case err != nil: // torn by a crash when it was new, or overwritten
		return write()
	case l.id.IsZero():
		l.id = id
	case l.id != id:
		return fmt.Errorf("%s has topic id %s, expected is %s: the folder belongs to another topic of the same name; move it away", name, id, l.id)
	}
	return nil
}

// syncTopicID makes partition.metadata durable.
func (l *Log) syncTopicID() error {
	f, err := l.env.FS.Open(l.Dir() + "/" + metadataFile)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// appendTopicID encodes partition.metadata.
func appendTopicID(dst []byte, id kafka.TopicID) []byte {
	return fmt.Appendf(dst, "version: 0\ntopic_id: %s", id)
}

// parseTopicID reads partition.metadata.
func parseTopicID(b []byte) (kafka.TopicID, error) {
	first, second, _ := bytes.Cut(bytes.TrimRight(b, "\n"), []byte("\n"))
	text, ok := bytes.CutPrefix(second, []byte("topic_id: "))
	if string(first) != "version: 0" || !ok {
		return kafka.TopicID{}, fmt.Errorf("want the lines %q and %q: %w", "version: 0", "topic_id: ...", ErrCorrupt)
	}
	id, err := kafka.ParseTopicID(string(text))
	if err != nil {
		return id, fmt.Errorf("line 2: %w: %w", err, ErrCorrupt)
	}
	return id, nil
}
