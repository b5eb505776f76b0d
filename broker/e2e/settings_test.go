package e2e

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/broker/proc"
)

// kafkaTopicSettings are the names that Apache Kafka 4.4 knows (TopicConfig, and LogConfig's throttled replicas).
var kafkaTopicSettings = []string{
	"cleanup.policy", "compression.gzip.level", "compression.lz4.level", "compression.type", "compression.zstd.level",
	"delete.retention.ms", "errors.deadletterqueue.group.enable", "file.delete.delay.ms", "flush.messages", "flush.ms",
	"follower.replication.throttled.replicas", "index.interval.bytes", "leader.replication.throttled.replicas",
	"local.retention.bytes", "local.retention.ms", "max.compaction.lag.ms", "max.decompressed.message.bytes",
	"max.message.bytes", "message.timestamp.after.max.ms", "message.timestamp.before.max.ms", "message.timestamp.type",
	"min.cleanable.dirty.ratio", "min.compaction.lag.ms", "min.insync.replicas", "preallocate", "remote.copy.lag.bytes",
	"remote.copy.lag.ms", "remote.log.copy.disable", "remote.log.delete.on.disable", "remote.storage.enable",
	"retention.bytes", "retention.ms", "segment.bytes", "segment.index.bytes", "segment.jitter.ms", "segment.ms",
	"unclean.leader.election.enable",
}

// TestEveryTopicSetting: each topic setting of Kafka changes what a client or the folder shows, or is taken with a warning
// because nothing can follow from it here. A setting without a line in this table fails the test.
func TestEveryTopicSetting(t *testing.T) {
	log := &logText{}
	s := &settingsTest{data: t.TempDir(), log: log}
	s.b = start(t, proc.Options{Data: s.data, Stderr: log, Properties: []string{"log.retention.check.interval.ms=50",
		"log.cleaner.backoff.ms=10", "log.segment.delete.delay.ms=0"}})
	effects := map[string]func(*testing.T, *settingsTest){
		"cleanup.policy":                  cleanupPolicy,
		"compression.type":                compressionType,
		"compression.gzip.level":          levels("gzip", "1", "9"),
		"compression.lz4.level":           levels("lz4", "1", "17"),
		"compression.zstd.level":          levels("zstd", "1", "19"),
		"delete.retention.ms":             deleteRetention,
		"file.delete.delay.ms":            fileDeleteDelay,
		"flush.messages":                  flushes("flush.messages=1"),
		"flush.ms":                        flushes("flush.ms=1"),
		"tidemark.fsync":                  flushes("tidemark.fsync=batch"),
		"index.interval.bytes":            indexInterval,
		"max.compaction.lag.ms":           compactionStarts("max.compaction.lag.ms=1", "min.cleanable.dirty.ratio=1"),
		"min.cleanable.dirty.ratio":       compactionStarts("min.cleanable.dirty.ratio=0.01", "max.compaction.lag.ms=9223372036854775807"),
		"min.compaction.lag.ms":           minCompactionLag,
		"max.decompressed.message.bytes":  refusesLarge("max.decompressed.message.bytes=20000", kgo.GzipCompression()),
		"max.message.bytes":               refusesLarge("max.message.bytes=20000", kgo.NoCompression()),
		"message.timestamp.after.max.ms":  refusesTime("message.timestamp.after.max.ms=60000", time.Hour/2),
		"message.timestamp.before.max.ms": refusesTime("message.timestamp.before.max.ms=60000", -time.Hour/2),
		"message.timestamp.type":          timestampType,
		"min.insync.replicas":             minInsyncReplicas,
		"preallocate":                     preallocate,
		"retention.bytes":                 deletes("retention.bytes=1048576"),
		"retention.ms":                    deletes("retention.ms=1"),
		"segment.bytes":                   rolls("segment.bytes=1048576", 12, 200_000),
		"segment.index.bytes":             rolls("segment.index.bytes=24 index.interval.bytes=1", 12, 1000),
		"segment.ms":                      rolls("segment.ms=1", 2, 100),
		"segment.jitter.ms":               jitter,
	}
	idle := map[string]string{
		"errors.deadletterqueue.group.enable": "true", "follower.replication.throttled.replicas": "*",
		"leader.replication.throttled.replicas": "*", "local.retention.bytes": "1000", "local.retention.ms": "1000",
		"remote.copy.lag.bytes": "1000", "remote.copy.lag.ms": "1000", "remote.log.copy.disable": "true",
		"remote.log.delete.on.disable": "true", "remote.storage.enable": "false", "unclean.leader.election.enable": "true",
	}
	names := append([]string{"tidemark.fsync"}, kafkaTopicSettings...)
	slices.Sort(names)
	if got := s.names(t); !slices.Equal(got, names) {
		t.Errorf("the broker knows other settings:\n%v\nKafka's and our own are\n%v", got, names)
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			value, without := idle[name]
			switch effect := effects[name]; {
			case effect != nil && !without:
				effect(t, s)
			case effect == nil && without:
				s.warns(t, name, value)
			default:
				t.Error("the setting must be in exactly one of the two tables: what follows from it?")
			}
		})
	}
}

