package loadgen

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/tidemark/tidemark/core/clock"
	"github.com/tidemark/tidemark/loadgen/result"
)

// collector takes the histograms of each second of the run, from the window's start to the drain's end, and feeds the
// live progress. It keeps the seconds small and encodes nothing: that waits until the run is over.
type collector struct {
	r       *run
	seconds []collected
	total   [numClocks]tally
	dropped int64
	live    progressView
	lastCPU int64
	closing backlog // at the window's end
}

// backlog is how many records were outstanding at one moment.
type backlog struct {
	at          int64 // nanoseconds, 0: never
	outstanding int64
}

// collected is one interval of the logs.
type collected struct {
	start, end  int64 // nanoseconds
	clocks      [numClocks]sparse
	outstanding int64
	lag         int64
	cpu         int64
}

func newCollector(r *run) *collector {
	return &collector{r: r, live: newProgress(&r.o), lastCPU: cpuNanos()}
}

// run works until the measuring ends; finish takes the rest.
func (c *collector) run(ctx context.Context) {
	at := c.r.begin
	for ; ; at += int64(time.Second) {
		c.r.waitUntil(ctx, at)
		if ctx.Err() != nil {
			return
		}
		if now := clock.Nanos(); now >= c.r.window.start {
			c.take(now)
		}
		if c.live != (silent{}) { // a state is two histograms' work
			c.live.show(c.state())
		}
	}
}

// take closes the present interval.
func (c *collector) take(now int64) {
	from := c.r.window.start
	if n := len(c.seconds); n > 0 {
		from = c.seconds[n-1].end
	}
	if now <= from {
		return
	}
	s := collected{start: from, end: now, outstanding: c.outstanding(now), lag: c.lag()}
	cpu := cpuNanos()
	s.cpu, c.lastCPU = cpu-c.lastCPU, cpu
	for _, b := range c.r.books {
		b.swap(func(i int, h *hdrhistogram.Histogram) {
			part := compact(h)
			c.dropped += h.TotalCount() - part.total
			c.total[i].add(&part)
			s.clocks[i] = joined(s.clocks[i], part)
			time.Sleep(collectorRest)
		})
	}
	c.seconds = append(c.seconds, s)
}

// collectorRest is what the collector leaves to the others behind each histogram. Where the generator has one core, timers and
// sockets are looked at when nothing else runs: five histograms in one go held the pacer up for some milliseconds each second.
const collectorRest = 200 * time.Microsecond

// outstanding is how many records have been intended and have not ended. What the driver has not taken of a chunk that it
// was offered is not in accepted, nor is what a late pacer has not offered yet; that is estimated by the rate from where that pacer stands in its schedule, not from the run's begin: a Poisson
// schedule strays from its rate by hundreds of records, and looked like a queue that grows.
func (c *collector) outstanding(now int64) int64 {
	var accepted, ended int64
	for _, b := range c.r.books {
		b.mu.Lock()
		accepted += b.mu.ends.allAccepted
		ended += b.mu.ends.allEnded
		b.mu.Unlock()
	}
	for _, p := range c.r.pacers {
		accepted += p.offered.Load()
	}
	late := 0.0
	if rate := c.r.spec.Rate / float64(max(1, len(c.r.pacers))); rate > 0 {
		for _, p := range c.r.pacers {
			if due := p.due.Load(); due > 0 {
				late += max(0, float64(min(now, c.r.window.end.Load())-due)/1e9*rate)
			}
		}
	}
	return max(0, accepted+int64(late)-ended)
}

// averageParts is what a lie makes of percentiles: the mean over the seconds.
func averageParts(ps []result.Percentile, seconds []collected, clock int) {
	for i := range ps {
		sum, n := 0.0, 0.0
		for j := range seconds {
			if s := &seconds[j].clocks[clock]; s.total > 0 {
				sum, n = sum+float64(s.spread().ValueAtPercentile(ps[i].P)), n+1
			}
		}
		if n > 0 {
			ps[i].Nanos = int64(sum / n)
		}
	}
}

func (c *collector) lag() int64 {
	sum := int64(0)
	for _, g := range c.r.groups {
		lag := int64(0)
		for _, rd := range g.members {
			lag += max(0, rd.consumer.Lag())
		}
		sum += lag
		for old := atomic.LoadInt64(&g.lagMax); lag > old && !atomic.CompareAndSwapInt64(&g.lagMax, old, lag); {
			old = atomic.LoadInt64(&g.lagMax)
		}
	}
	return sum
}

// windowEnds keeps what was outstanding when the window ended: the last interval's end lies behind the drain.
func (c *collector) windowEnds() {
	now := clock.Nanos()
	c.closing = backlog{at: now, outstanding: c.outstanding(now)}
}

// finish takes what came after the window.
func (c *collector) finish() {
	c.take(clock.Nanos())
	c.live.done()
}

// progressState is what live progress shows.
type progressState struct {
	elapsed, planned time.Duration
	warmUp           time.Duration // how long it is
	warming          bool
	asked, reached   float64
	hist             *hdrhistogram.Histogram // ack, of the last second
	ack              sparse                  // the same as it was taken
	pacerP99         int64
	lag, failed      int64
	sum              counts
}

func (c *collector) state() progressState {
	now := clock.Nanos()
	r := c.r
	st := progressState{elapsed: time.Duration(now - r.begin), planned: time.Duration(r.planned - r.begin), warmUp: time.Duration(r.window.start - r.begin), warming: now < r.window.start, asked: r.spec.Rate}
	sum, seconds, _ := totals(r.books)
	st.sum, st.failed = sum, sum.failed
	if n := len(seconds); n > 1 {
		st.reached = float64(seconds[n-2].acked)
	}
	if n := len(c.seconds); n > 0 {
		last := &c.seconds[n-1]
		st.ack, st.lag = last.clocks[clockAck], last.lag
		st.hist = st.ack.spread()
		st.pacerP99 = last.clocks[clockPacer].spread().ValueAtPercentile(99)
	}
	return st
}
