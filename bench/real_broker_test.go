package bench

import (
	"bytes"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tidemark/tidemark/bench/store"
	"github.com/tidemark/tidemark/broker/proc"
	"github.com/tidemark/tidemark/loadgen/workload"
	"github.com/tidemark/tidemark/profiles"
)

// TestSmokeSuiteAgainstTheBroker runs real cells. How fast they were is nobody's promise, and on a busy host the
// generator convicts itself; that each run moved records, was verified and measured is.
func TestSmokeSuiteAgainstTheBroker(t *testing.T) {
	if testing.Short() {
		t.Skip("takes half a minute")
	}
	dir, got := filepath.Join(t.TempDir(), "out"), t.TempDir()
	receiver, err := profiles.NewReceiver(got)
	if err != nil {
		t.Fatal(err)
	}
	pyroscope := httptest.NewServer(receiver)
	defer pyroscope.Close()
	summary, err := runBench(t, runOptions{out: dir, noProgress: true, bin: proc.Binary(t), pyroscope: pyroscope.URL}, "smoke")
	if code := exitOf(err); code != 0 && code != exitInvalid {
		t.Fatal(err)
	}
	d, err := store.Load(dir)
	if err != nil {
		t.Fatal(err, summary)
	}
	if len(d.Runs) != len(d.Plan.Runs) {
		t.Errorf("%d of %d runs", len(d.Runs), len(d.Plan.Runs))
	}
	for _, r := range d.Runs {
		name := d.Cell(r.Cell).Name
		passed := slices.ContainsFunc(r.Reasons, func(why string) bool { // half a second is short on a busy host
			return strings.HasPrefix(why, "not one record of the window was ")
		})
		if r.Status == store.Invalid && !passed || r.Status == store.Broken {
			t.Errorf("%s: %s %v", name, r.Status, r.Reasons)
			continue
		}
		v := r.Result.Verification
		if passed && v.On && v.Clean() {
			t.Logf("%s: %v", name, r.Reasons)
			continue
		}
		if !v.On || !v.Clean() || v.Acked == 0 {
			t.Errorf("%s: verification %+v", name, v)
		}
		if p := r.Target.Process; p == nil || p.CPUNanos <= 0 || p.RSSBytes <= 0 || p.Seconds <= 0 {
			t.Errorf("%s: the broker was not measured: %+v", name, p)
		}
		if asked := r.Result.Asked; asked.Question == workload.Latency && asked.Rate != r.Rate {
			t.Errorf("%s: asked for %v records/s, the load ran at %v", name, r.Rate, asked.Rate)
		}
	}
	for _, name := range []string{"report.html", "report.md", "host.json"} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
	noProcessOf(t, dir)
	checkProfiles(t, d, received(t, got))
}

// TestProfilesOfATargetByItsAdminAddress: a cluster that runs already is profiled where the suite names its HTTP side, and
// one that is not there is said once.
func TestProfilesOfATargetByItsAdminAddress(t *testing.T) {
	b, err := proc.Start(t.Context(), proc.Options{Bin: proc.Binary(t), Data: t.TempDir(), Properties: []string{"group.initial.rebalance.delay.ms=0"}})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Kill()
	for _, c := range []struct {
		admin string
		want  []string
		notes int
	}{
		{b.Admin, []string{"broker.cpu.pprof", "load.cpu.pprof"}, 0},
		{"127.0.0.1:1", []string{"load.cpu.pprof"}, 2},
	} {
		suite := filepath.Join(t.TempDir(), "mine.yaml")
		text := "name: mine\nrate: 500\nwindow: 500ms\nwarm-up: 100ms\ntarget: {bootstrap: " + b.Addr + ", admin: " + c.admin + "}\nbaseline: {repeats: 3}\nprofiles: {extra: none}\n"
		if err := os.WriteFile(suite, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		dir := filepath.Join(t.TempDir(), "out")
		if _, err := runBench(t, runOptions{out: dir, noProgress: true, bin: proc.Binary(t)}, suite); exitOf(err) != 0 && exitOf(err) != exitInvalid {
			t.Fatal(err)
		}
		d, err := store.Load(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range d.Runs {
			if !slices.Equal(r.Profiles, c.want) || r.Status == store.Invalid {
				t.Errorf("admin %s: run %d keeps %q, %s %v", c.admin, r.Repeat, r.Profiles, r.Status, r.Reasons)
			}
		}
		notes := slices.DeleteFunc(slices.Clone(d.Status.Notes), func(n string) bool { return !strings.Contains(n, "profile") })
		if len(notes) != c.notes {
			t.Errorf("admin %s: notes %q", c.admin, notes)
		}
	}
}

// checkProfiles: the kept profiles are real ones of both processes, and what arrived at the receiver are their bytes.
func checkProfiles(t *testing.T, d *store.Data, arrived map[string][]profiles.Received) {
	t.Helper()
	if n, want := checkPushed(t, d, arrived), 2*len(d.Runs)+6; n != want || len(d.Profiled) != 1 {
		t.Errorf("%d profiles, want %d; %d profiled runs; notes %q", n, want, len(d.Profiled), d.Status.Notes)
	}
	for process, part := range map[string]string{"broker": "tidemark/broker/internal/", "load": "tidemark/loadgen"} {
		var files []string
		for _, r := range d.Runs {
			files = append(files, filepath.Join(r.Dir, "profiles", profiles.Name(process, profiles.CPU)))
		}
		merged, n, err := mergeFiles(files)
		if err != nil || n != len(d.Runs) {
			t.Errorf("%d CPU profiles of %s: %v", n, process, err)
			continue
		}
		funcs, _ := profiles.Top(merged)
		if !slices.ContainsFunc(funcs, func(f profiles.Func) bool { return strings.Contains(f.Name, part) }) {
			t.Errorf("the CPU profile of %s knows no function of %s", process, part)
		}
	}
	for _, k := range profiledKinds() {
		var out bytes.Buffer
		if err := printProfiles(&out, d, d.Cell(d.Profiled[0].Cell), k, 3); err != nil || !strings.Contains(out.String(), "of the target") || !strings.Contains(out.String(), "of the generator") {
			t.Errorf("%s: %v\n%s", k, err, &out)
		}
	}
}
