package omb

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidemark/tidemark/loadgen/workload"
)

const load = `name: two topics
topics: 2
partitionsPerTopic: 16
keyDistributor: "KEY_ROUND_ROBIN"
messageSize: 100
useRandomizedPayloads: true
randomBytesRatio: 0.25
randomizedPayloadPoolSize: 1000
subscriptionsPerTopic: 3
consumerPerSubscription: 2
producersPerTopic: 4
producerRate: 50000
consumerBacklogSizeGB: 0
testDurationMinutes: 15
warmupDurationMinutes: 1
`

const kafkaDriver = `name: Kafka
driverClass: io.openmessaging.benchmark.driver.kafka.KafkaBenchmarkDriver
replicationFactor: 3
reset: true
topicConfig: |
  min.insync.replicas=2
commonConfig: |
  # where
  bootstrap.servers=a:9092, b:9092
  security.protocol=SASL_PLAINTEXT
  sasl.mechanism=PLAIN
  sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="s3cr";
producerConfig: |
  acks=-1
  linger.ms=1
  batch.size=1048576
  enable.idempotence=true
  compression.type=lz4
  key.serializer=x
consumerConfig: |
  auto.offset.reset=earliest
  enable.auto.commit=false
  max.partition.fetch.bytes=10485760
  partition.assignment.strategy=org.apache.kafka.clients.consumer.RoundRobinAssignor
`

