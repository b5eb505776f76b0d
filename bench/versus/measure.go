package versus

import (
	"fmt"
	"math"
	"strings"

	"github.com/tidemark/tidemark/bench/stats"
	"github.com/tidemark/tidemark/bench/store"
)

// kind is what a measure is of: it decides which windows count.
type kind int

const (
	costKind    kind = iota // windows in fresh memory leave it (METHOD 5), where enough pairs remain
	latencyKind             // only windows that held the rate, and that the generator was not the limit of
	askedKind               // set once for a block, whose windows are one observation
	aloneKind               // of a row that is measured alone
)

// measure is one figure of a window.
type measure struct {
	unit      string
	direction stats.Direction
	kind      kind
	of        func(w *Window) float64
	noFresh   bool // windows in fresh memory are left out
}

// measures are those of windows of a load, by the name that goals use. Rows measured alone bring their own.
//
//tidy:table
var measures = map[string]measure{
	"MB per CPU-s":       {unit: "MB/CPU-s", direction: stats.HigherIsBetter, kind: costKind, of: func(w *Window) float64 { return perCPU(w.WireBytes/1e6, w) }},
	"MB read per CPU-s":  {unit: "MB/CPU-s", direction: stats.HigherIsBetter, kind: costKind, of: func(w *Window) float64 { return perCPU(w.ReadBytes/1e6, w) }},
	"records per CPU-s":  {unit: "records/CPU-s", direction: stats.HigherIsBetter, kind: costKind, of: func(w *Window) float64 { return perCPU(w.Records, w) }},
	"requests per CPU-s": {unit: "requests/CPU-s", direction: stats.HigherIsBetter, kind: costKind, of: func(w *Window) float64 { return perCPU(w.Requests, w) }},
	"records/s asked":    {unit: "records/s", direction: stats.HigherIsBetter, kind: askedKind, of: func(w *Window) float64 { return w.Asked }},
	"ack p50":            {unit: "ms", direction: stats.LowerIsBetter, kind: latencyKind, of: func(w *Window) float64 { return w.Percentiles["ack p50"].MS }},
	"ack p99":            {unit: "ms", direction: stats.LowerIsBetter, kind: latencyKind, of: func(w *Window) float64 { return w.Percentiles["ack p99"].MS }},
	"ack p99.9":          {unit: "ms", direction: stats.LowerIsBetter, kind: latencyKind, of: func(w *Window) float64 { return w.Percentiles["ack p99.9"].MS }},
	"delivery p99":       {unit: "ms", direction: stats.LowerIsBetter, kind: latencyKind, of: func(w *Window) float64 { return w.Percentiles["delivery p99"].MS }},
}

// measureOf is the measure that a goal names; for rows that are measured alone the direction is that of the goal.
func measureOf(g Goal) measure {
	if m, ok := measures[g.Measure]; ok {
		return m
	}
	m := alone(g.Measure)
	if g.Against != "" {
		m.direction, m.unit = stats.HigherIsBetter, "records/CPU-s"
	}
	return m
}

// alone is a figure of a row that is measured alone; its unit is the last word of its name.
func alone(name string) measure {
	return measure{unit: name[strings.LastIndexByte(name, ' ')+1:], direction: stats.LowerIsBetter, kind: aloneKind, of: func(w *Window) float64 { return w.Alone[name] }}
}

// perCPU is the work for each CPU-second of the broker. What the compiler threads of a JVM used is not counted: the other side
// gets the benefit of the doubt, for some day they have nothing left to do.
func perCPU(work float64, w *Window) float64 {
	cpu := w.CPUSeconds - w.Compilers*w.Seconds
	if cpu <= 0 || work <= 0 {
		return math.NaN()
	}
	return work / cpu
}

// figure is the measure of a window that may be counted, or why it may not.
func (m measure) figure(w *Window) (v float64, why string) {
	switch store.RunStatus(w.Status) {
	case store.OK:
	case store.GeneratorLimited:
		if m.kind == latencyKind {
			return 0, "generator-limited"
		}
	case store.Saturated:
		return 0, "rate not held"
	default:
		return 0, w.Status
	}
	if w.Lost+w.Corrupt > 0 {
		return 0, "data lost or damaged"
	}
	if m.noFresh && w.fresh() {
		return 0, store.MarkFreshMemory
	}
	v = m.of(w)
	if !(v > 0) || math.IsInf(v, 0) {
		return 0, "no figure"
	}
	return v, ""
}

// observations are the values of a block that are observations of their own: what is set once for all of its windows is one.
func (m measure) observations(values []float64) []float64 {
	if m.kind == askedKind {
		return values[:min(1, len(values))]
	}
	return values
}

// rest is the series by which it is judged whether an arm has settled: the cost in each window of equal work.
func rest(windows []*Window) []float64 {
	var series []float64
	for _, w := range windows {
		series = append(series, w.Series...)
	}
	return series
}

func percent(what string, share float64) string { return fmt.Sprintf("%s%.1f%%", what, 100*share) }
