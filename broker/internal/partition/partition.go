// Package partition is one partition's role over its log: leader epoch, in-sync replicas, high watermark, last stable
// offset, and how many bytes each waiting fetch still needs. Which partitions exist is replica's, bytes on disk are
// commitlog's, time-outs are purgatory's.
//
// # Concurrency
//
// No goroutine, no socket. Two locks (BROKER 2), append before state:
//
//	append: a queue of waiters and the flag that somebody writes. Who finds the flag clear sets it and becomes the
//	        holder: it takes all that is queued, checks sequences, gives offsets, patches the headers and writes
//	        everything with one pwritev. Who finds it set leaves its Append in the queue and goes on: the holder
//	        completes it. Nobody blocks on this lock but Exclusive and Close; what metadata does to a partition does not.
//	state:  high watermark, last stable offset, ISR, waiters. Held for nanoseconds, never across a system call. Its
//	        offsets are published as atomics too, so that readers take no lock at all.
//
// Completions (produces whose high watermark has passed, fetches that have enough bytes) are collected under state and
// run after it.
package partition

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/tidemark/tidemark/core/commitlog"
	"github.com/tidemark/tidemark/core/kafka"
)

// Config is the part of a topic's settings that a partition acts on. All partitions of a topic share one; it is never
// changed, only replaced.
type Config struct {
	MaxMessageBytes   int
	LogAppendTime     bool
	BeforeMaxMS       int64
	AfterMaxMS        int64
	Compacted         bool
	Codec             int8 // compression.type as an attribute of batches; -1 is "producer"
	Level             int
	MinInsyncReplicas int
	FlushMessages     int64 // flush.messages: unflushed records that make the next append flush
	FlushMS           int64
	FsyncBatch        bool // tidemark.fsync=batch: what is not flushed is neither acknowledged nor shown
	MaxDecompressed   int  // max.decompressed.message.bytes, of one record; 0: no bound
	Log               *commitlog.Config
}

// Log is what a partition needs of its log. *commitlog.Log is one.
type Log interface {
	Append(b []commitlog.AppendBatch) error
	Publish()
	AppendEnd() kafka.Offset
	StartOffset() kafka.Offset
	EndOffset() kafka.Offset
	Want()
	Read(s *commitlog.Slice, from kafka.Offset, maxBytes int, limit kafka.Offset, minOne bool) error
	AssignEpoch(e kafka.LeaderEpoch, start kafka.Offset)
	EpochFor(off kafka.Offset) kafka.LeaderEpoch
	EndOffsetForEpoch(e kafka.LeaderEpoch) (kafka.LeaderEpoch, kafka.Offset)
	OffsetForTime(ts int64, limit kafka.Offset) (commitlog.FoundOffset, error)
	MaxTimestamp(limit kafka.Offset) (commitlog.FoundOffset, error)
	AbortedTxns(from, limit kafka.Offset) ([]commitlog.AbortedTxn, error)
	Producers() (*commitlog.Producers, error)
	SetConfig(c *commitlog.Config)
	DeleteBefore(off kafka.Offset) error
	Flush() (kafka.Offset, error)
	FlushedOffset() kafka.Offset
}

// Options is what a partition is made of.
type Options struct {
	Topic  string
	ID     kafka.TopicID
	Number kafka.Partition
	Self   kafka.BrokerID
	Folder int // number of the log folder
	Log    Log
	Config *Config
	// Failed is told of each error that the log answered: the log folder decides what becomes of it. It may be called
	// under the append lock.
	Failed func(err error)
	// FlushSoon asks for the log to be flushed by the log folder's next round, after which Flushed is called, or Unflushed. It does
	// not block. Config.FsyncBatch needs it.
	FlushSoon func()
	// Full is set while the log folder takes no records for want of room; nil: never.
	Full *atomic.Bool
	// Stalled says whether the log folder's disk answers nothing; nil: never. Whoever finds that out calls Partition.Stalled.
	Stalled func() bool
	// Probe says whether one append more may find out if a stalled disk answers again. Stalled needs it.
	Probe func() bool
}

