package vfs

import (
	"io"
	"io/fs"
	"slices"
	"sync/atomic"
	"syscall"
)

// memFile is an open file of a Mem; Mem.mu guards its node.
type memFile struct {
	m        *Mem
	n        *memNode
	name     string
	readOnly bool
	closed   atomic.Bool
}

func (f *memFile) check(op string, write bool) error {
	switch {
	case f.closed.Load():
		return &fs.PathError{Op: op, Path: f.name, Err: ErrClosed}
	case write && f.readOnly:
		return &fs.PathError{Op: op, Path: f.name, Err: syscall.EBADF}
	}
	return nil
}

// ReadAt implements File.
func (f *memFile) ReadAt(p []byte, off int64) (int, error) {
	if err := f.check("read", false); err != nil {
		return 0, err
	}
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	if off < 0 || off > int64(len(f.n.data)) {
		return 0, io.EOF
	}
	n := copy(p, f.n.data[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// WriteAt implements File.
func (f *memFile) WriteAt(p []byte, off int64) (int, error) {
	if err := f.check("write", true); err != nil {
		return 0, err
	}
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	w := memWrite{off: off, data: p}
	f.n.data = w.apply(f.n.data)
	f.n.mod = f.m.now()
	if f.m.crashable && len(p) > 0 {
		w.data = slices.Clone(p)
		f.n.writes = append(f.n.writes, w)
	}
	return len(p), nil
}

// WriteVec implements File.
func (f *memFile) WriteVec(off int64, bufs [][]byte) (int, error) {
	if len(bufs) == 1 {
		return f.WriteAt(bufs[0], off)
	}
	return f.WriteAt(slices.Concat(bufs...), off)
}

// apply gives data after the write; it may change data in place.
func (w memWrite) apply(data []byte) []byte {
	end := w.off + int64(len(w.data))
	if w.data == nil {
		if end <= int64(len(data)) {
			return data[:end]
		}
	}
	if have := int64(len(data)); end > have {
		data = append(data, make([]byte, end-have)...)
	}
	copy(data[w.off:], w.data)
	return data
}

func (f *memFile) truncateLocked(n int64) {
	w := memWrite{off: n}
	f.n.data = w.apply(f.n.data)
	f.n.mod = f.m.now()
	if f.m.crashable {
		f.n.writes = append(f.n.writes, w)
	}
}

// Truncate implements File.
func (f *memFile) Truncate(n int64) error {
	if err := f.check("truncate", true); err != nil {
		return err
	}
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	f.truncateLocked(n)
	return nil
}

// Sync implements File.
func (f *memFile) Sync() error {
	if err := f.check("fsync", false); err != nil {
		return err
	}
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	if f.m.crashable {
		f.n.synced = slices.Clone(f.n.data)
		f.n.writes = nil
	}
	return nil
}

// SyncData implements File.
func (f *memFile) SyncData() error { return f.Sync() }

// Size implements File.
func (f *memFile) Size() (int64, error) {
	if err := f.check("stat", false); err != nil {
		return 0, err
	}
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	return int64(len(f.n.data)), nil
}

// Preallocate implements File.
func (f *memFile) Preallocate(int64, int64) error { return f.check("fallocate", true) }

// Advise implements File.
func (f *memFile) Advise(int64, int64, Advice) error { return f.check("fadvise", false) }

// SyncRange implements File.
func (f *memFile) SyncRange(int64, int64) error { return f.check("sync_file_range", false) }

// Resident implements File.
func (f *memFile) Resident(int64, int64) (bool, error) { return true, f.check("cachestat", false) }

// WithFd implements File.
func (f *memFile) WithFd(func(fd int) error) error { return ErrNoFd }

// Name implements File.
func (f *memFile) Name() string { return f.name }

// Close implements File.
func (f *memFile) Close() error {
	if f.closed.Swap(true) {
		return &fs.PathError{Op: "close", Path: f.name, Err: ErrClosed}
	}
	return nil
}
