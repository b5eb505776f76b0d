// Package store is the folder of a bench run: plain files that a person can read, one folder a cell.
//
//	DIR/
//	  plan.json              Plan: suite, seed, cells and the order of the runs, written before the first run
//	  suite.yaml             the suite as it was given
//	  host.json              host.Fingerprint and ceilings, as they were before the first run
//	  status.json            Status: running, finished or interrupted; found capacity and fixed rate; rewritten often
//	  report.html report.md  written by bench/report
//	  hashes.txt             SHA-256 of every other file, written last, read by sha256sum -c and bench/verify
//	  cells/
//	    007-linger=5ms/      one folder a cell: its number and name
//	      rep-1/             one repeat, whole or not there: it is filled as rep-1.partial and renamed when complete
//	        cell.yaml        the workload exactly as `tidemark load --workload` was given it
//	        result.json      result.Result, written by the load process, with its .hlog files beside it
//	        run.json         Run: status, marks, the target's counters, memory before and after, ceilings
//	        load.log         the load process's stderr;  target.log the target's since its start
//	        profiles/        pprof files: load.cpu.pprof, broker.cpu.pprof
//	      profiled/          the same of one repeat more, with heap, mutex and block profiles, out of all statistics
//
// A rep-K folder, once there, is never written again: a resumed run skips it and leaves it byte for byte. The package
// computes nothing; metrics.go only names what one run offers to comparisons. It is not safe for two writers.
package store

import (
	"slices"
	"strings"
	"time"

	"github.com/tidemark/tidemark/bench/calibrate"
	"github.com/tidemark/tidemark/loadgen/result"
	"github.com/tidemark/tidemark/loadgen/workload"
)

// Schema is the version of plan.json, status.json and run.json that this build writes. It reads all from 1 on.
const Schema = 1

// Kind is the one question of a cell (METHOD 1).
type Kind string

// The kinds of cells. Their results never share a table.
const (
	Capacity Kind = "capacity" // closed loop: throughput and cost, no latency
	Latency  Kind = "latency"  // open loop at a stated rate: latency and cost
)

// Role says what a cell is for in its suite.
type Role string

// The roles of cells.
const (
	Probe    Role = "probe"    // capacity of the baseline, run first; the ladder's rates come from it
	Baseline Role = "baseline" // the baseline at the fixed rate; drift monitor and A/A at once
	Ladder   Role = "ladder"   // the baseline at a share of the capacity found
	Axis     Role = "axis"     // one setting changed, at the fixed rate: compared with Baseline
	Ceiling  Role = "capacity" // a capacity cell of its own: compared with Probe
)

// Plan is what a run sets out to do. It is written once, before the first run, and decides what a resume goes on with.
type Plan struct {
	Schema    int       `json:"schema"`
	Suite     string    `json:"suite"`            // built-in name, or the path of the file
	SuiteHash string    `json:"suiteHash"`        // SHA-256 of the suite's text, hex
	RunID     string    `json:"runId"`            // prefix of the topics, random
	Created   time.Time `json:"created"`          // wall clock
	Seed      uint64    `json:"seed"`             // order of the runs and base of the cells' seeds
	Command   []string  `json:"command"`          // what a person types to repeat the run
	Target    string    `json:"target"`           // "embedded", "bootstrap HOST:PORT" or "command PROGRAM ..."
	RateFixed float64   `json:"rateFixed"`        // records/s of Baseline and Axis cells, as asked
	RateCap   float64   `json:"rateCap"`          // the fixed rate is lowered to this share of the capacity found; 0: never
	Seconds   float64   `json:"seconds"`          // planned length, everything included
	MaxBytes  int64     `json:"maxBytes"`         // planned upper bound of bytes written by producers, all runs together
	Design    string    `json:"design,omitempty"` // of the matrix: "one-factor", "full", Pairwise, Effects
	Model     []Term    `json:"model,omitempty"`  // of an effects design: what its cells tell beside the centre, in this order
	Cells     []Cell    `json:"cells"`            // Cells[i].Number == i+1
	Runs      []RunPlan `json:"runs"`             // in the order in which they run
	// Search lists the runs that a search for the capacity under the objective may make, after Runs: which of them it does
	// follows from their outcomes. SLOP99MS is the objective.
	Search    []RunPlan `json:"search,omitempty"`
	Stop      *Stop     `json:"stop,omitempty"`
	Profiled  []RunPlan `json:"profiled"`  // after them: one repeat more of some cells, with heavy profiles (METHOD 7)
	Primary   []string  `json:"primary"`   // names of cells whose comparisons Answer and gate use (at most six)
	Allowance float64   `json:"allowance"` // 0.05: how much worse is still "no worse"
	Baseline  []Setting `json:"baseline"`  // the settings of the baseline, for captions and the report's heads
	SLOP99MS  float64   `json:"sloP99Ms"`  // latency objective of the suite, 0 for none
	Versions  Versions  `json:"versions"`
}

