package logdir

import (
	"cmp"
	"errors"
	"maps"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidemark/tidemark/core/commitlog"
	"github.com/tidemark/tidemark/core/compress"
	"github.com/tidemark/tidemark/core/kafka"
)

// cleaner compacts the logs of a folder. The schedule looks every log.cleaner.backoff.ms for logs that want it and starts
// log.cleaner.threads goroutines when there are any; they take the dirtiest first and end when nothing is left, so that a
// folder without compacted logs has none. They may block on files and on the throttle; the memory for keys and the
// throttle are shared out among all of them.
//
// A log that cannot be cleaned because it is damaged is left alone until the next start, as in Kafka.
type cleaner struct {
	due     every
	running sync.WaitGroup
	active  atomic.Int32 // goroutines

	// What operators watch.
	cleaned, readBytes, writtenBytes atomic.Int64
	endedMS                          atomic.Int64  // when a log was last cleaned, by ElapsedMS; 0 not since the start
	dirtiest                         atomic.Uint64 // math.Float64bits of the largest dirty ratio at the last look
	mu                               struct {
		sync.Mutex
		busy    map[*commitlog.Log]struct{}
		damaged map[*commitlog.Log]struct{}
		queue   []candidate
		known   map[kafka.TopicPartition]kafka.Offset // of cleaner-offset-checkpoint, of logs that are not open
		stopped bool
	}
}

// candidate is a log that wants to be cleaned.
type candidate struct {
	tp    kafka.TopicPartition
	entry entry
	dirty commitlog.Dirty
}

// errStopped ends a cleaning that waits for its throttle when the folder is closed.
var errStopped = errors.New("log folder is being closed")

// initCleaner reads what has been compacted before.
func (r *dir) initCleaner() {
	c := &r.cleaner
	c.mu.busy, c.mu.damaged = map[*commitlog.Log]struct{}{}, map[*commitlog.Log]struct{}{}
	if c.mu.known = r.readCheckpoint(cleanerFile); c.mu.known == nil {
		c.mu.known = map[kafka.TopicPartition]kafka.Offset{}
	}
}

// CleanedTo is the offset up to which a partition's log has been compacted, as far as that is known without opening it.
func (d *Dirs) CleanedTo(tp kafka.TopicPartition) kafka.Offset {
	r, e := d.find(tp)
	if r == nil {
		return 0
	}
	if e.log != nil {
		return e.log.CleanedTo()
	}
	return r.knownCleaned(tp)
}

// knownCleaned is what the checkpoint says of a log that is not open.
func (r *dir) knownCleaned(tp kafka.TopicPartition) kafka.Offset {
	r.cleaner.mu.Lock()
	defer r.cleaner.mu.Unlock()
	return r.cleaner.mu.known[tp]
}

// adoptCleaned gives a log that is being opened what the checkpoint says of it.
func (r *dir) adoptCleaned(tp kafka.TopicPartition, l *commitlog.Log) {
	r.cleaner.mu.Lock()
	off := r.cleaner.mu.known[tp]
	delete(r.cleaner.mu.known, tp)
	r.cleaner.mu.Unlock()
	if off > 0 && off <= l.EndOffset() && l.CleanedTo() == 0 {
		l.SetCleanedTo(off)
	}
}

// forgetCleaned lets go of a partition that is being deleted: nothing of its folder is touched after it returns.
func (r *dir) forgetCleaned(tp kafka.TopicPartition, l *commitlog.Log) {
	if l != nil {
		l.StopCleaning()
	}
	r.cleaner.mu.Lock()
	delete(r.cleaner.mu.known, tp)
	delete(r.cleaner.mu.damaged, l)
	r.cleaner.mu.Unlock()
}

