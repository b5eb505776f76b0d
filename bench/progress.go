package bench

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"

	"github.com/tidemark/tidemark/bench/store"
	"github.com/tidemark/tidemark/loadgen/result"
)

// linePeriod is how often progress prints a line where it cannot rewrite one.
const linePeriod = 5 * time.Second

// progress shows how far a bench is.
type progress interface {
	doing(what string)
	running(order int, c store.Cell, repeat int)
	finished(r *store.Run, c store.Cell)
	close()
}

func newProgress(w io.Writer, terminal bool, p *store.Plan) progress {
	start := progressState{total: len(p.Runs) + len(p.Search) + len(p.Profiled), planned: time.Duration(p.Seconds * float64(time.Second)), started: time.Now()}
	if !terminal {
		return &lines{w: w, state: start, last: time.Now()}
	}
	b := &bar{w: w}
	b.mu.state = start
	b.container = mpb.New(mpb.WithOutput(w), mpb.WithRefreshRate(200*time.Millisecond))
	b.line = b.container.New(int64(len(p.Runs)+len(p.Search)+len(p.Profiled)), mpb.BarStyle().Lbound("").Rbound("").Filler("=").Tip(">").Padding(" "),
		mpb.BarWidth(20), mpb.BarRemoveOnComplete(),
		mpb.PrependDecorators(decor.Any(func(decor.Statistics) string { return b.text() })))
	return b
}

// progressState is what both forms tell.
type progressState struct {
	total, done, bad int
	planned          time.Duration
	started          time.Time
	now              string // what runs
	before           string // what the last run gave
}

func (s *progressState) String() string {
	text := fmt.Sprintf("%v of %v  run %d of %d", time.Since(s.started).Round(time.Second), s.planned.Round(time.Second), min(s.done+1, s.total), s.total)
	if s.bad > 0 {
		text += fmt.Sprintf("  %d not counted", s.bad)
	}
	return text + "  " + seenText(s.now)
}

func (s *progressState) begin(order int, c store.Cell, repeat int) {
	s.done = order
	s.now = fmt.Sprintf("%s #%d", c.Name, repeat)
	if c.Kind == store.Latency {
		s.now += " at " + grouped(c.Rate) + "/s"
	}
}

func (s *progressState) end(r *store.Run, c store.Cell) {
	s.done++
	s.before = seenText(c.Name + ": " + outcome(r, c))
	if r.Status != store.OK {
		s.bad++
	}
}

// outcome is one run in a few words.
func outcome(r *store.Run, c store.Cell) string {
	text := ""
	switch {
	case r.Result == nil:
	case c.Kind == store.Capacity:
		text = fmt.Sprintf("%s records/s  %.0f MB/s", grouped(r.Result.Produce.RecordsPerSec), r.Result.Produce.BytesPerSec/1e6)
	default:
		clock := result.Ack
		if _, ok := r.Result.Clocks[clock]; !ok {
			clock = result.Delivery
		}
		l := r.Result.Clocks[clock]
		if l.Count == 0 { // no record got there: no percentile either
			text = clock + " of no record"
			break
		}
		p50, _ := l.At(50)
		p99, _ := l.At(99)
		text = fmt.Sprintf("%s p50 %.2f p99 %.2f ms", clock, float64(p50.Nanos)/1e6, float64(p99.Nanos)/1e6)
	}
	if r.Status != store.OK {
		text += "  " + string(r.Status)
		if len(r.Reasons) > 0 {
			text += ": " + r.Reasons[0]
		}
	}
	return text
}

// lines prints one plain line at most each linePeriod, and one for each run that does not count.
type lines struct {
	w     io.Writer
	state progressState
	last  time.Time
}

func (l *lines) doing(what string) { l.state.now = what }

func (l *lines) running(order int, c store.Cell, repeat int) { l.state.begin(order, c, repeat) }

func (l *lines) finished(r *store.Run, c store.Cell) {
	l.state.end(r, c)
	if r.Status == store.OK && time.Since(l.last) < linePeriod {
		return
	}
	l.last = time.Now()
	fmt.Fprintf(l.w, "%v  %d/%d  %s\n", time.Since(l.state.started).Round(time.Second), l.state.done, l.state.total, l.state.before)
}

func (l *lines) close() {}

// bar is one line that rewrites itself; mpb's goroutines read its state.
type bar struct {
	w         io.Writer
	container *mpb.Progress
	line      *mpb.Bar
	mu        struct {
		sync.Mutex
		state progressState
	}
}

func (b *bar) text() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.mu.state.String() + "  "
}

func (b *bar) doing(what string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.state.now = what
}

func (b *bar) running(order int, c store.Cell, repeat int) {
	b.mu.Lock()
	b.mu.state.begin(order, c, repeat)
	b.mu.Unlock()
	b.line.SetCurrent(int64(order))
}

func (b *bar) finished(r *store.Run, c store.Cell) {
	b.mu.Lock()
	b.mu.state.end(r, c)
	done, before := b.mu.state.done, b.mu.state.before
	b.mu.Unlock()
	if r.Status != store.OK {
		fmt.Fprintln(b.container, before) // stands above the line
	}
	b.line.SetCurrent(int64(done))
}

func (b *bar) close() {
	b.line.Abort(true)
	b.container.Wait()
}
