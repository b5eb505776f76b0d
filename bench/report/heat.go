package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/tidemark/tidemark/bench/store"
	"github.com/tidemark/tidemark/loadgen/result"
)

// column of a heat map: one second of one repeat, or several where there are too many to draw.
type second struct {
	run     *store.Run
	start   float64 // seconds since the window's start
	length  float64
	bins    map[int]int64 // log-latency bin to records
	records int64
	first   bool // of its repeat
}

const (
	binsPerDecade  = 12
	maxColumns     = 150
	heatRow        = 4.2
	heatStripRow   = 30.0
	heatStripSpace = 8.0
)

func binOf(nanos int64) int {
	return int(math.Floor(math.Log10(float64(max(nanos, 1))) * binsPerDecade))
}

// heat is everything that the picture of a cell over time shows.
type heat struct {
	c       *cell
	columns []second
	low     int // bins
	high    int
	strips  []strip
	events  []event
	missing string // why there is no map
}

// strip is one series above the map: a bar for each column.
type strip struct {
	name, unit, colour string
	values             []float64 // by column, NaN for none
	asked              float64   // a line at what was asked, 0 for none
}

type event struct {
	column float64
	text   string
}

func (p *page) heatOf(c *cell) *heat {
	h := &heat{c: c, low: math.MaxInt, high: math.MinInt}
	name := clock(c.Cell)
	total := 0
	for _, r := range c.runs {
		if r.Result != nil {
			total += len(r.Result.Intervals)
		}
	}
	merge := max(1, (total+maxColumns-1)/maxColumns)
	for _, r := range c.runs {
		if r.Result == nil || len(r.Result.Intervals) == 0 {
			continue
		}
		h.run(p, r, name, merge)
	}
	h.series(merge)
	if h.low > h.high && h.missing == "" {
		h.missing = "no run of this cell kept a second of latencies"
	}
	return h
}

// run adds the columns of a repeat.
func (h *heat) run(p *page, r *store.Run, name string, merge int) {
	logs := p.histograms(r, name)
	if logs.err != nil && h.c.Kind == store.Latency {
		h.missing = logs.err.Error()
	}
	intervals := r.Result.Intervals
	stretches := logs.bySecond(len(intervals))
	for i := 0; i < len(intervals); i += merge {
		part := intervals[i:min(len(intervals), i+merge)]
		s := second{run: r, start: float64(part[0].StartNanos) / 1e9, bins: map[int]int64{}, first: i == 0}
		for k, in := range part {
			s.length += float64(in.LengthNanos) / 1e9
			for _, stretch := range stretches[i+k] {
				h.count(&s, stretch)
			}
		}
		for _, e := range r.Result.Events {
			if at := float64(e.Nanos) / 1e9; at >= s.start && at < s.start+max(s.length, 1e-9) {
				h.events = append(h.events, event{float64(len(h.columns)) + (at-s.start)/max(s.length, 1e-9), e.Kind + ": " + e.Text})
			}
		}
		h.columns = append(h.columns, s)
	}
}

// count adds a histogram's values to a column.
func (h *heat) count(s *second, values *hdrhistogram.Histogram) {
	for _, bar := range values.Distribution() {
		if bar.Count == 0 {
			continue
		}
		bin := binOf(bar.To)
		s.bins[bin] += bar.Count
		s.records += bar.Count
		h.low, h.high = min(h.low, bin), max(h.high, bin)
	}
}

