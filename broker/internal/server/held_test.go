package server

import (
	"testing"

	"github.com/tidemark/tidemark/broker/internal/api"
	"github.com/tidemark/tidemark/core/commitlog"
)

// TestOnlyFilesHaveTheirTimeInTheRing: a connection is cut for an answer that waits long behind another request only when it
// holds open files. Cached metadata behind a request that waits for a rebalance does not.
func TestOnlyFilesHaveTheirTimeInTheRing(t *testing.T) {
	memory := []api.Piece{{To: 4}, {B: []byte("cached")}}
	file := append(memory, api.Piece{Lease: new(commitlog.Lease), N: 1})
	for _, tc := range []struct {
		name   string
		pieces []api.Piece
		held   bool
	}{{"nothing", nil, false}, {"memory", memory, false}, {"a file", file, true}} {
		c := &conn{s: &Server{}}
		waits, done := &api.Call{}, &api.Call{Answer: api.Answer{Head: []byte("head"), Pieces: tc.pieces}}
		waits.Slot.Next = done
		c.out.head, c.out.tail, c.out.n = waits, done, 2
		c.Completed(done)
		if held := c.held.Load() != 0; held != tc.held {
			t.Errorf("%s: held is %v", tc.name, held)
		}
		// The same when others have left the ring before it.
		c.held.Store(1)
		c.out.Lock()
		c.heldLocked()
		c.out.Unlock()
		if held := c.held.Load() != 0; held != tc.held {
			t.Errorf("%s: held is %v after others have left", tc.name, held)
		}
	}
}
