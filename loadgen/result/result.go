// Package result is the schema of what one run of the load generator measured: result.json, schema 1. The generator
// writes it, the bench adds what only it can know (the target's CPU and memory) and everything else reads it. The
// package holds numbers and their words; it computes no statistics over runs and prints nothing.
//
// # Schema
//
// The Go types of this package are the schema: each field's json tag is its name, its comment its meaning. Units stand in
// the names (Nanos, Bytes, PerSec); times are CLOCK_MONOTONIC nanoseconds of the boot named in host.bootID, except
// those that end in UTC. A key that is absent was not measured, which is not the same as 0: fields that may be unknown
// are pointers or omitted.
//
//	{
//	  "schema": 1,
//	  "run": {...}            who, when, with which command
//	  "question": "latency"   capacity runs carry no latency (METHOD 1)
//	  "asked", "settings"     the workload, and each setting's effective value
//	  "ends": {...}           intended = acked + failed + unanswered + unsent (METHOD 2)
//	  "clocks": {"ack", "delivery", "pacer", "blocked", "accepted"}
//	  "intervals": [...]      one for each second of the window
//	  "produce", "consume"    rates, batches achieved, groups
//	  "verification": {...}   lost, duplicated, out of order, corrupt
//	  "verdicts": [...]       generator-limited, saturated, throttled, invalid ...
//	  "generator", "target"   CPU and memory of both sides
//	  "profiles": {...}       pprof files taken around the window, and what failed
//	  "files": [...]          the files beside, with SHA-256
//	}
//
// # Versions
//
// A reader takes its own schema and every older one (missing fields stay zero) and refuses a newer one by name. Within a
// schema fields are only added; unknown fields of the same schema are ignored.
package result

import "github.com/tidemark/tidemark/loadgen/workload"

// Schema is the version that Write writes.
const Schema = 1

// FileName is the result's name in its folder.
const FileName = "result.json"

// Names of the clocks: keys of Result.Clocks, tags and stems of the .hlog files. All are nanoseconds.
const (
	Ack      = "ack"      // intended -> acked
	Delivery = "delivery" // intended -> in the application's hand, decompressed and checked
	Pacer    = "pacer"    // intended -> the generator woke and offered the record: the generator's own lateness
	Blocked  = "blocked"  // offered -> accepted by the driver: the target's or the window's
	Accepted = "accepted" // intended -> accepted by the driver
)

// Kinds of verdict (METHOD 1, 3).
const (
	GeneratorLimited = "generator-limited"
	Saturated        = "saturated"
	Throttled        = "throttled"
	Invalid          = "invalid"   // data lost or the target died: the numbers mean nothing
	Partial          = "partial"   // ended early by a signal or a bound
	Unsettled        = "unsettled" // METHOD 5
	FreshMemory      = "fresh memory"
	Steal            = "steal" // the host took more than 1% of the window
	Late             = "late"  // a mark: more than a tenth of the ack p99 may be the generator's own lateness
	Profiled         = "profiled"
)

