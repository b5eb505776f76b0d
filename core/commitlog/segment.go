package commitlog

import (
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"github.com/tidemark/tidemark/core/kafka"
	"github.com/tidemark/tidemark/core/vfs"
)

// kind is one of a segment's files.
type kind int

const (
	kindLog kind = iota
	kindIndex
	kindTime
	kindTxn
	kinds
)

// Suffixes of file names in a partition's folder.
const (
	suffixSnapshot = ".snapshot"
	suffixDeleted  = ".deleted"
	suffixTmp      = ".tmp"
	epochsFile     = "leader-epoch-checkpoint"
	metadataFile   = "partition.metadata"
)

func (k kind) suffix() string {
	return [...]string{kindLog: ".log", kindIndex: ".index", kindTime: ".timeindex", kindTxn: ".txnindex"}[k]
}

// offsetName is the 20-digit name of a segment or snapshot.
func offsetName(o kafka.Offset) string {
	s := strconv.FormatInt(int64(o), 10)
	return strings.Repeat("0", max(0, 20-len(s))) + s
}

// parseOffsetName splits a file name into offset and suffix.
func parseOffsetName(name string) (kafka.Offset, string, bool) {
	i := strings.IndexByte(name, '.')
	if i != 20 {
		return 0, "", false
	}
	n, err := strconv.ParseUint(name[:i], 10, 63)
	return kafka.Offset(n), name[i:], err == nil
}

// errDead is the answer of acquire for a segment that has left the log.
var errDead = fmt.Errorf("the segment has left the log: %w", fs.ErrNotExist)

// segment is one segment of a log. The fields below base are guarded by Log.mu, except that the holder of the append
// lock, who alone changes them for the active segment, may read them without it.
type segment struct {
	base  kafka.Offset
	files [kinds]fileRef

	size        int64        // bytes of the .log file that are batches
	end         kafka.Offset // last offset + 1; base when it is empty
	maxTS       int64        // highest timestamp, -1: none
	maxTSAt     kafka.Offset // last offset of the batch that has it
	indexedTS   int64        // timestamp of the last entry of the time index
	firstMS     int64        // wall clock of the first append; 0: none, or by an earlier process (learnAge)
	lastWriteMS int64
	idx         *indexTail   // nil: all entries are in the files, as many as counts says
	counts      [kinds]int32 // entries of each index file while idx is nil
	since       int32        // idx.since while idx is nil
	unsynced    [kinds]bool  // written since the last fsync
}

func newSegment(base kafka.Offset) *segment {
	return &segment{base: base, end: base, maxTS: -1, maxTSAt: base, indexedTS: -1}
}

// tailLocked gives the part of the indexes that is in memory, beginning one where there is none.
func (s *segment) tailLocked() *indexTail {
	if s.idx == nil {
		s.idx = &indexTail{since: int(s.since)}
		s.idx.offsets.first, s.idx.offsets.written = int(s.counts[kindIndex]), int(s.counts[kindIndex])
		s.idx.times.first, s.idx.times.written = int(s.counts[kindTime]), int(s.counts[kindTime])
		s.idx.txns.first, s.idx.txns.written = int(s.counts[kindTxn]), int(s.counts[kindTxn])
	}
	return s.idx
}

// entriesLocked is how many entries an index has, in the file and in memory.
func (s *segment) entriesLocked(k kind) int {
	if s.idx == nil {
		return int(s.counts[k])
	}
	switch k {
	case kindIndex:
		return s.idx.offsets.len()
	case kindTime:
		return s.idx.times.len()
	case kindTxn:
		return s.idx.txns.len()
	}
	return 0
}

// dropTailLocked frees the indexes' part in memory if the files have it all.
func (s *segment) dropTailLocked() {
	t := s.idx
	if t == nil || t.offsets.pending() > 0 || t.times.pending() > 0 || t.txns.pending() > 0 {
		return
	}
	s.counts[kindIndex], s.counts[kindTime], s.counts[kindTxn] = int32(t.offsets.len()), int32(t.times.len()), int32(t.txns.len())
	s.since = int32(t.since)
	s.idx = nil
}

