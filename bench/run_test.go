package bench

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tidemark/tidemark/bench/exit"
	"github.com/tidemark/tidemark/bench/store"
)

func runBench(t *testing.T, o runOptions, args ...string) (summary string, err error) {
	t.Helper()
	o.skipHost = t.Name() != "TestSuiteRunsToItsReport" && t.Name() != "TestAFailedCalibrationLeavesRunsInvalidAndComplete"
	var out, log bytes.Buffer
	err = run(context.Background(), args, o, &out, &log)
	if t.Failed() || testing.Verbose() {
		t.Logf("%s%s", &log, &out)
	}
	return out.String(), err
}

func exitOf(err error) int { return exit.Of(err) }

func TestSuiteRunsToItsReport(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "out")
	summary, err := runBench(t, runOptions{out: dir, noProgress: true}, "smoke")
	if err != nil && exitOf(err) != exitInvalid {
		t.Fatal(err)
	}
	d, err := store.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(d.Runs) != len(d.Plan.Runs) || d.Status.State != store.Finished || d.Status.RunsDone != len(d.Runs) {
		t.Errorf("%d of %d runs, status %+v", len(d.Runs), len(d.Plan.Runs), d.Status)
	}
	// A host that is too busy for a calibration makes every run of the session invalid, and says why; nothing else may.
	believed, status := true, store.OK
	if n := len(d.Status.Calibrations); n != 1 {
		t.Fatalf("%d calibrations", n)
	}
	if c := d.Status.Calibrations[0]; !c.OK {
		believed, status = false, store.Invalid
		t.Log(c.Line())
	}
	for _, r := range d.Runs {
		c := d.Cell(r.Cell)
		if r.Status != status || !believed && !slices.Contains(r.Reasons, d.Status.Calibrations[0].Line()) {
			t.Errorf("%s: %s %v", c.Name, r.Status, r.Reasons)
		}
		if c.Role == store.Ladder && math.Abs(r.Rate-d.Status.Capacity*c.LoadShare) > 1 {
			t.Errorf("%s ran at %.0f/s; the capacity found is %.0f/s", c.Name, r.Rate, d.Status.Capacity)
		}
		if r.Target.Process == nil || r.Result.Target == nil || r.Memory.Before.Free == 0 || len(r.Cores) == 0 {
			t.Errorf("%s: the target was not measured: %+v", c.Name, r.Target)
		}
		if _, err := os.Stat(filepath.Join(r.Dir, "cell.yaml")); err != nil {
			t.Error(err)
		}
	}
	if !strings.Contains(summary, "\n"+d.Status.Calibrations[0].Line()) {
		t.Errorf("the calibration is not told:\n%s", summary)
	}
	for _, r := range d.Runs {
		if r.Sink == nil || r.Sink.RecordsPerSec <= 0 {
			t.Errorf("%s: what the workload reaches against the sink is not there: %+v", d.Cell(r.Cell).Name, r.Sink)
		}
	}
	if len(d.Host.Ceilings) == 0 || d.Host.Fingerprint.Kernel == "" {
		t.Errorf("host %+v", d.Host)
	}
	lines := strings.Split(strings.TrimSpace(summary), "\n")
	if want := "report  " + filepath.Join(dir, "report.html"); lines[len(lines)-1] != want {
		t.Errorf("last line %q, want %q", lines[len(lines)-1], want)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "broker-data")); len(left) > 0 {
		t.Error("the broker's data was left behind")
	}
	noProcessOf(t, dir)
}

// TestAFailedCalibrationLeavesRunsInvalidAndComplete: what is not believed is measured and kept all the same, the ladder too.
func TestAFailedCalibrationLeavesRunsInvalidAndComplete(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "out")
	_, err := runBench(t, runOptions{out: dir, noProgress: true, env: []string{"FAKE_CALIBRATION=fails"}}, "smoke")
	if exitOf(err) != exitInvalid {
		t.Fatalf("%v, want exit %d", err, exitInvalid)
	}
	d, err := store.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(d.Runs) != len(d.Plan.Runs) || d.Status.State != store.Finished {
		t.Errorf("%d of %d runs, status %+v", len(d.Runs), len(d.Plan.Runs), d.Status)
	}
	for _, r := range d.Runs {
		c := d.Cell(r.Cell)
		if r.Status != store.Invalid || !slices.Contains(r.Reasons, d.Status.Calibrations[0].Line()) {
			t.Errorf("%s: %s %v", c.Name, r.Status, r.Reasons)
		}
		if c.Role == store.Ladder && math.Abs(r.Rate-d.Status.Capacity*c.LoadShare) > 1 {
			t.Errorf("%s ran at %.0f/s; the capacity found is %.0f/s", c.Name, r.Rate, d.Status.Capacity)
		}
	}
}

