package matrix_test

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/tidemark/tidemark/bench/matrix"
	"github.com/tidemark/tidemark/bench/suites"
)

// recorded is how long sessions took on a two-core host that others used too, as status.json and the run.json files of
// those sessions have it, in seconds.
type recorded struct {
	SmokeSeconds float64   `json:"smokeSeconds"` // of a whole session of the suite smoke
	SmokeRuns    int       `json:"smokeRuns"`    // the profiled one included
	Calibrations []float64 `json:"calibrations"`
	SinkOfQuick  []float64 `json:"sinkOfQuick"` // one for each shape of workload of the suite quick
}

func readRecorded(t *testing.T) (r recorded) {
	t.Helper()
	text, err := os.ReadFile("testdata/durations.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &r); err != nil {
		t.Fatal(err)
	}
	return r
}

func meanOf(v []float64) (sum float64) {
	for _, one := range v {
		sum += one / float64(len(v))
	}
	return sum
}

// TestThePlanForetellsWhatASessionTook: all of it, calibration and readings of the sink included. Without these it foretold
// two thirds.
func TestThePlanForetellsWhatASessionTook(t *testing.T) {
	r := readRecorded(t)
	p := planOf(t, "smoke", 3)
	if got := len(p.Runs) + len(p.Profiled); got != r.SmokeRuns {
		t.Fatalf("smoke plans %d runs, the recorded session made %d: record one anew", got, r.SmokeRuns)
	}
	if p.Seconds < 0.75*r.SmokeSeconds || p.Seconds > 1.25*r.SmokeSeconds {
		t.Errorf("the plan foretells %.1f s, the session took %.1f s", p.Seconds, r.SmokeSeconds)
	}
}

// TestCalibrationAndEachShapeAreInThePlan: a cell whose workload no other has costs a reading of the sink beside its runs,
// one more repeat of it does not, nor does another rate.
func TestCalibrationAndEachShapeAreInThePlan(t *testing.T) {
	seconds := func(more string) float64 {
		t.Helper()
		s, err := suites.Parse("s.yaml", []byte("name: x\nrate: 100\nwindow: 1s\nprofiles: {extra: none}\nbaseline: {repeats: 1, set: {linger: 0s, partitions: 6}}\n"+more))
		if err != nil {
			t.Fatal(err)
		}
		p, err := matrix.Plan(s, 1)
		if err != nil {
			t.Fatal(err)
		}
		return p.Seconds
	}
	r := readRecorded(t)
	alone := seconds("")
	once := seconds("matrix: {repeats: 1, axes: {linger: [5ms]}}\n")
	twice := seconds("matrix: {repeats: 2, axes: {linger: [5ms]}}\n")
	run := twice - once
	if sink, took := once-alone-run, meanOf(r.SinkOfQuick); sink < 0.5*took || sink > 1.5*took {
		t.Errorf("one shape more costs %.2f s in the plan, in a session %.2f s", sink, took)
	}
	if before, took := alone-run, meanOf(r.Calibrations)+meanOf(r.SinkOfQuick); before < took {
		t.Errorf("before its first run the plan has %.1f s; calibration and one reading of the sink took %.1f s, and host and target come to that", before, took)
	}
	const probes = "probes: {repeats: 1, window: 1s}\n"
	rungs := seconds(probes+"ladder: {repeats: 1, shares: [25%, 50%]}\n") - seconds(probes+"ladder: {repeats: 1, shares: [25%]}\n")
	if rungs > run+0.01 || rungs < run-0.01 {
		t.Errorf("a rate more costs %.2f s, a run %.2f s: it is no shape of its own", rungs, run)
	}
}
