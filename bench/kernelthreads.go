package bench

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// isKernelThread is the kernel's flag PF_KTHREAD in /proc/PID/stat.
const isKernelThread = 0x00200000

// kernelThreads is what each of the host's kernel threads has used so far, nanoseconds by thread; empty where the host does
// not show them.
func kernelThreads() map[int]int64 {
	used := map[int]int64{}
	folders, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range folders {
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil {
			continue
		}
		if stat, err := os.ReadFile(filepath.Join(dir, "stat")); err != nil || flagsOf(stat)&isKernelThread == 0 {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, "schedstat"))
		if err != nil {
			continue
		}
		if fields := bytes.Fields(text); len(fields) > 0 {
			if n, err := strconv.ParseInt(string(fields[0]), 10, 64); err == nil {
				used[pid] = n
			}
		}
	}
	return used
}

// flagsOf are a task's flags: the seventh field behind its name, which stands in parentheses and may hold any character.
func flagsOf(stat []byte) uint64 {
	end := bytes.LastIndexByte(stat, ')')
	if end < 0 {
		return 0
	}
	fields := bytes.Fields(stat[end+1:])
	if len(fields) < 7 {
		return 0
	}
	flags, _ := strconv.ParseUint(string(fields[6]), 10, 64)
	return flags
}

// spentBetween is what kernel threads used from one reading to another; a thread that ended took its count along.
func spentBetween(before, after map[int]int64) (nanos int64) {
	for pid, n := range after {
		if was := before[pid]; n > was {
			nanos += n - was
		}
	}
	return nanos
}

// settle writes a folder's file system out, so that what kernel threads still owe for a run is spent.
func settle(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	return unix.Syncfs(int(f.Fd()))
}
