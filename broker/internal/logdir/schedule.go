package logdir

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/tidemark/tidemark/core/clock"
	"github.com/tidemark/tidemark/core/commitlog"
	"github.com/tidemark/tidemark/core/kafka"
)

// recover reads what the folder holds: after a clean stop the manifest alone, else every log.
func (r *dir) recover(ctx context.Context) error {
	r.initCleaner()
	stop := <-r.ahead
	ok := r.trusts(stop)
	if ok {
		r.mu.logs, r.order = stop.logs, stop.order
		r.noteStale()
		r.readLeft()
		r.clean = true
	} else if err := r.recoverAll(ctx, r.readPoints()); err != nil {
		return err
	}
	err := errors.Join(r.removeFile(cleanFile), r.removeFile(manifestFile))
	if !ok || stop.boot == "" { // a power loss must not bring them back; those of a boot have had their time then
		err = errors.Join(err, r.fs.SyncDir(r.path))
	}
	if err != nil {
		return fmt.Errorf("log folder %s: %w", r.path, err)
	}
	r.recovered = true
	return nil
}

// recoverAll opens every log of the folder, which makes it whole, several at once.
func (r *dir) recoverAll(ctx context.Context, points map[kafka.TopicPartition]writtenPoint) error {
	names, err := r.fs.ReadDir(r.path)
	if err != nil {
		return fmt.Errorf("log folder %s: %w", r.path, err)
	}
	recovery, start := r.readCheckpoint(recoveryFile), r.readCheckpoint(startFile)
	var todo []kafka.TopicPartition
	for _, n := range names {
		if tp, ok := parseFolder(n.Name); ok && n.IsDir {
			todo = append(todo, tp)
		} else if n.IsDir && strings.HasSuffix(n.Name, deleteSuffix) {
			r.mu.deleted = append(r.mu.deleted, deletion{path: path.Join(r.path, n.Name)})
		}
	}
	began := time.Now()
	threads := max(int(r.d.o.Config.Now().NumRecoveryThreadsPerDataDir), 1)
	queue := make(chan kafka.TopicPartition)
	var wg sync.WaitGroup
	for range threads {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for tp := range queue {
				r.recoverLog(tp, start[tp], recovery[tp], points[tp])
			}
		}()
	}
	for _, tp := range todo {
		if ctx.Err() != nil {
			break
		}
		queue <- tp
	}
	close(queue)
	wg.Wait()
	if ctx.Err() == nil {
		r.noteStale(recovery, start)
	}
	for _, tp := range todo {
		e, _ := r.entry(tp)
		r.order = append(r.order, found{tp, e.topicID()})
	}
	if len(todo) > 0 {
		r.d.o.Logger.Info("log folder recovered", "folder", r.path, "logs", len(todo), "took", time.Since(began).Round(time.Millisecond))
	}
	return ctx.Err()
}

func (r *dir) recoverLog(tp kafka.TopicPartition, start, recovery kafka.Offset, point writtenPoint) {
	e := &entry{start: start, recovery: recovery}
	o := commitlog.Options{Env: r.env, Config: &commitlog.Config{}, Dir: path.Join(r.path, tp.String()),
		StartOffset: start, RecoveryPoint: recovery, WrittenPoint: point.offset, WrittenTopicID: point.id,
		CleanedTo: r.knownCleaned(tp)}
	l, err := commitlog.Open(o)
	if isFull(err) {
		// Indexes that are made again need a little room: it has been kept back for such a time.
		r.noRoom(err)
		if err = r.removeFile(reserveFile); err == nil {
			l, err = commitlog.Open(o)
		}
	}
	if err != nil {
		// It is tried again at its first use, which answers KAFKA_STORAGE_ERROR if it fails again.
		r.d.o.Logger.Error("log cannot be recovered", "folder", path.Join(r.path, tp.String()), "error", err)
	} else {
		e.log = l
		_ = l.Rest()
	}
	r.mu.Lock()
	r.mu.logs[tp] = e
	r.mu.Unlock()
}

// failed judges an error of a file call. A full disk is no failed disk (full.go), unless an fsync says so. Every other error
// of the device takes the folder offline; it is never tried again.
func (r *dir) failed(err error) {
	switch {
	case errors.Is(err, commitlog.ErrFlush):
	case isFull(err):
		r.noRoom(err)
		return
	case errors.Is(err, commitlog.ErrClosed), errors.Is(err, commitlog.ErrCorrupt):
		r.d.o.Logger.Error("log error", "folder", r.path, "error", err)
		return
	case !errors.Is(err, syscall.EIO) && !errors.Is(err, syscall.EROFS) && !errors.Is(err, syscall.ENODEV) && !errors.Is(err, syscall.ENXIO):
		r.complain(err)
		return
	}
	r.fail(err)
}

