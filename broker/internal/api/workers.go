package api

import "sync"

// workers runs do for fetches, at most max at once, on goroutines that live while there is something to do. Two sets of
// them exist: one builds the answers of fetches that had to wait (whoever completes a fetch only leaves it there), one
// reads cold pages.
type workers struct {
	max int
	do  func(*fetchCall)
	mu  struct {
		sync.Mutex
		idle  *sync.Cond // live has become 0
		live  int
		queue []*fetchCall
	}
}

func newWorkers(max int, do func(*fetchCall)) *workers {
	w := &workers{max: max, do: do}
	w.mu.idle = sync.NewCond(&w.mu)
	return w
}

// push leaves a fetch whose wait has ended.
func (w *workers) push(f *fetchCall) {
	w.mu.Lock()
	w.mu.queue = append(w.mu.queue, f)
	start := w.mu.live < w.max
	if start {
		w.mu.live++
	}
	w.mu.Unlock()
	if start {
		go w.work()
	}
}

func (w *workers) work() {
	for {
		w.mu.Lock()
		if len(w.mu.queue) == 0 {
			if w.mu.live--; w.mu.live == 0 {
				w.mu.idle.Broadcast()
			}
			w.mu.Unlock()
			return
		}
		f := w.mu.queue[0]
		if len(w.mu.queue) == 1 {
			w.mu.queue = w.mu.queue[:0]
		} else {
			w.mu.queue[0] = nil
			w.mu.queue = w.mu.queue[1:]
		}
		w.mu.Unlock()
		w.do(f)
	}
}

// close waits until nothing is left to do.
func (w *workers) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.mu.live > 0 {
		w.mu.idle.Wait()
	}
}
