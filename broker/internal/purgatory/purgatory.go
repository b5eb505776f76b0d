// Package purgatory ends waits: produce and fetch requests that wait for bytes leave a Wait here, and it expires when
// their time is over. What they wait for is partition's; what an expiry means is the caller's.
//
// # Concurrency
//
// One lock, one time.Timer, no goroutine while nothing waits. Waits stand in a binary heap by deadline that knows each
// one's place, so that the many that end early leave at once. The timer is not moved when the earliest Wait leaves: it
// fires, finds nothing and is set anew, which costs less than moving it with each request. Expired functions run on the
// timer's goroutine without the lock.
package purgatory

import (
	"sync"
	"time"
)

// Expirer is what waits. Expired is called at most once for each Add, without locks, and not after a Remove that
// returned true.
type Expirer interface{ Expired() }

// Wait is one waiting request. It is embedded in what waits and may be used again once it has expired or was removed.
type Wait struct {
	deadline time.Time
	index    int // in the heap plus one; 0 is out
	what     Expirer
}

// Timeouts holds the waits of one broker.
type Timeouts struct {
	mu struct {
		sync.Mutex
		heap   []*Wait
		timer  *time.Timer
		next   time.Time // when the timer fires; zero when it is not set
		closed bool
	}
}

// New makes an empty Timeouts.
func New() *Timeouts { return &Timeouts{} }

// Add lets w expire after d. A wait that is already in, or a closed Timeouts, is left as it is.
func (t *Timeouts) Add(w *Wait, d time.Duration, what Expirer) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if w.index != 0 || t.mu.closed {
		return
	}
	w.deadline, w.what = time.Now().Add(d), what
	t.mu.heap = append(t.mu.heap, w)
	w.index = len(t.mu.heap)
	t.upLocked(w.index - 1)
	if t.mu.next.IsZero() || w.deadline.Before(t.mu.next) {
		t.armLocked(w.deadline)
	}
}

// Remove takes w out; false when it has expired already or never was in.
func (t *Timeouts) Remove(w *Wait) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if w.index == 0 {
		return false
	}
	t.takeLocked(w.index - 1)
	return true
}

// Len counts the waits.
func (t *Timeouts) Len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.mu.heap)
}

// Close stops the timer. What still waits never expires.
func (t *Timeouts) Close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mu.closed = true
	if t.mu.timer != nil {
		t.mu.timer.Stop()
	}
}

func (t *Timeouts) armLocked(at time.Time) {
	t.mu.next = at
	if t.mu.timer == nil {
		t.mu.timer = time.AfterFunc(time.Until(at), t.fire)
		return
	}
	t.mu.timer.Reset(time.Until(at))
}

func (t *Timeouts) fire() {
	for {
		t.mu.Lock()
		if t.mu.closed || len(t.mu.heap) == 0 {
			t.mu.next = time.Time{}
			t.mu.Unlock()
			return
		}
		w := t.mu.heap[0]
		if w.deadline.After(time.Now()) {
			t.armLocked(w.deadline)
			t.mu.Unlock()
			return
		}
		t.takeLocked(0)
		what := w.what
		w.what = nil
		t.mu.Unlock()
		what.Expired()
	}
}

func (t *Timeouts) takeLocked(i int) {
	h := t.mu.heap
	last := len(h) - 1
	h[i].index = 0
	if i != last {
		h[i] = h[last]
		h[i].index = i + 1
	}
	h[last] = nil
	t.mu.heap = h[:last]
	if i < last {
		t.downLocked(i)
		t.upLocked(i)
	}
}

func (t *Timeouts) upLocked(i int) {
	h := t.mu.heap
	for i > 0 {
		parent := (i - 1) / 2
		if !h[i].deadline.Before(h[parent].deadline) {
			return
		}
		t.swapLocked(i, parent)
		i = parent
	}
}

func (t *Timeouts) downLocked(i int) {
	h := t.mu.heap
	for {
		child := 2*i + 1
		if child >= len(h) {
			return
		}
		if child+1 < len(h) && h[child+1].deadline.Before(h[child].deadline) {
			child++
		}
		if !h[child].deadline.Before(h[i].deadline) {
			return
		}
		t.swapLocked(i, child)
		i = child
	}
}

func (t *Timeouts) swapLocked(i, j int) {
	h := t.mu.heap
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i+1, j+1
}
