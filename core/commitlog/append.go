package commitlog

import (
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"math"

	"github.com/tidemark/tidemark/core/buf"
	"github.com/tidemark/tidemark/core/invariants"
	"github.com/tidemark/tidemark/core/kafka"
	"github.com/tidemark/tidemark/core/record"
	"github.com/tidemark/tidemark/core/vfs"
)

// AppendBatch is one record batch to append. Base offset and leader epoch are already patched into Bytes.
type AppendBatch struct {
	Bytes        []byte   // exactly one batch, lying in Buf where that is given; not kept beyond Append but through Buf
	Buf          *buf.Buf // retained by the tail ring when it wants to; nil: the ring copies
	Base, Last   kafka.Offset
	Epoch        kafka.LeaderEpoch
	MaxTimestamp int64
}

// jitterShare is the part of a segment's size by which rolls are spread, so that partitions filled at one rate do not
// all roll at once; segments below jitterFloor are not spread.
const (
	jitterShare = 32
	jitterFloor = 16 << 20
)

func jitterOf(dir string) uint32 {
	h := fnv.New32a()
	_, _ = io.WriteString(h, dir)
	return h.Sum32()
}

// Append writes the batches behind the log by one pwritev, after rolling where that is due, and notes them in
// indexes, epochs, the tail ring and, as staged, the producer state. On an error nothing of it remains, on disk and in
// memory, and what was staged is undone; if even cutting back fails every later Append fails too. Readers see nothing
// before Publish. The offsets must go on from AppendEnd; gaps are allowed (compaction). [append lock]
func (l *Log) Append(bs []AppendBatch) error {
	err := l.ready()
	l.writing.Lock()
	defer l.writing.Unlock()
	if err == nil && l.broken != nil {
		err = l.broken
	}
	if err == nil && len(bs) > 0 {
		err = l.write(bs)
	}
	p := l.producers
	if err != nil {
		if p != nil {
			p.Unstage()
		}
		return err
	}
	if len(bs) > 0 {
		l.note(bs)
	}
	return nil
}

// Publish makes what Append wrote visible to readers: one atomic store. [append lock; the state lock may be held]
func (l *Log) Publish() { l.end.Store(int64(l.appendEnd)) }

// write puts the bytes into the active segment's file.
func (l *Log) write(bs []AppendBatch) error {
	total := int64(0)
	next := l.appendEnd
	l.vec = l.vec[:0]
	for i := range bs {
		b := &bs[i]
		if b.Base < next || b.Last < b.Base {
			return invariants.Bug("append of offsets %d to %d to a log that ends at %d", b.Base, b.Last, next)
		}
		next = b.Last + 1
		total += int64(len(b.Bytes))
		l.vec = append(l.vec, b.Bytes)
	}
	defer l.forgetVec()
	if l.mustRoll(total, next-1) {
		base := l.appendEnd
		if next-1-base > math.MaxInt32 {
			base = bs[0].Base // a gap wider than an index can express
		}
		if err := l.roll(base); err != nil {
			return err
		}
	}
	s := l.cur
	if next-1-s.base > math.MaxInt32 || s.size+total > math.MaxInt32 {
		return fmt.Errorf("append %d bytes up to offset %d to segment %d of %s: it would not fit the index format; append fewer batches at once", total, next-1, s.base, l.Dir())
	}
	if err := l.spill(s, false); err != nil {
		return err
	}
	lease, err := l.acquire(s, kindLog)
	if err != nil {
		return fmt.Errorf("append to segment %d: %w", s.base, err)
	}
	defer lease.Release()
	zeros := l.zerosFor(s, total)
	if zeros > 0 {
		l.vec = append(l.vec, l.env.Room.zeros[:zeros])
	}
	l.reserve(lease.f, s, s.size+total+zeros)
	n, err := lease.f.WriteVec(s.size, l.vec)
	if int64(n) >= total {
		l.wrote(s, total, zeros, int64(n))
		return nil
	}
	if err == nil {
		err = io.ErrShortWrite
	}
	err = fmt.Errorf("append %d bytes at %d of %s: %w", total, s.size, lease.f.Name(), err)
	if n == 0 {
		return err
	}
	if cut := lease.f.Truncate(s.size); cut != nil {
		l.broken = fmt.Errorf("%s ends in part of a batch that could not be cut off: %w", lease.f.Name(), errors.Join(err, cut))
		return l.broken
	}
	l.forgetRoom()
	return err
}

// forgetVec lets the buffers of an append go, which the scratch slice would keep alive.
func (l *Log) forgetVec() { clear(l.vec) }

// note accounts for batches that have been written.
func (l *Log) note(bs []AppendBatch) {
	s, interval, now := l.cur, l.Config().indexInterval(), l.env.NowMS()
	l.mu.Lock()
	t := s.tailLocked()
	for i := range bs {
		b := &bs[i]
		if b.Epoch > l.mu.epochs.latest() {
			l.mu.epochs.assign(b.Epoch, b.Base)
		}
		if b.MaxTimestamp > s.maxTS {
			s.maxTS, s.maxTSAt = b.MaxTimestamp, b.Last
		}
		t.note(s, b.Last, s.size, int64(len(b.Bytes)), interval)
		s.size += int64(len(b.Bytes))
		s.end = b.Last + 1
	}
	if s.firstMS == 0 {
		s.firstMS = now
	}
	s.lastWriteMS = now
	s.unsynced[kindLog] = true
	if l.producers != nil {
		t.txns.entries = append(t.txns.entries, l.producers.keep()...)
		l.mu.producers = l.producers.count() > 0
	}
	l.mu.Unlock()
	l.appendEnd = s.end
	l.keepInTail(bs)
}

