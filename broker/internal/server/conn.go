package server

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tidemark/tidemark/broker/internal/api"
	"github.com/tidemark/tidemark/core/buf"
	"github.com/tidemark/tidemark/core/clock"
)

// Sizes by which a connection reads.
const (
	smallRead  = 16 << 10 // what one read takes while frames are small
	middleRead = 64 << 10 // while they are larger than smallFrame
	smallFrame = 4 << 10
	bigFrame   = middleRead - 4 // from here on a frame is read into a buffer of its own
	firstShare = 2 << 20        // what a big frame gets before its bytes arrive; then four times as much, and so on
	tightShare = middleRead     // what it gets first while memory is short; no less, for keep copies a read's rest into it
	// frontBytes is what is read of a frame to know its size and API key; no request is shorter.
	frontBytes = 12
	// maxInFlight bounds the requests of one connection that are not answered yet.
	maxInFlight = 128
	// maxUnsent bounds the memory of a connection's answers that are finished and not sent, but for one answer that is larger:
	// while they are more it takes no further request. Pieces of files cost none.
	maxUnsent = 1 << 20
	// countedAnswer is from which size on an answer counts: of smaller ones maxInFlight are less than maxUnsent.
	countedAnswer = 4 << 10
	// lingerNanos bounds how long an answer waits for those of later requests that came with the same read.
	lingerNanos = int64(100 * time.Microsecond)
	// quietNanos is how long a connection has brought nothing when its stream's end is looked for.
	quietNanos = int64(200 * time.Millisecond)
	// shareTimeout bounds how long a request waits for its share of queued.max.request.bytes: frames that each hold a
	// part must not wait for each other for ever.
	shareTimeout = 20 * time.Second
	// stallNanos is how long a frame that is not whole may bring less than stallBytes, or than a stallShare-th of the memory that it
	// holds, while others wait for that: who sends a byte now and then must not hold it for hours.
	stallNanos = int64(5 * time.Second)
	stallBytes = 64 << 10
	stallShare = 64
)

// conn is one connection. Its goroutine (run) is started by the server, reads until the socket or the server ends,
// and then waits until every request is done; it may block on the socket, a handler, the budget and the in-flight bound.
type conn struct {
	s      *Server
	nc     *net.TCPConn
	raw    syscall.RawConn
	client api.Client
	cancel context.CancelFunc

	// Reading; the connection's goroutine alone.
	front    [frontBytes]byte // of a frame whose buffer is not there yet
	have     int              // bytes in front, or in frame
	frame    *buf.Buf         // a frame being read, without its size; B has room for what it may take so far
	size     int              // of that frame
	share    int64            // it holds
	lastSize int              // of the frame before
	began    int64            // clock.Nanos when the socket last had something
	alone    bool             // nothing is taken behind the last request until that is done

	out struct {
		sync.Mutex
		head, tail *api.Call
		n          int
		alone      int       // unfinished calls that nothing is to be taken behind: 0 or 1
		serving    *api.Call // from here on it is the connection's goroutine that sends, by its next flush
		writing    bool      // somebody is in pump, or the writer goroutine lives
		draining   bool      // nothing is read any more; room is told when all is sent
		closed     bool
	}
	unsent atomic.Int64  // bytes in memory of finished answers
	room   chan struct{} // a call has left the ring, its answer has been sent or finished, or the connection has closed or is to read no more
	pumpFn func(fd uintptr) bool
	send   sender // of whoever set writing

	active atomic.Int64 // clock.Nanos of the last request
	stuck  atomic.Int64 // since when the socket takes nothing; 0: it does
	held   atomic.Int64 // since when an answer that holds files waits behind an unfinished request; 0: none does
	gone   atomic.Bool  // close was called
	// partial is the memory that frame holds for bytes that the client has still to send; 0: it has none to send.
	partial atomic.Int64
	frames  atomic.Int64 // frames of a buffer of their own that were begun
	brought atomic.Int64 // bytes that came into such
	last    atomic.Bool  // stopReading was called
	busy    int64        // when the sweeper last saw something open or on its way
	looked  int64        // the value of active for which the sweeper has looked for the stream's end
	mark    stallMark
	once    sync.Once
}

