package commitlog

import (
	"log/slog"
	"sync/atomic"

	"github.com/tidemark/tidemark/core/buf"
	"github.com/tidemark/tidemark/core/kafka"
	"github.com/tidemark/tidemark/core/vfs"
)

// Env is what the partitions of one log folder share. It must not change once a Log has been opened with it. What is
// nil gets its default for each log by itself, so a folder of many logs gives Pool, Files, Logger and NowMS.
type Env struct {
	FS     vfs.FS
	Pool   *buf.Pool    // copies for the tail ring and scratch space of reads
	Tail   *TailBudget  // nil: no tail ring, every read goes to a file
	Files  *FileCache   // the bound on open files; nil means DefaultOpenFiles
	Logger *slog.Logger // nil: silent
	NowMS  func() int64 // wall clock in milliseconds; nil means the system's
	// Later takes work that must not run on the append path: after a roll, flushing the rolled segment and writing
	// the producer snapshot. It is called under the partition's append lock and must not block; the work may run on
	// any goroutine, at any time until Close, and its error is an I/O error of the log folder. nil runs the work in
	// place and hands its error to the append.
	Later func(l *Log, work func() error)
	// Postpone, while it holds true, keeps everything from being synced: whoever stores true closes many logs, and then
	// syncs the file system once (vfs.FS.SyncAll) or relies on the page cache. No point moves meanwhile but WrittenPoint. nil: never.
	Postpone *atomic.Bool
	// Room is kept behind the last batch of busy active segments (room.go). nil: none, and no blocks are reserved ahead.
	Room *Room
}

// MaxRoom bounds the bytes of a Room. As many zeros at a segment's end are no damage.
const MaxRoom = 1 << 20

// durable says whether what is written has to be synced now.
func (e *Env) durable() bool { return e.Postpone == nil || !e.Postpone.Load() }

// Config holds the settings of one log; many logs may share one value. SetConfig swaps it whole.
type Config struct {
	SegmentBytes         int64 // log.segment.bytes; 0 means 1 GiB
	SegmentMS            int64 // log.roll.ms; 0 means 7 days
	SegmentJitterMS      int64 // log.roll.jitter.ms: less than this, and than SegmentMS, is taken off SegmentMS
	SegmentIndexBytes    int   // log.index.size.max.bytes; 0 means 10 MiB
	IndexIntervalBytes   int   // log.index.interval.bytes; 0 means 4,096
	RetentionBytes       int64 // below 0: no bound; 0 keeps nothing
	RetentionMS          int64 // below 0: no bound; 0 keeps nothing
	DeleteOnRetention    bool  // cleanup.policy contains delete; without it the two bounds above do not count
	FileDeleteDelayMS    int64 // log.segment.delete.delay.ms: how long a removed segment stays as *.deleted
	ProducerExpirationMS int64 // producer.id.expiration.ms; 0 means 1 day
	Preallocate          bool  // reserve SegmentBytes when a segment is made

	Compact            bool    // cleanup.policy contains compact
	DeleteRetentionMS  int64   // delete.retention.ms
	MinCompactionLagMS int64   // min.compaction.lag.ms; 0: none
	MaxCompactionLagMS int64   // max.compaction.lag.ms; 0: none
	MinCleanableRatio  float64 // min.cleanable.dirty.ratio
}

func (c *Config) segmentBytes() int64 { return orDefault(c.SegmentBytes, 1<<30) }

// segmentMS is after how long a segment is closed: in time for max.compaction.lag.ms too, since the active one is never
// cleaned.
func (c *Config) segmentMS() int64 {
	ms := orDefault(c.SegmentMS, 7*24*3600*1000)
	if c.Compact && c.MaxCompactionLagMS > 0 {
		ms = min(ms, c.MaxCompactionLagMS)
	}
	return ms
}

func (c *Config) segmentIndexBytes() int { return orDefault(c.SegmentIndexBytes, 10<<20) }

func (c *Config) indexInterval() int { return orDefault(c.IndexIntervalBytes, 4096) }

func orDefault[T int | int64](v, otherwise T) T {
	if v == 0 {
		return otherwise
	}
	return v
}

// Options opens one log.
type Options struct {
	Env     *Env
	Config  *Config
	Dir     string        // the partition's folder; Open makes it when it is not there
	TopicID kafka.TopicID // zero: take the one of partition.metadata, or none
	// StartOffset is the log start from log-start-offset-checkpoint; the log begins there, or at its first segment
	// where that is later.
	StartOffset kafka.Offset
	// RecoveryPoint is the offset up to which everything is known to be whole on disk, from
	// recovery-point-offset-checkpoint; what lies behind it is read and checked. 0 checks everything; a point ahead
	// of the end is survived.
	RecoveryPoint kafka.Offset
	// WrittenPoint is Log.WrittenPoint of a process that was killed under the same boot, so that nothing it wrote is
	// lost: what lies below is not read, though not known to be on disk. 0: another boot, or not known.
	WrittenPoint kafka.Offset
	// WrittenTopicID is whose WrittenPoint it is: a log of another id is read whole. Zero: of this one.
	WrittenTopicID kafka.TopicID
	// CleanedTo is the offset below which compaction may have left holes; any other hole is told of.
	CleanedTo kafka.Offset
}

// Segment describes one segment of a log.
type Segment struct {
	Base           kafka.Offset
	Size           int64        // bytes of its .log file
	MaxTimestamp   int64        // -1: none
	MaxTimestampAt kafka.Offset // last offset of the batch that has it
	LastWriteMS    int64        // wall clock of the last append, or the file's modification time
}

// Summary is what a clean stop remembers of a log, so that the next start need not visit its folder.
type Summary struct {
	TopicID        kafka.TopicID
	Start, End     kafka.Offset
	Segments       []Segment
	Epochs         []EpochStart
	SnapshotOffset kafka.Offset // of the newest producer snapshot; -1: none
	Producers      bool         // the snapshot holds producers, so it must be read before the first append
	// Recovery, Written and Flushed are the log's RecoveryPoint, WrittenPoint and FlushedOffset.
	Recovery, Written, Flushed kafka.Offset
	// Left is what the stop has not written to the log's files (leave.go); empty: nothing.
	Left []byte
}
