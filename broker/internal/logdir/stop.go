package logdir

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/tidemark/tidemark/core/commitlog"
	"github.com/tidemark/tidemark/core/kafka"
)

// close ends the schedule, closes every log and writes what a clean start reads. A folder that is offline is left as it
// is.
func (r *dir) close() error {
	select {
	case <-r.stop:
		return nil
	default:
	}
	close(r.stop)
	if r.done != nil {
		<-r.done
	}
	r.flushed()
	r.stopCleaner()
	defer func() { _ = r.lock.Close() }()
	if r.offline.Load() {
		return nil
	}
	if !r.recovered {
		r.abandon()
		return nil
	}
	if err := r.leave(); err != nil {
		return err
	}
	if r.full.Load() {
		_ = r.removeFile(reserveFile) // what is written now is what it was kept for
	}
	list, err := r.closeLogs()
	if err != nil {
		return err
	}
	for _, m := range list {
		if m.summary == nil {
			// It could not be recovered: without the clean mark the next start tries all again.
			return r.checkpoint()
		}
	}
	return r.seal(list)
}

// abandon lets go of a folder whose start has not come to its end: what it has found so far is not all there is, so nothing is
// written, and the next start finds what this one has.
func (r *dir) abandon() {
	for _, tp := range r.sorted() {
		if e, ok := r.entry(tp); ok && e.log != nil {
			e.log.Abandon()
		}
	}
}

// syncEachUpTo is up to how many open logs a stop syncs each of them by itself, which costs up to eight fsyncs.
const syncEachUpTo = 64

// rereadBytes is how much a stop may leave to the system to write: a start reads so much again after a reboot, in about a
// second. Nobody has been promised that it is on disk: what tidemark.fsync=batch has acknowledged is.
const rereadBytes = 1 << 30

// closeLogs closes every log, several at once. The summary of one that could not be recovered is nil.
func (r *dir) closeLogs() ([]manifestEntry, error) {
	order := r.sorted()
	open := 0
	for _, tp := range order {
		if e, ok := r.entry(tp); ok && e.log != nil {
			open++
		}
	}
	if open > syncEachUpTo {
		r.flushPromised(order)
	}
	r.postpone.Store(open > syncEachUpTo)
	defer r.postpone.Store(false)
	list, errs := make([]manifestEntry, len(order)), make([]error, len(order))
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(len(order), flushWidth) {
		wg.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(order)); i = next.Add(1) - 1 {
				e, ok := r.entry(order[i])
				if !ok { // deleted meanwhile
					continue
				}
				list[i] = manifestEntry{order[i], e.summary}
				if e.log == nil {
					continue
				}
				if err := e.log.Close(); err != nil {
					errs[i] = fmt.Errorf("close log %s: %w", e.log.Dir(), err)
					continue
				}
				list[i].summary = e.log.Summary()
			}
		})
	}
	wg.Wait()
	return slices.DeleteFunc(list, func(m manifestEntry) bool { return m.tp.Topic == "" }), errors.Join(errs...)
}

// flushesByTime is an owner with a flush.ms.
type flushesByTime interface{ FlushMS() int64 }

// never is the flush.ms of a log that has none.
const never = math.MaxInt64

// flushPromised flushes the logs that have a flush.ms: what they hold would be on disk soon, were it not for the stop.
func (r *dir) flushPromised(order []kafka.TopicPartition) {
	for _, tp := range order {
		e, ok := r.entry(tp)
		if f, is := e.owner.(flushesByTime); !ok || !is || e.log == nil || f.FlushMS() == never || e.log.FlushedOffset() >= e.log.EndOffset() {
			continue
		}
		if _, err := e.log.Flush(); err != nil && !errors.Is(err, commitlog.ErrClosed) {
			r.d.o.Logger.Error("flush at the stop", "log", tp.String(), "error", err)
		}
	}
}

// seal writes the folder's own files, and sees to it that the logs are as they say.
func (r *dir) seal(list []manifestEntry) error {
	boot, unwritten := "", int64(0)
	for _, m := range list {
		unwritten += m.summary.Unsynced()
	}
	switch {
	case unwritten == 0:
	case unwritten <= rereadBytes && r.bootID != "":
		boot = r.bootID
	default:
		if err := r.fs.SyncAll(r.path); err != nil {
			return err
		}
		for _, m := range list {
			m.summary.Synced()
		}
	}
	r.mu.Lock()
	for _, m := range list {
		if e := r.mu.logs[m.tp]; e != nil { // nil: deleted meanwhile
			e.summary = m.summary
		}
	}
	r.mu.Unlock()
	if r.bootID != "" {
		b := append([]byte(r.bootID), '\n')
		for _, m := range list {
			b = appendPoint(b, m.tp, m.summary.Written, m.summary.TopicID)
		}
		if err := r.writeSoft(pointsFile, b); err != nil {
			return err
		}
	}
	r.checkpoints.Lock()
	defer r.checkpoints.Unlock()
	if err := r.writeFiles(true, append(r.checkpointFiles(), r.cleanedFile())...); err != nil {
		return err
	}
	return r.writeFiles(boot == "", file{manifestFile, appendManifest(nil, boot, list)}, file{cleanFile, []byte(`{"version":0,"brokerEpoch":-1}`)})
}