// series fills the strips from the intervals behind each column.
func (h *heat) series(merge int) {
	lateness := strip{name: "pacer p99", unit: "ms", colour: "orange"}
	rate := strip{name: "acked", unit: "records/s", colour: "blue", asked: h.c.rate()}
	if acksNothing(h.c.Cell) {
		rate.name = "delivered"
	}
	lag := strip{name: "consumer lag", unit: "records", colour: "purple"}
	cpu := strip{name: "target CPU", unit: "cores", colour: "green"}
	for _, s := range h.columns {
		var late, done, cores, weight float64
		var behind int64
		for _, in := range s.run.Result.Intervals {
			if at := float64(in.StartNanos) / 1e9; at < s.start || at >= s.start+max(s.length, 1e-9) {
				continue
			}
			late = max(late, float64(in.Clocks[result.Pacer].P99)/1e6)
			done += float64(in.Acked)
			if acksNothing(h.c.Cell) {
				done += float64(in.Delivered)
			}
			behind = max(behind, in.Lag)
			if in.TargetCPU != nil {
				cores += *in.TargetCPU * float64(in.LengthNanos) / 1e9
				weight += float64(in.LengthNanos) / 1e9
			}
		}
		if weight > 0 {
			cores /= weight
		} else {
			cores = coresBetween(s)
		}
		lateness.values = append(lateness.values, late)
		rate.values = append(rate.values, done/max(s.length, 1e-9))
		lag.values = append(lag.values, float64(behind))
		cpu.values = append(cpu.values, cores)
	}
	if h.c.Kind == store.Latency {
		h.strips = append(h.strips, lateness)
	}
	h.strips = append(h.strips, rate, lag)
	for _, v := range cpu.values {
		if !math.IsNaN(v) {
			h.strips = append(h.strips, cpu)
			break
		}
	}
}

// coresBetween takes the target's cores in a column from the samples of its CPU clock, NaN where there are none.
func coresBetween(s second) float64 {
	from := s.run.Result.Window.StartNanos + int64(s.start*1e9)
	to := from + int64(s.length*1e9)
	var first, last *store.Sample
	for i := range s.run.Target.Samples {
		sample := &s.run.Target.Samples[i]
		if sample.Nanos < from || sample.Nanos > to {
			continue
		}
		if first == nil {
			first = sample
		}
		last = sample
	}
	if first == nil || last.Nanos <= first.Nanos {
		return math.NaN()
	}
	return float64(last.CPUNanos-first.CPUNanos) / float64(last.Nanos-first.Nanos)
}

// figure is the picture of a cell over time, nil where nothing happened in it.
func (h *heat) figure(p *page) *figure {
	if len(h.columns) == 0 {
		return nil
	}
	rows := 0
	if h.low <= h.high {
		rows = h.high - h.low + 1
	}
	what := "Time runs to the right, the repeats one after another."
	title := fmt.Sprintf("%s over time", short(h.c.Name, 60))
	if rows > 0 {
		title = fmt.Sprintf("%s over time: records by second and %s latency", short(h.c.Name, 60), clock(h.c.Cell))
		what += " A record stands in the second in which it ended. Stronger: more of that second's records (steps at 0.01, 0.1, 1, 5 and 20%); every record that was late shows."
	}
	if len(h.c.Settings) > 0 {
		var changed []string
		for _, s := range h.c.Settings {
			changed = append(changed, s.Axis+"="+s.Value)
		}
		what += " Changed from what was asked below: " + short(strings.Join(changed, " "), 80) + "."
	}
	if slices.ContainsFunc(h.c.runs, func(r *store.Run) bool { return r.Status != store.OK }) {
		what += " ×: that repeat does not count."
	}
	noise := ""
	if h.c.Kind == store.Latency {
		noise = p.noise(latencyMetric(h.c.Cell), store.Latency)
	} else {
		noise = p.noise("throughput", store.Capacity)
	}
	return &figure{
		wide: 760, title: title, caption: p.caption(what, h.c.meant(), h.c.repeats(), noise),
		height: func(frame) float64 {
			return float64(len(h.strips))*(heatStripRow+heatStripSpace) + float64(rows)*heatRow + 44
		},
		draw:  func(c *canvas, f frame, top float64) { h.draw(c, f, top, rows) },
		table: h.table(),
	}
}

// heatLevel is the darkness of a share of a second's records.
func heatLevel(share float64) int {
	for i, limit := range []float64{0.0001, 0.001, 0.01, 0.05, 0.2} {
		if share < limit {
			return i + 1
		}
	}
	return 6
}

