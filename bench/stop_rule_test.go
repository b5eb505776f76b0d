package bench

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidemark/tidemark/bench/gate"
	"github.com/tidemark/tidemark/bench/store"
	"github.com/tidemark/tidemark/bench/suites"
)

func stopSuite(t *testing.T, width string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "stop.yaml")
	text := "name: stop\nseed: 5\nrate: 1000\nmax-bytes: 1GiB\nwarm-up: 100ms\nwindow: 500ms\nprofiles: {cpu: false, extra: none}\nstop: {width: " + width + `, metrics: [ack p50]}
baseline: {repeats: 8, set: {groups: [1]}}
matrix: {repeats: 8, axes: {linger: [0s, 5ms], partitions: [1]}}
`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// stoppedAt returns how many runs each cell has.
func stoppedAt(t *testing.T, dir string) (runs map[string]int, d *store.Data) {
	t.Helper()
	d, err := store.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	runs = map[string]int{}
	for _, r := range d.Runs {
		runs[d.Cell(r.Cell).Name]++
	}
	if d.Planned() != len(d.Runs) || d.Status.RunsPlanned != len(d.Runs) || d.Status.RunsDone != len(d.Runs) {
		t.Errorf("%d runs, %d planned, status %+v", len(d.Runs), d.Planned(), d.Status)
	}
	return runs, d
}

// TestAStopRuleLooksAtWidthsFromTheSixthRunOn: cells whose intervals are narrow enough get no further runs, the baseline gets
// all of its own, and a resume leaves out the same.
func TestAStopRuleLooksAtWidthsFromTheSixthRunOn(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "out")
	summary, err := runBench(t, runOptions{out: dir, noProgress: true}, stopSuite(t, "99%"))
	if err != nil {
		t.Fatal(err)
	}
	runs, d := stoppedAt(t, dir)
	if fmt.Sprint(runs) != "map[baseline:8 linger=0s:6 linger=5ms:6 partitions=1:6]" {
		t.Errorf("%v, %+v", runs, d.Status.Stopped)
	}
	for _, want := range []string{"linger=5ms was stopped after 6 of 8 runs: its widest interval was ±", "n=6 "} {
		if !strings.Contains(summary, want) {
			t.Errorf("no %q in\n%s", want, summary)
		}
	}
	// The last run that was made is lost, as by a kill: a resume makes it, and none of those that were left out.
	last := d.Runs[len(d.Runs)-1]
	if err := os.RemoveAll(last.Dir); err != nil {
		t.Fatal(err)
	}
	if _, err := runBench(t, runOptions{out: dir, resume: true, noProgress: true}); err != nil {
		t.Fatal(err)
	}
	if again, _ := stoppedAt(t, dir); fmt.Sprint(again) != fmt.Sprint(runs) {
		t.Errorf("resumed: %v, before %v", again, runs)
	}
}

// TestNoRunIsLeftOutWhileIntervalsAreWide.
func TestNoRunIsLeftOutWhileIntervalsAreWide(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "out")
	if _, err := runBench(t, runOptions{out: dir, noProgress: true}, stopSuite(t, "0.0001%")); err != nil {
		t.Fatal(err)
	}
	if runs, d := stoppedAt(t, dir); runs["linger=5ms"] != 8 || len(d.Status.Stopped) != 0 {
		t.Errorf("%v, %+v", runs, d.Status.Stopped)
	}
}

// TestTheRuleKnowsNoVerdict: the same cell is as narrow whatever the baseline says.
func TestTheRuleKnowsNoVerdict(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "out")
	if _, err := runBench(t, runOptions{out: dir, noProgress: true}, stopSuite(t, "99%")); err != nil {
		t.Fatal(err)
	}
	d, err := store.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	c := d.Cell(d.Status.Stopped[0].Cell)
	before, _ := gate.Narrow(d, c)
	for _, r := range d.RunsOf(1) {
		p := r.Result.Clocks["ack"].Percentiles
		for i := range p {
			p[i].Nanos *= 100
		}
	}
	after, narrow := gate.Narrow(d, c)
	if d.Cell(1).Role != store.Baseline || !narrow || after < before*0.999 || after > before*1.001 {
		t.Errorf("width %v, with a baseline a hundred times slower %v", before, after)
	}
}

func TestContradictoryStopRulesAreRefused(t *testing.T) {
	const head = "name: x\nrate: 100\nwindow: 1s\n"
	const cells = "baseline: {repeats: 8, set: {linger: 0s}}\nmatrix: {repeats: 8, axes: {linger: [5ms], partitions: [1], acks: ['1']}}\n"
	for _, c := range []struct{ name, text, want string }{
		{"no width", cells + "stop: {metrics: [ack p99]}\n", "set width"},
		{"no metrics", cells + "stop: {width: 10%}\n", "name the metrics"},
		{"verdict", cells + "stop: {verdict: worse}\n", `unknown field "verdict"`},
		{"too wide", cells + "stop: {width: 200%, metrics: [ack p99]}\n", "over 100%"},
		{"unknown", cells + "stop: {width: 10%, metrics: [ack p98]}\n", `unknown metric "ack p98" (did you mean "ack p`},
		{"twice", cells + "stop: {width: 10%, metrics: [ack p99, ack p99]}\n", "stands twice"},
		{"never looks", strings.Replace(cells, "matrix: {repeats: 8", "matrix: {repeats: 6", 1) + "stop: {width: 10%, metrics: [ack p99]}\n", "first looked at after 6 runs"},
		{"no such cells", cells + "stop: {width: 10%, metrics: [throughput]}\n", "first looked at after 6 runs"},
		{"noise not known", "baseline: {repeats: 3}\nmatrix: {repeats: 7, axes: {linger: [5ms]}}\nstop: {width: 10%, metrics: [ack p99]}\n", "8 degrees of freedom"},
		{"effects", "baseline: {repeats: 8, set: {linger: 0s}}\nmatrix: {design: effects, model: [linger], repeats: 8, axes: {linger: [5ms]}}\nstop: {width: 10%, metrics: [ack p99]}\n", "none can be left out"},
	} {
		t.Run(c.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "s.yaml")
			if err := os.WriteFile(file, []byte(head+c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := output(t, "bench", "plan", file); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got  %v\nwant %s", err, c.want)
			}
		})
	}
	if _, err := suites.Parse("s.yaml", []byte(head+cells+"stop: {width: 10%, metrics: [ack p99]}\n")); err != nil {
		t.Error(err)
	}
}