// TestUnknownTopicSettings: a name that Kafka does not know is refused with the nearest one, a name that it no longer knows
// with the reason.
func TestUnknownTopicSettings(t *testing.T) {
	b := start(t, proc.Options{NoAdmin: true, Data: t.TempDir()})
	admin := adminOf(t, b)
	create(t, b, "t", 1)
	for name, want := range map[string]string{
		"retention.mss": `did you mean "retention.ms"?`, "Cleanup.Policy": `did you mean "cleanup.policy"?`,
		"compression.zstd.levle": `did you mean "compression.zstd.level"?`, "nothing.like.it.at.all": "unknown",
		"message.format.version": "removed in Kafka 4.0", "message.downconversion.enable": "removed in Kafka 4.0",
		"message.timestamp.difference.max.ms": "message.timestamp.before.max.ms",
		"remote.storage.enable":               "tiered storage is not served",
	} {
		value := "true"
		if r, err := admin.CreateTopic(t.Context(), 1, 1, map[string]*string{name: &value}, "u"); !errors.Is(err, kerr.InvalidConfig) || !strings.Contains(r.ErrMessage, want) {
			t.Errorf("create with %s: %v %q, want %q", name, err, r.ErrMessage, want)
		}
		r, err := admin.AlterTopicConfigs(t.Context(), []kadm.AlterConfig{{Name: name, Value: &value}}, "t")
		if err != nil || !errors.Is(r[0].Err, kerr.InvalidConfig) || !strings.Contains(r[0].ErrMessage, want) {
			t.Errorf("alter %s: %v %+v, want %q", name, err, r, want)
		}
	}
}

// settingsTest is the broker that all rows of the table share.
type settingsTest struct {
	b    *proc.Broker
	data string
	log  *logText
	made int
}

// topic makes a topic of one partition; settings are separated by blanks.
func (s *settingsTest) topic(t *testing.T, settings ...string) string {
	t.Helper()
	s.made++
	name := fmt.Sprint("topic-", s.made)
	create(t, s.b, name, 1, strings.Fields(strings.Join(settings, " "))...)
	return name
}

// names lists the settings that the broker describes.
func (s *settingsTest) names(t *testing.T) (names []string) {
	t.Helper()
	r, err := adminOf(t, s.b).DescribeTopicConfigs(t.Context(), s.topic(t))
	if err != nil || len(r) != 1 {
		t.Fatal(err, r)
	}
	for _, c := range r[0].Configs {
		names = append(names, c.Key)
	}
	slices.Sort(names)
	return names
}

