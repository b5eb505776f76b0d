package versus

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/gonum/stat"

	"github.com/tidemark/tidemark/bench/store"
	"github.com/tidemark/tidemark/loadgen/workload"
)

// A side is taken to its limit so often before its share of it is asked, and once more for each time that says nothing.
const capacityProbes, capacityTries = 2, 5

// capacity is what a side got acknowledged in a closed loop.
type capacity struct {
	perSec float64
	status string // ok or generator-limited; "": of a document that does not have it
}

// specsOf are the workloads of the arms: the row's own, or at the row's share of what each arm reaches in a closed loop, which
// is found here and kept in the block.
func (s *session) specsOf(ctx context.Context, r *Row, spec *workload.Spec, arms []*arm, b *Block) ([]*workload.Spec, error) {
	specs := slices.Repeat([]*workload.Spec{spec}, len(arms))
	closed, err := s.suite.capacitySpec(r)
	if err != nil || closed == nil {
		return specs, err
	}
	err = b.probe(func(i, probe int) (*Window, error) {
		w, err := s.run(ctx, arms[i], job{row: r, spec: closed, process: b.Process, pair: probe})
		if ctx.Err() != nil { // what was cut short was not read back
			return nil, ctx.Err()
		}
		if w != nil {
			s.say("process %d  %-11s  %s  capacity %s records/s (%s)", b.Process, arms[i].info.Name, r.Name, figure(w.Reached), w.Status)
		}
		return w, err
	})
	if err != nil {
		return nil, err
	}
	for i, a := range arms {
		specs[i] = shareOf(spec, r.Share, b.capacityOf(a.info.Name))
	}
	return specs, nil
}

// probe takes each arm to its limit until capacityProbes closed loops of it say something; run runs one against the arm at an
// index. Every window stays in the block, whatever came of it. One that lost data ends the block: another try would hide it.
func (b *Block) probe(run func(arm, probe int) (*Window, error)) error {
	for probe := range capacityTries {
		for _, i := range Order(probe, len(b.Arms)) {
			name := b.Arms[i]
			if len(b.capacityOf(name)) == capacityProbes {
				continue
			}
			w, err := run(i, probe)
			if w != nil {
				b.Probes = append(b.Probes, w)
			}
			if err != nil {
				return err
			}
			if w.damaged() {
				return fmt.Errorf("%s in a closed loop: %s; see %s", name, w.damage(), w.Folder)
			}
		}
	}
	for _, name := range b.Arms {
		if n := len(b.capacityOf(name)); n < capacityProbes {
			return fmt.Errorf("%s answered in %d of %d closed loops: its capacity is not known", name, n, capacityTries)
		}
	}
	return nil
}

// capacityOf is what an arm reached in the closed loops that say something.
func (b *Block) capacityOf(arm string) []capacity {
	var out []capacity
	for _, w := range b.Probes {
		if v := reachedPerSec(w); w.Arm == arm && v > 0 {
			out = append(out, capacity{v, w.Status})
		}
	}
	if len(b.Probes) == 0 {
		for _, v := range b.Capacity[arm] {
			out = append(out, capacity{perSec: v})
		}
	}
	return out
}

// reachedPerSec is what a closed loop got acknowledged in a second; 0: it ended otherwise than well, or not all of it was
// there afterwards.
func reachedPerSec(w *Window) float64 {
	if st := store.RunStatus(w.Status); st != store.OK && st != store.GeneratorLimited {
		return 0
	}
	if w.damaged() || w.Unverified != "" {
		return 0
	}
	return w.Reached
}

// shareOf is a workload at a share of what a side reached.
func shareOf(spec *workload.Spec, share float64, found []capacity) *workload.Spec {
	var values []float64
	for _, r := range found {
		values = append(values, r.perSec)
	}
	out := spec.Clone()
	out.Rate = math.Round(share * stat.Mean(values, nil))
	return out
}

// boundedWords stand beside a capacity that says no more than how fast the generator is.
const boundedWords = "bounded by the generator"

// capacityDoubts say why a share of the capacities of two sides is none: the generator bounded one of them, or nobody knows.
func capacityDoubts(blocks []*Block, arms ...string) []string {
	var out []string
	blocks, unknown := counting(blocks, arms...), false
	for _, arm := range arms {
		bounded := false
		for _, b := range blocks {
			for _, r := range b.capacityOf(arm) {
				bounded = bounded || store.RunStatus(r.status) == store.GeneratorLimited
				unknown = unknown || r.status == ""
			}
		}
		if bounded {
			out = append(out, "capacity of "+arm+" "+boundedWords)
		}
	}
	if unknown {
		out = append(out, "not known whether the capacities were "+boundedWords)
	}
	return out
}

// capacities say what each side reached in the closed loops whose share was asked.
func capacities(d *Document) []string {
	var out []string
	for _, row := range d.Rows {
		var parts []string
		unknown := false
		for _, a := range d.Arms {
			var found []string
			for _, b := range d.blocksOf(row.Name) {
				for _, r := range b.capacityOf(a.Name) {
					text := figure(r.perSec)
					if store.RunStatus(r.status) == store.GeneratorLimited {
						text += " (" + boundedWords + ")"
					}
					unknown = unknown || r.status == ""
					found = append(found, text)
				}
			}
			if len(found) > 0 {
				parts = append(parts, a.Name+" "+strings.Join(found, " "))
			}
		}
		if len(parts) == 0 {
			continue
		}
		text := fmt.Sprintf("capacity  %s: %s records/s in closed loops, of which %g%% were asked", row.Title, strings.Join(parts, "; "), 100*row.Share)
		if unknown {
			text += "; which of them were " + boundedWords + " was not kept by the session that measured them"
		}
		out = append(out, text)
	}
	return out
}
