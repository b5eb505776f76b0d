package matrix_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/tidemark/tidemark/bench/matrix"
	"github.com/tidemark/tidemark/bench/stats"
	"github.com/tidemark/tidemark/bench/store"
	"github.com/tidemark/tidemark/bench/suites"
)

const head = "name: x\nrate: 100\nwindow: 1s\nmax-bytes: 1GiB\n"

func planned(t *testing.T, text string) (*store.Plan, error) {
	t.Helper()
	s, err := suites.Parse("s.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return matrix.Plan(s, 7)
}

// TestASearchIsPlannedAsWhatItMayRun: the runs stand beside those of the plan, since which of them happen follows from what
// they find.
func TestASearchIsPlannedAsWhatItMayRun(t *testing.T) {
	const text = head + "slo: 10ms\nprobes: {repeats: 1, max-bytes: 16MiB}\nladder: {search: true, shares: [25%, 50%, 75%, 100%, 125%]}\n"
	p, err := planned(t, text)
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Search) != 5*stats.SearchRuns || p.SLOP99MS != 10 {
		t.Errorf("%d runs may be made for p99 within %v ms", len(p.Search), p.SLOP99MS)
	}
	searched := 0
	for _, c := range p.Cells {
		if c.Searched != (c.Role == store.Ladder) {
			t.Errorf("%s: searched %v", c.Name, c.Searched)
		}
		if c.Searched {
			searched++
			if c.Repeats != stats.SearchRuns || c.Against != 0 || c.MaxBytes <= 0 {
				t.Errorf("%+v", c)
			}
		}
	}
	if searched != 5 {
		t.Errorf("%d rungs", searched)
	}
	for _, r := range p.Runs {
		if p.Cells[r.Cell-1].Searched {
			t.Errorf("run %+v of a search is in the plan's own order", r)
		}
	}
	again, err := planned(t, text)
	if err != nil {
		t.Fatal(err)
	}
	for i := range p.Search {
		if p.Search[i] != again.Search[i] || p.Search[i].Seed == 0 {
			t.Errorf("run %+v, and again %+v", p.Search[i], again.Search[i])
		}
	}
	plain, err := planned(t, strings.Replace(text, "search: true, ", "", 1))
	if err != nil {
		t.Fatal(err)
	}
	if p.Seconds <= plain.Seconds || len(plain.Search) != 0 {
		t.Errorf("a search takes %v s, a ladder %v", p.Seconds, plain.Seconds)
	}
}

// TestAPairwiseDesignComparesNothing: each of its cells changes several settings (METHOD 6).
func TestAPairwiseDesignComparesNothing(t *testing.T) {
	p, err := planned(t, head+"matrix: {design: pairwise, axes: {linger: [0s, 5ms], partitions: [1, 6], acks: ['1', all]}}\n")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, c := range p.Cells {
		if c.Role == store.Axis {
			n++
			if c.Against != 0 {
				t.Errorf("%s is compared with cell %d", c.Name, c.Against)
			}
		}
	}
	if p.Design != store.Pairwise || n < 4 {
		t.Errorf("design %q, %d combinations", p.Design, n)
	}
}

func TestExclusionsThatSayNothingAreRefused(t *testing.T) {
	const axes = "matrix: {design: %DESIGN%, axes: {linger: [0s, 5ms], partitions: [1, 6]}, exclude: [%EXCLUDE%]}\n"
	for _, c := range []struct{ design, exclude, want string }{
		{"full", "{linger: 5ms, partitions: 6}", ""},
		{"full", "{linger: 5ms}", ""},
		{"pairwise", "{linger: 5ms, partitions: 6}", ""},
		{"one-factor", "{linger: 5ms}", ""},
		{"one-factor", "{linger: 5ms, partitions: 6}", "s.yaml:5:"}, // changes one setting at a time
		{"full", "{linger: 7ms}", "exclude linger=7ms: no combination"},
		{"full", "{acks: '1', linger: 5ms}", "exclude acks=1 linger=5ms"},
		{"full", "{linger: 0s}, {linger: 5ms}", "exclude leaves no combination"},
	} {
		_, err := planned(t, head+strings.NewReplacer("%DESIGN%", c.design, "%EXCLUDE%", c.exclude).Replace(axes))
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s %s: %v", c.design, c.exclude, err)
		case c.want != "" && (err == nil || !errors.Is(err, suites.ErrSuite) || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s %s: %v, want %s", c.design, c.exclude, err, c.want)
		}
	}
}