// notLeader is the role of a partition that takes no appends.
const notLeader = -1

// Partition is one partition that this broker holds and whose log is open.
type Partition struct {
	o         Options
	producers *commitlog.Producers
	cfg       atomic.Pointer[Config]

	queue struct {
		sync.Mutex
		busy       bool
		head, tail *Append
	}
	mu struct {
		sync.Mutex
		isr      []kafka.BrokerID
		ends     map[kafka.BrokerID]kafka.Offset // of the other replicas, as their fetches told
		waiters  *Waiter
		pending  []*Append // acks=-1 behind the high watermark, by offset
		unsafe   []*Append // acks=1 behind the flushed end (FsyncBatch), by offset
		epochAt  kafka.Offset
		appended int64  // bytes ever appended
		marks    []mark // where appends ended that lie past the high watermark
		closed   bool
	}

	// Published by whoever holds mu.
	role     atomic.Int64 // leader epoch, or notLeader
	hw       atomic.Int64
	lso      atomic.Int64
	position atomic.Int64 // bytes ever appended up to the high watermark
	version  atomic.Int64 // counts changes of leadership, log start, existence
	offline  atomic.Bool  // the log folder has failed
	quit     atomic.Int32 // once closed: what requests are answered
	isrSize  atomic.Int32
	replicas atomic.Int32 // how many replicas the partition has, 0 unknown
}

// mark says how many bytes were ever appended when the log ended at end.
type mark struct {
	end kafka.Offset
	pos int64
}

// New makes a partition over an open log. It takes no appends until BecomeLeader.
func New(o Options) (*Partition, error) {
	p := &Partition{o: o}
	p.cfg.Store(o.Config)
	p.role.Store(notLeader)
	producers, err := o.Log.Producers()
	if err != nil {
		return nil, err
	}
	p.producers = producers
	return p, nil
}

// Topic is the topic's name.
func (p *Partition) Topic() string { return p.o.Topic }

// TopicID is the topic's id.
func (p *Partition) TopicID() kafka.TopicID { return p.o.ID }

// Number is the partition's number within its topic.
func (p *Partition) Number() kafka.Partition { return p.o.Number }

// Folder is the number of the log folder that the partition lies in.
func (p *Partition) Folder() int { return p.o.Folder }

// Config is the settings in force.
func (p *Partition) Config() *Config { return p.cfg.Load() }

// SetConfig swaps the settings, the log's too.
func (p *Partition) SetConfig(c *Config) {
	old := p.cfg.Swap(c)
	p.o.Log.SetConfig(c.Log)
	switch {
	case old.FsyncBatch && !c.FsyncBatch:
		p.Flushed() // nobody waits for the disk any more
	case c.FsyncBatch && !old.FsyncBatch:
		// An append that has not seen c yet holds mu; one that will take it sees c, and asks by itself.
		p.mu.Lock()
		behind := p.o.Log.FlushedOffset() < p.o.Log.EndOffset()
		p.mu.Unlock()
		if behind { // what waits for other replicas waits for the disk too, now
			p.o.FlushSoon()
		}
	}
}

// FlushMS is the topic's flush.ms.
func (p *Partition) FlushMS() int64 { return p.cfg.Load().FlushMS }

// HighWatermark is the end of what every in-sync replica has.
func (p *Partition) HighWatermark() kafka.Offset { return kafka.Offset(p.hw.Load()) }

// LastStableOffset is the end of what read_committed readers may see.
func (p *Partition) LastStableOffset() kafka.Offset { return kafka.Offset(p.lso.Load()) }

// LogStart is the first offset that may be read.
func (p *Partition) LogStart() kafka.Offset { return p.o.Log.StartOffset() }

// LogEnd is the log end offset.
func (p *Partition) LogEnd() kafka.Offset { return p.o.Log.EndOffset() }

// LeaderEpoch is the epoch under which this broker leads, kafka.NoLeaderEpoch when it does not.
func (p *Partition) LeaderEpoch() kafka.LeaderEpoch { return kafka.LeaderEpoch(p.role.Load()) }