// keepInTail puts an append into the tail ring, which has no gaps: it is let go before a large append, and where nobody has
// read at the log's end for a while.
func (l *Log) keepInTail(bs []AppendBatch) {
	if !l.env.Tail.keeps() {
		return
	}
	r, wanted, bytes := l.tail.Load(), l.wanted.Load(), total(bs)
	if wanted <= 0 || bytes > maxTailAppend {
		if l.ringed {
			l.env.Tail.cut(r, 0)
			l.ringed = false
		}
		return
	}
	l.wanted.Store(wanted - 1 - int32(bytes/wantedBytes))
	if r == nil {
		r = &tailRing{}
		l.tail.Store(r)
	}
	for i := range bs {
		r.fresh = append(r.fresh, l.env.Tail.hold(l.env.Pool, &bs[i]))
	}
	l.env.Tail.add(r, r.fresh)
	clear(r.fresh)
	r.fresh = r.fresh[:0]
	l.ringed = true
}

func total(bs []AppendBatch) (bytes int) {
	for i := range bs {
		bytes += len(bs[i].Bytes)
	}
	return bytes
}

// mustRoll decides whether the next bytes go to a new segment. Time counts from the first append by this broker's clock
// (learnAge after a start), not by the records' timestamps as in Kafka: there one record from the far future rolls a
// segment for each batch that follows it.
func (l *Log) mustRoll(total int64, last kafka.Offset) bool {
	c, s := l.Config(), l.cur
	if s.size == 0 {
		return last-s.base > math.MaxInt32
	}
	limit := c.segmentBytes()
	if limit >= jitterFloor {
		limit -= limit / jitterShare * int64(l.jitter%1024) / 1024
	}
	if s.size+total > limit || last-s.base > math.MaxInt32 {
		return true
	}
	now := l.env.NowMS()
	if s.firstMS == 0 {
		l.learnAge(s, now)
	}
	ms := c.segmentMS()
	if c.SegmentJitterMS > 0 {
		ms -= int64(l.jitter) % min(c.SegmentJitterMS, ms) // never all of it
	}
	if now-s.firstMS > ms {
		return true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	bytes := c.segmentIndexBytes()
	return s.entriesLocked(kindIndex)+1 > bytes/offsetEntryBytes || s.entriesLocked(kindTime)+2 > bytes/timeEntryBytes
}

// learnAge sets when the active segment had its first append, where an earlier process did it: otherwise a log that is opened
// more often than segment.ms would never roll by time. As in Kafka the first batch's timestamp stands for it; no later than the
// file's last append, which is also what is left where there is no timestamp. A record of the far past costs one early
// roll for each start. It reads one header once for each open log that is appended to. [append lock]
func (l *Log) learnAge(s *segment, now int64) {
	first := now
	if s.lastWriteMS > 0 {
		first = min(first, s.lastWriteMS)
	}
	if lease, err := l.acquire(s, kindLog); err == nil { // who appends next meets the error too
		sc := newScanner(lease, s.size, l.env.Pool, record.HeaderBytes)
		if h, _, err := sc.header(0); err == nil && h.MaxTimestamp() > 0 {
			first = min(first, h.MaxTimestamp())
		}
		sc.close()
		lease.Release()
	}
	l.mu.Lock()
	s.firstMS = max(first, 1) // 0 would be looked for again
	l.mu.Unlock()
}

// Roll begins a new segment unless the active one is empty. [append lock]
func (l *Log) Roll() error {
	if err := l.ready(); err != nil {
		return err
	}
	l.writing.Lock()
	defer l.writing.Unlock()
	if l.broken != nil {
		return l.broken
	}
	if l.cur.size == 0 {
		return nil
	}
	return l.roll(l.appendEnd)
}

// roll makes the next segment's .log file, the only one that appends need at once, and takes the producer snapshot in
// memory. Everything else about the old segment is work for Env.Later. Making the file takes about 20 µs; one opened
// ahead under another name would need a rename, which takes as long.
func (l *Log) roll(base kafka.Offset) error {
	old, s := l.cur, newSegment(base)
	if err := l.giveBack(); err != nil {
		return fmt.Errorf("roll %s: %w", l.Dir(), err)
	}
	if err := l.create(s); err != nil {
		return fmt.Errorf("roll %s to segment %d: %w", l.Dir(), base, err)
	}
	snap := pendingSnapshot{offset: l.appendEnd, data: l.producers.snapshot()}
	l.mu.Lock()
	old.tailLocked().noteTime(old)
	l.mu.segs = append(l.mu.segs, s)
	l.mu.newFiles = true
	l.mu.snaps = append(l.mu.snaps, snap)
	l.mu.lastSnap = snap.offset
	l.mu.Unlock()
	l.cur = s
	if l.env.Later == nil {
		return l.settle(old)
	}
	l.env.Later(l, func() error { return l.settle(old) })
	return nil
}

// create makes a segment's .log file and puts it into the cache.
func (l *Log) create(s *segment) error {
	lease, err := l.env.Files.acquire(&s.files[kindLog], func() (vfs.File, error) {
		return l.env.FS.Create(l.fileName(s.base, kindLog.suffix()))
	})
	if err != nil {
		return err
	}
	defer lease.Release()
	if c := l.Config(); c.Preallocate {
		err = lease.f.Preallocate(0, c.segmentBytes())
	}
	if err != nil { // left empty, the file would be where the log ends, or goes on, at the next start
		l.dropFiles(s, true)
		err = errors.Join(err, l.env.FS.Remove(l.fileName(s.base, kindLog.suffix())))
	}
	return err
}
