package server

import "github.com/tidemark/tidemark/broker/internal/api"

// push puts a call at the end of the ring, waiting while the connection has too many open.
func (c *conn) push(call *api.Call) bool {
	for {
		c.out.Lock()
		if c.out.closed || c.out.n < maxInFlight {
			break
		}
		c.out.Unlock()
		<-c.room
	}
	if c.out.closed {
		c.out.Unlock()
		c.release(call)
		return false
	}
	if c.out.tail == nil {
		c.out.head = call
	} else {
		c.out.tail.Slot.Next = call
	}
	c.out.tail = call
	c.out.n++
	c.out.serving = call
	c.out.Unlock()
	return true
}

// Completed marks a call's slot. What stands ready at the head of the ring is sent by whoever finds no writer, here and
// now as far as the socket takes it. The call that the connection's own goroutine is serving is sent by that one's flush.
func (c *conn) Completed(call *api.Call) {
	c.out.Lock()
	call.Slot.Done = true
	if c.out.closed {
		c.out.Unlock()
		c.signal()
		return
	}
	if c.out.serving == call || c.out.writing || !c.out.head.Slot.Done {
		c.out.Unlock()
		return
	}
	c.out.writing = true
	c.out.Unlock()
	c.write()
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
			closed := c.out.closed
			c.out.Unlock()
			if closed {
				c.signal()
			}
			return true
		}
		first, last, n := c.out.head, c.out.head, 1
		for last.Slot.Next != nil && last.Slot.Next.Slot.Done && n < maxGather {
			last, n = last.Slot.Next, n+1
		}
		c.out.head = last.Slot.Next
		if c.out.head == nil {
			c.out.tail = nil
		}
		c.out.n -= n
		full := c.out.n+n >= maxInFlight
		c.out.Unlock()
		last.Slot.Next = nil
		c.send.load(first)
		if full {
			c.signal()
		}
	}
}

// abandon gives writing up after an error; what was being sent is released.
func (c *conn) abandon() {
	c.close("")
	c.stuck.Store(0)
	for call := c.send.take(); call != nil; {
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
	call.Frame.Release()
	c.s.budget.give(call.Slot.Share)
	call.Reset()
	c.s.calls.Put(call)
}

// drain waits, after the connection has closed, until every call is done, and releases them.
func (c *conn) drain() {
	c.out.Lock()
	c.out.serving = nil
	// Calls of a closed connection leave the ring only here, so that none is used again while it is cancelled.
	for call := c.out.head; call != nil; {
		next := call.Slot.Next
		if !call.Slot.Done {
			c.out.Unlock()
			call.Cancel()
			c.out.Lock()
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
			c.send.take() // the pipe
			return
		default:
			c.out.Unlock()
			<-c.room
		}
		c.out.Lock()
	}
}
