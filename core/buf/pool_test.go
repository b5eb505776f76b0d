package buf

import (
	"strings"
	"sync"
	"testing"

	"github.com/tidemark/tidemark/core/invariants"
)

func TestGetSizes(t *testing.T) {
	p := NewPool()
	for _, c := range []struct{ n, cap int }{
		{0, 512}, {1, 512}, {512, 512}, {513, 1024}, {1 << 10, 1 << 10}, {1<<10 + 1, 1 << 11}, {1 << 20, 1 << 20},
		{1<<20 + 1, 4 << 20}, {4 << 20, 4 << 20}, {4<<20 + 1, 8 << 20}, {8<<20 + 1, 16 << 20}, {16 << 20, 16 << 20},
		{16<<20 + 1, 16<<20 + 1},
	} {
		b := p.Get(c.n)
		if len(b.B) != c.n || b.Cap() != c.cap {
			t.Errorf("Get(%d): len %d, Cap %d; want Cap %d", c.n, len(b.B), b.Cap(), c.cap)
		}
		b.Release()
	}
}

func TestBufferLivesUntilTheLastRelease(t *testing.T) {
	p := NewPool()
	b := p.Get(600)
	copy(b.B, "held")
	view := b.B[:4]
	b.Retain()
	b.Release()
	other := p.Get(600)
	copy(other.B, "else")
	if string(view) != "held" {
		t.Fatalf("a retained buffer was handed out again: %q", view)
	}
	b.Release()
	other.Release()
}

func TestResliceDoesNotShrinkThePool(t *testing.T) {
	p := NewPool()
	for range 100 {
		b := p.Get(1000)
		b.B = b.B[10:20]
		b.Release()
	}
	if b := p.Get(1000); len(b.B) != 1000 || b.Cap() != 1024 {
		t.Fatalf("len %d Cap %d", len(b.B), b.Cap())
	}
}

func TestMisuseIsABug(t *testing.T) {
	if !invariants.Enabled {
		t.Skip("needs -tags invariants")
	}
	bug := func(name string, f func(p *Pool)) {
		t.Helper()
		defer func() {
			if s, ok := recover().(string); !ok || !strings.HasPrefix(s, "bug:") {
				t.Errorf("%s: no bug was found", name)
			}
		}()
		f(NewPool())
	}
	bug("double release", func(p *Pool) { b := p.Get(1); b.Release(); b.Release() })
	bug("double release after reuse", func(p *Pool) { b := p.Get(1); b.Release(); p.Get(1); b.Release() })
	bug("retain after release", func(p *Pool) { b := p.Get(1); b.Release(); b.Retain() })
	bug("write after release", func(p *Pool) {
		for range 1000 { // sync.Pool drops some under the race detector
			b := p.Get(8)
			v := b.B
			b.Release()
			v[3] = 1
		}
	})
}

func TestReleasedBytesAreScribbled(t *testing.T) {
	if !invariants.Enabled {
		t.Skip("needs -tags invariants")
	}
	b := NewPool().Get(8)
	copy(b.B, "readable")
	v := b.B
	b.Release()
	if !invariants.Scribbled(v) {
		t.Fatalf("released bytes still read %q", v)
	}
}

func TestConcurrentHolders(t *testing.T) {
	p := NewPool()
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := range 500 {
				b := p.Get(512 << (i % 4))
				for j := range b.B {
					b.B[j] = byte(g)
				}
				b.Retain()
				done := make(chan bool)
				go func() {
					ok := true
					for _, c := range b.B {
						ok = ok && c == byte(g)
					}
					b.Release()
					done <- ok
				}()
				if !<-done {
					t.Error("another holder wrote to the buffer")
				}
				b.Release()
			}
		})
	}
	wg.Wait()
}

func TestSteadyStateAllocatesNothing(t *testing.T) {
	if invariants.Enabled {
		t.Skip("builds with invariants allocate")
	}
	p := NewPool()
	if n := testing.AllocsPerRun(1000, func() {
		a, b := p.Get(100), p.Get(70_000)
		a.Retain()
		a.Release()
		a.Release()
		b.Release()
	}); n > 0 {
		t.Fatalf("%v allocations", n)
	}
}

func BenchmarkGetRelease(b *testing.B) {
	p := NewPool()
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			p.Get(16 << 10).Release()
		}
	})
}
