package config

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func TestDefaultsAreKafkas(t *testing.T) {
	b := Default()
	for _, c := range []struct {
		name      string
		got, want any
	}{
		{"log.segment.bytes", b.LogSegmentBytes, int32(1 << 30)},
		{"log.retention.ms", b.LogRetentionMS, int64(168 * 3600_000)},
		{"log.roll.ms", b.LogRollMS, int64(168 * 3600_000)},
		{"log.roll.jitter.ms", b.LogRollJitterMS, int64(0)},
		{"log.flush.interval.ms", b.LogFlushIntervalMS, int64(math.MaxInt64)},
		{"log.dirs", b.LogDirs, []string{"/tmp/kafka-logs"}},
		{"num.partitions", b.NumPartitions, int32(1)},
		{"message.max.bytes", b.MessageMaxBytes, int32(1048588)},
		{"queued.max.request.bytes", b.QueuedMaxRequestBytes, int64(256 << 20)},
		{"offsets.topic.num.partitions", b.OffsetsTopicNumPartitions, int32(50)},
		{"group.initial.rebalance.delay.ms", b.GroupInitialRebalanceDelayMS, int32(3000)},
		{"auto.create.topics.enable", b.AutoCreateTopicsEnable, true},
		{"topic retention.ms", b.TopicDefaults().RetentionMS, int64(168 * 3600_000)},
		{"topic cleanup.policy", b.TopicDefaults().CleanupPolicy, []string{"delete"}},
		{"topic message.timestamp.type", b.TopicDefaults().MessageTimestampType, "CreateTime"},
		{"topic max.message.bytes", b.TopicDefaults().MaxMessageBytes, int32(1048588)},
	} {
		if !reflect.DeepEqual(c.got, c.want) {
			t.Errorf("%s: default %v, want %v", c.name, c.got, c.want)
		}
	}
}

func TestTablesAndStructsAgree(t *testing.T) {
	check := func(v reflect.Type, defs []Definition, elsewhere ...string) {
		fields := map[string]bool{}
		for i := range v.NumField() {
			if p := v.Field(i).Tag.Get("property"); p != "" {
				fields[p] = true
				if find(defs, p) == nil {
					t.Errorf("%s.%s: no definition of %s", v.Name(), v.Field(i).Name, p)
				}
				if got := fieldName(p); got != v.Field(i).Name {
					t.Errorf("%s is field %s, by the rule it is %s", p, v.Field(i).Name, got)
				}
			}
		}
		for _, d := range defs {
			if err := d.check(d.Default); err != nil && !d.Null {
				t.Errorf("default of %s: %v", d.Name, err)
			}
			if !fields[d.Name] && !slices.Contains(elsewhere, d.Name) {
				t.Errorf("%s.%s is missing", v.Name(), fieldName(d.Name))
			}
			for _, s := range d.Synonyms {
				if BrokerDefinition(s) == nil {
					t.Errorf("%s: synonym %s is not defined", d.Name, s)
				}
			}
			if reason, unused := unusedReason(d.Name); unused && v.Name() == "Broker" {
				t.Errorf("%s is honoured and also said to be unused: %s", d.Name, reason)
			}
		}
	}
	check(reflect.TypeFor[Broker](), brokerTable, "broker.id", "log.dir", "log.retention.hours", "log.retention.minutes",
		"log.roll.hours", "log.roll.jitter.hours")
	check(reflect.TypeFor[Topic](), topicTable, "errors.deadletterqueue.group.enable", "follower.replication.throttled.replicas",
		"leader.replication.throttled.replicas", "local.retention.bytes", "local.retention.ms", "remote.copy.lag.bytes",
		"remote.copy.lag.ms", "remote.log.copy.disable", "remote.log.delete.on.disable", "remote.storage.enable")
}

func fieldName(property string) string {
	var b strings.Builder
	for _, word := range strings.Split(property, ".") {
		switch word {
		case "ms", "id", "ip":
			b.WriteString(strings.ToUpper(word))
		default:
			b.WriteString(strings.ToUpper(word[:1]) + word[1:])
		}
	}
	return b.String()
}