// warns alters a setting and looks for the value in the description and the warning in the log.
func (s *settingsTest) warns(t *testing.T, name, value string) {
	t.Helper()
	topic := s.topic(t)
	alterTopic(t, s.b, topic, name+"="+value)
	until(t, "a line of the log says that "+name+" has no effect", func() bool {
		for line := range strings.Lines(s.log.String()) {
			if strings.Contains(line, "level=WARN") && strings.Contains(line, name+" has no effect here: ") && strings.Contains(line, "topic="+topic) {
				return true
			}
		}
		return false
	})
	r, err := adminOf(t, s.b).DescribeTopicConfigs(t.Context(), topic)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range r[0].Configs {
		if c.Key == name && (c.MaybeValue() != value || c.Source != kmsg.ConfigSourceDynamicTopicConfig) {
			t.Errorf("described as %q of source %v", c.MaybeValue(), c.Source)
		}
	}
}

// put produces one batch for each value.
func (s *settingsTest) put(t *testing.T, topic string, n, valueBytes int, key string) {
	t.Helper()
	c := newClient(t, s.b, kgo.ProducerBatchCompression(kgo.NoCompression()))
	defer c.Close()
	for range n {
		r := &kgo.Record{Topic: topic, Value: make([]byte, valueBytes)}
		if key != "" {
			r.Key = []byte(key)
		}
		if err := c.ProduceSync(t.Context(), r).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
}

func (s *settingsTest) files(t *testing.T, topic, pattern string) []string {
	t.Helper()
	list, err := filepath.Glob(filepath.Join(s.data, topic, pattern))
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// size is what the broker tells of a topic's size.
func (s *settingsTest) size(t *testing.T, topic string) int64 {
	t.Helper()
	dirs, err := adminOf(t, s.b).DescribeAllLogDirs(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range dirs.Sorted() {
		if p, ok := d.Topics.Lookup(topic, 0); ok {
			return p.Size
		}
	}
	t.Fatalf("no folder holds %s", topic)
	return 0
}

// fsyncs adds up the broker's calls of fsync.
func (s *settingsTest) fsyncs(t *testing.T) float64 { return s.sum(t, "tidemark_fsyncs_total") }

// sum adds up a figure of all log folders.
func (s *settingsTest) sum(t *testing.T, name string) (sum float64) {
	t.Helper()
	resp, err := http.Get("http://" + s.b.Admin + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	page, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(page)) {
		if strings.HasPrefix(line, name+"{") {
			v, err := strconv.ParseFloat(strings.TrimSpace(line[strings.LastIndex(line, " "):]), 64)
			if err != nil {
				t.Fatal(err)
			}
			sum += v
		}
	}
	return sum
}

func (s *settingsTest) start(t *testing.T, topic string) int64 {
	t.Helper()
	return dial(t, s.b.Addr).listOffset(topic, -2).Offset
}

func cleanupPolicy(t *testing.T, s *settingsTest) {
	topic := s.topic(t, "cleanup.policy=compact")
	c := newClient(t, s.b)
	if _, err := send(t, c, topic, nil, 10); !errors.Is(err, kerr.InvalidRecord) {
		t.Errorf("a record without key in a compacted topic: %v", err)
	}
	alterTopic(t, s.b, topic, "cleanup.policy=delete")
	if _, err := send(t, c, topic, nil, 10); err != nil {
		t.Errorf("a record without key: %v", err)
	}
}

func compressionType(t *testing.T, s *settingsTest) {
	for code, codec := range []string{"uncompressed", "gzip", "snappy", "lz4", "zstd"} {
		topic := s.topic(t, "compression.type="+codec)
		c := newClient(t, s.b, kgo.ProducerBatchCompression(kgo.Lz4Compression()))
		if _, err := send(t, c, topic, nil, 5000); err != nil {
			t.Fatal(err)
		}
		got := batches(t, dial(t, s.b.Addr).fetchOne(topic, 0).RecordBatches)
		if len(got) != 1 || int(got[0].Attributes&7) != code {
			t.Errorf("compression.type=%s stores codec %d", codec, got[0].Attributes&7)
		}
	}
}

// levels compares what a low and a high level make of the same text.
func levels(codec, low, high string) func(*testing.T, *settingsTest) {
	return func(t *testing.T, s *settingsTest) {
		r := rand.New(rand.NewPCG(1, 2))
		var text []byte
		for len(text) < 300_000 {
			text = fmt.Appendf(text, "%x level %s of word-%d, ", r.IntN(50), pick(r, "high", "low", "medium"), r.IntN(3000))
		}
		var sizes []int64
		for _, level := range []string{low, high} {
			topic := s.topic(t, "compression.type="+codec, "compression."+codec+".level="+level)
			c := newClient(t, s.b, kgo.ProducerBatchCompression(kgo.NoCompression()))
			if err := c.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Value: text}).FirstErr(); err != nil {
				t.Fatal(err)
			}
			sizes = append(sizes, s.size(t, topic))
		}
		if sizes[1] >= sizes[0] {
			t.Errorf("level %s makes %d bytes, level %s %d", low, sizes[0], high, sizes[1])
		}
	}
}

// compacted are the settings of a topic that is cleaned at once.
const compacted = "cleanup.policy=compact segment.ms=1 min.cleanable.dirty.ratio=0.01"

// records counts a topic's records with and without a value.
func (s *settingsTest) records(t *testing.T, topic string) (values, tombstones int) {
	t.Helper()
	end := dial(t, s.b.Addr).listOffset(topic, -1).Offset
	c := newClient(t, s.b, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().AtStart()}}))
	defer c.Close()
	for last := int64(-1); last < end-1; {
		f := c.PollFetches(t.Context())
		if err := f.Err0(); err != nil {
			t.Fatal(err)
		}
		f.EachRecord(func(r *kgo.Record) {
			last = r.Offset
			if r.Value == nil {
				tombstones++
			} else {
				values++
			}
		})
	}
	return values, tombstones
}

