package partition

import (
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/tidemark/tidemark/core/kafka"
)

// publishing is a log that calls a function while an append is being published.
type publishing struct {
	Log
	during func()
}

func (l *publishing) Publish() {
	l.during()
	l.Log.Publish()
}

// tidemark.fsync is switched to batch during an append, or while it waits for another replica: it waits for no flush that nobody
// has asked for.
func TestNoAppendIsStrandedWhenFsyncIsSwitchedOn(t *testing.T) {
	for _, during := range []bool{true, false} {
		for _, isr := range [][]kafka.BrokerID{{0}, {0, 1}} {
			p := leader(t, 1, isr...)
			var asked atomic.Bool
			p.o.FlushSoon = func() { asked.Store(true) }
			on := *p.Config()
			on.FsyncBatch = true
			switched := make(chan struct{})
			change := func() { p.SetConfig(&on); close(switched) }
			if during {
				p.o.Log = &publishing{p.o.Log, func() {
					go change()
					for p.Config() != &on {
						runtime.Gosched()
					}
				}}
			}
			a, done := put(t, p, -1)
			if !during {
				change()
			}
			<-switched
			p.Follower(1, 1)
			if asked.Load() { // the folder's next round
				if _, err := p.o.Log.Flush(); err != nil {
					t.Fatal(err)
				}
				p.Flushed()
			}
			if done.Load() != 1 || a.Result.Err != kafka.None || p.HighWatermark() != 1 {
				t.Errorf("during the append %v, in sync %v: answered %d times, %+v, high watermark %d, a flush was asked for: %v",
					during, isr, done.Load(), a.Result, p.HighWatermark(), asked.Load())
			}
		}
	}
}
