package suites_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/tidemark/tidemark/bench/suites"
)

// TestDesignsThatMeasureNothingAreRefused: each of these once ran, and compared a cell without a name with itself, or more
// cells than a week has minutes.
func TestDesignsThatMeasureNothingAreRefused(t *testing.T) {
	const head = "name: x\nrate: 100\nwindow: 1s\n"
	many := strings.TrimSuffix(strings.Repeat("1, ", 300), ", ")
	for i := range 300 {
		many = strings.Replace(many, "1, ", fmt.Sprintf("%d, ", i+2), 1)
	}
	for _, c := range []struct{ name, text, want string }{
		{"full without axes", head + "matrix: {design: full}\n", "s.yaml:1:5: the matrix has no axes"},
		{"pairwise without axes", head + "matrix: {design: pairwise}\n", "the matrix has no axes"},
		{"exclude without axes", head + "matrix: {exclude: [{acks: all}]}\n", "the matrix has no axes"},
		{"an axis without a value", head + "matrix: {axes: {linger: []}}\n", "axis linger has no value"},
		{"a pair of one", head + "matrix: {design: pairwise, axes: {linger: [0s, 5ms]}}\n", "needs two axes or more, the matrix has 1"},
		{"primary of a pairwise design", head + "primary: [acks=1]\nmatrix: {design: pairwise, axes: {linger: [0s, 5ms], acks: ['1', all]}}\n", "finds cliffs and compares nothing"},
		{"an empty exclusion", head + "matrix: {axes: {linger: [0s]}, exclude: [{}]}\n", "exclude names no setting"},
		{"a capacity cell of nothing", head + "capacity: {cells: [{}]}\n", "changes nothing"},
		{"too many", head + "matrix: {design: full, axes: {partitions: [" + many + "], producers: [" + many + "]}}\n", "too large"},
		{"too many pairs", head + "matrix: {design: pairwise, axes: {partitions: [" + many + "], producers: [" + many + "]}}\n", "too large"},
		{"a search without an objective", head + "probes: {repeats: 1}\nladder: {search: true, shares: [20%, 40%, 60%, 80%]}\n", "set slo"},
		{"a search with repeats", head + "slo: 10ms\nprobes: {repeats: 1}\nladder: {search: true, repeats: 3, shares: [20%, 40%, 60%, 80%]}\n", "leave repeats out"},
		{"a short search", head + "slo: 10ms\nprobes: {repeats: 1}\nladder: {search: true, shares: [50%, 100%]}\n", "at least 4 shares"},
		{"a search of nothing", head + "slo: 10ms\nladder: {search: true, shares: [20%, 40%, 60%, 80%]}\n", "set probes"},
		{"perhaps a search", head + "ladder: {search: perhaps}\n", "search must be true or false"},
		{"units that do not fit", head + "max-bytes: 5ms\n", "max-bytes"},
		{"time in bytes", head + "warm-up: 5MiB\n", "warm-up"},
		{"a rate with a unit", "name: x\nrate: 5k\nwindow: 1s\n", "rate must be a number"},
		{"not a number", "name: x\nrate: .nan\nwindow: 1s\n", "rate must be a number"},
		{"no time", "name: x\nrate: 100\n", "set window"},
		{"no name", "rate: 100\nwindow: 1s\n", "no name"},
		{"misplaced", head + "linger: 5ms\n", `unknown field "linger" in the suite`},
		{"misplaced below", head + "baseline: {linger: 5ms}\n", `unknown field "linger" in baseline`},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := suites.Parse("s.yaml", []byte(c.text))
			if err == nil {
				t.Fatal("accepted")
			}
			if !errors.Is(err, suites.ErrSuite) || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("got  %v\nwant %s", err, c.want)
			}
		})
	}
	for name, text := range map[string]string{
		"a search":        head + "slo: 10ms\nprobes: {repeats: 1}\nladder: {search: true, shares: [20%, 40%, 60%, 80%, 120%]}\n",
		"a ladder":        head + "probes: {repeats: 1}\nladder: {shares: [20%]}\n",
		"without axes":    head,
		"a pairwise plan": head + "matrix: {design: pairwise, axes: {linger: [0s, 5ms], partitions: [1, 6]}}\n",
	} {
		s, err := suites.Parse("s.yaml", []byte(text))
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if want := 2; !s.Ladder.Search && s.Ladder.Repeats != want {
			t.Errorf("%s: %d repeats of the ladder, want %d", name, s.Ladder.Repeats, want)
		}
	}
}
