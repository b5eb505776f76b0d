package verify

import (
	"encoding/json"
	"fmt"
	"slices"
)

// severity orders the states of a run by what they say against it.
var severity = []string{"ok", "saturated", "throttled", "generator-limited", "partial", "invalid", "failed"}

func rank(state string) int { return slices.Index(severity, state) }

// conviction is the worst that is known against a run.
type conviction struct{ state, why string }

func (c *conviction) raise(state, format string, a ...any) {
	if rank(state) > rank(c.state) {
		*c = conviction{state, fmt.Sprintf(format, a...)}
	}
}

// status checks that a run's state is at least as bad as what is known against it: the verdicts that its result lists, and
// those that follow from logs, counts and counters whether they are listed or not.
func (o *Outcome) status(b *bench, r *run) {
	if rank(r.Status) < 0 {
		o.find(r.place, "its status %q is none", r.Status)
		return
	}
	o.Figures++
	if r.result == nil {
		return
	}
	c := conviction{state: "ok"}
	r.listed(&c)
	r.generator(&c)
	r.target(&c)
	r.ended(&c)
	r.truth(&c)
	if r.Exit != 0 && rank(c.state) < rank("generator-limited") {
		c.raise("invalid", "the load process ended with exit %d", r.Exit)
	}
	if i := b.session(r); i >= 0 && !b.state.Calibrations[i].right() {
		c.raise("invalid", "the calibration before it failed")
	}
	if rank(r.Status) < rank(c.state) {
		o.find(r.place, "run.json calls it %q, and what it measured makes it %q: %s", r.Status, c.state, c.why)
	}
	o.skip("what leaves no figure in the files: that the target's process ended, that a producer or consumer gave up, that a value was dropped, that one client of several was throttled, that no retry excuses a repeat without idempotence: taken from result.json and run.json")
	o.skip("the generator's CPU, run queue and blocked time, the growth of what was under way, the host's cores and memory: counters without a log, held to their limits as they stand in result.json and run.json")
}

// listed are the verdicts of the load process. A closed loop is saturated by intent, and bounded on purpose.
func (r *run) listed(c *conviction) {
	for _, v := range r.result.Verdicts {
		switch v.Kind {
		case "generator-limited", "throttled", "invalid":
			c.raise(v.Kind, "result.json says so")
		case "saturated":
			if r.cell.Kind != "capacity" {
				c.raise(v.Kind, "result.json says so")
			}
		case "partial":
			if !r.onPurpose() {
				c.raise(v.Kind, "result.json says so")
			}
		}
	}
	if !r.result.Valid {
		c.raise("invalid", "result.json calls itself so")
	}
}

func (r *run) onPurpose() bool {
	by := r.result.Window.EndedBy
	return by == "window" || r.cell.Kind == "capacity" && by == "max-bytes"
}

// over compares with a limit, but for the rounding of arithmetic.
func over(v, limit float64) bool { return v > limit*(1+1e-9) }

// late is the share of the p99 shown, that of the acks or without them of the delivery, which the generator's own lateness has.
func (r *run) late() (share float64, of string) {
	of = "ack"
	if r.clocks["delivery"] != nil && r.result.Asked.Acks == "0" {
		of = "delivery"
	}
	pacer, shown := r.clocks["pacer"], r.clocks[of]
	if pacer == nil || shown == nil || shown.Count+shown.Overflow+shown.Negative == 0 {
		return 0, of
	}
	p, okP := pacer.at(99)
	q, okQ := shown.at(99)
	if !okP || !okQ || p.Censored || p.Nanos <= 0 || q.Nanos <= 0 {
		return 0, of
	}
	return float64(p.Nanos) / float64(q.Nanos), of
}

func (c *clock) at(p float64) (percentile, bool) {
	i := slices.IndexFunc(c.Percentiles, func(q percentile) bool { return q.P == p })
	if i < 0 {
		return percentile{}, false
	}
	return c.Percentiles[i], true
}

// generator is what convicts the generator (METHOD 3).
func (r *run) generator(c *conviction) {
	const state = "generator-limited"
	g := r.result.Generator
	if g.Seconds > 0 {
		if share, of := r.late(); over(share, 0.5) {
			c.raise(state, "the pacer's p99 is %.3g of the %s p99", share, of)
		}
		cpu := float64(g.CPU) / 1e9 / g.Seconds
		if waited := float64(g.RunQueue) / 1e9 / g.Seconds * r.others(cpu); over(waited, 0.05) {
			c.raise(state, "its threads waited %.1f%% of the window for cores that others used", 100*waited)
		}
		if cpu /= max(1, float64(len(g.Affinity))); over(cpu, 0.85) {
			c.raise(state, "it used %.0f%% of its cores", 100*cpu)
		}
	}
	if s := r.Sink; s != nil && s.Error == "" && s.RecordsPerSec > 0 && s.SinkShare <= 0.9 && over(r.result.Produce.RecordsPerSec, 0.8*s.RecordsPerSec) {
		c.raise(state, "%.0f records/s are more than 80%% of the %.0f that its workload reached against the sink", r.result.Produce.RecordsPerSec, s.RecordsPerSec)
	}
}

// others is the mean share of the generator's cores that it did not use itself; all of them where no core is known.
func (r *run) others(own float64) float64 {
	used, n := 0.0, 0.0
	for _, one := range r.result.Cores {
		if pinned := r.result.Generator.Affinity; len(pinned) == 0 || slices.Contains(pinned, one.Core) {
			used, n = used+one.Busy+one.Steal, n+1
		}
	}
	if n == 0 {
		return 1
	}
	return min(1, max(0, used-own)/n)
}

