package bench

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidemark/tidemark/bench/store"
	"github.com/tidemark/tidemark/bench/suites"
)

// TestAResumeKeepsToItsTarget: the runs of one cell are of one target, whatever the flags of a resume name. What is refused
// leaves the folder as it is, and the target that the plan names may be named again.
func TestAResumeKeepsToItsTarget(t *testing.T) {
	files := copies(t)
	dir := filepath.Join(t.TempDir(), "out")
	if _, err := runBench(t, runOptions{out: dir, noProgress: true, builds: files}, "smoke"); err != nil {
		t.Fatal(err)
	}
	d, err := store.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	last := d.Runs[len(d.Runs)-1]
	if err := os.RemoveAll(last.Dir); err != nil {
		t.Fatal(err)
	}
	refused := func(name, want string, o runOptions) {
		t.Helper()
		o.out, o.resume, o.noProgress = dir, true, true
		_, err := runBench(t, o)
		if exitOf(err) != exitUsage || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), dir) {
			t.Errorf("%s: %v, want exit 2, the folder and %q", name, err, want)
		}
		if _, err := os.Stat(last.Dir); err == nil {
			t.Errorf("%s: the run was made all the same", name)
		}
	}
	listening := listen(t)
	refused("another cluster", "was begun with the target embedded, and --bootstrap names "+listening, runOptions{bootstrap: listening})
	refused("a build less", "was begun with --build "+files[0]+" --build "+files[1]+" --build "+files[2], runOptions{builds: files[:2]})
	refused("another order", "leave --build out", runOptions{builds: []string{files[1], files[0], files[2]}})

	change := func(file, text string) (back func()) {
		t.Helper()
		before, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		write := func(b []byte) {
			t.Helper()
			if err := os.Remove(file); err != nil { // a program that runs cannot be written to
				t.Fatal(err)
			}
			if err := os.WriteFile(file, b, 0o700); err != nil {
				t.Fatal(err)
			}
		}
		write(append(before[:len(before):len(before)], text...))
		return func() { write(before) }
	}
	back := change(files[1], "another")
	refused("a build made anew", "--build "+files[1]+" has changed", runOptions{})
	back()
	back = change(filepath.Join(dir, "suite.yaml"), "broker: {num.io.threads: 3}\n")
	refused("another suite", "suite.yaml is not the one", runOptions{})
	back()

	if _, err := runBench(t, runOptions{out: dir, resume: true, noProgress: true, builds: files}); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(last.Dir); err != nil {
		t.Error(err)
	}
}

// TestAResumeOfAClusterGoesOnWithThatCluster by whatever name, and refuses a build of the embedded broker and other clusters.
func TestAResumeOfAClusterGoesOnWithThatCluster(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "out")
	cluster := listen(t)
	if _, err := runBench(t, runOptions{out: dir, noProgress: true, bootstrap: cluster}, "smoke"); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		o    runOptions
		want int
	}{
		{runOptions{}, 0},
		{runOptions{bootstrap: cluster}, 0},
		{runOptions{bootstrap: listen(t)}, exitUsage},
		{runOptions{builds: []string{"/proc/self/exe"}}, exitUsage},
	} {
		c.o.out, c.o.resume, c.o.noProgress = dir, true, true
		if _, err := runBench(t, c.o); exitOf(err) != c.want {
			t.Errorf("%+v: %v, want exit %d", c.o, err, c.want)
		}
	}
}

// TestConsentIsHandedOn: a cluster that is reached on loopback may have brokers that advertise other names, and the load
// process asks for consent to those. The command that goes on with an interrupted run holds it too.
func TestConsentIsHandedOn(t *testing.T) {
	for _, c := range []struct {
		target suites.Target
		yes    bool
		want   string
	}{
		{suites.Target{Bootstrap: "127.0.0.1:9092"}, true, "--yes"},
		{suites.Target{Bootstrap: "127.0.0.1:9092", Command: []string{"kafka"}}, true, "--yes"},
		{suites.Target{Bootstrap: "broker.example:9092"}, true, "--yes"},
		{suites.Target{Bootstrap: "127.0.0.1:9092"}, false, ""},
		{suites.Target{}, true, ""},
	} {
		r := &runner{options: runOptions{yes: c.yes}, suite: &suites.Suite{Target: c.target}}
		if got := strings.Join(r.loadArgs(), " "); got != c.want {
			t.Errorf("%+v, yes %v: the load process gets %q, want %q", c.target, c.yes, got, c.want)
		}
	}
	for want, o := range map[string]runOptions{
		"tidemark bench run --resume --out d":                                 {},
		"tidemark bench run --resume --out d --yes":                           {yes: true},
		"tidemark bench run --resume --out d --yes --pyroscope http://h:4040": {yes: true, pyroscope: "http://h:4040"},
		"tidemark bench run --resume --out d --command-config c.properties":   {commandConfig: "c.properties"},
	} {
		if got := goOn("d", o); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
