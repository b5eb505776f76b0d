package vfs

import "io"

// Gated passes every call of an FS and of its files that can wait for a disk through a gate. WithFd, Name and Close
// of a file do not pass it.
func Gated(inner FS, g *Gate) FS { return gatedFS{inner, g} }

type gatedFS struct {
	fs FS
	g  *Gate
}

func (s gatedFS) file(f File, err error) (File, error) {
	if err != nil {
		return nil, err
	}
	return &gatedFile{f, s.g}, nil
}

func (s gatedFS) Open(name string) (File, error) {
	s.g.Enter()
	defer s.g.Leave()
	return s.file(s.fs.Open(name))
}

func (s gatedFS) Create(name string) (File, error) {
	s.g.Enter()
	defer s.g.Leave()
	return s.file(s.fs.Create(name))
}

func (s gatedFS) OpenFile(name string, flag Flag) (File, error) {
	s.g.Enter()
	defer s.g.Leave()
	return s.file(s.fs.OpenFile(name, flag))
}

func (s gatedFS) do(call func() error) error {
	s.g.Enter()
	defer s.g.Leave()
	return call()
}

func (s gatedFS) Mkdir(name string) error { return s.do(func() error { return s.fs.Mkdir(name) }) }
func (s gatedFS) MkdirAll(name string) error {
	return s.do(func() error { return s.fs.MkdirAll(name) })
}
func (s gatedFS) Remove(name string) error { return s.do(func() error { return s.fs.Remove(name) }) }
func (s gatedFS) RemoveAll(name string) error {
	return s.do(func() error { return s.fs.RemoveAll(name) })
}
func (s gatedFS) SyncDir(name string) error {
	s.g.countSync()
	return s.do(func() error { return s.fs.SyncDir(name) })
}
func (s gatedFS) SyncAll(name string) error {
	s.g.countSync()
	return s.do(func() error { return s.fs.SyncAll(name) })
}
func (s gatedFS) Rename(oldName, newName string) error {
	return s.do(func() error { return s.fs.Rename(oldName, newName) })
}

func (s gatedFS) ReadDir(name string) ([]Info, error) {
	s.g.Enter()
	defer s.g.Leave()
	return s.fs.ReadDir(name)
}

func (s gatedFS) Stat(name string) (Info, error) {
	s.g.Enter()
	defer s.g.Leave()
	return s.fs.Stat(name)
}

func (s gatedFS) Lock(name string) (io.Closer, error) {
	s.g.Enter()
	defer s.g.Leave()
	return s.fs.Lock(name)
}

func (s gatedFS) FreeBytes(dir string) (int64, error) {
	s.g.Enter()
	defer s.g.Leave()
	return s.fs.FreeBytes(dir)
}

func (s gatedFS) TotalBytes(dir string) (int64, error) {
	s.g.Enter()
	defer s.g.Leave()
	return s.fs.TotalBytes(dir)
}

type gatedFile struct {
	f File
	g *Gate
}

func (f *gatedFile) ReadAt(p []byte, off int64) (int, error) {
	f.g.Enter()
	defer f.g.Leave()
	return f.f.ReadAt(p, off)
}

func (f *gatedFile) WriteAt(p []byte, off int64) (int, error) {
	f.g.Enter()
	defer f.g.Leave()
	return f.f.WriteAt(p, off)
}

func (f *gatedFile) WriteVec(off int64, bufs [][]byte) (int, error) {
	f.g.Enter()
	defer f.g.Leave()
	return f.f.WriteVec(off, bufs)
}

func (f *gatedFile) do(call func() error) error {
	f.g.Enter()
	defer f.g.Leave()
	return call()
}

func (f *gatedFile) Sync() error            { f.g.countSync(); return f.do(f.f.Sync) }
func (f *gatedFile) SyncData() error        { f.g.countSync(); return f.do(f.f.SyncData) }
func (f *gatedFile) Truncate(n int64) error { return f.do(func() error { return f.f.Truncate(n) }) }
func (f *gatedFile) Preallocate(off, n int64) error {
	return f.do(func() error { return f.f.Preallocate(off, n) })
}
func (f *gatedFile) Advise(off, n int64, a Advice) error {
	return f.do(func() error { return f.f.Advise(off, n, a) })
}
func (f *gatedFile) SyncRange(off, n int64) error {
	return f.do(func() error { return f.f.SyncRange(off, n) })
}

func (f *gatedFile) Size() (int64, error) {
	f.g.Enter()
	defer f.g.Leave()
	return f.f.Size()
}

func (f *gatedFile) Resident(off, n int64) (bool, error) { return f.f.Resident(off, n) }
func (f *gatedFile) WithFd(fn func(fd int) error) error  { return f.f.WithFd(fn) }
func (f *gatedFile) Name() string                        { return f.f.Name() }
func (f *gatedFile) Close() error                        { return f.f.Close() }