func (h *heat) draw(c *canvas, f frame, top float64, rows int) {
	left, right := 96.0, f.width-86
	if f.narrow {
		left, right = 82, f.width-62
	}
	gap := 0.0
	repeats := 0
	for _, s := range h.columns {
		if s.first {
			repeats++
		}
	}
	if repeats > 1 {
		gap = min(6, 60/float64(repeats))
	}
	width := (right - left - gap*float64(max(repeats-1, 0))) / float64(len(h.columns))
	xs := make([]float64, len(h.columns)+1)
	x := left
	for i, s := range h.columns {
		if s.first && i > 0 {
			x += gap
		}
		xs[i] = x
		x += width
	}
	xs[len(h.columns)] = x
	y := top
	for _, s := range h.strips {
		s.draw(c, xs[:len(xs)-1], width, y, left, right)
		y += heatStripRow + heatStripSpace
	}
	bottom := y + float64(rows)*heatRow
	if rows > 0 {
		h.drawMap(c, xs, width, y, bottom, left, right)
	}
	for _, e := range h.events {
		i := min(int(e.column), len(h.columns)-1)
		at := xs[i] + (e.column-float64(i))*width
		c.line(at, top, at, bottom, ` stroke-dasharray="2 2"`+stroke("ink", 1.2))
		c.mark(2, at, top-2, 4, "ink", false, e.text)
	}
	for i, s := range h.columns {
		if s.first && (repeats <= 12 || (i/8)%2 == 0) {
			c.line(xs[i], bottom, xs[i], bottom+5, stroke("axis", 1))
			name, next := fmt.Sprintf("#%d", s.run.Repeat), i+1
			for next < len(h.columns) && !h.columns[next].first {
				next++
			}
			if s.run.Status != store.OK { // the cell's list has the reasons
				if full := name + " " + string(s.run.Status); textWidth(full, 10) <= xs[next]-xs[i]-4 {
					name = full
				} else {
					name += " ×"
				}
			}
			c.text(xs[i]+2, bottom+15, 10, "start", "muted", name)
		}
	}
	length := 0.0
	for _, s := range h.columns {
		length = max(length, s.length)
	}
	c.text((left+right)/2, bottom+31, 11, "middle", "muted", fmt.Sprintf("repeats (#), %s s a column", whole(length)))
}

func (h *heat) drawMap(c *canvas, xs []float64, width, top, bottom, left, right float64) {
	c.rect(left, top, right-left, bottom-top, fill("band")+` opacity="0.45"`)
	for e := math.Ceil(float64(h.low) / binsPerDecade); e <= float64(h.high+1)/binsPerDecade; e++ {
		y := bottom - (e*binsPerDecade-float64(h.low))*heatRow
		c.line(left, y, right, y, stroke("grid", 1))
		c.text(left-6, y+3.5, 10.5, "end", "muted", tick(math.Pow(10, e-6))+" ms")
	}
	c.text(left-6, top+3, 10, "end", "muted", "log")
	paths := make([]strings.Builder, 7)
	for i, s := range h.columns {
		for bin := h.low; bin <= h.high; bin++ {
			n := s.bins[bin]
			if n == 0 {
				continue
			}
			level := heatLevel(float64(n) / float64(s.records))
			end := bin + 1 // neighbours of one level become one bar
			for end <= h.high && s.bins[end] > 0 && heatLevel(float64(s.bins[end])/float64(s.records)) == level {
				end++
			}
			w := max(width-0.5, 0.6)
			fmt.Fprintf(&paths[level], "M%s %sh%sv%sh%sz", num(xs[i]), num(bottom-float64(end-h.low)*heatRow), num(w), num(float64(end-bin)*heatRow), num(-w))
			bin = end - 1
		}
	}
	for level := 1; level <= 6; level++ {
		if paths[level].Len() > 0 {
			c.path(paths[level].String(), fill(fmt.Sprintf("h%d", level)))
		}
	}
}

