package vfs

import (
	"io"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// maxIovecs is IOV_MAX of Linux.
const maxIovecs = 1024

// closing is the bit of osFile.users that Close sets; the bits below it count the calls inside.
const closing = 1 << 30

// osFile is a descriptor with a count of its users. os.File has the same count and also a poller, a finaliser and a
// position, which a log of many thousand files has no use for; and its WithFd twin, SyscallConn, allocates.
type osFile struct {
	fd    int
	users atomic.Int32
	name  string
}

func openFile(name string, mode int) (*osFile, error) {
	var fd int
	err := retry(func() (err error) {
		fd, err = unix.Open(name, mode|unix.O_CLOEXEC, 0o644)
		return err
	})
	if err != nil {
		return nil, pathError("open", name, err)
	}
	return &osFile{fd: fd, name: name}, nil
}

// enter keeps the descriptor from being closed until leave.
func (f *osFile) enter() error {
	if f.users.Add(1)&closing == 0 {
		return nil
	}
	f.leave()
	return ErrClosed
}

func (f *osFile) leave() {
	if f.users.Add(-1) == closing {
		// The last one out closes. Nobody can come in any more: enter sees the bit. A second one that saw the bit
		// and left again finds the sum at closing too, hence the swap that only one of them wins.
		if f.users.CompareAndSwap(closing, closing|closing>>1) {
			unix.Close(f.fd)
		}
	}
}

// do runs a system call on the descriptor, again when a signal interrupts it.
func (f *osFile) do(call func(fd int) error) error {
	if err := f.enter(); err != nil {
		return err
	}
	defer f.leave()
	return retry(func() error { return call(f.fd) })
}

// Close implements File.
func (f *osFile) Close() error {
	for {
		n := f.users.Load()
		if n&closing != 0 {
			return pathError("close", f.name, ErrClosed)
		}
		if f.users.CompareAndSwap(n, n+1|closing) {
			f.leave()
			return nil
		}
	}
}

// Name implements File.
func (f *osFile) Name() string { return f.name }

// ReadAt implements File.
func (f *osFile) ReadAt(p []byte, off int64) (int, error) {
	if err := f.enter(); err != nil {
		return 0, pathError("read", f.name, err)
	}
	defer f.leave()
	done := 0
	for done < len(p) {
		n, err := unix.Pread(f.fd, p[done:], off+int64(done))
		switch {
		case err == unix.EINTR:
		case err != nil:
			return done, pathError("read", f.name, err)
		case n == 0:
			return done, io.EOF
		default:
			done += n
		}
	}
	return done, nil
}

// WriteAt implements File.
func (f *osFile) WriteAt(p []byte, off int64) (int, error) {
	if err := f.enter(); err != nil {
		return 0, pathError("write", f.name, err)
	}
	defer f.leave()
	done := 0
	for done < len(p) {
		n, err := unix.Pwrite(f.fd, p[done:], off+int64(done))
		switch {
		case err == unix.EINTR:
		case err != nil:
			return done, pathError("write", f.name, err)
		case n == 0:
			return done, pathError("write", f.name, io.ErrShortWrite)
		default:
			done += n
		}
	}
	return done, nil
}

// WriteVec implements File. After a short write the rest is written piece by piece, which either succeeds or tells
// why, ENOSPC mostly: the kernel reports an error only when not a single byte was written.
func (f *osFile) WriteVec(off int64, bufs [][]byte) (int, error) {
	if len(bufs) == 1 {
		return f.WriteAt(bufs[0], off)
	}
	if err := f.enter(); err != nil {
		return 0, pathError("write", f.name, err)
	}
	defer f.leave()
	done := 0
	for len(bufs) > 0 {
		part := bufs[:min(len(bufs), maxIovecs)]
		n, err := unix.Pwritev(f.fd, part, off+int64(done))
		if err == unix.EINTR {
			continue
		}
		done += max(n, 0)
		if err != nil {
			return done, pathError("write", f.name, err)
		}
		for _, b := range part {
			if n >= len(b) {
				n -= len(b)
				continue
			}
			more, err := f.WriteAt(b[n:], off+int64(done))
			if done += more; err != nil {
				return done, err
			}
			n = 0
		}
		bufs = bufs[len(part):]
	}
	return done, nil
}

// Sync implements File.
func (f *osFile) Sync() error { return f.wrap("fsync", unix.Fsync) }

// SyncData implements File.
func (f *osFile) SyncData() error { return f.wrap("fdatasync", unix.Fdatasync) }

// Truncate implements File.
func (f *osFile) Truncate(n int64) error {
	return f.wrap("truncate", func(fd int) error { return unix.Ftruncate(fd, n) })
}

// Size implements File.
func (f *osFile) Size() (int64, error) {
	var st unix.Stat_t
	err := f.wrap("stat", func(fd int) error { return unix.Fstat(fd, &st) })
	return st.Size, err
}

// Preallocate implements File. A file system that cannot reserve room is no error: the reservation is a hint.
func (f *osFile) Preallocate(off, n int64) error {
	err := f.do(func(fd int) error { return unix.Fallocate(fd, unix.FALLOC_FL_KEEP_SIZE, off, n) })
	if err == nil || err == unix.EOPNOTSUPP {
		return nil
	}
	return pathError("fallocate", f.name, err)
}

// Advise implements File.
func (f *osFile) Advise(off, n int64, a Advice) error {
	advice := [...]int{WillNeed: unix.FADV_WILLNEED, DontNeed: unix.FADV_DONTNEED, Sequential: unix.FADV_SEQUENTIAL}[a]
	return f.wrap("fadvise", func(fd int) error { return unix.Fadvise(fd, off, n, advice) })
}

// SyncRange implements File.
func (f *osFile) SyncRange(off, n int64) error {
	return f.wrap("sync_file_range", func(fd int) error {
		return unix.SyncFileRange(fd, off, n, unix.SYNC_FILE_RANGE_WRITE)
	})
}

// WithFd implements File.
func (f *osFile) WithFd(fn func(fd int) error) error {
	if err := f.enter(); err != nil {
		return pathError("use", f.name, err)
	}
	defer f.leave()
	return fn(f.fd)
}

func (f *osFile) wrap(op string, call func(fd int) error) error {
	if err := f.do(call); err != nil {
		return pathError(op, f.name, err)
	}
	return nil
}
