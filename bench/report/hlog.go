package report

import (
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/tidemark/tidemark/bench/store"
)

// interval is what a run's histogram log of one clock holds: one histogram for each second, and all together.
type interval struct {
	seconds []*hdrhistogram.Histogram
	total   *hdrhistogram.Histogram
	err     error
}

// Bounds of what a log may make this package hold.
const (
	maxLogBytes = 32 << 20
	maxSeconds  = 3600
)

// histograms reads the .hlog of a clock, once for each run. A log that is not there or damaged has an error and nothing
// else; it never keeps a page from being written.
func (p *page) histograms(r *store.Run, clock string) *interval {
	if found, ok := p.logs[r]; ok {
		return found
	}
	in := readLog(filepath.Join(r.Dir, clock+".hlog"))
	p.logs[r] = in
	return in
}

func readLog(path string) (in *interval) {
	in = &interval{}
	defer func() {
		if problem := recover(); problem != nil { // a damaged payload trips the decoder
			in = &interval{err: fmt.Errorf("%s is damaged: %v", filepath.Base(path), problem)}
		}
	}()
	f, err := os.Open(path)
	if err != nil {
		return &interval{err: fmt.Errorf("%s is not there", filepath.Base(path))}
	}
	defer f.Close()
	reader := hdrhistogram.NewHistogramLogReader(io.LimitReader(f, maxLogBytes))
	for len(in.seconds) < maxSeconds {
		h, err := reader.NextIntervalHistogram()
		if err != nil {
			return &interval{err: fmt.Errorf("%s is damaged: %w", filepath.Base(path), err)}
		}
		if h == nil {
			break
		}
		if in.total == nil {
			in.total = hdrhistogram.New(h.LowestTrackableValue(), h.HighestTrackableValue(), int(h.SignificantFigures()))
		}
		if dropped := in.total.Merge(h); dropped > 0 {
			return &interval{err: fmt.Errorf("%s holds values that its first histogram cannot: %d", filepath.Base(path), dropped)}
		}
		in.seconds = append(in.seconds, h)
	}
	if in.total == nil || in.total.TotalCount() == 0 {
		return &interval{err: fmt.Errorf("%s holds no histogram", filepath.Base(path))}
	}
	return in
}
