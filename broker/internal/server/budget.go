package server

import (
	"context"
	"sync"
	"sync/atomic"
)

// budget is queued.max.request.bytes: the bytes that requests may hold, from before they are read until they are
// answered. Who finds none waits, and its socket with it.
type budget struct {
	free    atomic.Int64
	waiters atomic.Int32 // raised before free is looked at, so that give cannot miss one
	total   int64
	park    atomic.Int64 // what fetches may hold yet while they wait, of free: in all a quarter
	mu      struct {
		sync.Mutex
		waiting []chan struct{}
	}
}

func newBudget(total int64) *budget {
	if total <= 0 {
		total = 1 << 62
	}
	b := &budget{total: total}
	b.free.Store(total)
	b.park.Store(total / 4)
	return b
}

// take waits until n bytes are free, or ctx ends or stop is closed (false). More than there is in all counts as all.
func (b *budget) take(ctx context.Context, n int64, stop <-chan struct{}) (int64, bool) {
	n = min(n, b.total)
	if b.free.Add(-n) >= 0 {
		return n, true
	}
	b.waiters.Add(1)
	defer b.waiters.Add(-1)
	b.give(n)
	for {
		b.mu.Lock()
		if b.free.Add(-n) >= 0 {
			b.mu.Unlock()
			return n, true
		}
		b.free.Add(n)
		ch := make(chan struct{})
		b.mu.waiting = append(b.mu.waiting, ch)
		b.mu.Unlock()
		select {
		case <-ch:
		case <-stop:
			return 0, false
		case <-ctx.Done():
			return 0, false
		}
	}
}

// try takes n bytes for an answer, if half of all stays for requests: slow readers must not hold up those who write. It
// goes ahead of who waits.
func (b *budget) try(n int64) bool { return lower(&b.free, n, b.total/2) }

// tryPark counts n bytes that a fetch holds while it waits, more of which are not taken yet. It may do so for as long as its client
// likes: all of them leave to answers what these may take.
func (b *budget) tryPark(n, more int64) bool {
	if !lower(&b.park, n, 0) {
		return false
	}
	if more > 0 && !lower(&b.free, more, 0) {
		b.park.Add(n)
		return false
	}
	return true
}

// lower takes n of a if least stays. Nobody sees it take what it does not get, so that there is nobody to wake.
func lower(a *atomic.Int64, n, least int64) bool {
	for {
		have := a.Load()
		if have-n < least {
			return false
		}
		if a.CompareAndSwap(have, have-n) {
			return true
		}
	}
}

// low says that more than half is taken.
func (b *budget) low() bool { return b.free.Load() < b.total/2 }

// give gives n bytes back and wakes who waits.
func (b *budget) give(n int64) {
	b.free.Add(n)
	if b.waiters.Load() == 0 {
		return
	}
	b.mu.Lock()
	for _, ch := range b.mu.waiting {
		close(ch)
	}
	b.mu.waiting = nil
	b.mu.Unlock()
}