// fail takes the folder offline.
func (r *dir) fail(err error) {
	if r.offline.Swap(true) {
		return
	}
	r.d.o.Logger.Error("log folder goes offline", "folder", r.path, "error", err)
	for _, o := range r.owners() {
		o.Fail()
	}
	all := true
	for _, other := range r.d.dirs {
		all = all && other.offline.Load()
	}
	if r.d.o.Failed != nil {
		r.d.o.Failed(r.path, err, all)
	}
}

// owners lists what stands over the open logs.
func (r *dir) owners() (list []Owner) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.mu.logs {
		if e.owner != nil {
			list = append(list, e.owner)
		}
	}
	return list
}

// schedule is the folder's goroutine: work that a roll left, retention, flushes, checkpoints, deletions.
func (r *dir) schedule() {
	defer close(r.done)
	cfg := r.d.o.Config
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	retention, checkpoint := newEvery(cfg.LogRetentionCheckIntervalMS), newEvery(int64(cfg.LogFlushOffsetCheckpointIntervalMS))
	for {
		select {
		case <-r.stop:
			r.doWork(math.MaxInt64)
			return
		case <-r.wake:
		case <-tick.C:
		}
		r.doWork(workTimeLimit)
		if r.offline.Load() {
			continue
		}
		now := r.d.o.ElapsedMS()
		r.complaints(now)
		r.trimFiles(now)
		r.rest(now)
		r.checkRoom()
		r.remove(now)
		r.flushAgain()
		r.flushDue(now)
		if retention.due(now) {
			r.retain(r.d.o.NowMS())
		}
		if moved := r.startMoved.Swap(false); checkpoint.due(now) || moved {
			if err := errors.Join(r.markLogs(), r.checkpoint()); err != nil {
				r.failed(err)
			}
		}
		r.cleanDue(now)
	}
}

// every says when something is due again. It counts on the monotonic clock, as all intervals of the schedule do: the wall clock may be
// set back by hours. What is compared with timestamps of records and files is the wall clock's.
type every struct{ intervalMS, last int64 }

func newEvery(intervalMS int64) *every { return &every{intervalMS: intervalMS} }

func (e *every) due(now int64) bool {
	if e.last == 0 {
		e.last = now
	}
	if e.intervalMS <= 0 || now-e.last < e.intervalMS {
		return false
	}
	e.last = now
	return true
}

// workTimeLimit bounds how long one turn of the schedule runs what the append path left: logs that roll faster than their
// segments are flushed must not keep retention and the rest waiting. The rest of the work waits for the next turn.
const workTimeLimit = 200 * time.Millisecond

// doWork runs what the append path left, for as long as limit allows. A failed flush is a failed disk. The newest comes
// first: what makes a segment durable does so for those of its log before it, whose turn then costs nothing.
func (r *dir) doWork(limit time.Duration) {
	r.mu.Lock()
	list := r.mu.work
	r.mu.work = nil
	r.mu.Unlock()
	for began := time.Now(); len(list) > 0; list = list[:len(list)-1] {
		if time.Since(began) > limit {
			r.mu.Lock()
			r.mu.work = append(list, r.mu.work...)
			r.mu.Unlock()
			r.poke()
			return
		}
		w := list[len(list)-1]
		if r.offline.Load() {
			continue
		}
		if err := w.run(); err != nil && !errors.Is(err, commitlog.ErrClosed) && !r.isGone(w.log) {
			r.failed(err)
		}
	}
}

// removeTimeLimit bounds how long one turn of the schedule, or a stop, removes deleted logs. The rest waits for the next.
const removeTimeLimit = 200 * time.Millisecond

// removeAgainMS is after how long a deleted log that could not be removed is tried again.
const removeAgainMS = 60_000