func TestPropertiesSyntaxIsJavas(t *testing.T) {
	const file = "# comment\n! also\n\n  a = 1\nb:2\nc 3\nlong = x,\\\n   y,\\\n\tz\nkey\\ with\\:sep=v\nuni=\\u00e9\\uD83D\\uDE00\n" +
		"tab=\\ta\\\\\nempty\nlast=end\\"
	got, err := parseProperties([]byte(file))
	if err != nil {
		t.Fatal(err)
	}
	want := []property{{"a", "1", 4}, {"b", "2", 5}, {"c", "3", 6}, {"long", "x,y,z", 7}, {"key with:sep", "v", 10},
		{"uni", "é😀", 11}, {"tab", "\ta\\", 12}, {"empty", "", 13}, {"last", "end", 14}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if _, err := parseProperties([]byte("a=1\nb=\\u12\n")); err == nil || !strings.HasPrefix(err.Error(), "2:") {
		t.Errorf("a broken escape: %v, want an error in line 2", err)
	}
}

func FuzzParseProperties(f *testing.F) {
	f.Add([]byte("a=1\n#c\nb \\\n c\\u0041"))
	f.Add([]byte("listeners=PLAINTEXT://:9092\nlog.retention.hours=-1"))
	f.Fuzz(func(t *testing.T, file []byte) {
		properties, err := parseProperties(file)
		for _, p := range properties {
			if p.line < 1 || err != nil {
				t.Fatalf("%+v, %v", p, err)
			}
		}
		_, _, _ = Parse("f", file, nil)
	})
}

func TestRefusals(t *testing.T) {
	for _, c := range []struct {
		file, over, want string
	}{
		{"a=1\n", "", `unknown property "a": Kafka 4 has none of that name`},
		{"\nlog.segment.byte=1", "", `s.properties:2: unknown property "log.segment.byte" (did you mean "log.segment.bytes"?)`},
		{"num.partitions=x", "", `s.properties:1: num.partitions: "x" is not a number of type int`},
		{"num.partitions=0", "", `s.properties:1: num.partitions: 0 is too small: at least 1`},
		{"log.segment.bytes=1000", "", "1000 is too small: at least 1048576"},
		{"log.segment.bytes=4294967296", "", "is not a number of type int"},
		{"compression.type=brotli", "", `"brotli" is not one of uncompressed, zstd, lz4, snappy, gzip, producer`},
		{"auto.create.topics.enable=yes", "", `"yes" is neither true nor false`},
		{"log.cleanup.policy=delete,keep", "", `"keep" is not one of compact, delete`},
		{"log.retention.ms=0", "", "s.properties:1: log.retention.ms: 0: want -1 (for ever) or at least 1"},
		{"listeners=SSL://:9093", "", "s.properties:1: listeners: \"SSL://:9093\": SSL listeners are not served yet"},
		{"listeners=SASL_PLAINTEXT://:9093", "", "SASL_PLAINTEXT listeners are not served yet"},
		{"listeners=CLIENT://:1\nlistener.security.protocol.map=CLIENT:SASL_SSL", "", "SASL_SSL listeners are not served yet"},
		{"listeners=OTHER://:1", "", "listener.security.protocol.map gives OTHER no protocol"},
		{"listeners=PLAINTEXT:9092", "", "want NAME://host:port"},
		{"advertised.listeners=PLAINTEXT://0.0.0.0:9092", "", "no client can connect to the address of all interfaces"},
		{"advertised.listeners=EXTERNAL://h:1\nlistener.security.protocol.map=EXTERNAL:PLAINTEXT,PLAINTEXT:PLAINTEXT", "", "EXTERNAL is not among listeners"},
		{"controller.quorum.voters=0@a:1,1@b:1,2@c:1", "", "a quorum of more than this node (node.id 0) is not served"},
		{"process.roles=controller", "", "a single node is both"},
		{"node.id=1\nbroker.id=2", "", "2 differs from node.id 1"},
		{"authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer", "", "authorizers are not served"},
		{"queued.max.request.bytes=10", "", "is less than socket.request.max.bytes"},
		{"", "tidemark.tail.byte=1", `override tidemark.tail.byte: unknown property "tidemark.tail.byte" (did you mean "tidemark.tail.bytes"?)`},
		{"", "noequals", `override "noequals": want name=value`},
	} {
		var over []string
		if c.over != "" {
			over = []string{c.over}
		}
		_, _, err := Parse("s.properties", []byte(c.file), over)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q %q:\n got  %v\n want %s", c.file, c.over, err, c.want)
		}
	}
}