func (s *strip) draw(c *canvas, xs []float64, width, y, left, right float64) {
	high := s.asked
	for _, v := range s.values {
		if !math.IsNaN(v) {
			high = max(high, v)
		}
	}
	c.text(left-6, y+12, 10.5, "end", "ink", s.name)
	c.text(left-6, y+24, 10, "end", "muted", s.unit)
	bottom := y + heatStripRow
	c.line(left, bottom, right, bottom, stroke("axis", 0.8))
	c.text(right+5, y+9, 10, "start", "muted", tickOf(high))
	c.text(right+5, bottom+1, 10, "start", "muted", "0")
	if high <= 0 {
		return
	}
	var d strings.Builder
	for i, v := range s.values {
		if math.IsNaN(v) || v <= 0 {
			continue
		}
		height := max(0.8, (heatStripRow-3)*v/high)
		fmt.Fprintf(&d, "M%s %sh%sv%sh%sz", num(xs[i]), num(bottom-height), num(max(width-0.5, 0.6)), num(height), num(-max(width-0.5, 0.6)))
	}
	if d.Len() > 0 {
		c.path(d.String(), ` opacity="0.75"`+fill(s.colour))
	}
	if s.asked > 0 {
		at := bottom - (heatStripRow-3)*s.asked/high
		c.line(left, at, right, at, ` stroke-dasharray="3 2"`+stroke("ink", 1))
	}
}

func tickOf(v float64) string {
	if v >= 10000 {
		return tick(math.Round(v/100) * 100)
	}
	return whole(v)
}

// table lists the columns behind the picture.
func (h *heat) table() string {
	head := []string{"repeat", "second"}
	for _, s := range h.strips {
		head = append(head, s.name+", "+s.unit)
	}
	t := newTable(append(head, "p50 ms", "p99 ms", "max ms")...)
	name := clock(h.c.Cell)
	for i, s := range h.columns {
		if i == 60 {
			t.row("…", esc(fmt.Sprintf("%d more in result.json", len(h.columns)-i)))
			break
		}
		row := []string{fmt.Sprint(s.run.Repeat), whole(s.start)}
		for _, one := range h.strips {
			row = append(row, number(one.values[i]))
		}
		p50, p99, most := "–", "–", "–"
		for _, in := range s.run.Result.Intervals {
			if l, ok := in.Clocks[name]; ok && math.Abs(float64(in.StartNanos)/1e9-s.start) < 1e-9 && l.Count > 0 {
				p50, p99, most = milliseconds(l.P50), milliseconds(l.P99), milliseconds(l.Max)
			}
		}
		t.row(append(row, p50, p99, most)...)
	}
	return t.html("")
}

// slowest says where the slowest records were, and what else happened then.
func (h *heat) slowest() string {
	name := clock(h.c.Cell)
	var worst result.IntervalLatency
	at, run := result.Interval{}, (*store.Run)(nil)
	for _, r := range h.c.runs {
		if r.Result == nil {
			continue
		}
		for _, in := range r.Result.Intervals {
			if l := in.Clocks[name]; l.Max > worst.Max {
				worst, at, run = l, in, r
			}
		}
	}
	if run == nil {
		return ""
	}
	// A second's latencies are those of the records that ended in it, in the last one and behind it.
	ended, behind := map[string]string{result.Ack: "acked", result.Delivery: "delivered"}[name], ""
	if last := run.Result.Intervals[len(run.Result.Intervals)-1]; at.StartNanos == last.StartNanos {
		behind = " or in the drain behind it"
	}
	s := fmt.Sprintf("The slowest record (%s, %s ms) was %s in second %s of repeat %d%s, whose p99 was %s ms.",
		name, milliseconds(worst.Max), ended, whole(float64(at.StartNanos)/1e9), run.Repeat, behind, milliseconds(worst.P99))
	var also []string
	if l, ok := at.Clocks[result.Pacer]; ok && l.Count > 0 {
		also = append(also, fmt.Sprintf("the generator's own lateness reached %s ms", milliseconds(l.Max)))
	}
	if l, ok := at.Clocks[result.Blocked]; ok && l.Max > 10_000 {
		also = append(also, fmt.Sprintf("the driver held back a record for up to %s ms", milliseconds(l.Max)))
	}
	if at.TargetCPU != nil {
		also = append(also, fmt.Sprintf("the target used %s cores", number(*at.TargetCPU)))
	}
	for _, e := range run.Result.Events {
		if e.Nanos >= at.StartNanos && e.Nanos < at.StartNanos+at.LengthNanos {
			also = append(also, "event "+short(e.Kind+" "+e.Text, 60))
		}
	}
	if len(also) > 0 {
		s += " In that second " + listed(also) + "."
	}
	return s
}
