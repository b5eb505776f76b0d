// Package calibrate holds the generator to a truth before a bench believes it (METHOD 3): two short runs of the load process,
// the same binary on the same cores as every measured run, against loadgen/sink, which does what its script says and
// keeps a log of it.
//
//	run 1  open loop     every ack 2 ms late, a freeze of 150 ms, one batch lost, one delivered twice
//	run 2  closed loop   a set capacity
//
// The truth is the sink's log, not its script: a sink whose timer woke late was late in truth. For each record the log says
// when its ack was handed to the socket, and seed and sequence say when it was intended, so that the latencies that the
// load process should have read are computed here without one of its stamps. A reading may lie above the truth by what two
// processes need to wake (above), never below it by more than the histogram's three digits. A host that is busy delays
// both sides: Run tries again, a few times, and a generator that reads wrongly fails each of them.
//
// Rate is the other use of the sink: what a workload reaches against a target that costs nothing.
//
// Concurrency: Run and Rate belong to their caller's goroutine; each ends the sink and the load process that it starts.
package calibrate

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tidemark/tidemark/loadgen/result"
	"github.com/tidemark/tidemark/loadgen/sink"
	"github.com/tidemark/tidemark/loadgen/workload"
)

// Reading is one truth beside what the load process read.
type Reading struct {
	Name    string  `json:"name"` // "delay", "freeze", "intended", "loss", "repeat", "capacity"
	What    string  `json:"what"` // a sentence for a person
	Unit    string  `json:"unit"` // "ms", "records", "records/s"
	Truth   float64 `json:"truth"`
	Reading float64 `json:"reading"`
	Low     float64 `json:"low"` // the reading is right from here
	High    float64 `json:"high"`
	OK      bool    `json:"ok"`
}

// Calibration is what was read where the truth was known.
type Calibration struct {
	Started  time.Time `json:"started"`
	Seconds  float64   `json:"seconds"`
	Tries    int       `json:"tries"` // the last one stands here
	OK       bool      `json:"ok"`
	Readings []Reading `json:"readings"`
	// PacerP99Nanos is how late the load process was by its own account, SentP99Nanos by the sink's log: how long after its
	// intended time a record arrived.
	PacerP99Nanos int64  `json:"pacerP99Nanos"`
	SentP99Nanos  int64  `json:"sentP99Nanos"`
	Error         string `json:"error"` // why there are no readings
}

// Options says what is calibrated.
type Options struct {
	Bin   string   // the tidemark binary; "" is this program
	Cores []int    // that the load process is pinned to; empty: not pinned
	Env   []string // added to its environment
	Dir   string   // a folder for scratch, which is left as it was
}

// tries is how often a calibration is begun anew at most.
const tries = 5

// Tolerances. A reading is later than the sink's stamp by the way through loopback and the wake-up of the reading thread:
// 30 to 80 µs on two virtual cores, and the sink shares them with the load process here.
const (
	above    = 500 * time.Microsecond
	digits   = 0.002 // three digits of the histogram, and its highest value of a bucket
	ofRate   = 0.03
	delay    = 2 * time.Millisecond
	freeze   = 150 * time.Millisecond
	rate     = 1000.0
	capacity = 20000.0
	warmUp   = 100 * time.Millisecond
	window   = 800 * time.Millisecond
)

// Topic is the topic of a calibration's runs.
const Topic = "calibration"

// Run calibrates the load process, which takes about two seconds, or a few times that on a host that is busy.
func Run(ctx context.Context, o Options) *Calibration {
	c := &Calibration{Started: time.Now().UTC()}
	for c.Tries = 1; ; c.Tries++ {
		c.Readings, c.Error = nil, ""
		if err := c.try(ctx, &o); err != nil {
			c.Error = err.Error()
		}
		c.OK = c.Error == "" && len(c.Readings) > 0 && !slices.ContainsFunc(c.Readings, func(r Reading) bool { return !r.OK })
		if c.OK || c.Tries == tries || ctx.Err() != nil {
			break
		}
	}
	c.Seconds = time.Since(c.Started).Seconds()
	return c
}

// Line is the calibration in a line: "calibration ok (2.09 ms read as 2.13)", or what was read wrongly.
func (c *Calibration) Line() string {
	if c.Error != "" {
		return "calibration failed: " + c.Error
	}
	var wrong []string
	for _, r := range c.Readings {
		if !r.OK {
			wrong = append(wrong, r.Name+": "+r.Words())
		}
	}
	switch {
	case len(wrong) > 0:
		return fmt.Sprintf("calibration failed %d times: %s", c.Tries, strings.Join(wrong, "; "))
	case len(c.Readings) == 0:
		return "calibration failed: nothing was read"
	}
	return "calibration ok (" + c.Readings[0].Words() + ")"
}

// Words are truth and reading in a phrase: "2.09 ms read as 2.13".
func (r Reading) Words() string {
	digits := 0
	if r.Unit == "ms" {
		digits = 2
	}
	return fmt.Sprintf("%.*f %s read as %.*f", digits, r.Truth, r.Unit, digits, r.Reading)
}

// read enters a reading that is right between low and high.
func (c *Calibration) read(name, what, unit string, truth, reading, low, high float64) {
	c.Readings = append(c.Readings, Reading{name, what, unit, truth, reading, low, high, reading >= low && reading <= high})
}

func (c *Calibration) try(ctx context.Context, o *Options) error {
	dir, err := os.MkdirTemp(o.Dir, "calibration-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if err := c.latency(ctx, o, filepath.Join(dir, "latency")); err != nil {
		return err
	}
	return c.capacity(ctx, o, filepath.Join(dir, "capacity"))
}

