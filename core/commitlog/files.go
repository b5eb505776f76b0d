package commitlog

import (
	"sync"
	"sync/atomic"

	"github.com/tidemark/tidemark/core/vfs"
)

// DefaultOpenFiles is the bound of a FileCache that nobody gave one.
const DefaultOpenFiles = 4096

// FileCache bounds how many files of all logs are open. Files open at first use; beyond the bound the one that has
// not been used for longest, roughly (CLOCK), is closed. A leased file is never closed, so leases beyond the bound
// exceed it.
//
// The bound grows, up to a ceiling, by each file that is opened again soon after it was closed for want of room: appends that
// go around 10,000 partitions would else open and close a file for each batch, which costs as much as writing 16 KiB. Trim
// brings it down again once the files are not used any more.
type FileCache struct {
	limit int
	mu    struct {
		sync.Mutex
		slots   []*Lease
		hand    int
		bound   int    // from limit to ceiling
		ceiling int    // at least limit
		evicted uint32 // files closed for want of room so far
	}
}

// NewFileCache keeps at most limit files open.
func NewFileCache(limit int) *FileCache {
	c := &FileCache{limit: max(limit, 1)}
	c.mu.bound, c.mu.ceiling = c.limit, c.limit
	return c
}

// SetCeiling says how far the bound may grow. Files beyond a lower one than before are closed by the next Trim.
func (c *FileCache) SetCeiling(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.ceiling = max(n, c.limit)
	c.mu.bound = min(c.mu.bound, c.mu.ceiling)
}

// idleTrims is how many calls of Trim a file beyond the limit stays open without being used.
const idleTrims = 5

// Trim closes files that have not been used since several calls ago, down to the limit that the cache was made with, and all
// beyond the ceiling. To be called about every second.
func (c *FileCache) Trim() {
	var gone []*Lease
	c.mu.Lock()
	for i := len(c.mu.slots) - 1; i >= 0 && len(c.mu.slots) > c.limit; i-- {
		l := c.mu.slots[i]
		if l.used.Swap(false) {
			l.idle = 0
		} else if l.idle < idleTrims {
			l.idle++
		}
		if l.refs.Load() == 1 && (l.idle >= idleTrims || len(c.mu.slots) > c.mu.ceiling) {
			c.removeLocked(l)
			gone = append(gone, l)
		}
	}
	c.mu.bound = max(c.limit, min(c.mu.bound, len(c.mu.slots)))
	c.mu.Unlock()
	for _, l := range gone {
		l.Release()
	}
}

// Open is how many files are open now.
func (c *FileCache) Open() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.mu.slots)
}

// fileRef is a file that may be open. dead is set when its segment has left the log: a late reader must not leave
// it in the cache.
type fileRef struct {
	open    atomic.Pointer[Lease]
	dead    atomic.Bool
	evicted uint32 // FileCache.mu: the count at which the file was last closed for want of room, 0: never
}

// Lease pins an open file: its descriptor stays valid until Release, whatever happens to the log meanwhile.
type Lease struct {
	f    vfs.File
	ref  *fileRef
	refs atomic.Int32 // one of the cache, one for each holder; at 0 the file is closed
	used atomic.Bool  // since the hand last passed
	slot int          // FileCache.mu
	idle int          // FileCache.mu: calls of Trim since it was used
}

// WithFd lends the descriptor for the length of fn, or answers vfs.ErrNoFd: the caller copies instead.
func (l *Lease) WithFd(fn func(fd int) error) error { return l.f.WithFd(fn) }

// ReadAt reads from the segment's .log file.
func (l *Lease) ReadAt(p []byte, off int64) (int, error) { return l.f.ReadAt(p, off) }

// Resident reports whether the whole range is in the page cache; it does no I/O.
func (l *Lease) Resident(off int64, n int) (bool, error) { return l.f.Resident(off, int64(n)) }

// Advise hints how a range will be used.
func (l *Lease) Advise(off int64, n int, a vfs.Advice) error { return l.f.Advise(off, int64(n), a) }

// Retain adds a holder: one more Release is due.
func (l *Lease) Retain() { l.refs.Add(1) }

// Release ends the lease.
func (l *Lease) Release() {
	if l.refs.Add(-1) == 0 {
		// Nothing is lost with the error: whatever needs to be durable has been synced before.
		_ = l.f.Close()
	}
}

// tryRetain adds a holder unless the file is already being closed.
func (l *Lease) tryRetain() bool {
	for {
		n := l.refs.Load()
		if n <= 0 {
			return false
		}
		if l.refs.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// acquire leases the file, opening it by open if need be. Two that open at once both do; one of them wins.
func (c *FileCache) acquire(ref *fileRef, open func() (vfs.File, error)) (*Lease, error) {
	for {
		if l := ref.open.Load(); l != nil && l.tryRetain() {
			if !l.used.Load() {
				l.used.Store(true)
			}
			return l, nil
		}
		f, err := open()
		if err != nil {
			return nil, err
		}
		if l := c.install(ref, f); l != nil {
			return l, nil
		}
		_ = f.Close() // another goroutine was first
	}
}

// install puts a newly opened file into the cache and leases it to the caller; nil when ref has got one meanwhile.
func (c *FileCache) install(ref *fileRef, f vfs.File) *Lease {
	l := &Lease{f: f, ref: ref}
	l.refs.Store(2)
	c.mu.Lock()
	if ref.open.Load() != nil {
		c.mu.Unlock()
		return nil
	}
	if ref.evicted != 0 && len(c.mu.slots) >= c.mu.bound && c.mu.evicted-ref.evicted < 2*uint32(c.mu.ceiling) {
		c.mu.bound = min(c.mu.bound+1, c.mu.ceiling)
	}
	victim := c.victimLocked()
	if victim != nil {
		c.mu.evicted = max(c.mu.evicted+1, 1)
		victim.ref.evicted = c.mu.evicted
		c.removeLocked(victim)
	}
	if ref.dead.Load() {
		l.refs.Store(1)
	} else {
		l.slot = len(c.mu.slots)
		c.mu.slots = append(c.mu.slots, l)
		ref.open.Store(l)
	}
	c.mu.Unlock()
	if victim != nil {
		victim.Release()
	}
	return l
}

// victimLocked picks the file to close, nil when there is room or all are leased. Two rounds: the first may only
// have taken away the marks.
func (c *FileCache) victimLocked() *Lease {
	n := len(c.mu.slots)
	if n < c.mu.bound {
		return nil
	}
	for range 2 * n {
		c.mu.hand = (c.mu.hand + 1) % n
		l := c.mu.slots[c.mu.hand]
		if l.refs.Load() == 1 && !l.used.Swap(false) {
			return l
		}
	}
	return nil
}

func (c *FileCache) removeLocked(l *Lease) {
	last := len(c.mu.slots) - 1
	moved := c.mu.slots[last]
	c.mu.slots[l.slot], moved.slot = moved, l.slot
	c.mu.slots[last] = nil
	c.mu.slots = c.mu.slots[:last]
	l.ref.open.Store(nil)
}

// drop closes the file once its leases have ended. With dead it does not come back.
func (c *FileCache) drop(ref *fileRef, dead bool) {
	c.mu.Lock()
	if dead {
		ref.dead.Store(true)
	}
	l := ref.open.Load()
	if l != nil {
		c.removeLocked(l)
	}
	c.mu.Unlock()
	if l != nil {
		l.Release()
	}
}
