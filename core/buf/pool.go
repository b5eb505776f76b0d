package buf

import (
	"math/bits"
	"sync"
	"sync/atomic"

	"github.com/tidemark/tidemark/core/invariants"
)

// Size classes: powers of two from 512 B to 1 MiB, then 4, 8 and 16 MiB.
const (
	minClassBits   = 9                                // 512 B
	maxSmallBits   = 20                               // 1 MiB
	smallClasses   = maxSmallBits - minClassBits + 1  // 12
	firstLargeBits = 22                               // 4 MiB
	maxLargeBits   = 24                               // 16 MiB
	numClasses     = smallClasses + maxLargeBits - 21 // 15
	noClass        = -1
)

// Pool hands out buffers by size class. Make it with NewPool.
type Pool struct {
	classes [numClasses]sync.Pool // of *Buf whose mem has the class's size
}

// NewPool makes an empty pool.
func NewPool() *Pool { return &Pool{} }

// Get returns a buffer with len(B) == n and one reference. Its bytes are not zeroed. The memory that it takes is its
// Cap, up to twice n (four times above 1 MiB).
func (p *Pool) Get(n int) *Buf {
	class := classOf(n)
	if class == noClass {
		b := &Buf{mem: make([]byte, n), class: noClass}
		b.B = b.mem
		b.refs.Store(1)
		return b
	}
	b, ok := p.classes[class].Get().(*Buf)
	if !ok {
		b = &Buf{pool: p, mem: make([]byte, classBytes(class)), class: int8(class)}
	} else if invariants.Enabled {
		invariants.Check(invariants.Scribbled(b.mem), "buffer of %d bytes was written after its last release", len(b.mem))
	}
	b.B = b.mem[:n]
	b.refs.Store(1)
	return b
}

// Buf is a buffer with a count of its holders. Its only holder may reslice B within its capacity; the pool remembers
// the whole.
type Buf struct {
	B []byte
	// Kept is for one keeper of many slices of buffers that counts whole buffers: how many of them lie in this one. The
	// keeper's lock guards it.
	Kept  int32
	mem   []byte
	pool  *Pool
	refs  atomic.Int32
	class int8
}

// Retain adds a reference. Only who holds one may call it.
func (b *Buf) Retain() {
	if n := b.refs.Add(1); invariants.Enabled {
		invariants.Check(n > 1, "buffer retained after its last release")
	}
}

// Release gives a reference back; after the last one the bytes belong to the pool. One Release too many is a bug,
// found in builds with invariants.
func (b *Buf) Release() {
	n := b.refs.Add(-1)
	if n > 0 {
		return
	}
	if invariants.Enabled {
		b.retire(n)
		return
	}
	b.B = nil
	if b.class != noClass {
		b.pool.classes[b.class].Put(b)
	}
}

// retire is the last Release in builds with invariants. The memory goes back under a new Buf, so that this one stays
// dead and a second Release of it is seen even when the memory has a new holder.
func (b *Buf) retire(refs int32) {
	invariants.Check(refs == 0, "buffer released more often than retained")
	mem := b.mem
	b.B, b.mem = nil, nil
	invariants.Scribble(mem)
	if b.class != noClass {
		b.pool.classes[b.class].Put(&Buf{pool: b.pool, mem: mem, class: b.class})
	}
}

// Cap is the size that the buffer takes in memory, which a bound on memory counts.
func (b *Buf) Cap() int { return len(b.mem) }

// classOf gives the smallest class that holds n bytes, or noClass above the largest.
func classOf(n int) int {
	if n <= 1<<minClassBits {
		return 0
	}
	switch need := bits.Len(uint(n - 1)); {
	case need <= maxSmallBits:
		return need - minClassBits
	case need <= firstLargeBits:
		return smallClasses
	case need <= maxLargeBits:
		return smallClasses + need - firstLargeBits
	default:
		return noClass
	}
}

// classBytes is the size of a class's buffers.
func classBytes(class int) int {
	if class < smallClasses {
		return 1 << (minClassBits + class)
	}
	return 1 << (firstLargeBits + class - smallClasses)
}
