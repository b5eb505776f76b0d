package gate

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/tidemark/tidemark/bench/store"
	"github.com/tidemark/tidemark/loadgen/workload"
)

// Unlike names a cell that both folders have and that asked two questions.
type Unlike struct {
	Cell string
	Why  string // "linger 1ms against 5ms"
}

// String is the cell and what keeps it from being compared.
func (u Unlike) String() string { return u.Cell + ": " + u.Why }

// free are the settings that may differ between two cells that are compared: names, seeds and how long a run may last.
var free = []string{"name", "prefix", "topic", "seed", "warm-up", "drain", "max-duration", "slo", "keep-topics"}

// rateShare is how far two offered rates may be apart and count as one; lengthShare the same for windows and bounds of
// bytes, beyond which one side may have met another regime of the page cache, and the other not.
const (
	rateShare   = 0.02
	lengthShare = 0.5
)

// Different lists the cells of one name and kind that ask two questions in the two folders: Compare leaves them out,
// since their ratio would say what the settings do, under the name of what the program does.
func Different(baseline, candidate *store.Data) (list []Unlike) {
	for i := range candidate.Plan.Cells {
		c := &candidate.Plan.Cells[i]
		if b := cellNamed(baseline, c); b != nil {
			if why := unlike(baseline, candidate, b, c); why != "" {
				list = append(list, Unlike{c.Name, why})
			}
		}
	}
	return list
}

// unlike says what two cells differ in; "" for nothing.
func unlike(baseline, candidate *store.Data, b, c *store.Cell) string {
	var parts []string
	for _, name := range workload.Fields() {
		old, knownOld := b.Asked.Get(name)
		fresh, knownFresh := c.Asked.Get(name)
		if !knownOld || !knownFresh || old == fresh || slices.Contains(free, name) || name == "rate" || name == "window" || name == "max-bytes" {
			continue
		}
		parts = append(parts, fmt.Sprintf("%s %s against %s", name, orUnset(old), orUnset(fresh)))
	}
	if old, fresh := rateOf(baseline, b), rateOf(candidate, c); apart(old, fresh, rateShare) {
		parts = append(parts, fmt.Sprintf("%.6g records/s offered against %.6g", old, fresh))
	}
	if c.Kind == store.Capacity && (apart(float64(b.MaxBytes), float64(c.MaxBytes), lengthShare) || apart(float64(b.WindowMS), float64(c.WindowMS), lengthShare)) {
		parts = append(parts, fmt.Sprintf("at most %d MiB in %d ms against %d MiB in %d ms", b.MaxBytes>>20, b.WindowMS, c.MaxBytes>>20, c.WindowMS))
	}
	if old, fresh := ackMeant(baseline, b), ackMeant(candidate, c); old != fresh && old != "" && fresh != "" {
		parts = append(parts, fmt.Sprintf("an ack meant %q against %q", old, fresh))
	}
	if extra := len(parts) - 4; extra > 0 {
		parts = append(parts[:4], fmt.Sprintf("and %d more", extra))
	}
	return strings.Join(parts, ", ")
}

func orUnset(s string) string {
	if s == "" {
		return "(none)"
	}
	return s
}

// apart reports whether two figures differ by more than the share of the larger.
func apart(a, b, share float64) bool { return math.Abs(a-b) > share*max(math.Abs(a), math.Abs(b)) }

// rateOf is the rate at which a cell's runs were offered, which the capacity found may have set; as planned without runs.
func rateOf(d *store.Data, c *store.Cell) float64 {
	for _, r := range d.RunsOf(c.Number) {
		if r.Rate > 0 {
			return r.Rate
		}
	}
	return c.Rate
}

// ackMeant is what an ack of a cell's runs was worth; "" where no run tells.
func ackMeant(d *store.Data, c *store.Cell) string {
	for _, r := range d.RunsOf(c.Number) {
		if r.Result != nil && r.Result.AckMeant.Sentence != "" {
			return r.Result.AckMeant.Sentence
		}
	}
	return ""
}

// Doubts says what makes a comparison of two folders doubtful as a whole. apart is set where a difference cannot be laid
// to the program: the same run on both sides, or two hosts.
func Doubts(baseline, candidate *store.Data) (doubts []string, apart bool) {
	if id := baseline.Plan.RunID; id != "" && id == candidate.Plan.RunID {
		doubts, apart = append(doubts, "both sides are one run, "+id), true
	}
	old, fresh := baseline.Host.Fingerprint, candidate.Host.Fingerprint
	for _, f := range []struct {
		what       string
		old, fresh string
	}{
		{"CPU", old.CPUModel, fresh.CPUModel},
		{"usable cores", counted(old.Cores), counted(fresh.Cores)},
		{"file system", old.FileSystem, fresh.FileSystem},
		{"architecture", old.Architecture, fresh.Architecture},
	} {
		if f.old != f.fresh && f.old != "" && f.fresh != "" {
			doubts, apart = append(doubts, fmt.Sprintf("two hosts: %s %s against %s", f.what, f.old, f.fresh)), true
		}
	}
	if old.Kernel != fresh.Kernel && old.Kernel != "" && fresh.Kernel != "" {
		doubts = append(doubts, fmt.Sprintf("two kernels: %s against %s", old.Kernel, fresh.Kernel))
	}
	for _, side := range []struct {
		name string
		d    *store.Data
	}{{"baseline", baseline}, {"candidate", candidate}} {
		if planned := side.d.Planned(); len(side.d.Runs) < planned {
			doubts = append(doubts, fmt.Sprintf("the %s is %s: %d of %d runs are there", side.name, stateOf(side.d), len(side.d.Runs), planned))
		}
	}
	if a, b := builds(baseline), builds(candidate); len(a) > 0 && len(b) > 0 && !slices.Equal(a, b) && min(len(a), len(b)) < layouts {
		doubts = append(doubts, fmt.Sprintf("%s of the baseline against %d of the candidate: builds differ by where their code lies alone; %d of each side, laid out at random, tell that from a change (make layouts, bench run --build)",
			several(len(a), "build"), len(b), layouts))
	}
	if pins(baseline) != pins(candidate) {
		doubts = append(doubts, fmt.Sprintf("target and load ran on other cores: %s against %s", pins(baseline), pins(candidate)))
	}
	return doubts, apart
}

// layouts is how many builds of a side, laid out differently, keep a difference of layout from passing for one of the program
// (METHOD 6).
const layouts = 3

// builds are the binaries that a folder's runs measured, in order.
func builds(d *store.Data) []string {
	var all []string
	for _, r := range d.Runs {
		if r.Target.Build != "" {
			all = append(all, r.Target.Build)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func several(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func counted(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprint(n)
}

func stateOf(d *store.Data) string {
	if d.Status.State == "" {
		return "of unknown state"
	}
	return string(d.Status.State)
}

// pins are the cores of target and load process.
func pins(d *store.Data) string {
	for _, r := range d.Runs {
		return fmt.Sprintf("%v and %v", r.Target.Cores, r.Target.LoadCores)
	}
	return "none"
}

// Unverified counts the runs that should have been verified and were not to the end.
func Unverified(d *store.Data) (n int) {
	for _, r := range d.Runs {
		c := d.Cell(r.Cell)
		if r.Result == nil || c == nil || !r.Countable() || c.Asked.Verify == workload.VerifyOff {
			continue
		}
		if v := r.Result.Verification; !v.On || !v.Complete {
			n++
		}
	}
	return n
}
