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

// kernelThread is what a kernel thread has used so far, and the core that it last ran on: most are bound to one.
type kernelThread struct {
	nanos int64
	core  int
}

// kernelThreads are the host's kernel threads; empty where the host does not show them.
func kernelThreads() map[int]kernelThread {
	used := map[int]kernelThread{}
	folders, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range folders {
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil {
			continue
		}
		stat, err := os.ReadFile(filepath.Join(dir, "stat"))
		if err != nil || field(stat, flagsField)&isKernelThread == 0 {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, "schedstat"))
		if err != nil {
			continue
		}
		if fields := bytes.Fields(text); len(fields) > 0 {
			if n, err := strconv.ParseInt(string(fields[0]), 10, 64); err == nil {
				used[pid] = kernelThread{n, int(field(stat, coreField))}
			}
		}
	}
	return used
}

// Fields of /proc/PID/stat, counted from 0 behind the name.
const (
	flagsField = 6
	coreField  = 36
)

// field is a number of a task's stat, by its place behind the name, which stands in parentheses and may hold any character.
func field(stat []byte, place int) uint64 {
	end := bytes.LastIndexByte(stat, ')')
	if end < 0 {
		return 0
	}
	fields := bytes.Fields(stat[end+1:])
	if len(fields) <= place {
		return 0
	}
	n, _ := strconv.ParseUint(string(fields[place]), 10, 64)
	return n
}

// spentBetween is what kernel threads used from one reading to another, by the core that they last ran on; a thread that
// ended took its count along.
func spentBetween(before, after map[int]kernelThread) (byCore map[int]int64, nanos int64) {
	byCore = map[int]int64{}
	for pid, now := range after {
		if was := before[pid]; now.nanos > was.nanos {
			byCore[now.core] += now.nanos - was.nanos
			nanos += now.nanos - was.nanos
		}
	}
	return byCore, nanos
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