// Pairwise is the design whose combinations are compared with nothing: it finds cliffs and supports no effects.
const Pairwise = "pairwise"

// Effects is the design whose cells are fitted by a model: its terms are compared with nothing changed, its cells are not.
const Effects = "effects"

// Term is one effect of an effects design's model: settings that a cell has all of, against none of them.
type Term struct {
	Name     string    `json:"name"` // "linger=5ms", "acks=1 × linger=5ms": beyond what both make alone
	Settings []Setting `json:"settings"`
	// StandardError of the term, for runs whose own is 1: what the design can see of it.
	StandardError float64 `json:"standardError"`
	// Alias names the interaction of two axes, outside the model, that would pass most of itself off as this term:
	// AliasShare of it. "" where none does.
	Alias      string  `json:"alias,omitempty"`
	AliasShare float64 `json:"aliasShare,omitempty"`
}

// Modelled reports whether the cell is of an effects design: its centre, one of its combinations, or one outside it.
func (c *Cell) Modelled() bool { return c.Role == Baseline || c.Role == Axis && c.Against == 0 }

// Row is a cell as its plan's model sees it: 1 for the centre, then 1 for each term whose settings it has.
func (p *Plan) Row(c *Cell) []float64 { return RowOf(p.Model, c.Settings) }

// RowOf is Row for settings of no cell.
func RowOf(model []Term, settings []Setting) []float64 {
	row := make([]float64, 1+len(model))
	row[0] = 1
	for i, t := range model {
		row[1+i] = 1
		for _, s := range t.Settings {
			if !slices.Contains(settings, s) {
				row[1+i] = 0
			}
		}
	}
	return row
}

// Stop is a rule that leaves out further repeats of a cell once its own intervals are narrow enough. It looks at widths,
// never at verdicts, and first after six runs (METHOD 6). The baseline, which shows drift, makes all of its runs.
type Stop struct {
	Width   float64  `json:"width"`   // 0.1: the 95% interval's upper end is at most 10% above the value
	Metrics []string `json:"metrics"` // of each that the kind of cell has
}

// Stopped is a cell whose further repeats were left out.
type Stopped struct {
	Cell  int     `json:"cell"`
	Runs  int     `json:"runs"`  // that it has
	Order int     `json:"order"` // place of the first run left out; the rule saw all runs before it
	Width float64 `json:"width"` // of the widest of its intervals then
}

// Versions names the build that ran the bench.
type Versions struct {
	Tidemark string `json:"tidemark"` // version or commit of the binary
	Go       string `json:"go"`
	Modified bool   `json:"modified"` // built from a tree with changes
}

// String is the version in one word, twelve digits of a commit at most, with "+dirty" where the tree had changes.
func (v Versions) String() string {
	s := v.Tidemark
	if len(s) == 40 {
		s = s[:12]
	}
	if v.Modified && !strings.HasSuffix(s, "+dirty") {
		s += "+dirty"
	}
	return s
}

