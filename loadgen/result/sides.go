package result

// Host identifies the machine on which the generator ran.
type Host struct {
	BootID   string `json:"bootID"` // monotonic times compare only within one
	ID       string `json:"id"`     // hash of what stays the same over boots
	Name     string `json:"name"`
	OS       string `json:"os"`
	Kernel   string `json:"kernel"`
	CPUs     int    `json:"cpus"`
	CPUModel string `json:"cpuModel"`
	MemBytes int64  `json:"memBytes"`
}

// Process is what one process used over the window (METHOD 4).
type Process struct {
	PID      int      `json:"pid"`
	Label    string   `json:"label,omitempty"`
	Version  string   `json:"version,omitempty"`
	Affinity []int    `json:"affinity,omitempty"` // cores it may run on
	Flags    []string `json:"flags,omitempty"`    // GOMAXPROCS=1, GOGC=100, ...
	Seconds  float64  `json:"seconds"`            // over which the rest was taken
	// CPUNanos by the process's CPU clock, ended threads included; SettledCPUNanos adds what kernel threads spent until
	// the run's pages were clean.
	CPUNanos        int64  `json:"cpuNanos"`
	UserNanos       int64  `json:"userNanos,omitempty"`
	SystemNanos     int64  `json:"systemNanos,omitempty"`
	SettledCPUNanos *int64 `json:"settledCPUNanos,omitempty"`
	// RunQueueNanos is the wait of its threads for a core.
	RunQueueNanos       int64  `json:"runQueueNanos"`
	VoluntarySwitches   int64  `json:"voluntarySwitches"`
	InvoluntarySwitches int64  `json:"involuntarySwitches"`
	ReadCalls           *int64 `json:"readCalls,omitempty"` // of /proc/PID/io
	WriteCalls          *int64 `json:"writeCalls,omitempty"`
	ReadBytes           *int64 `json:"readBytes,omitempty"`
	WriteBytes          *int64 `json:"writeBytes,omitempty"`
	RSSBytes            int64  `json:"rssBytes"` // at the window's end
	RSSMaxBytes         int64  `json:"rssMaxBytes"`
	Threads             int    `json:"threads,omitempty"`
	Allocations         *int64 `json:"allocations,omitempty"`
	AllocatedBytes      *int64 `json:"allocatedBytes,omitempty"`
	GCCycles            *int64 `json:"gcCycles,omitempty"`
	GCPauseNanos        *int64 `json:"gcPauseNanos,omitempty"`
	// Counters are the target's own, at the window's end minus at its start.
	Counters map[string]float64 `json:"counters,omitempty"`
}

// CPUShare is the share of one core: 0.31 is 31% of one core.
func (p Process) CPUShare() float64 {
	if p.Seconds <= 0 {
		return 0
	}
	return float64(p.CPUNanos) / 1e9 / p.Seconds
}

// Core is one core of the host over the window, as shares of it.
type Core struct {
	Core    int     `json:"core"`
	Busy    float64 `json:"busy"`
	SoftIRQ float64 `json:"softirq"`
	IRQ     float64 `json:"irq"`
	Steal   float64 `json:"steal"`
	IOWait  float64 `json:"iowait"`
	// Kernel is what kernel threads used of it from before the run until its pages were clean, by the core that each last ran on.
	Kernel float64 `json:"kernelThreads,omitempty"`
}

// Memory is the page cache before and after the run (METHOD 5).
type Memory struct {
	Before MemoryState `json:"before"`
	After  MemoryState `json:"after"`
	// FillBytes is what was touched right before the run.
	FillBytes int64 `json:"fillBytes,omitempty"`
}

// MemoryState is from /proc/meminfo, in bytes.
type MemoryState struct {
	Free      int64 `json:"freeBytes"`
	Available int64 `json:"availableBytes"`
	Cached    int64 `json:"cachedBytes"`
	Dirty     int64 `json:"dirtyBytes"`
	Writeback int64 `json:"writebackBytes"`
}

// Ceiling is what the host could do at best, taken right before and after the run.
type Ceiling struct {
	Name   string  `json:"name"`
	Unit   string  `json:"unit"`
	Before float64 `json:"before"`
	After  float64 `json:"after"`
}

// Verification is what the consumers' checks and the acked list found (loadgen/verify). On is false with --verify=off,
// and then the rest means nothing.
type Verification struct {
	On bool `json:"on"`
	// Complete: every acked record of the run had its chance, i.e. consumers read to the end. Without consumers nothing
	// can be lost or found: Complete is false and Reason says so.
	Complete bool   `json:"complete"`
	Reason   string `json:"reason,omitempty"`

	Acked      int64 `json:"acked"`     // records, warm-up and probes included
	Delivered  int64 `json:"delivered"` // record by record, over all groups
	Lost       int64 `json:"lost"`      // acked, never delivered to a group that read to the end
	Duplicated int64 `json:"duplicated"`
	OutOfOrder int64 `json:"outOfOrder"` // within key and partition
	Corrupt    int64 `json:"corrupt"`
	Foreign    int64 `json:"foreign"` // records of another run
	// Undelivered records were acked and lie beyond what the consumers had read when the run ended: only where Complete
	// is false.
	Undelivered int64 `json:"undelivered"`
	// Redelivered counts offsets delivered again inside a group (at least once, after a rebalance): no fault.
	Redelivered int64 `json:"redelivered"`
	// Unacked records were delivered though their ack never came: allowed, and counted.
	Unacked int64 `json:"unacked"`
	// NotAcked records were handed to the driver, warm-up included, and had no ack: those that failed, and those without an
	// answer. They may be in the log all the same, where whoever counts it must not take them for acknowledged ones.
	NotAcked int64 `json:"notAcked,omitempty"`

	Findings []Finding `json:"findings,omitempty"` // the first of each kind
}

// Clean reports whether nothing was lost, repeated, reordered or damaged.
func (v Verification) Clean() bool {
	return v.Lost == 0 && v.Duplicated == 0 && v.OutOfOrder == 0 && v.Corrupt == 0
}

// Finding is one example.
type Finding struct {
	Kind      string `json:"kind"` // lost, duplicated, out of order, corrupt, foreign
	Group     string `json:"group,omitempty"`
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Offset    int64  `json:"offset"` // -1: not known (a lost record of acks=1 without a base offset)
	Producer  int32  `json:"producer"`
	Sequence  uint64 `json:"sequence"`
	Text      string `json:"text"`
}

// Profiles says which profiles were taken around the window and what became of them.
type Profiles struct {
	Taken  []Profile `json:"taken"`
	Pushed int       `json:"pushed"`          // how many arrived at the Pyroscope server that was named
	Notes  []string  `json:"notes,omitempty"` // what failed, each said once; none of it makes the run worse
}

// Profile is one capture.
type Profile struct {
	Process  string `json:"process"` // "load", or "broker" for the target
	Kind     string `json:"kind"`    // "cpu", "heap", "mutex", "block", "goroutine"
	File     string `json:"file"`    // relative to the result's folder, slashes; "" where none was asked for
	FromUTC  string `json:"fromUTC"` // RFC 3339, nanoseconds
	UntilUTC string `json:"untilUTC"`
}