// noProcessOf fails when a process still has the folder in its arguments.
func noProcessOf(t *testing.T, dir string) {
	t.Helper()
	for _, pid := range processesOf(dir) {
		t.Errorf("process %d still runs", pid)
	}
}

func processesOf(dir string) (pids []int) {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, f := range files {
		b, _ := os.ReadFile(f)
		var pid int
		_, _ = fmt.Sscanf(f, "/proc/%d/", &pid)
		if bytes.Contains(b, []byte(dir)) && pid != os.Getpid() {
			pids = append(pids, pid)
		}
	}
	return pids
}

// hashes of every file of the finished repeats.
func hashes(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(filepath.Join(dir, "cells"), func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || strings.Contains(path, ".partial") {
			return err
		}
		b, err := os.ReadFile(path)
		sum := sha256.Sum256(b)
		out[path] = hex.EncodeToString(sum[:])
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// startBench starts the bench as a process of its own, with a load that hangs in the cell whose folder holds part, and
// returns when it does.
func startBench(t *testing.T, dir, part string) *exec.Cmd {
	t.Helper()
	mark := filepath.Join(t.TempDir(), "hanging")
	cmd := exec.Command(os.Args[0], "bench", "run", "smoke", "--out", dir, "--no-progress")
	cmd.Env = append(os.Environ(), "FAKE_LOAD=hang@"+part, "FAKE_HANGING="+mark)
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		for s := bufio.NewScanner(stderr); s.Scan(); {
			t.Log(s.Text())
		}
	}()
	eventually(t, "the load hangs", func() bool { _, err := os.Stat(mark); return err == nil })
	return cmd
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	ticks := time.NewTicker(20 * time.Millisecond)
	defer ticks.Stop()
	deadline := time.After(5 * time.Minute)
	for !ok() {
		select {
		case <-ticks.C:
		case <-deadline:
			t.Fatalf("not within five minutes: %s", what)
		}
	}
}

// TestResumeAfterKill pins METHOD 9: after kill -9 in the seventh run, the first six stay byte for byte.
func TestResumeAfterKill(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "out")
	first, err := runBench(t, runOptions{out: dir + "-order", noProgress: true}, "smoke")
	if err != nil {
		t.Fatal(err, first)
	}
	order, err := store.Load(dir + "-order")
	if err != nil {
		t.Fatal(err)
	}
	seventh := order.Runs[6]
	f, err := store.Open(dir + "-order")
	if err != nil {
		t.Fatal(err)
	}
	part, err := filepath.Rel(dir+"-order", f.RunDir(order.Cell(seventh.Cell), seventh.Repeat))
	if err != nil {
		t.Fatal(err)
	}

	cmd := startBench(t, dir, part)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	eventually(t, "broker and load died with the bench", func() bool { return len(processesOf(dir)) == 0 })
	before := hashes(t, dir)
	if len(before) == 0 {
		t.Fatal("nothing was written before the kill")
	}
	if _, err := runBench(t, runOptions{out: dir, resume: true, noProgress: true}); err != nil && !disbelieved(t, dir, err) {
		t.Fatal(err)
	}
	after := hashes(t, dir)
	for path, sum := range before {
		if after[path] != sum {
			t.Errorf("%s was changed by the resume", path)
		}
	}
	d, err := store.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(d.Runs) != len(d.Plan.Runs) || d.Status.State != store.Finished || d.Status.RunsDone != len(d.Plan.Runs) {
		t.Errorf("%d of %d runs, status %+v", len(d.Runs), len(d.Plan.Runs), d.Status)
	}
	noProcessOf(t, dir)
}

func TestInterruptKeepsWhatRanAndLeavesNothingRunning(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "out")
	cmd := startBench(t, dir, "linger")
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != exitFailure {
		t.Errorf("exit %d, want %d", code, exitFailure)
	}
	noProcessOf(t, dir)
	d, err := store.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	if d.Status.State != store.Interrupted || len(d.Runs) == 0 || len(d.Runs) == len(d.Plan.Runs) {
		t.Errorf("%d runs, status %+v", len(d.Runs), d.Status)
	}
	if _, err := runBench(t, runOptions{out: dir, resume: true, noProgress: true}, "smoke"); err != nil && !disbelieved(t, dir, err) {
		t.Error(err)
	}
}

