package partition

import (
	"slices"
	"sync/atomic"

	"github.com/tidemark/tidemark/core/kafka"
)

// Ready is told when a fetch has enough bytes, or must look again because a partition's leadership, log start or
// existence changed. It is called without locks, once for each arming of the Wait, on the goroutine that caused it.
type Ready interface{ FetchReady() }

// Wait is one waiting fetch over all its partitions.
type Wait struct {
	need  atomic.Int64
	fired atomic.Bool
	ready Ready
	chain *Wait
}

// Arm prepares the wait for need bytes more.
func (w *Wait) Arm(need int64, ready Ready) {
	w.need.Store(need)
	w.ready, w.chain = ready, nil
	w.fired.Store(false)
}

// Fire ends the wait: true for the one caller that has to build the answer.
func (w *Wait) Fire() bool { return !w.fired.Swap(true) }

// Waiter is a waiting fetch's place at one partition.
type Waiter struct {
	Wait      *Wait
	Committed bool // counts to the last stable offset

	p          *Partition
	prev, next *Waiter
}

// Seen is what a fetch knew of a partition when it read it.
type Seen struct{ position, version int64 }

// Look is what a fetch takes before it reads, for Watch to find out what came in between.
func (p *Partition) Look() Seen { return Seen{position: p.position.Load(), version: p.version.Load()} }

// Watch puts a fetch among those that wait, unless what came since seen already ends its wait; then it answers false
// and the caller has to build the answer, as if Fire had told it.
func (p *Partition) Watch(w *Waiter, seen Seen) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.version.Load() != seen.version || p.mu.closed {
		if w.Wait.Fire() {
			return false
		}
	} else if gained := p.position.Load() - seen.position; gained > 0 {
		if w.Wait.need.Add(-gained) <= 0 && w.Wait.Fire() {
			return false
		}
	}
	w.p, w.prev, w.next = p, nil, p.mu.waiters
	if w.next != nil {
		w.next.prev = w
	}
	p.mu.waiters = w
	return true
}

// Unwatch takes a fetch out again. A Waiter that is not in is left alone.
func (w *Waiter) Unwatch() {
	p := w.p
	if p == nil {
		return
	}
	p.mu.Lock()
	if w.prev != nil {
		w.prev.next = w.next
	} else {
		p.mu.waiters = w.next
	}
	if w.next != nil {
		w.next.prev = w.prev
	}
	p.mu.Unlock()
	w.p, w.prev, w.next = nil, nil, nil
}

// countLocked tells waiting fetches that bytes were gained below the high watermark. A last stable offset that stands
// still (an open transaction) gains nothing for read_committed; one that moves without being at the high watermark
// wakes them whatever they need, since bytes between stable offsets are not counted.
func (p *Partition) countLocked(done *completions, gained int64, stable, lsoMoved bool) {
	for w := p.mu.waiters; w != nil; w = w.next {
		n := gained
		if w.Committed {
			switch {
			case !lsoMoved:
				continue
			case !stable || gained == 0:
				n = w.Wait.need.Load()
			}
		}
		if n > 0 && w.Wait.need.Add(-n) <= 0 && w.Wait.Fire() {
			done.wake(w.Wait)
		}
	}
}

func (p *Partition) fireAllLocked(done *completions) {
	for w := p.mu.waiters; w != nil; w = w.next {
		if w.Wait.Fire() {
			done.wake(w.Wait)
		}
	}
}

// completions is what was collected under a lock, to be run after it.
type completions struct {
	appends, last *Append
	waits         *Wait
}

func (c *completions) add(a *Append) {
	a.next = nil
	if c.last == nil {
		c.appends = a
	} else {
		c.last.next = a
	}
	c.last = a
}

// before collects the appends of a list that end below an offset and gives what is left of it.
func (c *completions) before(list []*Append, end kafka.Offset) []*Append {
	n := 0
	for n < len(list) && list[n].last < end {
		c.add(list[n])
		n++
	}
	if n > 0 {
		list = slices.Delete(list, 0, n)
	}
	return list
}

func (c *completions) wake(w *Wait) {
	w.chain = c.waits
	c.waits = w
}

func (c *completions) run() {
	for a := c.appends; a != nil; {
		next := a.next
		a.next = nil
		a.Done.AppendDone(a)
		a = next
	}
	wakeAll(c.waits)
}

func wakeAll(w *Wait) {
	for w != nil {
		next := w.chain
		w.chain = nil
		w.ready.FetchReady()
		w = next
	}
}