// Result is all that one run measured.
type Result struct {
	Schema   int               `json:"schema"`
	Run      Run               `json:"run"`
	Question workload.Question `json:"question"`

	// Asked is the workload as it was read, Settings what became of each setting.
	Asked     workload.Spec `json:"asked"`
	AskedHash string        `json:"askedHash"` // workload.Spec.Hash
	Settings  []Setting     `json:"settings"`
	AckMeant  AckMeaning    `json:"ackMeant"`

	// Partial is set when the run ended before its window did; Valid is false when no number of it may be used. The
	// reasons are verdicts.
	Partial  bool      `json:"partial"`
	Valid    bool      `json:"valid"`
	Verdicts []Verdict `json:"verdicts"`

	Window Window `json:"window"`
	Ends   Ends   `json:"ends"`
	// Clocks holds the latency summaries by name (Ack, Delivery, ...). A capacity run has Pacer and Blocked at most.
	Clocks    map[string]Latency `json:"clocks"`
	Intervals []Interval         `json:"intervals"`
	Produce   Produce            `json:"produce"`
	Consume   Consume            `json:"consume"`
	Payload   Payload            `json:"payload"`

	Verification Verification `json:"verification"`
	Errors       []ErrorCount `json:"errors"`

	Host      Host    `json:"host"`
	Generator Process `json:"generator"`
	// Target is filled by the bench, or by the generator where it was told the target's process; nil: not measured.
	Target *Process `json:"target,omitempty"`
	// TargetNotes say why parts of the target's cost, or all of it, were not measured.
	TargetNotes []string  `json:"targetNotes,omitempty"`
	Cores       []Core    `json:"cores,omitempty"`
	Memory      *Memory   `json:"memory,omitempty"`
	Ceilings    []Ceiling `json:"ceilings,omitempty"`
	// Events are marks on the time axis: faults, rebalances, reconnections, first errors.
	Events []Event `json:"events,omitempty"`
	// Profiles is absent where none were asked for.
	Profiles *Profiles `json:"profiles,omitempty"`
	// Contact is absent where nothing was asked (the driver null).
	Contact *Contact `json:"contact,omitempty"`
	// Conditions are those of --fail-if.
	Conditions []Condition `json:"conditions,omitempty"`
	Files      []File      `json:"files"`
}

// Run says who ran what, when.
type Run struct {
	ID          string   `json:"id"`     // also in every record's envelope
	Name        string   `json:"name"`   // the workload's label
	Prefix      string   `json:"prefix"` // of topics and groups
	Seed        uint64   `json:"seed"`
	Command     []string `json:"command"` // argv
	Bootstrap   []string `json:"bootstrap"`
	StartUTC    string   `json:"startUTC"` // RFC 3339, milliseconds
	EndUTC      string   `json:"endUTC"`
	Version     string   `json:"version"`  // of this program
	Revision    string   `json:"revision"` // VCS revision, "+dirty" appended where modified
	GoVersion   string   `json:"goVersion"`
	Driver      string   `json:"driver"` // name and version, as "kgo v1.22.3"
	TargetKind  string   `json:"targetKind,omitempty"`
	TargetBuild string   `json:"targetBuild,omitempty"`
	ClusterID   string   `json:"clusterID,omitempty"`
	// Topics lists the run's topics; Made those it created.
	Topics []string `json:"topics"`
	Made   []string `json:"made,omitempty"`
	// NotDeleted lists those of Made that may still be there, though the run was to delete them.
	NotDeleted []LeftTopic `json:"notDeleted,omitempty"`
	// Profiled is set where anything but a CPU profile was taken (METHOD 7).
	Profiled bool `json:"profiled,omitempty"`
	// ConnectionsOpened and Reconnections count the drivers' sockets.
	ConnectionsOpened int `json:"connectionsOpened"`
	Reconnections     int `json:"reconnections"`
}

// LeftTopic is a topic that a run made and did not delete.
type LeftTopic struct {
	Topic string `json:"topic"`
	Why   string `json:"why"`
}

// Setting is one setting, asked and in effect. Name is the workload's key, or topic.NAME for a topic property read
// back from the target.
type Setting struct {
	Name      string `json:"name"`
	Asked     string `json:"asked"`
	Effective string `json:"effective"`
	// Note says why the two differ, or what the driver cannot set.
	Note string `json:"note,omitempty"`
}

// AckMeaning says what an acknowledgement was worth; an empty or nil field is not known.
type AckMeaning struct {
	Acks      string `json:"acks"`
	Replicas  int    `json:"replicas"`
	MinISR    int    `json:"minISR"`
	FsyncMode string `json:"fsyncMode"` // "none", "batch", "interval", "mixed" over topics
	Fsyncs    *int64 `json:"fsyncs,omitempty"`
	Cache     string `json:"cache,omitempty"`  // cache state
	Regime    string `json:"regime,omitempty"` // burst or sustained
	// Sentence is for people: "written to the page cache of 1 broker; no fsync".
	Sentence string `json:"sentence"`
}

