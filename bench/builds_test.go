package bench

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidemark/tidemark/bench/store"
)

// copies makes three files of the program that stands for the broker here, each with an ending of its own.
func copies(t *testing.T) (files []string) {
	t.Helper()
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"one", "two", "three"} {
		file := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(file, append(self, name...), 0o700); err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	return files
}

// TestRepeatsRunTheBuildsInTurns: each cell's repeats go through all of them, a resume too, and results say which it was.
func TestRepeatsRunTheBuildsInTurns(t *testing.T) {
	files := copies(t)
	dir := filepath.Join(t.TempDir(), "out")
	if _, err := runBench(t, runOptions{out: dir, noProgress: true, builds: files}, "smoke"); err != nil {
		t.Fatal(err)
	}
	check := func() {
		t.Helper()
		d, err := store.Load(dir)
		if err != nil {
			t.Fatal(err)
		}
		if len(d.Runs) != len(d.Plan.Runs) {
			t.Errorf("%d of %d runs", len(d.Runs), len(d.Plan.Runs))
		}
		for _, r := range d.Runs {
			if want := hashOf(files[(r.Repeat-1)%3]); r.Target.Build != want || len(want) != 12 {
				t.Errorf("%s, repeat %d: build %q, want %q", d.Cell(r.Cell).Name, r.Repeat, r.Target.Build, want)
			}
		}
		if !strings.Contains(strings.Join(d.Plan.Command, " "), "--build "+files[2]) {
			t.Errorf("%v does not repeat the run", d.Plan.Command)
		}
	}
	check()
	d, err := store.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range d.Runs[len(d.Runs)-3:] {
		if err := os.RemoveAll(r.Dir); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := runBench(t, runOptions{out: dir, resume: true, noProgress: true}); err != nil {
		t.Fatal(err)
	}
	check()
	noProcessOf(t, dir)
}

func TestBuildsThatCannotBeRunAreRefused(t *testing.T) {
	text := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(text, []byte("no program"), 0o600); err != nil {
		t.Fatal(err)
	}
	self := "/proc/self/exe"
	for want, args := range map[string][]string{
		"no such file":   {"--build", "/no/such/binary"},
		"is no program":  {"--build", text},
		"given twice":    {"--build", self, "--build", self},
		"target is none": {"--build", self, "--bootstrap", "127.0.0.1:1"},
	} {
		dir := filepath.Join(t.TempDir(), "out")
		if _, err := output(t, append([]string{"bench", "run", "smoke", "--out", dir}, args...)...); exitOf(err) != exitUsage || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %s", args, err, want)
		}
		if _, err := os.Stat(dir); !os.IsNotExist(err) {
			t.Errorf("%v leaves a folder", args)
		}
	}
}
