package partition

import (
	"errors"
	"math"

	"github.com/tidemark/tidemark/core/buf"
	"github.com/tidemark/tidemark/core/commitlog"
	"github.com/tidemark/tidemark/core/kafka"
	"github.com/tidemark/tidemark/core/record"
)

// Result is how an append ended. Base and the rest count only when Err is kafka.None.
type Result struct {
	Base          kafka.Offset
	LogStart      kafka.Offset
	LogAppendTime int64 // -1 unless the topic stamps its records
	Err           kafka.ErrorCode
	Text          string
}

// Completion is told when an append that had to wait is done. It is called without locks, from any goroutine.
type Completion interface{ AppendDone(a *Append) }

// Func makes a function a Completion.
type Func func(a *Append)

// AppendDone calls f.
func (f Func) AppendDone(a *Append) { f(a) }

// Append is one batch to append. It and its memory are the caller's again when it is done.
type Append struct {
	Batch record.Batch     // exactly one validated batch; offsets and epoch are patched in place
	Buf   *buf.Buf         // that holds Batch, for the tail ring to retain; nil: the ring copies
	Info  record.Validated // what Validate found; only Info.MaxTimestamp counts here
	Acks  int16            // 0 and 1: done when written; -1: when the high watermark has passed the batch
	Done  Completion       // not called when Append returns false
	// Result counts once Append has returned false, or Done was called.
	Result Result

	next    *Append
	alone   func() // Exclusive
	last    kafka.Offset
	staged  bool
	scratch []commitlog.AppendBatch
}

// maxCombined bounds the batches of one write.
const maxCombined = 64

// maxRounds bounds how often one holder serves the queue of others before it hands that over to a goroutine, so that
// its own connection is read on.
const maxRounds = 4

// Append writes one batch. It returns false when a.Result is there; true when a.Done will be told, which may happen
// before it returns. It waits for nothing but the write itself, and for that only if nobody else is writing.
func (p *Partition) Append(a *Append) (pending bool) {
	a.next = nil
	p.queue.Lock()
	switch stalled := p.stalled(); {
	case stalled && (p.queue.busy || !p.o.Probe()):
		p.queue.Unlock()
		p.turnAway(a)
		return false
	case stalled: // another goroutine than a connection's finds out whether the disk answers
		p.pushLocked(a)
		p.queue.busy = true
		p.queue.Unlock()
		go p.release()
		return true
	case p.queue.busy:
		p.pushLocked(a)
		p.queue.Unlock()
		return true
	case p.queue.head != nil: // left by Enqueue: they go first, and all go together
		p.pushLocked(a)
		p.queue.busy = true
		p.queue.Unlock()
		p.release()
		return true
	}
	p.queue.busy = true
	p.queue.Unlock()
	var done completions
	pending = p.write(a, a, &done)
	done.run()
	p.release()
	return pending
}

// Enqueue leaves one append for the next Append or Settle, whoever calls it, to be written together with others; a.Done
// will be told. The caller owes a Settle, and must wait for nothing before it.
func (p *Partition) Enqueue(a *Append) {
	a.next = nil
	p.queue.Lock()
	if p.queue.busy && p.stalled() {
		p.queue.Unlock()
		p.turnAway(a)
		a.Done.AppendDone(a)
		return
	}
	p.pushLocked(a)
	p.queue.Unlock()
}

// Settle writes what Enqueue has left, unless somebody is writing: then that one does.
func (p *Partition) Settle() {
	p.queue.Lock()
	if p.queue.busy || p.queue.head == nil {
		p.queue.Unlock()
		return
	}
	stalled := p.stalled()
	if stalled && !p.o.Probe() {
		var done completions
		p.emptyLocked(&done)
		p.queue.Unlock()
		done.run()
		return
	}
	p.queue.busy = true
	p.queue.Unlock()
	if stalled {
		go p.release()
		return
	}
	p.release()
}

// Exclusive runs fn with the append lock held: no append runs meanwhile. It blocks until fn has run.
func (p *Partition) Exclusive(fn func()) {
	p.queue.Lock()
	if p.queue.busy {
		ran := make(chan struct{})
		p.pushLocked(&Append{alone: func() { fn(); close(ran) }})
		p.queue.Unlock()
		<-ran
		return
	}
	p.queue.busy = true
	p.queue.Unlock()
	fn()
	p.release()
}