// remove unlinks deleted logs whose delay is over.
func (r *dir) remove(now int64) {
	r.mu.Lock()
	var due []deletion
	keep := r.mu.deleted[:0]
	for _, d := range r.mu.deleted {
		if d.at <= now {
			due = append(due, d)
		} else {
			keep = append(keep, d)
		}
	}
	clear(r.mu.deleted[len(keep):])
	r.mu.deleted = keep
	r.mu.Unlock()
	for i, began := 0, time.Now(); i < len(due); i++ {
		if time.Since(began) > removeTimeLimit {
			r.mu.Lock()
			r.mu.deleted = append(r.mu.deleted, due[i:]...)
			r.mu.Unlock()
			r.poke()
			return
		}
		d := due[i]
		if d.log != nil {
			d.log.Abandon()
			r.mu.Lock()
			delete(r.mu.gone, d.log)
			r.mu.Unlock()
		}
		if err := r.fs.RemoveAll(d.path); err != nil {
			r.d.o.Logger.Warn("deleted log cannot be removed; that is tried again", "folder", d.path, "error", err)
			r.mu.Lock()
			r.mu.deleted = append(r.mu.deleted, deletion{path: d.path, at: clock.Later(now, removeAgainMS)})
			r.mu.Unlock()
		}
	}
}

// leave removes what deleted logs a stop has time for, whatever their delay, and writes down the others for the next start, durably:
// a clean one does not look at the folders, after a power loss neither.
func (r *dir) leave() error {
	r.remove(math.MaxInt64)
	r.mu.Lock()
	left := r.mu.deleted
	r.mu.deleted = nil
	r.mu.Unlock()
	if len(left) == 0 {
		return r.removeFile(leftFile)
	}
	var b []byte
	for _, d := range left {
		if d.log != nil {
			d.log.Abandon()
		}
		b = append(append(b, path.Base(d.path)...), '\n')
	}
	return r.writeFile(leftFile, b)
}

// readLeft reads what leave has written.
func (r *dir) readLeft() {
	b, err := r.readFile(leftFile)
	if err != nil {
		return
	}
	for name := range strings.Lines(string(b)) {
		if name = strings.TrimSuffix(name, "\n"); strings.HasSuffix(name, deleteSuffix) && path.Base(name) == name {
			r.mu.deleted = append(r.mu.deleted, deletion{path: path.Join(r.path, name)})
		}
	}
}

// flushDue flushes logs whose flush.ms is over. One that could not be flushed has its turn again the next time.
func (r *dir) flushDue(now int64) {
	for _, tp := range r.sortedFlushers(now) {
		e, ok := r.entry(tp)
		if !ok || e.log == nil || e.log.FlushedOffset() >= e.log.EndOffset() {
			continue
		}
		if _, err := e.log.Flush(); err != nil && !errors.Is(err, commitlog.ErrClosed) && !r.isGone(e.log) {
			r.failed(err)
			if r.offline.Load() {
				return
			}
			continue
		}
		r.mu.Lock()
		if p := r.mu.logs[tp]; p != nil {
			p.flushed = now
		}
		r.mu.Unlock()
	}
}

// sortedFlushers lists the open logs that have a flush.ms which is over.
func (r *dir) sortedFlushers(now int64) (list []kafka.TopicPartition) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for tp, e := range r.mu.logs {
		f, ok := e.owner.(flushesByTime)
		if !ok {
			continue
		}
		if ms := f.FlushMS(); now-e.flushed >= ms && ms < never { // 0 is each time
			list = append(list, tp)
		}
	}
	return list
}

// retain applies retention to every log, and expires idle producers.
func (r *dir) retain(now int64) {
	idle := r.d.idle.Load()
	for _, tp := range r.sorted() {
		e, ok := r.entry(tp)
		switch {
		case !ok || r.offline.Load():
		case e.log == nil || e.owner == nil:
			if idle != nil {
				(*idle)(tp, e.summary)
			}
		default:
			r.retainLog(e, now)
		}
	}
}

func (r *dir) retainLog(e entry, now int64) {
	before := e.log.StartOffset()
	_, roll, err := e.log.Retain(now, e.owner.HighWatermark())
	e.owner.Exclusive(func() {
		if roll && err == nil {
			err = e.log.Roll()
		}
		if p, perr := e.log.Producers(); perr == nil {
			p.Expire(now, int64(r.d.o.Config.Now().ProducerIDExpirationMS))
		}
	})
	if roll && err == nil {
		_, _, err = e.log.Retain(now, e.owner.HighWatermark())
	}
	if err != nil && !errors.Is(err, commitlog.ErrClosed) {
		r.failed(err)
	}
	if e.log.StartOffset() != before {
		e.owner.LogStartMoved()
	}
}
