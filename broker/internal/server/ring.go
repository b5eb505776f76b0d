package server

import (
	"github.com/tidemark/tidemark/broker/internal/api"
	"github.com/tidemark/tidemark/core/clock"
)

// lockForNext takes the ring's lock when the connection may take another request, and waits while it has too many open, too
// much unsent, or one behind which nothing is taken. False when it has closed, or would have to wait and is to read no more; the lock is
// held all the same.
//
// Nobody waits for ever: what is finished is sent, or its connection cut, by others, and what is not is over when its time is.
func (c *conn) lockForNext(fd int) bool {
	for waited := false; ; waited = true {
		c.out.Lock()
		if c.out.closed {
			return false
		}
		if c.out.n < maxInFlight && c.out.alone == 0 && c.unsent.Load() <= maxUnsent {
			return true
		}
		if c.last.Load() {
			return false
		}
		c.out.Unlock()
		if !waited {
			c.breakOff(fd) // a row of requests longer than the ring would wait for itself
			continue
		}
		<-c.room
	}
}

// push puts a call at the end of the ring.
func (c *conn) push(fd int, call *api.Call) bool {
	if !c.lockForNext(fd) {
		c.out.Unlock()
		c.release(call)
		return false
	}
	if call.Slot.Alone {
		c.out.alone++
	}
	if c.out.tail == nil {
		c.out.head = call
	} else {
		c.out.tail.Slot.Next = call
	}
	c.out.tail = call
	c.out.n++
	if c.out.serving == nil {
		c.out.serving = call
	}
	c.out.Unlock()
	return true
}

// Completed marks a call's slot. What stands ready at the head of the ring is sent by whoever finds no writer, here and
// now as far as the socket takes it. The calls that the connection's own goroutine is serving are sent by that one's flush.
func (c *conn) Completed(call *api.Call) {
	n := inMemory(&call.Answer)
	c.out.Lock()
	call.Slot.Done = true
	if n >= countedAnswer {
		call.Slot.Unsent = n
		c.unsent.Add(n)
	}
	if call.Slot.Alone {
		c.out.alone--
		defer c.signal()
	}
	if c.out.closed {
		c.out.Unlock()
		c.signal()
		return
	}
	if c.out.serving == c.out.head || c.out.writing || !c.out.head.Slot.Done {
		if !c.out.head.Slot.Done && holdsFiles(&call.Answer) && c.held.Load() == 0 {
			c.held.Store(clock.Nanos())
		}
		c.out.Unlock()
		return
	}
	c.out.writing = true
	c.out.Unlock()
	c.write()
}

// inMemory is what an answer takes until it is sent. Pieces with an owner are counted where they come from.
func inMemory(a *api.Answer) int64 {
	n := cap(a.Head)
	if a.Owner == nil {
		for i := range a.Pieces {
			n += len(a.Pieces[i].B)
		}
	}
	return int64(n)
}

// Abort completes a call without an answer and closes the connection.
func (c *conn) Abort(call *api.Call, reason string) {
	c.close(reason)
	c.Completed(call)
}

// write sends from any goroutine but the connection's own; the caller has set writing.
func (c *conn) write() {
	drained := false
	err := c.raw.Write(func(fd uintptr) bool {
		drained = c.pump(int(fd))
		return true
	})
	switch {
	case err != nil:
		c.abandon()
	case !drained:
		go c.writer()
	}
}

// flush sends what is ready from the connection's own goroutine, which has the descriptor.
func (c *conn) flush(fd int) {
	c.out.Lock()
	c.out.serving = nil
	if c.out.closed || c.out.writing || c.out.head == nil || !c.out.head.Slot.Done {
		c.out.Unlock()
		return
	}
	c.out.writing = true
	c.out.Unlock()
	if !c.pump(fd) {
		go c.writer()
	}
}

// handOver is the sweeper's: it sends what stands ready while the connection's goroutine, which would do that with its next flush, is
// held up in a handler, by a disk that hangs perhaps.
func (c *conn) handOver(now int64) {
	if now-c.active.Load() < int64(sweepEvery) {
		return
	}
	c.out.Lock()
	start := c.out.serving != nil && c.out.head != nil && c.out.head.Slot.Done && !c.out.writing && !c.out.closed
	c.out.serving = nil
	c.out.writing = c.out.writing || start
	c.out.Unlock()
	if start {
		go c.write()
	}
}

// writer lives while the socket does not take what is ready.
func (c *conn) writer() {
	if err := c.raw.Write(c.pumpFn); err != nil {
		c.abandon()
	}
}

