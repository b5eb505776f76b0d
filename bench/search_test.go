package bench

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidemark/tidemark/bench/stats"
	"github.com/tidemark/tidemark/bench/store"
)

// searchSuite is a suite whose ladder is a search; the load process of these tests makes the same latencies up at any rate.
func searchSuite(t *testing.T, objective string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "search.yaml")
	text := "name: search\nseed: 5\nrate: 1000\nmax-bytes: 1GiB\nwarm-up: 100ms\nwindow: 500ms\nslo: " + objective + `
baseline: {repeats: 1, set: {groups: [1]}}
probes: {repeats: 1, window: 500ms, max-bytes: 16MiB}
ladder: {search: true, shares: [20%, 40%, 60%, 80%, 100%, 120%]}
`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func searched(t *testing.T, dir string) (*store.Data, map[string]int) {
	t.Helper()
	d, err := store.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	runs := map[string]int{}
	for _, r := range d.Runs {
		if c := d.Cell(r.Cell); c.Searched {
			runs[c.Name]++
		}
	}
	if d.Planned() != len(d.Runs) || d.Status.RunsDone != len(d.Runs) || d.Status.RunsPlanned != len(d.Runs) {
		t.Errorf("%d runs, %d planned, status %+v", len(d.Runs), d.Planned(), d.Status)
	}
	return d, runs
}

// TestASearchClimbsUntilItBrokeTwice: no rate meets an objective of 1 µs. Two rungs show it, and three fresh runs of each rate
// that then matters.
func TestASearchClimbsUntilItBrokeTwice(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "out")
	summary, err := runBench(t, runOptions{out: dir, noProgress: true}, searchSuite(t, "1us"))
	if err != nil {
		t.Fatal(err)
	}
	d, runs := searched(t, dir)
	var order []string
	for _, r := range d.Runs {
		if c := d.Cell(r.Cell); c.Searched {
			order = append(order, c.Name)
		}
	}
	if order[0] != "load 20%" || order[1] != "load 40%" || runs["load 20%"] != 1+3 || runs["load 40%"] != 1+3 || runs["load 60%"] != 3 || runs["load 120%"] != 0 {
		t.Errorf("%v in the order %v", runs, order)
	}
	for _, want := range []string{"capacity with p99 within 0.001 ms: not found, no rate passed three of three runs", notNeeded} {
		if !strings.Contains(summary, want) {
			t.Errorf("no %q in\n%s", want, summary)
		}
	}
}

// TestASearchGoesUpToItsLastRung where every rate meets the objective, and says that it found no failure.
func TestASearchGoesUpToItsLastRung(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "out")
	suite := searchSuite(t, "10s")
	summary, err := runBench(t, runOptions{out: dir, noProgress: true}, suite)
	if err != nil {
		t.Fatal(err)
	}
	d, runs := searched(t, dir)
	if runs["load 20%"] != 1 || runs["load 120%"] != stats.SearchRuns {
		t.Errorf("%v", runs)
	}
	if !strings.Contains(summary, "not found, no rate failed three of three runs") {
		t.Errorf("%s", summary)
	}
	// A resume finds everything there and goes the same way without a run.
	before := len(d.Runs)
	if _, err := runBench(t, runOptions{out: dir, resume: true, noProgress: true}); err != nil {
		t.Fatal(err)
	}
	if d, _ := searched(t, dir); len(d.Runs) != before {
		t.Errorf("a resume made %d runs more", len(d.Runs)-before)
	}
}

// TestASearchThatWasKilledGoesOnTheSameWay: the folder of a search of which the last runs are gone ends as the whole one did.
func TestASearchThatWasKilledGoesOnTheSameWay(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "out")
	if _, err := runBench(t, runOptions{out: dir, noProgress: true}, searchSuite(t, "1us")); err != nil {
		t.Fatal(err)
	}
	whole, runs := searched(t, dir)
	for _, r := range whole.Runs[len(whole.Runs)-5:] {
		if err := os.RemoveAll(r.Dir); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := runBench(t, runOptions{out: dir, resume: true, noProgress: true}); err != nil {
		t.Fatal(err)
	}
	again, more := searched(t, dir)
	for name, n := range runs {
		if more[name] != n {
			t.Errorf("%s ran %d times after the resume, %d before", name, more[name], n)
		}
	}
	for i, r := range again.Runs {
		if w := whole.Runs[i]; r.Cell != w.Cell || r.Repeat != w.Repeat || r.Seed != w.Seed || r.Order != w.Order {
			t.Errorf("run %d is %s of repeat %d, place %d; it was %s of %d, place %d", i, again.Cell(r.Cell).Name, r.Repeat, r.Order, whole.Cell(w.Cell).Name, w.Repeat, w.Order)
		}
	}
}
