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
		if c.partial.Load() != 0 || c.active.Load() != 1 {
			t.Error("the frame has begun without memory")
		}
		s.budget.give(share)
		if !<-begun || c.partial.Load() == 0 {
			t.Fatal("the frame has not begun")
		}
		if c.active.Load() == 1 {
			t.Error("the wait counts as the client's")
		}
		c.dropFrame()
	})
}

// A frame that is not whole goes on bringing its bytes while others wait for the memory that it holds: one byte every four seconds does
// not do. While nobody waits a client may be as slow as it likes.
func TestAFrameThatTricklesIsCutWhileOthersWait(t *testing.T) {
	const second, mib = int64(sweepEvery), 1 << 20
	for _, tc := range []struct {
		what          string
		held          int64
		bytes         int64 // in each second
		every         int64 // second
		starved       bool
		frames        int64 // that are begun in each second
		cut           bool
		starvedMoment int64 // somebody waits but in every so manyeth second
	}{
		{what: "a byte now and then", held: 100 * mib, bytes: 1, every: 4, starved: true, cut: true},
		{what: "the same while nobody waits", held: 100 * mib, bytes: 1, every: 4},
		{what: "too little for so much", held: 100 * mib, bytes: 100 << 10, every: 1, starved: true, cut: true},
		{what: "enough for so much", held: 100 * mib, bytes: 500 << 10, every: 1, starved: true},
		{what: "a slow client with a small frame", held: mib, bytes: 16 << 10, every: 1, starved: true},
		{what: "too slow for that", held: mib, bytes: 8 << 10, every: 1, starved: true, cut: true},
		{what: "one small frame after the other", held: 20_000, bytes: 4000, every: 1, starved: true, frames: 1},
		{what: "nobody waits now and then", held: 100 * mib, bytes: 1, every: 4, starved: true, starvedMoment: 4},
	} {
		c := &conn{}
		c.partial.Store(tc.held)
		cut := false
		for now := int64(100); now < 160; now++ {
			c.frames.Add(tc.frames)
			if now%tc.every == 0 {
				c.active.Store(now * second)
				c.brought.Add(tc.bytes)
			}
			cut = cut || c.stalled(now*second, tc.starved && (tc.starvedMoment == 0 || now%tc.starvedMoment != 0))
		}
		if cut != tc.cut {
			t.Errorf("%s: cut %v", tc.what, cut)
		}
	}
	c := &conn{}
	c.partial.Store(mib)
	c.active.Store(100 * second)
	if c.stalled(104*second, true) || c.stalled(200*second, false) || !c.stalled(201*second, true) {
		t.Error("a frame of which nothing has come for long is cut at once when somebody waits, and only then")
	}
}