func newConn(s *Server, nc *net.TCPConn, raw syscall.RawConn, listener, host string) *conn {
	c := &conn{s: s, nc: nc, raw: raw, room: make(chan struct{}, 1)}
	ctx, cancel := context.WithCancel(s.ctx)
	c.cancel = cancel
	c.client = api.Client{Listener: listener, ClientHost: host, Principal: "User:ANONYMOUS", Ctx: ctx}
	c.pumpFn = func(fd uintptr) bool { return c.pump(int(fd)) }
	c.active.Store(clock.Nanos())
	return c
}

// run is the connection's goroutine.
func (c *conn) run() {
	// Inside one Read for the connection's whole life: the poller's edge is never reset between a read that emptied the
	// socket and the wait that follows it.
	_ = c.raw.Read(func(fd uintptr) bool { return c.readable(int(fd)) })
	if c.last.Load() && !c.gone.Load() {
		c.finish()
	}
	c.close("")
	_ = c.nc.Close()
	c.dropFrame()
	c.drain()
	c.s.forget(c)
}

// close ends the connection: its goroutine wakes, its context ends. With a reason it leaves a log line. The socket itself
// is closed by run: net.Conn.Close waits until nobody is inside RawConn.Read or Write, and the caller may be. A deadline
// in the past wakes whoever waits there.
func (c *conn) close(reason string) {
	c.once.Do(func() {
		if reason != "" {
			c.s.complain.log("connection closed", "client", c.nc.RemoteAddr().String(), "listener", c.client.Listener, "reason", reason)
		}
		c.out.Lock()
		c.out.closed = true
		c.gone.Store(true)
		c.out.Unlock()
		c.cancel()
		_ = c.nc.SetDeadline(time.Unix(1, 0))
		c.signal()
	})
}

// stopReading lets the connection answer what it has taken and then end. A read deadline in the past wakes its goroutine where it waits
// for the socket, the signal where it waits to take a request; a wait for memory ends with Server.stopping.
func (c *conn) stopReading() {
	c.last.Store(true)
	_ = c.nc.SetReadDeadline(time.Unix(1, 0))
	c.signal()
}

// finish waits until all that was read is answered and sent, or the connection is closed. What the client has sent behind
// that is read and dropped for a moment: closing a socket with unread bytes makes the kernel send a reset, which can
// overtake the last answers.
func (c *conn) finish() {
	c.dropFrame()
	recent := clock.Nanos()-c.active.Load() < recentNanos
	c.out.Lock()
	c.out.serving = nil
	c.out.draining = true
	// Under the lock no call that is not done leaves the ring, so none is cancelled in its next life.
	for call := c.out.head; call != nil; call = call.Slot.Next {
		if !call.Slot.Done {
			call.Cancel()
		}
	}
	start := c.out.head != nil && c.out.head.Slot.Done && !c.out.writing && !c.out.closed
	c.out.writing = c.out.writing || start
	c.out.Unlock()
	if start {
		c.write()
	}
	for {
		c.out.Lock()
		done := c.out.closed || c.out.head == nil && !c.out.writing
		c.out.Unlock()
		if done {
			break
		}
		<-c.room
	}
	if c.gone.Load() || !recent || c.nc.CloseWrite() != nil {
		return
	}
	_ = c.nc.SetReadDeadline(time.Now().Add(partingTime))
	b := c.s.o.Pool.Get(smallRead)
	defer b.Release()
	for dropped := 0; dropped < maxDropped && !c.gone.Load(); {
		n, err := c.nc.Read(b.B)
		dropped += n
		if errors.Is(err, os.ErrDeadlineExceeded) {
			c.dropRest(b.B, maxDropped-dropped)
		}
		if err != nil {
			return
		}
	}
}

// dropRest drops what the socket holds now, most bytes at most: on a host that stood still the parting time was over before
// the first read.
func (c *conn) dropRest(b []byte, most int) {
	_ = c.raw.Control(func(fd uintptr) {
		for most > 0 {
			n, err := unix.Read(int(fd), b)
			if n <= 0 || err != nil {
				return
			}
			most -= n
		}
	})
}

