package verify

import (
	"errors"
	"io/fs"
	"math"
	"path/filepath"
	"slices"
	"sort"
)

// clock is one clock of one run, recounted.
type clock struct {
	summary
	counted counts
}

// run recounts one repeat and compares what it says of itself.
func (o *Outcome) run(b *bench, r *run) {
	if r.result == nil {
		o.status(b, r)
		return
	}
	res := r.result
	e := res.Ends
	if sum := e.Acked + e.HandedToSocket + e.Failed + e.Unanswered + e.Unsent; sum != e.Intended {
		o.find(r.place, "%d records were intended, and %d ended somewhere", e.Intended, sum)
	}
	o.Figures++
	o.rates(r)
	o.cost(r)
	r.clocks = map[string]*clock{}
	if res.Question == "latency" || r.cell.Kind == "latency" {
		o.logs(r)
	}
	o.status(b, r)
	o.marks(r)
}

// near reports whether two figures are the same but for the rounding of arithmetic.
func near(a, b, share float64) bool {
	return math.Abs(a-b) <= share*max(math.Abs(a), math.Abs(b), 1e-12)
}

// rates recomputes what was carried, from counts and the window.
func (o *Outcome) rates(r *run) {
	res := r.result
	seconds := res.seconds()
	if seconds <= 0 {
		return
	}
	o.Figures += 2
	records, bytes := res.Produce.RecordsPerSec*seconds, res.Produce.BytesPerSec*seconds
	if res.Question == "capacity" { // in a closed loop what was completed inside the window counts
		seen := 0.0
		for _, i := range res.Intervals {
			seen += float64(i.Acked)
		}
		o.inside(r, records, bytes, seen)
	} else {
		acked := float64(res.Ends.Acked + res.Ends.HandedToSocket)
		if !near(acked, records, 1e-6) {
			o.find(r.place, "%.6g records/s were carried by its counts, result.json says %.6g", acked/seconds, res.Produce.RecordsPerSec)
		}
		if got := float64(res.Ends.AckedBytes); !near(got, bytes, 1e-6) {
			o.find(r.place, "%.6g bytes/s were carried by its counts, result.json says %.6g", got/seconds, res.Produce.BytesPerSec)
		}
	}
	if e := res.Ends; e.Intended > 0 {
		o.Figures++
		if got := float64(e.AckedInTime) / float64(e.Intended); !near(got, res.Produce.HeldShare, 1e-6) {
			o.find(r.place, "it held %.4g of its rate by its counts, result.json says %.4g", got, res.Produce.HeldShare)
		}
	}
}

// inside checks what a closed loop carried: so many records and bytes over its window, of which the seconds list seen. Versions
// before ackedInside kept the rate alone.
func (o *Outcome) inside(r *run, records, bytes, seen float64) {
	res := r.result
	p := res.Produce
	each := float64(res.Ends.AckedBytes) / max(1, float64(res.Ends.Acked+res.Ends.HandedToSocket))
	ok := near(bytes, records*each, 0.02)
	if p.Inside > 0 {
		ok = ok && near(records, float64(p.Inside), 1e-6) && near(bytes, float64(p.InsideBytes), 1e-6) && near(seen, float64(p.Inside), 1e-3)
	} else {
		ok = ok && math.Abs(records-math.Round(records)) <= 0.01 && records <= seen+0.5
		o.skip("how many of a capacity run's records were acked inside its window: result.json holds the rate alone. That it is a whole number of records, no more than the seconds list and of the right bytes, was checked")
	}
	if !ok {
		o.find(r.place, "%.6g records/s and %.6g bytes/s over %.6g s are not what %.0f acked records of %.0f bytes give", p.RecordsPerSec, p.BytesPerSec, res.seconds(), seen, each)
	}
}

// cost recomputes the target's CPU over the window from the samples around its ends.
func (o *Outcome) cost(r *run) {
	p, samples, w := r.Target.Process, r.Target.Samples, r.result.Window
	if p == nil {
		return
	}
	at := func(nanos int64) (float64, bool) {
		i := sort.Search(len(samples), func(i int) bool { return samples[i].Nanos >= nanos })
		switch {
		case i == len(samples), i == 0 && samples[0].Nanos != nanos:
			return 0, false
		case samples[i].Nanos == nanos:
			return float64(samples[i].CPU), true
		}
		a, b := samples[i-1], samples[i]
		share := float64(nanos-a.Nanos) / float64(b.Nanos-a.Nanos)
		return float64(a.CPU) + share*float64(b.CPU-a.CPU), true
	}
	from, okFrom := at(w.Start)
	to, okTo := at(w.End)
	if !okFrom || !okTo {
		o.skip("the target's CPU where no sample reaches around the window: taken from run.json")
		return
	}
	o.Figures++
	if got := to - from; math.Abs(got-float64(p.CPUNanos)) > 1000 && !near(got, float64(p.CPUNanos), 1e-6) {
		o.find(r.place, "the target used %.6g s of CPU by its samples, run.json says %.6g", got/1e9, float64(p.CPUNanos)/1e9)
	}
}

