package loadgen

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tidemark/tidemark/loadgen/driver"
	"github.com/tidemark/tidemark/loadgen/result"
	"github.com/tidemark/tidemark/loadgen/workload"
)

// judge adds the verdicts of METHOD 1 and 3: whose fault, and whether the figures may be used.
func (r *run) judge(res *result.Result) {
	r.judgeTruth(res)
	r.judgeEnd(res)
	r.judgeGenerator(res)
	r.judgeTarget(res)
	for _, c := range res.Cores {
		if c.Steal > 0.01 {
			res.Add(result.Verdict{Kind: result.Steal, Reason: fmt.Sprintf("the host took %.1f%% of core %d", 100*c.Steal, c.Core),
				Measured: c.Steal, Threshold: 0.01, Unit: "share"})
		}
	}
}

// judgeTruth finds what makes every number worthless.
func (r *run) judgeTruth(res *result.Result) {
	invalid := func(format string, a ...any) {
		res.Add(result.Verdict{Kind: result.Invalid, Reason: fmt.Sprintf(format, a...)})
	}
	v := &res.Verification
	if r.died() != "" {
		invalid("the target died: %s; %d records intended in the window have no answer, %d acknowledged ones were not read back", r.died(),
			res.Ends.Unanswered+res.Ends.Unsent, v.Lost+v.Undelivered)
	}
	if v.Lost > 0 {
		invalid("%d acknowledged records were lost", v.Lost)
	}
	if v.Corrupt > 0 {
		invalid("%d records arrived damaged", v.Corrupt)
	}
	// A producer that sends again without idempotence may repeat and reorder: Kafka promises no more.
	if promised := r.spec.Idempotence || r.retries == 0; promised && v.Duplicated+v.OutOfOrder > 0 && r.died() == "" {
		why := "and no retry explains them"
		switch {
		case r.spec.Idempotence:
			why = "which idempotence forbids"
		case r.spec.Driver == workload.DriverKgo: // it sends again after an answer with an error, and tells nobody
			why = "without idempotence, and driver kgo does not tell each retry: whether it sent them twice itself is not known"
		}
		invalid("%d records were duplicated and %d out of order, %s", v.Duplicated, v.OutOfOrder, why)
	}
	if !res.Ends.Sums() || res.Ends.Unanswered < 0 || res.Ends.Unsent < 0 {
		invalid("bug: the four ends do not add up: %+v", res.Ends)
	}
	if r.collector.dropped > 0 {
		invalid("bug: %d values were dropped when histograms were merged", r.collector.dropped)
	}
	if ack, ok := res.Clocks[result.Ack]; ok && ack.Count+ack.Overflow+ack.Negative != res.Ends.Acked+res.Ends.HandedToSocket {
		invalid("bug: the ack clock holds %d records, %d were acked", ack.Count+ack.Overflow+ack.Negative, res.Ends.Acked)
	}
	for _, p := range r.pacers {
		if p.err != nil && r.died() == "" && !errors.Is(p.err, driver.ErrClosed) {
			invalid("producer %d gave up: %v", p.source.producer, p.err)
			break
		}
	}
	for _, rd := range r.readers {
		rd.mu.Lock()
		err := rd.mu.err
		rd.mu.Unlock()
		if err != nil && !isRetriable(err) {
			invalid("a consumer gave up: %v", err)
			break
		}
	}
}

// judgeEnd marks a run that ended before its window did. A capacity run that is bounded in bytes ends as it should.
func (r *run) judgeEnd(res *result.Result) {
	switch r.endedBy {
	case "window":
	case "max-bytes":
		if r.spec.Question == workload.Latency {
			res.Add(result.Verdict{Kind: result.Partial, Reason: "ended by --max-bytes " + r.spec.MaxBytes.String() + " before the window was over"})
		}
	case "signal":
		res.Add(result.Verdict{Kind: result.Partial, Reason: "interrupted"})
	case "max-duration":
		res.Add(result.Verdict{Kind: result.Partial, Reason: "ended by --max-duration " + r.spec.MaxDuration.String()})
	}
}

// judgeGenerator lets the generator convict itself.
func (r *run) judgeGenerator(res *result.Result) {
	limited := func(measured, threshold float64, unit, format string, a ...any) {
		res.Add(result.Verdict{Kind: result.GeneratorLimited, Reason: fmt.Sprintf(format, a...), Measured: measured, Threshold: threshold, Unit: unit})
	}
	g := &res.Generator
	if g.Seconds <= 0 {
		return
	}
	r.judgePacer(res, limited)
	if share, others := float64(g.RunQueueNanos)/1e9/g.Seconds, othersShare(res); share*others > 0.05 {
		limited(share*others, 0.05, "share", "its threads waited %.1f%% of the window for a core while others used %.0f%% of its cores", 100*share, 100*others)
	}
	if cores := float64(max(len(g.Affinity), 1)); g.CPUShare()/cores > 0.85 {
		limited(g.CPUShare()/cores, 0.85, "share", "it used %.0f%% of its %s", 100*g.CPUShare()/cores, plural(int64(cores), "core"))
	}
}