func deleteRetention(t *testing.T, s *settingsTest) {
	for _, ms := range []string{"0", "86400000"} {
		topic := s.topic(t, compacted, "delete.retention.ms="+ms)
		c := newClient(t, s.b)
		if err := c.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Key: []byte("dead")}).FirstErr(); err != nil {
			t.Fatal(err)
		}
		produced := 20
		s.put(t, topic, produced, 10, "alive")
		until(t, "most values of a key are compacted away, with delete.retention.ms="+ms, func() bool {
			s.put(t, topic, 1, 10, "alive") // what is appended rolls a segment, what is rolled can be cleaned
			produced++
			values, tombstones := s.records(t, topic)
			return values < produced/2 && (tombstones == 0 || ms != "0")
		})
		if _, tombstones := s.records(t, topic); ms != "0" && tombstones == 0 {
			t.Error("a tombstone is gone before delete.retention.ms")
		}
	}
}

func compactionStarts(by, not string) func(*testing.T, *settingsTest) {
	return func(t *testing.T, s *settingsTest) {
		topic := s.topic(t, "cleanup.policy=compact segment.ms=1", by, not)
		produced := 5
		s.put(t, topic, produced, 10, "k")
		until(t, "compaction starts by "+by, func() bool {
			s.put(t, topic, 1, 10, "k")
			produced++
			values, _ := s.records(t, topic)
			return values < produced-2
		})
		if s.sum(t, "tidemark_cleaner_logs_total") == 0 || s.sum(t, "tidemark_cleaner_read_bytes_total") <= s.sum(t, "tidemark_cleaner_written_bytes_total") ||
			s.sum(t, "tidemark_cleaner_seconds_since_last_run") < 0 || s.sum(t, "tidemark_cleaner_uncleanable_partitions") != 0 {
			t.Error("the figures of the cleaner do not tell of it")
		}
	}
}

