// Package vfstest breaks file systems for tests: Faulty lets a function look at every call before it is made and fail
// it, shorten it, or take a crash clone there; Disk has a limited size. Only tests import it.
//
// A Faulty is safe for concurrent use when its function is, a Disk always.
package vfstest

import (
	"io"

	"github.com/tidemark/tidemark/core/vfs"
)

// Op describes one call.
type Op struct {
	Kind  string // open, create, mkdir, remove, rename, readdir, stat, syncdir, lock, read, write, sync, truncate, preallocate, size
	Name  string
	Off   int64
	Bytes int
}

// Mutates reports whether the call changes what is stored, or syncs it.
func (o Op) Mutates() bool {
	switch o.Kind {
	case "create", "mkdir", "remove", "rename", "syncdir", "write", "sync", "truncate":
		return true
	}
	return false
}

// ShortWrite is an error that lets the first N bytes of a write through before it fails with Err.
type ShortWrite struct {
	N   int
	Err error
}

// Error implements error.
func (s ShortWrite) Error() string { return "short write: " + s.Err.Error() }

// Unwrap gives the cause.
func (s ShortWrite) Unwrap() error { return s.Err }

// Faulty passes calls to FS after Hook has allowed them; a Hook that returns an error makes the call fail with it.
type Faulty struct {
	FS   vfs.FS
	Hook func(Op) error
}

var _ vfs.FS = (*Faulty)(nil)

func (f *Faulty) open(kind, name string, open func() (vfs.File, error)) (vfs.File, error) {
	if err := f.Hook(Op{Kind: kind, Name: name}); err != nil {
		return nil, err
	}
	inner, err := open()
	if err != nil {
		return nil, err
	}
	return &file{File: inner, hook: f.Hook}, nil
}

func (f *Faulty) do(kind, name string, call func() error) error {
	if err := f.Hook(Op{Kind: kind, Name: name}); err != nil {
		return err
	}
	return call()
}

// Open implements vfs.FS.
func (f *Faulty) Open(name string) (vfs.File, error) {
	return f.open("open", name, func() (vfs.File, error) { return f.FS.Open(name) })
}

// Create implements vfs.FS.
func (f *Faulty) Create(name string) (vfs.File, error) {
	return f.open("create", name, func() (vfs.File, error) { return f.FS.Create(name) })
}

// OpenFile implements vfs.FS.
func (f *Faulty) OpenFile(name string, flag vfs.Flag) (vfs.File, error) {
	kind := "open"
	if flag&vfs.Create != 0 {
		kind = "create"
	}
	return f.open(kind, name, func() (vfs.File, error) { return f.FS.OpenFile(name, flag) })
}

// Mkdir implements vfs.FS.
func (f *Faulty) Mkdir(name string) error {
	return f.do("mkdir", name, func() error { return f.FS.Mkdir(name) })
}

// MkdirAll implements vfs.FS.
func (f *Faulty) MkdirAll(name string) error {
	return f.do("mkdir", name, func() error { return f.FS.MkdirAll(name) })
}

// Remove implements vfs.FS.
func (f *Faulty) Remove(name string) error {
	return f.do("remove", name, func() error { return f.FS.Remove(name) })
}

// RemoveAll implements vfs.FS.
func (f *Faulty) RemoveAll(name string) error {
	return f.do("remove", name, func() error { return f.FS.RemoveAll(name) })
}

// Rename implements vfs.FS.
func (f *Faulty) Rename(oldName, newName string) error {
	return f.do("rename", newName, func() error { return f.FS.Rename(oldName, newName) })
}

// SyncDir implements vfs.FS.
func (f *Faulty) SyncDir(name string) error {
	return f.do("syncdir", name, func() error { return f.FS.SyncDir(name) })
}

// SyncAll implements vfs.FS.
func (f *Faulty) SyncAll(name string) error {
	return f.do("syncall", name, func() error { return f.FS.SyncAll(name) })
}

// ReadDir implements vfs.FS.
func (f *Faulty) ReadDir(name string) ([]vfs.Info, error) {
	if err := f.Hook(Op{Kind: "readdir", Name: name}); err != nil {
		return nil, err
	}
	return f.FS.ReadDir(name)
}

// Stat implements vfs.FS.
func (f *Faulty) Stat(name string) (vfs.Info, error) {
	if err := f.Hook(Op{Kind: "stat", Name: name}); err != nil {
		return vfs.Info{}, err
	}
	return f.FS.Stat(name)
}

// Lock implements vfs.FS.
func (f *Faulty) Lock(name string) (io.Closer, error) {
	if err := f.Hook(Op{Kind: "lock", Name: name}); err != nil {
		return nil, err
	}
	return f.FS.Lock(name)
}

// FreeBytes implements vfs.FS.
func (f *Faulty) FreeBytes(dir string) (int64, error) { return f.FS.FreeBytes(dir) }

// TotalBytes implements vfs.FS.
func (f *Faulty) TotalBytes(dir string) (int64, error) { return f.FS.TotalBytes(dir) }

// file is an open file of a Faulty.
type file struct {
	vfs.File
	hook func(Op) error
}

func (f *file) ReadAt(p []byte, off int64) (int, error) {
	if err := f.hook(Op{Kind: "read", Name: f.Name(), Off: off, Bytes: len(p)}); err != nil {
		return 0, err
	}
	return f.File.ReadAt(p, off)
}

func (f *file) WriteAt(p []byte, off int64) (int, error) { return f.WriteVec(off, [][]byte{p}) }

func (f *file) WriteVec(off int64, bufs [][]byte) (int, error) {
	total := 0
	for _, b := range bufs {
		total += len(b)
	}
	err := f.hook(Op{Kind: "write", Name: f.Name(), Off: off, Bytes: total})
	if err == nil {
		return f.File.WriteVec(off, bufs)
	}
	short, ok := err.(ShortWrite)
	if !ok {
		return 0, err
	}
	done := 0
	for _, b := range bufs {
		b = b[:min(len(b), short.N-done)]
		n, err := f.File.WriteAt(b, off+int64(done))
		if done += n; err != nil || done == short.N {
			break
		}
	}
	return done, short.Err
}

func (f *file) do(kind string, call func() error) error {
	if err := f.hook(Op{Kind: kind, Name: f.Name()}); err != nil {
		return err
	}
	return call()
}

func (f *file) Sync() error     { return f.do("sync", f.File.Sync) }
func (f *file) SyncData() error { return f.do("sync", f.File.SyncData) }
func (f *file) Truncate(n int64) error {
	return f.do("truncate", func() error { return f.File.Truncate(n) })
}
func (f *file) Preallocate(off, n int64) error {
	return f.do("preallocate", func() error { return f.File.Preallocate(off, n) })
}
