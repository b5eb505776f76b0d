// Package workload says what one run sends and when, as data: the settings of a run (Spec), their strict reading from
// YAML or flags, and the pure generators that a run is made of: random streams, keys, record sizes, payload bytes and
// intended send times. It does not send, measure or know a socket; it keeps no state outside the values it hands out.
//
// A Spec is flat on purpose: every field is one YAML key, one flag of the same name and one axis of a bench matrix.
//
//	question: latency        # latency (open loop at a rate) | capacity (closed loop)
//	rate: 20000              # records/s over all producers together
//	acks: all
//	linger: 5ms
//	record-size: 1KiB        # 1KiB | uniform(100B, 2KiB) | histogram(100B:90, 10KiB:10)
//	keys: zipf(1.1)          # none | roundrobin(n) | uniform(n) | zipf([n,] s) | hot([n,] share, fraction)
//
// Everything random follows from Spec.Seed: see Stream. Two runs of one Spec and seed intend the same records at the
// same times, which is how the intended list is checked against what was sent and delivered.
//
// Concurrency: Spec is plain data. Each generator belongs to one goroutine.
package workload

// Question is what a run asks (METHOD 1): one cell answers one of the two, never both.
type Question string

// The two questions.
const (
	// Capacity is a closed loop with a stated number in flight: throughput and cost, no latency.
	Capacity Question = "capacity"
	// Latency is an open loop at a stated rate: latency and cost, throughput only as held or not held.
	Latency Question = "latency"
)

// Values of the settings that are words.
const (
	ArrivalsPoisson  = "poisson"  // exponential gaps
	ArrivalsConstant = "constant" // equal gaps, the producers staggered

	AcksNone   = "0"
	AcksLeader = "1"
	AcksAll    = "all"

	DriverRaw  = "raw"
	DriverKgo  = "kgo"
	DriverNull = "null"

	PartitionerMurmur2    = "murmur2"    // by key as Kafka does it; records without a key go round robin batch by batch
	PartitionerRoundRobin = "roundrobin" // record by record, whatever the key

	CreateNever = "never" // the topics must exist
	CreateFresh = "fresh" // the topics must not exist and are made (and, unless kept, deleted) by the run
	CreateAuto  = "auto"  // made where missing

	CommitNone  = "none"  // offsets are never committed
	CommitAuto  = "auto"  // in the background, every commit-interval
	CommitSync  = "sync"  // after each poll, waited for
	CommitAsync = "async" // after each poll, not waited for

	FromEarliest = "earliest"
	FromLatest   = "latest"

	IsolationUncommitted = "read_uncommitted"
	IsolationCommitted   = "read_committed"

	VerifyOn  = "on"
	VerifyOff = "off"
)

