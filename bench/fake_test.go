package bench

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tidemark/tidemark/bench/calibrate"
	"github.com/tidemark/tidemark/bench/exit"
	"github.com/tidemark/tidemark/core/clock"
	"github.com/tidemark/tidemark/loadgen"
	"github.com/tidemark/tidemark/loadgen/result"
	"github.com/tidemark/tidemark/loadgen/workload"
	"github.com/tidemark/tidemark/profiles"
)

// TestMain lets this test binary stand for the program that a bench starts: `<binary> broker ...` is a broker that
// serves nothing, `<binary> load ...` a load that measures nothing and makes its numbers up from the workload, and
// `<binary> bench ...` the bench itself, for tests that kill it.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "broker":
			os.Exit(fakeBroker())
		case "load":
			os.Exit(fakeLoad(os.Args[2:]))
		case "bench":
			os.Exit(benchMain(os.Args[1:]))
		}
	}
	os.Exit(m.Run())
}

func benchMain(args []string) int {
	root := Commands()[0]
	root.SilenceUsage, root.SilenceErrors = true, true
	root.SetArgs(args[1:])
	if err := root.Execute(); err != nil {
		fmt.Fprintln(os.Stderr, "tidemark:", err)
		return exit.Of(err)
	}
	return 0
}

// fakeBroker is ready at once and ends at SIGTERM, or when the file named by FAKE_BROKER_DIES appears. It leaves its number
// in another one then, so that it can be seen to be gone.
func fakeBroker() int {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM)
	fmt.Fprintln(os.Stderr, "admin http://127.0.0.1:1")
	fmt.Println("ready 127.0.0.1:1 node=1 cluster=fake")
	ticks := time.NewTicker(5 * time.Millisecond)
	for {
		select {
		case <-signals:
			return 0
		case <-ticks.C:
			if name := os.Getenv("FAKE_BROKER_DIES"); name != "" {
				if _, err := os.Stat(name); err == nil {
					_ = os.WriteFile(name+".pid", fmt.Append(nil, os.Getpid()), 0o644)
					_ = os.Remove(name)
					return 7
				}
			}
		}
	}
}

func argument(args []string, name string) string {
	for i, a := range args {
		if a == name && i+1 < len(args) {
			return args[i+1]
		}
	}
	return ""
}

// fakeLoad does what FAKE_LOAD says, as PART@TEXT for the runs whose folder holds TEXT, and else succeeds.
func fakeLoad(args []string) int {
	out := argument(args, "--out")
	text, err := os.ReadFile(argument(args, "--workload"))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	spec, err := workload.Parse("cell.yaml", text)
	if err == nil {
		err = spec.Validate()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	if spec.Topic == calibrate.Topic { // what calibrates the load process is not made up
		if os.Getenv("FAKE_CALIBRATION") == "fails" {
			return 5
		}
		cmd := loadgen.Commands()[0]
		cmd.SetArgs(args)
		return loadgen.ExitCode(cmd.Execute())
	}
	if err := fakeAccess(argument(args, "--command-config"), out); err != nil {
		fmt.Fprintln(os.Stderr, "tidemark:", err)
		return 5
	}
	if slices.Contains(args, "--check-only") {
		return 0
	}
	part, where, _ := strings.Cut(os.Getenv("FAKE_LOAD"), "@")
	if !strings.Contains(out, where) {
		part = ""
	}
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, os.Interrupt)
	if part == "hang" {
		if mark := os.Getenv("FAKE_HANGING"); mark != "" {
			_ = os.WriteFile(mark, fmt.Append(nil, os.Getpid()), 0o644)
		}
		<-interrupted
		return 0
	}
	if part == "breaks" {
		fmt.Fprintln(os.Stderr, "cannot reach the cluster")
		return 5
	}
	start := clock.Nanos()
	clock.SleepUntil(start + 30e6)
	if part == "kills-broker" {
		killBroker(os.Getenv("FAKE_BROKER_DIES"))
	}
	r := fakeResult(spec, start)
	if part == "loses" {
		r.Verification.Lost = 3
		r.Add(result.Verdict{Kind: result.Invalid, Reason: "3 acknowledged records were lost"})
	}
	if err := fakeProfiles(r, out, argument(args, "--profile")); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 5
	}
	if err := r.Write(out); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 5
	}
	if err := os.WriteFile(filepath.Join(out, "ack.hlog"), text, 0o644); err != nil {
		return 5
	}
	if !r.Valid {
		return 4
	}
	return 0
}

