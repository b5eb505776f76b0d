package partition

import "github.com/tidemark/tidemark/core/kafka"

// A disk that hangs holds up who is appending, and what queues behind that one would wait with it. Each such append holds a request's
// frame out of queued.max.request.bytes, whether or not its connection is still there, and its producer sends it again when it has
// given up waiting: before long no client of any other log folder could send anything, and a disk that comes back would be given all
// those copies. So once the folder is known to be stalled nothing queues behind an append, and what does is answered.

// stalledText is what producers are told.
const stalledText = "the disk of the log folder does not answer"

func (p *Partition) stalled() bool { return p.o.Stalled != nil && p.o.Stalled() }

// Stalled says that the folder's disk answers nothing by now: what waits to be appended is answered with KAFKA_STORAGE_ERROR and never
// appended. Only what is being written stays, since nobody knows what becomes of it. An append that comes in between sees it too, or is
// seen here: it looks with the queue's lock held. long says that the disk has answered nothing for longer than producers wait: those who
// wait for a flush are told too, as by one that has not come about.
func (p *Partition) Stalled(long bool) {
	var done completions
	p.queue.Lock()
	if p.queue.busy && p.stalled() { // else who has left something in the queue comes for it
		p.emptyLocked(&done)
	}
	p.queue.Unlock()
	done.run()
	if long && p.cfg.Load().FsyncBatch {
		p.Unflushed()
	}
}

// emptyLocked takes the appends out of the queue. What else waits for the append lock stays: it is metadata's.
func (p *Partition) emptyLocked(done *completions) {
	a := p.queue.head
	p.queue.head, p.queue.tail = nil, nil
	for a != nil {
		next := a.next
		a.next = nil
		if a.alone != nil {
			p.pushLocked(a)
		} else {
			p.turnAway(a)
			done.add(a)
		}
		a = next
	}
}

func (p *Partition) turnAway(a *Append) {
	a.fail(kafka.KafkaStorageError, stalledText)
	a.Result.LogStart = p.o.Log.StartOffset()
}
