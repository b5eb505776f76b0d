package bench

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidemark/tidemark/bench/store"
)

// TestNamesInAFolderCannotMoveTheCursor: a folder of results may come from anybody, and what is in it is text.
func TestNamesInAFolderCannotMoveTheCursor(t *testing.T) {
	const hostile = "a\x1b[2Jb\rc\u202ed\u0085e"
	folder := func() string {
		dir := filepath.Join(t.TempDir(), "out")
		if _, err := runBench(t, runOptions{out: dir, noProgress: true}, "smoke"); err != nil {
			t.Fatal(err)
		}
		d, err := store.Load(dir)
		if err != nil {
			t.Fatal(err)
		}
		f, err := store.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		d.Plan.Suite, d.Plan.Command, d.Status.Notes = hostile, []string{hostile}, []string{hostile}
		for i := range d.Plan.Cells { // of the settings and not of the name: that names the folder
			d.Plan.Cells[i].Settings = append(d.Plan.Cells[i].Settings, store.Setting{Axis: hostile, Value: hostile})
		}
		if err := f.WritePlan(&d.Plan); err != nil {
			t.Fatal(err)
		}
		if err := f.WriteStatus(&d.Status); err != nil {
			t.Fatal(err)
		}
		for _, r := range d.Runs {
			text, err := os.ReadFile(filepath.Join(r.Dir, "run.json"))
			if err != nil {
				t.Fatal(err)
			}
			text = bytes.Replace(text, []byte(`"marks": []`), []byte(`"marks": ["a\u001b[2Jb"]`), 1)
			if err := os.WriteFile(filepath.Join(r.Dir, "run.json"), text, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		return dir
	}
	a, b := folder(), folder()
	for _, args := range [][]string{{"bench", "report", a}, {"bench", "compare", a, b}, {"bench", "gate", a, b}, {"bench", "verify", a}, {"bench", "export", a, "--format", "csv"}} {
		out, err := output(t, args...)
		for _, r := range []string{"\x1b", "\r", "\u202e", "\u0085"} {
			if strings.Contains(out, r) {
				t.Errorf("%v prints %q: %v\n%q", args, r, err, out)
			}
		}
	}
}

// TestOneRunOnBothSidesNeverPasses, and says so.
func TestOneRunOnBothSidesNeverPasses(t *testing.T) {
	const quick = "../results/quick"
	out, err := output(t, "bench", "gate", quick, quick, "--max-regression", "90%")
	if exitOf(err) != exitInconclusive || !strings.Contains(out, "note: both sides are one run, bench-") || strings.Contains(out, "PASS") {
		t.Errorf("exit %d\n%s", exitOf(err), out)
	}
}
