package workload

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
)

// EnvelopeBytes is what verification puts in front of each value; loadgen/verify draws it.
const EnvelopeBytes = 24

// maxTopicName is Kafka's bound; prefixed names leave room for a number.
const maxTopicName = 249

// Bounds that keep sums of settings, and what a run holds in memory, within reason.
const (
	maxTime       = 720 * 60 * 60 * second // 30 days
	maxConsumers  = 10000
	maxPartitions = 1_000_000
)

// words are the settings that take one of a few words.
var words = map[string][]string{
	"question":    {string(Latency), string(Capacity)},
	"arrivals":    {ArrivalsPoisson, ArrivalsConstant},
	"driver":      {DriverRaw, DriverKgo, DriverNull},
	"acks":        {AcksNone, AcksLeader, AcksAll},
	"compression": {"none", "gzip", "snappy", "lz4", "zstd"},
	"partitioner": {PartitionerMurmur2, PartitionerRoundRobin},
	"create":      {CreateNever, CreateFresh, CreateAuto},
	"assignor":    {"range", "roundrobin", "sticky", "cooperative-sticky"},
	"commit":      {CommitNone, CommitAuto, CommitSync, CommitAsync},

	"consume-from": {FromEarliest, FromLatest},
	"isolation":    {IsolationUncommitted, IsolationCommitted},
	"verify":       {VerifyOn, VerifyOff},
}

// Validate checks that the settings make sense together. All problems are found, joined into one error; each is a
// *Problem with the place in the file where the value stood, unless a flag changed it since.
func (s *Spec) Validate() error {
	c := checker{spec: s}
	if s.Acks == "-1" {
		s.Acks = AcksAll
	}
	for _, f := range specFields(s) {
		if known, ok := words[f.name]; ok && !slices.Contains(known, f.text()) {
			c.add(f.name, "%q is none of %s%s", f.text(), strings.Join(known, ", "), didYouMean(f.text(), known))
		}
	}
	c.rates()
	c.producing()
	c.topics()
	c.records()
	c.consuming()
	c.times()
	return errors.Join(c.problems...)
}

type checker struct {
	spec     *Spec
	problems []error
}

func (c *checker) add(name, format string, a ...any) {
	p := &Problem{Field: name, Text: name + ": " + fmt.Sprintf(format, a...)}
	if place, ok := c.spec.places[name]; ok {
		p.File, p.Place = c.spec.file, place
	}
	c.problems = append(c.problems, p)
}

// need adds a problem unless ok.
func (c *checker) need(ok bool, name, format string, a ...any) {
	if !ok {
		c.add(name, format, a...)
	}
}

func (c *checker) between(name string, v, low, high int) {
	c.need(v >= low && v <= high, name, "must be %d to %d, not %d", low, high, v)
}

func (c *checker) rates() {
	s := c.spec
	switch s.Question {
	case Latency:
		c.need(s.Rate > 0 && s.Rate <= 1e9, "rate", "a latency run needs a rate above 0 records/s (at most 1e9), not %v", s.Rate)
		c.need(s.Outstanding == 0, "outstanding", "bounds a closed loop only; this is an open one (question: capacity, or leave it out)")
	case Capacity:
		c.need(s.Rate == 0, "rate", "a capacity run is a closed loop and takes no rate (question: latency, or leave it out)")
		c.need(s.SLO == 0, "slo", "a capacity run measures no latency and takes no SLO")
	}
	c.need(s.Outstanding >= 0, "outstanding", "must not be negative")
}

