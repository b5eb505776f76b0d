package calibrate

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/tidemark/tidemark/loadgen/sink"
	"github.com/tidemark/tidemark/loadgen/workload"
)

// Reached is what a workload reaches against the sink, in a closed loop: above limitedShare of it the generator may be what
// is measured.
type Reached struct {
	Shape         string  `json:"shape"` // see Shape
	RecordsPerSec float64 `json:"recordsPerSec"`
	// SinkShare is how much of a core the sink used. Where it used one up, the sink was the limit, and the generator can
	// do more than RecordsPerSec: nothing is convicted by it.
	SinkShare float64 `json:"sinkShare"`
	Seconds   float64 `json:"seconds"`
	Error     string  `json:"error"` // why there is no rate
}

// Shares of METHOD 3, and of a core above which the sink counts as the limit.
const (
	limitedShare = 0.8
	sinkFull     = 0.9
)

// Limits reports whether a run that reached so many records/s went above the share of METHOD 3, and what that share is.
func (r *Reached) Limits(recordsPerSec float64) (threshold float64, limits bool) {
	if r == nil || r.Error != "" || r.RecordsPerSec <= 0 || r.SinkShare > sinkFull {
		return 0, false
	}
	threshold = limitedShare * r.RecordsPerSec
	return threshold, recordsPerSec > threshold
}

// shaped is the workload as it runs against the sink: what it sends and how is kept, how long and how often is not.
func shaped(w *workload.Spec) *workload.Spec {
	s := w.Clone()
	s.Name, s.Prefix, s.Topic, s.TopicConfigs, s.Seed, s.Replication = "", "", "", nil, 1, 1
	s.Question, s.Rate, s.SLO, s.Arrivals = workload.Capacity, 0, 0, workload.ArrivalsPoisson
	s.Create, s.KeepTopics, s.ConsumeFrom = workload.CreateFresh, false, workload.FromEarliest
	s.WarmUp, s.Window, s.Drain = workload.Duration(150*time.Millisecond), workload.Duration(400*time.Millisecond), workload.Duration(100*time.Millisecond)
	s.MaxBytes, s.MaxDuration = 0, workload.Duration(20*time.Second)
	return s
}

// Shape names workloads that reach the same against the sink: all that differ in rate, length and seed alone.
func Shape(w *workload.Spec) string { return shaped(w).Hash() }

// Prefix is that of the topics of such a run.
const Prefix = "tidemark-ceiling"

// ringBytes are kept of each partition for the workload's consumers; one that falls behind by more skips what it missed.
const ringBytes = 8 << 20

// Rate measures what a workload reaches, in less than a second.
func Rate(ctx context.Context, o Options, w *workload.Spec) *Reached {
	out := &Reached{Shape: Shape(w)}
	began := time.Now()
	defer func() { out.Seconds = time.Since(began).Seconds() }()
	s := shaped(w)
	s.Prefix = Prefix
	dir, err := os.MkdirTemp(o.Dir, "ceiling-*")
	if err != nil {
		out.Error = err.Error()
		return out
	}
	defer func() { _ = os.RemoveAll(dir) }()
	before := ownCPU()
	res, _, err := against(ctx, &o, sink.Script{KeepBytes: ringBytes}, s, filepath.Join(dir, "out"))
	if err != nil {
		out.Error = err.Error()
		return out
	}
	if out.SinkShare = float64(ownCPU()-before) / float64(s.WarmUp.Nanos()+s.Window.Nanos()); res.Produce.RecordsPerSec <= 0 {
		out.Error = fmt.Sprintf("nothing was acknowledged of %d records", res.Ends.Intended)
	}
	out.RecordsPerSec = res.Produce.RecordsPerSec
	return out
}

// ownCPU is what this process, in which the sink runs, has used; nanoseconds.
func ownCPU() int64 {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return u.Utime.Nano() + u.Stime.Nano()
}
