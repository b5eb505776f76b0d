package api

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/broker/internal/partition"
	"github.com/tidemark/tidemark/core/buf"
	"github.com/tidemark/tidemark/core/commitlog"
)

// Client is what is known of the peer of one connection. It lives as long as the connection.
type Client struct {
	Listener   string // name of the listener that accepted it
	ClientHost string // peer address without port
	Principal  string // User:ANONYMOUS until authenticated
	Software   string // name and version as ApiVersions told, for logs
	Ctx        context.Context

	left []*partition.Partition // hold appends of this connection that Settle has to see written
}

// Conn is what a Call needs of its connection.
type Conn interface {
	// Completed says that the call's Answer is complete. The connection sends it in the order of requests.
	Completed(c *Call)
	// Share takes n bytes more of queued.max.request.bytes for what the call's answer keeps in memory; false when there
	// are none. They go back with the call, or by a negative n.
	Share(c *Call, n int64) bool
	// Park takes what the call has not of the n bytes that it holds while its fetch waits, once; false when there are none, or
	// fetches that wait hold as much as they may in all. They go back as those of Share do.
	Park(c *Call, n int64) bool
	// Abort completes the call without an answer and closes the connection with one throttled log line.
	Abort(c *Call, reason string)
}

// Piece is a part of an answer. Exactly one of three: bytes of Answer.Head ([From,To)), bytes that the answer's owner
// keeps alive (B), or N bytes of a file from Pos on (Lease).
type Piece struct {
	From, To int
	B        []byte
	Lease    *commitlog.Lease
	Pos      int64
	N        int
}

// Owner is told when an answer was sent, or never will be: it gives buffers and leases back. Any goroutine.
type Owner interface{ Sent() }

// Answer is a response as it goes to the socket. Head holds the frame's size, the header and everything encoded; without
// Pieces it is the answer. An empty Head sends nothing.
type Answer struct {
	Head   []byte
	Buf    *buf.Buf // that Head lies in, released when it was sent; nil: nobody's
	Pieces []Piece
	Owner  Owner // of what Pieces refers to; may be nil
}

// Call is one request on its way through the broker, and its slot in the connection's ordered ring. Calls are pooled
// by the server: nobody keeps one after it was answered.
type Call struct {
	*Client
	Key           int16
	Version       int16
	CorrelationID int32
	ClientID      string
	Body          []byte   // the request after its header
	Frame         *buf.Buf // holds Body; the call owns one reference; a handler that needs it no longer sets nil
	Answer        Answer
	Slot          Slot // the server's

	Conn Conn
	// More says that the connection has another whole request, which it serves at once after this one: appends may be left
	// to be written together with those of that one.
	More bool
	pool *buf.Pool
	gen  atomic.Uint32
	wait atomic.Pointer[fetchCall] // a fetch that waits for bytes
}

// Slot is what the connection keeps of a call in its ring.
type Slot struct {
	Next   *Call
	Done   bool
	Alone  bool  // nothing is taken behind it until it is done
	Share  int64 // of queued.max.request.bytes
	Parked int64 // of it, counted as a waiting fetch's until the call is over
	Unsent int64 // bytes of its answer, when they are counted
	Began  int64 // clock.Nanos when its bytes came
}

// Context ends when the connection closes or the broker stops.
func (c *Call) Context() context.Context { return c.Ctx }

// Later tells that the handler answers after it has returned (with a nil response). The function that it gives is
// called from any goroutine; the first call answers, further ones are ignored.
func (c *Call) Later() func(kmsg.Response) {
	gen := c.gen.Load()
	var once atomic.Bool
	return func(r kmsg.Response) {
		if once.Swap(true) || c.gen.Load() != gen {
			return
		}
		c.reply(r)
	}
}

const (
	// manyParts is from how many topics and partitions on a Produce or Fetch pays for the memory that serving it takes.
	manyParts = 2000
	partBytes = 400
)

// afford takes the memory for n topics and partitions; false when there is none: the call is aborted.
func (c *Call) afford(n int) bool {
	if n < manyParts || c.Conn.Share(c, int64(n)*partBytes) {
		return true
	}
	c.Abort(fmt.Sprintf("no memory for a request of %d topics and partitions (queued.max.request.bytes)", n))
	return false
}

// freeAnswerBytes is how much of an answer costs nothing: small ones are given however scarce memory is.
const freeAnswerBytes = 64 << 10

// answerCost counts what a call's answer takes in memory while its one maker makes it.
type answerCost struct {
	c     *Call
	bytes int64
}

// take takes memory for n bytes more of the answer; false when there is none: the call is aborted.
func (a *answerCost) take(n int64) bool {
	pay := max(a.bytes+n, freeAnswerBytes) - max(a.bytes, freeAnswerBytes)
	if pay > 0 && !a.c.Conn.Share(a.c, pay) {
		a.c.Abort(fmt.Sprintf("no memory for an answer of more than %d bytes (queued.max.request.bytes)", a.bytes))
		return false
	}
	a.bytes += n
	return true
}

// taken gives the memory of a request back that nobody refers to any more, although its answer may be minutes away: a group
// waits for its last member. To be called once, before the call is completed.
func (c *Call) taken() {
	if n := c.Slot.Share; n > 0 {
		c.Conn.Share(c, -n)
	}
}

// NoAnswer completes the call without sending anything (acks=0).
func (c *Call) NoAnswer() { c.Conn.Completed(c) }

// Abort completes the call without an answer and closes its connection with one throttled log line.
func (c *Call) Abort(reason string) { c.Conn.Abort(c, reason) }

// Cancel is called when the connection has closed: a fetch that waits for bytes gives up. The call is completed all the
// same, by whoever would have answered it.
func (c *Call) Cancel() {
	if f := c.wait.Load(); f != nil {
		f.cancel()
	}
}

// keptPieces is how many pieces' room a call keeps for its next request.
const keptPieces = 4096

// Reset makes the call ready for its next request. Buffers and leases have been released by the server.
func (c *Call) Reset() {
	c.gen.Add(1)
	clear(c.Answer.Pieces)
	if c.Answer.Pieces = c.Answer.Pieces[:0]; cap(c.Answer.Pieces) > keptPieces {
		c.Answer.Pieces = nil
	}
	c.Answer = Answer{Pieces: c.Answer.Pieces}
	c.Body, c.Frame, c.Client, c.Conn, c.Slot, c.More = nil, nil, nil, nil, Slot{}, false
}
