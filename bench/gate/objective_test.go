package gate_test

import (
	"strings"
	"testing"

	"github.com/tidemark/tidemark/bench/gate"
	"github.com/tidemark/tidemark/bench/stats"
	"github.com/tidemark/tidemark/bench/store"
	"github.com/tidemark/tidemark/loadgen/result"
	"github.com/tidemark/tidemark/loadgen/workload"
)

// TestPassingNeedsMoreThanAPercentile: rate held, nothing failed or left over, and a run that convicts the generator or
// itself says nothing about the target.
func TestPassingNeedsMoreThanAPercentile(t *testing.T) {
	p := &store.Plan{SLOP99MS: 10}
	for name, c := range map[string]struct {
		change       func(c *store.Cell, r *store.Run)
		passed, told bool
	}{
		"within":            {func(*store.Cell, *store.Run) {}, true, true},
		"beyond":            {func(_ *store.Cell, r *store.Run) { p99(r, 10_000_001) }, false, true},
		"at it":             {func(_ *store.Cell, r *store.Run) { p99(r, 10_000_000) }, true, true},
		"saturated":         {func(_ *store.Cell, r *store.Run) { r.Status = store.Saturated }, false, true},
		"one failed":        {func(_ *store.Cell, r *store.Run) { r.Result.Ends.Failed = 1 }, false, true},
		"one unanswered":    {func(_ *store.Cell, r *store.Run) { r.Result.Ends.Unanswered = 1 }, false, true},
		"generator-limited": {func(_ *store.Cell, r *store.Run) { r.Status = store.GeneratorLimited }, false, false},
		"throttled":         {func(_ *store.Cell, r *store.Run) { r.Status = store.Throttled }, false, false},
		"invalid":           {func(_ *store.Cell, r *store.Run) { r.Status = store.Invalid }, false, false},
		"no result":         {func(_ *store.Cell, r *store.Run) { r.Result = nil }, false, false},
		"censored": {func(_ *store.Cell, r *store.Run) {
			r.Result.Clocks[result.Ack] = result.Latency{Count: 1, Sound: true, Percentiles: []result.Percentile{{P: 99, Nanos: 1, Censored: true}}}
		}, false, true},
		"without acks": {func(c *store.Cell, r *store.Run) {
			c.Asked.Acks = workload.AcksNone
			r.Result.Clocks[result.Delivery] = result.Latency{Count: 1, Sound: true, Percentiles: []result.Percentile{{P: 99, Nanos: 2e7}}}
		}, false, true},
	} {
		cell := &store.Cell{Number: 1, Role: store.Ladder, Kind: store.Latency}
		r := &store.Run{Cell: 1, Status: store.OK, Result: &result.Result{Clocks: map[string]result.Latency{}}}
		p99(r, 5e6)
		c.change(cell, r)
		if passed, told := gate.Passes(p, cell, r); passed != c.passed || told != c.told {
			t.Errorf("%s: passed %v, told %v", name, passed, told)
		}
	}
}

func p99(r *store.Run, nanos int64) {
	r.Result.Clocks[result.Ack] = result.Latency{Count: 1000, Sound: true, Percentiles: []result.Percentile{{P: 99, Nanos: nanos, Above: 10}}}
}

