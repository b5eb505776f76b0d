package commitlog

import (
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidemark/tidemark/core/buf"
	"github.com/tidemark/tidemark/core/kafka"
)

// Errors that callers tell apart.
var (
	// ErrOffsetOutOfRange says that an offset lies below the log start or above the log end.
	ErrOffsetOutOfRange = errors.New("offset is outside the log")
	// ErrCorrupt marks damage on disk; the text names file and position.
	ErrCorrupt = errors.New("corrupt")
	// ErrDamaged is what Dump returns, wrapped, after it has printed all that it could.
	ErrDamaged = errors.New("damaged")
	// ErrNotInTail says that a Read from memory alone would need a file.
	ErrNotInTail = errors.New("offset is not in memory")
	// ErrFlush marks a failed fsync: it is never repeated, and whatever its cause the log folder has failed.
	ErrFlush = errors.New("fsync failed")
	// ErrClosed is the answer of a log after Close or Abandon.
	ErrClosed = errors.New("log is closed")
)

// States of a Log.
const (
	stateLazy   int32 = iota // opened from a summary, its folder not seen yet
	stateReady               // usable
	stateClosed              // after Close or Abandon
)

// Log is one partition's log. See the package comment for its files and for which methods need the append lock.
// An idle one is about 500 bytes.
type Log struct {
	env   *Env
	cfg   atomic.Pointer[Config]
	id    kafka.TopicID
	state atomic.Int32

	start, end, flushed, recovery atomic.Int64 // offsets; end is the published one
	cleanedTo                     atomic.Int64 // everything below has been compacted
	written                       atomic.Int64 // see WrittenPoint

	// Guarded by the append lock.
	appendEnd kafka.Offset
	cur       *segment // the active one
	broken    error    // an append failed and could not be cut back
	room      *room    // ahead of the active segment's last batch; nil: none
	vec       [][]byte // scratch of Append
	producers *Producers
	jitter    uint32
	listed    []string // the folder's names, sorted, while it is being recovered and nothing has been made in it

	mu struct {
		sync.Mutex
		dir       string
		segs      []*segment // ascending, never empty; the last one is active
		epochs    epochCache
		snaps     []pendingSnapshot
		lastSnap  kafka.Offset // offset of the newest snapshot, written or pending; -1: none
		newFiles  bool         // the folder has entries that no SyncDir has covered
		newFolder bool         // so has its parent, perhaps
		newID     bool         // partition.metadata has been written and not synced
		failed    error        // a failed fsync: never repeated
		hints     *readHints
		mark      *markState
		left      []byte // Summary.Left, until it has been looked at
		producers bool   // there are producers: Summary
	}
	// writing is held by whoever appends, beside the append lock: Rest, which has no append lock, takes it to give room back.
	writing sync.Mutex

	tail   atomic.Pointer[tailRing]
	wanted atomic.Int32 // how many appends the ring still keeps if nobody reads at the log's end, about
	ringed bool         // the ring may hold something; the append lock guards it

	// work serialises flush, retention, truncation and close, and is held across their I/O.
	work struct {
		sync.Mutex
		gone    []*segment // have left mu.segs, and not all of their files are renamed
		deleted []deletedFile
		cuts    int // truncations so far
	}

	// cleaning is held while a Cleaner works on the log; it is taken before all others.
	cleaning struct {
		sync.Mutex
		stop atomic.Bool
	}
}

// pendingSnapshot is a producer snapshot that has been taken and not yet written.
type pendingSnapshot struct {
	offset kafka.Offset
	data   []byte
}

// deletedFile is a renamed file that waits for its delay.
type deletedFile struct {
	name  string
	dueMS int64
}

// newLog makes a Log without any segment.
func newLog(o Options) *Log {
	l := &Log{env: o.Env.withDefaults(), id: o.TopicID}
	if o.Config == nil {
		o.Config = &Config{}
	}
	l.cfg.Store(o.Config)
	l.mu.dir = o.Dir
	l.mu.lastSnap = kafka.NoOffset
	l.jitter = jitterOf(o.Dir)
	return l
}

