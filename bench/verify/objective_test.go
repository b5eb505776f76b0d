package verify

import (
	"strings"
	"testing"
)

// TestTheSecondProgramCountsFreshRuns: of a search, neither the ladder's own run nor a rate with a run that told nothing bounds
// the capacity. The first program's table is in bench/gate.
func TestTheSecondProgramCountsFreshRuns(t *testing.T) {
	const climb = "1+ 2+ 3+ 4- 5- " // then fresh runs: + passed, - did not, ? told nothing
	for name, c := range map[string]struct {
		runs  string
		fixed bool
		want  string
	}{
		"three of each":       {climb + "3+ 4- 4- 3+ 4- 3+", false, "between 3/s (three of three runs passed) and 4/s"},
		"two fresh passed":    {climb + "3+ 4- 2+ 4- 3+ 4- 2+ 2+", false, "between 2/s (three of three runs passed) and 4/s"},
		"two fresh failed":    {climb + "3+ 4- 3+ 5- 4- 5- 3+ 5-", false, "between 3/s (three of three runs passed) and 5/s"},
		"one passed untold":   {climb + "3+ 4- 2+ 4- 3+ 4- 3? 2+ 2+", false, "between 2/s (three of three runs passed) and 4/s"},
		"one failed untold":   {climb + "3+ 4- 3+ 5- 4- 4? 5- 3+ 5-", false, "between 3/s (three of three runs passed) and 5/s"},
		"untold as it climbs": {"1+ 2+ 3? 1+ 2+ 2+ 3- 3- 3- 2+", false, "not found: no rate failed"},
		"fails throughout":    {"1- 2- 3- 1- 3- 3- 1- 1-", false, "not found: no rate passed"},
		"a fixed ladder":      {"1+ 2- 1+ 2? 2- 1+ 1? 2-", true, "between 1/s (three of three runs passed) and 2/s"},
	} {
		b := &bench{plan: plan{Objective: 10}}
		searched := &cell{Role: "ladder", Kind: "latency", Searched: !c.fixed}
		for _, one := range strings.Fields(c.runs) {
			r := &run{cell: searched, Rate: float64(one[0] - '0'), Status: "ok", result: &result{}, clocks: map[string]*clock{}}
			r.clocks["ack"] = &clock{summary: summary{Sound: true, Percentiles: []percentile{{P: 99, Nanos: 5e6}}}}
			switch one[1] {
			case '-':
				r.Status = "saturated"
			case '?':
				r.Status = "generator-limited"
			}
			b.runs = append(b.runs, r)
		}
		if got := b.underObjective(); !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
