package loadgen

import (
	"bytes"
	"math"
	"strings"
	"testing"

	"github.com/tidemark/tidemark/loadgen/result"
	"github.com/tidemark/tidemark/loadgen/workload"
)

// clockAt is a clock of 1,000 records whose p99 is given.
func clockAt(p99 int64) result.Latency {
	return result.Latency{Count: 1000, Sound: true, MaxNanos: 2 * p99, Percentiles: []result.Percentile{{P: 99, Nanos: p99, Above: 10, Excursions: 10}}}
}

// measured is a result of a second in which the generator did nothing wrong.
func measured(clocks map[string]result.Latency) *result.Result {
	res := &result.Result{Question: workload.Latency, Asked: workload.Default(), Valid: true, Clocks: clocks}
	res.Generator = result.Process{Seconds: 1, Affinity: []int{1}}
	res.Cores = []result.Core{{Core: 0, Busy: 1}, {Core: 1}}
	return res
}

func TestALatePacerMarksAndThenLimitsTheRun(t *testing.T) {
	const ms = 1_000_000
	censored := clockAt(9 * ms)
	censored.Percentiles[0].Censored = true
	for _, c := range []struct {
		name      string
		clocks    map[string]result.Latency
		acks      string
		want      string
		threshold float64
	}{
		{"a tenth", map[string]result.Latency{result.Pacer: clockAt(ms), result.Ack: clockAt(10 * ms)}, "all", "", 0},
		{"above a tenth", map[string]result.Latency{result.Pacer: clockAt(ms + 1), result.Ack: clockAt(10 * ms)}, "all", result.Late, ms},
		{"a half", map[string]result.Latency{result.Pacer: clockAt(5 * ms), result.Ack: clockAt(10 * ms)}, "all", result.Late, ms},
		{"above a half", map[string]result.Latency{result.Pacer: clockAt(5*ms + 1), result.Ack: clockAt(10 * ms)}, "all", result.GeneratorLimited, 5 * ms},
		{"later than the acks", map[string]result.Latency{result.Pacer: clockAt(20 * ms), result.Ack: clockAt(10 * ms)}, "1", result.GeneratorLimited, 5 * ms},
		{"no acks: delivery counts", map[string]result.Latency{result.Pacer: clockAt(ms), result.Ack: clockAt(ms), result.Delivery: clockAt(10 * ms)}, "0", "", 0},
		{"no acks: delivery is late", map[string]result.Latency{result.Pacer: clockAt(6 * ms), result.Ack: clockAt(6 * ms), result.Delivery: clockAt(10 * ms)}, "0", result.GeneratorLimited, 5 * ms},
		{"no acks, no consumers", map[string]result.Latency{result.Pacer: clockAt(ms), result.Ack: clockAt(ms)}, "0", result.GeneratorLimited, 0.5 * ms},
		{"acks count where there are some", map[string]result.Latency{result.Pacer: clockAt(6 * ms), result.Ack: clockAt(10 * ms), result.Delivery: clockAt(100 * ms)}, "all", result.GeneratorLimited, 5 * ms},
		{"pacer cut off by the target", map[string]result.Latency{result.Pacer: censored, result.Ack: clockAt(10 * ms)}, "all", "", 0},
		{"nothing acked", map[string]result.Latency{result.Pacer: clockAt(ms), result.Ack: {Censored: 1000, Percentiles: censored.Percentiles}}, "all", "", 0},
		{"closed loop", nil, "all", "", 0},
	} {
		res := measured(c.clocks)
		res.Asked.Acks = c.acks
		new(run).judgeGenerator(res)
		if c.want == "" {
			if len(res.Verdicts) != 0 {
				t.Errorf("%s: %s", c.name, reasons(res))
			}
			continue
		}
		if len(res.Verdicts) != 1 || res.Verdicts[0].Kind != c.want || math.Abs(res.Verdicts[0].Threshold-c.threshold) > 1 {
			t.Errorf("%s: %+v, want %s above %.0f", c.name, res.Verdicts, c.want, c.threshold)
		}
		if res.Countable() != (c.want == result.Late) {
			t.Errorf("%s: countable %v", c.name, res.Countable())
		}
		var out bytes.Buffer
		printResult(&out, res, "")
		if !strings.Contains(out.String(), "\n"+c.want+": ") {
			t.Errorf("%s: printed without its verdict:\n%s", c.name, out.String())
		}
	}
	res := measured(map[string]result.Latency{result.Pacer: clockAt(2 * ms), result.Ack: clockAt(10 * ms)})
	new(run).judgePacer(res, nil)
	if want := "late: up to 2.00 ms of the ack p99 of 10.00 ms may be the generator's own lateness"; reasons(res) != want {
		t.Errorf("%q", reasons(res))
	}
}

func TestWaitingForACoreCountsByWhatOthersUsedOfIt(t *testing.T) {
	for _, c := range []struct {
		name     string
		affinity []int
		cores    []result.Core
		own      float64 // CPU seconds in the second
		want     float64
	}{
		{"alone", []int{1}, []result.Core{{Core: 0, Busy: 1}, {Core: 1, Busy: 0.5}}, 0.5, 0},
		{"a neighbour", []int{1}, []result.Core{{Core: 0}, {Core: 1, Busy: 0.75}}, 0.5, 0.25},
		{"the host", []int{1}, []result.Core{{Core: 0}, {Core: 1, Busy: 0.5, Steal: 0.25}}, 0.5, 0.25},
		{"two cores share", []int{0, 1}, []result.Core{{Core: 0, Busy: 1}, {Core: 1, Busy: 0.5}}, 0.5, 0.5},
		{"no affinity is every core", nil, []result.Core{{Core: 0, Busy: 1}, {Core: 1, Busy: 0.5}}, 0.5, 0.5},
		{"more than was counted", []int{1}, []result.Core{{Core: 1, Busy: 0.5}}, 0.75, 0},
		{"not above one", []int{1}, []result.Core{{Core: 1, Busy: 1, Steal: 0.5}}, 0, 1},
		{"not known", []int{7}, []result.Core{{Core: 1, Busy: 0.5}}, 0.5, 1},
	} {
		res := measured(nil)
		res.Generator.Affinity, res.Generator.CPUNanos, res.Cores = c.affinity, int64(c.own*1e9), c.cores
		if got := othersShare(res); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
	for _, c := range []struct {
		name         string
		waited, busy float64
		limited      bool
	}{
		{"long, on a core of its own", 0.9, 0, false},
		{"half the window, a twelfth by others", 0.5, 0.08, false},
		{"half the window, a ninth by others", 0.5, 0.11, true},
		{"a little, beside a busy one", 0.04, 1, false},
		{"more, beside a busy one", 0.06, 1, true},
	} {
		res := measured(nil)
		res.Generator.RunQueueNanos = int64(c.waited * 1e9)
		res.Cores[1].Busy = c.busy
		new(run).judgeGenerator(res)
		if res.Has(result.GeneratorLimited) != c.limited {
			t.Errorf("%s: limited %v: %s", c.name, !c.limited, reasons(res))
		}
	}
}

func TestAGeneratorThatUsesItsCoresUpIsTheLimit(t *testing.T) {
	for used, limited := range map[float64]bool{1.69: false, 1.71: true} {
		res := measured(nil)
		res.Generator.Affinity, res.Generator.CPUNanos = []int{0, 1}, int64(used*1e9)
		new(run).judgeGenerator(res)
		if res.Has(result.GeneratorLimited) != limited {
			t.Errorf("%.2f of 2 cores: %s", used, reasons(res))
		}
	}
}