func (s *segment) describeLocked() Segment {
	return Segment{Base: s.base, Size: s.size, MaxTimestamp: s.maxTS, MaxTimestampAt: s.maxTSAt, LastWriteMS: s.lastWriteMS}
}

// fileName is the path of a segment's file.
func (l *Log) fileName(base kafka.Offset, suffix string) string {
	return l.Dir() + "/" + offsetName(base) + suffix
}

// acquire leases a segment's file and opens it if need be; fs.ErrNotExist when it is not there.
func (l *Log) acquire(s *segment, k kind) (*Lease, error) {
	if o := s.files[k].open.Load(); o != nil && o.tryRetain() {
		o.used.Store(true)
		return o, nil
	}
	return l.acquireSlow(s, k, 0)
}

// acquireNew is acquire for a writer of an index, who makes the file when it is not there. A reader must not: the
// segment may have been deleted under it.
func (l *Log) acquireNew(s *segment, k kind) (*Lease, error) {
	if l.listed != nil { // it is written only while nobody else uses the log
		l.listed = nil
	}
	return l.acquireSlow(s, k, vfs.Create)
}

func (l *Log) acquireSlow(s *segment, k kind, flag vfs.Flag) (*Lease, error) {
	lease, err := l.env.Files.acquire(&s.files[k], func() (vfs.File, error) {
		return l.env.FS.OpenFile(l.fileName(s.base, k.suffix()), flag)
	})
	if err == nil && s.files[k].dead.Load() {
		// The segment has left the log, and the name may be another one's by now (see replace). What was opened before
		// the mark was set is right, but that cannot be told here; the caller looks again.
		lease.Release()
		return nil, errDead
	}
	return lease, err
}

// spill writes index entries of s that are in memory only. With all it writes every one, else a file's only once
// 4 KiB of them have gathered. Two that spill at once write the same bytes to the same place.
func (l *Log) spill(s *segment, all bool) error {
	for k := kindIndex; k < kinds; k++ {
		if err := l.spillFile(s, k, all); err != nil {
			return fmt.Errorf("write %s: %w", l.fileName(s.base, k.suffix()), err)
		}
	}
	return nil
}

func (l *Log) spillFile(s *segment, k kind, all bool) error {
	l.mu.Lock()
	t := s.idx
	if t == nil || t.pending(k) == 0 || !all && t.pending(k) < spillEntries {
		l.mu.Unlock()
		return nil
	}
	scratch := l.env.Pool.Get(spillEntries * txnEntryBytes)
	defer scratch.Release()
	data, first := t.unwritten(k, scratch.B[:0])
	l.mu.Unlock()

	if k == kindTime && first == 0 {
		// Kafka's DumpLogSegments opens the .index beside a .timeindex; a small segment has no entry to put there.
		lease, err := l.acquireNew(s, kindIndex)
		if err != nil {
			return err
		}
		lease.Release()
	}
	size := entryBytes(k)
	lease, err := l.acquireNew(s, k)
	if err != nil {
		return err
	}
	defer lease.Release()
	if _, err := lease.f.WriteAt(data, int64(first)*int64(size)); err != nil {
		return err
	}
	l.mu.Lock()
	s.unsynced[k] = true
	t.setWritten(k, first+len(data)/size)
	l.mu.Unlock()
	return nil
}

func entryBytes(k kind) int {
	return [...]int{kindIndex: offsetEntryBytes, kindTime: timeEntryBytes, kindTxn: txnEntryBytes}[k]
}

func (t *indexTail) pending(k kind) int {
	switch k {
	case kindIndex:
		return t.offsets.pending()
	case kindTime:
		return t.times.pending()
	default:
		return t.txns.pending()
	}
}

func (t *indexTail) unwritten(k kind, dst []byte) ([]byte, int) {
	switch k {
	case kindIndex:
		return t.offsets.unwritten(dst)
	case kindTime:
		return t.times.unwritten(dst)
	default:
		return t.txns.unwritten(dst)
	}
}

func (t *indexTail) setWritten(k kind, n int) {
	switch k {
	case kindIndex:
		t.offsets.written = max(t.offsets.written, n)
	case kindTime:
		t.times.written = max(t.times.written, n)
	default:
		t.txns.written = max(t.txns.written, n)
	}
}
