package commitlog

import (
	"fmt"
	"testing"

	"github.com/tidemark/tidemark/core/vfs"
)

// cachedFiles opens n files around and around through a cache and counts the opens.
type cachedFiles struct {
	t     *testing.T
	c     *FileCache
	mem   *vfs.Mem
	refs  []fileRef
	opens int
}

func newCachedFiles(t *testing.T, n, limit int) *cachedFiles {
	f := &cachedFiles{t: t, c: NewFileCache(limit), mem: vfs.NewMem(nil), refs: make([]fileRef, n)}
	for i := range n {
		file, err := f.mem.Create(fmt.Sprint("/", i))
		if err != nil {
			t.Fatal(err)
		}
		_ = file.Close()
	}
	return f
}

func (f *cachedFiles) round() (opens int) {
	f.t.Helper()
	before := f.opens
	for i := range f.refs {
		l, err := f.c.acquire(&f.refs[i], func() (vfs.File, error) {
			f.opens++
			return f.mem.Open(fmt.Sprint("/", i))
		})
		if err != nil {
			f.t.Fatal(err)
		}
		l.Release()
	}
	return f.opens - before
}

// TestOpenFilesFollowTheirUse: files that are opened over and over stay open up to the ceiling; once unused, no more than the
// limit does.
func TestOpenFilesFollowTheirUse(t *testing.T) {
	f := newCachedFiles(t, 1000, 16)
	if f.round(); f.c.Open() != 16 {
		t.Errorf("%d files are open that were used once, want 16", f.c.Open())
	}
	f.round()
	f.round()
	if f.c.Open() != 16 {
		t.Errorf("%d files are open without a ceiling above the limit", f.c.Open())
	}
	f.c.SetCeiling(2000)
	f.round()
	f.round()
	if n := f.round(); n != 0 || f.c.Open() != 1000 {
		t.Errorf("in use over and over: %d opens in a round, %d files are open; want 0 and 1000", n, f.c.Open())
	}
	for range 20 {
		f.c.Trim()
		if n := f.round(); n != 0 {
			t.Fatalf("%d files in use were closed", n)
		}
	}
	for range idleTrims + 2 {
		f.c.Trim()
	}
	if f.c.Open() != 16 {
		t.Errorf("%d files are open that nobody uses, want 16", f.c.Open())
	}
}

// TestOpenFilesKeepToTheCeiling, one that falls too.
func TestOpenFilesKeepToTheCeiling(t *testing.T) {
	f := newCachedFiles(t, 500, 16)
	f.c.SetCeiling(300)
	for range 5 {
		f.round()
	}
	if n := f.c.Open(); n > 300 || n < 100 {
		t.Errorf("%d files are open, want up to 300", n)
	}
	f.c.SetCeiling(50)
	f.c.Trim()
	if f.c.Open() > 50 {
		t.Errorf("%d files are open beyond a lower ceiling", f.c.Open())
	}
}
