package logdir

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/tidemark/tidemark/core/commitlog"
	"github.com/tidemark/tidemark/core/kafka"
)

// The recovery points that Kafka's file holds are forced to disk, and move when a segment is rolled. A process that is
// killed leaves the page cache as it was, so the next one may trust all that was written, as long as the system has not
// been started anew in between: the written points, in tidemark-written-points,
//
//	boot id
//	topic partition offset topic-id ...
//
// are never forced to disk, and a file of another boot is not read. The topic's id tells a log from an earlier one of the
// same name.

// pointsTimeLimit bounds how long one round of marks may keep the schedule; the logs that it leaves out have theirs in the
// next.
const pointsTimeLimit = time.Second

// writtenPoint is one line of the file.
type writtenPoint struct {
	offset kafka.Offset
	id     kafka.TopicID
}

// markLogs moves the written points of the logs that have grown and writes them down. [schedule]
func (r *dir) markLogs() error {
	if r.bootID == "" || r.full.Load() {
		return nil
	}
	began := time.Now()
	b := append([]byte(r.bootID), '\n')
	for _, tp := range r.sorted() {
		e, ok := r.entry(tp)
		if ok && e.log == nil && e.summary != nil {
			b = appendPoint(b, tp, e.summary.Written, e.summary.TopicID)
		}
		if !ok || e.log == nil {
			continue
		}
		if e.owner != nil && e.log.WrittenPoint() < e.log.EndOffset() && time.Since(began) < pointsTimeLimit {
			due := false
			e.owner.Exclusive(func() { due = e.log.Mark(commitlog.MarkBytes) })
			if due {
				if err := e.log.WriteMark(); err != nil {
					if r.isGone(e.log) {
						continue
					}
					return err
				}
			}
		}
		b = appendPoint(b, tp, e.log.WrittenPoint(), e.log.TopicID())
	}
	return r.writeSoft(pointsFile, b)
}

// appendPoint adds a log's line; one that has nothing to say has none.
func appendPoint(b []byte, tp kafka.TopicPartition, p kafka.Offset, id kafka.TopicID) []byte {
	if p <= 0 {
		return b
	}
	return fmt.Appendf(b, "%s %d %d %s\n", tp.Topic, tp.Partition, p, id)
}

// writeSoft replaces a file in one step and forces nothing to disk.
func (r *dir) writeSoft(name string, b []byte) error { return r.writeFiles(false, file{name, b}) }

// readPoints reads the written points of an earlier process under this boot; nil when there is none.
func (r *dir) readPoints() map[kafka.TopicPartition]writtenPoint {
	b, err := r.readFile(pointsFile)
	if err != nil || b == nil || r.bootID == "" {
		return nil
	}
	return parsePoints(b, r.bootID)
}

// parsePoints reads the file; lines that cannot be are left out, since they only save work.
func parsePoints(b []byte, bootID string) map[kafka.TopicPartition]writtenPoint {
	first, rest, ok := bytes.Cut(b, []byte("\n"))
	if !ok || string(first) != bootID {
		return nil
	}
	points := map[kafka.TopicPartition]writtenPoint{}
	for line := range strings.SplitSeq(string(rest), "\n") {
		f := strings.Fields(line)
		if len(f) != 4 {
			continue
		}
		p, err1 := strconv.ParseInt(f[1], 10, 32)
		off, err2 := strconv.ParseInt(f[2], 10, 64)
		id, err3 := kafka.ParseTopicID(f[3])
		if err1 == nil && err2 == nil && err3 == nil && p >= 0 && off >= 0 {
			points[kafka.TopicPartition{Topic: f[0], Partition: kafka.Partition(p)}] = writtenPoint{kafka.Offset(off), id}
		}
	}
	return points
}

// deletedNameLocked notes that the checkpoint files still name a partition that has gone. Whoever deletes a log holds the mutex until
// it is no longer in mu.logs: a checkpoint between the two would name it once more and count as one that does not. [mu]
func (r *dir) deletedNameLocked(tp kafka.TopicPartition) {
	if r.mu.stale == nil {
		r.mu.stale = map[kafka.TopicPartition]struct{}{}
	}
	r.mu.stale[tp] = struct{}{}
}

// freshName makes sure that the checkpoint files say nothing of an earlier log of a new one's name: after a kill the new
// one would begin at the old one's log start, and count as compacted as far as the old one was.
func (r *dir) freshName(tp kafka.TopicPartition) error {
	r.mu.Lock()
	_, stale := r.mu.stale[tp]
	r.mu.Unlock()
	if !stale {
		return nil
	}
	return r.checkpoint()
}

// noteStale finds the names in checkpoint files of which the start has found no log: their deletion was the last that an
// earlier process did. What the cleaner's file says of them is forgotten.
func (r *dir) noteStale(files ...map[kafka.TopicPartition]kafka.Offset) {
	r.cleaner.mu.Lock()
	defer r.cleaner.mu.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, f := range append(files, r.cleaner.mu.known) {
		for tp := range f {
			if r.mu.logs[tp] == nil {
				r.deletedNameLocked(tp)
				delete(r.cleaner.mu.known, tp)
			}
		}
	}
}
