package server

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
)

func TestTheBudgetHoldsBackAndLetsGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBudget(100)
		ctx, cancel := context.WithCancel(context.Background())
		if n, ok := b.take(ctx, 80, nil); n != 80 || !ok {
			t.Fatal(n, ok)
		}
		var got, gaveUp bool
		go func() { _, got = b.take(ctx, 50, nil) }()
		synctest.Wait()
		if got {
			t.Fatal("there was no room")
		}
		b.give(80)
		synctest.Wait()
		if !got || b.free.Load() != 50 {
			t.Fatal("room came back", b.free.Load())
		}
		if n, ok := b.take(ctx, 10, nil); n != 10 || !ok {
			t.Fatal(n, ok)
		}
		go func() {
			_, ok := b.take(ctx, 1000, nil) // more than there is counts as all
			gaveUp = !ok
		}()
		synctest.Wait()
		cancel()
		synctest.Wait()
		if !gaveUp || b.free.Load() != 40 {
			t.Fatal("who gives up leaves nothing behind", b.free.Load())
		}
	})
}

// A connection that waits for memory ends with a stop of the server, as one that reads no more: what it has taken is still answered.
func TestAStopEndsAWaitForMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Server{budget: newBudget(100), stopping: make(chan struct{}), complain: newComplainer(slog.New(slog.DiscardHandler))}
		c := &conn{s: s}
		c.client.Ctx = context.Background()
		if _, ok := c.take(80); !ok {
			t.Fatal("there is room")
		}
		ended := make(chan bool, 1)
		go func() {
			_, ok := c.take(50)
			ended <- ok
		}()
		synctest.Wait()
		close(s.stopping)
		synctest.Wait()
		select {
		case ok := <-ended:
			if ok || !c.last.Load() || c.gone.Load() || s.budget.free.Load() != 20 {
				t.Errorf("taken %v, reads no more %v, closed %v, %d bytes free", ok, c.last.Load(), c.gone.Load(), s.budget.free.Load())
			}
		default:
			t.Error("it waits on")
			s.budget.give(80)
		}
	})
}
