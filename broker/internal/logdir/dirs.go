package logdir

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidemark/tidemark/core/clock"
	"github.com/tidemark/tidemark/core/commitlog"
	"github.com/tidemark/tidemark/core/kafka"
	"github.com/tidemark/tidemark/core/vfs"
)

// Names of a log folder's own files.
const (
	metaFile     = "meta.properties"
	lockFile     = ".lock"
	cleanFile    = ".kafka_cleanshutdown"
	manifestFile = "tidemark-manifest"
	recoveryFile = "recovery-point-offset-checkpoint"
	startFile    = "log-start-offset-checkpoint"
	hwFile       = "replication-offset-checkpoint"
	cleanerFile  = "cleaner-offset-checkpoint"
	pointsFile   = "tidemark-written-points"
	leftFile     = "tidemark-deleted"
	deleteSuffix = "-delete"
	straySuffix  = "-stray"
)

// openFiles bounds the segment files that one log folder keeps open while few are in use.
const openFiles = 256

// Dirs is the broker's log folders.
type Dirs struct {
	o         Options
	dirs      []*dir
	clusterID string
	idle      atomic.Pointer[func(kafka.TopicPartition, *commitlog.Summary)]
	sockets   func() int // see CountSockets
	watch     watch
}

// dir is one log folder. Its schedule goroutine is started by Dirs.Start and ends in Close; it may block on files.
type dir struct {
	d       *Dirs
	number  int // of the folder, in the order of log.dirs
	path    string
	id      string // directory.id
	cluster string // of meta.properties, "" without it
	lock    io.Closer
	fs      vfs.FS
	gate    *vfs.Gate
	env     *commitlog.Env
	clean   bool
	offline atomic.Bool
	// recovered says that the start has seen all logs of the folder: without it a stop writes nothing.
	recovered bool
	// startMoved asks the schedule for a checkpoint: a log start was moved by a client.
	startMoved atomic.Bool
	full       atomic.Bool  // takes no records: full.go
	stalled    atomic.Bool  // its disk does not answer: stall.go
	stalledAt  atomic.Int64 // the calls it had answered when it was found stalled
	probes     atomic.Int64 // appends and first uses that it may still take
	silent     atomic.Int64 // for so many nanoseconds by now
	flush      flusher
	cleaner    cleaner
	bootID     string       // "" when the system does not tell
	ahead      chan stopped // what the last stop has left, read since the folder was opened
	order      []found      // the logs as the start has found them, until strays are looked for
	postpone   atomic.Bool
	trim, idle every // of the schedule
	said       said  // of errors
	// checkpoints is held while checkpoint files are written; it is taken before mu.
	checkpoints sync.Mutex
	mu          struct {
		sync.Mutex
		logs    map[kafka.TopicPartition]*entry
		deleted []deletion
		gone    map[*commitlog.Log]struct{} // deleted, and not yet closed
		work    []work
		stale   map[kafka.TopicPartition]struct{} // deleted, and still named by the checkpoint files
	}
	wake chan struct{}
	stop chan struct{}
	done chan struct{} // nil until the schedule runs
}

// entry is a partition's log in a folder: closed and known by its summary, or open.
type entry struct {
	summary  *commitlog.Summary
	start    kafka.Offset // from the checkpoints
	recovery kafka.Offset
	log      *commitlog.Log
	fresh    bool // made here, and not opened yet: its first use has failed
	owner    Owner
	flushed  int64        // when flush.ms last ran, by ElapsedMS
	seen     kafka.Offset // the log end at the last look for idle logs
	rested   bool         // the log has been idle since and has given its memory back
}

type deletion struct {
	path string
	log  *commitlog.Log
	at   int64 // when it is due, by ElapsedMS
}

type work struct {
	log *commitlog.Log
	run func() error
}

// Owner is what stands over an open log: a partition.
type Owner interface {
	// Exclusive runs fn while nothing is appended.
	Exclusive(fn func())
	HighWatermark() kafka.Offset
	LogStartMoved()
	// Flushed says that the log's flushed end may have moved.
	Flushed()
	// Unflushed says that a flush that was asked for has not come about, though nothing is known to be lost. It is tried again, and
	// nobody should wait for that.
	Unflushed()
	// Fail says that the folder has gone offline.
	Fail()
	// Stalled says that the folder's disk answers nothing. long: nor has it for longer than clients wait.
	Stalled(long bool)
}