func minCompactionLag(t *testing.T, s *settingsTest) {
	late, soon := s.topic(t, compacted, "min.compaction.lag.ms=3600000"), s.topic(t, compacted)
	produced := 20
	s.put(t, late, produced, 10, "k")
	s.put(t, soon, produced, 10, "k")
	until(t, "the topic without min.compaction.lag.ms is compacted", func() bool {
		s.put(t, late, 1, 10, "k")
		s.put(t, soon, 1, 10, "k")
		produced++
		values, _ := s.records(t, soon)
		return values < produced/2
	})
	if values, _ := s.records(t, late); values != produced {
		t.Errorf("%d of %d records are left before min.compaction.lag.ms", values, produced)
	}
}

func fileDeleteDelay(t *testing.T, s *settingsTest) {
	late, soon := s.topic(t, "segment.ms=1 retention.ms=1 file.delete.delay.ms=3600000"), s.topic(t, "segment.ms=1 retention.ms=1 file.delete.delay.ms=0")
	for _, topic := range []string{late, soon} {
		s.put(t, topic, 3, 10, "")
		until(t, "retention deletes", func() bool { return s.start(t, topic) > 1 })
	}
	until(t, "a *.deleted file waits for file.delete.delay.ms", func() bool { return len(s.files(t, late+"-0", "*.deleted")) > 0 })
	until(t, "the files go at once without a delay", func() bool { return len(s.files(t, soon+"-0", "*.deleted")) == 0 })
}

func flushes(by string) func(*testing.T, *settingsTest) {
	return func(t *testing.T, s *settingsTest) {
		const n = 30
		count := func(topic string) float64 {
			before := s.fsyncs(t)
			s.put(t, topic, n, 10, "")
			return s.fsyncs(t) - before
		}
		plain, flushed := s.topic(t), s.topic(t, by)
		if strings.HasPrefix(by, "flush.ms") { // the schedule flushes, and not after each record
			before := s.fsyncs(t)
			until(t, "flush.ms=1 flushes", func() bool {
				s.put(t, flushed, 1, 10, "")
				return s.fsyncs(t)-before >= 2
			})
			return
		}
		for try := range 5 { // what other topics have left to flush may fall into the one without
			without, with := count(plain), count(flushed)
			if with >= n && with > without {
				return
			}
			if with < n || try == 4 {
				t.Fatalf("%d records made %v fsyncs, and %v with %s", n, without, with, by)
			}
		}
	}
}

func indexInterval(t *testing.T, s *settingsTest) {
	for interval, holds := range map[string]func(bytes int64) bool{
		"1":       func(bytes int64) bool { return bytes >= 30*8 },
		"1000000": func(bytes int64) bool { return bytes <= 8*2 },
	} {
		topic := s.topic(t, "segment.bytes=1048576 index.interval.bytes="+interval)
		s.put(t, topic, 80, 20_000, "")
		first := filepath.Join(s.data, topic+"-0", "00000000000000000000.index")
		until(t, "the index of a rolled segment is written, with index.interval.bytes="+interval, func() bool {
			i, err := os.Stat(first)
			return err == nil && holds(i.Size())
		})
	}
}

func refusesLarge(by string, codec kgo.CompressionCodec) func(*testing.T, *settingsTest) {
	return func(t *testing.T, s *settingsTest) {
		topic := s.topic(t, by)
		c := newClient(t, s.b, kgo.ProducerBatchCompression(codec))
		if _, err := send(t, c, topic, nil, 10_000); err != nil {
			t.Errorf("half of %s: %v", by, err)
		}
		if _, err := send(t, c, topic, nil, 40_000); !errors.Is(err, kerr.MessageTooLarge) && !errors.Is(err, kerr.InvalidRecord) {
			t.Errorf("twice %s: %v", by, err)
		}
	}
}

