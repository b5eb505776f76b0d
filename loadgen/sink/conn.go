package sink

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"slices"
	"sync/atomic"

	"github.com/tidemark/tidemark/core/clock"
)

// Bounds of one connection.
const (
	readBytes     = 256 << 10 // of the buffer at first; it grows to the largest frame
	maxFrameBytes = 128 << 20
	maxLate       = 1 << 16 // answers in the queue of late ones; the reader waits beyond
)

var errFrame = errors.New("frame length out of range")

// conn is one client. The goroutine in serve owns everything but late.
type conn struct {
	sink    *Sink
	net     net.Conn
	buf     []byte // unread input is buf[r:w]
	r, w    int
	out     []byte // answers that are due, not yet written
	late    chan answer
	pending atomic.Int64 // answers in late that are not written yet
	produce produceRequest
	logged  []logged // batches whose answers are in out
	own     int      // logged[own:] belong to the answer that is being made
}

// answer is one response frame and when it leaves.
type answer struct {
	due    int64
	frame  []byte
	logged []logged
}

func (k *Sink) serve(nc net.Conn) {
	defer k.wg.Done()
	c := &conn{sink: k, net: nc, buf: make([]byte, readBytes)}
	defer func() {
		if c.late != nil {
			close(c.late)
		}
		_ = nc.Close()
		k.conns.Lock()
		delete(k.conns.open, nc)
		k.conns.Unlock()
	}()
	for {
		frame, err := c.next()
		if err != nil {
			return
		}
		now := clock.Nanos()
		s := k.script.Load()
		if end := s.frozenUntil(now); end > now {
			k.sleepUntil(end)
			now = end
		}
		k.stats.requests.Add(1)
		if !c.handle(s, now, frame) {
			_ = c.flush()
			return
		}
	}
}

// next is the next frame without its length, a view that holds until the next call. Answers that are due are written before
// it waits for input.
func (c *conn) next() ([]byte, error) {
	for {
		have := c.w - c.r
		need := 4
		if have >= 4 {
			n := int(int32(binary.BigEndian.Uint32(c.buf[c.r:])))
			if n < 8 || n > maxFrameBytes {
				return nil, errFrame
			}
			if need = 4 + n; have >= need {
				frame := c.buf[c.r+4 : c.r+need]
				if c.r += need; c.r == c.w {
					c.r, c.w = 0, 0
				}
				return frame, nil
			}
		}
		if err := c.flush(); err != nil {
			return nil, err
		}
		c.room(need)
		n, err := c.net.Read(c.buf[c.w:])
		if n == 0 && err == nil {
			err = io.ErrNoProgress
		}
		if err != nil {
			return nil, err
		}
		c.w += n
	}
}

// room makes place for a frame of need bytes at the start of the unread input.
func (c *conn) room(need int) {
	switch {
	case need > len(c.buf):
		bigger := make([]byte, need+need/4)
		c.w = copy(bigger, c.buf[c.r:c.w])
		c.r, c.buf = 0, bigger
	case c.r+need > len(c.buf):
		c.w = copy(c.buf, c.buf[c.r:c.w])
		c.r = 0
	}
}

// flush writes the answers that are due.
func (c *conn) flush() error {
	if len(c.out) == 0 {
		return nil
	}
	if len(c.logged) > 0 {
		written(c.logged, clock.Nanos())
		c.logged = c.logged[:0]
	}
	_, err := c.net.Write(c.out)
	c.out = c.out[:0]
	return err
}

// begin reserves a frame's length at the end of out and returns where it stands.
func (c *conn) begin() int {
	at := len(c.out)
	c.out, c.own = append(c.out, 0, 0, 0, 0), len(c.logged)
	return at
}

// drop takes back the answer that began at that place.
func (c *conn) drop(at int) { c.out, c.logged = c.out[:at], c.logged[:c.own] }

// end closes the frame that began at that place. One that is due later, or follows one that is, moves to the queue.
func (c *conn) end(at int, due, now int64) {
	binary.BigEndian.PutUint32(c.out[at:], uint32(len(c.out)-at-4))
	if due <= now && c.pending.Load() == 0 {
		return
	}
	frame := append([]byte(nil), c.out[at:]...)
	mine := slices.Clone(c.logged[c.own:])
	c.drop(at)
	_ = c.flush() // an error shows at the next read
	if c.late == nil {
		c.late = make(chan answer, maxLate)
		c.sink.wg.Add(1)
		go c.writeLate(c.late)
	}
	c.pending.Add(1)
	select {
	case c.late <- answer{due, frame, mine}:
	case <-c.sink.done:
	}
}

// writeLate writes answers at their times until the reader closes the queue. Answers keep their order, as Kafka's do, so one
// that is due earlier than the one before it waits.
func (c *conn) writeLate(late <-chan answer) {
	defer c.sink.wg.Done()
	sleeper := clock.NewSleeper()
	defer sleeper.Close()
	for a := range late {
		due := a.due
		for {
			now := clock.Nanos()
			if end := c.sink.script.Load().frozenUntil(max(now, due)); end > due {
				due = end
			}
			if due <= now {
				break
			}
			sleeper.Until(min(due, now+sleepStep)) // in steps: Close must not wait out a long delay
			select {
			case <-c.sink.done:
				return
			default:
			}
		}
		if len(a.logged) > 0 {
			written(a.logged, clock.Nanos())
		}
		if _, err := c.net.Write(a.frame); err != nil {
			_ = c.net.Close() // the reader ends
			for range late {
			}
			return
		}
		c.pending.Add(-1)
	}
}

// sleepStep is the longest sleep without looking at Close, in nanoseconds.
const sleepStep = 50e6

// sleepUntil sleeps in steps, so that Close need not wait out a freeze.
func (k *Sink) sleepUntil(end int64) {
	for now := clock.Nanos(); now < end; now = clock.Nanos() {
		select {
		case <-k.done:
			return
		default:
		}
		clock.SleepUntil(min(end, now+sleepStep))
	}
}
