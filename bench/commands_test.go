package bench

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func output(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	for _, root := range Commands() {
		if root.Name() != args[0] {
			continue
		}
		root.SetArgs(args[1:])
		root.SetOut(&out)
		root.SetErr(&out)
		root.SilenceUsage, root.SilenceErrors = true, true
		err := root.Execute()
		return out.String(), err
	}
	t.Fatalf("no command %s", args[0])
	return "", nil
}

func TestPlanShowsCellsTimeBytesAndWhatItCanSee(t *testing.T) {
	out, err := output(t, "bench", "plan", "quick")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"24 cells  55 runs and 1 profiled  about ", "CPU of target and generator in every measured run but those of profile=off", "one repeat more of baseline, at the end, out of all statistics", "at most 8.0 GiB written", "linger=5ms", "90% of the capacity found", "2.5s or 512 MiB", "smallest change"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	t.Log(out)
	if small, err := output(t, "bench", "plan", "smoke"); err != nil || !strings.Contains(small, "cannot tell") {
		t.Errorf("a plan that can decide nothing must say so: %v\n%s", err, small)
	}
}

func TestHostPrintsFingerprintAndCeilings(t *testing.T) {
	if testing.Short() {
		t.Skip("measures for three seconds")
	}
	var out string
	var err error
	for range 3 { // on a busy host a calibration fails, and says so
		if out, err = output(t, "host", "--data", t.TempDir()); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(out, "calibration ok (") {
			break
		}
	}
	wants := []string{"kernel", "recv+crc32c+pwrite", "sendfile", "fsync", "timer", "calibration ok (", "truth", "repeat"}
	if strings.Contains(out, "calibration failed") {
		wants = wants[:5]
		t.Log(out)
	}
	for _, want := range wants {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if _, err := output(t, "host", "--data", "/no/such/folder"); exitOf(err) != exitUsage {
		t.Errorf("got %v", err)
	}
}

func TestWrongFlagsAndArgumentsAreUsageErrors(t *testing.T) {
	for _, args := range [][]string{
		{"bench", "plan"}, {"bench", "plan", "a", "b"}, {"bench", "run", "--sed", "7"}, {"bench", "compare", "one"},
		{"bench", "gate", "a", "b", "--max-regression", "-5"}, {"bench", "report", "/no/such/run"}, {"host", "extra"},
		{"bench", "profile", "/no/such/run"}, {"bench", "run", "smoke", "--pyroscope", "here"}, {"profiles", "receive"}, {"profiles", "diff", "a"},
		{"profiles", "diff", "/no/a", "/no/b"}, {"bench", "gat", "a", "b"}, {"bench", "verify", "/no/such/run"}, {"bench", "verify"},
		{"bench", "export", "/no/such/run", "--format", "csv"}, {"bench", "export", "x", "--format", "gobenh"}, {"bench", "export", "x", "--format", "omb"},
		{"bench", "run", "smoke", "--web", "0.0.0.0:0"}, {"bench", "gate", "a", "b", "--release", "/no/such/run"}, {"profiles", "diff", "/tmp", "/tmp", "--kind", "cpuu"},
	} {
		if _, err := output(t, args...); exitOf(err) != exitUsage {
			t.Errorf("%v: %v (exit %d)", args, err, exitOf(err))
		}
	}
}

// TestGateWords: identical runs never fail, and what cannot be told never passes.
func TestGateWords(t *testing.T) {
	const quick = "../results/quick"
	out, err := output(t, "bench", "gate", quick, quick, "--release", quick)
	if exitOf(err) != exitInconclusive || strings.Count(out, "CANNOT TELL ") != 2 || !strings.Contains(out, "allowed") || !strings.Contains(out, "calls per record") {
		t.Errorf("exit %d\n%s", exitOf(err), out)
	}
	if out, err = output(t, "bench", "gate", quick, quick, "--max-regression", "60%"); err != nil && exitOf(err) != exitInconclusive || strings.Contains(out, "FAIL") {
		t.Errorf("exit %d\n%s", exitOf(err), out)
	}
	if out, err = output(t, "bench", "compare", quick, quick); err != nil || !strings.Contains(out, "0 stand (") {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err = output(t, "bench", "verify", quick); err != nil || !strings.Contains(out, "HOLDS ") || !strings.Contains(out, "not checked: ") {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err = output(t, "bench", "schema"); err != nil || !strings.Contains(out, "result.json") || !strings.Contains(out, "percentiles") {
		t.Errorf("%v\n%s", err, out)
	}
	if _, err = output(t, "bench", "profile", quick, quick); err != nil && exitOf(err) != exitInconclusive {
		t.Errorf("%v", err)
	}
}

// refusing is an address that nobody listens on, and nobody else gets while the test runs.
func refusing(t *testing.T) string {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Close(fd) })
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	at, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("127.0.0.1:%d", at.(*syscall.SockaddrInet4).Port)
}

// TestAnUnreachableTargetLeavesNothing: one line, exit 5, no folder.
func TestAnUnreachableTargetLeavesNothing(t *testing.T) {
	addr := refusing(t)
	dir := filepath.Join(t.TempDir(), "run")
	_, err := output(t, "bench", "run", "smoke", "--bootstrap", addr, "--out", dir)
	if exitOf(err) != exitFailure || !strings.Contains(err.Error(), addr) || strings.Contains(err.Error(), "\n") {
		t.Errorf("exit %d: %v", exitOf(err), err)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("the folder: %v", err)
	}
}
