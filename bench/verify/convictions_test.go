package verify

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

// removed is what is changed of a run that nothing is to be said against, and what is found then; want "" for nothing.
type removed struct {
	name, want string
	kind       string
	change     func(b *bench, r *run)
}

func millis(n float64) int64 { return int64(1e6 * n) }

func (r *run) p99(name string, nanos int64) {
	r.clocks[name] = &clock{summary: summary{Count: 1000, Sound: true, Percentiles: []percentile{{P: 99, Nanos: nanos, Above: 10}}}}
}

func (r *run) ask(name, value string) { r.result.Asked.all[name] = json.RawMessage(value) }

// TestAConvictionFollowsFromTheFilesAlone: each run calls itself ok and its result has no verdict. What the files hold makes it
// something else all the same; right at a limit it stays what it says.
func TestAConvictionFollowsFromTheFilesAlone(t *testing.T) {
	judged(t, []removed{
		{"nothing", "", "latency", func(*bench, *run) {}},
		{"pacer above half", `"generator-limited": the pacer's p99`, "latency", func(_ *bench, r *run) { r.p99("pacer", millis(2.01)) }},
		{"pacer at half", "", "latency", func(_ *bench, r *run) { r.p99("pacer", millis(2)); r.Marks = []string{"late pacer"} }},
		{"pacer without acks", `"generator-limited": the pacer's p99`, "latency", func(_ *bench, r *run) {
			r.result.Asked.Acks = "0"
			r.p99("delivery", millis(3))
			r.p99("pacer", millis(2))
		}},
		{"late pacer unmarked", `not marked "late pacer"`, "latency", func(_ *bench, r *run) { r.p99("pacer", millis(0.5)) }},
		{"its CPU", `"generator-limited": it used 86%`, "capacity", func(_ *bench, r *run) { r.result.Generator.CPU = 860e6 }},
		{"its CPU of two cores", "", "capacity", func(_ *bench, r *run) {
			r.result.Generator.CPU, r.result.Generator.Affinity = 1690e6, []int{0, 1}
		}},
		{"its run queue", `"generator-limited": its threads waited`, "latency", func(_ *bench, r *run) {
			r.result.Generator.RunQueue = 200e6
			r.result.Cores[0].Busy = 0.8 // of which half a core is its own
		}},
		{"waiting for an idle core", "", "latency", func(_ *bench, r *run) {
			r.result.Generator.RunQueue = 200e6
			r.result.Cores[0].Busy = 0.7
		}},
		{"above the sink", `"generator-limited": 1000 records/s are more than`, "capacity", func(_ *bench, r *run) {
			r.Sink = &reached{RecordsPerSec: 1240}
			r.result.Produce.RecordsPerSec = 1000
		}},
		{"above a sink at its end", "", "capacity", func(_ *bench, r *run) {
			r.Sink = &reached{RecordsPerSec: 1240, SinkShare: 0.95}
			r.result.Produce.RecordsPerSec = 1000
		}},
		{"rate not held", `"saturated": 98.9% of the rate`, "latency", func(_ *bench, r *run) { r.result.Ends.AckedInTime = 989 }},
		{"backlog", `"saturated": the records under way grew`, "latency", func(_ *bench, r *run) { r.result.Produce.Backlog = 10.1 }},
		{"blocked", `"saturated": the driver would not take`, "latency", func(_ *bench, r *run) { r.result.Produce.Blocked = millis(20.1) }},
		{"a closed loop is blocked by intent", "", "capacity", func(_ *bench, r *run) { r.result.Produce.Blocked = millis(500) }},
		{"throttled", `"throttled": its clients`, "latency", func(_ *bench, r *run) {
			r.result.Produce.Throttle, r.result.Consume.Throttle = millis(20), millis(10.1)
		}},
		{"signal", `"partial": it ended by signal`, "latency", func(_ *bench, r *run) { r.result.Window.EndedBy = "signal" }},
		{"too many bytes", `"partial": it ended by max-bytes`, "latency", func(_ *bench, r *run) { r.result.Window.EndedBy = "max-bytes" }},
		{"bounded in bytes", "", "capacity", func(_ *bench, r *run) { r.result.Window.EndedBy = "max-bytes" }},
		{"idempotent and repeated", `"invalid": 1 records duplicated`, "latency", func(_ *bench, r *run) {
			r.ask("idempotence", "true")
			r.result.Verification.Duplicated = 1
		}},
		{"repeated without idempotence", "", "latency", func(_ *bench, r *run) { r.result.Verification.Duplicated = 1 }},
		{"nothing acked", `"invalid": not one record`, "latency", func(_ *bench, r *run) {
			r.result.Ends.Acked, r.result.Ends.Failed = 0, 1000
		}},
		{"nothing read", `"invalid": not one record`, "capacity", func(_ *bench, r *run) {
			r.ask("producers", "0")
			r.ask("consumers", "1")
		}},
		{"an exit", `"invalid": the load process ended with exit 5`, "latency", func(_ *bench, r *run) { r.Exit = 5 }},
		{"before a calibration that failed", "", "latency", func(b *bench, r *run) { b.state.Calibrations = calibrations(r.Started, true, 1, false) }},
		{"after a calibration that failed", `"invalid": the calibration before it failed`, "latency", func(b *bench, r *run) {
			b.state.Calibrations = calibrations(r.Started, true, -2, true, -1, false)
		}},
		{"after one that read wrongly", `"invalid": the calibration before it failed`, "latency", func(b *bench, r *run) {
			b.state.Calibrations = calibrations(r.Started, true)
			b.state.Calibrations[0].Readings = []reading{{Reading: 2, Low: 1, High: 3}, {Reading: 3.1, Low: 1, High: 3}}
		}},
	})
}

