package clock

import (
	"math"
	"sync"
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

// TestSleepersTogether: many at once on their own timers, each after its deadline, and a closed one still sleeps.
func TestSleepersTogether(t *testing.T) {
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			s := NewSleeper()
			defer s.Close()
			for n := range 20 {
				deadline := Nanos() + int64(time.Duration(1+(i+n)%7)*50*time.Microsecond)
				if s.Until(deadline); Nanos() < deadline {
					t.Error("woke early")
				}
			}
		})
	}
	wg.Wait()
	s := NewSleeper()
	s.Close()
	deadline := Nanos() + int64(time.Millisecond)
	if s.Until(deadline); Nanos() < deadline {
		t.Error("a closed Sleeper woke early")
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

func TestLaterDoesNotOverflow(t *testing.T) {
	const end = math.MaxInt64
	for _, c := range []struct{ at, ms, want int64 }{{5, 7, 12}, {-5, 7, 2}, {0, end, end}, {1, end, end}, {1000, end - 1000, end}, {1000, end - 1001, end - 1}, {-1, end, end - 1}} {
		if got := Later(c.at, c.ms); got != c.want {
			t.Errorf("%d ms after %d is %d, want %d", c.ms, c.at, got, c.want)
		}
	}
}