// disbelieved tells that a bench ended as it must where the host was too busy for the calibration of one of its sessions:
// that session's runs are invalid, and no others are.
func disbelieved(t *testing.T, dir string, err error) bool {
	t.Helper()
	d, loadErr := store.Load(dir)
	if loadErr != nil {
		t.Fatal(loadErr)
	}
	var lines []string
	for i := range d.Status.Calibrations {
		if c := &d.Status.Calibrations[i]; !c.OK {
			lines = append(lines, c.Line())
		}
	}
	for _, r := range d.Runs {
		known := slices.ContainsFunc(lines, func(line string) bool { return slices.Contains(r.Reasons, line) })
		if r.Status != store.OK && (r.Status != store.Invalid || !known) {
			return false
		}
	}
	return exitOf(err) == exitInvalid && len(lines) > 0
}

func TestInvalidRunsAreCountedAndEndWithFour(t *testing.T) {
	for part, want := range map[string]store.RunStatus{"loses": store.Invalid, "breaks": store.Broken, "kills-broker": store.Invalid} {
		t.Run(part, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "out")
			o := runOptions{out: dir, noProgress: true, env: []string{"FAKE_LOAD=" + part + "@linger", "FAKE_BROKER_DIES=" + filepath.Join(t.TempDir(), "die")}}
			summary, err := runBench(t, o, "smoke")
			if exitOf(err) != exitInvalid {
				t.Errorf("error %v, want exit %d", err, exitInvalid)
			}
			if !strings.Contains(summary, "report  ") {
				t.Error("no report")
			}
			d, err := store.Load(dir)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range d.Runs {
				c := d.Cell(r.Cell)
				if hit := strings.Contains(c.Name, "linger"); hit && (r.Status != want || len(r.Reasons) == 0) || !hit && r.Status != store.OK {
					t.Errorf("%s: %s %v", c.Name, r.Status, r.Reasons)
				}
			}
			if len(d.Runs) != len(d.Plan.Runs) {
				t.Errorf("%d of %d runs", len(d.Runs), len(d.Plan.Runs))
			}
		})
	}
}

func TestRefusalsSayWhatToDo(t *testing.T) {
	dir := t.TempDir()
	full := filepath.Join(dir, "full")
	if err := os.MkdirAll(filepath.Join(full, "x"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		o    runOptions
		args []string
		want string
	}{
		{"no suite", runOptions{}, nil, "built in are"},
		{"unknown suite", runOptions{}, []string{"quik"}, `did you mean "quick"`},
		{"missing file", runOptions{}, []string{"no/such.yaml"}, "no such file"},
		{"folder in use", runOptions{out: full}, []string{"smoke"}, "not empty"},
		{"resume nothing", runOptions{out: full, resume: true}, nil, "no bench run here"},
		{"resume without folder", runOptions{resume: true}, nil, "--out"},
		{"far cluster", runOptions{bootstrap: "203.0.113.7:9092", out: filepath.Join(dir, "far")}, []string{"smoke"}, "--yes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := runBench(t, c.o, c.args...)
			if exitOf(err) != exitUsage || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want exit 2 and %q", err, c.want)
			}
		})
	}
	if _, err := os.Stat(filepath.Join(dir, "far")); err == nil {
		t.Error("a refused run left its folder")
	}
}

func TestGateCanPassFailAndRefuseToTell(t *testing.T) {
	base := filepath.Join(t.TempDir(), "a")
	if _, err := runBench(t, runOptions{out: base, noProgress: true}, "smoke"); err != nil {
		t.Fatal(err)
	}
	a, err := store.Load(base)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		change func(*store.Run)
		want   int
	}{
		{"nothing to compare", func(r *store.Run) { r.Status = store.Saturated }, exitInconclusive},
		{"data lost", func(r *store.Run) { r.Result.Verification.Lost = 1 }, exitRegression},
	} {
		t.Run(c.name, func(t *testing.T) {
			b, err := store.Load(base)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range b.Runs {
				c.change(r)
			}
			var out bytes.Buffer
			if code := exitOf(judge(&out, a, b, 0.05)); code != c.want {
				t.Errorf("exit %d, want %d\n%s", code, c.want, &out)
			}
		})
	}
}