// Verdict is one finding about the run as a whole.
type Verdict struct {
	Kind   string `json:"kind"`
	Reason string `json:"reason"` // a sentence with its figures
	// Measured against Threshold in Unit, where the finding is a comparison.
	Measured  float64 `json:"measured,omitempty"`
	Threshold float64 `json:"threshold,omitempty"`
	Unit      string  `json:"unit,omitempty"`
}

// Window is the measured time. A record belongs to it by its intended time.
type Window struct {
	StartNanos int64  `json:"startNanos"` // monotonic
	EndNanos   int64  `json:"endNanos"`   // exclusive; the planned end, or the end of the measuring where partial
	PlannedEnd int64  `json:"plannedEndNanos"`
	StartUTC   string `json:"startUTC"`
	// ProbedNanos is how long the consumers took to deliver a probe from each partition before the window.
	ProbedNanos int64  `json:"probedNanos"`
	WarmUpNanos int64  `json:"warmUpNanos"`
	DrainNanos  int64  `json:"drainNanos"` // spent, not allowed
	EndedBy     string `json:"endedBy"`    // "window", "max-bytes", "max-duration", "signal", "target"
}

// Seconds is the length of the window.
func (w Window) Seconds() float64 { return float64(w.EndNanos-w.StartNanos) / 1e9 }

// Ends says where each intended record of the window ended (METHOD 2). In a capacity run a record is intended when the
// driver is free to take it.
type Ends struct {
	Intended   int64 `json:"intended"`
	Acked      int64 `json:"acked"`
	Failed     int64 `json:"failed"`     // by an error; Result.Errors has them by kind
	Unanswered int64 `json:"unanswered"` // sent or accepted, no answer by the end of the drain
	Unsent     int64 `json:"unsent"`     // never accepted by the driver
	AckedBytes int64 `json:"ackedBytes"` // values and keys, before compression
	// AckedInTime were acked by the window's end plus the SLO (or 1 s); below 99% of Intended the run is saturated.
	AckedInTime int64 `json:"ackedInTime"`
	// HandedToSocket replaces Acked's meaning for acks=0, where Acked stays 0.
	HandedToSocket int64 `json:"handedToSocket,omitempty"`
	// WarmUp counts the records intended before the window, outside all sums above.
	WarmUp int64 `json:"warmUp"`
}

// Sums reports whether the four ends add up to the intended records.
func (e Ends) Sums() bool {
	return e.Intended == e.Acked+e.HandedToSocket+e.Failed+e.Unanswered+e.Unsent
}

// Latency summarises one clock.
type Latency struct {
	// Count values are in the histogram, Overflow were above its range (1 h), Negative below 0: together every record
	// that reached the clock's end.
	Count    int64 `json:"count"`
	Overflow int64 `json:"overflow"`
	Negative int64 `json:"negative"`
	// Censored records never reached the clock's end and count as later than all others (failed, unanswered, unsent;
	// for delivery also those not delivered).
	Censored  int64   `json:"censored"`
	MinNanos  int64   `json:"minNanos"`
	MaxNanos  int64   `json:"maxNanos"`
	MeanNanos float64 `json:"meanNanos"` // of Count; never shown beside percentiles
	// Percentiles in ascending order: at least 50, 75, 90, 95, 99, 99.9, 99.99.
	Percentiles []Percentile `json:"percentiles"`
	// Sound is false where anything was dropped on the way (a failed RecordValue, a Merge that lost counts).
	Sound bool `json:"sound"`
}

// Percentile is one figure with its support.
type Percentile struct {
	P     float64 `json:"p"` // 50, 99.9
	Nanos int64   `json:"nanos"`
	// Censored: the percentile falls among the records that never arrived, and Nanos is a lower bound, shown as
	// "> N ms (censored)".
	Censored bool `json:"censored"`
	// Above counts records later than Nanos, Excursions the separate stalls that they came in (METHOD 6): under 10
	// excursions a figure is shown grey, under 10 records not at all.
	Above      int64 `json:"above"`
	Excursions int64 `json:"excursions"`
}

// At is the percentile p, and whether it was computed.
func (l Latency) At(p float64) (Percentile, bool) {
	for _, q := range l.Percentiles {
		if q.P == p {
			return q, true
		}
	}
	return Percentile{}, false
}