// read reads both texts as files.
func read(t testing.TB, o Options, load, driver string) (*Files, error) {
	t.Helper()
	dir := t.TempDir()
	o.Workload = filepath.Join(dir, "w.yaml")
	if err := os.WriteFile(o.Workload, []byte(load), 0o600); err != nil {
		t.Fatal(err)
	}
	if driver != "" {
		o.Driver = filepath.Join(dir, "d.yaml")
		if err := os.WriteFile(o.Driver, []byte(driver), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return Read(o)
}

func TestBothFilesBecomeAWorkload(t *testing.T) {
	f, err := read(t, Options{}, load, kafkaDriver)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"name": "two topics", "topics": "2", "partitions": "16", "keys": "roundrobin(10000)", "record-size": "100B",
		"compressibility": "0.75", "groups": "4,4,4", "producers": "8", "rate": "50000", "window": "15m", "warm-up": "1m", "replication": "3",
		"topic-configs": "min.insync.replicas=2", "acks": "all", "linger": "1ms", "batch-size": "1MiB", "idempotence": "true", "compression": "lz4",
		"consume-from": "earliest", "commit": "async", "fetch-partition-max": "10MiB", "assignor": "roundrobin", "question": "latency"} {
		if got, _ := f.Spec.Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if err := f.Spec.Validate(); err != nil {
		t.Error(err)
	}
	if !slices.Equal(f.Bootstrap, []string{"a:9092", "b:9092"}) || f.Security == nil || f.Security.Words() != "SASL_PLAINTEXT, PLAIN" {
		t.Errorf("%q %v", f.Bootstrap, f.Security)
	}
	notes := strings.Join(f.Notes, "\n")
	for _, want := range []string{"w.yaml:8:1: randomizedPayloadPoolSize: has no meaning here", "d.yaml:4:1: reset: has no meaning here: a run deletes the topics that it made",
		"d.yaml:19:1: key.serializer: has no meaning here", "subscriptionsPerTopic: a subscription is one group"} {
		if !strings.Contains(notes, want) {
			t.Errorf("%q is not in\n%s", want, notes)
		}
	}
	if strings.Contains(notes, "s3cr") {
		t.Error("a secret is told")
	}
}

func TestAClosedLoopTakesNoRate(t *testing.T) {
	f, err := read(t, Options{Closed: true}, strings.ReplaceAll(load, "producerRate: 50000", "producerRate: 0"), "")
	if err != nil || f.Spec.Question != workload.Capacity || f.Spec.Rate != 0 || f.Spec.Validate() != nil {
		t.Errorf("%+v %v", f, err)
	}
}

func TestWhatCannotBeReadIsRefusedWithItsPlace(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, c := range []struct{ name, file, old, new, says string }{
		{"unknown field", "w", "producerRate:", "producerate:", `w.yaml:12:1: unknown field "producerate" (did you mean "producerRate"?)`},
		{"missing", "w", "messageSize: 100\n", "", `messageSize: is missing`},
		{"no rate", "w", "producerRate: 50000", "producerRate: 0", `w.yaml:12:1: producerRate: 0 asks OpenMessaging Benchmark to look for the highest rate; here that is a run of its own: say --max`},
		{"unit", "w", "testDurationMinutes: 15", "testDurationMinutes: 15m", `w.yaml:14:22: testDurationMinutes: must be a number, not "15m"`},
		{"no length", "w", "testDurationMinutes: 15", "testDurationMinutes: 0", `w.yaml:14:1: testDurationMinutes: must be above 0`},
		{"endless", "w", "testDurationMinutes: 15", "testDurationMinutes: 1e300", `testDurationMinutes: must be 0 to`},
		{"keys", "w", "KEY_ROUND_ROBIN", "KEY_ROUND_ROBBIN", `keyDistributor: "KEY_ROUND_ROBBIN" is none of NO_KEY, KEY_ROUND_ROBIN, RANDOM_NANO (did you mean "KEY_ROUND_ROBIN"?)`},
		{"ratio", "w", "randomBytesRatio: 0.25", "randomBytesRatio: 25", `w.yaml:7:1: randomBytesRatio: must be 0 to 1`},
		{"too many", "w", "topics: 2", "topics: 2000000", `w.yaml:2:1: topics: topics, producersPerTopic`},
		{"path that escapes", "w", "useRandomizedPayloads: true", "payloadFile: ../../etc/passwd", `w.yaml:6:1: payloadFile: "../../etc/passwd" leaves the folder`},
		{"absolute path", "w", "useRandomizedPayloads: true", "payloadFile: /etc/passwd", `payloadFile: "/etc/passwd" leaves the folder`},
		{"no payload", "w", "useRandomizedPayloads: true", "payloadFile: payload/payload-1Kb.data", `payloadFile: stat payload/payload-1Kb.data: no such file`},
		{"another system", "d", "kafka.KafkaBenchmarkDriver", "pulsar.PulsarBenchmarkDriver", `d.yaml:2:1: driverClass: only the driver of Kafka is read`},
		{"driver's field", "d", "replicationFactor", "replicationFacter", `d.yaml:3:1: unknown field "replicationFacter" (did you mean "replicationFactor"?)`},
		{"unknown property", "d", "linger.ms=1", "lingr.ms=1", `d.yaml:15:1: lingr.ms: unknown property (did you mean "linger.ms"?)`},
		{"property's unit", "d", "linger.ms=1", "linger.ms=1ms", `d.yaml:15:1: linger.ms: "1ms" is not a number of milliseconds`},
		{"overflow", "d", "linger.ms=1", "linger.ms=9223372036854775807", `d.yaml:15:1: linger.ms: "9223372036854775807" is not a number of milliseconds`},
		{"misplaced", "d", "linger.ms=1", "security.protocol=SSL", `d.yaml:15:1: security.protocol: belongs into commonConfig`},
		{"misplaced servers", "d", "linger.ms=1", "bootstrap.servers=x:1", `belongs into commonConfig`},
		{"boolean", "d", "enable.auto.commit=false", "enable.auto.commit=no", `"no" is neither true nor false`},
		{"assignor", "d", "RoundRobinAssignor", "MyAssignor", `the class is none of Kafka's`},
	} {
		t.Run(c.name, func(t *testing.T) {
			w, d := load, kafkaDriver
			if c.file == "w" {
				w = strings.Replace(w, c.old, c.new, 1)
			} else {
				d = strings.Replace(d, c.old, c.new, 1)
			}
			_, err := read(t, Options{}, w, d)
			var p *workload.Problem
			if err == nil || !strings.Contains(err.Error(), c.says) || !errors.As(err, &p) {
				t.Errorf("got  %v\nwant %s", err, c.says)
			}
		})
	}
}

func TestSmallMessagesAreNotVerified(t *testing.T) {
	f, err := read(t, Options{}, strings.Replace(load, "messageSize: 100", "messageSize: 10", 1), "")
	if err != nil || f.Spec.Verify != workload.VerifyOff || !strings.Contains(strings.Join(f.Notes, ""), "verify is off") {
		t.Errorf("%+v %v", f, err)
	}
	if f.Spec.Window.D() != 15*time.Minute || f.Spec.Validate() != nil {
		t.Errorf("%v %v", f.Spec.Window, f.Spec.Validate())
	}
}

func FuzzRead(f *testing.F) {
	f.Add(load, kafkaDriver)
	f.Fuzz(func(t *testing.T, load, driver string) {
		if files, err := read(t, Options{}, load, driver); err == nil && len(files.Spec.Groups) < 100 {
			_ = files.Spec.Validate()
		}
	})
}
