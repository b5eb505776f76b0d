package commitlog

import (
	"io"

	"github.com/tidemark/tidemark/core/kafka"
	"github.com/tidemark/tidemark/core/record"
)

// recallOffsets is how far before the oldest batch that is known of a producer recall looks for older ones. It bounds what
// a client can cost by sending old sequence numbers.
const recallOffsets = 100_000

// recall finds again, in the log, the batches that a producer wrote before those that are known. A snapshot, in Kafka's
// format, holds the newest one alone, but a client may still send any of the last five when the broker that would have
// answered it has stopped or died: it must get their offsets, not an error by which it gives up. Nothing is read until a
// client does so, and then once for each producer and start. [append lock]
func (l *Log) recall(e *producer) {
	oldest := e.batches[0].last - kafka.Offset(e.batches[0].delta)
	from := max(oldest-recallOffsets, l.StartOffset())
	var found []producerBatch // newest last
	l.mu.Lock()
	segs := l.mu.segs[l.findLocked(from):]
	l.mu.Unlock()
	for _, s := range segs {
		if s.base >= oldest {
			break
		}
		err := l.recallSegment(s, from, oldest, func(b record.Batch) {
			if b.ProducerID() == e.id && b.ProducerEpoch() == e.epoch && !b.IsControl() && b.BaseSequence() != record.NoSequence {
				found = append(found, producerBatch{b.LastSequence(), b.LastOffsetDelta(), b.LastOffset(), b.MaxTimestamp()})
				found = found[max(0, len(found)-keptBatches):]
			}
		})
		if err != nil {
			l.env.Logger.Warn("older batches of a producer cannot be read; its duplicates are refused", "file", l.fileName(s.base, kindLog.suffix()), "error", err)
			return
		}
	}
	for i := len(found) - 1; i >= 0 && e.n < keptBatches; i-- {
		if record.AddSequence(found[i].lastSeq, 1) != e.batches[0].firstSeq() {
			return // not of the same run of sequence numbers
		}
		copy(e.batches[1:], e.batches[:e.n])
		e.batches[0] = found[i]
		e.n++
	}
}

// recallSegment passes the headers of a segment's batches in [from, end) to visit.
func (l *Log) recallSegment(s *segment, from, end kafka.Offset, visit func(record.Batch)) error {
	if s.size == 0 {
		return nil
	}
	lease, err := l.acquire(s, kindLog)
	if err != nil {
		return err
	}
	defer lease.Release()
	sc := newScanner(lease, s.size, l.env.Pool, lookupChunk)
	defer sc.close()
	pos := int64(0)
	if from > s.base {
		if pos, err = l.locate(&sc, s, from); err != nil {
			if err == io.EOF {
				return nil
			}
			return err
		}
	}
	for {
		b, size, err := sc.header(pos)
		if err == io.EOF || err == nil && b.BaseOffset() >= end {
			return nil
		}
		if err != nil {
			return err
		}
		visit(b)
		pos += size
	}
}
