package target

import (
	"slices"
	"testing"

	"github.com/tidemark/tidemark/bench/store"
	"github.com/tidemark/tidemark/loadgen/result"
)

func TestWhatBecomesOfARun(t *testing.T) {
	for name, c := range map[string]struct {
		kind   store.Kind
		change func(*store.Run)
		dead   bool
		want   store.RunStatus
	}{
		"good":                  {store.Latency, func(*store.Run) {}, false, store.OK},
		"no result":             {store.Latency, func(r *store.Run) { r.Result, r.Error = nil, "gone" }, false, store.Broken},
		"target died":           {store.Latency, func(*store.Run) {}, true, store.Invalid},
		"lost":                  {store.Latency, func(r *store.Run) { r.Result.Verification.Lost = 1 }, false, store.Invalid},
		"counts do not add up":  {store.Latency, func(r *store.Run) { r.Result.Ends.Intended++ }, false, store.Invalid},
		"nothing acked":         {store.Capacity, func(r *store.Run) { r.Result.Ends = result.Ends{} }, false, store.Invalid},
		"calls itself invalid":  {store.Latency, func(r *store.Run) { r.Result.Valid = false }, false, store.Invalid},
		"saturated":             {store.Latency, func(r *store.Run) { r.Result.Add(result.Verdict{Kind: result.Saturated}) }, false, store.Saturated},
		"saturated closed loop": {store.Capacity, func(r *store.Run) { r.Result.Add(result.Verdict{Kind: result.Saturated}) }, false, store.OK},
		"two faults": {store.Latency, func(r *store.Run) {
			r.Result.Add(result.Verdict{Kind: result.GeneratorLimited})
			r.Result.Add(result.Verdict{Kind: result.Saturated})
			r.ExitCode = 4
		}, false, store.GeneratorLimited},
		"bounded capacity": {store.Capacity, func(r *store.Run) {
			r.Result.Window.EndedBy = "max-bytes"
			r.Result.Add(result.Verdict{Kind: result.Partial})
		}, false, store.OK},
		"bounded latency": {store.Latency, func(r *store.Run) {
			r.Result.Window.EndedBy = "max-bytes"
			r.Result.Add(result.Verdict{Kind: result.Partial})
		}, false, store.Partial},
		"unexplained exit": {store.Latency, func(r *store.Run) { r.ExitCode = 5 }, false, store.Invalid},
	} {
		r := &store.Run{Result: &result.Result{Valid: true, Ends: result.Ends{Intended: 10, Acked: 10}, Verification: result.Verification{On: true, Complete: true}}}
		c.change(r)
		Judge(&store.Cell{Kind: c.kind}, r, !c.dead)
		if r.Status != c.want || (len(r.Reasons) == 0) != (c.want == store.OK) {
			t.Errorf("%s: %s %v, want %s", name, r.Status, r.Reasons, c.want)
		}
	}
}

func TestALatePacerIsAMark(t *testing.T) {
	r := &store.Run{Result: &result.Result{Valid: true, Ends: result.Ends{Intended: 1, Acked: 1}, Verification: result.Verification{On: true, Complete: true}}}
	r.Result.Add(result.Verdict{Kind: result.Late, Reason: "woke late"})
	Judge(&store.Cell{Kind: store.Latency}, r, true)
	if r.Status != store.OK || !r.Countable() || !slices.Equal(r.Marks, []string{store.MarkLate}) {
		t.Errorf("%s %v, marks %v", r.Status, r.Reasons, r.Marks)
	}
}

func TestStealAndFreshMemoryAreMarked(t *testing.T) {
	tg := &Target{}
	r := &store.Run{Result: &result.Result{Valid: true, Ends: result.Ends{Intended: 1, Acked: 1}}, Cores: []result.Core{{Steal: 0.02}}}
	r.Result.Produce.Batches.WireBytes = 2000
	r.Memory.Before.Free, r.Memory.FillBytes = 5000, 1000
	r.Ceilings = []result.Ceiling{{Before: 100, After: 80}}
	Judge(&store.Cell{Kind: store.Capacity}, r, true)
	tg.markMemory(r)
	if want := []string{store.MarkSteal, store.MarkFreshMemory, store.MarkCeilingMoved}; !slices.Equal(r.Marks, want) {
		t.Errorf("marks %v, want %v", r.Marks, want)
	}
	r.Marks, r.Ceilings = nil, []result.Ceiling{{Before: 100, After: 90}}
	tg.markMemory(r) // what the run before has used, the host may have taken back
	if !slices.Equal(r.Marks, []string{store.MarkFreshMemory}) {
		t.Errorf("marks %v of a run that was touched too little for", r.Marks)
	}
	for name, change := range map[string]func(){
		"enough was touched":          func() { r.Memory.FillBytes = 2000 },
		"less is free than it writes": func() { r.Memory.FillBytes, r.Memory.Before.Free = 0, 1500 },
	} {
		r.Marks = nil
		change()
		tg.markMemory(r)
		if len(r.Marks) != 0 {
			t.Errorf("%s: marks %v", name, r.Marks)
		}
	}
}