// Spec is the complete setting of one run. No client default is ever used: Default gives each field a value, and the
// result lists what was asked beside what was in effect. Tags: yaml is the key and the flag, help the flag's usage.
type Spec struct {
	// Name is a label for people; it is in no hash.
	Name string `yaml:"name,omitempty" help:"a label for the run"`

	Question Question `yaml:"question" help:"latency (open loop at --rate) or capacity (closed loop)"`
	// Rate is the total over all producers, in records each second. Required for latency, 0 for capacity.
	Rate     float64 `yaml:"rate" help:"records per second over all producers together (latency)"`
	Arrivals string  `yaml:"arrivals" help:"gaps between intended sends: poisson or constant"`
	// SLO is the latency limit that counts as held (METHOD 1); 0 means one second.
	SLO Duration `yaml:"slo" help:"a record acked later than this after the window's end was not held; 0 is 1s"`

	Driver      string   `yaml:"driver" help:"raw, kgo or null"`
	Producers   int      `yaml:"producers" help:"producing clients, each with connections of its own"`
	Acks        string   `yaml:"acks" help:"0, 1 or all"`
	Idempotence bool     `yaml:"idempotence" help:"idempotent producers"`
	InFlight    int      `yaml:"in-flight" help:"produce requests in flight on each connection"`
	Linger      Duration `yaml:"linger" help:"how long a batch waits for more records"`
	BatchSize   Bytes    `yaml:"batch-size" help:"largest batch, before compression"`
	Buffer      Bytes    `yaml:"buffer" help:"bytes each producer may hold unsent"`
	// BufferRecords bounds the same in records; 0 is no such bound.
	BufferRecords int `yaml:"buffer-records" help:"records each producer may hold unsent, 0 for no such bound"`
	// RequestMax is the largest produce request (Kafka's max.request.size).
	RequestMax       Bytes    `yaml:"request-max" help:"largest produce request"`
	Compression      string   `yaml:"compression" help:"none, gzip, snappy, lz4 or zstd"`
	CompressionLevel int      `yaml:"compression-level" help:"codec level, 0 is the codec's default"`
	Partitioner      string   `yaml:"partitioner" help:"murmur2 (by key) or roundrobin"`
	RequestTimeout   Duration `yaml:"request-timeout" help:"how long one request may take"`
	DeliveryTimeout  Duration `yaml:"delivery-timeout" help:"how long a record may take before it is failed"`
	Retries          int      `yaml:"retries" help:"times a request is sent again after an error that may pass"`
	RetryBackoff     Duration `yaml:"retry-backoff" help:"wait before a request is sent again"`
	// Outstanding bounds the records each producer has accepted and not yet seen acked, in a closed loop; 0 leaves it to
	// in-flight and buffer.
	Outstanding int `yaml:"outstanding" help:"closed loop: most unacked records of a producer, 0 for in-flight and buffer alone"`

	Topics       int               `yaml:"topics" help:"number of topics"`
	Topic        string            `yaml:"topic" help:"exact name of the one topic, instead of prefix-0, prefix-1, ..."`
	Prefix       string            `yaml:"prefix" help:"first part of every topic and group name; empty makes one from the time"`
	Partitions   int               `yaml:"partitions" help:"partitions of each topic"`
	Replication  int               `yaml:"replication" help:"replication factor"`
	TopicConfigs map[string]string `yaml:"topic-configs,omitempty" help:"name=value of topic properties"`
	Create       string            `yaml:"create" help:"never, fresh or auto"`
	KeepTopics   bool              `yaml:"keep-topics" help:"do not delete the topics that this run made"`

	Keys       Keys  `yaml:"keys" help:"none, roundrobin(n), uniform(n), zipf([n,] s) or hot([n,] share, fraction)"`
	RecordSize Sizes `yaml:"record-size" help:"bytes of the value: 1KiB, uniform(a, b) or histogram(size:weight, ...)"`
	// Compressibility is the share of the payload's bytes that a good codec saves: 0 random bytes, 0.75 about 4 to 1.
	Compressibility float64 `yaml:"compressibility" help:"share of payload bytes a codec can save, 0 to 0.99"`
	PayloadFile     string  `yaml:"payload-file" help:"take payload bytes from this file instead"`
	// PayloadPool is the number of prepared batches that raw sends again and again; 0 compresses each batch anew.
	PayloadPool int `yaml:"payload-pool" help:"raw: reuse this many prepared batches; no compression effect is then computed"`

	// Consumers read without a group, the partitions dealt out among them.
	Consumers int `yaml:"consumers" help:"consumers without a group; partitions are dealt out among them (one by default where no group would verify the run)"`
	// Groups are sizes: [3, 1] is one group of three members and one of one.
	Groups            []int    `yaml:"groups,omitempty" help:"sizes of consumer groups, 3,1 is two groups"`
	Assignor          string   `yaml:"assignor" help:"range, roundrobin, sticky or cooperative-sticky"`
	Commit            string   `yaml:"commit" help:"none, auto, sync or async"`
	CommitInterval    Duration `yaml:"commit-interval" help:"time between automatic commits"`
	SessionTimeout    Duration `yaml:"session-timeout" help:"group session timeout"`
	ConsumeFrom       string   `yaml:"consume-from" help:"earliest or latest, where no offset is committed"`
	Isolation         string   `yaml:"isolation" help:"read_uncommitted or read_committed"`
	FetchMin          Bytes    `yaml:"fetch-min" help:"fetch.min.bytes"`
	FetchMax          Bytes    `yaml:"fetch-max" help:"fetch.max.bytes"`
	FetchPartitionMax Bytes    `yaml:"fetch-partition-max" help:"max.partition.fetch.bytes"`
	FetchMaxWait      Duration `yaml:"fetch-max-wait" help:"fetch.max.wait.ms"`

	MaxPollRecords int `yaml:"max-poll-records" help:"most records a consumer takes at once"`

	WarmUp      Duration `yaml:"warm-up" help:"time before the window, not counted"`
	Window      Duration `yaml:"window" help:"the measured time"`
	Drain       Duration `yaml:"drain" help:"longest wait for answers and deliveries after the window"`
	MaxBytes    Bytes    `yaml:"max-bytes" help:"stop after this many bytes of values, 0 for no bound"`
	MaxDuration Duration `yaml:"max-duration" help:"whole run ends here, whatever happens"`
	Verify      string   `yaml:"verify" help:"on or off"`
	Seed        uint64   `yaml:"seed" help:"seed of everything random"`

	// Where Parse read the fields: errors of Validate point there.
	file   string
	places map[string]Place
}

// Default is the baseline that flags and files change: open loop, acks=all, 1 KiB records, six partitions.
func Default() Spec {
	return Spec{
		Question: Latency, Rate: 1000, Arrivals: ArrivalsPoisson,
		Driver: DriverRaw, Producers: 1, Acks: AcksAll, InFlight: 5, BatchSize: 16 << 10, Buffer: 32 << 20,
		RequestMax: 1 << 20, Compression: "none", Partitioner: PartitionerMurmur2,
		RequestTimeout: 30 * second, DeliveryTimeout: 120 * second,
		Retries: 1<<31 - 1, RetryBackoff: second / 10,
		Topics: 1, Partitions: 6, Replication: 1, Create: CreateFresh,
		Keys: Keys{Kind: KeysNone}, RecordSize: FixedSize(1 << 10),
		Assignor: "range", Commit: CommitAuto, CommitInterval: 5 * second, SessionTimeout: 45 * second,
		ConsumeFrom: FromEarliest, Isolation: IsolationUncommitted,
		FetchMin: 1, FetchMax: 50 << 20, FetchPartitionMax: 1 << 20, FetchMaxWait: second / 2, MaxPollRecords: 500,
		WarmUp: 2 * second, Window: 10 * second, Drain: 5 * second, MaxDuration: 600 * second, Verify: VerifyOn, Seed: 1,
	}
}

// Verifying reports whether records carry an envelope that consumers check.
func (s *Spec) Verifying() bool { return s.Verify != VerifyOff }
