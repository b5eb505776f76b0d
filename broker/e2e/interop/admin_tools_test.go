package interop

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const bootstrap = "--bootstrap-server"

// lacksText checks that a tool printed nothing of a kind.
func lacksText(t *testing.T, what, out string, texts ...string) {
	t.Helper()
	for _, s := range texts {
		if strings.Contains(out, s) {
			t.Errorf("%s: %q in\n%s", what, s, tail(out))
		}
	}
}

// TestApiVersionsTool: each API is usable at a version of the tool's own client, and none is unsupported that is served.
func TestApiVersionsTool(t *testing.T) {
	tl := needTools(t)
	tg := startTarget(t)
	wantText(t, "api versions", tl.tool(t, "", "BrokerApiVersionsCommand", bootstrap, tg.addr),
		`DeleteRecords\(21\): 0 to 2 \[usable: 2\]`, `AlterConfigs\(33\): 0 to 2 \[usable: 2\]`, `DescribeLogDirs\(35\): 1 to 5`,
		`DeleteGroups\(42\): 0 to 3`, `IncrementalAlterConfigs\(44\): 0 to 1 \[usable: 1\]`, `OffsetDelete\(47\): 0 \[usable: 0\]`,
		`DescribeQuorum\(55\): 0 to 2 \[usable: 2\]`, `UpdateFeatures\(57\): 0 to 2`, `DescribeProducers\(61\): 0 \[usable: 0\]`,
		`ListConfigResources\(74\): 0 to 1 \[usable: 1\]`, `OffsetForLeaderEpoch\(23\): 2 to 4 \[usable: 4\]`)
}

// TestConfigsTool: kafka-configs describes, alters and deletes settings of topics, of a broker and of all brokers.
func TestConfigsTool(t *testing.T) {
	tl := needTools(t)
	tg := startTarget(t)
	topic := tg.topic(t, "configs")
	configs := func(args ...any) string {
		return tl.tool(t, "", "ConfigCommand", append([]any{bootstrap, tg.addr}, args...)...)
	}
	ofTopic := []any{"--entity-type", "topics", "--entity-name", topic}

	wantText(t, "alter topic", configs(append(ofTopic, "--alter", "--add-config", "retention.ms=86400000,cleanup.policy=[compact,delete],min.insync.replicas=1")...),
		"Completed updating config for topic "+topic)
	wantText(t, "describe topic", configs(append(ofTopic, "--describe")...),
		`retention.ms=86400000 sensitive=false synonyms=\{DYNAMIC_TOPIC_CONFIG:retention.ms=86400000`, `cleanup.policy=compact,delete`)
	configs(append(ofTopic, "--alter", "--delete-config", "retention.ms")...)
	out := configs(append(ofTopic, "--describe")...)
	lacksText(t, "deleted setting", out, "retention.ms=")
	wantText(t, "kept setting", out, `min.insync.replicas=1`)
	wantText(t, "describe all of a topic", configs(append(ofTopic, "--describe", "--all")...), `(?m)^\s*segment.bytes=1073741824 .*DEFAULT_CONFIG:log.segment.bytes=1073741824`)

	id := "0"
	for line := range strings.Lines(tl.tool(t, "", "BrokerApiVersionsCommand", bootstrap, tg.addr)) {
		if _, rest, ok := strings.Cut(line, "(id: "); ok {
			id, _, _ = strings.Cut(rest, " ")
			break
		}
	}
	ofBroker, ofAll := []any{"--entity-type", "brokers", "--entity-name", id}, []any{"--entity-type", "brokers", "--entity-default"}
	configs(append(ofAll, "--alter", "--add-config", "message.max.bytes=2000000,log.retention.ms=7200000")...)
	configs(append(ofBroker, "--alter", "--add-config", "message.max.bytes=3000000")...)
	wantText(t, "describe all brokers", configs(append(ofAll, "--describe")...), `message.max.bytes=2000000`, `log.retention.ms=7200000`)
	wantText(t, "describe broker", configs(append(ofBroker, "--describe")...),
		`message.max.bytes=3000000 .*DYNAMIC_BROKER_CONFIG:message.max.bytes=3000000, DYNAMIC_DEFAULT_BROKER_CONFIG:message.max.bytes=2000000`)
	wantText(t, "a topic follows", configs(append(ofTopic, "--describe", "--all")...), `max.message.bytes=3000000`, `retention.ms=7200000`)
	configs(append(ofBroker, "--alter", "--delete-config", "message.max.bytes")...)
	lacksText(t, "deleted setting of a broker", configs(append(ofBroker, "--describe")...), "3000000")
	configs(append(ofAll, "--alter", "--delete-config", "message.max.bytes,log.retention.ms")...)
	lacksText(t, "deleted settings of all", configs(append(ofAll, "--describe")...), "2000000", "7200000")
	wantText(t, "topics of the cluster", configs("--entity-type", "topics", "--describe"), topic)
}