// How a connection that has requests in flight ends at a stop.
const (
	recentNanos = int64(2 * time.Second) // a connection that was silent for longer has received its answers
	partingTime = 200 * time.Millisecond
	maxDropped  = 16 << 20
)

func (c *conn) signal() {
	select {
	case c.room <- struct{}{}:
	default:
	}
}

// quiet says whether no request is open and no answer on its way.
func (c *conn) quiet() bool {
	c.out.Lock()
	defer c.out.Unlock()
	return c.out.n == 0 && !c.out.writing
}

// idleFor is the sweeper's: how long nothing has come and nothing was on its way. A large answer to a slow client takes longer than
// anything may be idle, and only the sweeper's clock tells that it has left: the sender reads none.
func (c *conn) idleFor(now int64) int64 {
	active := c.active.Load()
	if now-active > int64(sweepEvery) && !c.quiet() {
		c.busy = now
	}
	return now - max(active, c.busy)
}

// stallMark is where the sweeper has seen a frame that holds memory which others wait for.
type stallMark struct{ since, frame, brought int64 }

// stalled is the sweeper's: whether a part of a frame is there and so little more of it comes that those who wait for its memory must
// not wait for it. The mark stands from when somebody waits, so that a client is slow on its own time.
func (c *conn) stalled(now int64, starved bool) bool {
	held, frame, brought := c.partial.Load(), c.frames.Load(), c.brought.Load()
	m := &c.mark
	if !starved || held == 0 {
		*m = stallMark{}
		return false
	}
	if m.since == 0 || m.frame != frame || brought-m.brought >= max(stallBytes, held/stallShare) {
		*m = stallMark{since: now, frame: frame, brought: brought}
	}
	return now-m.since > stallNanos || now-c.active.Load() > stallNanos
}

