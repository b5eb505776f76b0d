// Package commitlog keeps one partition's folder in Apache Kafka's on-disk format.
package commitlog

import (
	"errors"
	"io"

	"github.com/tidemark/tidemark/core/buf"
	"github.com/tidemark/tidemark/core/kafka"
	"github.com/tidemark/tidemark/core/record"
	"github.com/tidemark/tidemark/core/vfs"
)

// DefaultOpenFiles is the bound of a FileCache that nobody gave one.
const DefaultOpenFiles = 4096

// Errors that callers tell apart.
var (
	ErrOffsetOutOfRange = errors.New("offset is outside the log")
	ErrCorrupt          = errors.New("corrupt")
	ErrClosed           = errors.New("log is closed")
	errUnwritten        = errors.New("bug: being written")
)

// Log is one partition's log. See the package comment for which methods need the partition's append lock.
type Log struct{ end kafka.Offset }

// Open opens the log of a folder, and recovers it.
func Open(o Options) (*Log, error) { return nil, errUnwritten }

// OpenFromSummary opens a log without touching its folder; the first use checks that the last segment still has the size that
// the summary gives, and recovers the log when it has not.
func OpenFromSummary(o Options, s *Summary) (*Log, error) { return nil, errUnwritten }

// Summary describes the log after Close. [after Close only]
func (l *Log) Summary() *Summary { return nil }

// Append writes the batches by one pwritev and updates indexes, epochs, staged producer state and the tail ring; on an error nothing of
// it remains and staged producer state is undone. The new end shows only after Publish. [append lock]
func (l *Log) Append(b []AppendBatch) error { return errUnwritten }

// Publish makes what Append wrote visible to readers: one atomic store. [append lock; may be called under the state lock]
func (l *Log) Publish() {}

// StartOffset is the first offset that may be read.
func (l *Log) StartOffset() kafka.Offset { return 0 }

// EndOffset is the published log end offset.
func (l *Log) EndOffset() kafka.Offset { return 0 }

// AppendEnd is the end of what Append wrote, published or not. [append lock]
func (l *Log) AppendEnd() kafka.Offset { return 0 }

// Read fills s with whole batches, the first being the one that holds from, up to maxBytes and below limit (exclusive). minOne returns the first batch whole even
// if it is larger than maxBytes. Nothing to read is an empty slice with Next == from. ErrOffsetOutOfRange when from is below the start or above the end.
// s is overwritten; its memory is reused; release it before the next use.
func (l *Log) Read(s *Slice, from kafka.Offset, maxBytes int, limit kafka.Offset, minOne bool) error {
	return errUnwritten
}

// BytesBetween estimates how many bytes of batches lie in [from, limit), up to at most max: for fetches that wait.
func (l *Log) BytesBetween(from, limit kafka.Offset, max int64) int64 { return 0 }

// Slice is an answer of Read: either buffers from the tail ring, or one piece of a file.
type Slice struct {
	Tail  [][]byte // valid until Release
	File  Piece    // Lease is nil when Tail answers
	Bytes int      // of all of it
	Next  kafka.Offset
}

// Piece is a range of a segment's file.
type Piece struct {
	Lease *Lease
	Pos   int64
	N     int
}

// Release gives buffers and lease back; s may be used for another Read.
func (s *Slice) Release() {}

// CopyTo copies s.Bytes bytes to dst.
func (s *Slice) CopyTo(dst []byte) error { return errUnwritten }

// Lease pins an open segment file: its descriptor stays valid until Release.
type Lease struct{}

// WithFd lends the descriptor, or answers vfs.ErrNoFd.
func (l *Lease) WithFd(fn func(fd int) error) error { return vfs.ErrNoFd }

// ReadAt reads from the file.
func (l *Lease) ReadAt(p []byte, off int64) (int, error) { return 0, io.EOF }

// Resident reports whether the range is in the page cache.
func (l *Lease) Resident(off int64, n int) (bool, error) { return false, nil }

// Advise hints how the range will be used.
func (l *Lease) Advise(off int64, n int, a vfs.Advice) error { return nil }

// Release ends the lease.
func (l *Lease) Release() {}

// FoundOffset is an answer to a look-up by time.
type FoundOffset struct {
	Offset    kafka.Offset // -1: none
	Timestamp int64
	Epoch     kafka.LeaderEpoch
}

