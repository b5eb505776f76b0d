package target

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/tidemark/tidemark/core/lie"
	"github.com/tidemark/tidemark/loadgen/result"
)

// counters is what a process has used since it began.
type counters struct {
	cpuNanos    int64
	queueNanos  int64 // waited for a core
	voluntary   int64
	involuntary int64
	readCalls   int64
	writeCalls  int64
	readBytes   int64
	writeBytes  int64
	rssBytes    int64
	threads     int
}

// cpuClock is the id of a process's CPU clock (METHOD 4): nanoseconds, ended threads included.
func cpuClock(pid int) int32 { return int32(^pid)<<3 | 2 }

// CPUNanos reads the CPU clock of a process.
func CPUNanos(pid int) (int64, error) {
	if lie.Told == lie.MainThreadCPU {
		return firstThread(pid), nil
	}
	var ts unix.Timespec
	if err := unix.ClockGettime(cpuClock(pid), &ts); err != nil {
		return 0, fmt.Errorf("CPU clock of process %d: %w", pid, err)
	}
	return ts.Nano(), nil
}

// firstThread is what a lie takes for the CPU of a process.
func firstThread(pid int) int64 {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/schedstat", pid, pid))
	first, _, _ := strings.Cut(string(b), " ")
	n, _ := strconv.ParseInt(first, 10, 64)
	return n
}

// readQuick reads what costs little: the CPU clock and the resident size.
func readQuick(pid int) (counters, error) {
	var c counters
	var err error
	if c.cpuNanos, err = CPUNanos(pid); err != nil {
		return c, err
	}
	statm, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return c, err
	}
	if f := strings.Fields(string(statm)); len(f) > 1 {
		pages, _ := strconv.ParseInt(f[1], 10, 64)
		c.rssBytes = pages * int64(os.Getpagesize())
	}
	return c, nil
}

// readAll adds what has to be summed over threads: the files of the process itself show its first thread alone.
func readAll(pid int) (counters, error) {
	c, err := readQuick(pid)
	if err != nil {
		return c, err
	}
	dir := fmt.Sprintf("/proc/%d/task", pid)
	tasks, err := os.ReadDir(dir)
	if err != nil {
		return c, err
	}
	for _, t := range tasks {
		base := dir + "/" + t.Name()
		if b, err := os.ReadFile(base + "/schedstat"); err == nil { // a thread may end meanwhile
			if f := strings.Fields(string(b)); len(f) == 3 {
				n, _ := strconv.ParseInt(f[1], 10, 64)
				c.queueNanos += n
			}
		}
		if b, err := os.ReadFile(base + "/status"); err == nil {
			c.voluntary += valueAfter(b, "voluntary_ctxt_switches:")
			c.involuntary += valueAfter(b, "nonvoluntary_ctxt_switches:")
			c.threads++
		}
	}
	if b, err := os.ReadFile(fmt.Sprintf("/proc/%d/io", pid)); err == nil {
		c.readCalls, c.writeCalls = valueAfter(b, "syscr:"), valueAfter(b, "syscw:")
		c.readBytes, c.writeBytes = valueAfter(b, "read_bytes:"), valueAfter(b, "write_bytes:")
	}
	return c, nil
}

// valueAfter returns the number on the line that begins with key.
func valueAfter(b []byte, key string) int64 {
	for len(b) > 0 {
		line, rest, _ := bytes.Cut(b, []byte{'\n'})
		if after, ok := bytes.CutPrefix(line, []byte(key)); ok {
			f := bytes.Fields(after)
			if len(f) == 0 {
				return 0
			}
			n, _ := strconv.ParseInt(string(f[0]), 10, 64)
			return n
		}
		b = rest
	}
	return 0
}

func (c *counters) add(o counters) {
	c.cpuNanos += o.cpuNanos
	c.queueNanos += o.queueNanos
	c.voluntary += o.voluntary
	c.involuntary += o.involuntary
	c.readCalls += o.readCalls
	c.writeCalls += o.writeCalls
	c.readBytes += o.readBytes
	c.writeBytes += o.writeBytes
	c.rssBytes += o.rssBytes
	c.threads += o.threads
}

// coreTimes is a line "cpuN" of /proc/stat in clock ticks.
type coreTimes struct {
	core                                         int
	busy, irq, softIRQ, steal, ioWait, all, idle int64
}

func readCores() []coreTimes {
	f, err := os.Open("/proc/stat")
	if err != nil {
		return nil
	}
	defer f.Close()
	var cores []coreTimes
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		name, rest, _ := strings.Cut(lines.Text(), " ")
		number, isCPU := strings.CutPrefix(name, "cpu")
		core, err := strconv.Atoi(number)
		if !isCPU || err != nil {
			continue
		}
		cores = append(cores, parseCore(core, strings.Fields(rest)))
	}
	return cores
}

// parseCore reads user nice system idle iowait irq softirq steal (guest times are inside user).
func parseCore(core int, fields []string) coreTimes {
	var v [8]int64
	for i := range min(len(v), len(fields)) {
		v[i], _ = strconv.ParseInt(fields[i], 10, 64)
	}
	c := coreTimes{core: core, idle: v[3], ioWait: v[4], irq: v[5], softIRQ: v[6], steal: v[7]}
	for _, n := range v {
		c.all += n
	}
	c.busy = c.all - c.idle - c.ioWait
	return c
}

// coresBetween is what each core did from a to b.
func coresBetween(a, b []coreTimes) []result.Core {
	var out []result.Core
	for i := range min(len(a), len(b)) {
		all := float64(b[i].all - a[i].all)
		if all <= 0 || a[i].core != b[i].core {
			continue
		}
		out = append(out, result.Core{
			Core: b[i].core, Busy: float64(b[i].busy-a[i].busy) / all, SoftIRQ: float64(b[i].softIRQ-a[i].softIRQ) / all,
			IRQ: float64(b[i].irq-a[i].irq) / all, Steal: float64(b[i].steal-a[i].steal) / all, IOWait: float64(b[i].ioWait-a[i].ioWait) / all,
		})
	}
	return out
}

// ReadMemory reads the page cache's state.
func ReadMemory() result.MemoryState {
	b, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return result.MemoryState{}
	}
	kib := func(key string) int64 { return valueAfter(b, key) << 10 }
	return result.MemoryState{
		Free: kib("MemFree:"), Available: kib("MemAvailable:"), Cached: kib("Cached:"), Dirty: kib("Dirty:"), Writeback: kib("Writeback:"),
	}
}