// Setting is one value of one axis, in the words of a workload file ("linger", "5ms").
type Setting struct {
	Axis  string `json:"axis"`
	Value string `json:"value"`
}

// Cell is one combination of settings and one question.
type Cell struct {
	Number    int       `json:"number"` // from 1
	Name      string    `json:"name"`   // "baseline", "linger=5ms", "load 75%"; unique within the plan
	Role      Role      `json:"role"`
	Kind      Kind      `json:"kind"`
	Settings  []Setting `json:"settings"`           // what differs from the baseline; empty for the baseline itself
	Against   int       `json:"against"`            // number of the cell that this one is compared with, 0 for none
	Repeats   int       `json:"repeats"`            // planned
	LoadShare float64   `json:"loadShare"`          // Ladder: share of the capacity found; else 0
	Outside   bool      `json:"outside,omitempty"`  // of an effects design: its model must foretell the cell, which it was not fitted to
	Searched  bool      `json:"searched,omitempty"` // Ladder: a search decides whether and how often it runs; Repeats bounds it
	Rate      float64   `json:"rate"`               // records/s as planned; 0 for capacity cells and, before the probes, Ladder
	WarmupMS  int64     `json:"warmupMs"`
	WindowMS  int64     `json:"windowMs"` // latency: length of the window; capacity: its upper bound
	MaxBytes  int64     `json:"maxBytes"` // a run ends after so many bytes; 0: no bound of its own
	// CPUProfile: the measured repeats carry the CPU profile of both processes. Profiled: the cell has one repeat more,
	// number Repeats+1, with heap, mutex and block profiles.
	CPUProfile bool `json:"cpuProfile"`
	Profiled   bool `json:"profiled"`
	// Asked is the whole workload, rate, window and bounds included; Ladder cells get their rate when the probes are
	// done, and a run's own cell.yaml has it.
	Asked workload.Spec `json:"asked"`
}

// RunPlan is one run of one cell in the plan's order.
type RunPlan struct {
	Cell   int    `json:"cell"`   // Cell.Number
	Repeat int    `json:"repeat"` // from 1
	Seed   uint64 `json:"seed"`
}

// State is where a bench run stands.
type State string

// The states of a bench run.
const (
	Running     State = "running" // also what a run that was killed leaves behind
	Finished    State = "finished"
	Interrupted State = "interrupted" // a signal ended it early; what ran is kept
	Failed      State = "failed"
)

// Status is rewritten after each run.
type Status struct {
	Schema      int       `json:"schema"`
	State       State     `json:"state"`
	Started     time.Time `json:"started"`
	Ended       time.Time `json:"ended"`
	Seconds     float64   `json:"seconds"` // spent, a resumed run's sessions together
	RunsDone    int       `json:"runsDone"`
	RunsPlanned int       `json:"runsPlanned"`
	Capacity    float64   `json:"capacity"`  // records/s found by the probes; 0 before
	RateFixed   float64   `json:"rateFixed"` // the fixed rate in use after RateCap
	Pushed      int       `json:"pushed"`    // profiles that a Pyroscope server took, over all sessions
	Notes       []string  `json:"notes"`     // said once for the whole run: pinning, lowered rate, a silent Pyroscope
	Error       string    `json:"error"`
	// Calibrations hold the load process to a sink's log, one for each session. A session whose last try was not OK makes
	// its runs invalid.
	Calibrations []calibrate.Calibration `json:"calibrations,omitempty"`
	// Stopped lists the cells whose further repeats the plan's stop rule left out.
	Stopped []Stopped `json:"stopped,omitempty"`
}

// RunStatus judges one run. Only OK runs enter ratios, noise and verdicts.
type RunStatus string

