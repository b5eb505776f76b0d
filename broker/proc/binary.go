package proc

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
)

// TB is the part of testing.TB that Binary needs.
type TB interface {
	Helper()
	Fatal(args ...any)
}

// Binary returns the path of a tidemark binary for a test: TIDEMARK_BIN where that is set, as make does, else one that is
// built once for the test process, by GO or go, into .cache/test-bin of this module. Building needs only the Go tool; a
// failure ends the test. Either is built without the tag invariants and without -race.
func Binary(t TB) string {
	t.Helper()
	if bin := os.Getenv("TIDEMARK_BIN"); bin != "" {
		_, _ = os.Stat(bin) // go test takes a kept result for the same only while a file that was looked at is the same
		return bin
	}
	bin, err := buildOnce()
	if err != nil {
		t.Fatal(err)
	}
	return bin
}

// buildOnce holds the one build of a process: a table of one entry that is computed when it is first asked for.
var buildOnce = tableOfOne(build)

func tableOfOne(f func() (string, error)) func() (string, error) { return sync.OnceValues(f) }

func build() (string, error) {
	root, err := moduleRoot()
	if err != nil {
		return "", err
	}
	tool := os.Getenv("GO")
	if tool == "" {
		tool = "go"
	}
	var failed error
	compile := func(path string) error {
		cmd := exec.Command(tool, "build", "-o", path, ".")
		cmd.Dir = root
		if out, err := cmd.CombinedOutput(); err != nil {
			failed = fmt.Errorf("%s build: %w\n%s", tool, err, out)
		}
		return failed
	}
	bin, err := shelf{filepath.Join(root, ".cache", "test-bin")}.take(compile)
	if err == nil || failed != nil {
		return bin, err
	}
	dir, err := os.MkdirTemp("", "tidemark-bin-") // the tree cannot be written to, or has no hard links
	if err != nil {
		return "", err
	}
	bin = filepath.Join(dir, "tidemark")
	return bin, compile(bin)
}
