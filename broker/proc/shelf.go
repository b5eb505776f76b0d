package proc

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// shelf is a folder of built binaries that processes share, each named for what is in it:
//
//	tidemark-0123456789abcdef    whoever runs it holds a shared lock on it until the process ends
//	build-*                      being built, under an exclusive lock of the builder's
//
// What nobody holds a lock on is removed by the next process, but for the binaries used last. So a killed process leaves
// nothing for long, and no binary goes while it may still be started.
type shelf struct{ dir string }

// shelfKeeps is how many binaries stay on a shelf that nobody uses: two trees that are tested in turns find theirs.
const shelfKeeps = 2

const (
	shelfBinary = "tidemark-"
	shelfBuild  = "build-"
)

// take has build write a binary to a path and returns the path at which it stays for as long as this process lives.
func (s shelf) take(build func(path string) error) (string, error) {
	if err := os.MkdirAll(s.dir, 0o755); err != nil {
		return "", err
	}
	room, leave, err := s.room()
	if err != nil {
		return "", err
	}
	defer leave()
	fresh := filepath.Join(room, "tidemark")
	if err := build(fresh); err != nil {
		return "", err
	}
	sum, err := hashOf(fresh)
	if err != nil {
		return "", err
	}
	path := filepath.Join(s.dir, shelfBinary+sum[:16])
	for range 10 { // each round but the first follows a removal by another process
		err := os.Link(fresh, path) // unlike a rename it takes no file away that another process has locked
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return "", err
		}
		if s.hold(path) {
			return path, nil
		}
	}
	return "", fmt.Errorf("%s does not stay", path)
}

// room clears the shelf and makes a folder on it to build in, one process at a time: one that is made and not locked yet
// would look left behind.
func (s shelf) room() (dir string, leave func(), err error) {
	if gate, err := lock(s.dir, unix.LOCK_EX); err == nil {
		defer unix.Close(gate)
	}
	s.clear()
	if dir, err = os.MkdirTemp(s.dir, shelfBuild); err != nil {
		return "", nil, err
	}
	held, failed := lock(dir, unix.LOCK_EX)
	return dir, func() {
		_ = os.RemoveAll(dir)
		if failed == nil {
			_ = unix.Close(held)
		}
	}, nil
}

// hold locks a binary for the rest of the process; false where it was removed before the lock was had.
func (s shelf) hold(path string) bool {
	fd, err := lock(path, unix.LOCK_SH)
	if err != nil {
		_, missing := os.Stat(path)
		return missing == nil // a file system without locks: nothing is ever removed from it
	}
	var locked, there unix.Stat_t
	if unix.Fstat(fd, &locked) != nil || unix.Stat(path, &there) != nil || locked.Ino != there.Ino || locked.Dev != there.Dev {
		_ = unix.Close(fd)
		return false
	}
	_ = unix.Futimes(fd, nil) // used now
	return true               // the descriptor stays open, and with it the lock, until the process ends
}

// clear removes what nobody uses.
func (s shelf) clear() {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return
	}
	var binaries []fs.FileInfo
	for _, e := range entries {
		info, err := e.Info()
		switch {
		case err != nil:
		case strings.HasPrefix(e.Name(), shelfBuild):
			s.remove(e.Name())
		case strings.HasPrefix(e.Name(), shelfBinary):
			binaries = append(binaries, info)
		}
	}
	slices.SortFunc(binaries, func(a, b fs.FileInfo) int { return b.ModTime().Compare(a.ModTime()) })
	for i, info := range binaries {
		if i >= shelfKeeps {
			s.remove(info.Name())
		}
	}
}

// remove removes an entry on which nobody holds a lock.
func (s shelf) remove(name string) {
	path := filepath.Join(s.dir, name)
	fd, err := lock(path, unix.LOCK_EX|unix.LOCK_NB)
	if err != nil {
		return
	}
	_ = os.RemoveAll(path)
	_ = unix.Close(fd)
}

// lock opens a file or folder and locks it; the lock ends with the descriptor, which no child inherits.
func lock(path string, how int) (fd int, err error) {
	if fd, err = unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
		return -1, err
	}
	for {
		if err = unix.Flock(fd, how); err == nil {
			return fd, nil
		}
		if !errors.Is(err, unix.EINTR) {
			_ = unix.Close(fd)
			return -1, err
		}
	}
}

func hashOf(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
