package loadgen

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
)

// progressView shows live progress, fed once a second.
type progressView interface {
	show(s progressState)
	done()
}

func newProgress(o *Options) progressView {
	switch {
	case o.KafkaPerf && o.Lines != nil:
		return &perfLines{w: o.Lines}
	case o.Progress == nil:
		return silent{}
	case o.Terminal:
		return newLiveLine(o.Progress)
	}
	return &plainLines{w: o.Progress}
}

// silent shows nothing.
type silent struct{}

func (silent) show(progressState) {}
func (silent) done()              {}

// line is the progress in words.
func (s progressState) line() string {
	if s.warming {
		return fmt.Sprintf("%s of %s  warming up", s.elapsed.Round(time.Second), s.planned)
	}
	text := fmt.Sprintf("%s of %s  ", s.elapsed.Round(time.Second), s.planned)
	if s.asked > 0 {
		text += fmt.Sprintf("asked %s/s  ", thousands(int64(s.asked)))
	}
	text += fmt.Sprintf("reached %s/s  ", thousands(int64(s.reached)))
	if s.hist != nil && s.hist.TotalCount() > 0 {
		text += fmt.Sprintf("ack p50 %s  p99 %s  p99.9 %s ms  pacer p99 %s ms  ", milliseconds(s.hist.ValueAtPercentile(50)), milliseconds(s.hist.ValueAtPercentile(99)),
			milliseconds(s.hist.ValueAtPercentile(99.9)), milliseconds(s.pacerP99))
	}
	return text + fmt.Sprintf("lag %s  failed %s", thousands(s.lag), thousands(s.failed))
}

// plainLines is one line every five seconds, safe to grep.
type plainLines struct {
	w io.Writer
	n int
}

func (p *plainLines) show(s progressState) {
	if p.n++; p.n%5 == 0 {
		_, _ = fmt.Fprintln(p.w, "progress "+s.line())
	}
}

func (p *plainLines) done() {}

// liveLine rewrites itself on a terminal.
type liveLine struct {
	bars *mpb.Progress
	bar  *mpb.Bar
	mu   struct {
		sync.Mutex
		text string
	}
}

func newLiveLine(w io.Writer) *liveLine {
	l := &liveLine{bars: mpb.New(mpb.WithOutput(w), mpb.WithWidth(20), mpb.WithRefreshRate(500*time.Millisecond))}
	l.bar = l.bars.New(0, mpb.BarStyle().Lbound("").Rbound("").Padding("·").Filler("━").Tip("━"), mpb.BarRemoveOnComplete(),
		mpb.AppendDecorators(decor.Any(func(decor.Statistics) string {
			l.mu.Lock()
			defer l.mu.Unlock()
			return l.mu.text
		})))
	return l
}

func (l *liveLine) show(s progressState) {
	l.mu.Lock()
	l.mu.text = s.line()
	l.mu.Unlock()
	l.bar.SetTotal(max(int64(s.planned), 1), false)
	l.bar.SetCurrent(min(int64(s.elapsed), int64(s.planned)-1))
}

func (l *liveLine) done() {
	l.bar.Abort(true)
	l.bars.Wait()
}

// perfLines are kafka-producer-perf-test's lines, one each five seconds of the window: what each counts, and its latencies, are
// of the time since the line before. Its MB is 2^20 bytes; its latencies are whole milliseconds but for the average.
type perfLines struct {
	w           io.Writer
	lastRecords int64
	lastBytes   int64
	last        time.Duration
	ack         sparse // since then
}

// perfEvery is the time between two lines, less what a second may come early behind a late one.
const perfEvery = 5*time.Second - 500*time.Millisecond

func (p *perfLines) show(s progressState) {
	if p.last = max(p.last, s.warmUp); s.warming {
		return
	}
	p.ack = joined(p.ack, s.ack)
	if s.elapsed-p.last < perfEvery {
		return
	}
	secs := (s.elapsed - p.last).Seconds()
	records, bytes := s.sum.ackedDuring-p.lastRecords, s.sum.ackedDuringBytes-p.lastBytes
	mean, worst := 0.0, 0.0
	if p.ack.total > 0 {
		h := p.ack.spread()
		mean, worst = h.Mean()/1e6, float64(h.Max())/1e6
	}
	p.last, p.lastRecords, p.lastBytes, p.ack = s.elapsed, s.sum.ackedDuring, s.sum.ackedDuringBytes, sparse{}
	_, _ = fmt.Fprintf(p.w, "%d records sent, %.1f records/sec (%.2f MB/sec), %.1f ms avg latency, %.1f ms max latency.\n",
		records, float64(records)/secs, float64(bytes)/secs/(1<<20), mean, worst)
}

func (p *perfLines) done() {}
