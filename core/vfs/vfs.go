// Package vfs is the only way by which the broker touches files. It knows the real file system (OS), one in memory
// (Mem) and, in vfstest, ones that fail and that crash; the packages above it take an FS and never learn which.
//
// An FS and its Files are safe for concurrent use. Closing a File while another goroutine is inside one of its
// methods is safe too: the descriptor goes when the last of them has returned, so its number cannot be reused under
// a read that is still running.
//
// Every call that can wait for a disk may be passed through a Gate (see Gated): it parks goroutines, not threads,
// when a disk hangs. WithFd is the exception, since its callers wait for sockets inside it.
//
// Errors are those of the operating system, wrapped in *fs.PathError: errors.Is(err, fs.ErrNotExist),
// errors.Is(err, syscall.ENOSPC) and their like tell them apart.
package vfs

import (
	"errors"
	"io"
	"io/fs"
	"time"
)

// Flag says how OpenFile opens a file. Every file opens for reading and writing unless ReadOnly is given.
type Flag int

// Flags of OpenFile, joined by |.
const (
	ReadOnly Flag = 1 << iota // no writes
	Create                    // make the file when it is not there
	Excl                      // with Create: it must not be there
	Trunc                     // cut it to nothing
)

// Advice is a hint to the page cache about a range of a file.
type Advice int

// Advices of File.Advise.
const (
	WillNeed   Advice = iota // read it ahead
	DontNeed                 // drop it when it is clean
	Sequential               // read further ahead than usual
)

// Errors of this package.
var (
	// ErrTooLarge is answered by ReadFile for a file above its bound.
	ErrTooLarge = errors.New("the file is too large")
	// ErrNoFd is answered by WithFd when the file has no descriptor to lend: the caller copies instead.
	ErrNoFd = errors.New("this file has no descriptor")
	// ErrLocked is answered by Lock when another process holds the lock; the text names its pid where it is known.
	ErrLocked = errors.New("locked by another process")
	// ErrClosed is answered by every method of a closed file.
	ErrClosed = fs.ErrClosed
)

// Info describes one file or folder.
type Info struct {
	Name    string
	Size    int64
	ModTime time.Time
	IsDir   bool
}

// FS is a file system. Names are paths with forward slashes, absolute or relative to the process's folder.
type FS interface {
	// Open opens an existing file for reading only.
	Open(name string) (File, error)
	// Create makes a file, or empties the one that is there, and opens it for reading and writing.
	Create(name string) (File, error)
	// OpenFile opens a file as the flags say.
	OpenFile(name string, flag Flag) (File, error)
	// Mkdir makes one folder; its parent must exist.
	Mkdir(name string) error
	// MkdirAll makes a folder and the parents that are missing.
	MkdirAll(name string) error
	// Remove removes a file or an empty folder.
	Remove(name string) error
	// RemoveAll removes a file, or a folder with all that is in it; what is not there is no error.
	RemoveAll(name string) error
	// Rename moves a file or folder, replacing a file of the new name in one step.
	Rename(oldName, newName string) error
	// ReadDir lists a folder, sorted by name. Size and ModTime are not filled in: ask Stat.
	ReadDir(name string) ([]Info, error)
	// Stat describes one name.
	Stat(name string) (Info, error)
	// SyncDir makes the entries of a folder durable: files that were created, renamed or removed in it.
	SyncDir(name string) error
	// SyncAll makes durable all that has been written to the file system of a folder, whoever wrote it (syncfs): files and
	// folder entries. It takes the place of thousands of Sync and SyncDir.
	SyncAll(name string) error
	// Lock takes the advisory lock of a file (flock), makes the file if need be and writes the process's pid into
	// it. ErrLocked when another process has it. Closing releases it.
	Lock(name string) (io.Closer, error)
	// FreeBytes says how many bytes an unprivileged process may still write to the file system of a folder.
	FreeBytes(dir string) (int64, error)
	// TotalBytes says how large the file system of a folder is.
	TotalBytes(dir string) (int64, error)
}

// File is an open file. Reads and writes name their offset; there is no position.
type File interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	// WriteVec writes the buffers one behind the other at an offset by one pwritev (more than 1,024 buffers take
	// more calls). It returns how many bytes were written; fewer than all always come with an error.
	WriteVec(off int64, bufs [][]byte) (int, error)
	// Sync makes data and metadata durable (fsync).
	Sync() error
	// SyncData makes data durable, and of the metadata only what reading it back needs (fdatasync).
	SyncData() error
	// Truncate cuts or extends the file to n bytes.
	Truncate(n int64) error
	// Size is the file's length in bytes.
	Size() (int64, error)
	// Preallocate reserves room for n bytes at an offset without changing the file's size.
	Preallocate(off, n int64) error
	// Advise hints how a range will be used; n = 0 means to the end. Errors mean only that the hint was lost.
	Advise(off, n int64, a Advice) error
	// SyncRange starts writeback of a range without waiting for it. It may block when the device's queue is full
	// and promises nothing about durability.
	SyncRange(off, n int64) error
	// Resident reports whether a whole range is in the page cache, by cachestat(2) where the kernel has it, else by
	// reading the whole range with RWF_NOWAIT.
	Resident(off, n int64) (bool, error)
	// WithFd lends the descriptor for the length of fn, or answers ErrNoFd. It does not pass a Gate.
	WithFd(fn func(fd int) error) error
	// Name is the name by which the file was opened; a later Rename does not change it.
	Name() string
}