// number is a field of the workload that was asked for.
func (a *asked) number(name string) (n float64) {
	_ = json.Unmarshal(a.all[name], &n) // what is no number is none
	return n
}

// target is what says that the target did not carry the load (METHOD 1, 3).
func (r *run) target(c *conviction) {
	res := r.result
	seconds, producers := res.seconds(), res.Asked.number("producers")
	if seconds <= 0 {
		return
	}
	if e := res.Ends; r.cell.Kind != "capacity" && producers > 0 && e.Intended > 0 {
		if held := float64(e.AckedInTime) / float64(e.Intended); held < 0.99 {
			c.raise("saturated", "%.1f%% of the rate was held", 100*held)
		}
		if grown := res.Produce.Backlog * seconds; over(grown, 0.01*float64(e.Intended)) && grown > 1 {
			c.raise("saturated", "the records under way grew by %.0f", grown)
		}
		if blocked := float64(res.Produce.Blocked) / 1e9 / seconds / producers; over(blocked, 0.01) {
			c.raise("saturated", "the driver would not take records for %.1f%% of the window", 100*blocked)
		}
	}
	clients := producers
	for _, g := range res.Consume.Groups {
		clients += float64(g.Members)
	}
	if mean := float64(res.Produce.Throttle+res.Consume.Throttle) / 1e9 / seconds / max(1, clients); over(mean, 0.01) {
		c.raise("throttled", "its clients were throttled for %.1f%% of the window in the mean, and one of them for no less", 100*mean)
	}
}

// ended is what a run's end says.
func (r *run) ended(c *conviction) {
	if by := r.result.Window.EndedBy; !r.onPurpose() && (by == "signal" || by == "max-bytes" || by == "max-duration") {
		c.raise("partial", "it ended by %s", by)
	}
}

// truth is what makes every number of a run worthless.
func (r *run) truth(c *conviction) {
	res := r.result
	v, e := res.Verification, res.Ends
	if v.On && v.Lost+v.Corrupt > 0 {
		c.raise("invalid", "%d records lost, %d corrupt", v.Lost, v.Corrupt)
	}
	if string(res.Asked.all["idempotence"]) == "true" && v.Duplicated+v.OutOfOrder > 0 {
		c.raise("invalid", "%d records duplicated and %d out of order, which idempotence forbids", v.Duplicated, v.OutOfOrder)
	}
	if e.Acked+e.HandedToSocket+e.Failed+e.Unanswered+e.Unsent != e.Intended {
		c.raise("invalid", "its ends do not add up")
	}
	read := int64(0)
	for _, g := range res.Consume.Groups {
		read += g.Delivered
	}
	writes := res.Asked.number("producers") > 0
	if !writes && read == 0 || writes && e.Acked+e.HandedToSocket == 0 && (c.state == "ok" || r.cell.Kind == "capacity") {
		c.raise("invalid", "not one record of the window was acknowledged or read")
	}
}

// session is the calibration before a run; -1 for none.
func (b *bench) session(r *run) int {
	last := -1
	for i, c := range b.state.Calibrations {
		if !c.Started.After(r.Started) {
			last = i
		}
	}
	return last
}

func (c calibration) right() bool {
	return c.OK && !slices.ContainsFunc(c.Readings, func(r reading) bool { return r.Reading < r.Low || r.Reading > r.High })
}

// marks checks the marks that follow from what run.json and the logs hold. One more or less of "fresh memory" decides what
// enters a ratio; the others stand beside the figures.
func (o *Outcome) marks(r *run) {
	written := r.result.Produce.Batches.WireBytes
	fresh := r.Target.Mode != "bootstrap" && written > r.Memory.Fill && r.Memory.Before.Free > written
	late, _ := r.late()
	moved := slices.ContainsFunc(r.Ceilings, func(c ceiling) bool {
		return over(0.85*max(c.Before, c.After), min(c.Before, c.After))
	})
	heavy := slices.ContainsFunc(r.result.Profiles.Taken, func(t taken) bool { return t.Kind != "cpu" })
	for _, m := range []struct {
		name, why string
		has       bool
	}{
		{"fresh memory", fmt.Sprintf("it wrote %d bytes, %d were touched before it and %d were free", written, r.Memory.Fill, r.Memory.Before.Free), fresh},
		{"steal", "over 1% of a core was stolen", slices.ContainsFunc(r.Cores, func(c core) bool { return over(c.Steal, 0.01) })},
		{"late pacer", fmt.Sprintf("the pacer's p99 is %.3g of the p99 shown", late), r.result.Generator.Seconds > 0 && over(late, 0.1) && !over(late, 0.5)},
		{"ceiling moved", "a ceiling before it and after are over 15% apart", moved},
		{"profiled", "it carries more than a CPU profile", heavy},
	} {
		o.Figures++
		if m.has && !r.marked(m.name) {
			o.find(r.place, "it is not marked %q, and %s", m.name, m.why)
		}
	}
	switch {
	case fresh || !r.marked("fresh memory"):
	case r.Memory.Before.Free == 0:
		o.skip("whether a run met fresh memory, where run.json does not hold how much was free: its mark is taken")
	default:
		o.find(r.place, "it is marked \"fresh memory\", and it wrote %d bytes, %d were touched before it and %d were free", written, r.Memory.Fill, r.Memory.Before.Free)
	}
}