// What became of a run, worst last.
const (
	OK               RunStatus = "ok"
	Saturated        RunStatus = "saturated"         // a latency cell that did not hold its rate
	Throttled        RunStatus = "throttled"         // the target's quota slowed it
	GeneratorLimited RunStatus = "generator-limited" // the generator convicted itself
	Partial          RunStatus = "partial"           // ended early by a signal
	Invalid          RunStatus = "invalid"           // lost or damaged data, target died, counts that do not add up
	Broken           RunStatus = "failed"            // there is no result
)

// Run is one repeat of one cell: run.json, with the load process's result beside it.
type Run struct {
	Schema   int       `json:"schema"`
	Cell     int       `json:"cell"`
	Repeat   int       `json:"repeat"`
	Order    int       `json:"order"` // place in the plan's order, from 0
	Seed     uint64    `json:"seed"`
	Status   RunStatus `json:"status"`
	Reasons  []string  `json:"reasons"` // why the status is not OK, in words for a person
	Marks    []string  `json:"marks"`   // Mark constants
	Rate     float64   `json:"rate"`    // records/s asked; 0 in capacity cells
	Started  time.Time `json:"started"`
	Ended    time.Time `json:"ended"`
	ExitCode int       `json:"exitCode"` // of the load process
	Error    string    `json:"error"`    // its last words where it failed
	Command  []string  `json:"command"`  // repeats this one run by hand
	Target   Target    `json:"target"`
	// Cores is the whole host over the window, Memory the page cache before and after the run, Ceilings what the host
	// could do right before and after it, where the suite asks for that.
	Cores    []result.Core    `json:"cores"`
	Memory   result.Memory    `json:"memory"`
	Ceilings []result.Ceiling `json:"ceilings"`
	Profiles []string         `json:"profiles"` // file names below profiles/
	// Sink is what the same workload reaches against the sink; nil where that was not measured.
	Sink *calibrate.Reached `json:"sink,omitempty"`

	// Result is result.json with Target, Cores, Memory and Ceilings set from the fields above; nil when Status is Broken
	// and the load process left nothing.
	Result *result.Result `json:"-"`
	Dir    string         `json:"-"` // the repeat's folder
}

// Marks that a run may carry. FreshMemory takes a capacity run's cost and throughput out of the ratios, Profiled takes a
// run out of everything; the others are said beside its figures.
const (
	MarkFreshMemory  = "fresh memory"  // wrote more than was touched right before it into free memory: a page costs a fault in the host
	MarkSteal        = "steal"         // the hypervisor took over 1% of the window
	MarkLate         = "late pacer"    // over a tenth of the ack p99 may be the generator's own lateness
	MarkCeilingMoved = "ceiling moved" // ceilings before and after are over 15% apart
	MarkProfiled     = "profiled"      // carries heavy profiles: out of all statistics
)

// Target is what was loaded and what it used.
type Target struct {
	Mode      string    `json:"mode"` // "embedded", "bootstrap", "command"
	Bootstrap string    `json:"bootstrap"`
	Version   string    `json:"version"`
	Build     string    `json:"build,omitempty"` // of the embedded broker: its binary's SHA-256, twelve digits
	PIDs      []int     `json:"pids"`
	Cores     []int     `json:"cores"`     // cores that the target is pinned to; empty: not pinned
	LoadCores []int     `json:"loadCores"` // the same for the load process
	Settings  []Setting `json:"settings"`  // broker settings that the bench asked for
	// Process is the target's use between the window's opening and its close, interpolated between samples; several
	// processes are summed. nil: not measured (a target reached over the network), which is not 0.
	Process *result.Process `json:"process"`
	Samples []Sample        `json:"samples"` // each 100 ms, from before the load process started until after it ended
}

// Sample is the target's counters at one moment.
type Sample struct {
	Nanos    int64 `json:"nanos"` // CLOCK_MONOTONIC, the clock of result.json's window
	CPUNanos int64 `json:"cpuNanos"`
	RSSBytes int64 `json:"rssBytes"`
}
