package commitlog

import (
	"errors"
	"fmt"
	"io"

	"github.com/tidemark/tidemark/core/kafka"
	"github.com/tidemark/tidemark/core/record"
)

// FoundOffset is an answer to a look-up by time.
type FoundOffset struct {
	Offset    kafka.Offset // -1: none
	Timestamp int64        // -1: none
	Epoch     kafka.LeaderEpoch
}

// notFound is the answer when no record fits.
func notFound() FoundOffset {
	return FoundOffset{kafka.NoOffset, record.NoTimestamp, kafka.NoLeaderEpoch}
}

// OffsetForTime finds the first record whose timestamp is ts or later, at or above the log start and below limit
// (exclusive); it opens compressed batches. Offset -1 when there is none.
func (l *Log) OffsetForTime(ts int64, limit kafka.Offset) (FoundOffset, error) {
	if err := l.ready(); err != nil {
		return notFound(), err
	}
	for range 3 {
		// A segment that is deleted between look-up and read lies below the new log start: look again.
		found, err := l.offsetForTime(ts, limit)
		if !isNotExist(err) {
			return found, err
		}
	}
	return l.offsetForTime(ts, limit)
}

func (l *Log) offsetForTime(ts int64, limit kafka.Offset) (FoundOffset, error) {
	start := l.StartOffset()
	limit = min(limit, l.EndOffset())
	l.mu.Lock()
	var segs []*segment
	for _, s := range l.mu.segs {
		if s.maxTS >= ts && s.end > start && s.base < limit {
			segs = append(segs, s)
		}
	}
	l.mu.Unlock()
	for _, s := range segs {
		pos, err := l.timePosition(s, ts)
		if err != nil {
			return notFound(), err
		}
		found, err := l.findRecord(s, pos, start, limit, func(t int64) bool { return t >= ts })
		if err != nil || found.Offset >= 0 {
			return found, err
		}
	}
	return notFound(), nil
}

// MaxTimestamp finds the first record that has the highest timestamp of the log, below limit (exclusive). When the
// highest one lies at limit or above, the answer is -1, as Kafka's is.
func (l *Log) MaxTimestamp(limit kafka.Offset) (FoundOffset, error) {
	if err := l.ready(); err != nil {
		return notFound(), err
	}
	for range 3 {
		found, err := l.maxTimestamp(limit)
		if !isNotExist(err) {
			return found, err
		}
	}
	return l.maxTimestamp(limit)
}

func (l *Log) maxTimestamp(limit kafka.Offset) (FoundOffset, error) {
	start := l.StartOffset()
	limit = min(limit, l.EndOffset())
	l.mu.Lock()
	var best *segment
	for _, s := range l.mu.segs {
		if s.end > start && (best == nil || s.maxTS > best.maxTS) {
			best = s
		}
	}
	ts := int64(-1)
	if best != nil {
		ts = best.maxTS
	}
	l.mu.Unlock()
	if ts < 0 {
		return notFound(), nil
	}
	pos, err := l.timePosition(best, ts)
	if err != nil {
		return notFound(), err
	}
	return l.findRecord(best, pos, start, limit, func(t int64) bool { return t >= ts })
}

// timePosition is a position in a segment before which no record has timestamp ts or a later one.
func (l *Log) timePosition(s *segment, ts int64) (int64, error) {
	rel := int32(-1)
	l.mu.Lock()
	n := int(s.counts[kindTime])
	if t := s.idx; t != nil {
		n = t.times.first
		for _, e := range t.times.entries {
			if e.ts < ts {
				rel = e.rel
			}
		}
	}
	l.mu.Unlock()
	if rel < 0 && n > 0 {
		lease, err := l.acquire(s, kindTime)
		if isNotExist(err) {
			return 0, nil // as with the offset index
		}
		if err != nil {
			return 0, err
		}
		defer lease.Release()
		scratch := l.env.Pool.Get(spillEntries * timeEntryBytes)
		defer scratch.Release()
		i, err := fileEntries(lease, n, timeEntryBytes, scratch.B, func(b []byte) bool { return parseTimeEntry(b).ts < ts })
		if err == nil && i >= 0 {
			if _, err = lease.ReadAt(scratch.B[:timeEntryBytes], int64(i)*timeEntryBytes); err == nil {
				rel = parseTimeEntry(scratch.B).rel
			}
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return 0, err
		}
	}
	if rel < 0 {
		return 0, nil
	}
	return l.lookup(s, func(e offsetEntry) bool { return e.rel <= rel })
}

// findRecord walks a segment's batches from pos and opens those whose highest timestamp fits.
func (l *Log) findRecord(s *segment, pos int64, start, limit kafka.Offset, fits func(ts int64) bool) (FoundOffset, error) {
	lease, err := l.acquire(s, kindLog)
	if err != nil {
		return notFound(), err
	}
	defer lease.Release()
	l.mu.Lock()
	size := s.size
	l.mu.Unlock()
	sc := newScanner(lease, size, l.env.Pool, lookupChunk)
	defer sc.close()
	for {
		h, n, err := sc.header(pos)
		if err == io.EOF || err == nil && h.BaseOffset() >= limit {
			return notFound(), nil
		}
		if err == nil && fits(h.MaxTimestamp()) && h.LastOffset() >= start {
			var b record.Batch
			if b, err = sc.batch(pos); err == nil {
				var found FoundOffset
				if found, err = findInBatch(b, start, limit, fits); err == nil && found.Offset >= 0 {
					return found, nil
				}
			}
		}
		if err != nil {
			return notFound(), fmt.Errorf("read %s at %d: %w", lease.f.Name(), pos, err)
		}
		pos += n
	}
}

// findInBatch finds the first record of a batch that fits. A batch of a hundred kilobytes may hold gigabytes, and any client may
// ask: nothing of it is kept.
func findInBatch(b record.Batch, start, limit kafka.Offset, fits func(ts int64) bool) (FoundOffset, error) {
	if b.NumRecords() == 0 {
		return notFound(), nil // compaction has left the header only
	}
	found := notFound()
	err := b.EachTime(nil, func(delta int32, ts int64) bool {
		if b.TimestampType() == record.LogAppendTime {
			ts = b.MaxTimestamp() // all records have the batch's; which of them are left, the batch alone tells
		}
		if off := b.BaseOffset() + kafka.Offset(delta); off >= start && off < limit && fits(ts) {
			found = FoundOffset{off, ts, b.PartitionLeaderEpoch()}
		}
		return found.Offset < 0
	})
	if err != nil {
		return notFound(), err
	}
	return found, nil
}
