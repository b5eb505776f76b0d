package host

import (
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/tidemark/tidemark/core/clock"
)

// Read takes the fingerprint of this host; dataDir is where data will be written, and need not exist yet.
func Read(dataDir string) Fingerprint {
	f := Fingerprint{
		OS: osName(), Architecture: runtime.GOARCH, Cores: runtime.NumCPU(), BootID: clock.BootID(), Load1: load1(),
		Governor:    sys("devices/system/cpu/cpu0/cpufreq/scaling_governor"),
		HugePages:   chosen(sys("kernel/mm/transparent_hugepage/enabled")),
		ClockSource: sys("devices/system/clocksource/clocksource0/current_clocksource"),
		Hypervisor:  hypervisor(),
	}
	f.Hostname, _ = os.Hostname()
	var name unix.Utsname
	if unix.Uname(&name) == nil {
		f.Kernel = unix.ByteSliceToString(name.Release[:])
	}
	f.cpu()
	f.memory()
	f.limits()
	f.disk(dataDir)
	return f
}

func text(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

func sys(path string) string { return text("/sys/" + path) }

// chosen returns the word in brackets of "always [madvise] never".
func chosen(s string) string {
	_, after, ok := strings.Cut(s, "[")
	word, _, closed := strings.Cut(after, "]")
	if !ok || !closed {
		return s
	}
	return word
}

func osName() string {
	for _, line := range strings.Split(text("/etc/os-release"), "\n") {
		if v, ok := strings.CutPrefix(line, "PRETTY_NAME="); ok {
			return strings.Trim(v, `"`)
		}
	}
	return runtime.GOOS
}

func load1() float64 {
	first, _, _ := strings.Cut(text("/proc/loadavg"), " ")
	v, _ := strconv.ParseFloat(first, 64)
	return v
}

func hypervisor() string {
	if s := sys("hypervisor/type"); s != "" {
		return s
	}
	if vendor := sys("class/dmi/id/sys_vendor"); vendor != "" && strings.Contains(text("/proc/cpuinfo"), " hypervisor") {
		return vendor
	}
	if strings.Contains(text("/proc/cpuinfo"), " hypervisor") {
		return "yes"
	}
	return ""
}

// cpu reads /proc/cpuinfo: the model's name stands under other keys on ARM.
func (f *Fingerprint) cpu() {
	siblings, cores := 0, 0
	for _, line := range strings.Split(text("/proc/cpuinfo"), "\n") {
		key, value, _ := strings.Cut(line, ":")
		value = strings.TrimSpace(value)
		switch strings.TrimSpace(key) {
		case "processor":
			f.CoresOnline++
		case "model name", "Model", "Hardware":
			f.CPUModel = value
		case "cpu MHz":
			v, _ := strconv.ParseFloat(value, 64)
			f.CPUMHz = max(f.CPUMHz, v)
		case "siblings":
			siblings, _ = strconv.Atoi(value)
		case "cpu cores":
			cores, _ = strconv.Atoi(value)
		}
	}
	if cores > 0 {
		f.ThreadsPerCore = siblings / cores
	}
	if f.CPUModel == "" {
		f.CPUModel = runtime.GOARCH
	}
}

func (f *Fingerprint) memory() {
	for _, line := range strings.Split(text("/proc/meminfo"), "\n") {
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		kib, _ := strconv.ParseInt(fields[1], 10, 64)
		switch fields[0] {
		case "MemTotal:":
			f.MemoryBytes = kib << 10
		case "SwapTotal:":
			f.SwapBytes = kib << 10
		}
	}
	f.DirtyBackgroundRatio, _ = strconv.Atoi(text("/proc/sys/vm/dirty_background_ratio"))
	f.DirtyRatio, _ = strconv.Atoi(text("/proc/sys/vm/dirty_ratio"))
}

// limits reads the control group (version 2) that this process is in, and its parents': the tightest counts.
func (f *Fingerprint) limits() {
	var group string
	for _, line := range strings.Split(text("/proc/self/cgroup"), "\n") {
		if v, ok := strings.CutPrefix(line, "0::"); ok {
			group = v
		}
	}
	for dir := filepath.Join("/sys/fs/cgroup", group); strings.HasPrefix(dir, "/sys/fs/cgroup"); dir = filepath.Dir(dir) {
		if v, err := strconv.ParseInt(text(filepath.Join(dir, "memory.max")), 10, 64); err == nil && (f.MemoryLimitBytes == 0 || v < f.MemoryLimitBytes) {
			f.MemoryLimitBytes = v
		}
		quota, period, _ := strings.Cut(text(filepath.Join(dir, "cpu.max")), " ")
		q, errQ := strconv.ParseFloat(quota, 64)
		p, errP := strconv.ParseFloat(period, 64)
		if errQ == nil && errP == nil && p > 0 && (f.CPULimitCores == 0 || q/p < f.CPULimitCores) {
			f.CPULimitCores = math.Round(100*q/p) / 100
		}
	}
}

// disk finds the file system of the nearest folder that exists.
func (f *Fingerprint) disk(dir string) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return
	}
	f.DataDir = dir
	for dir != "/" {
		if _, err := os.Stat(dir); err == nil {
			break
		}
		dir = filepath.Dir(dir)
	}
	var s unix.Statfs_t
	if unix.Statfs(dir, &s) == nil {
		f.FreeBytes = int64(s.Bavail) * s.Bsize
	}
	longest := 0
	for _, line := range strings.Split(text("/proc/self/mounts"), "\n") {
		m := strings.Fields(line)
		if len(m) < 3 || len(m[1]) < longest || !within(dir, m[1]) {
			continue
		}
		longest, f.Device, f.FileSystem = len(m[1]), m[0], m[2]
	}
	f.Rotational = map[string]string{"0": "no", "1": "yes"}[rotational(filepath.Base(f.Device))]
}

func within(dir, mount string) bool {
	return mount == "/" || dir == mount || strings.HasPrefix(dir, mount+"/")
}

// rotational looks for a device or, for a partition, for the disk that it is part of.
func rotational(device string) string {
	for len(device) > 0 {
		if s := sys("block/" + device + "/queue/rotational"); s != "" {
			return s
		}
		device = device[:len(device)-1]
	}
	return ""
}
