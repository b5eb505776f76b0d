package loadgen

import (
	"math"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tidemark/tidemark/loadgen/result"
	"github.com/tidemark/tidemark/loadgen/scrape"
	"github.com/tidemark/tidemark/loadgen/sink"
	"github.com/tidemark/tidemark/loadgen/workload"
)

func TestConditionsThatCannotBeMeantAreRefused(t *testing.T) {
	for text, says := range map[string]string{
		"":                       "want METRIC>VALUE",
		"p99":                    "want METRIC>VALUE",
		">20ms":                  "want METRIC>VALUE",
		"p99=20ms":               "compare with > >= < or <=",
		"p99!=20ms":              "compare with > >= < or <=",
		"p98>20ms":               `unknown metric "p98" (did you mean "p9`,
		"ack.p9>1ms":             `unknown metric "ack.p9" (did you mean "ack.p9`,
		"delivry.p99>1s":         `(did you mean "delivery.p99"?)`,
		"<script>alert</script>": "want METRIC>VALUE",
		"p99>20":                 "needs a unit",
		"p99>20KiB":              "is not a length of time",
		"p99>-5ms":               "is negative",
		"p99<20ms":               "which is good: turn the sign round",
		"throughput>20000/s":     "which is good: turn the sign round",
		"lost<1":                 "which is good: turn the sign round",
		"throughput<fast":        "is not a rate",
		"throughput<NaN":         "is not a rate",
		"throughput<-1":          "is not a rate",
		"held<101%":              "more than the whole",
		"lost>0.5":               "not a whole number of records",
		"lost>1%":                "is not a number of records",
		"broker.rss>5ms":         "is not a size",
	} {
		if _, err := ParseCondition(text); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, want %q", text, err, says)
		}
	}
}

// judgedAs is a latency result whose figures are given.
func judgedAs(p result.Percentile) *result.Result {
	res := measured(map[string]result.Latency{result.Ack: {Count: 10000, Sound: true, MaxNanos: 2 * p.Nanos, Percentiles: []result.Percentile{p}}})
	res.Produce.RecordsPerSec, res.Produce.BytesPerSec, res.Produce.HeldShare = 20000, 20e6, 1
	res.Verification = result.Verification{On: true, Complete: true}
	return res
}