// TestTheMemoryOfRequestsFollowsTheirLargestSize: Kafka starts with a larger socket.request.max.bytes alone, since it has no bound on
// the memory of requests; here the bound that was not given gives way, and says so. One that was given is held against it.
func TestTheMemoryOfRequestsFollowsTheirLargestSize(t *testing.T) {
	const more = 300 << 20
	largest := fmt.Sprintf("socket.request.max.bytes=%d", more)
	b, warnings, err := Parse("s.properties", []byte("\n"+largest), nil)
	if err != nil {
		t.Fatal(err)
	}
	if b.QueuedMaxRequestBytes != more || len(warnings) != 1 || warnings[0].Where != "s.properties:2" ||
		!strings.Contains(warnings[0].Text, "queued.max.request.bytes") {
		t.Errorf("the bound is %d, warnings %+v", b.QueuedMaxRequestBytes, warnings)
	}
	for _, e := range b.Describe() {
		if e.Definition.Name == "queued.max.request.bytes" && (e.Value != fmt.Sprint(more) || e.Source != DefaultSource) {
			t.Errorf("described as %+v", e)
		}
	}
	if err := b.SetDynamic(nil, map[string]string{"log.retention.ms": "5000"}); err != nil || b.Now().QueuedMaxRequestBytes != more {
		t.Errorf("after a change at run time the bound is %d: %v", b.Now().QueuedMaxRequestBytes, err)
	}
	for over, want := range map[string]int64{"queued.max.request.bytes=-1": math.MaxInt64, "queued.max.request.bytes=400000000": 400_000_000} {
		b, warnings, err := Parse("", nil, []string{largest, over})
		if err != nil || b.QueuedMaxRequestBytes != want || len(warnings) != 0 {
			t.Errorf("%s: %v, %+v", over, err, warnings)
		}
	}
	_, _, err = Parse("s.properties", []byte(largest+"\nqueued.max.request.bytes=268435456"), nil)
	if err == nil || !strings.HasPrefix(err.Error(), "s.properties:2: queued.max.request.bytes: 268435456 is less than") {
		t.Errorf("a bound that was given, and is less: %v", err)
	}
}

func TestKafkasOneNodeConfigurationStarts(t *testing.T) {
	const file = `process.roles=broker,controller
node.id=7
controller.quorum.voters=7@127.0.0.1:19192
listeners=PLAINTEXT://127.0.0.1:19092,CONTROLLER://127.0.0.1:19192
advertised.listeners=PLAINTEXT://example.org:19092
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
log.dirs=/a,/b
offsets.topic.replication.factor=1
transaction.state.log.min.isr=1
num.network.threads=3
log.retention.hours=2
listener.name.internal.ssl.keystore.location=/x
`
	b, warnings, err := Parse("server.properties", []byte(file), []string{"log.retention.minutes=5"})
	if err != nil {
		t.Fatal(err)
	}
	if got := b.ClientListeners(); !reflect.DeepEqual(got, []Listener{{"PLAINTEXT", "127.0.0.1", 19092, "PLAINTEXT"}}) {
		t.Errorf("listeners %+v", got)
	}
	if got, _ := b.Advertised("PLAINTEXT"); got.Host != "example.org" {
		t.Errorf("advertised %+v", got)
	}
	if b.NodeID != 7 || b.LogRetentionMS != 300_000 || b.MetadataDir() != "/a" {
		t.Errorf("node %d, retention %d, metadata in %s", b.NodeID, b.LogRetentionMS, b.MetadataDir())
	}
	var names []string
	for _, w := range warnings {
		names = append(names, w.Property)
	}
	want := []string{"transaction.state.log.min.isr", "num.network.threads", "listener.name.internal.ssl.keystore.location", "listeners"}
	if !slices.Equal(names, want) {
		t.Errorf("warnings for %v, want %v", names, want)
	}
}

// TestWhatIsTheAuthorizersHasNoEffect: Kafka 4's StandardAuthorizer reads two properties more; without authorizer.class.name
// nothing follows from them there either.
func TestWhatIsTheAuthorizersHasNoEffect(t *testing.T) {
	_, warnings, err := Parse("s.properties", []byte("super.users=User:admin\nallow.everyone.if.no.acl.found=false\n"), nil)
	if err != nil || len(warnings) != 2 {
		t.Fatalf("%v, %+v", err, warnings)
	}
	for i, w := range warnings {
		if w.Where != fmt.Sprint("s.properties:", i+1) || !strings.Contains(w.Text, "authorizers are not served") {
			t.Errorf("%+v", w)
		}
	}
}

