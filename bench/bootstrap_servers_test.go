package bench

import (
	"path/filepath"
	"testing"

	"github.com/tidemark/tidemark/bench/store"
	"github.com/tidemark/tidemark/bench/suites"
)

// TestBootstrapServersAreAList: commas part them, each is looked at, and the load process gets them all.
func TestBootstrapServersAreAList(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "out")
	one, two := listen(t), listen(t)
	if _, err := runBench(t, runOptions{out: dir, noProgress: true, bootstrap: one + ", " + two}, "smoke"); err != nil {
		t.Fatal(err)
	}
	d, err := store.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range d.Runs {
		if r.Status != store.OK || r.Target.Bootstrap != one+","+two {
			t.Errorf("%s: %s %v of %q", d.Cell(r.Cell).Name, r.Status, r.Reasons, r.Target.Bootstrap)
		}
	}
	for servers, want := range map[string]bool{
		"127.0.0.1:1": true, "localhost:1": true, "[::1]:1": true, "127.0.0.1:1,127.0.0.1:2": true, " 127.0.0.1:1 , localhost:2,": true,
		"127.0.0.1:1,broker.example:2": false, "broker.example:2,127.0.0.1:1": false, "127.0.0.1": false, ",": false, "203.0.113.7:1": false,
	} {
		if got := loopback(suites.Target{Bootstrap: servers}.Servers()); got != want {
			t.Errorf("%q on loopback: %v, want %v", servers, got, want)
		}
	}
	for _, servers := range []string{",", "127.0.0.1"} {
		out := filepath.Join(t.TempDir(), "out")
		if _, err := runBench(t, runOptions{out: out, yes: true, noProgress: true, bootstrap: servers}, "smoke"); exitOf(err) != exitFailure {
			t.Errorf("%q: %v, want exit %d", servers, err, exitFailure)
		}
	}
}
