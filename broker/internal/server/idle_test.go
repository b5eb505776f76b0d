package server

import (
	"context"
	"encoding/binary"
	"testing"
	"testing/synctest"

	"github.com/tidemark/tidemark/broker/config"
	"github.com/tidemark/tidemark/broker/internal/api"
	"github.com/tidemark/tidemark/core/buf"
)

// TestASlowDownloadIsNotIdle: a connection is idle from when its last answer has left, as far as the sweeper saw, not from its last
// request.
func TestASlowDownloadIsNotIdle(t *testing.T) {
	const second = int64(sweepEvery)
	c := &conn{s: &Server{}}
	c.active.Store(100 * second)
	expect := func(what string, at, want int64) {
		t.Helper()
		if got := c.idleFor(at * second); got != want*second {
			t.Errorf("%s: idle for %d s at %d s, want %d", what, got/second, at, want)
		}
	}
	expect("a request was read", 101, 1)
	call := &api.Call{}
	c.out.head, c.out.tail, c.out.n = call, call, 1
	expect("a request waits", 200, 0)
	c.out.head, c.out.tail, c.out.n, c.out.writing = nil, nil, 0, true // as pump leaves it
	expect("its answer is being sent", 300, 0)
	expect("its answer is still being sent", 900, 0)
	c.out.writing = false
	expect("its answer has left", 903, 3)
	c.active.Store(910 * second)
	expect("the next request was read", 912, 2)
}

// A client is not to blame for the time that its connection has waited for memory: the bytes of its frame are expected from when there
// is room for them.
func TestAWaitForMemoryIsNotTheClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg, _, err := config.Load("", nil)
		if err != nil {
			t.Fatal(err)
		}
		const size = 100_000
		s := &Server{o: Options{Config: cfg, Pool: buf.NewPool()}, budget: newBudget(size)}
		c := &conn{s: s}
		c.client.Ctx = context.Background()
		binary.BigEndian.PutUint32(c.front[:], size)
		share, _ := c.take(size)
		c.active.Store(1) // long ago
		begun := make(chan bool)
		go func() { begun <- c.begin(-1) }()
		synctest.Wait()
		if c.partial.Load() || c.active.Load() != 1 {
			t.Error("the frame has begun without memory")
		}
		s.budget.give(share)
		if !<-begun || !c.partial.Load() {
			t.Fatal("the frame has not begun")
		}
		if c.active.Load() == 1 {
			t.Error("the wait counts as the client's")
		}
		c.dropFrame()
	})
}