func (c *checker) producing() {
	s := c.spec
	c.between("producers", s.Producers, 0, 10000)
	c.need(s.Producers > 0 || s.Question != Latency, "producers", "a latency run needs at least one producer")
	c.need(s.Producers > 0 || s.Consumers > 0 || len(s.Groups) > 0, "producers", "nothing to do: no producers, consumers or groups")
	c.between("in-flight", s.InFlight, 1, 1000)
	if s.Idempotence {
		c.need(s.Acks == AcksAll, "idempotence", "needs acks all, not %s", s.Acks)
		c.need(s.InFlight <= 5, "in-flight", "at most 5 with idempotence (Kafka's bound), not %d", s.InFlight)
		c.need(s.Driver != DriverKgo || s.InFlight >= 5, "in-flight", "with idempotence driver kgo always has 5 in flight, not %d: say 5, or driver raw", s.InFlight)
	}
	c.need(s.BatchSize >= 1 && s.BatchSize <= 1<<30, "batch-size", "must be 1B to 1GiB, not %s", s.BatchSize)
	c.need(s.RequestMax >= 1<<10 && s.RequestMax <= 1<<30, "request-max", "must be 1KiB to 1GiB, not %s", s.RequestMax)
	c.need(s.Buffer >= s.BatchSize, "buffer", "%s does not hold one batch of %s", s.Buffer, s.BatchSize)
	c.need(s.Linger <= 60*second, "linger", "%s is longer than a minute", s.Linger)
	c.need(s.RequestTimeout > 0, "request-timeout", "must be above 0")
	c.need(s.DeliveryTimeout >= s.Linger, "delivery-timeout", "%s is shorter than linger %s", s.DeliveryTimeout, s.Linger)
	c.between("buffer-records", s.BufferRecords, 0, 1<<30)
	c.between("retries", s.Retries, 0, 1<<31-1)
	low, high, leveled := 0, 0, true
	switch s.Compression {
	case "gzip":
		low, high = -2, 9
	case "lz4":
		low, high = 0, 9
	case "zstd":
		low, high = -7, 22
	default:
		leveled = false
	}
	if leveled {
		c.need(s.CompressionLevel >= low && s.CompressionLevel <= high, "compression-level",
			"%s takes %d to %d, not %d", s.Compression, low, high, s.CompressionLevel)
	} else {
		c.need(s.CompressionLevel == 0, "compression-level", "compression %s has no levels", s.Compression)
	}
}

func (c *checker) topics() {
	s := c.spec
	c.between("topics", s.Topics, 1, 10000)
	c.between("partitions", s.Partitions, 1, 100000)
	c.need(s.Topics*s.Partitions <= maxPartitions, "partitions", "%d topics of %d partitions are more than %d together", s.Topics, s.Partitions, maxPartitions)
	for _, name := range slices.Sorted(maps.Keys(s.TopicConfigs)) {
		field := "topic-configs." + name
		if _, ok := c.spec.places[field]; !ok {
			field = "topic-configs"
		}
		c.need(!slices.Contains(Fields(), name), field, "%s is a setting of the workload and no property of a topic: it stands beside topic-configs, not in it", name)
	}
	c.between("replication", s.Replication, 1, 100)
	for _, name := range []string{s.Topic, s.Prefix} {
		field := "topic"
		if name == s.Prefix && name != s.Topic {
			field = "prefix"
		}
		c.need(validTopic(name), field, "%q is no name for a topic: letters, digits, '.', '_' and '-', at most %d", name, maxTopicName)
	}
	if s.Topic != "" {
		c.need(s.Topics == 1, "topic", "names one topic, but topics is %d (use prefix)", s.Topics)
	}
	c.need(s.Create != CreateNever || s.Topic != "" || s.Prefix != "", "create", "never needs topic or prefix: which topics?")
}

func validTopic(name string) bool {
	if len(name) > maxTopicName-6 || name == "." || name == ".." {
		return false
	}
	for _, r := range name {
		if !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' || r == '_' || r == '-') {
			return false
		}
	}
	return true
}

