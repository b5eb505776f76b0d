package logdir

import (
	"errors"
	"syscall"
	"time"

	"github.com/tidemark/tidemark/core/commitlog"
)

// CountSockets says who knows how many connections the process has: they and the open files of segments share one limit.
// To be called before Start.
func (d *Dirs) CountSockets(f func() int) { d.sockets = f }

const (
	trimEveryMS = 1000
	// keptFiles is how many descriptors are left to other uses: listeners, indexes that are being read, new connections.
	keptFiles = 1500
	// maxOpenFiles bounds what a folder keeps open however high the process's limit is: the kernel takes about 1 KiB for each.
	maxOpenFiles = 16_384
)

// trimFiles closes files that are not used any more, and sets how many may be open while they are. [schedule]
func (r *dir) trimFiles(now int64) {
	if r.trim.intervalMS == 0 {
		r.trim.intervalMS = trimEveryMS
		r.env.Files.SetCeiling(r.ceiling())
	}
	if r.trim.due(now) {
		r.env.Files.SetCeiling(r.ceiling())
		r.env.Files.Trim()
	}
}

// ceiling is this folder's part of the descriptors that the process may have and does not need otherwise.
func (r *dir) ceiling() int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return openFiles
	}
	free := int(min(limit.Cur, 1<<30)) - keptFiles
	if r.d.sockets != nil {
		free -= r.d.sockets()
	}
	return min(max(free/len(r.d.dirs), openFiles), maxOpenFiles)
}

const (
	restEveryMS = 10_000
	// restTimeLimit bounds how long one turn of the schedule lays logs to rest; the others have theirs in the next.
	restTimeLimit = 200 * time.Millisecond
)

// rest takes back the memory and files of logs that have had no record for a while: what is left of them is a tenth of a
// log in use. [schedule]
func (r *dir) rest(now int64) {
	if r.idle.intervalMS == 0 {
		r.idle.intervalMS = restEveryMS
	}
	if !r.idle.due(now) {
		return
	}
	var idle []*entry
	r.mu.Lock()
	for _, e := range r.mu.logs {
		if e.log == nil || e.owner == nil {
			continue
		}
		switch end := e.log.EndOffset(); {
		case end != e.seen:
			e.seen, e.rested = end, false
		case !e.rested:
			idle = append(idle, e)
		}
	}
	r.mu.Unlock()
	began := time.Now()
	for _, e := range idle {
		if time.Since(began) > restTimeLimit || r.offline.Load() {
			return
		}
		r.restOne(e)
	}
}

func (r *dir) restOne(e *entry) {
	r.mu.Lock()
	l := e.log
	e.rested = true
	r.mu.Unlock()
	if l == nil {
		return
	}
	if err := l.Rest(); err != nil && !errors.Is(err, commitlog.ErrClosed) && !r.isGone(l) {
		r.mu.Lock()
		e.rested = false // the next turn tries again
		r.mu.Unlock()
		r.failed(err)
	}
}