// cleanDue starts the goroutines that are idle when something wants to be cleaned: one that is at a large log for hours holds up no
// other. [schedule]
func (r *dir) cleanDue(now int64) {
	cfg := r.d.o.Config.Now()
	r.cleaner.due.intervalMS = max(cfg.LogCleanerBackoffMS, 1)
	threads := max(int(cfg.LogCleanerThreads), 1)
	idle := threads - int(r.cleaner.active.Load())
	if !r.cleaner.due.due(now) || !cfg.LogCleanerEnable || idle <= 0 {
		return
	}
	list := r.dirtyLogs(r.d.o.NowMS())
	if len(list) == 0 {
		return
	}
	r.cleaner.mu.Lock()
	r.cleaner.mu.queue = list
	stopped := r.cleaner.mu.stopped
	r.cleaner.mu.Unlock()
	if stopped {
		return
	}
	share := int64(threads * len(r.d.dirs))
	codecs := compress.New()
	for range min(idle, len(list)) {
		r.cleaner.active.Add(1)
		r.cleaner.running.Go(func() {
			defer r.cleaner.active.Add(-1)
			r.cleanQueue(commitlog.NewCleaner(commitlog.CleanerOptions{
				DedupeBytes: cfg.LogCleanerDedupeBufferSize / share,
				LoadFactor:  cfg.LogCleanerIoBufferLoadFactor,
				BytesPerSec: cfg.LogCleanerIoMaxBytesPerSecond / float64(share),
				Codecs:      codecs,
				Wait:        r.cleanerWait,
			}))
		})
	}
}

// dirtyLogs lists the open logs that want to be cleaned and are not, the dirtiest first.
func (r *dir) dirtyLogs(now int64) []candidate {
	var list []candidate
	r.mu.Lock()
	for tp, e := range r.mu.logs {
		if e.log != nil && e.owner != nil && e.log.Config().Compact {
			list = append(list, candidate{tp: tp, entry: *e})
		}
	}
	r.mu.Unlock()
	wanted := list[:0]
	dirtiest := 0.0
	defer func() { r.cleaner.dirtiest.Store(math.Float64bits(dirtiest)) }()
	for _, c := range list {
		c.dirty = r.dirty(&c, now)
		dirtiest = max(dirtiest, c.dirty.Ratio())
		if c.dirty.Wanted(c.entry.log.Config()) && !r.isBusy(c.entry.log) {
			wanted = append(wanted, c)
		}
	}
	slices.SortFunc(wanted, func(a, b candidate) int {
		if a.dirty.Due != b.dirty.Due {
			return map[bool]int{true: -1, false: 1}[a.dirty.Due]
		}
		return cmp.Compare(b.dirty.Ratio(), a.dirty.Ratio())
	})
	return wanted
}

func (r *dir) isBusy(l *commitlog.Log) bool {
	r.cleaner.mu.Lock()
	defer r.cleaner.mu.Unlock()
	_, busy := r.cleaner.mu.busy[l]
	return busy
}

// dirty is what of a log can be cleaned: below the last stable offset.
func (r *dir) dirty(c *candidate, now int64) commitlog.Dirty {
	r.cleaner.mu.Lock()
	_, damaged := r.cleaner.mu.damaged[c.entry.log]
	r.cleaner.mu.Unlock()
	if damaged {
		return commitlog.Dirty{}
	}
	limit := c.entry.owner.HighWatermark()
	if o, ok := c.entry.owner.(interface{ LastStableOffset() kafka.Offset }); ok {
		limit = min(limit, o.LastStableOffset())
	}
	d, err := c.entry.log.Dirty(limit, now)
	if err != nil {
		r.cleanFailed(c, err)
		return commitlog.Dirty{}
	}
	return d
}

// cleanQueue is the life of one goroutine.
func (r *dir) cleanQueue(c *commitlog.Cleaner) {
	wrote := time.Now()
	for {
		r.cleaner.mu.Lock()
		if len(r.cleaner.mu.queue) == 0 || r.cleaner.mu.stopped || r.offline.Load() {
			r.cleaner.mu.Unlock()
			break
		}
		next := r.cleaner.mu.queue[0]
		r.cleaner.mu.queue = r.cleaner.mu.queue[1:]
		if _, busy := r.cleaner.mu.busy[next.entry.log]; busy { // another took it from the list before this one
			r.cleaner.mu.Unlock()
			continue
		}
		r.cleaner.mu.busy[next.entry.log] = struct{}{}
		r.cleaner.mu.Unlock()
		err := r.cleanLog(c, &next)
		r.cleaner.mu.Lock()
		delete(r.cleaner.mu.busy, next.entry.log)
		r.cleaner.mu.Unlock()
		if err != nil {
			r.cleanFailed(&next, err)
		}
		if time.Since(wrote) > time.Second { // what is lost with a crash is cleaned again
			r.writeCleaned()
			wrote = time.Now()
		}
	}
	r.writeCleaned()
}