// pump sends ready calls until there is none (true: writing is given up) or the socket is full (false).
func (c *conn) pump(fd int) (drained bool) {
	for {
		if !c.send.empty() {
			switch c.send.run(c, fd) {
			case sendBlocked:
				return false
			case sendFailed:
				c.close("")
				c.abandon()
				return true
			}
		}
		c.out.Lock()
		if c.out.closed || c.out.head == nil || !c.out.head.Slot.Done {
			c.out.writing = false
			waited := c.out.closed || c.out.draining
			c.out.Unlock()
			if waited {
				c.signal()
			}
			return true
		}
		first, last, n := c.out.head, c.out.head, 1
		for last.Slot.Next != nil && last.Slot.Next.Slot.Done && n < maxGather {
			last, n = last.Slot.Next, n+1
		}
		if c.out.serving != nil {
			c.passServingLocked(first, last)
		}
		c.out.head = last.Slot.Next
		if c.out.head == nil {
			c.out.tail = nil
		}
		c.out.n -= n
		full := c.out.n+n >= maxInFlight
		if c.held.Load() != 0 {
			c.heldLocked()
		}
		c.out.Unlock()
		last.Slot.Next = nil
		c.send.load(first)
		c.s.met.leaving(c)
		if full {
			c.signal()
		}
	}
}

// passServingLocked moves the mark where the connection's own goroutine sends on, when the call that it stands at is among
// those that leave the ring.
func (c *conn) passServingLocked(first, last *api.Call) {
	for call := first; ; call = call.Slot.Next {
		if call == c.out.serving {
			c.out.serving = last.Slot.Next
			return
		}
		if call == last {
			return
		}
	}
}

// holdsFiles says whether an answer holds a lease on a file. Others keep nobody's file open, however long they wait.
func holdsFiles(a *api.Answer) bool {
	for i := range a.Pieces {
		if a.Pieces[i].Lease != nil {
			return true
		}
	}
	return false
}

// heldLocked looks, after calls have left the ring, whether an answer with files still waits behind an unfinished call. Its
// time counts from now: it is behind another one.
func (c *conn) heldLocked() {
	since := int64(0)
	for call := c.out.head; call != nil && since == 0; call = call.Slot.Next {
		if call.Slot.Done && holdsFiles(&call.Answer) {
			since = clock.Nanos()
		}
	}
	c.held.Store(since)
}

// Share takes n bytes more of queued.max.request.bytes for what a call's answer keeps in memory; false when there are
// none. They go back with the call, or by a negative n.
func (c *conn) Share(call *api.Call, n int64) bool {
	if n < 0 {
		c.s.budget.give(-n)
	} else if !c.s.budget.try(n) {
		return false
	}
	call.Slot.Share += n
	return true
}

// Park takes what a call has not of the n bytes that its fetch holds while it waits.
func (c *conn) Park(call *api.Call, n int64) bool {
	more := max(n-call.Slot.Share, 0)
	if !c.s.budget.tryPark(n, more) {
		return false
	}
	call.Slot.Share += more
	call.Slot.Parked = n
	return true
}

// abandon gives writing up after an error; what was being sent is released.
func (c *conn) abandon() {
	c.close("")
	c.stuck.Store(0)
	for call := c.send.take(c); call != nil; {
		next := call.Slot.Next
		c.release(call)
		call = next
	}
	c.out.Lock()
	c.out.writing = false
	c.out.Unlock()
	c.signal()
}

// release ends a call: its memory, leases and share go back. Nobody else knows the call any more.
func (c *conn) release(call *api.Call) {
	a := &call.Answer
	if a.Buf != nil {
		a.Buf.Release()
	}
	if a.Owner != nil {
		a.Owner.Sent()
	}
	if call.Frame != nil {
		call.Frame.Release()
	}
	c.s.budget.give(call.Slot.Share)
	if call.Slot.Parked > 0 {
		c.s.budget.park.Add(call.Slot.Parked)
	}
	c.s.met.served(call.Key)
	unsent := call.Slot.Unsent
	call.Reset()
	c.s.calls.Put(call)
	if unsent > 0 {
		if left := c.unsent.Add(-unsent); left <= maxUnsent && left+unsent > maxUnsent {
			c.signal()
		}
	}
}

// drain waits, after the connection has closed, until every call is done, and releases them.
func (c *conn) drain() {
	c.out.Lock()
	c.out.serving = nil
	// Under the lock no call that is not done leaves the ring, so none is cancelled in its next life.
	for call := c.out.head; call != nil; {
		next := call.Slot.Next
		if !call.Slot.Done {
			call.Cancel()
		}
		call = next
	}
	for {
		call := c.out.head
		switch {
		case call != nil && call.Slot.Done:
			c.out.head = call.Slot.Next
			c.out.n--
			c.out.Unlock()
			c.release(call)
		case call == nil && !c.out.writing:
			c.out.tail = nil
			c.out.Unlock()
			c.send.take(c) // the pipe
			return
		default:
			c.out.Unlock()
			<-c.room
		}
		c.out.Lock()
	}
}