// OffsetForTime finds the first record at or after ts, below limit (exclusive), inside compressed batches too.
func (l *Log) OffsetForTime(ts int64, limit kafka.Offset) (FoundOffset, error) {
	return FoundOffset{}, errUnwritten
}

// MaxTimestamp finds the first record that has the highest timestamp of the log below limit.
func (l *Log) MaxTimestamp(limit kafka.Offset) (FoundOffset, error) {
	return FoundOffset{}, errUnwritten
}

// LatestEpoch is the newest leader epoch the log knows, -1 when it knows none.
func (l *Log) LatestEpoch() kafka.LeaderEpoch { return -1 }

// EpochFor is the leader epoch under which an offset was written, -1 when unknown.
func (l *Log) EpochFor(off kafka.Offset) kafka.LeaderEpoch { return -1 }

// EndOffsetForEpoch answers OffsetForLeaderEpoch: the largest known epoch at or below the one asked, and the offset where it ended.
// (-1, -1) when the log knows none.
func (l *Log) EndOffsetForEpoch(e kafka.LeaderEpoch) (kafka.LeaderEpoch, kafka.Offset) { return -1, -1 }

// AssignEpoch notes that a leader epoch begins at the log end: in memory; written with the next flush. [append lock]
func (l *Log) AssignEpoch(e kafka.LeaderEpoch, start kafka.Offset) {}

// Epochs lists the leader epochs, oldest first.
func (l *Log) Epochs() []EpochStart { return nil }

// DeleteBefore moves the log start offset (DeleteRecords, or a follower after its leader); segments that lie before it go
// with the next Retain.
func (l *Log) DeleteBefore(off kafka.Offset) error { return errUnwritten }

// Retain applies retention by time and size and the log start to all segments but the active one, whose last offset is below limit (the high
// watermark), and unlinks files whose delete delay has passed. roll: the active segment has expired too; take the append lock, call Roll, and Retain again.
func (l *Log) Retain(nowMS int64, limit kafka.Offset) (deleted int, roll bool, err error) {
	return 0, false, errUnwritten
}

// Roll begins a new segment unless the active one is empty. [append lock]
func (l *Log) Roll() error { return errUnwritten }

// TruncateTo cuts the log so that it ends at off, a batch boundary or below one; what was cut is forgotten by producers, epochs and indexes. [append lock]
func (l *Log) TruncateTo(off kafka.Offset) error { return errUnwritten }

// TruncateFully throws all records away and starts anew at off. [append lock]
func (l *Log) TruncateFully(off kafka.Offset) error { return errUnwritten }

// Flush makes the records up to the published end durable and returns that end: data only, for tidemark.fsync=batch and flush.messages / flush.ms.
func (l *Log) Flush() (kafka.Offset, error) { return 0, errUnwritten }

// FlushedOffset is the end of what is known to be durable.
func (l *Log) FlushedOffset() kafka.Offset { return 0 }

// Checkpoint flushes everything, indexes, epochs and snapshots too, and returns the new recovery point.
func (l *Log) Checkpoint() (kafka.Offset, error) { return 0, errUnwritten }

// RecoveryPoint is the offset behind which a start after a crash has to read.
func (l *Log) RecoveryPoint() kafka.Offset { return 0 }

// Rest writes what is buffered (no fsync) and gives back the memory and files of a log that has become idle.
func (l *Log) Rest() error { return errUnwritten }

// Segments lists the segments, oldest first.
func (l *Log) Segments() []Segment { return nil }

// Size is the sum of the segments' bytes.
func (l *Log) Size() int64 { return 0 }

// TopicID is the topic's id from the options or partition.metadata.
func (l *Log) TopicID() kafka.TopicID { return kafka.TopicID{} }

// Dir is the partition's folder.
func (l *Log) Dir() string { return "" }

// SetConfig swaps the settings.
func (l *Log) SetConfig(c *Config) {}

// Config is the settings in force.
func (l *Log) Config() *Config { return nil }

// Moved tells the log that its folder was renamed (topic-partition.uuid-delete, future logs).
func (l *Log) Moved(dir string) {}

