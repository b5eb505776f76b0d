package vfstest

import (
	"io/fs"
	"maps"
	"path"
	"strings"
	"sync"
	"syscall"

	"github.com/tidemark/tidemark/core/vfs"
)

// Disk is a file system of a limited size: writes beyond it are cut short and fail with ENOSPC, what is removed or cut makes
// room again. Folders and names cost nothing, unless NamesCost says that a full disk takes no new ones.
type Disk struct {
	vfs.FS
	mu struct {
		sync.Mutex
		size, used int64
		namesCost  bool
		files      map[string]int64 // what each takes
	}
}

var _ vfs.FS = (*Disk)(nil)

// NewDisk measures what lies below the root "/" of inner and limits all to size bytes.
func NewDisk(inner vfs.FS, size int64) (*Disk, error) {
	d := &Disk{FS: inner}
	d.mu.size, d.mu.files = size, map[string]int64{}
	return d, d.measure("/")
}

// Over is a disk of the same size and use over a clone of the file system.
func (d *Disk) Over(inner vfs.FS) *Disk {
	d.mu.Lock()
	defer d.mu.Unlock()
	c := &Disk{FS: inner}
	c.mu.size, c.mu.used, c.mu.namesCost, c.mu.files = d.mu.size, d.mu.used, d.mu.namesCost, maps.Clone(d.mu.files)
	return c
}

func (d *Disk) measure(dir string) error {
	infos, err := d.FS.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, n := range infos {
		name := path.Join(dir, n.Name)
		if n.IsDir {
			if err := d.measure(name); err != nil {
				return err
			}
			continue
		}
		st, err := d.FS.Stat(name)
		if err != nil {
			return err
		}
		d.takeLocked(name, st.Size)
	}
	return nil
}

// Resize sets the size; less than what is used leaves no room.
func (d *Disk) Resize(size int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.mu.size = size
}

// NamesCost says whether a full disk takes no new files and folders either.
func (d *Disk) NamesCost(yes bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.mu.namesCost = yes
}

// Used is what all files take.
func (d *Disk) Used() int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.mu.used
}

func key(name string) string { return path.Join("/", name) }

// takeLocked sets what a file takes.
func (d *Disk) takeLocked(name string, bytes int64) {
	d.mu.used += bytes - d.mu.files[key(name)]
	d.mu.files[key(name)] = bytes
}

// grow makes a file take bytes in all, or as much of it as there is room for; it never shrinks.
func (d *Disk) grow(name string, bytes int64) (got int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	have := d.mu.files[key(name)]
	if bytes <= have {
		return bytes
	}
	bytes = max(min(bytes, have+d.mu.size-d.mu.used), have)
	d.takeLocked(name, bytes)
	return bytes
}

func full(op, name string) error { return &fs.PathError{Op: op, Path: name, Err: syscall.ENOSPC} }

// newName refuses a name that is not there when the disk is full and names cost.
func (d *Disk) newName(op, name string) error {
	d.mu.Lock()
	refused := d.mu.namesCost && d.mu.used >= d.mu.size
	d.mu.Unlock()
	if !refused {
		return nil
	}
	if _, err := d.FS.Stat(name); err == nil {
		return nil
	}
	return full(op, name)
}

// Create implements vfs.FS.
func (d *Disk) Create(name string) (vfs.File, error) { return d.OpenFile(name, vfs.Create|vfs.Trunc) }

// OpenFile implements vfs.FS.
func (d *Disk) OpenFile(name string, flag vfs.Flag) (vfs.File, error) {
	if flag&vfs.Create != 0 {
		if err := d.newName("open", name); err != nil {
			return nil, err
		}
	}
	f, err := d.FS.OpenFile(name, flag)
	if err != nil {
		return nil, err
	}
	if flag&vfs.Trunc != 0 {
		d.mu.Lock()
		d.takeLocked(name, 0)
		d.mu.Unlock()
	}
	return &diskFile{File: f, d: d}, nil
}

// Mkdir implements vfs.FS.
func (d *Disk) Mkdir(name string) error {
	if err := d.newName("mkdir", name); err != nil {
		return err
	}
	return d.FS.Mkdir(name)
}

// MkdirAll implements vfs.FS.
func (d *Disk) MkdirAll(name string) error {
	if err := d.newName("mkdir", name); err != nil {
		return err
	}
	return d.FS.MkdirAll(name)
}

// Remove implements vfs.FS.
func (d *Disk) Remove(name string) error {
	err := d.FS.Remove(name)
	if err == nil {
		d.gone(name)
	}
	return err
}

// RemoveAll implements vfs.FS.
func (d *Disk) RemoveAll(name string) error {
	err := d.FS.RemoveAll(name)
	if err == nil {
		d.gone(name)
	}
	return err
}

// gone frees what a file takes, or all files of a folder.
func (d *Disk) gone(name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for k, n := range d.mu.files {
		if k == key(name) || strings.HasPrefix(k, key(name)+"/") {
			d.mu.used -= n
			delete(d.mu.files, k)
		}
	}
}

// Rename implements vfs.FS. Files that are open under the old name go on under it, as far as room is concerned.
func (d *Disk) Rename(oldName, newName string) error {
	if err := d.FS.Rename(oldName, newName); err != nil {
		return err
	}
	d.gone(newName)
	d.mu.Lock()
	defer d.mu.Unlock()
	for k, n := range d.mu.files {
		if rest, ok := strings.CutPrefix(k, key(oldName)); ok && (rest == "" || rest[0] == '/') {
			delete(d.mu.files, k)
			d.mu.files[key(newName)+rest] = n
		}
	}
	return nil
}

// FreeBytes implements vfs.FS.
func (d *Disk) FreeBytes(string) (int64, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return max(d.mu.size-d.mu.used, 0), nil
}

// TotalBytes implements vfs.FS.
func (d *Disk) TotalBytes(string) (int64, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.mu.size, nil
}

// diskFile is an open file of a Disk.
type diskFile struct {
	vfs.File
	d *Disk
}

func (f *diskFile) WriteAt(p []byte, off int64) (int, error) { return f.WriteVec(off, [][]byte{p}) }

func (f *diskFile) WriteVec(off int64, bufs [][]byte) (int, error) {
	total := int64(0)
	for _, b := range bufs {
		total += int64(len(b))
	}
	fits := f.d.grow(f.Name(), off+total) - off
	if fits >= total {
		return f.File.WriteVec(off, bufs)
	}
	done := int64(0)
	for _, b := range bufs {
		b = b[:max(min(int64(len(b)), fits-done), 0)]
		if len(b) == 0 {
			break
		}
		n, err := f.File.WriteAt(b, off+done)
		if done += int64(n); err != nil {
			return int(done), err
		}
	}
	return int(done), full("write", f.Name())
}

func (f *diskFile) Truncate(n int64) error {
	err := f.File.Truncate(n)
	if err == nil {
		f.d.mu.Lock()
		f.d.takeLocked(f.Name(), min(n, f.d.mu.files[key(f.Name())]))
		f.d.mu.Unlock()
	}
	return err
}

func (f *diskFile) Preallocate(off, n int64) error {
	have := f.d.taken(f.Name())
	if f.d.grow(f.Name(), off+n) >= off+n {
		return f.File.Preallocate(off, n)
	}
	f.d.mu.Lock()
	f.d.takeLocked(f.Name(), have)
	f.d.mu.Unlock()
	return full("fallocate", f.Name())
}

func (d *Disk) taken(name string) int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.mu.files[key(name)]
}
