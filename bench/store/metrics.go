package store

import (
	"math"

	"github.com/tidemark/tidemark/bench/stats"
	"github.com/tidemark/tidemark/loadgen/result"
)

// Metric is one figure that a run offers to comparisons.
type Metric struct {
	Name      string // "ack p99", stable: used in exports and addresses
	Unit      string // of Value: "ms", "MB/s", "records/s", "CPU-s/GB", "us CPU/request"
	Direction stats.Direction
	Kind      Kind // the kind of cell that has it; "" for both
	Gated     bool // in the gate by default (METHOD 6)
	Cost      bool // leaves the ratios of capacity cells that wrote into fresh memory
	// PerUnit is what a byte, request or record costs the target. A closed loop that the generator limits tells it all
	// the same, while its throughput is the generator's.
	PerUnit bool
	Value   func(*Run) (float64, bool)
}

// Metrics returns the metrics in the order in which tables show them. Percentiles are in milliseconds and exist where
// they are neither censored nor unsupported (fewer than 10 records above).
func Metrics() []Metric {
	return []Metric{
		{Name: "ack p50", Unit: "ms", Direction: stats.LowerIsBetter, Kind: Latency, Value: percentile(result.Ack, 50)},
		{Name: "ack p99", Unit: "ms", Direction: stats.LowerIsBetter, Kind: Latency, Value: percentile(result.Ack, 99)},
		{Name: "ack p99.9", Unit: "ms", Direction: stats.LowerIsBetter, Kind: Latency, Value: percentile(result.Ack, 99.9)},
		{Name: "delivery p50", Unit: "ms", Direction: stats.LowerIsBetter, Kind: Latency, Value: percentile(result.Delivery, 50)},
		{Name: "delivery p99", Unit: "ms", Direction: stats.LowerIsBetter, Kind: Latency, Value: percentile(result.Delivery, 99)},
		{Name: "delivery p99.9", Unit: "ms", Direction: stats.LowerIsBetter, Kind: Latency, Value: percentile(result.Delivery, 99.9)},
		{Name: "throughput", Unit: "MB/s", Direction: stats.HigherIsBetter, Kind: Capacity, Cost: true, Value: throughput},
		{Name: "records", Unit: "records/s", Direction: stats.HigherIsBetter, Kind: Capacity, Cost: true, Value: recordRate},
		{Name: "CPU per GB", Unit: "CPU-s/GB", Direction: stats.LowerIsBetter, Gated: true, Cost: true, PerUnit: true, Value: cpuPerGB},
		{Name: "CPU per request", Unit: "us", Direction: stats.LowerIsBetter, Gated: true, Cost: true, PerUnit: true, Value: cpuPerRequest},
		{Name: "calls per record", Unit: "calls", Direction: stats.LowerIsBetter, Gated: true, Cost: true, PerUnit: true, Value: callsPerRecord},
		{Name: "allocations per record", Unit: "(from 0.1)", Direction: stats.LowerIsBetter, Gated: true, Cost: true, PerUnit: true, Value: allocationsPerRecord},
	}
}

// MetricNamed returns the metric of a name.
func MetricNamed(name string) (Metric, bool) {
	for _, m := range Metrics() {
		if m.Name == name {
			return m, true
		}
	}
	return Metric{}, false
}

// Of returns the metric's value in a run that counts: status OK (for PerUnit also a capacity run that the generator
// limited), kind fitting, not profiled. ok is false for every other run.
func (m Metric) Of(d *Data, r *Run) (v float64, ok bool) {
	c := d.Cell(r.Cell)
	if c == nil || r.Result == nil || m.Kind != "" && m.Kind != c.Kind {
		return 0, false
	}
	limited := r.Status == GeneratorLimited && c.Kind == Capacity && m.PerUnit && !r.Marked(MarkProfiled)
	if !r.Countable() && !limited {
		return 0, false
	}
	v, ok = m.Value(r)
	return v, ok && !math.IsNaN(v) && !math.IsInf(v, 0)
}