// lookForEnd is the sweeper's: it finds an end of stream, or a reset, that came together with the last bytes that were read, once
// for each time that the connection has become quiet.
func (c *conn) lookForEnd(now int64) {
	active := c.active.Load()
	if active == c.looked || now-active < quietNanos {
		return
	}
	c.looked = active
	end := false
	err := c.raw.Control(func(fd uintptr) {
		var b [1]byte
		n, _, err := unix.Recvfrom(int(fd), b[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
		end = n == 0 && err == nil || err != nil && err != unix.EAGAIN && err != unix.EINTR // a reset too
	})
	if end && err == nil {
		c.close("")
	}
}

// readable reads and serves what the socket has; true ends the connection, false waits for more.
func (c *conn) readable(fd int) (done bool) {
	c.began = clock.Nanos()
	c.active.Store(c.began)
	for !c.gone.Load() {
		if c.last.Load() {
			return true
		}
		more, ok := c.read(fd)
		if !ok {
			return true
		}
		if !more {
			return false
		}
	}
	return true
}

// read takes one read's worth. more says that the socket may have more, ok is false at its end.
func (c *conn) read(fd int) (more, ok bool) {
	switch {
	case c.frame != nil:
		return c.readFrame(fd)
	case c.lastSize > bigFrame || c.have > 0:
		return c.readFront(fd)
	}
	n := smallRead
	if c.lastSize > smallFrame {
		n = middleRead
	}
	b := c.s.o.Pool.Get(n)
	got, more, ok := c.readSocket(fd, b.B)
	if got <= 0 || !ok {
		b.Release()
		return more, ok
	}
	return more, c.serveRead(fd, b, b.B[:got])
}

// readSocket reads once. more is false when the socket is empty now, which a read that left room tells too.
func (c *conn) readSocket(fd int, b []byte) (n int, more, ok bool) {
	for {
		n, err := unix.Read(fd, b)
		switch {
		case err == unix.EINTR:
			continue
		case err == unix.EAGAIN:
			return 0, false, true
		case err != nil || n == 0:
			return 0, false, false
		}
		c.s.met.read.Add(int64(n))
		return n, n == len(b), true
	}
}

// serveRead serves the whole frames of one read, of whose buffer it owns the reference, and keeps the begin of one that is
// not whole.
func (c *conn) serveRead(fd int, b *buf.Buf, in []byte) bool {
	b, in, ok := c.serveFrames(fd, b, in)
	defer b.Release()
	if !ok {
		c.s.o.Handlers.Settle(&c.client)
		return false
	}
	return c.keep(fd, in)
}

// serveFrames serves whole frames and gives what is left, in b or in another buffer that replaces it. Requests that came
// together share one write to their partition's log, and their answers one to the socket, for as long as lingerNanos.
func (c *conn) serveFrames(fd int, b *buf.Buf, in []byte) (_ *buf.Buf, rest []byte, ok bool) {
	began := clock.Nanos()
	for len(in) >= 4 {
		if c.alone {
			if b, in, ok = c.waitAlone(fd, b, in); !ok {
				return b, nil, false
			}
		}
		size := int(int32(binary.BigEndian.Uint32(in)))
		if !c.sizeOK(size) {
			return b, nil, false
		}
		if len(in)-4 < size {
			break
		}
		c.lastSize = size
		if !c.keyOK(in[4:], size) {
			return b, nil, false
		}
		if c.s.budget.free.Load() < int64(size) {
			c.breakOff(fd)
		}
		share, ok := c.take(int64(size))
		if !ok {
			return b, nil, false
		}
		b.Retain()
		frame := in[4 : 4+size : 4+size]
		in = in[4+size:]
		more := whole(in)
		if more {
			more = clock.Nanos()-began <= lingerNanos
		}
		if !c.serve(fd, b, frame, share, more) {
			return b, nil, false
		}
		if !more {
			c.flush(fd)
			began = clock.Nanos()
		}
	}
	return b, in, true
}

// waitAlone waits until the request is done that nothing is taken behind. It may wait for a rebalance: what is behind it takes no
// share meanwhile, and when it is small, as it mostly is, no buffer of a read's size.
func (c *conn) waitAlone(fd int, b *buf.Buf, in []byte) (*buf.Buf, []byte, bool) {
	c.alone = false
	c.out.Lock()
	waits := c.out.alone > 0
	c.out.Unlock()
	if waits && len(in) <= smallFrame {
		small := c.s.o.Pool.Get(len(in))
		copy(small.B, in)
		b.Release()
		b, in = small, small.B
	}
	ok := c.lockForNext(fd)
	c.out.Unlock()
	return b, in, ok
}

// whole says whether b begins with a whole frame.
func whole(b []byte) bool {
	return len(b) >= 4 && uint64(len(b)-4) >= uint64(binary.BigEndian.Uint32(b))
}

// breakOff finishes and sends what requests of one read have left, because the connection may have to wait now: what it
// waits for may be held by them.
func (c *conn) breakOff(fd int) {
	c.s.o.Handlers.Settle(&c.client)
	c.flush(fd)
}

// keep begins a frame with the bytes that are there of it.
func (c *conn) keep(fd int, in []byte) bool {
	n := copy(c.front[:], in)
	c.have = n
	if n < frontBytes {
		return true
	}
	if !c.begin(fd) {
		return false
	}
	c.have += copy(c.frame.B[c.have:], in[n:])
	return true
}

// readFront reads the first bytes of a frame.
func (c *conn) readFront(fd int) (more, ok bool) {
	n, more, ok := c.readSocket(fd, c.front[c.have:])
	c.have += n
	if !ok || c.have < frontBytes {
		return more, ok
	}
	return true, c.begin(fd)
}

// begin makes the buffer of the frame that front begins, when its request may be taken: a frame that waited behind unsent
// answers with all its memory would let clients that do not read hold what others need.
func (c *conn) begin(fd int) bool {
	c.size = int(int32(binary.BigEndian.Uint32(c.front[:])))
	if !c.sizeOK(c.size) || !c.keyOK(c.front[4:], c.size) {
		return false
	}
	if !c.lockForNext(fd) {
		c.out.Unlock()
		return false
	}
	c.out.Unlock()
	first := firstShare
	if c.s.budget.low() {
		first = tightShare // what clients only announce must not take from those who send
	}
	share, ok := c.take(int64(min(c.size, first)))
	if !ok {
		return false
	}
	c.share = share
	c.frame = c.s.o.Pool.Get(min(c.size, first))
	c.active.Store(clock.Nanos()) // what has passed until now was the broker's wait, not the client's
	c.frames.Add(1)
	c.partial.Store(c.share)
	c.have = copy(c.frame.B, c.front[4:])
	return true
}

// readFrame reads more of a frame, and serves it when it is whole.
func (c *conn) readFrame(fd int) (more, ok bool) {
	if c.have == len(c.frame.B) && c.have < c.size && !c.grow() {
		return false, false
	}
	if c.have < len(c.frame.B) {
		n, more, ok := c.readSocket(fd, c.frame.B[c.have:])
		c.have += n
		c.brought.Add(int64(n))
		if !ok || c.have < c.size {
			return more, ok
		}
	}
	b, share := c.frame, c.share
	c.frame, c.share, c.have, c.lastSize = nil, 0, 0, c.size
	c.partial.Store(0)
	ok = c.serve(fd, b, b.B, share, false)
	c.flush(fd)
	// The read ended with the frame, so it says nothing about what is behind it.
	return true, ok
}

// grow gives a big frame a larger buffer, now that the smaller one is full: what a client only announces costs nothing.
func (c *conn) grow() bool {
	n := min(c.size, 4*len(c.frame.B))
	c.partial.Store(0) // it is not the client who waits now
	share, ok := c.take(int64(n - len(c.frame.B)))
	if !ok {
		return false
	}
	c.share += share
	c.active.Store(clock.Nanos())
	c.partial.Store(c.share)
	b := c.s.o.Pool.Get(n)
	copy(b.B, c.frame.B)
	c.frame.Release()
	c.frame = b
	return true
}

func (c *conn) dropFrame() {
	if c.frame != nil {
		c.frame.Release()
		c.s.budget.give(c.share)
		c.frame, c.share = nil, 0
	}
}

func (c *conn) take(n int64) (int64, bool) {
	ctx, cancel := c.client.Ctx, context.CancelFunc(nil)
	if c.s.budget.free.Load() < n { // rare: only then is a timer worth its price
		ctx, cancel = context.WithTimeout(ctx, shareTimeout)
		defer cancel()
	}
	share, ok := c.s.budget.take(ctx, n, c.s.stopping)
	if ok {
		return share, true
	}
	select {
	case <-c.s.stopping:
		c.last.Store(true) // Shutdown may not have come to this connection yet
	default:
		c.close(fmt.Sprintf("no room for a request of %d bytes within %s (queued.max.request.bytes)", n, shareTimeout))
	}
	return share, ok
}

func (c *conn) sizeOK(size int) bool {
	if size < 8 || size > int(c.s.o.Config.SocketRequestMaxBytes) {
		c.close(fmt.Sprintf("a request of %d bytes (socket.request.max.bytes is %d)%s", size, c.s.o.Config.SocketRequestMaxBytes, foreign(size)))
		return false
	}
	return true
}

// keyOK refuses large requests of APIs that have no business with them.
func (c *conn) keyOK(front []byte, size int) bool {
	limit := int(c.s.o.Config.TidemarkMaxControlRequestBytes)
	if key := int16(binary.BigEndian.Uint16(front)); size > limit && limit > 0 && !api.Large(key) {
		c.close(fmt.Sprintf("a request of %d bytes with API key %d (tidemark.max.control.request.bytes is %d)", size, key, limit))
		return false
	}
	return true
}

// serve hands one request, of which it owns the buffer's reference, to its handler. more says that another one follows.
func (c *conn) serve(fd int, b *buf.Buf, frame []byte, share int64, more bool) bool {
	call := c.s.calls.Get().(*api.Call)
	call.Client, call.Conn, call.Frame, call.Slot.Share = &c.client, c, b, share
	call.Slot.Began, call.More = c.began, more
	call.Slot.Alone = api.Alone(int16(binary.BigEndian.Uint16(frame)))
	c.alone = call.Slot.Alone
	if !c.push(fd, call) {
		return false
	}
	c.s.o.Handlers.Serve(call, frame)
	return !c.gone.Load()
}