// Log is an open log and its folder.
type Log struct {
	*commitlog.Log
	tp     kafka.TopicPartition
	dir    *dir
	queued atomic.Bool // for the flusher's next round
	again  atomic.Bool // for its round after the schedule's next turn
}

func open(o Options) (*Dirs, error) {
	if o.BootID == nil {
		o.BootID = clock.BootID
	}
	if o.ElapsedMS == nil {
		began := time.Now()
		o.ElapsedMS = func() int64 { return time.Since(began).Milliseconds() }
	}
	d := &Dirs{o: o}
	for i, p := range o.Dirs {
		r, err := d.openDir(p)
		if r != nil {
			r.number = i
		}
		if err != nil {
			for _, other := range d.dirs {
				_ = other.lock.Close()
			}
			return nil, err
		}
		d.dirs = append(d.dirs, r)
	}
	for _, r := range d.dirs {
		if r.cluster != "" {
			if d.clusterID != "" && d.clusterID != r.cluster {
				return nil, fmt.Errorf("log folder %s belongs to cluster %s, another one to %s", r.path, r.cluster, d.clusterID)
			}
			d.clusterID = r.cluster
		}
	}
	return d, nil
}

func (d *Dirs) openDir(p string) (*dir, error) {
	// A stalled disk parks goroutines at the gate, not threads in the kernel (BROKER 2).
	gate := vfs.NewGate(vfs.GateLimit)
	r := &dir{d: d, path: p, fs: vfs.Gated(d.o.FS, gate), gate: gate, wake: make(chan struct{}, 1), stop: make(chan struct{})}
	r.mu.logs = map[kafka.TopicPartition]*entry{}
	r.mu.gone = map[*commitlog.Log]struct{}{}
	if err := r.makeFolder(p); err != nil {
		return nil, fmt.Errorf("log folder %s: %w", p, err)
	}
	lock, err := r.fs.Lock(path.Join(p, lockFile))
	if errors.Is(err, vfs.ErrLocked) {
		return nil, fmt.Errorf("log folder %s is used by another broker: %w", p, err)
	}
	if err != nil {
		return nil, fmt.Errorf("lock log folder %s: %w", p, err)
	}
	r.lock = lock
	if err := r.readMeta(); err != nil {
		_ = lock.Close()
		return nil, err
	}
	r.env = &commitlog.Env{FS: r.fs, Pool: d.o.Pool, Tail: d.o.Tail, Files: commitlog.NewFileCache(openFiles), Logger: d.o.Logger,
		NowMS: d.o.NowMS, Later: r.later, Postpone: &r.postpone, Room: commitlog.NewRoom(d.o.Config.TidemarkRoomBytes)}
	r.bootID = d.o.BootID()
	r.readAhead()
	return r, nil
}

// later takes work off the append path; the schedule's goroutine does it.
func (r *dir) later(l *commitlog.Log, run func() error) {
	r.mu.Lock()
	r.mu.work = append(r.mu.work, work{l, run})
	r.mu.Unlock()
	r.poke()
}

// Open gives the log of a partition: the one that is there, or a new one in the folder that holds the fewest. A log of
// another topic id is an error.
func (d *Dirs) Open(tp kafka.TopicPartition, id kafka.TopicID, cfg *commitlog.Config) (*Log, error) {
	r, e := d.find(tp)
	if r != nil && e.fresh && r.offline.Load() { // it holds nothing; the next start finds it (strays.go)
		r.forget(tp)
		r = nil
	}
	if r == nil {
		if r = d.emptiest(); r == nil {
			return nil, fmt.Errorf("%w: every log folder is offline", kafka.KafkaStorageError)
		}
		if err := r.freshName(tp); err != nil {
			return nil, fmt.Errorf("open log %s: %w", tp, err)
		}
		e = &entry{fresh: true}
	}
	if r.offline.Load() {
		return nil, fmt.Errorf("%w: log folder %s is offline", kafka.KafkaStorageError, r.path)
	}
	if err := r.unnamed(e, id); err != nil {
		return nil, err
	}
	l := e.log
	if l == nil {
		o := commitlog.Options{Env: r.env, Config: cfg, Dir: path.Join(r.path, tp.String()), TopicID: id, StartOffset: e.start, RecoveryPoint: e.recovery,
			CleanedTo: r.knownCleaned(tp)}
		var err error
		if e.summary != nil && e.summary.TopicID == id {
			l, err = commitlog.OpenFromSummary(o, e.summary)
		} else {
			l, err = commitlog.Open(o)
		}
		if err != nil {
			r.failed(err)
			if e.fresh {
				r.unopened(tp, e)
			}
			return nil, fmt.Errorf("open log %s: %w", o.Dir, err)
		}
	} else {
		l.SetConfig(cfg)
	}
	if have := l.TopicID(); !have.IsZero() && have != id {
		return nil, fmt.Errorf("log %s belongs to topic id %s, not %s: move it away", l.Dir(), have, id)
	}
	r.adoptCleaned(tp, l)
	r.mu.Lock()
	e.log, e.summary, e.fresh = l, nil, false
	r.mu.logs[tp] = e
	r.mu.Unlock()
	return &Log{Log: l, tp: tp, dir: r}, nil
}

