package proc_test

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tidemark/tidemark/broker/proc"
)

// TestMain lets this test binary stand for a broker: started as `<binary> broker ...` it plays the part that
// TIDEMARK_FAKE names.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "broker" {
		os.Exit(fakeBroker(os.Getenv("TIDEMARK_FAKE")))
	}
	os.Exit(m.Run())
}

func fakeBroker(part string) int {
	signals := make(chan os.Signal, 1)
	if part != "deaf" {
		signal.Notify(signals, syscall.SIGTERM)
	}
	switch part {
	case "dies":
		fmt.Fprintln(os.Stderr, "cannot listen: address in use")
		return 5
	case "silent":
		<-signals
		return 0
	case "noisy":
		fmt.Println(strings.Repeat("x", 1<<20)) // longer than any line that is read
	}
	fmt.Fprintln(os.Stderr, `level=INFO msg="admin http://127.0.0.1:4567"`)
	fmt.Fprintf(os.Stderr, "cores %v\n", proc.Cores())
	fmt.Println("ready 127.0.0.1:1234 node=7 cluster=abc-DEF")
	if part == "stubborn" {
		signal.Ignore(syscall.SIGTERM)
	}
	<-signals
	return 0
}

func start(t *testing.T, part string, change func(*proc.Options)) (*proc.Broker, *strings.Builder, error) {
	t.Helper()
	log := &strings.Builder{}
	o := proc.Options{Env: []string{"TIDEMARK_FAKE=" + part}, Stderr: log}
	if change != nil {
		change(&o)
	}
	b, err := proc.Start(context.Background(), o)
	if err == nil {
		t.Cleanup(b.Kill)
	}
	return b, log, err
}

func TestStartReadsAddressesAndStopIsClean(t *testing.T) {
	b, _, err := start(t, "good", nil)
	if err != nil {
		t.Fatal(err)
	}
	if b.Addr != "127.0.0.1:1234" || b.Admin != "127.0.0.1:4567" || b.NodeID != 7 || b.ClusterID != "abc-DEF" {
		t.Errorf("read %+v", b)
	}
	if err := syscall.Kill(b.PID, 0); err != nil {
		t.Errorf("pid %d: %v", b.PID, err)
	}
	if err := b.Stop(); err != nil {
		t.Errorf("stop: %v", err)
	}
	if err := syscall.Kill(b.PID, 0); err == nil {
		t.Error("the process is still there after Stop")
	}
}

func TestStartThatFailsSaysWhyAndLeavesNothing(t *testing.T) {
	_, _, err := start(t, "dies", nil)
	if err == nil || !strings.Contains(err.Error(), "cannot listen: address in use") {
		t.Errorf("got %v", err)
	}
	_, _, err = start(t, "silent", func(o *proc.Options) { o.ReadyTimeout = 50 * time.Millisecond })
	if err == nil || !strings.Contains(err.Error(), "not ready after") {
		t.Errorf("got %v", err)
	}
}

func TestKillEndsAProcessThatIgnoresTheSignal(t *testing.T) {
	b, _, err := start(t, "stubborn", nil)
	if err != nil {
		t.Fatal(err)
	}
	b.Kill()
	if b.Err() == nil {
		t.Error("a killed process is reported as ended well")
	}
}

func TestPinnedChildMayUseOnlyItsCores(t *testing.T) {
	cores := proc.Cores()
	if len(cores) < 2 {
		t.Skip("one core")
	}
	b, log, err := start(t, "good", func(o *proc.Options) { o.Cores = cores[1:2] })
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Stop(); err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("cores %v\n", cores[1:2]); !strings.Contains(log.String(), want) {
		t.Errorf("log %q, want %q", log.String(), want)
	}
	if now := proc.Cores(); !slices.Equal(now, cores) {
		t.Errorf("this process may now use %v, before %v", now, cores)
	}
}

func TestReadyLines(t *testing.T) {
	for line, want := range map[string]bool{
		"ready 127.0.0.1:9092 node=1 cluster=x":   true,
		"ready [::1]:9092 node=1 cluster=x":       true,
		"ready 127.0.0.1 node=1 cluster=x":        false,
		"ready 127.0.0.1:9092 node=x cluster=x":   false,
		"ready 127.0.0.1:9092 cluster=x node=1":   false,
		"ready 127.0.0.1:9092 node=1 cluster=x y": false,
		"": false,
	} {
		if _, _, _, ok := proc.ParseReady(line); ok != want {
			t.Errorf("%q: %v", line, ok)
		}
	}
}