func TestAConditionDecidesTheExitCodeAndNothingUncountablePasses(t *testing.T) {
	const ms = 1_000_000
	good := result.Percentile{P: 99, Nanos: 10 * ms, Above: 100, Excursions: 20}
	for _, c := range []struct {
		name, condition string
		change          func(*result.Result)
		exit            int
	}{
		{"below", "p99>20ms", nil, 0},
		{"blanks", " ack.p99 >= 20 ms ", nil, 0},
		{"at the limit", "p99>10ms", nil, 0},
		{"at the limit, equal", "p99>=10ms", nil, exitFailed},
		{"above", "p99>9ms", nil, exitFailed},
		{"one of two", "p99>20ms,throughput<20001/s", nil, exitFailed},
		{"bytes", "throughput<21MB/s", nil, exitFailed},
		{"enough bytes", "throughput<20MB/s", nil, 0},
		{"not held", "held<99.5%", func(r *result.Result) { r.Produce.HeldShare = 0.99 }, exitFailed},
		{"lost", "lost>0", func(r *result.Result) { r.Verification.Lost = 1 }, exitFailed},
		{"not all read back", "lost>0", func(r *result.Result) { r.Verification.Complete = false }, exitOpen},
		{"not all read back, and lost", "lost>0", func(r *result.Result) { r.Verification = result.Verification{On: true, Lost: 1} }, exitFailed},
		{"errors", "errors>0", func(r *result.Result) { r.Ends.Failed = 3 }, exitFailed},
		{"censored", "p99>20ms", func(r *result.Result) { r.Clocks[result.Ack].Percentiles[0].Censored = true }, exitFailed},
		{"few records", "p99>20ms", func(r *result.Result) { r.Clocks[result.Ack].Percentiles[0].Above = 9 }, exitOpen},
		{"not measured", "delivery.p99>1s", nil, exitOpen},
		{"no target", "broker.cpu>80%", nil, exitOpen},
		{"target", "broker.cpu>80%", func(r *result.Result) { r.Target = &result.Process{Seconds: 1, CPUNanos: 9e8} }, exitFailed},
		{"not a number", "throughput<1", func(r *result.Result) { r.Produce.RecordsPerSec = math.NaN() }, exitOpen},
		{"saturated", "p99>20ms", func(r *result.Result) { r.Add(result.Verdict{Kind: result.Saturated}) }, exitFailed},
		{"saturated, another metric", "lost>0", func(r *result.Result) { r.Add(result.Verdict{Kind: result.Saturated}) }, exitFailed},
		{"throttled", "p99>20ms", func(r *result.Result) { r.Add(result.Verdict{Kind: result.Throttled}) }, exitOpen},
		{"partial", "p99>20ms", func(r *result.Result) { r.Add(result.Verdict{Kind: result.Partial}) }, exitOpen},
		{"partial and above", "p99>9ms", func(r *result.Result) { r.Add(result.Verdict{Kind: result.Partial}) }, exitFailed},
		{"generator-limited", "p99>20ms", func(r *result.Result) { r.Add(result.Verdict{Kind: result.GeneratorLimited}) }, exitOpen},
		{"invalid", "p99>20ms", func(r *result.Result) { r.Add(result.Verdict{Kind: result.Invalid}) }, exitOpen},
		{"a mark alone", "p99>20ms", func(r *result.Result) { r.Add(result.Verdict{Kind: result.Late}) }, 0},
	} {
		res := judgedAs(good)
		if c.change != nil {
			c.change(res)
		}
		r := run{res: res}
		for one := range strings.SplitSeq(c.condition, ",") {
			parsed, err := ParseCondition(one)
			if err != nil {
				t.Fatal(err)
			}
			r.o.FailIf = append(r.o.FailIf, parsed)
		}
		err := r.conditionsError()
		if ExitCode(err) != c.exit || len(res.Conditions) != len(r.o.FailIf) {
			t.Errorf("%s: exit %d, want %d: %v %+v", c.name, ExitCode(err), c.exit, err, res.Conditions)
		}
	}
}

func TestConditionsOfTheCommand(t *testing.T) {
	to := target(t, sink.Script{KeepBytes: 8 << 20})
	base := []string{"load", "--bootstrap", to.Addr(), "--rate", "500", "--window", "300ms", "--warm-up", "0s", "--no-progress"}
	for _, c := range []struct {
		args []string
		exit int
		says string
	}{
		{[]string{"--fail-if", "throughput<1000000/s"}, exitFailed, "fail-if: throughput<1000000/s (it was "},
		{[]string{"--fail-if", "p98>20ms"}, exitUsage, "unknown metric"},
		{[]string{"--fail-if", "delivery.p99>1s", "--consumers", "0"}, exitUsage, "delivery.p99>1s: this workload consumes nothing"},
		{[]string{"--fail-if", "lost>0", "--verify", "off"}, exitUsage, "checks nothing"},
		{[]string{"--fail-if", "broker.cpu>1"}, exitUsage, "needs --target-metrics"},
		{[]string{"--target-metrics", "http://user:s3cr@127.0.0.1:1/metrics"}, exitUsage, "would stand in the result"},
		{[]string{"--target-metrics", "127.0.0.1:9644"}, exitUsage, "want http://HOST:PORT/metrics"},
		{[]string{"--target-metrics", "http://127.0.0.1:1/metrics"}, exitFailure, "target-metrics"},
		{[]string{"--lingr", "5ms"}, exitUsage, "did you mean --linger?"},
		{[]string{"--fail-iff=x"}, exitUsage, "did you mean --fail-if?"},
		{[]string{"--omb-driver", "d.yaml"}, exitUsage, "--omb-driver needs --omb-workload"},
		{[]string{"--workload", "w.yaml", "--omb-workload", "o.yaml"}, exitUsage, ""},
		{[]string{"--command-config", "nowhere.properties"}, exitUsage, "nowhere.properties"},
	} {
		out, _, err := tidemark(t, append(append([]string{}, base...), append(c.args, "--out", filepath.Join(t.TempDir(), "out"))...)...)
		if err == nil || !strings.Contains(err.Error(), c.says) || ExitCode(err) != c.exit && !strings.Contains(err.Error(), result.GeneratorLimited) {
			if err == nil || !strings.Contains(err.Error(), result.GeneratorLimited) {
				t.Errorf("%q: exit %d, want %d: %v", c.args, ExitCode(err), c.exit, err)
			}
		}
		if strings.Contains(out, "s3cr") || err != nil && strings.Contains(err.Error(), "s3cr") {
			t.Errorf("%q: a password is told", c.args)
		}
	}
}

