package vfs

import "sync/atomic"

// GateLimit is how many blocking file calls run at once on one log folder (BROKER 2): a stalled disk then parks
// goroutines here and not threads in the kernel, of which Go allows 10,000.
const GateLimit = 64

// Gate is a counting semaphore around calls that may block. The zero value is not usable; a nil Gate lets all pass.
type Gate struct {
	slots    chan struct{}
	syncs    atomic.Int64
	answered atomic.Int64
}

// NewGate returns a gate that lets n calls in at a time.
func NewGate(n int) *Gate { return &Gate{slots: make(chan struct{}, n)} }

// Enter waits for a slot.
func (g *Gate) Enter() {
	if g != nil {
		g.slots <- struct{}{}
	}
}

// Leave gives the slot back.
func (g *Gate) Leave() {
	if g != nil {
		<-g.slots
		g.answered.Add(1)
	}
}

// Answered counts the calls that have come back.
func (g *Gate) Answered() int64 {
	if g == nil {
		return 0
	}
	return g.answered.Load()
}

// Syncs is how many fsyncs, of files and folders, have passed.
func (g *Gate) Syncs() int64 {
	if g == nil {
		return 0
	}
	return g.syncs.Load()
}

func (g *Gate) countSync() {
	if g != nil {
		g.syncs.Add(1)
	}
}

// InUse says how many calls are inside right now.
func (g *Gate) InUse() int {
	if g == nil {
		return 0
	}
	return len(g.slots)
}