// after runs fn with the append lock held as Exclusive does, and waits for nothing: when somebody appends, that one runs it
// next. What is left in the queue meanwhile is written by another goroutine than the caller's.
func (p *Partition) after(fn func()) {
	p.queue.Lock()
	busy := p.queue.busy
	if busy || p.queue.head != nil {
		p.pushLocked(&Append{alone: fn})
		p.queue.busy = true
		p.queue.Unlock()
		if !busy {
			go p.release()
		}
		return
	}
	p.queue.busy = true
	p.queue.Unlock()
	fn()
	p.queue.Lock()
	left := p.queue.head != nil
	p.queue.busy = left
	p.queue.Unlock()
	if left {
		go p.release()
	}
}

func (p *Partition) pushLocked(a *Append) {
	if p.queue.tail == nil {
		p.queue.head = a
	} else {
		p.queue.tail.next = a
	}
	p.queue.tail = a
}

// release serves what has queued up meanwhile and gives the append lock up.
func (p *Partition) release() {
	for round := 0; ; round++ {
		p.queue.Lock()
		if p.queue.head == nil {
			p.queue.busy = false
			p.queue.Unlock()
			return
		}
		p.queue.Unlock()
		if round == maxRounds {
			go p.release()
			return
		}
		p.serve()
	}
}

// serve takes a run of queued appends, at most maxCombined, and completes them.
func (p *Partition) serve() {
	p.queue.Lock()
	first, last := p.queue.head, p.queue.head
	if first == nil { // Stalled has emptied the queue
		p.queue.Unlock()
		return
	}
	for n := 1; first.alone == nil && last.next != nil && last.next.alone == nil && n < maxCombined; n++ {
		last = last.next
	}
	p.queue.head = last.next
	if p.queue.head == nil {
		p.queue.tail = nil
	}
	last.next = nil
	p.queue.Unlock()
	if first.alone != nil {
		first.alone()
		return
	}
	var done completions
	p.write(first, nil, &done)
	done.run()
}

// write appends a chain by one write. mine is completed by its caller, all others through done; the answer says whether
// it has to wait, for the high watermark or the disk. After mu is released an append that waits may be done and used again by
// others, so that nothing touches it any more.
func (p *Partition) write(chain, mine *Append, done *completions) (pending bool) {
	before := p.o.Log.AppendEnd()
	batches, bytes := p.prepare(chain)
	var code kafka.ErrorCode
	if len(batches) > 0 {
		if err := p.o.Log.Append(batches); err != nil {
			p.o.Failed(err)
			code = kafka.KafkaStorageError
		}
	}
	chain.scratch = batches[:0]
	clear(batches)
	start := p.o.Log.StartOffset()

	p.mu.Lock()
	batch := p.cfg.Load().FsyncBatch // once: SetConfig looks after this for what waits for a flush that nobody has asked for
	if code == kafka.None && len(batches) > 0 {
		p.o.Log.Publish()
		p.mu.appended += bytes
		if len(p.mu.isr) > 1 || batch {
			p.mu.marks = append(p.mu.marks, mark{p.o.Log.EndOffset(), p.mu.appended})
		}
		p.advanceLocked(done, batch)
	}
	offline := p.offline.Load()
	if offline {
		// The folder has failed meanwhile, and Fail has answered those that waited then: nobody would answer these.
		code = kafka.KafkaStorageError
	}
	hw, own := kafka.Offset(p.hw.Load()), p.ownEndLocked(batch)
	for a := chain; a != nil; {
		next := a.next
		a.next = nil
		// A copy of a batch of this same write has that one's offsets, and they are nobody's now.
		if code != kafka.None && a.Result.Err == kafka.None && (a.staged || offline || a.last >= before) {
			a.fail(code, "")
		}
		a.Result.LogStart = start
		waits := a.Result.Err == kafka.None && (a.Acks == -1 && a.last >= hw || a.Acks == 1 && batch && a.last >= own)
		if waits && p.mu.closed { // Quit came during the write, and has answered those that waited then
			a.fail(p.notLeading(), "")
			waits = false
		}
		switch {
		case waits && a.Acks == -1:
			p.mu.pending = append(p.mu.pending, a)
			pending = pending || a == mine
		case waits:
			p.mu.unsafe = append(p.mu.unsafe, a)
			pending = pending || a == mine
		case a != mine:
			done.add(a)
		}
		a = next
	}
	p.mu.Unlock()
	switch {
	case len(batches) == 0 || code != kafka.None:
	case batch:
		p.o.FlushSoon()
	default:
		if code := p.flush(); code != kafka.None {
			// Those that wait for the high watermark have been answered; these are still ours.
			for a := done.appends; a != nil; a = a.next {
				a.unflushed(code)
			}
			if mine != nil && !pending {
				mine.unflushed(code)
			}
		}
	}
	return pending
}

