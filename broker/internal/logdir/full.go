package logdir

import (
	"errors"
	"path"
	"sync/atomic"
	"syscall"

	"github.com/tidemark/tidemark/core/vfs"
)

// A full disk (ENOSPC, EDQUOT on a write) is no failed one. The append was cut back; the folder takes no records until room
// is there again, while reads, retention and deletes go on. A preallocated file keeps back room for checkpoints and the
// metadata log: it goes when the disk is full, and comes back before the folder takes records again.
const (
	reserveFile = ".tidemark-reserve"
	// reserveBytes holds two generations of the checkpoints of 100,000 partitions.
	reserveBytes = 16 << 20
	// enoughBytes, or enoughShare of the file system if that is less, must be free for the folder to take records again.
	enoughBytes = 64 << 20
	enoughShare = 100
)

// Full is set while the folder takes no records for want of room.
func (l *Log) Full() *atomic.Bool { return &l.dir.full }

// noRoom takes the folder's records to an end. The schedule gives the reserve up, since the caller may hold a partition's
// append lock.
func (r *dir) noRoom(err error) {
	if r.full.Swap(true) {
		return
	}
	r.d.o.Logger.Error("log folder is full: it takes no records until 1% or 64 MiB of its disk are free", "folder", r.path, "error", err)
	r.poke()
}

func isFull(err error) bool { return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) }

// keepRoom makes the reserve. A disk without room for it is full.
func (r *dir) keepRoom() error {
	total, err := r.fs.TotalBytes(r.path)
	if err != nil {
		return err
	}
	f, err := r.fs.OpenFile(path.Join(r.path, reserveFile), vfs.Create)
	if err != nil {
		return err
	}
	return errors.Join(f.Preallocate(0, min(reserveBytes, total/enoughShare)), f.Close())
}

// checkRoom is the schedule's: it gives the reserve up once the disk is full and takes records again once it is not.
func (r *dir) checkRoom() {
	if !r.full.Load() {
		return
	}
	if err := r.removeFile(reserveFile); err != nil {
		r.d.o.Logger.Warn("the room kept back cannot be given up", "folder", r.path, "error", err)
	}
	free, err := r.fs.FreeBytes(r.path)
	total, err2 := r.fs.TotalBytes(r.path)
	if err = errors.Join(err, err2); err != nil {
		r.failed(err)
		return
	}
	if free < min(enoughBytes, total/enoughShare)+min(reserveBytes, total/enoughShare) {
		return
	}
	if err := r.keepRoom(); isFull(err) {
		return
	}
	r.full.Store(false)
	r.d.o.Logger.Info("log folder has room again and takes records", "folder", r.path, "freeBytes", free)
}

// poke wakes the schedule.
func (r *dir) poke() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}
