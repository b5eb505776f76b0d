package server

import (
	"context"
	"testing"
	"testing/synctest"
)

func TestTheBudgetHoldsBackAndLetsGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBudget(100)
		ctx, cancel := context.WithCancel(context.Background())
		if n, ok := b.take(ctx, 80); n != 80 || !ok {
			t.Fatal(n, ok)
		}
		var got, gaveUp bool
		go func() { _, got = b.take(ctx, 50) }()
		synctest.Wait()
		if got {
			t.Fatal("there was no room")
		}
		b.give(80)
		synctest.Wait()
		if !got || b.free.Load() != 50 {
			t.Fatal("room came back", b.free.Load())
		}
		if n, ok := b.take(ctx, 10); n != 10 || !ok {
			t.Fatal(n, ok)
		}
		go func() {
			_, ok := b.take(ctx, 1000) // more than there is counts as all
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
