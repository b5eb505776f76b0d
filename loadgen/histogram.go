package loadgen

import (
	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/tidemark/tidemark/core/lie"
	"github.com/tidemark/tidemark/loadgen/result"
)

// histogramMax is the largest value that is counted, one hour; what is above is counted as overflow.
const histogramMax = 3_600_000_000_000

// slotBits makes the slots in which excursions are counted: 2^23 ns, 8.4 ms of intended time.
const slotBits = 23

// Clocks by index, so that recording needs no map.
const (
	clockAck = iota
	clockDelivery
	clockPacer
	clockBlocked
	clockAccepted
	numClocks
)

var clockNames = [numClocks]string{result.Ack, result.Delivery, result.Pacer, result.Blocked, result.Accepted}

func newHistogram() *hdrhistogram.Histogram { return hdrhistogram.New(1, histogramMax, 3) }

// clockRecorder records one clock of one group of goroutines. The histogram is swapped each second; the slots, which
// say when the late ones were, and the counts stay.
type clockRecorder struct {
	hist     *hdrhistogram.Histogram
	overflow int64
	negative int64
	slots    []int64 // largest value by slot of the intended time since the window's start
}

// record counts one value of a record intended at since (nanoseconds behind the window's start).
func (c *clockRecorder) record(v, since int64) {
	if c.hist == nil {
		c.hist = newHistogram()
	}
	if lie.Told == lie.Clamp60s {
		v = min(v, 60e9)
	}
	switch {
	case v < 0:
		c.negative++
	case c.hist.RecordValue(v) != nil:
		c.overflow++
	}
	slot := int(since >> slotBits)
	for slot >= len(c.slots) {
		c.slots = append(c.slots, 0)
	}
	if v > c.slots[slot] {
		c.slots[slot] = v
	}
}

// sparse is a histogram without its zeros: a second's takes some kilobytes instead of 300.
type sparse struct {
	at     []int32
	counts []int64
	total  int64
}

func compact(h *hdrhistogram.Histogram) sparse {
	var s sparse
	if h.TotalCount() == 0 {
		return s
	}
	for i, n := range h.Export().Counts {
		if n != 0 {
			s.at = append(s.at, int32(i))
			s.counts = append(s.counts, n)
			s.total += n
		}
	}
	return s
}

// spread makes the full histogram again.
func (s *sparse) spread() *hdrhistogram.Histogram {
	snap := newHistogram().Export()
	for i, at := range s.at {
		snap.Counts[at] = s.counts[i]
	}
	return hdrhistogram.Import(snap)
}

// joined is both together. An empty one costs nothing.
func joined(a, b sparse) sparse {
	switch {
	case a.total == 0:
		return b
	case b.total == 0:
		return a
	}
	out := sparse{total: a.total + b.total}
	for i, j := 0, 0; i < len(a.at) || j < len(b.at); {
		switch {
		case j == len(b.at) || i < len(a.at) && a.at[i] < b.at[j]:
			out.at, out.counts = append(out.at, a.at[i]), append(out.counts, a.counts[i])
			i++
		case i == len(a.at) || b.at[j] < a.at[i]:
			out.at, out.counts = append(out.at, b.at[j]), append(out.counts, b.counts[j])
			j++
		default:
			out.at, out.counts = append(out.at, a.at[i]), append(out.counts, a.counts[i]+b.counts[j])
			i, j = i+1, j+1
		}
	}
	return out
}

// tally is the sum of many sparse histograms, by slot; nil where there was none. Adding to it costs what the sparse one holds:
// Merge walks both in full, a millisecond that is not the generator's to spend while it measures.
type tally []int64

func (t *tally) add(s *sparse) {
	if *t == nil {
		*t = newHistogram().Export().Counts
	}
	for i, at := range s.at {
		(*t)[at] += s.counts[i]
	}
}

// histogram is the sum as a histogram; nil where there was none.
func (t tally) histogram() *hdrhistogram.Histogram {
	if t == nil {
		return nil
	}
	snap := newHistogram().Export()
	copy(snap.Counts, t)
	return hdrhistogram.Import(snap)
}

// percentiles that every summary has.
var percentiles = [...]float64{50, 75, 90, 95, 99, 99.9, 99.99, 99.999}

// summarise makes a clock's summary. censored records count as later than all that were recorded; h may be nil.
func summarise(h *hdrhistogram.Histogram, overflow, negative, censored int64, slots []int64, dropped int64) result.Latency {
	if h == nil {
		h = newHistogram()
	}
	l := result.Latency{Count: h.TotalCount(), Overflow: overflow, Negative: negative, Censored: censored, Sound: dropped == 0}
	if l.Count > 0 {
		l.MinNanos, l.MaxNanos, l.MeanNanos = h.Min(), h.Max(), h.Mean()
	}
	for _, s := range slots {
		l.MaxNanos = max(l.MaxNanos, s) // exact, and with what overflowed
	}
	total := l.Count + overflow + negative + censored
	if total == 0 {
		return l
	}
	snap := h.Export().Counts
	for _, p := range percentiles {
		l.Percentiles = append(l.Percentiles, percentile(h, snap, &l, p, total, slots))
	}
	return l
}

func percentile(h *hdrhistogram.Histogram, counts []int64, l *result.Latency, p float64, total int64, slots []int64) result.Percentile {
	rank := int64(p / 100 * float64(total))
	if float64(rank) < p/100*float64(total) || rank == 0 {
		rank++
	}
	q := result.Percentile{P: p}
	switch {
	case rank > l.Negative+l.Count:
		q.Nanos, q.Censored = l.MaxNanos, true
		q.Above = l.Censored
		if rank <= l.Negative+l.Count+l.Overflow {
			q.Nanos, q.Above = histogramMax, l.Censored+l.Overflow
		}
		q.Excursions = excursions(slots, q.Nanos)
		if q.Excursions == 0 && q.Above > 0 {
			q.Excursions = 1
		}
		return q
	case rank <= l.Negative:
		q.Above = total - l.Negative
	default:
		seen := l.Negative
		for _, n := range counts {
			if seen += n; seen >= rank {
				break
			}
		}
		q.Nanos = valueAt(h, l.Negative, l.Count, seen)
		q.Nanos = min(q.Nanos, l.MaxNanos)
		q.Above = total - seen
	}
	q.Excursions = excursions(slots, q.Nanos)
	return q
}

// valueAt is the value below which seen of all counted values lie: the highest that its bucket stands for. The library
// takes the rank int(p/100*count + 0.5): a p that aims at a rank's very edge falls one record short in every sixth case,
// so this aims at its middle.
func valueAt(h *hdrhistogram.Histogram, negative, count, seen int64) int64 {
	return h.ValueAtPercentile(100 * (float64(seen-negative) - 0.25) / float64(count))
}

// excursions counts the separate stalls above a value: runs of slots, in order of intended time, that saw one. A slot in
// which nothing was intended does not end a stall.
func excursions(slots []int64, above int64) int64 {
	n, inside := int64(0), false
	for _, s := range slots {
		switch {
		case s > above && !inside:
			n++
			inside = true
		case s > 0 && s <= above:
			inside = false
		}
	}
	return n
}