// Empty says, without opening anything, whether a partition's log holds no record: it was never made, or a clean stop noted
// it so. false means that it has to be opened to know.
func (d *Dirs) Empty(tp kafka.TopicPartition) bool {
	r, e := d.find(tp)
	if r == nil {
		return true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case e.log != nil:
		return e.log.StartOffset() == e.log.EndOffset()
	case e.summary != nil:
		return e.summary.Start == e.summary.End
	}
	return false
}

// Attach names the partition over a log, which the schedules need. The folder may have gone offline since the log was opened. Whoever
// takes it offline says so first and then looks for owners; here the owner is set first and then looked whether it is: one of the two
// tells the partition, or both.
func (l *Log) Attach(o Owner) {
	l.dir.mu.Lock()
	if e := l.dir.mu.logs[l.tp]; e != nil {
		e.owner = o
	}
	l.dir.mu.Unlock()
	if l.dir.offline.Load() {
		o.Fail()
	}
}

// Folder is the number of the log folder, in the order of log.dirs.
func (l *Log) Folder() int { return l.dir.number }

// Failed judges an error that a log answered: a failed disk takes the folder offline, a full one does not. A failed fsync is a failed
// disk.
func (l *Log) Failed(err error) { l.dir.failed(err) }

// FolderOf is the number of the log folder that holds a partition's log.
func (d *Dirs) FolderOf(tp kafka.TopicPartition) (number int, there bool) {
	if r, _ := d.find(tp); r != nil {
		return r.number, true
	}
	return 0, false
}

func (d *Dirs) find(tp kafka.TopicPartition) (*dir, *entry) {
	for _, r := range d.dirs {
		r.mu.Lock()
		e := r.mu.logs[tp]
		r.mu.Unlock()
		if e != nil {
			return r, e
		}
	}
	return nil, nil
}

// emptiest picks the folder for a new log: the one with the fewest. One without room is taken only when there is no other, one
// that does not answer only when all others are offline.
func (d *Dirs) emptiest() (best *dir) {
	n := 0
	for _, r := range d.dirs {
		if r.offline.Load() {
			continue
		}
		r.mu.Lock()
		have := len(r.mu.logs)
		r.mu.Unlock()
		if r.full.Load() {
			have += fullPenalty
		}
		if r.stalled.Load() {
			have += stalledPenalty
		}
		if best == nil || have < n {
			best, n = r, have
		}
	}
	return best
}

const (
	fullPenalty    = 1 << 40 // more than there are logs
	stalledPenalty = 1 << 41
)

// Delete renames a partition's folder, whose partition has been closed; it is removed after delayMS. A log of another topic id
// is an error.
func (d *Dirs) Delete(tp kafka.TopicPartition, id kafka.TopicID, delayMS int64) error {
	r, e := d.find(tp)
	if r == nil {
		return nil // never used
	}
	if e.fresh {
		if err := r.discard(tp); err != nil && !errors.Is(err, errHolds) {
			return fmt.Errorf("delete log %s: %w", tp, err)
		}
		r.forget(tp)
		return nil
	}
	if have := e.topicID(); !have.IsZero() && have != id {
		return fmt.Errorf("delete log %s: it belongs to topic id %s, not %s", tp, have, id)
	}
	if e.log != nil {
		r.mu.Lock()
		r.mu.gone[e.log] = struct{}{}
		r.mu.Unlock()
	}
	r.forgetCleaned(tp, e.log)
	to := path.Join(r.path, fmt.Sprintf("%s.%x%s", tp, id[:], deleteSuffix))
	if err := r.fs.Rename(path.Join(r.path, tp.String()), to); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("delete log %s: %w", tp, err)
	}
	if e.log != nil {
		e.log.Moved(to)
	}
	r.mu.Lock()
	r.deletedNameLocked(tp)
	delete(r.mu.logs, tp)
	r.mu.deleted = append(r.mu.deleted, deletion{to, e.log, clock.Later(d.o.ElapsedMS(), delayMS)})
	r.mu.Unlock()
	return nil
}

