package matrix_test

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/tidemark/tidemark/bench/matrix"
	"github.com/tidemark/tidemark/bench/store"
	"github.com/tidemark/tidemark/bench/suites"
)

func planOf(t *testing.T, name string, seed uint64) *store.Plan {
	t.Helper()
	s, err := suites.Find(name)
	if err != nil {
		t.Fatal(err)
	}
	p, err := matrix.Plan(s, seed)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestQuickIsWhatItPromises pins the suite that `make bench` runs: its cells, repeats, time and bytes.
func TestQuickIsWhatItPromises(t *testing.T) {
	p := planOf(t, "quick", 7)
	runs := map[store.Role]int{}
	cells := map[store.Role]int{}
	for _, c := range p.Cells {
		cells[c.Role]++
		runs[c.Role] += c.Repeats
		if c.Role == store.Axis && len(c.Settings) != 1 {
			t.Errorf("cell %s changes %d settings", c.Name, len(c.Settings))
		}
		if c.Role == store.Ceiling && (c.MaxBytes != 512<<20 || c.WindowMS != 2500) {
			t.Errorf("cell %s: %d bytes, %d ms", c.Name, c.MaxBytes, c.WindowMS)
		}
	}
	if runs[store.Probe] != 2 || runs[store.Baseline] != 9 || cells[store.Ladder] != 4 || runs[store.Ladder] != 8 ||
		cells[store.Axis] < 11 || runs[store.Axis] != 2*cells[store.Axis] || cells[store.Ceiling] != 5 || runs[store.Ceiling] != 10 {
		t.Errorf("cells %v runs %v", cells, runs)
	}
	if p.Seconds < 170 || p.Seconds > 182 {
		t.Errorf("planned %v s, want 180", p.Seconds)
	}
	if p.MaxBytes > 8<<30 {
		t.Errorf("planned %d bytes", p.MaxBytes)
	}
	var with, plain int
	for _, c := range p.Cells {
		if c.CPUProfile {
			with += c.Repeats
		} else {
			plain += c.Repeats
		}
	}
	if len(p.Profiled) != 1 || p.Cells[p.Profiled[0].Cell-1].Role != store.Baseline || p.Profiled[0].Repeat != 10 || plain != 2 || with != len(p.Runs)-2 {
		t.Errorf("profiled %+v, %d runs with CPU profiles, %d without", p.Profiled, with, plain)
	}
	t.Logf("%d cells %d runs %.0f s", len(p.Cells), len(p.Runs), p.Seconds)
}

func TestOrderHoldsEveryRunOnceProbesFirstBaselineSpread(t *testing.T) {
	p := planOf(t, "quick", 7)
	seen := map[store.RunPlan]bool{}
	repeats := map[int]int{}
	var baseline []int
	for i, r := range p.Runs {
		if seen[r] {
			t.Errorf("run %+v twice", r)
		}
		seen[r] = true
		if repeats[r.Cell]++; repeats[r.Cell] != r.Repeat {
			t.Errorf("cell %d: repeat %d runs as number %d", r.Cell, r.Repeat, repeats[r.Cell])
		}
		c := p.Cells[r.Cell-1]
		if (c.Role == store.Probe) != (i < 2) {
			t.Errorf("place %d: %s", i, c.Name)
		}
		if c.Role == store.Baseline {
			baseline = append(baseline, i)
		}
	}
	for _, c := range p.Cells {
		if repeats[c.Number] != c.Repeats {
			t.Errorf("%s runs %d times, want %d", c.Name, repeats[c.Number], c.Repeats)
		}
	}
	for i := 1; i < len(baseline); i++ {
		if gap := baseline[i] - baseline[i-1]; gap < 4 || gap > 7 {
			t.Errorf("baseline at %v: a gap of %d", baseline, gap)
		}
	}
	if !reflect.DeepEqual(p.Runs, planOf(t, "quick", 7).Runs) {
		t.Error("the same seed gives another order")
	}
	if reflect.DeepEqual(p.Runs, planOf(t, "quick", 8).Runs) {
		t.Error("another seed gives the same order")
	}
}

func TestPlanSurvivesJSON(t *testing.T) {
	p := planOf(t, "quick", 7)
	b, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	var q store.Plan
	if err := json.Unmarshal(b, &q); err != nil {
		t.Fatal(err)
	}
	for i := range p.Cells {
		if got, want := q.Cells[i].Asked.Hash(), p.Cells[i].Asked.Hash(); got != want {
			t.Errorf("cell %s reads back as another workload", p.Cells[i].Name)
		}
	}
}

func axes(sizes ...int) []suites.Axis {
	var out []suites.Axis
	for i, n := range sizes {
		a := suites.Axis{Field: string(rune('a' + i))}
		for v := range n {
			a.Values = append(a.Values, suites.Setting{Field: a.Field, Value: string(rune('0' + v))})
		}
		out = append(out, a)
	}
	return out
}

func TestDesignsCoverWhatTheyPromise(t *testing.T) {
	if n := len(matrix.Combine("full", axes(2, 3, 4), nil)); n != 24 {
		t.Errorf("full: %d combinations, want 24", n)
	}
	if n := len(matrix.Combine("one-factor", axes(2, 3, 4), nil)); n != 9 {
		t.Errorf("one-factor: %d combinations, want 9", n)
	}
	exclude := [][]suites.Setting{{{Field: "a", Value: "0"}, {Field: "b", Value: "1"}}}
	if n := len(matrix.Combine("full", axes(2, 3, 4), exclude)); n != 20 {
		t.Errorf("full with an exclusion: %d combinations, want 20", n)
	}
	for _, sizes := range [][]int{{2, 2}, {3, 3, 3, 3}, {5, 4, 3, 2, 2, 2, 2}} {
		all := axes(sizes...)
		combinations := matrix.Combine("pairwise", all, exclude)
		covered := map[[4]string]bool{}
		for _, c := range combinations {
			if matrix.Excluded(c, exclude) {
				t.Errorf("%v is excluded", c)
			}
			for i := range c {
				for k := i + 1; k < len(c); k++ {
					covered[[4]string{c[i].Field, c[i].Value, c[k].Field, c[k].Value}] = true
				}
			}
		}
		pairs, full := 0, 1
		for i := range sizes {
			full *= sizes[i]
			for k := i + 1; k < len(sizes); k++ {
				pairs += sizes[i] * sizes[k]
			}
		}
		if len(covered) != pairs-1 {
			t.Errorf("%v: %d pairs covered, want all %d but the excluded one", sizes, len(covered), pairs)
		}
		if len(combinations) > full || len(sizes) > 4 && len(combinations) > 40 {
			t.Errorf("%v: %d combinations", sizes, len(combinations))
		}
	}
}

func TestLadderWindowShrinksWithTheRate(t *testing.T) {
	p := planOf(t, "quick", 7)
	for _, c := range p.Cells {
		if c.Role != store.Ladder {
			continue
		}
		slow, err := matrix.SetRate(c, 1000)
		if err != nil || slow.WindowMS != c.WindowMS {
			t.Errorf("%s at 1,000/s: window %d, %v", c.Name, slow.WindowMS, err)
		}
		fast, err := matrix.SetRate(c, 400_000*c.LoadShare)
		if err != nil {
			t.Errorf("%s: %v", c.Name, err)
			continue
		}
		bytes := fast.Rate * float64(fast.WarmupMS+fast.WindowMS) / 1000 * fast.Asked.RecordSize.Mean()
		if fast.WindowMS >= c.WindowMS || bytes > float64(c.MaxBytes) {
			t.Errorf("%s: window %d ms writes %.0f of %d bytes", c.Name, fast.WindowMS, bytes, c.MaxBytes)
		}
		if _, err := matrix.SetRate(c, 1e9); err == nil {
			t.Error("an absurd rate was accepted")
		}
	}
}