func (c *checker) records() {
	s := c.spec
	if err := s.Keys.check(); err != nil {
		c.add("keys", "%s", strings.TrimPrefix(err.Error(), "keys "))
	}
	c.need(s.RecordSize.Max <= 1<<30, "record-size", "must be at most 1GiB")
	c.need(Bytes(s.RecordSize.Max) <= s.RequestMax || s.Producers == 0, "record-size", "%s does not fit into a request of at most %s (request-max)", s.RecordSize, s.RequestMax)
	c.need(s.MaxBytes == 0 || s.MaxBytes >= Bytes(s.RecordSize.Min), "max-bytes", "%s is less than one record of %s", s.MaxBytes, s.RecordSize)
	if place, ok := s.places["payload-file"]; ok && place != (Place{}) && s.PayloadFile != "" {
		c.need(filepath.IsLocal(s.PayloadFile), "payload-file", "%q leaves the folder in which the command runs: copy the file there, or say --payload-file to mean it", s.PayloadFile)
	}
	if s.Verifying() {
		c.need(s.RecordSize.Min >= EnvelopeBytes, "record-size",
			"%s: verification needs at least %d bytes in each value (record-size, or verify: off)", s.RecordSize, EnvelopeBytes)
	}
	c.need(Bytes(s.RecordSize.Max) <= s.Buffer, "record-size", "%s does not fit into the buffer of %s", s.RecordSize, s.Buffer)
	c.need(s.Compressibility >= 0 && s.Compressibility <= 0.99, "compressibility", "must be 0 to 0.99, not %v", s.Compressibility)
	c.need(s.PayloadFile == "" || s.Compressibility == 0, "compressibility", "a payload file compresses as it does: leave this out")
	c.between("payload-pool", s.PayloadPool, 0, 1<<20)
	c.need(s.PayloadPool == 0 || s.Driver == DriverRaw, "payload-pool", "only the raw driver reuses batches, not %s", s.Driver)
	c.need(s.PayloadPool == 0 || !s.Verifying(), "payload-pool", "reused batches cannot be verified record by record (verify: off)")
}

func (c *checker) consuming() {
	s := c.spec
	c.between("consumers", s.Consumers, 0, 10000)
	c.need(len(s.Groups) <= 1000, "groups", "at most 1000 groups, not %d", len(s.Groups))
	all := s.Consumers
	for _, size := range s.Groups {
		all += min(max(size, 0), maxConsumers+1)
	}
	c.need(all <= maxConsumers, "groups", "%d consumers are more than %d", all, maxConsumers)
	if s.Driver == DriverNull {
		c.need(len(s.Groups) == 0, "groups", "the driver null sends nothing that a group could read")
		c.need(s.Consumers == 0, "consumers", "the driver null sends nothing that a consumer could read")
	}
	for _, size := range s.Groups {
		if size < 1 || size > 10000 {
			c.add("groups", "a group has 1 to 10000 members, not %d", size)
			break
		}
	}
	c.need(s.CommitInterval > 0 || s.Commit != CommitAuto, "commit-interval", "must be above 0 for commit auto")
	c.need(s.SessionTimeout >= second || len(s.Groups) == 0, "session-timeout", "must be at least 1s")
	c.need(s.FetchMin >= 0 && s.FetchMin <= 1<<30, "fetch-min", "must be 0B to 1GiB")
	c.need(s.FetchMax >= 1 && s.FetchMax < 1<<31, "fetch-max", "must be 1B to 2GiB")
	c.need(s.FetchPartitionMax >= 1 && s.FetchPartitionMax < 1<<31, "fetch-partition-max", "must be 1B to 2GiB")
	c.between("max-poll-records", s.MaxPollRecords, 1, 1<<30)
	c.need(s.FetchMin <= s.FetchMax, "fetch-min", "%s is more than fetch-max %s", s.FetchMin, s.FetchMax)
}

func (c *checker) times() {
	s := c.spec
	for _, t := range []struct {
		name string
		d    Duration
	}{{"warm-up", s.WarmUp}, {"window", s.Window}, {"drain", s.Drain}, {"max-duration", s.MaxDuration}, {"request-timeout", s.RequestTimeout},
		{"delivery-timeout", s.DeliveryTimeout}, {"retry-backoff", s.RetryBackoff}, {"session-timeout", s.SessionTimeout},
		{"commit-interval", s.CommitInterval}, {"fetch-max-wait", s.FetchMaxWait}, {"slo", s.SLO}} {
		if t.d > maxTime {
			c.add(t.name, "%s is longer than %s", t.d, maxTime)
			return
		}
	}
	c.need(s.Window > 0, "window", "must be above 0")
	c.need(s.MaxDuration > 0, "max-duration", "must be above 0: a run always has a bound")
	c.need(s.MaxDuration == 0 || s.WarmUp+s.Window+s.Drain <= s.MaxDuration, "max-duration",
		"%s is shorter than warm-up, window and drain together (%s)", s.MaxDuration, s.WarmUp+s.Window+s.Drain)
	c.need(s.MaxBytes >= 0, "max-bytes", "must not be negative")
}
