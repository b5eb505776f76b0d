package loadgen

import (
	"os"
	"runtime/metrics"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/tidemark/tidemark/core/clock"
	"github.com/tidemark/tidemark/loadgen/result"
)

// usageSample is what this process and this host had used at one moment.
type usageSample struct {
	nanos     int64
	cpu       int64
	threads   map[string]threadUse
	allocs    uint64
	allocated uint64
	gcCycles  uint64
	rss       int64
	cores     []coreTicks
	memory    result.MemoryState
}

type threadUse struct{ wait, voluntary, involuntary int64 }

// coreTicks are /proc/stat's counts of one core.
type coreTicks struct {
	core                                                  int
	user, nice, system, idle, iowait, irq, softirq, steal int64
}

// cpuNanos is the process's CPU clock: nanoseconds, ended threads included.
func cpuNanos() int64 {
	var ts unix.Timespec
	if unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &ts) != nil {
		return 0
	}
	return ts.Nano()
}

func sampleUsage() usageSample {
	u := usageSample{nanos: clock.Nanos(), cpu: cpuNanos(), threads: map[string]threadUse{}}
	tasks, _ := os.ReadDir("/proc/self/task") // what /proc does not tell counts as 0
	for _, t := range tasks {
		u.threads[t.Name()] = threadUseOf("/proc/self/task/" + t.Name())
	}
	samples := []metrics.Sample{{Name: "/gc/heap/allocs:objects"}, {Name: "/gc/heap/allocs:bytes"}, {Name: "/gc/cycles/total:gc-cycles"}}
	metrics.Read(samples)
	u.allocs, u.allocated, u.gcCycles = samples[0].Value.Uint64(), samples[1].Value.Uint64(), samples[2].Value.Uint64()
	if f := strings.Fields(readText("/proc/self/statm")); len(f) > 1 {
		u.rss = number(f[1]) * int64(os.Getpagesize())
	}
	u.cores = readCores()
	u.memory = readMemory()
	return u
}

func readText(path string) string {
	b, _ := os.ReadFile(path)
	return string(b)
}

func number(s string) int64 {
	n, _ := strconv.ParseInt(s, 10, 64)
	return n
}

func threadUseOf(dir string) (t threadUse) {
	if f := strings.Fields(readText(dir + "/schedstat")); len(f) > 1 {
		t.wait = number(f[1])
	}
	for line := range strings.Lines(readText(dir + "/status")) {
		if v, ok := strings.CutPrefix(line, "voluntary_ctxt_switches:"); ok {
			t.voluntary = number(strings.TrimSpace(v))
		}
		if v, ok := strings.CutPrefix(line, "nonvoluntary_ctxt_switches:"); ok {
			t.involuntary = number(strings.TrimSpace(v))
		}
	}
	return t
}

func readCores() (cores []coreTicks) {
	for line := range strings.Lines(readText("/proc/stat")) {
		f := strings.Fields(line)
		if len(f) < 9 || !strings.HasPrefix(f[0], "cpu") || f[0] == "cpu" {
			continue
		}
		cores = append(cores, coreTicks{int(number(f[0][3:])), number(f[1]), number(f[2]), number(f[3]), number(f[4]), number(f[5]),
			number(f[6]), number(f[7]), number(f[8])})
	}
	return cores
}

func readMemory() (m result.MemoryState) {
	for line := range strings.Lines(readText("/proc/meminfo")) {
		f := strings.Fields(line)
		if len(f) < 2 {
			continue
		}
		v := number(f[1]) * 1024
		switch f[0] {
		case "MemFree:":
			m.Free = v
		case "MemAvailable:":
			m.Available = v
		case "Cached:":
			m.Cached = v
		case "Dirty:":
			m.Dirty = v
		case "Writeback:":
			m.Writeback = v
		}
	}
	return m
}

// affinity lists the cores that this process may run on.
func affinity() (cores []int) {
	var set unix.CPUSet
	if unix.SchedGetaffinity(0, &set) != nil {
		return nil
	}
	for i := range 1024 {
		if set.IsSet(i) {
			cores = append(cores, i)
		}
	}
	return cores
}

// usedBetween is what the process used between two samples.
func usedBetween(a, b *usageSample) result.Process {
	p := result.Process{PID: os.Getpid(), Label: "generator", Affinity: affinity(), Seconds: float64(b.nanos-a.nanos) / 1e9,
		CPUNanos: b.cpu - a.cpu, RSSBytes: b.rss, RSSMaxBytes: max(a.rss, b.rss), Threads: len(b.threads)}
	for id, t := range b.threads {
		before := a.threads[id]
		p.RunQueueNanos += t.wait - before.wait
		p.VoluntarySwitches += t.voluntary - before.voluntary
		p.InvoluntarySwitches += t.involuntary - before.involuntary
	}
	allocs, bytes, cycles := int64(b.allocs-a.allocs), int64(b.allocated-a.allocated), int64(b.gcCycles-a.gcCycles)
	p.Allocations, p.AllocatedBytes, p.GCCycles = &allocs, &bytes, &cycles
	return p
}

func coresBetween(a, b *usageSample) (cores []result.Core) {
	for i := range b.cores {
		if i >= len(a.cores) {
			break
		}
		x, y := a.cores[i], b.cores[i]
		busy := y.user + y.nice + y.system + y.irq + y.softirq - x.user - x.nice - x.system - x.irq - x.softirq
		total := float64(busy + y.idle + y.iowait + y.steal - x.idle - x.iowait - x.steal)
		if total <= 0 {
			continue
		}
		cores = append(cores, result.Core{Core: y.core, Busy: float64(busy) / total, SoftIRQ: float64(y.softirq-x.softirq) / total,
			IRQ: float64(y.irq-x.irq) / total, Steal: float64(y.steal-x.steal) / total, IOWait: float64(y.iowait-x.iowait) / total})
	}
	return cores
}

// thisHost identifies the machine.
func thisHost() result.Host {
	h := result.Host{BootID: clock.BootID(), OS: "linux"}
	h.Name, _ = os.Hostname()
	var u unix.Utsname
	if unix.Uname(&u) == nil {
		h.Kernel = unix.ByteSliceToString(u.Release[:])
	}
	h.CPUs = len(readCores())
	for line := range strings.Lines(readText("/proc/cpuinfo")) {
		if name, v, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			h.CPUModel = strings.TrimSpace(v)
			break
		}
	}
	for line := range strings.Lines(readText("/proc/meminfo")) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == "MemTotal:" {
			h.MemBytes = number(f[1]) * 1024
		}
	}
	return h
}