func refusesTime(by string, off time.Duration) func(*testing.T, *settingsTest) {
	return func(t *testing.T, s *settingsTest) {
		topic := s.topic(t, by)
		c := newClient(t, s.b)
		at := func(d time.Duration) error {
			return c.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Value: []byte("v"), Timestamp: time.Now().Add(d)}).FirstErr()
		}
		if err := at(0); err != nil {
			t.Error(err)
		}
		if err := at(off); !errors.Is(err, kerr.InvalidTimestamp) {
			t.Errorf("%v off with %s: %v", off, by, err)
		}
		alterTopic(t, s.b, topic, "message.timestamp.type=LogAppendTime") // then the broker's time counts
		if err := at(off); err != nil {
			t.Errorf("%v off with LogAppendTime: %v", off, err)
		}
	}
}

func timestampType(t *testing.T, s *settingsTest) {
	old := time.Now().Add(-time.Hour).Truncate(time.Millisecond)
	for kind, mine := range map[string]bool{"CreateTime": true, "LogAppendTime": false} {
		topic := s.topic(t, "message.timestamp.type="+kind)
		c := newClient(t, s.b, kgo.ConsumeTopics(topic))
		if err := c.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Value: []byte("v"), Timestamp: old}).FirstErr(); err != nil {
			t.Fatal(err)
		}
		f := c.PollFetches(t.Context())
		if got := f.Records()[0].Timestamp; got.Equal(old) != mine || got.Before(old) {
			t.Errorf("%s: a record of %v comes back with %v", kind, old, got)
		}
	}
}

// minInsyncReplicas: one replica is all that can be in sync, and the effective minimum is no more (KIP-966).
func minInsyncReplicas(t *testing.T, s *settingsTest) {
	s.put(t, s.topic(t, "min.insync.replicas=2"), 1, 10, "")
}

func preallocate(t *testing.T, s *settingsTest) {
	for value, want := range map[string]bool{"true": true, "false": false} {
		topic := s.topic(t, "segment.bytes=8388608 preallocate="+value)
		s.put(t, topic, 1, 10, "")
		var st syscall.Stat_t
		if err := syscall.Stat(s.files(t, topic+"-0", "*.log")[0], &st); err != nil {
			t.Fatal(err)
		}
		if got := st.Blocks*512 >= 4<<20; got != want {
			t.Errorf("preallocate=%s: the file has %d bytes on disk", value, st.Blocks*512)
		}
	}
}

func deletes(by string) func(*testing.T, *settingsTest) {
	return func(t *testing.T, s *settingsTest) {
		topic := s.topic(t, "segment.bytes=1048576")
		s.put(t, topic, 12, 300_000, "")
		if at := s.start(t, topic); at != 0 {
			t.Fatalf("the log starts at %d", at)
		}
		alterTopic(t, s.b, topic, by)
		until(t, by+" deletes old segments", func() bool { return s.start(t, topic) > 0 })
	}
}

func rolls(by string, n, valueBytes int) func(*testing.T, *settingsTest) {
	return func(t *testing.T, s *settingsTest) {
		topic := s.topic(t, by)
		until(t, by+" rolls", func() bool {
			s.put(t, topic, n, valueBytes, "")
			return len(s.files(t, topic+"-0", "*.log")) > 2
		})
	}
}

// jitter: of many partitions that would roll after five minutes, one does within seconds.
func jitter(t *testing.T, s *settingsTest) {
	const partitions = 200
	s.made++
	topic := fmt.Sprint("topic-", s.made)
	create(t, s.b, topic, partitions, "segment.ms=300000", "segment.jitter.ms=300000")
	c := newClient(t, s.b, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	until(t, "segment.jitter.ms lets one of many partitions roll early", func() bool {
		var rs []*kgo.Record
		for p := range int32(partitions) {
			rs = append(rs, &kgo.Record{Topic: topic, Partition: p, Value: []byte("v")})
		}
		if err := c.ProduceSync(t.Context(), rs...).FirstErr(); err != nil {
			t.Fatal(err)
		}
		return len(s.files(t, topic+"-*", "*.log")) > partitions
	})
}