func TestThrottlingOfOneClientAmongManyIsSeen(t *testing.T) {
	for _, name := range []string{workload.DriverRaw, workload.DriverKgo} {
		again(t, func() (*result.Result, string) {
			s := latency(200)
			s.Driver, s.Window = name, workload.Duration(500*time.Millisecond)
			res := load(t, s, target(t, sink.Script{KeepBytes: 8 << 20, Throttle: 100 * time.Millisecond}))
			if res.Produce.ThrottleNanos == 0 { // no answer came inside the window
				return res, name + ": no throttling"
			}
			if !res.Has(result.Throttled) || res.Countable() {
				t.Errorf("%s: %d ns, %s", name, res.Produce.ThrottleNanos, reasons(res))
			}
			return res, ""
		})
	}
	r := run{spec: &workload.Spec{Question: workload.Capacity}, pacers: make([]*pacer, 50), throttled: 20 * time.Millisecond}
	res := measured(nil)
	res.Window = result.Window{EndNanos: 1e9}
	res.Produce.ThrottleNanos = int64(20 * time.Millisecond) // 2% of the window for one client is 0.04% for all fifty
	if r.judgeTarget(res); !res.Has(result.Throttled) {
		t.Error("one client was held back for 2% of the window, and nobody says it")
	}
}

func page(nanos int64, cpu, rss float64) *scrape.Page {
	return &scrape.Page{Nanos: nanos, Counters: map[string]float64{scrape.ProcessCPU: cpu, "bytes_total": 10 * cpu}, Gauges: map[string]float64{scrape.ProcessRSS: rss}}
}

func TestTheTargetsCostIsWholeOrNotMeasured(t *testing.T) {
	o := TargetMetrics{URLs: []string{"http://a:1/metrics", "http://b:1/metrics"}, CPU: scrape.ProcessCPU}
	begin := []*scrape.Page{page(0, 1, 100), page(0, 5, 300)}
	p, notes := costBetween(o, begin, []*scrape.Page{page(2e9, 2.5, 200), page(2e9, 5.25, 250)}, nil)
	if p == nil || p.CPUNanos != 1.75e9 || p.Seconds != 2 || p.RSSBytes != 450 || p.RSSMaxBytes != 500 || p.Counters["bytes_total"] != 17.5 || len(notes) != 0 {
		t.Errorf("%+v %q", p, notes)
	}
	for name, end := range map[string][]*scrape.Page{
		"one page is missing": {page(2e9, 2, 1), nil},
		"one started anew":    {page(2e9, 2, 1), page(2e9, 4.9, 1)},
		"one lost its name":   {page(2e9, 2, 1), {Nanos: 2e9}},
		"one is not a number": {page(2e9, 2, 1), page(2e9, math.NaN(), 1)},
	} {
		if p, _ := costBetween(o, begin, end, nil); p != nil {
			t.Errorf("%s, and the cost is %+v", name, p)
		}
	}
	res := measured(nil)
	if got := costLine(res); !strings.HasPrefix(got, "not measured") {
		t.Errorf("%q", got)
	}
	res.Target = &result.Process{Seconds: 1}
	if got := costLine(res); !strings.HasPrefix(got, "0.00 CPU-s, 0% of one core") {
		t.Errorf("%q", got) // measured, and nothing was spent
	}
}