// InSync counts the committed in-sync replicas.
func (p *Partition) InSync() int { return int(p.isrSize.Load()) }

// BecomeLeader makes this broker the leader with an epoch and an ISR, or takes a new ISR of the same epoch. A new epoch
// begins at the log end before the first append under it. Older epochs than the one in force are ignored.
//
// It waits for nothing: an append under way is ended first, and then its holder does this.
func (p *Partition) BecomeLeader(epoch kafka.LeaderEpoch, isr []kafka.BrokerID) {
	p.after(func() {
		if int64(epoch) < p.role.Load() {
			return
		}
		end := p.o.Log.AppendEnd()
		renewed := int64(epoch) != p.role.Load()
		if renewed {
			p.o.Log.AssignEpoch(epoch, end)
		}
		var done completions
		p.mu.Lock()
		if p.mu.closed {
			p.mu.Unlock()
			return
		}
		p.mu.isr = slices.Clone(isr)
		p.isrSize.Store(int32(len(isr)))
		if renewed {
			p.mu.epochAt = end
			clear(p.mu.ends)
			p.role.Store(int64(epoch))
			p.changedLocked(&done, kafka.NotLeaderForPartition)
		}
		p.advanceLocked(&done, p.cfg.Load().FsyncBatch)
		p.mu.Unlock()
		done.run()
		if p.cfg.Load().FsyncBatch && p.o.Log.FlushedOffset() < end {
			p.o.FlushSoon() // found at the start, after a kill
		}
	})
}

// Resign ends the leadership: waiting requests are answered with NOT_LEADER_OR_FOLLOWER. The partition may lead again. Like
// BecomeLeader it waits for nothing.
func (p *Partition) Resign() {
	p.after(func() {
		var done completions
		p.mu.Lock()
		p.role.Store(notLeader)
		p.changedLocked(&done, kafka.NotLeaderForPartition)
		p.mu.Unlock()
		done.run()
	})
}

// Quit ends the partition for good without waiting for an append under way, which may take as long as a disk hangs: waiting
// requests are answered with code, and nothing new is taken.
func (p *Partition) Quit(code kafka.ErrorCode) {
	var done completions
	p.mu.Lock()
	if !p.mu.closed {
		p.mu.closed = true
		p.quit.Store(int32(code))
	}
	p.role.Store(notLeader)
	p.changedLocked(&done, code)
	p.mu.Unlock()
	done.run()
}

// Close is Quit after the appends that have come before: none runs any more when it returns. The log stays its opener's to
// close.
func (p *Partition) Close(code kafka.ErrorCode) { p.Exclusive(func() { p.Quit(code) }) }

// Fail takes the partition offline: its log folder has failed. Waiting requests get KAFKA_STORAGE_ERROR.
func (p *Partition) Fail() {
	p.offline.Store(true)
	var done completions
	p.mu.Lock()
	p.changedLocked(&done, kafka.KafkaStorageError)
	p.mu.Unlock()
	done.run()
}

// notLeading is the error of a partition that this broker does not lead.
func (p *Partition) notLeading() kafka.ErrorCode {
	if code := kafka.ErrorCode(p.quit.Load()); code != kafka.None {
		return code
	}
	return kafka.NotLeaderForPartition
}

// LogStartMoved tells waiting fetches that the log start offset is another one.
func (p *Partition) LogStartMoved() {
	var done completions
	p.mu.Lock()
	p.version.Add(1)
	p.fireAllLocked(&done)
	p.mu.Unlock()
	done.run()
}

// Follower notes how far another replica has come, by the offset that its fetch asks for.
func (p *Partition) Follower(id kafka.BrokerID, end kafka.Offset) {
	var done completions
	p.mu.Lock()
	if p.mu.ends == nil {
		p.mu.ends = map[kafka.BrokerID]kafka.Offset{}
	}
	p.mu.ends[id] = end
	p.advanceLocked(&done, p.cfg.Load().FsyncBatch)
	p.mu.Unlock()
	done.run()
}

