// Package suites holds the built-in suites and reads a person's own. A suite says what to ask of a target: one
// baseline workload, and around it probes, a ladder of rates, cells that change settings, and capacity cells. It plans
// nothing: bench/matrix turns a suite into cells and runs.
//
//	name: quick
//	about: one sentence
//	target: embedded            # or {bootstrap: HOST:PORT}, {command: [program, args...], bootstrap: HOST:PORT}, both
//	                            # with admin: HOST:PORT where the target serves /debug/pprof
//	seed: 7
//	seconds: 180                # everything together; the windows of the latency cells get what is left of it
//	max-bytes: 8GiB             # never planned to write more
//	allowance: 5%               # how much worse is still "no worse"
//	rate: 10000                 # records/s of the baseline and of the cells that change a setting
//	rate-cap: 50%               # of the capacity found: a slower host gets a lower fixed rate, and is told so
//	warm-up: 400ms
//	window: 2s                  # of latency cells; left out: from seconds
//	primary: [acks=1, linger=5ms]
//	broker: {name: value}       # properties of the embedded broker
//	baseline: {repeats: 9, set: {acks: all, ...}}        # set: fields of a workload file
//	probes: {repeats: 2, window: 2.5s, max-bytes: 256MiB}
//	slo: 10ms                   # objective: p99 within; a run that meets it lost and failed nothing and held its rate
//	ladder: {repeats: 2, shares: [25%, 50%, 75%, 90%]}   # or search: true instead of repeats: the rates are the rungs of a
//	                            # search for the highest that meets slo; one run a rung, then fresh ones around the break
//	matrix:
//	  design: one-factor        # or full; or pairwise: it finds combinations that fail or sit far off, and compares nothing;
//	                            # or effects: combinations that tell the terms of a model apart best (D-optimal)
//	  model: [acks, linger, acks*linger]  # of effects: axes, and pairs of them beyond what both make alone
//	  points: 20                # of effects: combinations; left out: as many as 20 residual degrees of freedom take, and 20 of
//	                            # repeats, which noise is told from: with repeats: 1 the baseline's alone, and verdicts need 20
//	  repeats: 2
//	  axes: {acks: [1], linger: [5ms], ...}
//	  exclude: [{acks: 0, idempotence: true}]
//	capacity: {repeats: 2, window: 2.5s, max-bytes: 512MiB, cells: [{compression: zstd}, ...]}
//	stop: {width: 10%, metrics: [ack p99]}  # no further repeats of a cell whose 95% intervals are that narrow; looked at from
//	                            # its sixth run on, at widths alone; the baseline makes all of its runs
//	profiles:
//	  cpu: true                 # every measured repeat carries the CPU profile of both processes
//	  extra: baseline           # cells that get one repeat more, with heap, mutex and block: baseline, all, none
//	  plain: 2                  # repeats of the baseline without any profile: what profiling costs; 0 for none
//
// Reading is strict: an unknown or repeated field, a wrong unit, a second document, an empty file are errors with
// file, line, column and the nearest known name. Concurrency: plain values, no state.
package suites

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/tidemark/tidemark/loadgen/workload"
)

//go:embed *.yaml
var builtin embed.FS

// Setting is one field of a workload file and its value, with its place in the suite.
type Setting struct {
	Field string
	Value string // as workload.Spec.Set takes it
	At    string // "quick.yaml:14:9"
}

// Target says what is measured.
type Target struct {
	Bootstrap string   // HOST:PORT,... of a cluster that runs already; with Command, where that will listen
	Command   []string // a program to start
	Admin     string   // HOST:PORT of its /debug/pprof; "" where it has none, or is embedded
}

// Embedded reports whether the suite starts this program's own broker.
func (t Target) Embedded() bool { return t.Bootstrap == "" && len(t.Command) == 0 }

// Servers are the bootstrap servers, each HOST:PORT as it was given.
func (t Target) Servers() (servers []string) {
	for _, s := range strings.Split(t.Bootstrap, ",") {
		if s = strings.TrimSpace(s); s != "" {
			servers = append(servers, s)
		}
	}
	return servers
}

// String is the target as plan.json and the report name it.
func (t Target) String() string {
	switch {
	case len(t.Command) > 0:
		return "command " + strings.Join(t.Command, " ")
	case t.Bootstrap != "":
		return "bootstrap " + t.Bootstrap
	}
	return "embedded"
}

// Probes are the closed-loop runs of the baseline that find its capacity.
type Probes struct {
	Repeats  int
	Window   time.Duration
	MaxBytes int64
	Set      []Setting
}

// Ladder is the baseline at shares of the capacity found. Search: not so many repeats of each, but a search for the
// highest that meets the objective.
type Ladder struct {
	Repeats int
	Shares  []float64
	Search  bool
}

// Axis is one workload field and the values it takes.
type Axis struct {
	Field  string
	Values []Setting
}

// Matrix is the cells that change settings at the fixed rate.
type Matrix struct {
	Design  string     // "one-factor", "full", "pairwise", "effects"
	Model   [][]string // of effects: terms of one axis or two
	Points  int        // of effects: combinations beside the centre; 0 for as many as are needed
	Repeats int
	Axes    []Axis
	Exclude [][]Setting
}

// Capacity is the closed-loop cells.
type Capacity struct {
	Repeats  int
	Window   time.Duration
	MaxBytes int64
	Cells    [][]Setting
}

// Stop leaves out further repeats of cells whose intervals are narrow enough; Width 0 is no rule.
type Stop struct {
	Width   float64
	Metrics []string
}

// Profiles says which runs carry profiles (METHOD 7).
type Profiles struct {
	CPU   bool
	Extra string // "baseline", "all", "none"
	Plain int
}

// Suite is a suite as it was read.
type Suite struct {
	Name            string
	About           string
	File            string // built-in: "quick.yaml"
	Text            []byte
	Target          Target
	Seed            uint64
	Seconds         float64
	MaxBytes        int64
	Allowance       float64
	Rate            float64
	RateCap         float64
	WarmUp          time.Duration
	Window          time.Duration // 0: what Seconds leaves
	SLO             time.Duration
	Primary         []string
	Broker          []Setting
	Baseline        []Setting
	BaselineRepeats int
	Probes          Probes
	Ladder          Ladder
	Matrix          Matrix
	Capacity        Capacity
	Stop            Stop
	Profiles        Profiles
}

// Names lists the built-in suites.
func Names() []string {
	entries, err := fs.ReadDir(builtin, ".")
	if err != nil {
		return nil
	}
	var names []string
	for _, e := range entries {
		names = append(names, strings.TrimSuffix(e.Name(), ".yaml"))
	}
	return names
}

// Find reads a built-in suite by name, or a file where name ends in .yaml or .yml or holds a slash.
func Find(name string) (*Suite, error) {
	if strings.HasSuffix(name, ".yaml") || strings.HasSuffix(name, ".yml") || strings.ContainsRune(name, '/') {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("suite: %w", err)
		}
		return Parse(name, text)
	}
	names := Names()
	if !slices.Contains(names, name) {
		hint := ""
		if near := workload.Nearest(name, names); near != "" {
			hint = fmt.Sprintf(" (did you mean %q?)", near)
		}
		return nil, fmt.Errorf("unknown suite %q%s: built in are %s; a file's name ends in .yaml", name, hint, strings.Join(names, ", "))
	}
	text, err := builtin.ReadFile(path.Clean(name + ".yaml"))
	if err != nil {
		return nil, err
	}
	return Parse(name+".yaml", text)
}

// ErrSuite is in the chain of every error about a suite's text.
var ErrSuite = errors.New("bad suite")
