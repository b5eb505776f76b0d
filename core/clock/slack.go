package clock

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// TimerSlack is how late the kernel may wake a thread of a program that asks for CoarseTimers from a timed sleep. Go's monitor
// thread sleeps 20 us at a time while anything runs, and starts over whenever the process was idle for a moment, as a program
// that answers requests is all the time: with Linux's slack of 50 us it woke 6,000 times a second, put itself before the
// thread that worked, and took a tenth to a fifth of the CPU (results/hotpath.md). What it is there for can wait a
// millisecond: to pass on the work of a thread that is stuck in a system call, and to interrupt what has run for ten.
const TimerSlack = time.Millisecond

// CoarseTimers gives the whole process TimerSlack. Go's own timers, which end to the millisecond at best, may be as much later; a
// Sleeper is as exact as before. A thread can set its own slack alone, and those that it makes inherit it, but Go makes its
// monitor before any code of the program runs. So the slack is set and the program put in its own place once more: same
// process, same arguments, 10 ms. To be called before anything is open or has been written. It returns nil where the slack is
// there already, and with an error where it cannot be had; the program then runs on as it is.
func CoarseTimers() error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if enough, err := hasSlack(); err != nil || enough {
		return err
	}
	path, err := os.Executable()
	if err != nil {
		return fmt.Errorf("start again with a timer slack of %v: %w", TimerSlack, err)
	}
	if err := unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(TimerSlack), 0, 0, 0); err != nil {
		return fmt.Errorf("set the timer slack: %w", err)
	}
	if enough, err := hasSlack(); err != nil || !enough { // threads of a real-time policy have none, whatever they ask for
		return errors.Join(fmt.Errorf("the kernel does not take a timer slack of %v", TimerSlack), err)
	}
	return fmt.Errorf("start %s again with a timer slack of %v: %w", path, TimerSlack, syscall.Exec(path, os.Args, os.Environ()))
}

// hasSlack says whether the calling thread has TimerSlack.
func hasSlack() (bool, error) {
	slack, err := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0)
	if err != nil {
		return false, fmt.Errorf("read the timer slack: %w", err)
	}
	return time.Duration(slack) >= TimerSlack, nil
}