// Interval is one second of the window (the last may be shorter). Counts go by intended time, except those named
// otherwise.
type Interval struct {
	StartNanos     int64 `json:"startNanos"` // since the window's start
	LengthNanos    int64 `json:"lengthNanos"`
	Intended       int64 `json:"intended"`
	Acked          int64 `json:"acked"` // by completion: the rate reached in this second
	AckedBytes     int64 `json:"ackedBytes"`
	Failed         int64 `json:"failed"`
	Delivered      int64 `json:"delivered"` // by completion
	DeliveredBytes int64 `json:"deliveredBytes"`
	// Outstanding records (intended, not yet ended) and consumer lag at the end of the interval.
	Outstanding int64 `json:"outstanding"`
	Lag         int64 `json:"lag"`
	// Clocks by name, of the records that ended in this second; capacity runs leave Ack and Delivery out.
	Clocks       map[string]IntervalLatency `json:"clocks,omitempty"`
	BlockedNanos int64                      `json:"blockedNanos"` // summed over producers
	GeneratorCPU float64                    `json:"generatorCPU"` // cores
	TargetCPU    *float64                   `json:"targetCPU,omitempty"`
}

// IntervalLatency is one clock in one interval.
type IntervalLatency struct {
	Count int64 `json:"count"`
	P50   int64 `json:"p50Nanos"`
	P90   int64 `json:"p90Nanos"`
	P99   int64 `json:"p99Nanos"`
	P999  int64 `json:"p999Nanos"`
	Max   int64 `json:"maxNanos"`
}

// Produce is the producing side over the window.
type Produce struct {
	RecordsPerSec float64 `json:"recordsPerSec"` // acked, over the window
	BytesPerSec   float64 `json:"bytesPerSec"`   // acked values and keys, before compression
	AskedPerSec   float64 `json:"askedPerSec"`   // 0 in a closed loop

	// AckedInside were acked inside the window of a closed loop, whatever they were intended for: RecordsPerSec counts them,
	// and Intervals list them second by second.
	AckedInside      int64 `json:"ackedInside,omitempty"`
	AckedInsideBytes int64 `json:"ackedInsideBytes,omitempty"`
	// HeldShare is Ends.AckedInTime / Ends.Intended.
	HeldShare float64 `json:"heldShare"`
	Batches   Batches `json:"batches"`
	// InFlight is the mean number of requests in flight, where the driver knows.
	InFlight     float64 `json:"inFlight,omitempty"`
	BlockedNanos int64   `json:"blockedNanos"` // summed over producers
	// ThrottleNanos sums throttle_time_ms of the produce answers.
	ThrottleNanos int64   `json:"throttleNanos"`
	PartitionSkew float64 `json:"partitionSkew"` // busiest partition's records over the mean
	// BacklogSlopePerSec is the growth of outstanding records over the window.
	BacklogSlopePerSec float64 `json:"backlogSlopePerSec"`
}

// Batches describes the batches achieved (METHOD 2), as sent.
type Batches struct {
	Batches            int64   `json:"batches"`
	Requests           int64   `json:"requests"`
	RequestsPerSec     float64 `json:"requestsPerSec"`
	RecordsMedian      float64 `json:"recordsMedian"`
	RecordsMax         int64   `json:"recordsMax"`
	BytesMedian        float64 `json:"bytesMedian"` // on the wire
	BytesMax           int64   `json:"bytesMax"`
	WireBytes          int64   `json:"wireBytes"`
	PerRequestMedian   float64 `json:"perRequestMedian"` // batches
	PerRequestMax      int64   `json:"perRequestMax"`
	RequestBytesMedian float64 `json:"requestBytesMedian"`
	RequestBytesMax    int64   `json:"requestBytesMax"`
}

// Consume is the consuming side over the window.
type Consume struct {
	// RecordsPerSec and BytesPerSec count every delivery, all groups together.
	RecordsPerSec float64 `json:"recordsPerSec"`
	BytesPerSec   float64 `json:"bytesPerSec"`
	Delivered     int64   `json:"delivered"`
	Fetches       int64   `json:"fetches"`
	EmptyFetches  int64   `json:"emptyFetches"`
	FetchesPerSec float64 `json:"fetchesPerSec"`
	ThrottleNanos int64   `json:"throttleNanos"`
	Groups        []Group `json:"groups,omitempty"`
}