// Close flushes, writes the final snapshot and closes all files. [append lock]
func (l *Log) Close() error { return errUnwritten }

// Abandon closes all files and writes nothing: for a folder that has failed or was removed. [append lock]
func (l *Log) Abandon() {}

// Producers is the log's producer state. Loads it when the log was opened from a summary. [append lock]
func (l *Log) Producers() (*Producers, error) { return nil, errUnwritten }

// AbortedTxns lists the aborted transactions that overlap [from, limit): Fetch with read_committed.
func (l *Log) AbortedTxns(from, limit kafka.Offset) ([]AbortedTxn, error) { return nil, errUnwritten }

// Producers holds what the log knows about its idempotent producers. All methods need the append lock, but FirstUnstable.
type Producers struct{}

// Dup is the earlier append of a batch that came again.
type Dup struct {
	Base, Last kafka.Offset
	Timestamp  int64
}

// Check decides on a client's batch: (dup, true, None) is a duplicate to be answered with its first offset; else None, OutOfOrderSequenceNumber, InvalidProducerEpoch, InvalidTxnState.
// Batches staged before it count. Batches without producer id pass.
func (p *Producers) Check(b record.Batch) (Dup, bool, kafka.ErrorCode) {
	return Dup{}, false, kafka.None
}

// CheckMarker decides on a transaction marker (WriteTxnMarkers): InvalidProducerEpoch, TransactionCoordinatorFenced. transactionVersion 2 demands a newer epoch.
func (p *Producers) CheckMarker(id kafka.ProducerID, epoch kafka.ProducerEpoch, coordinatorEpoch int32, transactionVersion int16) kafka.ErrorCode {
	return kafka.None
}

// Stage notes a batch (data or marker, offsets patched) that the next Append will write. Append keeps it, or undoes it when the write fails.
func (p *Producers) Stage(b record.Batch) error { return errUnwritten }

// Unstage undoes everything staged since the last Append: for a caller that gives up before it.
func (p *Producers) Unstage() {}

// FirstUnstable is the first offset of the oldest transaction that is open, or closed at or above the high watermark; -1 when there is none. Atomic: no lock needed.
func (p *Producers) FirstUnstable() kafka.Offset { return -1 }

// AdvanceHighWatermark forgets finished transactions below the high watermark. Safe without the append lock. Cheap when no transaction is known.
func (p *Producers) AdvanceHighWatermark(hw kafka.Offset) {}

// Expire forgets producers that have been idle longer than the configuration allows.
func (p *Producers) Expire(nowMS int64) int { return 0 }

// Active lists the producers: DescribeProducers.
func (p *Producers) Active() []ProducerState { return nil }

// ProducerState describes one producer.
type ProducerState struct {
	ID               kafka.ProducerID
	Epoch            kafka.ProducerEpoch
	LastSequence     int32
	LastOffset       kafka.Offset
	OffsetDelta      int32
	Timestamp        int64
	CoordinatorEpoch int32
	TxnFirstOffset   kafka.Offset // -1: no open transaction
}

// AbortedTxn is one entry of a .txnindex file.
type AbortedTxn struct {
	ProducerID       kafka.ProducerID
	First, Last      kafka.Offset
	LastStableOffset kafka.Offset
}

// TailBudget bounds the memory of the tail rings of all logs.
type TailBudget struct{}

// NewTailBudget keeps at most limit bytes of buffers, counted whole.
func NewTailBudget(limit int64) *TailBudget { return &TailBudget{} }

// Used is how many bytes the rings hold now.
func (t *TailBudget) Used() int64 { return 0 }

// FileCache bounds how many files are open; the least recently used close first, leased ones stay.
type FileCache struct{}

// NewFileCache keeps at most limit files open.
func NewFileCache(limit int) *FileCache { return &FileCache{} }

// Open is how many files are open now.
func (c *FileCache) Open() int { return 0 }

// DumpOptions says how much Dump prints.
type DumpOptions struct {
	Deep bool // .log: records, not batches alone
	Data bool // with Deep: keys and values
	Max  int64
}

// Dump prints a file of a partition's folder, or all files of a folder, and says where one is damaged.
func Dump(w io.Writer, fs vfs.FS, path string, o DumpOptions) error { return errUnwritten }

var _ = buf.NewPool
