// Package host says what machine a bench ran on, what it can do at best, and how steady it is.
//
//	Fingerprint  kernel, CPU, cores, memory, file system, governor, huge pages: from /proc and /sys, nothing measured
//	Ceilings     what no broker on this host can beat, by bare loops on the cores of the run (DESIGN 7)
//	Noise        how often and how long a spinning thread was taken off its core
//
// Everything is read or measured when asked for, nothing is cached. Linux only. Measuring takes both cores; nothing
// else should run meanwhile.
package host

// Fingerprint identifies the host as far as results depend on it. Fields that a host does not tell are empty.
type Fingerprint struct {
	Hostname             string  `json:"hostname"`
	Kernel               string  `json:"kernel"`
	OS                   string  `json:"os"`
	Architecture         string  `json:"architecture"`
	CPUModel             string  `json:"cpuModel"`
	CPUMHz               float64 `json:"cpuMhz"`
	Cores                int     `json:"cores"` // that this process may use
	CoresOnline          int     `json:"coresOnline"`
	ThreadsPerCore       int     `json:"threadsPerCore"`
	Hypervisor           string  `json:"hypervisor"`
	MemoryBytes          int64   `json:"memoryBytes"`
	MemoryLimitBytes     int64   `json:"memoryLimitBytes"` // of the control group; 0: none
	CPULimitCores        float64 `json:"cpuLimitCores"`    // of the control group; 0: none
	SwapBytes            int64   `json:"swapBytes"`
	Governor             string  `json:"governor"`
	HugePages            string  `json:"hugePages"`  // /sys/kernel/mm/transparent_hugepage/enabled, the chosen word
	FileSystem           string  `json:"fileSystem"` // of the data folder: "ext4"
	Device               string  `json:"device"`     // "/dev/vda"
	Rotational           string  `json:"rotational"` // "no", "yes" or ""
	DataDir              string  `json:"dataDir"`
	FreeBytes            int64   `json:"freeBytes"`            // on the data folder's file system
	DirtyBackgroundRatio int     `json:"dirtyBackgroundRatio"` // percent of memory at which writeback starts
	DirtyRatio           int     `json:"dirtyRatio"`
	ClockSource          string  `json:"clockSource"`
	BootID               string  `json:"bootId"`
	Load1                float64 `json:"load1"` // load average when the fingerprint was taken
}

// Ceiling is one measured bound.
type Ceiling struct {
	Name    string  `json:"name"` // "recv+crc32c+pwrite", "sendfile", ...
	What    string  `json:"what"` // one sentence for a person
	Unit    string  `json:"unit"` // "MB/CPU-s", "MB/s", "us"
	Value   float64 `json:"value"`
	PerCPU  float64 `json:"perCpu"`  // MB for each CPU-second of the side that stands for the broker; 0: no meaning
	Seconds float64 `json:"seconds"` // how long it was measured
	Error   string  `json:"error"`   // why there is no value
}
