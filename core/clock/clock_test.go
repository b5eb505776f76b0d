package clock

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestNanosIsTheKernelsMonotonicClock(t *testing.T) {
	kernel := func() int64 {
		var ts unix.Timespec
		if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
			t.Fatal(err)
		}
		return ts.Nano()
	}
	for range 1000 {
		before, got, after := kernel(), Nanos(), kernel()
		if got < before || got > after {
			t.Fatalf("Nanos %d is not between the kernel's %d and %d", got, before, after)
		}
	}
}

func TestBootIDIsStable(t *testing.T) {
	id := BootID()
	if len(id) != 36 || id != BootID() {
		t.Fatalf("boot id %q", id)
	}
}

func TestSleepNeverEndsEarly(t *testing.T) {
	s := NewSleeper()
	defer s.Close()
	for range 20 {
		deadline := Nanos() + int64(200*time.Microsecond)
		s.Until(deadline)
		if now := Nanos(); now < deadline {
			t.Fatalf("woke %d ns early", deadline-now)
		}
	}
	s.Until(Nanos() - int64(time.Hour))
	SleepUntil(0)
}

func TestSleeperRestoresTheThread(t *testing.T) {
	slack := func() int {
		n, err := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0)
		if err != nil {
			t.Skipf("no timer slack here: %v", err)
		}
		return n
	}
	outer := NewSleeper() // holds the thread, so that all readings are of the same one
	defer outer.Close()
	if got := slack(); got != 1 {
		t.Fatalf("slack inside: %d ns", got)
	}
	inner := &Sleeper{slack: 12345}
	inner.Close()
	outer2 := NewSleeper()
	defer outer2.Close()
	if outer2.slack != 12345 {
		t.Fatalf("slack after Close: %d", outer2.slack)
	}
}

func BenchmarkNanos(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		Nanos()
	}
}

// BenchmarkSleeper reports how late the sleep ends on this host.
func BenchmarkSleeper(b *testing.B) {
	s := NewSleeper()
	defer s.Close()
	var late int64
	for b.Loop() {
		deadline := Nanos() + int64(100*time.Microsecond)
		s.Until(deadline)
		late += Nanos() - deadline
	}
	b.ReportMetric(float64(late)/float64(b.N), "late-ns/op")
}
