package logdir

import (
	"errors"
	"sync"
	"sync/atomic"

	"github.com/tidemark/tidemark/core/commitlog"
)

// flusher makes logs durable for partitions with tidemark.fsync=batch, in rounds: while one runs, the logs that ask gather
// for the next, so that one round covers all that came during the one before (group commit). A round takes every dirty
// file, and the folder entries of new ones. Its files are synced several at a time: the file system joins their commits.
//
// Its goroutine is started by the log that finds none, and ends when nothing is left; it may block on files.
type flusher struct {
	mu struct {
		sync.Mutex
		logs    []*Log
		again   []*Log // whose files could not be opened to be synced, for the schedule's next turn
		running bool
		idle    *sync.Cond // running has ended; nil until somebody waits
	}
	rounds, files atomic.Int64
}

// flushWidth is how many logs of a round are synced at once.
const flushWidth = 16

// FlushSoon asks for the log to be flushed by the next round; its owner is told by Flushed, or by Unflushed. It does not block.
func (l *Log) FlushSoon() {
	if l.queued.Swap(true) {
		return // the round that takes it off has not looked at the log's end yet
	}
	f := &l.dir.flush
	f.mu.Lock()
	f.mu.logs = append(f.mu.logs, l)
	start := !f.mu.running
	f.mu.running = true
	f.mu.Unlock()
	if start {
		go l.dir.flushRounds()
	}
}

func (r *dir) flushRounds() {
	f := &r.flush
	var spare []*Log
	for {
		f.mu.Lock()
		list := f.mu.logs
		f.mu.logs = spare[:0]
		if len(list) == 0 {
			f.mu.running = false
			if f.mu.idle != nil {
				f.mu.idle.Broadcast()
			}
			f.mu.Unlock()
			return
		}
		f.mu.Unlock()
		f.rounds.Add(1)
		f.files.Add(int64(len(list)))
		r.flushRound(list)
		clear(list)
		spare = list
	}
}

// flushRound flushes every log of a list.
func (r *dir) flushRound(list []*Log) {
	var next atomic.Int64
	work := func() {
		for i := next.Add(1) - 1; i < int64(len(list)); i = next.Add(1) - 1 {
			r.flushLog(list[i])
		}
	}
	var wg sync.WaitGroup
	for range min(len(list), flushWidth) - 1 {
		wg.Go(work)
	}
	work()
	wg.Wait()
}

func (r *dir) flushLog(l *Log) {
	l.queued.Store(false) // before the log's end is read: whoever finds it set is covered
	if r.offline.Load() {
		return
	}
	_, err := l.Flush()
	switch {
	case err == nil:
		if owner := r.ownerOf(l); owner != nil {
			owner.Flushed()
		}
	case !errors.Is(err, commitlog.ErrClosed) && !r.isGone(l.Log):
		r.failed(err)
		if !r.offline.Load() {
			r.flush.retry(l)
			if owner := r.ownerOf(l); owner != nil {
				owner.Unflushed()
			}
		}
	}
}

// retry keeps a log for the schedule, which flushes it once more: nobody may append to it again.
func (f *flusher) retry(l *Log) {
	if l.again.Swap(true) {
		return
	}
	f.mu.Lock()
	f.mu.again = append(f.mu.again, l)
	f.mu.Unlock()
}

// flushAgain asks for the logs that could not be flushed. [schedule]
func (r *dir) flushAgain() {
	f := &r.flush
	f.mu.Lock()
	list := f.mu.again
	f.mu.again = nil
	f.mu.Unlock()
	for _, l := range list {
		l.again.Store(false)
		l.FlushSoon()
	}
}

// ownerOf is what stands over a log, nil when it is in its place no more.
func (r *dir) ownerOf(l *Log) Owner {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e := r.mu.logs[l.tp]; e != nil && e.log == l.Log {
		return e.owner
	}
	return nil
}

// flushed waits until no round runs.
func (r *dir) flushed() {
	f := &r.flush
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.mu.idle == nil {
		f.mu.idle = sync.NewCond(&f.mu)
	}
	for f.mu.running {
		f.mu.idle.Wait()
	}
}

// isGone says whether a log has been deleted: then its files may be missing under their old names, and an error of it says
// nothing about the disk.
func (r *dir) isGone(l *commitlog.Log) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, gone := r.mu.gone[l]
	return gone
}