// TestMarksFollowFromTheFilesAlone: the run has none, or one that is not its own.
func TestMarksFollowFromTheFilesAlone(t *testing.T) {
	judged(t, []removed{
		{"fresh memory", `not marked "fresh memory"`, "capacity", func(_ *bench, r *run) { r.Memory.Fill = 999 }},
		{"touched memory", `marked "fresh memory", and`, "capacity", func(_ *bench, r *run) { r.Marks = []string{"fresh memory"} }},
		{"fresh memory of another host", "", "capacity", func(_ *bench, r *run) { r.Memory.Fill, r.Target.Mode = 999, "bootstrap" }},
		{"steal", `not marked "steal"`, "latency", func(_ *bench, r *run) { r.Cores[0].Steal = 0.011 }},
		{"ceiling", `not marked "ceiling moved"`, "capacity", func(_ *bench, r *run) { r.Ceilings = []ceiling{{100, 84}} }},
		{"heavy profiles", `not marked "profiled"`, "latency", func(_ *bench, r *run) {
			r.result.Profiles.Taken = append(r.result.Profiles.Taken, taken{"heap"})
		}},
	})
}

func judged(t *testing.T, all []removed) {
	t.Helper()
	for _, c := range all {
		r := &run{cell: &cell{Kind: c.kind}, Status: "ok", place: "it", Started: time.Unix(1000, 0), clocks: map[string]*clock{}, Cores: make([]core, 1),
			result: &result{Question: c.kind, Valid: true, Asked: asked{Acks: "all", all: map[string]json.RawMessage{}}, Cores: []core{{Busy: 0.5}}}}
		r.Target.Mode, r.Memory.Before.Free, r.Memory.Fill = "embedded", 5000, 1000
		r.result.Window.EndedBy, r.result.Window.End = "window", 1e9
		r.result.Generator = generator{Seconds: 1, CPU: 500e6, Affinity: []int{0}}
		r.result.Produce.Batches.WireBytes = 1000
		r.result.Ends.Intended, r.result.Ends.Acked, r.result.Ends.AckedInTime = 1000, 1000, 1000
		r.result.Consume.Groups = []group{{Members: 1}}
		r.ask("producers", "2")
		r.ask("groups", "[1]")
		if c.kind == "latency" {
			r.p99("ack", millis(4))
			r.p99("pacer", millis(0.1))
		}
		b := &bench{}
		c.change(b, r)
		var o Outcome
		o.status(b, r)
		o.marks(r)
		var texts []string
		for _, f := range o.Findings {
			texts = append(texts, f.Text)
		}
		if got := strings.Join(texts, "\n"); len(o.Findings) > 1 || (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// calibrations begin so many seconds after a time, in pairs of seconds and whether they were right; the first is hours before.
func calibrations(at time.Time, first bool, pairs ...any) []calibration {
	all := []calibration{{Started: at.Add(-time.Hour), OK: first}}
	for i := 0; i < len(pairs); i += 2 {
		all = append(all, calibration{Started: at.Add(time.Duration(pairs[i].(int)) * time.Second), OK: pairs[i+1].(bool)})
	}
	return all
}
