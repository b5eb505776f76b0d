package server

import (
	"testing"

	"github.com/tidemark/tidemark/broker/internal/api"
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