// TestRecordsAndFoldersTools: kafka-delete-records, kafka-log-dirs, kafka-features, kafka-metadata-quorum,
// kafka-transactions describe-producers.
func TestRecordsAndFoldersTools(t *testing.T) {
	tl := needTools(t)
	tg := startTarget(t)
	topic := fmt.Sprintf("records-%d", os.Getpid())
	tl.tool(t, "", "TopicCommand", bootstrap, tg.addr, "--create", "--topic", topic, "--partitions", 1)
	tl.tool(t, strings.Repeat("record\n", 10), "ConsoleProducer", bootstrap, tg.addr, "--topic", topic, "--sync")

	file := filepath.Join(t.TempDir(), "offsets.json")
	if err := os.WriteFile(file, fmt.Appendf(nil, `{"version":1,"partitions":[{"topic":%q,"partition":0,"offset":4}]}`, topic), 0o600); err != nil {
		t.Fatal(err)
	}
	wantText(t, "delete records", tl.tool(t, "", "DeleteRecordsCommand", bootstrap, tg.addr, "--offset-json-file", file),
		`partition: `+topic+`-0\s+low_watermark: 4`)
	wantText(t, "earliest", tl.tool(t, "", "GetOffsetShell", bootstrap, tg.addr, "--topic", topic, "--time", "earliest"), topic+":0:4")

	dirs := tl.tool(t, "", "LogDirsCommand", bootstrap, tg.addr, "--describe", "--topic-list", topic)
	wantText(t, "log dirs", dirs, `"partition":"`+topic+`-0"`, `"size":[1-9]\d*`, `"offsetLag":0`, `"isFuture":false`, `"error":null`)
	lacksText(t, "log dirs of one topic", dirs, "__consumer_offsets")

	wantText(t, "features", tl.tool(t, "", "FeatureCommand", bootstrap, tg.addr, "describe"),
		`Feature: metadata.version\s+SupportedMinVersion: 3.3-IV3\s+SupportedMaxVersion: 4.4-IV\d\s+FinalizedVersionLevel: 4.4-IV\d\s+Epoch: \d+`)

	wantText(t, "quorum", tl.tool(t, "", "MetadataQuorumCommand", bootstrap, tg.addr, "describe", "--status"),
		`LeaderId:\s+\d+`, `HighWatermark:\s+\d+`, `MaxFollowerLag:\s+0`, `CurrentVoters:\s+\[\{"id": \d+`, `CurrentObservers:\s+\[\]`)
	wantText(t, "replication", tl.tool(t, "", "MetadataQuorumCommand", bootstrap, tg.addr, "describe", "--replication"), `(?m)^\d+\s.*Leader`)

	wantText(t, "producers", tl.tool(t, "", "TransactionsCommand", bootstrap, tg.addr, "describe-producers", "--topic", topic, "--partition", 0),
		`(?m)^\d+\s+0\s+.*\s9\s+\d+\s+None`)
}

// TestGroupTools: kafka-consumer-groups sets offsets back, deletes offsets and deletes groups.
func TestGroupTools(t *testing.T) {
	tl := needTools(t)
	tg := startTarget(t)
	kept, other := tg.topic(t, "kept"), tg.topic(t, "other")
	groups := func(args ...any) string {
		return tl.tool(t, "", "consumer.group.ConsumerGroupCommand", append([]any{bootstrap, tg.addr}, args...)...)
	}
	for _, topic := range []string{kept, other} {
		tl.tool(t, strings.Repeat("record\n", 9), "ConsoleProducer", bootstrap, tg.addr, "--topic", topic, "--sync")
		tl.tool(t, "", "consumer.ConsoleConsumer", bootstrap, tg.addr, "--topic", topic, "--from-beginning", "--max-messages", 9, "--group", "g")
	}
	describe := func() string { return groups("--describe", "--group", "g") }
	wantText(t, "before", describe(), `g\s+`+kept+`\s+\d\s+\d+\s+\d+\s+0`, `g\s+`+other+`\s+\d\s+\d+\s+\d+\s+0`)

	wantText(t, "dry run", groups("--reset-offsets", "--group", "g", "--topic", kept, "--to-earliest", "--dry-run"), `g\s+`+kept+`\s+\d\s+0`)
	lacksText(t, "a dry run resets nothing", describe(), "Error")
	wantText(t, "reset", groups("--reset-offsets", "--group", "g", "--topic", kept, "--to-earliest", "--execute"), `g\s+`+kept+`\s+0\s+0`, `g\s+`+kept+`\s+2\s+0`)
	wantText(t, "after reset", describe(), `g\s+`+kept+`\s+\d\s+0\s+[1-9]`)
	wantText(t, "shift", groups("--reset-offsets", "--group", "g", "--topic", kept, "--to-latest", "--execute"), `g\s+`+kept+`\s+\d\s+[1-9]`)

	wantText(t, "delete offsets", groups("--delete-offsets", "--group", "g", "--topic", other), `(?i)request succeeded`, other+`\s+\d\s+Successful`)
	out := describe()
	lacksText(t, "deleted offsets", out, other)
	wantText(t, "other offsets", out, kept)

	wantText(t, "delete group", groups("--delete", "--group", "g"), `Deletion of requested consumer groups \('g'\) was successful`)
	lacksText(t, "groups", groups("--list"), "g\n")
}
