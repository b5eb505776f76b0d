package servertest

import (
	"context"
	"testing"

	"github.com/tidemark/tidemark/broker/internal/api"
	"github.com/tidemark/tidemark/core/buf"
	"github.com/tidemark/tidemark/core/invariants"
)

// loop is a connection that answers nobody.
type loop struct {
	done    int
	aborted string
}

func (l *loop) Share(*api.Call, int64) bool      { return true }
func (l *loop) Park(*api.Call, int64) bool       { return true }
func (l *loop) Completed(c *api.Call)            { l.done++ }
func (l *loop) Abort(c *api.Call, reason string) { l.aborted = reason; l.done++ }

// serveOnce passes one frame through the handlers as a connection does.
func (l *loop) serveOnce(h *api.Handlers, pool *buf.Pool, cl *api.Client, call *api.Call, frame []byte) {
	l.take(h, pool, cl, call, frame, false)
	l.release(call)
}

// serveRow passes a frame for each call, as a connection does that has read them together.
func (l *loop) serveRow(h *api.Handlers, pool *buf.Pool, cl *api.Client, calls []*api.Call, frame []byte) {
	for i, call := range calls {
		l.take(h, pool, cl, call, frame, i < len(calls)-1)
	}
	for _, call := range calls {
		l.release(call)
	}
}

func (l *loop) take(h *api.Handlers, pool *buf.Pool, cl *api.Client, call *api.Call, frame []byte, more bool) {
	b := pool.Get(len(frame))
	copy(b.B, frame)
	call.Client, call.Conn, call.Frame, call.More = cl, l, b, more
	h.Serve(call, b.B)
}

func (l *loop) release(call *api.Call) {
	if call.Answer.Buf != nil {
		call.Answer.Buf.Release()
	}
	if call.Answer.Owner != nil {
		call.Answer.Owner.Sent()
	}
	if call.Frame != nil { // a fetch that waits has given it back
		call.Frame.Release()
	}
	call.Reset()
}

func TestProduceAndFetchAllocateNothingInASteadyState(t *testing.T) {
	if invariants.Enabled {
		t.Skip("invariants cost memory")
	}
	n := startNode(t, t.TempDir(), "tidemark.tail.bytes=1048576") // a ring that is full takes nothing new
	id := n.topic("t", 2)
	pool := buf.NewPool()
	cl, call, l := &api.Client{Ctx: context.Background()}, &api.Call{}, &loop{}
	produce := frame(1, produceRequest(9, -1, "t", id, map[int32][]byte{0: batch(t, 1, make([]byte, 1000)), 1: batch(t, 1, make([]byte, 1000))}))[4:]
	fetch := frame(1, fetchRequest(12, "t", id, map[int32]int64{0: 0, 1: 0}))[4:]
	for range 2000 {
		l.serveOnce(n.handlers, pool, cl, call, produce)
	}
	l.serveOnce(n.handlers, pool, cl, call, fetch)
	// Index entries grow now and then; a whole allocation for each request they are not.
	if a := testing.AllocsPerRun(2000, func() { l.serveOnce(n.handlers, pool, cl, call, produce) }); a >= 1 {
		t.Errorf("a produce allocates %v times", a)
	}
	single := frame(1, produceRequest(9, -1, "t", id, map[int32][]byte{0: batch(t, 1, make([]byte, 1000))}))[4:]
	row := []*api.Call{{}, {}, {}, {}, {}}
	l.serveRow(n.handlers, pool, cl, row, single)
	l.done = 0
	// pwritev's list of pieces is made anew for each write.
	if a := testing.AllocsPerRun(500, func() { l.serveRow(n.handlers, pool, cl, row, single) }); a > 2 || l.done != 501*len(row) {
		t.Errorf("a row of five produces allocates %v times; %d were answered", a, l.done)
	}
	if a := testing.AllocsPerRun(200, func() { l.serveOnce(n.handlers, pool, cl, call, fetch) }); a >= 1 {
		t.Errorf("a fetch allocates %v times", a)
	}
	if l.aborted != "" {
		t.Fatal(l.aborted)
	}
}

// BenchmarkServe is the way of a request without sockets.
func BenchmarkServe(b *testing.B) {
	n := startNode(b, b.TempDir())
	id := n.topic("t", 2)
	pool := buf.NewPool()
	cl, call, l := &api.Client{Ctx: context.Background()}, &api.Call{}, &loop{}
	for _, c := range []struct {
		name string
		size int
	}{{"produce=100B", 100}, {"produce=1KiB", 1 << 10}, {"produce=16KiB", 16 << 10}} {
		f := frame(1, produceRequest(9, 1, "t", id, map[int32][]byte{0: batch(b, 1, make([]byte, c.size))}))[4:]
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(c.size))
			for b.Loop() {
				l.serveOnce(n.handlers, pool, cl, call, f)
			}
		})
	}
}
