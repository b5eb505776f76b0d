package target

import (
	"fmt"

	"github.com/tidemark/tidemark/bench/store"
	"github.com/tidemark/tidemark/loadgen/result"
)

// stealShare of a window marks it (METHOD 4).
const stealShare = 0.01

// Judge sets the status, reasons and marks of a run from its result. alive says whether the target's process survived.
func Judge(c *store.Cell, r *store.Run, alive bool) {
	r.Status = store.OK
	set := func(s store.RunStatus, format string, a ...any) {
		if rank(s) > rank(r.Status) {
			r.Status = s
		}
		r.Reasons = append(r.Reasons, fmt.Sprintf(format, a...))
	}
	if !alive {
		set(store.Invalid, "the target's process ended during the run")
	}
	if r.Result == nil {
		set(store.Broken, "no result: %s (exit %d)", r.Error, r.ExitCode)
		return
	}
	for _, v := range r.Result.Verdicts {
		switch v.Kind {
		case result.GeneratorLimited:
			set(store.GeneratorLimited, "%s", v.Reason)
		case result.Late:
			r.Marks = append(r.Marks, store.MarkLate)
		case result.Throttled:
			set(store.Throttled, "%s", v.Reason)
		case result.Saturated:
			if c.Kind == store.Latency { // a closed loop is saturated by intent
				set(store.Saturated, "%s", v.Reason)
			}
		case result.Partial:
			if boundedOnPurpose(c, r) {
				continue
			}
			set(store.Partial, "%s", v.Reason)
		case result.Invalid:
			set(store.Invalid, "%s", v.Reason)
		}
	}
	if limit, limited := r.Sink.Limits(r.Result.Produce.RecordsPerSec); limited {
		set(store.GeneratorLimited, "%.0f records/s are more than 80%% of what the same workload reaches against the sink (%.0f)", r.Result.Produce.RecordsPerSec, limit/0.8)
	}
	checkCounts(c, r, set)
	if r.ExitCode != 0 && r.Status != store.Invalid && r.Status != store.Partial && r.Status != store.GeneratorLimited {
		set(store.Invalid, "the load process ended with exit %d", r.ExitCode)
	}
	for _, core := range r.Cores {
		if core.Steal > stealShare {
			r.Marks = append(r.Marks, store.MarkSteal)
			break
		}
	}
}

// ceilingShare is how far two ceilings may be apart (METHOD 5).
const ceilingShare = 0.15

// markMemory marks a run that wrote into memory which was not touched right before it (METHOD 5). What an earlier run had
// used does not count: a hypervisor takes back pages that lie free for two seconds.
func (t *Target) markMemory(r *store.Run) {
	if r.Result == nil || t.Mode() == "bootstrap" {
		return
	}
	written := r.Result.Produce.Batches.WireBytes
	if written > r.Memory.FillBytes && r.Memory.Before.Free > written {
		r.Marks = append(r.Marks, store.MarkFreshMemory)
	}
	for _, c := range r.Ceilings {
		if low, high := min(c.Before, c.After), max(c.Before, c.After); low < (1-ceilingShare)*high {
			r.Marks = append(r.Marks, store.MarkCeilingMoved)
		}
	}
}

// boundedOnPurpose: a capacity cell that ended at its bytes has done what it was asked.
func boundedOnPurpose(c *store.Cell, r *store.Run) bool {
	return c.Kind == store.Capacity && (r.Result.Window.EndedBy == "max-bytes" || r.Result.Window.EndedBy == "window")
}

// checkCounts is the bench's own look at what the load process claims.
func checkCounts(c *store.Cell, r *store.Run, set func(store.RunStatus, string, ...any)) {
	res := r.Result
	if !res.Valid && !res.Has(result.Invalid) {
		set(store.Invalid, "the result calls itself invalid")
	}
	if e := res.Ends; !e.Sums() {
		set(store.Invalid, "intended %d is not acked %d + failed %d + unanswered %d + unsent %d", e.Intended, e.Acked, e.Failed, e.Unanswered, e.Unsent)
	}
	// Whether repeated and reordered records were excused by a retry without idempotence, the load process knows.
	if v := res.Verification; v.On && v.Lost+v.Corrupt > 0 && !res.Has(result.Invalid) {
		set(store.Invalid, "lost %d, corrupt %d", v.Lost, v.Corrupt)
	}
	readsOnly := c.Asked.Producers == 0 && c.Asked.Consumers+len(c.Asked.Groups) > 0
	if readsOnly && readBy(res) == 0 {
		set(store.Invalid, "not one record of the window was read")
	}
	if !readsOnly && (r.Status == store.OK || c.Kind == store.Capacity) && res.Ends.Acked+res.Ends.HandedToSocket == 0 {
		set(store.Invalid, "not one record of the window was acknowledged")
	}
}

// rank orders the states by how much they say against a run.
func rank(s store.RunStatus) int {
	for i, o := range []store.RunStatus{store.OK, store.Saturated, store.Throttled, store.GeneratorLimited, store.Partial, store.Invalid, store.Broken} {
		if s == o {
			return i
		}
	}
	return -1
}

// readBy is what the consumers of a run read, record by record: without producers there is no intended time, so that the
// delivery clock stays empty.
func readBy(res *result.Result) (records int64) {
	for _, g := range res.Consume.Groups {
		records += g.Delivered
	}
	return records
}
