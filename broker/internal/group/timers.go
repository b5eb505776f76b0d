package group

import "container/heap"

const notQueued = -1

// timer is a deadline that moves: a session is pushed back by each heartbeat. Pushing it back only changes due; the
// heap entry stays where it is and is put back when it surfaces too early. So a heartbeat costs no heap operation.
type timer struct {
	due    int64 // 0: stopped
	queued int64 // the heap's key, never later than due
	index  int
	fire   func(Now)
}

func newTimer(fire func(Now)) timer { return timer{index: notQueued, fire: fire} }

// timerHeap is the one heap of a machine, earliest first.
type timerHeap struct{ entries timerEntries }

// set moves t to a deadline.
func (h *timerHeap) set(t *timer, dueMS int64) {
	t.due = dueMS
	switch {
	case t.index == notQueued:
		t.queued = dueMS
		heap.Push(&h.entries, t)
	case dueMS < t.queued:
		t.queued = dueMS
		heap.Fix(&h.entries, t.index)
	}
}

// stop takes t out.
func (h *timerHeap) stop(t *timer) {
	t.due = 0
	if t.index != notQueued {
		heap.Remove(&h.entries, t.index)
	}
}

func (h *timerHeap) next() (int64, bool) {
	if len(h.entries) == 0 {
		return 0, false
	}
	return h.entries[0].queued, true
}

// popDue takes out a timer whose deadline is not after now.
func (h *timerHeap) popDue(nowMS int64) *timer {
	for len(h.entries) > 0 && h.entries[0].queued <= nowMS {
		t := h.entries[0]
		if t.due > nowMS {
			t.queued = t.due
			heap.Fix(&h.entries, 0)
			continue
		}
		heap.Pop(&h.entries)
		t.due = 0
		return t
	}
	return nil
}

type timerEntries []*timer

func (e timerEntries) Len() int           { return len(e) }
func (e timerEntries) Less(i, j int) bool { return e[i].queued < e[j].queued }
func (e timerEntries) Swap(i, j int) {
	e[i], e[j] = e[j], e[i]
	e[i].index, e[j].index = i, j
}

// Push is heap.Interface's.
func (e *timerEntries) Push(x any) {
	t := x.(*timer)
	t.index = len(*e)
	*e = append(*e, t)
}

// Pop is heap.Interface's.
func (e *timerEntries) Pop() any {
	last := len(*e) - 1
	t := (*e)[last]
	(*e)[last] = nil
	*e = (*e)[:last]
	t.index = notQueued
	return t
}
