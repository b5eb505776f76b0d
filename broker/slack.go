package broker

import (
	"log/slog"
	"os"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// timerSlack is how late the kernel may wake this process's threads from a timed sleep. Go's monitor thread sleeps 20 us at
// a time while anything runs, and starts over whenever the process was idle for a moment, as a broker under load is all the
// time: with Linux's slack of 50 us it woke 6,000 times a second, put itself before the thread that served a request, and
// took a tenth to a fifth of the CPU (results/hotpath.md). What it is there for can wait a millisecond: to pass on the
// work of a thread that is stuck in a system call, and to interrupt what has run for ten. Nothing in a broker is timed
// more finely than a millisecond.
const timerSlack = time.Millisecond

// calmMonitor gives the whole process timerSlack. A thread can set its own slack alone, and those that it makes inherit it;
// Go makes its monitor before any code of ours runs. So the slack is set and the program put in its own place once more
// (same process, same arguments), which keeps it. Where that is not possible the broker runs on as it is.
func calmMonitor(logger *slog.Logger) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if slack, err := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0); err != nil || time.Duration(slack) >= timerSlack {
		return
	}
	path, err := os.Executable()
	if err == nil {
		err = unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(timerSlack), 0, 0, 0)
	}
	if err == nil {
		err = syscall.Exec(path, os.Args, os.Environ())
	}
	logger.Debug("the timer slack stays as it is", "error", err)
}
