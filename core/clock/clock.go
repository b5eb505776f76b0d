// Package clock gives monotonic time as the kernel counts it, comparable between processes of one boot, and a sleep
// that ends within microseconds of its deadline.
//
// Nanos, SleepUntil and BootID may be called from any goroutine; a Sleeper belongs to the goroutine that made it.
package clock

import (
	"math"
	"os"
	"strings"
	"syscall"
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

// Later is ms after a time, or the end of all time: a setting may be so large that it stands for never. ms is not negative.
func Later(atMS, ms int64) int64 {
	if ms > math.MaxInt64-max(atMS, 0) {
		return math.MaxInt64
	}
	return atMS + ms
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

// Sleeper is a precise sleep for one goroutine. It waits on a timer of the kernel through the runtime's poller, so that
// it holds no thread: on a single core a sleep that blocks a thread costs two hand-overs between threads each time, and
// those threads then wait for each other. time.Sleep is no choice, it ends up to a millisecond late.
type Sleeper struct {
	file  *os.File
	raw   syscall.RawConn
	wait  func(fd uintptr) bool
	until int64
	armed bool
}

// NewSleeper makes a timer. Only the calling goroutine may use the Sleeper and close it.
func NewSleeper() *Sleeper {
	s := &Sleeper{}
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return s // no descriptor is left: Until blocks its thread
	}
	s.file = os.NewFile(uintptr(fd), "timer")
	if s.raw, err = s.file.SyscallConn(); err != nil {
		s.Close()
		return s
	}
	s.wait = s.ready
	return s
}

// Until blocks until Nanos reaches deadlineNanos.
func (s *Sleeper) Until(deadlineNanos int64) {
	for Nanos() < deadlineNanos {
		if s.raw == nil {
			SleepUntil(deadlineNanos)
			return
		}
		s.until, s.armed = deadlineNanos, false
		if err := s.raw.Read(s.wait); err != nil || !s.armed {
			SleepUntil(deadlineNanos)
		}
	}
}

// ready is called inside RawConn.Read: first to arm the timer, after the poller's edge has been reset, then when it has
// fired. Arming it anew clears what it counted, so nothing is read from it. A timer that cannot be armed is not waited for.
func (s *Sleeper) ready(fd uintptr) bool {
	if s.armed {
		return true
	}
	at := unix.ItimerSpec{Value: unix.NsecToTimespec(s.until)}
	s.armed = unix.TimerfdSettime(int(fd), unix.TFD_TIMER_ABSTIME, &at, nil) == nil
	return !s.armed
}

// Close gives the timer back.
func (s *Sleeper) Close() {
	if s.file != nil {
		_ = s.file.Close()
	}
	s.file, s.raw = nil, nil
}
