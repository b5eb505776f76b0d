package api

import (
	"context"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kmsg"

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
}

// Conn is what a Call needs of its connection.
type Conn interface {
	// Completed says that the call's Answer is complete. The connection writes it in the order of requests.
	Completed(c *Call)
	// Abort closes the connection with one throttled log line.
	Abort(reason string)
}

// Piece is a part of an answer. Exactly one of three: bytes of Answer.Head ([From,To)), bytes of somebody else's buffer
// (B, kept alive by Owner), or N bytes of a file from Pos on (Lease).
type Piece struct {
	From, To int
	B        []byte
	Owner    *buf.Buf
	Lease    *commitlog.Lease
	Pos      int64
	N        int
}

// Answer is a response as it goes to the socket. Head holds the frame's size, the header and everything encoded; without
// Pieces it is the answer. An empty Head sends nothing.
type Answer struct {
	Head   []byte
	Buf    *buf.Buf // that Head lies in, released when it was sent; nil: nobody's
	Pieces []Piece
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
	Frame         *buf.Buf // holds Body; the call owns one reference
	Answer        Answer

	Conn Conn
	// The server's own fields of the slot.
	Next    *Call
	Done    atomic.Bool
	Share   int64 // of queued.max.request.bytes
	Arrived int64 // clock.Nanos when the request was read
	produce *produceCall
	fetch   *fetchCall
	pool    *buf.Pool
	gen     atomic.Uint32
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

// NoAnswer completes the call without sending anything (acks=0).
func (c *Call) NoAnswer() { c.Conn.Completed(c) }

// Reset makes the call ready for its next request. Buffers and leases have been released by the server.
func (c *Call) Reset() {
	c.gen.Add(1)
	clear(c.Answer.Pieces)
	c.Answer = Answer{Pieces: c.Answer.Pieces[:0]}
	c.Body, c.Frame, c.Next = nil, nil, nil
	c.Done.Store(false)
	c.Share, c.Client, c.Conn = 0, nil, nil
}
