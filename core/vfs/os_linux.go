package vfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// OS is the real file system. The zero value is ready.
type OS struct{}

var _ FS = OS{}

// Open implements FS.
func (OS) Open(name string) (File, error) { return openFile(name, unix.O_RDONLY) }

// Create implements FS.
func (OS) Create(name string) (File, error) {
	return openFile(name, unix.O_RDWR|unix.O_CREAT|unix.O_TRUNC)
}

// OpenFile implements FS.
func (OS) OpenFile(name string, flag Flag) (File, error) {
	mode := unix.O_RDWR
	if flag&ReadOnly != 0 {
		mode = unix.O_RDONLY
	}
	if flag&Create != 0 {
		mode |= unix.O_CREAT
	}
	if flag&Excl != 0 {
		mode |= unix.O_EXCL
	}
	if flag&Trunc != 0 {
		mode |= unix.O_TRUNC
	}
	return openFile(name, mode)
}

// Mkdir implements FS.
func (OS) Mkdir(name string) error { return os.Mkdir(name, 0o755) }

// MkdirAll implements FS.
func (OS) MkdirAll(name string) error { return os.MkdirAll(name, 0o755) }

// Remove implements FS.
func (OS) Remove(name string) error { return os.Remove(name) }

// RemoveAll implements FS.
func (OS) RemoveAll(name string) error { return os.RemoveAll(name) }

// Rename implements FS.
func (OS) Rename(oldName, newName string) error { return os.Rename(oldName, newName) }

// ReadDir implements FS.
func (OS) ReadDir(name string) ([]Info, error) {
	entries, err := os.ReadDir(name)
	infos := make([]Info, len(entries))
	for i, e := range entries {
		infos[i] = Info{Name: e.Name(), IsDir: e.IsDir()}
	}
	return infos, err
}

// Stat implements FS.
func (OS) Stat(name string) (Info, error) {
	st, err := os.Stat(name)
	if err != nil {
		return Info{}, err
	}
	return Info{Name: st.Name(), Size: st.Size(), ModTime: st.ModTime(), IsDir: st.IsDir()}, nil
}

// SyncDir implements FS.
func (OS) SyncDir(name string) error {
	d, err := openFile(name, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	err = d.Sync()
	return errors.Join(err, d.Close())
}

// SyncAll implements FS.
func (OS) SyncAll(name string) error {
	d, err := unix.Open(name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return pathError("open", name, err)
	}
	if err = retry(func() error { return unix.Syncfs(d) }); err != nil {
		err = pathError("syncfs", name, err)
	}
	return errors.Join(err, unix.Close(d))
}

// FreeBytes implements FS.
func (OS) FreeBytes(dir string) (int64, error) {
	var st unix.Statfs_t
	if err := retry(func() error { return unix.Statfs(dir, &st) }); err != nil {
		return 0, pathError("statfs", dir, err)
	}
	return int64(st.Bavail) * st.Bsize, nil
}

// TotalBytes implements FS.
func (OS) TotalBytes(dir string) (int64, error) {
	var st unix.Statfs_t
	if err := retry(func() error { return unix.Statfs(dir, &st) }); err != nil {
		return 0, pathError("statfs", dir, err)
	}
	return int64(st.Blocks) * st.Bsize, nil
}

// lock is a held flock.
type lock struct{ f *osFile }

// Close releases the lock. The file stays: removing it would let two processes lock two files of one name.
func (l lock) Close() error { return l.f.Close() }

// Lock implements FS.
func (OS) Lock(name string) (io.Closer, error) {
	f, err := openFile(name, unix.O_RDWR|unix.O_CREAT)
	if err != nil {
		return nil, err
	}
	err = f.do(func(fd int) error { return unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB) })
	if err == nil {
		pid := strconv.Itoa(os.Getpid()) + "\n"
		if err = f.Truncate(0); err == nil {
			_, err = f.WriteAt([]byte(pid), 0)
		}
		if err == nil {
			return lock{f}, nil
		}
	}
	if errors.Is(err, unix.EWOULDBLOCK) {
		text := make([]byte, 32)
		n, _ := f.ReadAt(text, 0)
		holder := "by another process"
		if pid := strings.TrimSpace(string(text[:n])); pid != "" {
			holder = "by process " + pid
		}
		err = fmt.Errorf("%s is in use %s; stop it, or use another folder: %w", name, holder, ErrLocked)
	}
	return nil, errors.Join(err, f.Close())
}

// retry repeats a call that a signal has interrupted.
func retry(call func() error) error {
	for {
		if err := call(); err != unix.EINTR {
			return err
		}
	}
}

func pathError(op, name string, err error) error {
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return &fs.PathError{Op: op, Path: name, Err: errno}
	}
	return &fs.PathError{Op: op, Path: name, Err: err}
}