// TestABracketRestsOnFreshRuns: the ladder's own run at a rate is none of the three, and neither bounds a rate of which a run
// told nothing. Rates of a fixed ladder are told by the runs that tell.
func TestABracketRestsOnFreshRuns(t *testing.T) {
	const climb = "1+ 2+ 3+ 4- 5- " // then fresh runs: + passed, - did not, ? told nothing
	for name, c := range map[string]struct {
		runs      string
		fixed     bool
		low, high float64
	}{
		"three of each":        {climb + "3+ 4- 4- 3+ 4- 3+", false, 3, 4},
		"two fresh passed":     {climb + "3+ 4- 2+ 4- 3+ 4- 2+ 2+", false, 2, 4},
		"two fresh failed":     {climb + "3+ 4- 3+ 5- 4- 5- 3+ 5-", false, 3, 5},
		"one passed untold":    {climb + "3+ 4- 2+ 4- 3+ 4- 3? 2+ 2+", false, 2, 4},
		"one failed untold":    {climb + "3+ 4- 3+ 5- 4- 4? 5- 3+ 5-", false, 3, 5},
		"untold on the ladder": {"1+ 2+ 3? 1+ 2+ 2+ 3- 3- 3- 2+", false, 2, 0},
		"fails throughout":     {"1- 2- 3- 1- 3- 3- 1- 1-", false, 0, 1},
		"a fixed ladder":       {"1+ 2- 1+ 2? 2- 1+ 1? 2-", true, 1, 2},
	} {
		d := &store.Data{Plan: store.Plan{SLOP99MS: 10}}
		for n := range 5 {
			d.Plan.Cells = append(d.Plan.Cells, store.Cell{Number: n + 1, Role: store.Ladder, Kind: store.Latency, Searched: !c.fixed})
		}
		for _, one := range strings.Fields(c.runs) {
			n := int(one[0] - '0')
			r := &store.Run{Cell: n, Rate: float64(n), Status: store.OK, Result: &result.Result{Clocks: map[string]result.Latency{}}}
			p99(r, 5e6)
			switch one[1] {
			case '-':
				r.Status = store.Saturated
			case '?':
				r.Status = store.GeneratorLimited
			}
			d.Runs = append(d.Runs, r)
		}
		if b := gate.Analyse(d).Bracket; b.Low != c.low || b.High != c.high || b.Found != (c.low > 0 && c.high > 0) {
			t.Errorf("%s: %+v, want %v to %v", name, b, c.low, c.high)
		}
	}
}

// TestCliffsOfAPairwiseDesign: what failed, saturated or sits far off is listed, and nothing of another design.
func TestCliffsOfAPairwiseDesign(t *testing.T) {
	d := data(5, 0.02, 1, 1.1, 0.95, 6, 1, 0.1)
	if got := gate.Cliffs(d, gate.Analyse(d)); got != nil {
		t.Errorf("of a one-factor design: %v", got)
	}
	d.Plan.Design = store.Pairwise
	for i := range d.Plan.Cells {
		d.Plan.Cells[i].Against = 0
	}
	for _, r := range d.RunsOf(3)[:1] {
		r.Status = store.Saturated
	}
	a := gate.Analyse(d)
	if len(a.Comparisons) != 0 {
		t.Errorf("%d comparisons", len(a.Comparisons))
	}
	got := gate.Cliffs(d, a)
	want := map[int]string{3: "1 of 4 runs saturated", 5: "ack p99 is x6", 7: "ack p99 is x0.1"}
	if len(got) != len(want) {
		t.Errorf("%v", got)
	}
	for _, c := range got {
		if w := want[c.Cell]; w == "" || !strings.HasPrefix(c.Why, w[:len(w)-1]) {
			t.Errorf("cell %d: %s, want %s", c.Cell, c.Why, w)
		}
	}
}

// TestAVerdictSaysWhatKeepsItFromStanding on every surface, not in the Answer alone.
func TestAVerdictSaysWhatKeepsItFromStanding(t *testing.T) {
	d := data(1, 0.05, 1, 1, 1, 2, 0.5)
	for _, c := range gate.Analyse(d).Comparisons {
		if words := c.Words(); c.Stands && strings.Contains(words, ",") || !c.Stands && c.Judgement.Verdict.String() == "worse" && !strings.Contains(words, ", ") {
			t.Errorf("stands %v: %s", c.Stands, words)
		}
	}
	doubtful := gate.Comparison{}
	doubtful.Judgement.Verdict = stats.Worse
	doubtful.Judgement.Ratio.Value, doubtful.Judgement.Ratio.Weakest = 1.2, 1.19
	if got := doubtful.Words(); got != "worse, may be chance" {
		t.Error(got)
	}
	doubtful.Judgement.Ratio.Weakest = 1.01
	if got := doubtful.Words(); got != "worse, rests on one run" {
		t.Error(got)
	}
	if doubtful.Stands = true; doubtful.Words() != "worse" {
		t.Error(doubtful.Words())
	}
}
