package report

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/tidemark/tidemark/bench/store"
)

// interval is what a run's histogram log of one clock holds: one histogram for each stretch between two collections, about
// a second, and all together.
type interval struct {
	seconds []*hdrhistogram.Histogram
	startMS int64 // the log's own start, which is the window's; without one the first line's
	total   *hdrhistogram.Histogram
	err     error
}

// Bounds of what a log may make this package hold.
const (
	maxLogBytes = 32 << 20
	maxSeconds  = 3600
	headBytes   = 4096 // in which a log says when it began
)

// histograms reads the .hlog of a clock, once for each run: its own file's lines without a tag, or where it has no file those
// of ack.hlog with its tag. A log that is not there or damaged has an error and nothing else; it never keeps a page from
// being written.
func (p *page) histograms(r *store.Run, clock string) *interval {
	if found, ok := p.logs[r]; ok {
		return found
	}
	in := &interval{err: fmt.Errorf("%s.hlog is not there", clock)}
	for _, source := range []struct{ name, tag string }{{clock + ".hlog", ""}, {"ack.hlog", clock}} {
		if f, err := os.Open(filepath.Join(r.Dir, source.name)); err == nil {
			in = readTagged(f, source.name, source.tag)
			f.Close()
			break
		}
	}
	p.logs[r] = in
	return in
}

// readLog reads the lines of a histogram log that carry no tag; name is for errors.
func readLog(r io.Reader, name string) *interval { return readTagged(r, name, "") }

// readTagged reads the lines of a histogram log that carry a tag. The lines of other clocks stand between them, second by
// second: they are others' figures.
func readTagged(r io.Reader, name, tag string) (in *interval) {
	in = &interval{}
	defer func() {
		if problem := recover(); problem != nil { // a damaged line trips the decoder
			in = &interval{err: fmt.Errorf("%s is damaged: %v", name, problem)}
		}
	}()
	lines := bufio.NewReaderSize(io.LimitReader(r, maxLogBytes), headBytes)
	head, _ := lines.Peek(headBytes)
	reader := hdrhistogram.NewHistogramLogReader(lines)
	for last := int64(math.MinInt64); len(in.seconds) < maxSeconds; {
		h, err := reader.NextIntervalHistogram()
		if err != nil {
			return &interval{err: fmt.Errorf("%s is damaged: %w", name, err)}
		}
		if h == nil {
			break
		}
		if h.Tag() != tag {
			continue
		}
		if h.StartTimeMs() < last {
			return &interval{err: fmt.Errorf("%s is damaged: its time goes backwards", name)}
		}
		last = h.StartTimeMs()
		if in.total == nil {
			in.total = hdrhistogram.New(h.LowestTrackableValue(), h.HighestTrackableValue(), int(h.SignificantFigures()))
		}
		if dropped := in.total.Merge(h); dropped > 0 {
			return &interval{err: fmt.Errorf("%s holds values that its first histogram cannot: %d", name, dropped)}
		}
		in.seconds = append(in.seconds, h)
	}
	if in.total == nil || in.total.TotalCount() == 0 {
		return &interval{err: fmt.Errorf("%s holds no histogram", name)}
	}
	in.startMS = startOf(head, in.seconds[0].StartTimeMs())
	return in
}

// startOf is the start that a log's head tells, in milliseconds since the epoch; where it tells none, what is given.
func startOf(head []byte, none int64) int64 {
	_, rest, ok := strings.Cut(string(head), "#[StartTime: ")
	text, _, _ := strings.Cut(rest, " ")
	seconds, err := strconv.ParseFloat(text, 64)
	if !ok || err != nil || !(math.Abs(seconds) < 1e12) {
		return none
	}
	return int64(math.Round(1000 * seconds))
}

// bySecond lays the histograms out by the second of the window in which each begins, as the intervals of a result are: a log
// has no line for a second in which nothing ended. What the drain brought is the last one's.
func (in *interval) bySecond(seconds int) [][]*hdrhistogram.Histogram {
	out := make([][]*hdrhistogram.Histogram, seconds)
	for _, h := range in.seconds {
		i := min(max(int(math.Round(float64(h.StartTimeMs()-in.startMS)/1000)), 0), seconds-1)
		out[i] = append(out[i], h)
	}
	return out
}
