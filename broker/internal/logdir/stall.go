package logdir

import (
	"sync"
	"time"

	"github.com/tidemark/tidemark/core/kafka"
)

const (
	stallCheck = time.Second
	// stallAfter is how long a folder's disk may answer none of the calls that wait for it. A busy disk answers some.
	stallAfter = 5 * time.Second
	// giveUpAfter is when such a folder is given up by a stop, and by those who wait for it: by then it is not one long fsync.
	giveUpAfter = 30 * time.Second
	// stallProbes is how many appends, in partitions that nobody appends to, and first uses of partitions a stalled folder takes all the
	// same: a long fsync holds up neither, and the first one shows that.
	stallProbes = 8
)

// Stalled says whether the folder's disk answers nothing.
func (l *Log) Stalled() bool { return l.dir.hangs() }

// Probe says whether one append more may try a stalled folder.
func (l *Log) Probe() bool { return l.dir.probe() }

// Stalled says whether a partition's log lies in a folder whose disk answers nothing. It waits for no disk.
func (d *Dirs) Stalled(tp kafka.TopicPartition) bool {
	r, _ := d.find(tp)
	return r != nil && r.hangs()
}

// Probe says whether one use more may try the stalled folder of a partition's log.
func (d *Dirs) Probe(tp kafka.TopicPartition) bool {
	r, _ := d.find(tp)
	return r == nil || r.probe()
}

// hangs says whether the folder was found stalled and has answered no call since, which the watch sees a little later.
func (r *dir) hangs() bool { return r.stalled.Load() && r.gate.Answered() == r.stalledAt.Load() }

func (r *dir) probe() bool { return r.probes.Add(-1) >= 0 }

// watch looks every second whether the folders' disks answer. Its goroutine is begun by Dirs.Start, ended by Close, and blocks on
// no file: those that use a folder whose disk hangs wait as long as it does, and somebody has to say so.
type watch struct {
	stop chan struct{}
	once sync.Once
}

func (w *watch) begin(d *Dirs) {
	w.stop = make(chan struct{})
	go w.run(d)
}

func (w *watch) end() {
	w.once.Do(func() {
		if w.stop != nil {
			close(w.stop)
		}
	})
}

// answered is what was last seen of a folder's calls.
type answered struct {
	calls int64
	at    time.Time
}

func (w *watch) run(d *Dirs) {
	tick := time.NewTicker(stallCheck)
	defer tick.Stop()
	last := make([]answered, len(d.dirs))
	for {
		select {
		case <-w.stop:
			return
		case now := <-tick.C:
			for i, r := range d.dirs {
				r.look(&last[i], now)
			}
		}
	}
}

// look compares the calls that a folder's disk has answered with those of the last look.
func (r *dir) look(last *answered, now time.Time) {
	calls, waiting := r.gate.Answered(), r.gate.InUse()
	if calls != last.calls || waiting == 0 || last.at.IsZero() {
		*last = answered{calls, now}
		r.silent.Store(0)
		if r.stalled.Swap(false) {
			r.d.o.Logger.Info("log folder answers again", "folder", r.path)
		}
		return
	}
	silent := now.Sub(last.at)
	before := time.Duration(r.silent.Swap(int64(silent)))
	if before < giveUpAfter && silent >= giveUpAfter {
		go r.tellStalled(true) // answers go to sockets, maybe from files
	}
	if silent < stallAfter || r.stalled.Load() {
		return
	}
	r.stalledAt.Store(calls)
	r.probes.Store(stallProbes)
	r.stalled.Store(true)
	r.d.o.Logger.Error("log folder does not answer: its partitions take no records, new ones go to other folders; look at its disk",
		"folder", r.path, "calls", waiting, "since", silent.Round(time.Second))
	go r.tellStalled(false)
}

// tellStalled tells the partitions. One that is attached from now on sees the flag.
func (r *dir) tellStalled(long bool) {
	for _, o := range r.owners() {
		o.Stalled(long)
	}
}
