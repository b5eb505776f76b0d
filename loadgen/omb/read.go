// Package omb reads the workload and driver files of OpenMessaging Benchmark and makes of them what this generator runs.
// Fields that mean nothing here, or something else, are told in Notes; unknown ones are refused with their place.
//
//	workload.yaml: topics, sizes, rates, subscriptions  ┐
//	driver.yaml: replicationFactor, topicConfig,        ├-> workload.Spec, bootstrap servers, security, notes
//	  commonConfig, producerConfig, consumerConfig      ┘
//
// Concurrency: functions of values.
package omb

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tidemark/tidemark/loadgen/security"
	"github.com/tidemark/tidemark/loadgen/workload"
)

// keyCount is the number of distinct keys that OpenMessaging Benchmark's distributors use.
const keyCount = 10000

// Files is what the two files say.
type Files struct {
	Spec      *workload.Spec
	Bootstrap []string         // of commonConfig, nil where it names none
	Security  *security.Client // of commonConfig, nil where it says nothing
	Notes     []string         // what has no meaning here, or another one, each in a sentence
}

// workloadFile has the fields of io.openmessaging.benchmark.Workload.
type workloadFile struct {
	Name                      string  `yaml:"name"`
	Topics                    int     `yaml:"topics"`
	PartitionsPerTopic        int     `yaml:"partitionsPerTopic"`
	KeyDistributor            string  `yaml:"keyDistributor"`
	MessageSize               int     `yaml:"messageSize"`
	UseRandomizedPayloads     bool    `yaml:"useRandomizedPayloads"`
	RandomBytesRatio          float64 `yaml:"randomBytesRatio"`
	RandomizedPayloadPoolSize int     `yaml:"randomizedPayloadPoolSize"`
	PayloadFile               string  `yaml:"payloadFile"`
	SubscriptionsPerTopic     int     `yaml:"subscriptionsPerTopic"`
	ProducersPerTopic         int     `yaml:"producersPerTopic"`
	ConsumerPerSubscription   int     `yaml:"consumerPerSubscription"`
	ProducerRate              float64 `yaml:"producerRate"`
	ConsumerBacklogSizeGB     float64 `yaml:"consumerBacklogSizeGB"`
	BacklogDrainRatio         float64 `yaml:"backlogDrainRatio"`
	TestDurationMinutes       float64 `yaml:"testDurationMinutes"`
	WarmupDurationMinutes     float64 `yaml:"warmupDurationMinutes"`
}

// driverFile has the fields of the Kafka driver's configuration. reset stands in files of forks of it.
type driverFile struct {
	Name              string `yaml:"name"`
	DriverClass       string `yaml:"driverClass"`
	ReplicationFactor int    `yaml:"replicationFactor"`
	Reset             bool   `yaml:"reset"`
	TopicConfig       string `yaml:"topicConfig"`
	CommonConfig      string `yaml:"commonConfig"`
	ProducerConfig    string `yaml:"producerConfig"`
	ConsumerConfig    string `yaml:"consumerConfig"`
}

// reading is the reading of one file.
type reading struct {
	file   string
	text   []byte
	places map[string]workload.Place
	out    *Files
}

func (r *reading) fail(field, format string, a ...any) error {
	return &workload.Problem{File: r.file, Place: r.places[field], Field: field, Text: field + ": " + fmt.Sprintf(format, a...)}
}

func (r *reading) note(field, format string, a ...any) {
	r.out.Notes = append(r.out.Notes, r.fail(field, format, a...).Error())
}

func (r *reading) has(field string) bool { return r.places[field] != workload.Place{} }

func open(path string, into any, out *Files) (*reading, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	r := &reading{file: path, text: text, out: out}
	r.places, err = workload.Decode(path, text, into)
	return r, err
}

// Options say what is read, and which fields something else decides.
type Options struct {
	Workload, Driver string // paths; no Driver leaves clients and topics as the default workload has them
	Closed           bool   // the run is a closed loop whatever producerRate says
	PayloadGiven     bool   // the payload comes from elsewhere than payloadFile
}