// changedLocked fails what waits for an acknowledgement and wakes all who wait for bytes.
func (p *Partition) changedLocked(done *completions, code kafka.ErrorCode) {
	p.version.Add(1)
	for _, a := range p.mu.pending {
		a.Result = Result{Err: code, Base: kafka.NoOffset, LogStart: kafka.NoOffset, LogAppendTime: -1}
		done.add(a)
	}
	for _, a := range p.mu.unsafe {
		a.Result = Result{Err: code, Base: kafka.NoOffset, LogStart: kafka.NoOffset, LogAppendTime: -1}
		done.add(a)
	}
	p.mu.pending, p.mu.unsafe = nil, nil
	p.fireAllLocked(done)
}

// Flushed says that the log's flushed end may have moved.
func (p *Partition) Flushed() {
	var done completions
	p.mu.Lock()
	if p.role.Load() != notLeader && !p.offline.Load() {
		p.advanceLocked(&done, p.cfg.Load().FsyncBatch)
	}
	p.mu.Unlock()
	done.run()
}

// Unflushed answers those who wait for records that are not flushed with KAFKA_STORAGE_ERROR: a flush has not come about. The records
// stay, as they do where a producer has given up waiting, and count once a later flush has made them durable.
func (p *Partition) Unflushed() {
	var done completions
	p.mu.Lock()
	end := p.o.Log.FlushedOffset()
	fail := func(a *Append) bool {
		if a.last < end {
			return false
		}
		a.unflushed(kafka.KafkaStorageError)
		done.add(a)
		return true
	}
	p.mu.pending = slices.DeleteFunc(p.mu.pending, fail)
	p.mu.unsafe = slices.DeleteFunc(p.mu.unsafe, fail)
	p.mu.Unlock()
	done.run()
}

// ownEndLocked is the end of what this replica has, as far as acknowledgements and readers go. batch is Config.FsyncBatch.
func (p *Partition) ownEndLocked(batch bool) kafka.Offset {
	end := p.o.Log.EndOffset()
	if batch {
		end = min(end, p.o.Log.FlushedOffset())
	}
	return end
}

// advanceLocked moves the high watermark to the lowest end over the ISR, and the last stable offset with it.
func (p *Partition) advanceLocked(done *completions, batch bool) {
	own := p.ownEndLocked(batch)
	hw := own
	for _, id := range p.mu.isr {
		if id != p.o.Self {
			hw = min(hw, p.mu.ends[id])
		}
	}
	if hw < kafka.Offset(p.hw.Load()) { // never back: a joiner is behind only until it is in the ISR
		hw = kafka.Offset(p.hw.Load())
	}
	oldLSO := kafka.Offset(p.lso.Load())
	p.hw.Store(int64(hw))
	p.producers.AdvanceHighWatermark(hw)
	lso := hw
	if first := p.producers.FirstUnstable(); first >= 0 && first < lso {
		lso = first
	}
	p.lso.Store(int64(lso))
	gained := p.positionLocked(hw)
	if gained > 0 || lso != oldLSO {
		p.countLocked(done, gained, lso == hw, lso != oldLSO)
	}
	p.mu.pending = done.before(p.mu.pending, hw)
	if len(p.mu.unsafe) > 0 {
		p.mu.unsafe = done.before(p.mu.unsafe, own)
	}
}

// positionLocked moves the count of bytes below the high watermark and says how many were gained.
func (p *Partition) positionLocked(hw kafka.Offset) int64 {
	old, pos := p.position.Load(), p.mu.appended
	if hw < p.o.Log.EndOffset() {
		pos = old
		n := 0
		for n < len(p.mu.marks) && p.mu.marks[n].end <= hw {
			pos = p.mu.marks[n].pos
			n++
		}
		p.mu.marks = slices.Delete(p.mu.marks, 0, n)
	} else {
		p.mu.marks = p.mu.marks[:0]
	}
	p.position.Store(pos)
	return pos - old
}
