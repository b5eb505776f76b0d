package commitlog

import (
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/tidemark/tidemark/core/kafka"
	"github.com/tidemark/tidemark/core/record"
)

// keptBatches is how many batches of a producer are remembered for finding duplicates: a client may have five
// requests in flight.
const keptBatches = 5

// Producers is what a log knows about its idempotent and transactional producers. Its methods need the partition's
// append lock, but for FirstUnstable and AdvanceHighWatermark. The rules are those of Kafka's ProducerAppendInfo and
// ProducerStateManager.
type Producers struct {
	nowMS  func() int64
	recall func(*producer) // looks in the log for what a snapshot does not hold; nil: there is none
	byID   map[kafka.ProducerID]*producer
	undo   []undoStage  // what was staged since the last Append, oldest first
	ended  []AbortedTxn // aborted by staged markers

	unstable atomic.Int64 // first unstable offset, -1: none

	txns struct {
		sync.Mutex
		open     []openTxn // by first offset
		unstable []doneTxn // ended by markers at or above the high watermark, by first offset
	}
}

type openTxn struct {
	id    kafka.ProducerID
	first kafka.Offset
}

type doneTxn struct{ first, last kafka.Offset }

// producer is the state of one producer id.
type producer struct {
	id               kafka.ProducerID
	epoch            kafka.ProducerEpoch
	n                int8 // of batches, newest last
	loaded           bool // from a snapshot, which holds the newest batch alone: there may be older ones in the log
	coordinatorEpoch int32
	txnFirst         kafka.Offset // -1: no open transaction
	timestamp        int64        // of its newest batch or marker
	seenMS           int64        // wall clock of the last append: what expiry goes by
	batches          [keptBatches]producerBatch
}

// producerBatch is one batch that a producer wrote.
type producerBatch struct {
	lastSeq, delta int32
	last           kafka.Offset
	timestamp      int64
}

func (b producerBatch) firstSeq() int32 { return record.AddSequence(b.lastSeq, -b.delta) }

// undoStage restores one producer as it was before a Stage.
type undoStage struct {
	was            producer
	fresh          bool // there was none
	started, ended bool // a transaction
}

// Dup is the earlier append of a batch that has come again.
type Dup struct {
	Base, Last kafka.Offset
	Timestamp  int64 // its highest timestamp
}

// ProducerState describes one producer: DescribeProducers and snapshots.
type ProducerState struct {
	ID               kafka.ProducerID
	Epoch            kafka.ProducerEpoch
	LastSequence     int32 // -1: no batch, only markers
	LastOffset       kafka.Offset
	OffsetDelta      int32
	Timestamp        int64
	CoordinatorEpoch int32
	TxnFirstOffset   kafka.Offset // -1: no open transaction
}

func newProducers(nowMS func() int64) *Producers {
	p := &Producers{nowMS: nowMS, byID: map[kafka.ProducerID]*producer{}}
	p.unstable.Store(-1)
	return p
}

func (p *Producers) count() int { return len(p.byID) }

// Check decides on a batch that a client sent; batches staged before it count. A duplicate of one of the producer's
// last five batches answers (its first append, true, None). Errors: InvalidProducerEpoch, OutOfOrderSequenceNumber,
// InvalidTxnState. A producer that is not known, because it is new, has expired, or its records are gone, may begin at
// any sequence number, as in Kafka. A batch without producer id passes, and one without sequence number (the group
// coordinator's, inside a transaction) is held to the epoch alone.
func (p *Producers) Check(b record.Batch) (Dup, bool, kafka.ErrorCode) {
	e := p.byID[b.ProducerID()]
	if e == nil {
		return Dup{}, false, kafka.None
	}
	if b.ProducerEpoch() < e.epoch {
		return Dup{}, false, kafka.InvalidProducerEpoch
	}
	if seq := b.BaseSequence(); seq != record.NoSequence {
		if d, ok := e.duplicate(b); ok {
			return d, true, kafka.None
		}
		if !e.follows(b.ProducerEpoch(), seq) {
			if e.loaded && e.n > 0 && e.n < keptBatches && b.ProducerEpoch() == e.epoch && p.recall != nil {
				e.loaded = false
				p.recall(e)
				if d, ok := e.duplicate(b); ok {
					return d, true, kafka.None
				}
			}
			return Dup{}, false, kafka.OutOfOrderSequenceNumber
		}
	}
	if e.txnFirst >= 0 && !b.IsTransactional() {
		return Dup{}, false, kafka.InvalidTxnState
	}
	return Dup{}, false, kafka.None
}

