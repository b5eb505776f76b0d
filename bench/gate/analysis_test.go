package gate_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/tidemark/tidemark/bench/gate"
	"github.com/tidemark/tidemark/bench/stats"
	"github.com/tidemark/tidemark/bench/store"
	"github.com/tidemark/tidemark/loadgen/result"
)

// data is a baseline with nine runs and axes with four each; scale multiplies an axis' latency.
func data(seed uint64, noise float64, scale ...float64) *store.Data {
	random := rand.New(rand.NewPCG(seed, 0))
	d := &store.Data{Plan: store.Plan{Allowance: 0.05}}
	add := func(name string, role store.Role, against, runs int, factor float64) {
		n := len(d.Plan.Cells) + 1
		d.Plan.Cells = append(d.Plan.Cells, store.Cell{Number: n, Name: name, Role: role, Kind: store.Latency, Against: against, Repeats: runs})
		for i := range runs {
			jitter := 1 + noise*random.NormFloat64()
			r := &result.Result{Clocks: map[string]result.Latency{result.Ack: {Count: 1e5, Sound: true,
				Percentiles: []result.Percentile{{P: 99, Nanos: int64(1e6 * factor * jitter), Above: 1000, Excursions: 50}}}}}
			r.Verification = result.Verification{On: true, Complete: true}
			d.Runs = append(d.Runs, &store.Run{Cell: n, Repeat: i + 1, Status: store.OK, Result: r})
		}
	}
	add("baseline", store.Baseline, 0, 9, 1)
	for i, f := range scale {
		add(fmt.Sprintf("axis %d", i), store.Axis, 1, 4, f)
	}
	return d
}

func TestAnalysisFindsWhatIsThereAndNotMore(t *testing.T) {
	d := data(1, 0.05, 1, 1, 1, 2, 0.5)
	d.Plan.Primary = []string{"axis 3"}
	a := gate.Analyse(d)
	noise := a.Noise[gate.NoiseKey{Metric: "ack p99", Kind: store.Latency}]
	if noise.DF != 8+5*3 || noise.Sigma < 0.03 || noise.Sigma > 0.08 {
		t.Errorf("noise %+v", noise)
	}
	for cell, want := range map[int]stats.Verdict{5: stats.Worse, 6: stats.Better} {
		c, ok := a.Comparison(cell, "ack p99")
		if !ok || c.Judgement.Verdict != want || !c.Stands {
			t.Errorf("cell %d: %+v", cell, c)
		}
		if c.Primary != (cell == 5) {
			t.Errorf("cell %d: primary %v", cell, c.Primary)
		}
	}
	for _, cell := range []int{2, 3, 4} {
		if c, _ := a.Comparison(cell, "ack p99"); c.Judgement.Verdict == stats.Worse || c.Stands {
			t.Errorf("cell %d is the baseline itself: %v", cell, c.Judgement.Words())
		}
	}
	if _, ok := a.Comparison(1, "ack p99"); ok {
		t.Error("the baseline is compared with itself")
	}
	if a.ChanceFindings < 0.19 || a.ChanceFindings > 0.21 {
		t.Errorf("%v of 4 exploratory comparisons by chance", a.ChanceFindings)
	}
}

func TestRunsThatDoNotCountStayOut(t *testing.T) {
	d := data(2, 0.05, 1)
	for _, r := range d.Runs {
		if r.Cell == 2 {
			r.Status = store.Saturated
			r.Result.Verification.Lost = 2
		}
	}
	a := gate.Analyse(d)
	if _, ok := a.Comparison(2, "ack p99"); ok {
		t.Error("saturated runs were compared")
	}
	if a.Counts.CellsSaturated != 1 || a.Counts.Lost != 8 {
		t.Errorf("%+v", a.Counts)
	}
}

func TestTwoFoldersAreComparedByName(t *testing.T) {
	a, b := data(3, 0.03, 1, 1, 1), data(4, 0.03, 1, 1.5, 1)
	b.Plan.Cells[3].Name = "new"
	comparisons, missing := gate.Compare(a, b, 0.05, nil)
	if len(comparisons) != 3 {
		t.Errorf("%d comparisons", len(comparisons))
	}
	for _, c := range comparisons {
		if want := b.Plan.Cells[c.Cell-1].Name == "axis 1"; (c.Judgement.Verdict == stats.Worse) != want {
			t.Errorf("%s: %s", b.Plan.Cells[c.Cell-1].Name, c.Judgement.Words())
		}
	}
	if fmt.Sprint(missing) != "[axis 2 new]" {
		t.Errorf("missing %v", missing)
	}
	if c, _ := gate.Compare(a, b, 0.05, func(store.Metric) bool { return false }); len(c) != 0 {
		t.Errorf("%d comparisons though no metric is kept", len(c))
	}
}
