package target

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tidemark/tidemark/core/clock"
)

// TestMain lets the test binary burn CPU as a child.
func TestMain(m *testing.M) {
	if os.Getenv("TIDEMARK_BURN") != "" {
		burn()
		return
	}
	os.Exit(m.Run())
}

// burn uses 1 s of CPU on eight threads, of which four end, then says so, says it again when it is asked, and waits for
// its input to close.
func burn() {
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			runtime.LockOSThread()
			if i%2 == 1 {
				defer runtime.UnlockOSThread() // a goroutine that ends locked takes its thread with it
			}
			var ts unix.Timespec
			for ts.Nano() < 125e6 {
				_ = unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts)
			}
		})
	}
	all.Wait()
	say := func() {
		var ts unix.Timespec
		_ = unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &ts)
		fmt.Println(ts.Nano())
	}
	say()
	in := bufio.NewReader(os.Stdin)
	if _, err := in.ReadString('\n'); err == nil {
		say()
	}
	_, _ = io.Copy(io.Discard, in)
}

func TestCPUClockCountsEndedThreads(t *testing.T) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "TIDEMARK_BURN=1")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Wait() }()
	defer stdin.Close()
	lines := bufio.NewReader(stdout)
	own := func() int64 {
		t.Helper()
		line, err := lines.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		n, err := strconv.ParseInt(strings.TrimSpace(line), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	before := own()
	all, err := readAll(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(stdin, "\n"); err != nil {
		t.Fatal(err)
	}
	// The child's own readings before and behind it are the truth; the test's start-up of the Go runtime is in all three.
	if after := own(); all.cpuNanos < before || all.cpuNanos > after {
		t.Errorf("read %d ns, the child counts %d before and %d behind it", all.cpuNanos, before, after)
	}
	if all.cpuNanos < 1e9 {
		t.Errorf("read %d ns, at least 1 s was burnt", all.cpuNanos)
	}
	if all.threads == 0 || all.voluntary+all.involuntary == 0 || all.rssBytes == 0 {
		t.Errorf("%+v", all)
	}
}

func TestCPUClockOfNobodyIsAnError(t *testing.T) {
	cmd := exec.Command("true")
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	if _, err := CPUNanos(cmd.Process.Pid); err == nil {
		t.Error("a process that is not there has a CPU clock")
	}
}

func TestWindowIsInterpolatedBetweenSamples(t *testing.T) {
	s := series{pids: []int{9}, readings: []reading{
		{nanos: 1000, ok: true, use: counters{cpuNanos: 100, readCalls: 10, rssBytes: 5}},
		{nanos: 2000, ok: true, use: counters{cpuNanos: 300, readCalls: 20, rssBytes: 9}},
		{nanos: 3000, ok: true, use: counters{cpuNanos: 700, readCalls: 60, rssBytes: 7}},
	}}
	p := s.process(1500, 2500)
	if p == nil || p.CPUNanos != 300 || *p.ReadCalls != 25 || p.Seconds != 1e-6 || p.RSSMaxBytes != 9 || p.PID != 9 {
		t.Errorf("%+v", p)
	}
	for _, w := range [][2]int64{{500, 2500}, {1500, 3500}, {2500, 1500}, {0, 0}} {
		if p := s.process(w[0], w[1]); p != nil {
			t.Errorf("window %v is outside the samples and was measured: %+v", w, p)
		}
	}
	s.readings[1].ok = false // the process was gone for a moment: unknown is not zero
	if p := s.process(1500, 2500); p != nil {
		t.Errorf("%+v", p)
	}
}

func TestSamplerReachesFromStartToStop(t *testing.T) {
	before := clock.Nanos()
	s := startSampler([]int{os.Getpid()}, false)
	middle := clock.Nanos()
	got := s.stop()
	if len(got.readings) < 2 || got.readings[0].nanos < before || got.readings[0].nanos > middle {
		t.Fatalf("%d readings", len(got.readings))
	}
	if p := got.process(got.readings[0].nanos, got.readings[len(got.readings)-1].nanos); p == nil || p.RSSBytes == 0 {
		t.Errorf("%+v", p)
	}
	if len(got.samples()) != len(got.readings) {
		t.Error("samples were left out")
	}
}

func TestCoresLineIsRead(t *testing.T) {
	a := parseCore(3, strings.Fields("100 0 50 800 20 1 4 5 0 0"))
	b := parseCore(3, strings.Fields("150 0 90 805 20 1 9 10 0 0"))
	c := coresBetween([]coreTimes{a}, []coreTimes{b})
	if len(c) != 1 || c[0].Core != 3 || c[0].Steal != 5.0/105 || c[0].SoftIRQ != 5.0/105 || c[0].Busy != 100.0/105 {
		t.Errorf("%+v", c)
	}
}

func TestSplitCores(t *testing.T) {
	for n, want := range map[int][2]int{0: {0, 0}, 1: {0, 0}, 2: {1, 1}, 3: {1, 2}, 4: {2, 2}, 8: {4, 4}} {
		all := make([]int, n)
		for i := range all {
			all[i] = i
		}
		a, b := SplitCores(all)
		if len(a) != want[0] || len(b) != want[1] {
			t.Errorf("%d cores: %v and %v", n, a, b)
		}
	}
}

// TestLightSamplingLeavesThreadsOut: CPU and resident size of a window are known, what only threads tell is not, and says so.
func TestLightSamplingLeavesThreadsOut(t *testing.T) {
	s := series{pids: []int{9}, readings: []reading{
		{nanos: 0, ok: true, use: counters{cpuNanos: 0, rssBytes: 5, queueNanos: 50, readCalls: 7}},
		{nanos: 1000, ok: true, light: true, use: counters{cpuNanos: 400, rssBytes: 9}},
		{nanos: 2000, ok: true, light: true, use: counters{cpuNanos: 800, rssBytes: 6}},
		{nanos: 3000, ok: true, use: counters{cpuNanos: 1200, rssBytes: 6, queueNanos: 90, readCalls: 70, threads: 4}},
	}}
	p := s.process(500, 2500)
	if p == nil || p.CPUNanos != 800 || p.RSSMaxBytes != 9 || p.Threads != 4 {
		t.Fatalf("%+v", p)
	}
	if p.ReadCalls != nil || p.RunQueueNanos != 0 || p.VoluntarySwitches != 0 {
		t.Errorf("made up from readings that have no threads: %+v", p)
	}
	l := startSampler([]int{os.Getpid()}, true)
	if got := l.stop(); len(got.readings) < 2 || got.readings[0].light || got.readings[len(got.readings)-1].light {
		t.Errorf("the ends are not whole: %+v", got.readings)
	}
}
