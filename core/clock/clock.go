// Package clock gives monotonic time as the kernel counts it, comparable between processes of one boot, and a sleep
// that ends within microseconds of its deadline.
//
// Nanos, SleepUntil and BootID may be called from any goroutine; a Sleeper belongs to the goroutine that made it.
package clock

import (
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// bootIDPath is where Linux shows an identifier that is drawn anew at each boot.
const bootIDPath = "/proc/sys/kernel/random/boot_id"

// BootID names the boot under which this process runs; stamps of Nanos are comparable only under the same one. It is
// empty when the kernel does not tell, and an empty id must count as different from every other, itself included.
func BootID() string {
	fd, err := unix.Open(bootIDPath, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return ""
	}
	defer func() { _ = unix.Close(fd) }()
	var b [64]byte
	n, err := unix.Read(fd, b[:])
	if err != nil || n <= 0 {
		return ""
	}
	return strings.TrimSpace(string(b[:n]))
}

// SleepUntil blocks until Nanos reaches deadlineNanos; a deadline in the past returns at once. It keeps its thread, and
// the kernel may add the thread's timer slack (50 µs by default): pacers use a Sleeper.
func SleepUntil(deadlineNanos int64) {
	ts := unix.NsecToTimespec(deadlineNanos)
	for {
		err := unix.ClockNanosleep(unix.CLOCK_MONOTONIC, unix.TIMER_ABSTIME, &ts, nil)
		switch err {
		case nil:
			return
		case unix.EINTR:
			continue
		}
		// Only a kernel that filters the call gets here: the runtime's timer is coarser, but it sleeps.
		time.Sleep(time.Duration(deadlineNanos - Nanos()))
		return
	}
}

// Sleeper is a precise sleep for one goroutine: it holds an OS thread whose timer slack is one nanosecond.
type Sleeper struct {
	slack int // the thread's slack before, in nanoseconds
}

// NewSleeper locks the calling goroutine to its thread and sets that thread's timer slack to 1 ns. Only that goroutine
// may use the Sleeper and close it.
func NewSleeper() *Sleeper {
	runtime.LockOSThread()
	s := &Sleeper{}
	if was, err := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0); err == nil {
		s.slack = was
	}
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0) // without it the sleep is coarser, not wrong
	return s
}

// Until blocks until Nanos reaches deadlineNanos.
func (s *Sleeper) Until(deadlineNanos int64) { SleepUntil(deadlineNanos) }

// Close gives the thread its old slack back and unlocks the goroutine.
func (s *Sleeper) Close() {
	if s.slack > 0 {
		_ = unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(s.slack), 0, 0, 0)
	}
	runtime.UnlockOSThread()
}
