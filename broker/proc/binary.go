package proc

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// TB is the part of testing.TB that Binary needs.
type TB interface {
	Helper()
	Fatal(args ...any)
}

// Binary returns the path of a tidemark binary for a test: TIDEMARK_BIN where that is set, else one that is built once
// for the test process. Building needs only the Go tool; a failure ends the test.
func Binary(t TB) string {
	t.Helper()
	if bin := os.Getenv("TIDEMARK_BIN"); bin != "" {
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
	removeOld()
	dir, err := os.MkdirTemp("", binPrefix+"*")
	if err != nil {
		return "", err
	}
	bin := filepath.Join(dir, "tidemark")
	cmd := exec.Command("go", "build", "-o", bin, ".")
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return bin, nil
}

// binPrefix begins the names of the folders that build makes.
const binPrefix = "tidemark-bin-"

// removeOld removes what test processes of earlier days have built: a test process has no end of its own at which it
// could remove its binary, for children may still run it.
func removeOld() {
	entries, err := os.ReadDir(os.TempDir())
	if err != nil {
		return
	}
	for _, e := range entries {
		info, err := e.Info()
		if err == nil && e.IsDir() && strings.HasPrefix(e.Name(), binPrefix) && time.Since(info.ModTime()) > 12*time.Hour {
			_ = os.RemoveAll(filepath.Join(os.TempDir(), e.Name()))
		}
	}
}