// latency is the first run.
func (c *Calibration) latency(ctx context.Context, o *Options, dir string) error {
	script := sink.Script{AckDelay: delay, KeepBytes: 16 << 20, LogArrivals: true,
		Freezes: []sink.Freeze{{AfterBatch: 500, For: freeze}},
		Faults:  []sink.Fault{{Kind: sink.Lose, Batch: 300}, {Kind: sink.Repeat, Batch: 400}}}
	s := base()
	s.Question, s.Rate, s.Arrivals, s.Consumers, s.BatchSize = workload.Latency, rate, workload.ArrivalsConstant, 1, 1
	s.WarmUp, s.Window = workload.Duration(warmUp), workload.Duration(window)
	s.InFlight = 20
	s.BufferRecords = 50 // the freeze outlasts it: what waits to be sent was intended all the same
	res, arrivals, err := against(ctx, o, script, &s, dir)
	if err != nil {
		return err
	}
	truth := truthOf(&s, res, arrivals)
	ack := res.Clocks[result.Ack]
	for _, r := range []struct {
		name, what string
		p          float64
	}{
		{"delay", fmt.Sprintf("each ack is held back for %v: the median", delay), 50},
		{"freeze", fmt.Sprintf("nothing is answered for %v: the 90th percentile lies within", freeze), 90},
	} {
		q, _ := ack.At(r.p)
		want, got := ms(percentile(truth.acked, r.p)), ms(q.Nanos)
		if q.Censored {
			got = math.Inf(1)
		}
		c.read(r.name, r.what, "ms", want, got, want*(1-digits), want*(1+digits)+ms(int64(above)))
	}
	c.read("intended", "records that the seed intends in the window", "records", float64(truth.intended), float64(res.Ends.Intended), float64(truth.intended), float64(truth.intended))
	for _, r := range []struct {
		name, what string
		kind       sink.Kind
		got        int64
	}{
		{"loss", "one batch is acked and never delivered: its records", sink.Lose, res.Verification.Lost},
		{"repeat", "one batch is delivered twice: its records", sink.Repeat, res.Verification.Duplicated},
	} {
		n := 0.0
		for _, a := range arrivals {
			if a.Harm == r.kind {
				n += float64(a.Records)
			}
		}
		if n == 0 {
			return fmt.Errorf("the load process sent too few batches for its %s: %d", r.name, len(arrivals))
		}
		c.read(r.name, r.what, "records", n, float64(r.got), n, n)
	}
	late, _ := res.Clocks[result.Pacer].At(99)
	c.PacerP99Nanos, c.SentP99Nanos = late.Nanos, percentile(truth.sent, 99)
	return nil
}

// capacity is the second run.
func (c *Calibration) capacity(ctx context.Context, o *Options, dir string) error {
	s := base()
	s.Question, s.Rate, s.Consumers = workload.Capacity, 0, 0
	s.WarmUp, s.Window = workload.Duration(warmUp), workload.Duration(window/2)
	res, arrivals, err := against(ctx, o, sink.Script{Capacity: capacity, LogArrivals: true}, &s, dir)
	if err != nil {
		return err
	}
	served := 0.0
	for _, a := range arrivals {
		if a.WrittenNanos >= res.Window.StartNanos && a.WrittenNanos < res.Window.EndNanos {
			served += float64(a.Records)
		}
	}
	want := served / res.Window.Seconds()
	c.read("capacity", fmt.Sprintf("%.0f records are served each second", capacity), "records/s", want, res.Produce.RecordsPerSec, want*(1-ofRate), want*(1+ofRate))
	return nil
}

// truth is what the sink's log and the seed say about a run.
type truth struct {
	intended int64   // in the window
	acked    []int64 // intended to the ack's writing, of the window's records; ascending
	sent     []int64 // intended to arrival; ascending
}

// truthOf computes the truth of a run of one producer.
func truthOf(s *workload.Spec, res *result.Result, arrivals []sink.Arrival) (t truth) {
	begin := res.Window.StartNanos - s.WarmUp.Nanos()
	var intended []int64
	schedule := workload.NewSchedule(s, 0)
	for at := schedule.Next(); at < s.WarmUp.Nanos()+s.Window.Nanos(); at = schedule.Next() {
		intended = append(intended, begin+at)
		if at >= s.WarmUp.Nanos() {
			t.intended++
		}
	}
	for _, a := range arrivals {
		if a.Producer != 0 || a.WrittenNanos == 0 {
			continue // the probes have a producer of their own
		}
		for seq := a.FirstSequence; seq <= a.LastSequence && seq < uint64(len(intended)); seq++ {
			if at := intended[seq]; at >= res.Window.StartNanos {
				t.acked, t.sent = append(t.acked, a.WrittenNanos-at), append(t.sent, a.Nanos-at)
			}
		}
	}
	slices.Sort(t.acked)
	slices.Sort(t.sent)
	return t
}

// percentile of ascending values, by the rank that the load process uses; 0 for none.
func percentile(ascending []int64, p float64) int64 {
	if len(ascending) == 0 {
		return 0
	}
	rank := int(math.Ceil(p / 100 * float64(len(ascending))))
	return ascending[max(rank, 1)-1]
}

func ms(nanos int64) float64 { return float64(nanos) / 1e6 }

// base is what the runs of a calibration share: one producer, one partition, the raw driver.
func base() workload.Spec {
	s := workload.Default()
	s.Driver, s.Producers, s.Partitions, s.Topic, s.Create = workload.DriverRaw, 1, 1, Topic, workload.CreateNever
	s.Drain = workload.Duration(2 * time.Second)
	s.MaxDuration = workload.Duration(20 * time.Second)
	return s
}