// OfRatio is Of for noise, ratios and verdicts, which leave out the cost of capacity runs in fresh memory.
func (m Metric) OfRatio(d *Data, r *Run) (v float64, ok bool) {
	if m.Cost && r.Marked(MarkFreshMemory) && d.Cell(r.Cell) != nil && d.Cell(r.Cell).Kind == Capacity {
		return 0, false
	}
	return m.Of(d, r)
}

// Values returns the metric's values over a cell's runs that count.
func (m Metric) Values(d *Data, cell int) []float64 { return m.values(d, cell, m.Of) }

// RatioValues returns those that may enter noise, ratios and verdicts.
func (m Metric) RatioValues(d *Data, cell int) []float64 { return m.values(d, cell, m.OfRatio) }

func (m Metric) values(d *Data, cell int, of func(*Data, *Run) (float64, bool)) []float64 {
	var out []float64
	for _, r := range d.RunsOf(cell) {
		if v, ok := of(d, r); ok {
			out = append(out, v)
		}
	}
	return out
}

// Countable reports whether the run may enter ratios, noise and verdicts at all.
func (r *Run) Countable() bool {
	return r.Status == OK && r.Result != nil && !r.Marked(MarkProfiled)
}

// Marked reports whether the run carries the mark.
func (r *Run) Marked(mark string) bool {
	for _, m := range r.Marks {
		if m == mark {
			return true
		}
	}
	return false
}

func percentile(clock string, p float64) func(*Run) (float64, bool) {
	return func(r *Run) (float64, bool) {
		l, ok := r.Result.Clocks[clock]
		if !ok || !l.Sound {
			return 0, false
		}
		q, ok := l.At(p)
		if !ok || q.Censored || l.Count == 0 || p > 50 && q.Above < 10 {
			return 0, false
		}
		return float64(q.Nanos) / 1e6, true
	}
}

func throughput(r *Run) (float64, bool) {
	v := r.Result.Produce.BytesPerSec / 1e6
	return v, v > 0
}

func recordRate(r *Run) (float64, bool) {
	v := r.Result.Produce.RecordsPerSec
	return v, v > 0
}

// Carried is what was acked while the run's CPU and calls were counted: inside the window of a closed loop, where a part of it
// was intended before. Of an open loop, and of results without that count, it is what was intended in the window and acked.
// Records are 0 without acks.
func (r *Run) Carried() (records, bytes int64) {
	e, p := r.Result.Ends, r.Result.Produce
	switch {
	case p.AckedInside == 0:
		return e.Acked, e.AckedBytes
	case e.Acked == 0: // handed to the socket
		return 0, p.AckedInsideBytes
	}
	return p.AckedInside, p.AckedInsideBytes
}

func cpuPerGB(r *Run) (float64, bool) {
	_, bytes := r.Carried()
	if r.Target.Process == nil || bytes <= 0 {
		return 0, false
	}
	return float64(r.Target.Process.CPUNanos) / float64(bytes), true
}

func cpuPerRequest(r *Run) (float64, bool) {
	requests := r.Result.Produce.Batches.Requests + r.Result.Consume.Fetches
	if r.Target.Process == nil || requests <= 0 {
		return 0, false
	}
	return float64(r.Target.Process.CPUNanos) / 1e3 / float64(requests), true
}

func callsPerRecord(r *Run) (float64, bool) {
	p := r.Target.Process
	records, _ := r.Carried()
	if p == nil || p.ReadCalls == nil || p.WriteCalls == nil || records <= 0 {
		return 0, false
	}
	return float64(*p.ReadCalls+*p.WriteCalls) / float64(records), true
}

// fewAllocations is the least that is told apart: a broker that allocates nothing for a record still allocates for its
// timers, its metrics and the profile that is taken of it, and a ratio of such figures says nothing about records.
const fewAllocations = 0.1

// allocationsPerRecord is known of a target that counts its own: one written in Go, started by the bench.
func allocationsPerRecord(r *Run) (float64, bool) {
	p := r.Target.Process
	records, _ := r.Carried()
	if p == nil || p.Allocations == nil || records <= 0 {
		return 0, false
	}
	return max(fewAllocations, float64(*p.Allocations)/float64(records)), true
}