// Shares of the p99 shown that the pacer's own p99 may have. On a virtual machine an idle core takes 30 µs to wake and the
// host's pauses make p99 a millisecond, whatever the generator does: above lateMarked the run is marked, since so much of
// its p99 may be the generator's, and above lateLimited it counts no more.
const (
	lateMarked  = 0.1
	lateLimited = 0.5
)

// judgePacer weighs the generator's own lateness against the latency that it measured: that of the acks, or without acks
// that of the delivery, since handing a record to the socket takes hardly longer than waking does.
func (r *run) judgePacer(res *result.Result, limited func(measured, threshold float64, unit, format string, a ...any)) {
	pacer, ok := res.Clocks[result.Pacer]
	name := result.Ack
	if _, delivers := res.Clocks[result.Delivery]; delivers && res.Asked.Acks == workload.AcksNone {
		name = result.Delivery
	}
	measured, found := res.Clocks[name]
	if !ok || !found || !reached(measured) {
		return
	}
	p, _ := pacer.At(99)
	a, shown := measured.At(99)
	if !shown || p.Censored || p.Nanos <= 0 || a.Nanos <= 0 {
		return
	}
	switch share := float64(p.Nanos) / float64(a.Nanos); {
	case share > lateLimited:
		limited(float64(p.Nanos), lateLimited*float64(a.Nanos), "ns", "the pacer's p99 of %s ms is more than half of the %s p99 of %s ms",
			milliseconds(p.Nanos), name, milliseconds(a.Nanos))
	case share > lateMarked:
		res.Add(result.Verdict{Kind: result.Late, Measured: float64(p.Nanos), Threshold: lateMarked * float64(a.Nanos), Unit: "ns",
			Reason: fmt.Sprintf("up to %s ms of the %s p99 of %s ms may be the generator's own lateness", milliseconds(p.Nanos), name, milliseconds(a.Nanos))})
	}
}

// othersShare is how much of the generator's cores somebody else used, the host's pauses among them. Waiting for a core
// counts against a run in this proportion: a thread that wakes on an idle core waits too, for the core to wake.
func othersShare(res *result.Result) float64 {
	used, n := 0.0, 0
	for _, c := range res.Cores {
		if len(res.Generator.Affinity) == 0 || slices.Contains(res.Generator.Affinity, c.Core) {
			used += c.Busy + c.Steal
			n++
		}
	}
	if n == 0 {
		return 1 // not known: all of the waiting counts
	}
	return min(1, max(0, used-res.Generator.CPUShare())/float64(n))
}

// judgeTarget tells a target that did not carry the load, or said that it would not.
func (r *run) judgeTarget(res *result.Result) {
	secs := res.Window.Seconds()
	saturated := func(measured, threshold float64, unit, format string, a ...any) {
		res.Add(result.Verdict{Kind: result.Saturated, Reason: fmt.Sprintf(format, a...), Measured: measured, Threshold: threshold, Unit: unit})
	}
	if n := float64(len(r.pacers)); n > 0 && secs > 0 && r.spec.Question == workload.Latency {
		if res.Produce.HeldShare < 0.99 && res.Ends.Intended > 0 {
			saturated(res.Produce.HeldShare, 0.99, "share", "the rate was not held: %.1f%% of the window's records were acked by its end plus %s",
				100*res.Produce.HeldShare, time.Duration(r.inTimeAllowance()))
		}
		grown := res.Produce.BacklogSlopePerSec * secs
		if grown > 0.01*float64(res.Ends.Intended) && grown > 1 {
			saturated(grown, 0.01*float64(res.Ends.Intended), "records", "the records under way grew by %.0f over the window", grown)
		}
		if share := float64(res.Produce.BlockedNanos) / 1e9 / secs / n; share > 0.01 {
			saturated(share, 0.01, "share", "the driver would not take records for %.1f%% of the window", 100*share)
		}
	}
	// One client that is held back is enough: it has its share of the records, and an average over many would hide it.
	if share := r.throttled.Seconds() / max(secs, 1e-9); secs > 0 && share > 0.01 {
		sum := time.Duration(res.Produce.ThrottleNanos + res.Consume.ThrottleNanos)
		res.Add(result.Verdict{Kind: result.Throttled, Reason: fmt.Sprintf("the target throttled a client for %.1f%% of the window (%s ms over all %d clients)",
			100*share, milliseconds(int64(sum)), len(r.pacers)+len(r.readers)), Measured: share, Threshold: 0.01, Unit: "share"})
	}
}
