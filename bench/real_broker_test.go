package bench

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/tidemark/tidemark/bench/store"
	"github.com/tidemark/tidemark/broker/proc"
	"github.com/tidemark/tidemark/loadgen/workload"
)

// TestSmokeSuiteAgainstTheBroker runs real cells. How fast they were is nobody's promise, and on a busy host the
// generator convicts itself; that each run moved records, was verified and measured is.
func TestSmokeSuiteAgainstTheBroker(t *testing.T) {
	if testing.Short() {
		t.Skip("takes half a minute")
	}
	dir := filepath.Join(t.TempDir(), "out")
	summary, err := runBench(t, runOptions{out: dir, noProgress: true, bin: proc.Binary(t)}, "smoke")
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
		if r.Status == store.Invalid || r.Status == store.Broken {
			t.Errorf("%s: %s %v", name, r.Status, r.Reasons)
			continue
		}
		v := r.Result.Verification
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
}
