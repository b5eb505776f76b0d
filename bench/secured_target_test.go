package bench

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidemark/tidemark/bench/store"
)

// TestASecuredClusterIsReachedAndNothingOfItKept: every load process gets the file, no file of the run has a value of it, and
// who resumes names it again.
func TestASecuredClusterIsReachedAndNothingOfItKept(t *testing.T) {
	home := t.TempDir()
	file, wrong := filepath.Join(home, "client.properties"), filepath.Join(home, "wrong.properties")
	for name, text := range map[string]string{file: "sasl.jaas.config=s3cret\n", wrong: "sasl.jaas.config=wrong\n"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	dir, addr := filepath.Join(t.TempDir(), "out"), listen(t)
	for _, c := range []struct {
		o    runOptions
		want int
		says string
	}{
		{runOptions{commandConfig: file}, exitUsage, "embedded"},
		{runOptions{commandConfig: wrong, bootstrap: addr}, exitFailure, "SASL authentication failed"},
		{runOptions{commandConfig: file + "s", bootstrap: addr}, exitFailure, "no such file"},
	} {
		c.o.out, c.o.noProgress = dir, true
		if _, err := runBench(t, c.o, "smoke"); exitOf(err) != c.want || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%+v: exit %d, %v", c.o, exitOf(err), err)
		}
		if _, err := os.Stat(dir); err == nil {
			t.Fatal("a folder was made")
		}
	}
	if _, err := runBench(t, runOptions{out: dir, noProgress: true, bootstrap: addr, commandConfig: file}, "smoke"); err != nil {
		t.Fatal(err)
	}
	d, err := store.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(d.Plan.Command, " "); !strings.HasSuffix(got, "--command-config client.properties") {
		t.Error(got)
	}
	secured := 0
	err = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		if e.Name() == "secured" {
			secured++
		}
		text, err := os.ReadFile(path)
		if bytes.Contains(text, []byte("s3cret")) {
			t.Errorf("%s has the password", path)
		}
		return err
	})
	if err != nil || secured != len(d.Runs)+len(d.Profiled) {
		t.Errorf("%d of %d runs were given the file, %v", secured, len(d.Runs), err)
	}
	if _, err := runBench(t, runOptions{out: dir, noProgress: true, resume: true}); exitOf(err) != exitUsage || !strings.Contains(err.Error(), "name the file again") {
		t.Errorf("resumed without it: %v", err)
	}
	if _, err := runBench(t, runOptions{out: dir, noProgress: true, resume: true, commandConfig: file}); err != nil {
		t.Errorf("resumed with it: %v", err)
	}
}