// Group is one consumer group, or the consumers without one (Name empty).
type Group struct {
	Name           string  `json:"name"`
	Members        int     `json:"members"`
	Assignor       string  `json:"assignor,omitempty"`
	Delivered      int64   `json:"delivered"`
	RecordsPerSec  float64 `json:"recordsPerSec"`
	Rebalances     int     `json:"rebalances"` // inside the window
	RebalanceNanos int64   `json:"rebalanceNanos"`
	Commits        int64   `json:"commits"`
	CommitErrors   int64   `json:"commitErrors"`
	LagMax         int64   `json:"lagMax"`
	LagEnd         int64   `json:"lagEnd"`
	// JoinedNanos is how long the group took from its start to a complete assignment.
	JoinedNanos int64 `json:"joinedNanos,omitempty"`
	// IdleMembers had no partition: more consumers than partitions.
	IdleMembers int `json:"idleMembers"`
}

// Payload says what the records held.
type Payload struct {
	RecordBytesMean float64 `json:"recordBytesMean"`
	RecordBytesMin  int     `json:"recordBytesMin"`
	RecordBytesMax  int     `json:"recordBytesMax"`
	// AskedCompressibility as in the workload; MeasuredRatio is plain over compressed bytes by the run's codec, or by
	// zstd where the run compresses nothing (ReferenceCodec).
	AskedCompressibility float64 `json:"askedCompressibility"`
	MeasuredRatio        float64 `json:"measuredRatio"`
	ReferenceCodec       string  `json:"referenceCodec"`
	// WireRatio is record bytes over bytes on the wire, envelopes and headers included.
	WireRatio float64 `json:"wireRatio"`
	Hash      string  `json:"hash"` // SHA-256 of the payload source
	// Pool is the number of prepared batches sent again and again; 0: each batch was compressed anew.
	Pool         int    `json:"pool"`
	DistinctKeys int64  `json:"distinctKeys"`
	Keys         string `json:"keys"`
}

// ErrorCount counts one kind of error.
type ErrorCount struct {
	Kind       string `json:"kind"`  // NOT_LEADER_OR_FOLLOWER, timeout, connection closed, ...
	Where      string `json:"where"` // produce, fetch, commit, metadata, ...
	Count      int64  `json:"count"` // answers or events
	Records    int64  `json:"records"`
	Retried    bool   `json:"retried"`    // mended by a retry: no record failed by it
	FirstNanos int64  `json:"firstNanos"` // monotonic
	First      string `json:"first"`      // the first one's text
}

// Event is a mark on the time axis.
type Event struct {
	Nanos int64  `json:"nanos"` // since the window's start, may be negative
	Kind  string `json:"kind"`
	Text  string `json:"text"`
}

// File is one file beside the result.
type File struct {
	Name   string `json:"name"` // relative to the result's folder, slashes
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
	Kind   string `json:"kind"` // hlog, pprof, log, yaml, ...
}

// Has reports whether a verdict of the kind was found.
func (r *Result) Has(kind string) bool {
	for _, v := range r.Verdicts {
		if v.Kind == kind {
			return true
		}
	}
	return false
}

// Add appends a verdict; Invalid also clears Valid, Partial sets the flag.
func (r *Result) Add(v Verdict) {
	r.Verdicts = append(r.Verdicts, v)
	switch v.Kind {
	case Invalid:
		r.Valid = false
	case Partial:
		r.Partial = true
	}
}

// Countable reports whether the run's figures may enter ratios, models and gates.
func (r *Result) Countable() bool {
	if !r.Valid || r.Partial {
		return false
	}
	for _, v := range r.Verdicts {
		switch v.Kind {
		case GeneratorLimited, Throttled, Unsettled, FreshMemory, Profiled:
			return false
		case Saturated:
			if r.Question == workload.Latency {
				return false
			}
		}
	}
	return true
}