func TestTopicSettings(t *testing.T) {
	b, _, err := Parse("", nil, []string{"log.retention.hours=1", "min.insync.replicas=2"})
	if err != nil {
		t.Fatal(err)
	}
	topic, err := b.Topic(map[string]string{"cleanup.policy": "compact, delete", "segment.ms": " 60000"})
	if err != nil {
		t.Fatal(err)
	}
	if !topic.Compacts() || !topic.Deletes() || topic.SegmentMS != 60000 || topic.RetentionMS != 3600_000 || topic.MinInsyncReplicas != 2 {
		t.Errorf("topic %+v", topic)
	}
	for over, want := range map[string]string{
		"retention.mss=1":              `retention.mss: unknown topic config name (did you mean "retention.ms"?)`,
		"retention.ms=-2":              "retention.ms: invalid value: -2 is too small: at least -1",
		"segment.bytes=10":             "at least 1048576",
		"compression.gzip.level=0":     "0 is too small: at least 1",
		"compression.zstd.level=23":    "23 is too large: at most 22",
		"remote.storage.enable=true":   "tiered storage is not served",
		"remote.storage.enable=TRUE":   "tiered storage is not served",
		"remote.storage.enable= True ": "tiered storage is not served",
		"max.compaction.lag.ms=x":      "is not a number of type long",
	} {
		k, v, _ := strings.Cut(over, "=")
		if _, err := b.Topic(map[string]string{k: v}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", over, err, want)
		}
	}
	if _, err := b.Topic(map[string]string{"compression.gzip.level": "-1"}); err != nil {
		t.Errorf("-1 is gzip's own default level: %v", err)
	}
	if _, err := b.Topic(map[string]string{"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "5"}); err == nil {
		t.Error("a least compaction lag above the most is taken")
	}
}

func TestDescribedSynonyms(t *testing.T) {
	b, _, err := Parse("", nil, []string{"log.retention.minutes=5"})
	if err != nil {
		t.Fatal(err)
	}
	entry := func(entries []Entry, name string) string {
		for _, e := range entries {
			if e.Definition.Name == name {
				return fmt.Sprint(e.Value, " ", e.Null, " ", e.Source, " ", e.Synonyms)
			}
		}
		return "missing"
	}
	for _, c := range [][2]string{
		{entry(b.DescribeTopic(map[string]string{"retention.ms": "7"}), "retention.ms"),
			"7 false 1 [{retention.ms 7 1} {log.retention.minutes 5 4} {log.retention.hours 168 5}]"},
		{entry(b.DescribeTopic(nil), "retention.ms"), "300000 false 4 [{log.retention.minutes 5 4} {log.retention.hours 168 5}]"},
		{entry(b.DescribeTopic(nil), "segment.bytes"), "1073741824 false 5 [{log.segment.bytes 1073741824 5}]"},
		{entry(b.Describe(), "log.retention.ms"), " true 4 [{log.retention.minutes 5 4} {log.retention.hours 168 5}]"},
		{entry(b.Describe(), "num.partitions"), "1 false 5 [{num.partitions 1 5}]"},
	} {
		if c[0] != c[1] {
			t.Errorf("got  %s\nwant %s", c[0], c[1])
		}
	}
}

func TestNearestName(t *testing.T) {
	for name, want := range map[string]string{"num.partition": "num.partitions", "log.dri": "log.dir", "nmu.partitions": "num.partitions", "zookeeper.connect": "", "x": ""} {
		if got := nearest(name, knownNames()); got != want {
			t.Errorf("nearest to %q is %q, want %q", name, got, want)
		}
	}
}

// TestNumbersThatAreNone: NaN is below no bound and above none, and a setting made while the broker runs is kept.
func TestNumbersThatAreNone(t *testing.T) {
	for _, table := range [][]Definition{BrokerDefinitions(), TopicDefinitions()} {
		for i := range table {
			d := &table[i]
			if d.Type != Double {
				continue
			}
			for _, text := range []string{"NaN", "nan", "Inf", "-Inf", "infinity", "1e999"} {
				if d.check(text) == nil {
					t.Errorf("%s takes %s", d.Name, text)
				}
			}
			if err := d.check(d.Default); err != nil {
				t.Errorf("%s: %v", d.Name, err)
			}
		}
	}
	for _, text := range []string{"0", "-1", "1.01", "NaN"} {
		if _, err := CheckDynamic("log.cleaner.io.buffer.load.factor", text); err == nil {
			t.Errorf("log.cleaner.io.buffer.load.factor takes %s", text)
		}
	}
}