// cleanLog cleans one log, in as many steps as the map of keys makes of it.
func (r *dir) cleanLog(c *commitlog.Cleaner, n *candidate) error {
	for {
		now := r.d.o.NowMS()
		d := r.dirty(n, now)
		if !d.Wanted(n.entry.log.Config()) || r.isGone(n.entry.log) {
			return nil
		}
		var producers []commitlog.ProducerState
		var err error
		n.entry.owner.Exclusive(func() {
			var p *commitlog.Producers
			if p, err = n.entry.log.Producers(); err == nil {
				producers = p.Active()
			}
		})
		if err != nil {
			return err
		}
		began := time.Now()
		done, err := c.Clean(n.entry.log, commitlog.Cleaning{Until: d.Until, Producers: producers, NowMS: now})
		if err != nil {
			return err
		}
		r.cleaner.cleaned.Add(1)
		r.cleaner.readBytes.Add(done.ReadBytes)
		r.cleaner.writtenBytes.Add(done.WrittenBytes)
		r.cleaner.endedMS.Store(max(r.d.o.ElapsedMS(), 1))
		r.d.o.Logger.Debug("log compacted", "partition", n.tp.String(), "from", done.From, "to", done.To, "readBytes", done.ReadBytes,
			"writtenBytes", done.WrittenBytes, "segments", done.SegmentsBefore, "now", done.SegmentsNow, "took", time.Since(began).Round(time.Millisecond))
		if done.To <= done.From {
			return nil
		}
	}
}

// cleanFailed judges an error. A log that was closed or deleted meanwhile is none, and no room to compact in is no full
// folder: appends go on.
func (r *dir) cleanFailed(c *candidate, err error) {
	switch {
	case errors.Is(err, commitlog.ErrClosed), errors.Is(err, errStopped), r.isGone(c.entry.log):
	case isFull(err):
		r.d.o.Logger.Warn("there is no room to compact a log", "partition", c.tp.String(), "error", err)
	case errors.Is(err, commitlog.ErrCorrupt):
		r.cleaner.mu.Lock()
		r.cleaner.mu.damaged[c.entry.log] = struct{}{}
		r.cleaner.mu.Unlock()
		r.d.o.Logger.Error("log is damaged and not compacted until the next start", "partition", c.tp.String(), "error", err)
	default:
		r.failed(err)
	}
}

// cleanerWait waits for the throttle.
func (r *dir) cleanerWait(d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-r.stop:
		return errStopped
	case <-t.C:
		return nil
	}
}

// stopCleaner ends all cleaning and waits for it.
func (r *dir) stopCleaner() {
	r.cleaner.mu.Lock()
	r.cleaner.mu.stopped = true
	busy := slices.Collect(maps.Keys(r.cleaner.mu.busy))
	r.cleaner.mu.Unlock()
	for _, l := range busy {
		l.StopCleaning()
	}
	r.cleaner.running.Wait()
}

// writeCleaned writes cleaner-offset-checkpoint.
func (r *dir) writeCleaned() {
	r.checkpoints.Lock()
	defer r.checkpoints.Unlock()
	if err := r.writeFiles(true, r.cleanedFile()); err != nil && !r.offline.Load() {
		r.failed(err)
	}
}

// cleanedFile is what cleaner-offset-checkpoint is to hold. [checkpoints]
func (r *dir) cleanedFile() file {
	r.cleaner.mu.Lock()
	known := maps.Clone(r.cleaner.mu.known)
	r.cleaner.mu.Unlock()
	var text checkpointText
	for _, tp := range r.sorted() {
		off := known[tp]
		if e, ok := r.entry(tp); ok && e.log != nil && e.log.CleanedTo() > 0 {
			off = e.log.CleanedTo()
		}
		if off > 0 {
			text.add(tp, off)
		}
	}
	return text.file(cleanerFile)
}
