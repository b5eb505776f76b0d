package server

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"

	"github.com/tidemark/tidemark/broker/internal/api"
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

// A refusal takes nothing even for a moment and wakes nobody: who waits for memory would look for it at each, and wait again.
func TestARefusalWakesNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBudget(100)
		ctx, cancel := context.WithCancel(t.Context())
		b.take(ctx, 80, nil)
		go b.take(ctx, 50, nil)
		synctest.Wait()
		b.mu.Lock()
		waiting := b.mu.waiting[0]
		b.mu.Unlock()
		if b.try(1) || b.tryPark(26, 1) || b.tryPark(25, 21) {
			t.Error("there is none")
		}
		synctest.Wait()
		select {
		case <-waiting:
			t.Error("it was woken")
		default:
		}
		cancel()
		synctest.Wait()
		if b.free.Load() != 20 || b.park.Load() != 25 {
			t.Errorf("%d are free, %d for fetches that wait", b.free.Load(), b.park.Load())
		}
	})
}

// Fetches that wait hold a quarter at most, also of the half that answers leave, and it comes back with their calls.
func TestFetchesThatWaitHoldAQuarter(t *testing.T) {
	s := &Server{budget: newBudget(1000)}
	c := &conn{s: s}
	c.take(600)
	first, second := &api.Call{}, &api.Call{}
	first.Slot.Share = 600
	if !c.Park(first, 200) || !c.Park(second, 50) || c.Park(&api.Call{}, 1) {
		t.Error("a quarter may be held")
	}
	if free := s.budget.free.Load(); free != 350 || first.Slot.Share != 600 || second.Slot.Share != 50 {
		t.Errorf("%d are free", free)
	}
	c.release(first)
	c.release(second)
	if s.budget.free.Load() != 1000 || s.budget.park.Load() != 250 {
		t.Errorf("%d are free, %d for fetches that wait", s.budget.free.Load(), s.budget.park.Load())
	}
}