// duplicate finds the earlier append of a batch.
func (e *producer) duplicate(b record.Batch) (Dup, bool) {
	if b.ProducerEpoch() != e.epoch {
		return Dup{}, false
	}
	for _, old := range e.batches[:e.n] {
		if old.firstSeq() == b.BaseSequence() && old.lastSeq == b.LastSequence() {
			return Dup{old.last - kafka.Offset(old.delta), old.last, old.timestamp}, true
		}
	}
	return Dup{}, false
}

// follows reports whether seq is what the producer must send next.
func (e *producer) follows(epoch kafka.ProducerEpoch, seq int32) bool {
	if epoch != e.epoch {
		return seq == 0 || e.epoch == kafka.NoEpoch
	}
	if e.n == 0 {
		return seq == 0
	}
	last := e.batches[e.n-1].lastSeq
	return seq == last+1 && last != math.MaxInt32 || seq == 0 && last == math.MaxInt32
}

// CheckMarker decides on the end of a transaction: InvalidProducerEpoch, TransactionCoordinatorFenced. At
// transaction.version 2 (KIP-890) a marker carries a newer epoch than the records; one with the same epoch is fine
// only when it comes again for a transaction that has ended.
func (p *Producers) CheckMarker(id kafka.ProducerID, epoch kafka.ProducerEpoch, coordinatorEpoch int32, transactionVersion int16) kafka.ErrorCode {
	e := p.byID[id]
	switch {
	case e == nil:
	case epoch < e.epoch, transactionVersion >= 2 && epoch == e.epoch && e.txnFirst >= 0:
		return kafka.InvalidProducerEpoch
	case coordinatorEpoch < e.coordinatorEpoch:
		return kafka.TransactionCoordinatorFenced
	}
	return kafka.None
}

// Stage notes a batch or marker that the next Append will write; its offsets must be patched in. Append keeps what
// is staged, or undoes it when the write fails. A batch without producer id changes nothing. The only error is a
// marker that cannot be read.
func (p *Producers) Stage(b record.Batch) error {
	id := b.ProducerID()
	if id < 0 {
		return nil
	}
	if !b.IsControl() {
		u := p.begin(id)
		p.stageData(b, p.byID[id], u)
		return nil
	}
	if b.NumRecords() == 0 {
		return nil // compaction has emptied it: the whole transaction is gone
	}
	c, ok, err := record.ParseControl(b)
	if err != nil || !ok {
		return err
	}
	u := p.begin(id)
	p.stageMarker(b, c, p.byID[id], u)
	return nil
}

// begin finds or makes the producer and notes how to undo what follows. The result is valid until the next begin.
func (p *Producers) begin(id kafka.ProducerID) *undoStage {
	e := p.byID[id]
	fresh := e == nil
	if fresh {
		e = &producer{id: id, epoch: kafka.NoEpoch, coordinatorEpoch: -1, txnFirst: -1}
		p.byID[id] = e
	}
	p.undo = append(p.undo, undoStage{was: *e, fresh: fresh})
	e.seenMS = p.nowMS()
	return &p.undo[len(p.undo)-1]
}

