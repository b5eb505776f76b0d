package logdir

import (
	"sync"
	"time"
)

const (
	stallCheck = time.Second
	// stallAfter is how long a folder's disk may answer none of the calls that wait for it. A busy disk answers some.
	stallAfter = 5 * time.Second
	// giveUpAfter is when a stop gives such a folder up: by then it is not one long fsync.
	giveUpAfter = 30 * time.Second
)

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
	r.silent.Store(int64(silent))
	if silent >= stallAfter && !r.stalled.Swap(true) {
		r.d.o.Logger.Error("log folder does not answer: requests for its partitions wait, new partitions go to other folders; look at its disk",
			"folder", r.path, "calls", waiting, "since", silent.Round(time.Second))
	}
}