// flush honours flush.messages. Like Kafka it runs before the producer is answered (acks=1), who is told when it fails: the
// records are in the page cache and may never reach the disk.
func (p *Partition) flush() kafka.ErrorCode {
	every := p.cfg.Load().FlushMessages
	if every <= 0 || every == math.MaxInt64 || int64(p.o.Log.EndOffset()-p.o.Log.FlushedOffset()) < every {
		return kafka.None
	}
	switch _, err := p.o.Log.Flush(); {
	case err == nil:
		return kafka.None
	case errors.Is(err, commitlog.ErrClosed): // says nothing about the disk
		return p.notLeading()
	default:
		p.o.Failed(err)
		p.Unflushed() // those who wait for the high watermark: it may pass without this flush
		return kafka.KafkaStorageError
	}
}

// unflushed makes an error of a success. A duplicate's too: its original may be what could not be flushed.
func (a *Append) unflushed(code kafka.ErrorCode) {
	if a.Result.Err == kafka.None {
		start := a.Result.LogStart
		a.fail(code, "")
		a.Result.LogStart = start
	}
}

// prepare checks sequences, gives offsets and patches the headers of a chain; what may not be written has its error
// when it returns.
func (p *Partition) prepare(chain *Append) (batches []commitlog.AppendBatch, bytes int64) {
	batches = chain.scratch[:0]
	epoch, cfg, next := p.role.Load(), p.cfg.Load(), p.o.Log.AppendEnd()
	for a := chain; a != nil; a = a.next {
		a.staged = false
		switch {
		case p.offline.Load():
			a.fail(kafka.KafkaStorageError, "")
			continue
		case epoch == notLeader:
			a.fail(p.notLeading(), "")
			continue
		case p.o.Full != nil && p.o.Full.Load():
			a.fail(kafka.KafkaStorageError, "the log folder is full")
			continue
		case a.Acks == -1 && p.InSync() < p.minInSync(cfg):
			a.fail(kafka.NotEnoughReplicas, "")
			continue
		}
		a.Result = Result{Base: next, LogAppendTime: -1}
		if cfg.LogAppendTime {
			a.Result.LogAppendTime = a.Info.MaxTimestamp
		}
		if a.Batch.ProducerID() != kafka.NoProducerID && !p.sequence(a) {
			continue
		}
		a.last = next + kafka.Offset(a.Batch.LastOffsetDelta())
		a.Batch.SetBaseOffset(next)
		a.Batch.SetLeaderEpoch(kafka.LeaderEpoch(epoch))
		if a.Batch.ProducerID() != kafka.NoProducerID {
			if err := p.producers.Stage(a.Batch); err != nil {
				a.fail(kafka.InvalidRecord, err.Error())
				continue
			}
		}
		a.staged = true
		batches = append(batches, commitlog.AppendBatch{Bytes: a.Batch, Buf: a.Buf, Base: next, Last: a.last,
			Epoch: kafka.LeaderEpoch(epoch), MaxTimestamp: a.Info.MaxTimestamp})
		bytes += int64(len(a.Batch))
		next = a.last + 1
	}
	return batches, bytes
}

// sequence checks an idempotent producer's batch; false when it must not be written: it is wrong, or a duplicate that
// is answered with its first offsets.
func (p *Partition) sequence(a *Append) bool {
	dup, again, code := p.producers.Check(a.Batch)
	switch {
	case code != kafka.None:
		a.fail(code, "")
		return false
	case again:
		a.Result.Base, a.last = dup.Base, dup.Last
		if a.Result.LogAppendTime >= 0 {
			a.Result.LogAppendTime = dup.Timestamp
		}
		return false
	}
	return true
}

func (a *Append) fail(code kafka.ErrorCode, text string) {
	a.Result = Result{Err: code, Text: text, Base: kafka.NoOffset, LogAppendTime: -1}
	a.last = kafka.NoOffset
}
