package proc

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// writes is a build whose result holds a text.
func writes(text string) func(string) error {
	return func(path string) error { return os.WriteFile(path, []byte(text), 0o755) }
}

func names(t *testing.T, s shelf) (all []string) {
	t.Helper()
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}

func TestProcessesThatBuildTheSameShareIt(t *testing.T) {
	s := shelf{filepath.Join(t.TempDir(), "shelf")}
	var wg sync.WaitGroup
	paths := make([]string, 8)
	for i := range paths {
		wg.Go(func() {
			var err error
			if paths[i], err = s.take(writes("one")); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for _, p := range paths {
		if text, err := os.ReadFile(p); p != paths[0] || err != nil || string(text) != "one" {
			t.Errorf("%q at %s, %v", text, p, err)
		}
	}
	if all := names(t, s); len(all) != 1 {
		t.Errorf("the shelf holds %q", all)
	}
}

func TestAFailedBuildLeavesNothing(t *testing.T) {
	s := shelf{t.TempDir()}
	failed := errors.New("no compiler")
	if _, err := s.take(func(path string) error { return errors.Join(writes("half")(path), failed) }); !errors.Is(err, failed) {
		t.Error(err)
	}
	if all := names(t, s); len(all) != 0 {
		t.Errorf("the shelf holds %q", all)
	}
}

// TestAShelfDoesNotGrow: what earlier processes have built and left goes, whatever state they were killed in; what another
// process still holds stays.
func TestAShelfDoesNotGrow(t *testing.T) {
	s := shelf{t.TempDir()}
	for i := range 9 {
		path := filepath.Join(s.dir, fmt.Sprintf("%sold-%d", shelfBinary, i))
		if err := writes("old")(path); err != nil {
			t.Fatal(err)
		}
		at := time.Now().Add(time.Duration(i-20) * time.Hour)
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
	}
	killed := filepath.Join(s.dir, shelfBuild+"killed")
	if err := errors.Join(os.Mkdir(killed, 0o755), writes("half")(filepath.Join(killed, "tidemark"))); err != nil {
		t.Fatal(err)
	}
	fd, err := lock(filepath.Join(s.dir, shelfBinary+"old-0"), unix.LOCK_SH)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	first, err := s.take(writes("new"))
	if err != nil {
		t.Fatal(err)
	}
	want := shelfBinary + "old-0 " + shelfBinary + "old-7 " + shelfBinary + "old-8"
	if all := strings.ReplaceAll(strings.Join(names(t, s), " "), filepath.Base(first)+" ", ""); all != want {
		t.Errorf("the shelf holds %q and the new one, want %q", all, want)
	}
	for i := range 5 { // this process holds its own
		if _, err := s.take(writes(fmt.Sprint(i))); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(first); err != nil {
		t.Error(err)
	}
}

func TestWhatIsTakenCanBeRun(t *testing.T) {
	s := shelf{t.TempDir()}
	path, err := s.take(writes("#!/bin/sh\necho here\n"))
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(path).CombinedOutput(); err != nil || string(out) != "here\n" {
		t.Errorf("%q, %v", out, err)
	}
}