// Read reads a workload file and, where one is named, a driver file. The Spec is not validated.
func Read(o Options) (*Files, error) {
	s := workload.Default()
	out := &Files{Spec: &s}
	w := workloadFile{SubscriptionsPerTopic: 0, ProducersPerTopic: 1, ConsumerPerSubscription: 1, KeyDistributor: "NO_KEY"}
	r, err := open(o.Workload, &w, out)
	if err != nil {
		return nil, fmt.Errorf("omb-workload: %w", err)
	}
	if o.PayloadGiven {
		w.PayloadFile, w.UseRandomizedPayloads = "", false
	}
	if err := r.workload(&w, &s, o.Closed); err != nil {
		return nil, fmt.Errorf("omb-workload: %w", err)
	}
	if o.Driver != "" {
		if err := readDriver(o.Driver, out); err != nil {
			return nil, fmt.Errorf("omb-driver: %w", err)
		}
	}
	return out, nil
}

func (r *reading) workload(w *workloadFile, s *workload.Spec, closed bool) error {
	for _, field := range [...]string{"topics", "partitionsPerTopic", "messageSize", "testDurationMinutes"} {
		if !r.has(field) {
			return &workload.Problem{File: r.file, Field: field, Text: field + ": is missing"}
		}
	}
	if w.Topics < 1 || w.Topics > 10000 || w.ProducersPerTopic < 0 || w.SubscriptionsPerTopic < 0 || w.ConsumerPerSubscription < 0 ||
		w.ProducersPerTopic > 10000 || w.SubscriptionsPerTopic > 10000 || w.ConsumerPerSubscription > 10000 {
		return r.fail("topics", "topics, producersPerTopic, subscriptionsPerTopic and consumerPerSubscription are 0 to 10000, topics at least 1")
	}
	s.Name, s.Topics, s.Partitions = w.Name, w.Topics, w.PartitionsPerTopic
	s.RecordSize = workload.FixedSize(w.MessageSize)
	s.Producers = w.ProducersPerTopic * w.Topics
	for range w.SubscriptionsPerTopic {
		if w.ConsumerPerSubscription > 0 {
			s.Groups = append(s.Groups, w.ConsumerPerSubscription*w.Topics)
		}
	}
	if w.Topics > 1 && len(s.Groups) > 0 {
		r.note("subscriptionsPerTopic", "a subscription is one group that reads all %d topics here, with the consumers of all of them", w.Topics)
	}
	if err := r.rate(w, s, closed); err != nil {
		return err
	}
	if err := r.payload(w, s); err != nil {
		return err
	}
	switch w.KeyDistributor {
	case "NO_KEY":
	case "KEY_ROUND_ROBIN":
		s.Keys = workload.Keys{Kind: workload.KeysRoundRobin, N: keyCount}
	case "RANDOM_NANO":
		s.Keys = workload.Keys{Kind: workload.KeysUniform, N: keyCount}
	default:
		known := []string{"NO_KEY", "KEY_ROUND_ROBIN", "RANDOM_NANO"}
		near := ""
		if n := workload.Nearest(w.KeyDistributor, known); n != "" {
			near = fmt.Sprintf(" (did you mean %q?)", n)
		}
		return r.fail("keyDistributor", "%q is none of %s%s", w.KeyDistributor, strings.Join(known, ", "), near)
	}
	return r.times(w, s)
}

func (r *reading) rate(w *workloadFile, s *workload.Spec, closed bool) error {
	switch {
	case closed:
		s.Question, s.Rate = workload.Capacity, 0
		if w.ProducerRate > 0 {
			r.note("producerRate", "has no meaning with --max")
		}
	case w.ProducerRate <= 0 && s.Producers > 0:
		return r.fail("producerRate", "0 asks OpenMessaging Benchmark to look for the highest rate; here that is a run of its own: say --max")
	default:
		s.Rate = w.ProducerRate
	}
	if w.ConsumerBacklogSizeGB > 0 {
		r.note("consumerBacklogSizeGB", "has no meaning here: consumers are not paused to build up a backlog")
	}
	if r.has("backlogDrainRatio") {
		r.note("backlogDrainRatio", "has no meaning here")
	}
	return nil
}