// topicID is the id of the log's topic, zero when it is not known.
func (e *entry) topicID() kafka.TopicID {
	switch {
	case e.log != nil:
		return e.log.TopicID()
	case e.summary != nil:
		return e.summary.TopicID
	}
	return kafka.TopicID{}
}

// OnIdle sets who is asked, at each check of retention, about a log that nobody has opened since the start.
func (d *Dirs) OnIdle(f func(kafka.TopicPartition, *commitlog.Summary)) { d.idle.Store(&f) }

// OpenFiles counts the segment files that are open.
func (d *Dirs) OpenFiles() (n int) {
	for _, r := range d.dirs {
		n += r.env.Files.Open()
	}
	return n
}

// Logs counts the logs that the folders hold.
func (d *Dirs) Logs() (n int) {
	for _, r := range d.dirs {
		r.mu.Lock()
		n += len(r.mu.logs)
		r.mu.Unlock()
	}
	return n
}

// parseFolder reads topic-partition; ok is false for any other name.
func parseFolder(name string) (tp kafka.TopicPartition, ok bool) {
	if strings.HasSuffix(name, deleteSuffix) || strings.HasSuffix(name, straySuffix) {
		return tp, false
	}
	i := strings.LastIndexByte(name, '-')
	if i <= 0 || name[:i] == kafka.MetadataTopic {
		return tp, false
	}
	n, err := strconv.ParseInt(name[i+1:], 10, 32)
	if err != nil || n < 0 || strconv.FormatInt(n, 10) != name[i+1:] {
		return tp, false
	}
	return kafka.TopicPartition{Topic: name[:i], Partition: kafka.Partition(n)}, true
}

func (r *dir) sorted() []kafka.TopicPartition {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := make([]kafka.TopicPartition, 0, len(r.mu.logs))
	for tp := range r.mu.logs {
		list = append(list, tp)
	}
	slices.SortFunc(list, func(a, b kafka.TopicPartition) int {
		if c := strings.Compare(a.Topic, b.Topic); c != 0 {
			return c
		}
		return int(a.Partition) - int(b.Partition)
	})
	return list
}

func (r *dir) entry(tp kafka.TopicPartition) (e entry, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p := r.mu.logs[tp]; p != nil {
		return *p, true
	}
	return e, false
}

func (d *Dirs) each(f func(r *dir) error) error {
	var all []error
	for _, r := range d.dirs {
		all = append(all, f(r))
	}
	return errors.Join(all...)
}

func (d *Dirs) adopt(clusterID string) error {
	d.clusterID = clusterID
	return d.each(func(r *dir) error { return r.adopt(clusterID) })
}

func (d *Dirs) recover(ctx context.Context) error {
	return d.each(func(r *dir) error { return r.recover(ctx) })
}

func (d *Dirs) start() {
	for _, r := range d.dirs {
		if err := r.keepRoom(); isFull(err) {
			r.noRoom(err)
		} else if err != nil {
			d.o.Logger.Warn("no room can be kept back for checkpoints on a full disk", "folder", r.path, "error", err)
		}
		r.done = make(chan struct{})
		go r.schedule()
	}
	d.watch.begin(d)
}

// close closes the folders beside each other. One whose disk hangs is given up, and leaves the others whole.
func (d *Dirs) close() error {
	defer d.watch.end()
	type ended struct {
		number int
		err    error
	}
	results := make(chan ended, len(d.dirs))
	open := map[int]*dir{}
	for _, r := range d.dirs {
		open[r.number] = r
		go func() { results <- ended{r.number, r.close()} }()
	}
	var errs []error
	look := time.NewTicker(stallCheck)
	defer look.Stop()
	for len(open) > 0 {
		select {
		case e := <-results:
			delete(open, e.number)
			errs = append(errs, e.err)
		case <-look.C:
			for n, r := range open {
				if r.silent.Load() >= int64(giveUpAfter) {
					delete(open, n)
					errs = append(errs, fmt.Errorf("log folder %s is left as it is: its disk does not answer", r.path))
				}
			}
		}
	}
	return errors.Join(errs...)
}