// fakeAccess refuses a client.properties that has "wrong" in it, and leaves a mark in the folder of a run that was given one.
func fakeAccess(file, out string) error {
	if file == "" {
		return nil
	}
	text, err := os.ReadFile(file)
	if err == nil && strings.Contains(string(text), "wrong") {
		err = errors.New("reach the cluster: SASL authentication failed")
	}
	if err != nil || out == "" {
		return err
	}
	return os.WriteFile(filepath.Join(out, "secured"), nil, 0o644)
}

// killBroker ends the broker and waits until the bench, its parent, has seen that it is gone.
func killBroker(name string) {
	_ = os.WriteFile(name, nil, 0o644)
	tick := func() { clock.SleepUntil(clock.Nanos() + 5e6) }
	for _, err := os.Stat(name); err == nil; _, err = os.Stat(name) {
		tick()
	}
	pid := 0
	if b, err := os.ReadFile(name + ".pid"); err == nil {
		_, _ = fmt.Sscan(string(b), &pid)
	}
	for pid > 0 && syscall.Kill(pid, 0) == nil { // a process that nobody has waited for is still there
		tick()
	}
	clock.SleepUntil(clock.Nanos() + 100e6)
}

// fakeProfiles keeps profiles of this process, for both that a run has; a heap profile stands for the CPU's.
func fakeProfiles(r *result.Result, dir, kinds string) error {
	if kinds == "" {
		return nil
	}
	end, err := profiles.Self([]profiles.Kind{profiles.Heap})
	if err != nil {
		return err
	}
	taken, err := end()
	if err != nil {
		return err
	}
	r.Profiles = &result.Profiles{}
	if err := os.MkdirAll(filepath.Join(dir, "profiles"), 0o755); err != nil {
		return err
	}
	for _, process := range []string{"broker", "load"} {
		for kind := range strings.SplitSeq(kinds, ",") {
			name := "profiles/" + profiles.Name(process, profiles.Kind(kind))
			if err := os.WriteFile(filepath.Join(dir, name), taken[profiles.Heap], 0o644); err != nil {
				return err
			}
			now := time.Now().UTC().Format(time.RFC3339Nano)
			r.Profiles.Taken = append(r.Profiles.Taken, result.Profile{Process: process, Kind: kind, File: name, FromUTC: now, UntilUTC: now})
			if err := r.AddFile(dir, name, "pprof"); err != nil {
				return err
			}
		}
	}
	return nil
}

// fakeResult makes numbers up: 100,000 records/s of capacity, latencies of a few milliseconds with noise from the seed.
func fakeResult(spec *workload.Spec, start int64) *result.Result {
	random := rand.New(rand.NewPCG(spec.Seed, 1))
	r := &result.Result{Question: spec.Question, Asked: *spec, Valid: true, Clocks: map[string]result.Latency{}, Settings: []result.Setting{}}
	r.Run.ID = fmt.Sprintf("%016x", rand.Uint64())
	r.Window = result.Window{StartNanos: start, EndNanos: start + 25e6, EndedBy: "window"}
	rate := spec.Rate
	if spec.Question == workload.Capacity {
		rate = 100_000 * (1 + 0.02*random.NormFloat64())
		if spec.Prefix == calibrate.Prefix {
			rate *= 3 // a target that costs nothing
		}
		r.Window.EndedBy = "max-bytes"
	}
	n := int64(rate)
	r.Ends = result.Ends{Intended: n, Acked: n, AckedInTime: n, AckedBytes: int64(float64(n) * spec.RecordSize.Mean())}
	r.Produce.RecordsPerSec, r.Produce.BytesPerSec = rate, rate*spec.RecordSize.Mean()
	r.Produce.Batches = result.Batches{Batches: n/10 + 1, Requests: n/10 + 1, WireBytes: r.Ends.AckedBytes}
	r.Verification = result.Verification{On: true, Complete: true, Acked: n, Delivered: n}
	if spec.Question == workload.Latency {
		scale := 1e6 + float64(spec.Linger.Nanos())
		latency := result.Latency{Count: n, Sound: true}
		for _, p := range []float64{50, 75, 90, 95, 99, 99.9, 99.99} {
			latency.Percentiles = append(latency.Percentiles, result.Percentile{P: p, Nanos: int64(scale * (1 + p/100) * (1 + 0.05*random.NormFloat64())), Above: 50, Excursions: 20})
		}
		r.Clocks[result.Ack], r.Clocks[result.Delivery] = latency, latency
	}
	return r
}

// listen returns an address of this host that accepts connections until the test ends; the fake load sends nothing to it.
func listen(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l.Addr().String()
}