func (r *reading) payload(w *workloadFile, s *workload.Spec) error {
	if w.RandomBytesRatio < 0 || w.RandomBytesRatio > 1 {
		return r.fail("randomBytesRatio", "must be 0 to 1, not %v", w.RandomBytesRatio)
	}
	switch {
	case w.UseRandomizedPayloads:
		s.Compressibility = min(0.99, 1-w.RandomBytesRatio)
		if r.has("randomizedPayloadPoolSize") {
			r.note("randomizedPayloadPoolSize", "has no meaning here: payloads do not repeat")
		}
		if w.PayloadFile != "" {
			r.note("payloadFile", "has no meaning with useRandomizedPayloads")
		}
	case w.PayloadFile != "":
		if !filepath.IsLocal(w.PayloadFile) {
			return r.fail("payloadFile", "%q leaves the folder in which the command runs: say --payload-file to mean it", w.PayloadFile)
		}
		if _, err := os.Stat(w.PayloadFile); err != nil {
			return r.fail("payloadFile", "%v (it is looked for from the folder in which the command runs; --payload-file names another)", err)
		}
		s.PayloadFile = w.PayloadFile
		r.note("payloadFile", "records are cut out of it; OpenMessaging Benchmark sends it whole")
	}
	if s.Verifying() && w.MessageSize < workload.EnvelopeBytes && w.MessageSize > 0 {
		s.Verify = workload.VerifyOff
		r.note("messageSize", "%d bytes have no room for the %d that verification needs: verify is off", w.MessageSize, workload.EnvelopeBytes)
	}
	return nil
}

func (r *reading) times(w *workloadFile, s *workload.Spec) error {
	for _, t := range []struct {
		field   string
		minutes float64
		into    *workload.Duration
	}{{"testDurationMinutes", w.TestDurationMinutes, &s.Window}, {"warmupDurationMinutes", w.WarmupDurationMinutes, &s.WarmUp}} {
		if t.minutes < 0 || t.minutes > 60*24*30 {
			return r.fail(t.field, "must be 0 to %d minutes, not %v", 60*24*30, t.minutes)
		}
		if r.has(t.field) {
			*t.into = workload.Duration(t.minutes * float64(time.Minute))
		}
	}
	if s.Window == 0 {
		return r.fail("testDurationMinutes", "must be above 0")
	}
	s.MaxDuration = max(s.MaxDuration, s.WarmUp+s.Window+s.Drain+workload.Duration(time.Minute))
	return nil
}

// kafkaDrivers are the driver classes whose properties are those of Kafka's clients.
var kafkaDrivers = []string{"io.openmessaging.benchmark.driver.kafka.KafkaBenchmarkDriver", "io.openmessaging.benchmark.driver.redpanda.RedpandaBenchmarkDriver"}

func readDriver(path string, out *Files) error {
	d := driverFile{}
	r, err := open(path, &d, out)
	if err != nil {
		return err
	}
	if !slices.Contains(kafkaDrivers, d.DriverClass) {
		return r.fail("driverClass", "only the driver of Kafka is read: %s", kafkaDrivers[0])
	}
	s := out.Spec
	if r.has("replicationFactor") {
		s.Replication = d.ReplicationFactor
	}
	if r.has("name") && s.Name == "" {
		s.Name = d.Name
	}
	if r.has("reset") {
		r.note("reset", "has no meaning here: a run deletes the topics that it made, and no others")
	}
	if err := r.topicConfig(d.TopicConfig); err != nil {
		return err
	}
	if err := r.commonConfig(d.CommonConfig); err != nil {
		return err
	}
	if err := r.clientConfig("producerConfig", d.ProducerConfig); err != nil {
		return err
	}
	return r.clientConfig("consumerConfig", d.ConsumerConfig)
}