// withDefaults fills in what may be nil. The caller's value stays as it is when there is nothing to fill in, so that
// logs go on sharing it.
func (e *Env) withDefaults() *Env {
	if e.Pool != nil && e.Files != nil && e.Logger != nil && e.NowMS != nil {
		return e
	}
	full := *e
	if full.Pool == nil {
		full.Pool = buf.NewPool()
	}
	if full.Files == nil {
		full.Files = NewFileCache(DefaultOpenFiles)
	}
	if full.Logger == nil {
		full.Logger = slog.New(slog.DiscardHandler)
	}
	if full.NowMS == nil {
		full.NowMS = func() int64 { return time.Now().UnixMilli() }
	}
	return &full
}

// StartOffset is the first offset that may be read.
func (l *Log) StartOffset() kafka.Offset { return kafka.Offset(l.start.Load()) }

// EndOffset is the published log end offset.
func (l *Log) EndOffset() kafka.Offset { return kafka.Offset(l.end.Load()) }

// AppendEnd is the end of what Append has written, published or not: the base offset of the next batch. [append lock]
func (l *Log) AppendEnd() kafka.Offset {
	_ = l.ready() // a log from a summary may have to be recovered; Append reports what was wrong
	return l.appendEnd
}

// FlushedOffset is the end of what is known to be durable.
func (l *Log) FlushedOffset() kafka.Offset { return kafka.Offset(l.flushed.Load()) }

// RecoveryPoint is the offset behind which a start after a crash has to read.
func (l *Log) RecoveryPoint() kafka.Offset { return kafka.Offset(l.recovery.Load()) }

// TopicID is the topic's id from the options or from partition.metadata.
func (l *Log) TopicID() kafka.TopicID { return l.id }

// Config is the settings in force.
func (l *Log) Config() *Config { return l.cfg.Load() }

// SetConfig swaps the settings; they hold from the next call on.
func (l *Log) SetConfig(c *Config) { l.cfg.Store(c) }

// Dir is the partition's folder.
func (l *Log) Dir() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.dir
}

// Moved tells the log that its folder has been renamed, as a topic's deletion does. Open files and leases stay.
func (l *Log) Moved(dir string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.dir = dir
}

// Segments lists the segments, oldest first.
func (l *Log) Segments() []Segment {
	l.mu.Lock()
	defer l.mu.Unlock()
	list := make([]Segment, len(l.mu.segs))
	for i, s := range l.mu.segs {
		list[i] = s.describeLocked()
	}
	return list
}

// Size is the sum of the segments' bytes.
func (l *Log) Size() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	var n int64
	for _, s := range l.mu.segs {
		n += s.size
	}
	return n
}

// LatestEpoch is the newest leader epoch that the log knows, -1 when it knows none.
func (l *Log) LatestEpoch() kafka.LeaderEpoch {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.epochs.latest()
}

// EpochFor is the leader epoch under which an offset was written, -1 when that is not known.
func (l *Log) EpochFor(off kafka.Offset) kafka.LeaderEpoch {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.epochs.epochAt(off)
}

// EndOffsetForEpoch answers OffsetForLeaderEpoch: the largest epoch known that is not above e, and where it ended;
// the log end for the newest one, (-1, -1) for one that the log has not reached.
func (l *Log) EndOffsetForEpoch(e kafka.LeaderEpoch) (kafka.LeaderEpoch, kafka.Offset) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.epochs.endOf(e, l.EndOffset())
}

// AssignEpoch notes that a leader epoch begins at an offset, the log end. It is kept in memory until the next
// Checkpoint, Rest or Close: before the epoch's first batch nothing depends on it, and the batches carry it. An epoch
// that is not newer than the latest is ignored. [append lock]
func (l *Log) AssignEpoch(e kafka.LeaderEpoch, start kafka.Offset) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.epochs.assign(e, start)
}

// Epochs lists the leader epochs, oldest first.
func (l *Log) Epochs() []EpochStart {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.mu.epochs.list)
}

// ready makes sure that the log's folder has been looked at.
func (l *Log) ready() error {
	switch l.state.Load() {
	case stateReady:
		return nil
	case stateLazy:
		return l.wake()
	}
	return ErrClosed
}