func (p *Producers) stageData(b record.Batch, e *producer, u *undoStage) {
	if e.epoch != b.ProducerEpoch() {
		e.epoch, e.n, e.loaded = b.ProducerEpoch(), 0, false
	}
	if e.n == keptBatches {
		copy(e.batches[:], e.batches[1:])
		e.n--
	}
	e.timestamp = b.MaxTimestamp()
	lastSeq := b.LastSequence()
	if b.BaseSequence() == record.NoSequence {
		lastSeq = record.NoSequence
	}
	e.batches[e.n] = producerBatch{lastSeq, b.LastOffsetDelta(), b.LastOffset(), e.timestamp}
	e.n++
	if b.IsTransactional() && e.txnFirst < 0 {
		e.txnFirst = b.BaseOffset()
		u.started = true
		p.txns.Lock()
		p.txns.open = append(p.txns.open, openTxn{e.id, e.txnFirst})
		p.txns.Unlock()
		p.settleUnstable()
	}
}

func (p *Producers) stageMarker(b record.Batch, c record.Control, e *producer, u *undoStage) {
	if e.epoch != b.ProducerEpoch() {
		e.epoch, e.n, e.loaded = b.ProducerEpoch(), 0, false
	}
	e.coordinatorEpoch, e.timestamp = c.CoordinatorEpoch, b.MaxTimestamp()
	first, last := e.txnFirst, b.BaseOffset()
	e.txnFirst = -1
	if first < 0 {
		return // a transaction without records here
	}
	u.ended = true
	p.txns.Lock()
	p.txns.open = slices.DeleteFunc(p.txns.open, func(t openTxn) bool { return t.id == e.id })
	lso := last + 1
	if len(p.txns.open) > 0 {
		lso = p.txns.open[0].first
	}
	i, _ := slices.BinarySearchFunc(p.txns.unstable, first, func(t doneTxn, o kafka.Offset) int { return int(t.first - o) })
	p.txns.unstable = slices.Insert(p.txns.unstable, i, doneTxn{first, last})
	p.txns.Unlock()
	p.settleUnstable()
	if c.Kind == record.Abort {
		p.ended = append(p.ended, AbortedTxn{e.id, first, last, lso})
	}
}

// keep makes what was staged final and returns the transactions that it aborted, valid until the next Stage.
func (p *Producers) keep() []AbortedTxn {
	p.undo = p.undo[:0]
	ended := p.ended
	p.ended = p.ended[:0]
	return ended
}

// Unstage undoes everything staged since the last Append, for a caller that gives up before it.
func (p *Producers) Unstage() {
	for i := len(p.undo) - 1; i >= 0; i-- {
		u := &p.undo[i]
		e := p.byID[u.was.id]
		if u.started {
			p.txns.Lock()
			p.txns.open = slices.DeleteFunc(p.txns.open, func(t openTxn) bool { return t.id == e.id })
			p.txns.Unlock()
		}
		if u.ended {
			p.txns.Lock()
			first := u.was.txnFirst
			p.txns.unstable = slices.DeleteFunc(p.txns.unstable, func(t doneTxn) bool { return t.first == first })
			p.insertOpenLocked(openTxn{e.id, first})
			p.txns.Unlock()
		}
		if u.fresh {
			delete(p.byID, e.id)
		} else {
			*e = u.was
		}
	}
	if len(p.undo) > 0 {
		p.settleUnstable()
	}
	p.undo, p.ended = p.undo[:0], p.ended[:0]
}

func (p *Producers) insertOpenLocked(t openTxn) {
	i, _ := slices.BinarySearchFunc(p.txns.open, t.first, func(t openTxn, o kafka.Offset) int { return int(t.first - o) })
	p.txns.open = slices.Insert(p.txns.open, i, t)
}

// settleUnstable works out the first unstable offset.
func (p *Producers) settleUnstable() {
	p.txns.Lock()
	defer p.txns.Unlock()
	first := int64(-1)
	if len(p.txns.open) > 0 {
		first = int64(p.txns.open[0].first)
	}
	if len(p.txns.unstable) > 0 && (first < 0 || int64(p.txns.unstable[0].first) < first) {
		first = int64(p.txns.unstable[0].first)
	}
	p.unstable.Store(first)
}