// logs decodes a run's histogram logs and compares percentiles and seconds with result.json.
func (o *Outcome) logs(r *run) {
	bySource := map[string][]line{}
	for _, f := range []struct{ file, own string }{{"ack.hlog", "ack"}, {"delivery.hlog", "delivery"}} {
		text, err := readFile(filepath.Join(r.dir, f.file))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		var lines []line
		if err == nil {
			lines, err = parseLog(text)
		}
		if err != nil {
			o.find(r.place, "%s: %v", f.file, err)
			continue
		}
		for _, l := range lines {
			if l.tag == "" {
				l.tag = f.own
			} else if l.tag == f.own || f.own == "delivery" || l.tag == "delivery" && r.hasFile("delivery.hlog") {
				continue // the clock's own file has it
			}
			bySource[l.tag] = append(bySource[l.tag], l)
			o.Histograms++
		}
	}
	for name, s := range r.result.Clocks {
		lines, ok := bySource[name]
		if !ok && s.Count > 0 {
			o.find(r.place, "result.json has a %s clock of %d values, and no histogram log has it", name, s.Count)
			continue
		}
		o.clock(r, name, s, lines)
	}
	for name := range bySource {
		if _, ok := r.result.Clocks[name]; !ok {
			o.skip("tag %q of a histogram log, which result.json knows nothing of", name)
		}
	}
}

func (r *run) hasFile(name string) bool {
	for _, f := range r.result.Files {
		if f.Name == name {
			return true
		}
	}
	return false
}

func (o *Outcome) clock(r *run, name string, s summary, lines []line) {
	c := &clock{summary: s}
	r.clocks[name] = c
	seconds := lines
	for _, i := range r.result.Intervals {
		want, ok := i.Clocks[name]
		if !ok || want.Count == 0 {
			continue
		}
		if len(seconds) == 0 {
			o.find(r.place, "the log of %s ends before the seconds of result.json do", name)
			break
		}
		h := &seconds[0].counts
		o.Figures += 2
		if got := h.nearest(99); h.total != want.Count || got != want.P99 {
			o.find(r.place, "%s, line %d: %d values with a p99 of %s ms, result.json says %d with %s", name, seconds[0].number, h.total, ms(got), want.Count, ms(want.P99))
		}
		seconds = seconds[1:]
	}
	for i := range lines {
		c.counted.add(lines[i].counts)
	}
	o.Figures++
	if c.counted.total != s.Count {
		o.find(r.place, "the log of %s holds %d values, result.json says %d", name, c.counted.total, s.Count)
	}
	for i, said := range s.Percentiles {
		got := c.percentile(said.P)
		o.Figures++
		// Versions before hashes.txt read every sixth percentile at the rank below the one that its records above say.
		if low := c.oneLow(said.P); said.Nanos == low && said.Nanos < got.Nanos && said.Above == got.Above {
			o.OneLow++
			got.Nanos = low
		}
		if got.Nanos != said.Nanos || got.Censored != said.Censored || got.Above != said.Above {
			o.find(r.place, "%s p%g is %s by its log, result.json says %s", name, said.P, got, said)
		}
		got.Excursions = said.Excursions
		c.Percentiles = slices.Clone(c.Percentiles)
		c.Percentiles[i] = got
	}
	o.skip("how many separate stalls a percentile rests on: no log holds it, it is taken from result.json")
}

// nearest is the percentile of a second, the value that the nearest rank has.
func (c *counts) nearest(p float64) int64 {
	rank := int64(p/100*float64(c.total) + 0.5)
	v, _ := c.rank(max(rank, 1))
	return v
}

// oneLow is a percentile's value, read one record lower than the records above it say.
func (c *clock) oneLow(p float64) int64 {
	got := c.percentile(p)
	v, _ := c.counted.rank(c.Negative + c.counted.total + c.Overflow + c.Censored - got.Above - c.Negative - 1)
	return min(v, c.MaxNanos)
}

// hour is where the histograms end.
const hour = 3_600_000_000_000

// percentile is the value of rank ceil(p of all records that were intended), those that never arrived being the latest.
func (c *clock) percentile(p float64) percentile {
	total := c.counted.total + c.Negative + c.Overflow + c.Censored
	rank := int64(math.Ceil(p / 100 * float64(total)))
	rank = max(rank, 1)
	out := percentile{P: p}
	switch {
	case rank <= c.Negative:
		out.Above = total - c.Negative
	case rank <= c.Negative+c.counted.total:
		v, below := c.counted.rank(rank - c.Negative)
		out.Nanos, out.Above = min(v, c.MaxNanos), total-c.Negative-below
	case rank <= c.Negative+c.counted.total+c.Overflow:
		out.Nanos, out.Above, out.Censored = hour, c.Censored+c.Overflow, true
	default:
		out.Nanos, out.Above, out.Censored = c.MaxNanos, c.Censored, true
	}
	return out
}