// FirstUnstable is the first offset of the oldest transaction that is open, or was ended by a marker at or above the
// high watermark; -1 when there is none. The last stable offset is this or the high watermark, whichever is lower.
// Safe from any goroutine.
func (p *Producers) FirstUnstable() kafka.Offset { return kafka.Offset(p.unstable.Load()) }

// AdvanceHighWatermark lets go of ended transactions whose markers lie below the high watermark. Safe from any
// goroutine; one atomic load when no transaction is known.
func (p *Producers) AdvanceHighWatermark(hw kafka.Offset) {
	if p.unstable.Load() < 0 {
		return
	}
	p.txns.Lock()
	n := len(p.txns.unstable)
	p.txns.unstable = slices.DeleteFunc(p.txns.unstable, func(t doneTxn) bool { return t.last < hw })
	changed := n != len(p.txns.unstable)
	p.txns.Unlock()
	if changed {
		p.settleUnstable()
	}
}

// Expire forgets producers that appended nothing for producer.id.expiration.ms by this broker's clock, and says how
// many. The records' own timestamps do not count: a producer that replays old data is alive. One with an open
// transaction stays.
func (p *Producers) Expire(nowMS, expirationMS int64) int {
	n := 0
	for id, e := range p.byID {
		if e.txnFirst < 0 && nowMS-e.seenMS >= expirationMS {
			delete(p.byID, id)
			n++
		}
	}
	return n
}

// Active lists the producers by id.
func (p *Producers) Active() []ProducerState {
	list := make([]ProducerState, 0, len(p.byID))
	for _, e := range p.byID {
		list = append(list, e.describe())
	}
	slices.SortFunc(list, func(a, b ProducerState) int { return int(a.ID - b.ID) })
	return list
}

func (e *producer) describe() ProducerState {
	s := ProducerState{ID: e.id, Epoch: e.epoch, LastSequence: record.NoSequence, LastOffset: kafka.NoOffset, Timestamp: e.timestamp, CoordinatorEpoch: e.coordinatorEpoch, TxnFirstOffset: e.txnFirst}
	if e.n > 0 {
		b := e.batches[e.n-1]
		s.LastSequence, s.LastOffset, s.OffsetDelta = b.lastSeq, b.last, b.delta
	}
	return s
}

// reset forgets everything.
func (p *Producers) reset() {
	clear(p.byID)
	p.undo, p.ended = p.undo[:0], p.ended[:0]
	p.txns.Lock()
	p.txns.open, p.txns.unstable = nil, nil
	p.txns.Unlock()
	p.settleUnstable()
}

// load takes over the entries of a snapshot. They count as seen now: a restart postpones expiry, it never forgets a
// producer that is alive.
func (p *Producers) load(list []ProducerState) {
	now := p.nowMS()
	p.txns.Lock()
	for _, s := range list {
		e := &producer{id: s.ID, epoch: s.Epoch, coordinatorEpoch: s.CoordinatorEpoch, txnFirst: s.TxnFirstOffset, timestamp: s.Timestamp, seenMS: now}
		if s.LastOffset >= 0 {
			e.batches[0] = producerBatch{s.LastSequence, s.OffsetDelta, s.LastOffset, s.Timestamp}
			e.n, e.loaded = 1, true
		}
		p.byID[s.ID] = e
		if s.TxnFirstOffset >= 0 {
			p.insertOpenLocked(openTxn{s.ID, s.TxnFirstOffset})
		}
	}
	p.txns.Unlock()
	p.settleUnstable()
}

// replay takes over a batch that is in the log already.
func (p *Producers) replay(b record.Batch) ([]AbortedTxn, error) {
	if err := p.Stage(b); err != nil {
		return nil, fmt.Errorf("transaction marker at offset %d: %w", b.BaseOffset(), err)
	}
	return p.keep(), nil
}
