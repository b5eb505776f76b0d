package interop

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// tool runs one of Apache Kafka's own command-line tools.
func (tl tools) tool(t *testing.T, stdin, class string, args ...any) string {
	t.Helper()
	return run(t, nil, stdin, tl.command(class, args...)...)
}

func (tl tools) command(class string, args ...any) []string {
	if !strings.Contains(class, ".") || strings.HasPrefix(class, "consumer.") {
		class = "org.apache.kafka.tools." + class
	}
	argv := []string{tl.java, "-Xmx256m", "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "-cp", tl.classpath, class}
	for _, a := range args {
		argv = append(argv, fmt.Sprint(a))
	}
	return argv
}

// dumpSegments runs DumpLogSegments over files. What it has to say against them it writes to its standard error; it must be one of
// the things allowed.
func (tl tools) dumpSegments(t *testing.T, files, allowed []string, more ...any) string {
	t.Helper()
	args := append([]any{"--deep-iteration", "--files", strings.Join(files, ",")}, more...)
	out, errs := runBoth(t, nil, "", tl.command("DumpLogSegments", args...)...)
	out = errs + out
	for _, complaint := range []string{"isvalid: false", "Mismatches in", "out of order", "Found timestamp mismatch", "Exception", "corrupt", "invalid"} {
		if i := strings.Index(out, complaint); i >= 0 && !slices.Contains(allowed, complaint) {
			t.Errorf("DumpLogSegments complains: %s", out[max(0, i-400):min(len(out), i+400)])
		}
	}
	return out
}

// wantText checks that a tool printed something of each kind.
func wantText(t *testing.T, what, out string, patterns ...string) {
	t.Helper()
	for _, p := range patterns {
		if !regexp.MustCompile(p).MatchString(out) {
			t.Errorf("%s: nothing matches %q in\n%s", what, p, tail(out))
		}
	}
}

// TestKafkaTools: topics, console producer and consumer, consumer groups, get-offsets, producer and consumer perf run
// unchanged.
func TestKafkaTools(t *testing.T) {
	tl := needTools(t)
	tg := startTarget(t)
	const b = "--bootstrap-server"
	topic := fmt.Sprintf("tools-%d", os.Getpid())
	wantText(t, "create", tl.tool(t, "", "TopicCommand", b, tg.addr, "--create", "--topic", topic, "--partitions", 2, "--config", "retention.ms=86400000"),
		"Created topic "+topic)
	wantText(t, "list", tl.tool(t, "", "TopicCommand", b, tg.addr, "--list"), "(?m)^"+topic+"$")
	tl.tool(t, "", "TopicCommand", b, tg.addr, "--alter", "--topic", topic, "--partitions", 3)
	wantText(t, "describe", tl.tool(t, "", "TopicCommand", b, tg.addr, "--describe", "--topic", topic),
		`PartitionCount: 3\s+ReplicationFactor: 1\s+Configs: .*retention.ms=86400000`, `Partition: 2\s+Leader: \d+\s+Replicas: \d+\s+Isr: \d+`)

	tl.tool(t, "k1:one\nk2:two\nk3:three\n", "ConsoleProducer", b, tg.addr, "--topic", topic, "--reader-property", "parse.key=true",
		"--reader-property", "key.separator=:", "--compression-codec", "zstd", "--sync")
	out := tl.tool(t, "", "consumer.ConsoleConsumer", b, tg.addr, "--topic", topic, "--from-beginning", "--max-messages", 3, "--group", "console",
		"--formatter-property", "print.key=true")
	wantText(t, "console consumer", out, `(?m)^k1\s+one$`, `(?m)^k2\s+two$`, `(?m)^k3\s+three$`)

	groups := "consumer.group.ConsumerGroupCommand"
	wantText(t, "groups", tl.tool(t, "", groups, b, tg.addr, "--list"), `(?m)^console\s*$`)
	wantText(t, "group", tl.tool(t, "", groups, b, tg.addr, "--describe", "--group", "console"), `console\s+`+topic+`\s+\d\s+\d+\s+\d+\s+0`)
	wantText(t, "state", tl.tool(t, "", groups, b, tg.addr, "--describe", "--group", "console", "--state"), `console\s.*Empty`)

	sum := 0
	for line := range strings.Lines(tl.tool(t, "", "GetOffsetShell", b, tg.addr, "--topic", topic)) {
		var p, end int
		if _, err := fmt.Sscanf(strings.TrimPrefix(line, topic+":"), "%d:%d", &p, &end); err == nil {
			sum += end
		}
	}
	if sum != 3 {
		t.Errorf("get-offsets sums to %d, want 3", sum)
	}

	perf := fmt.Sprintf("perf-%d", os.Getpid())
	tl.tool(t, "", "TopicCommand", b, tg.addr, "--create", "--topic", perf, "--partitions", 3)
	wantText(t, "producer perf", tl.tool(t, "", "ProducerPerformance", "--topic", perf, "--num-records", 20000, "--record-size", 100,
		"--throughput", -1, "--producer-props", "bootstrap.servers="+tg.addr, "acks=all"), `20000 records sent, .* 99.9th`)
	wantText(t, "consumer perf", tl.tool(t, "", "ConsumerPerformance", b, tg.addr, "--topic", perf, "--num-records", 20000, "--timeout", 120000),
		`(?m)^\d{4}-.*, 20000, `)
	wantText(t, "api versions", tl.tool(t, "", "BrokerApiVersionsCommand", b, tg.addr), `Produce\(0\): 0 to 13 \[usable: 13\]`, `Fetch\(1\): 4 to 18`)

	tl.tool(t, "", "TopicCommand", b, tg.addr, "--delete", "--topic", topic)
	if out := tl.tool(t, "", "TopicCommand", b, tg.addr, "--list"); strings.Contains(out, topic) {
		t.Errorf("deleted topic %s is still listed", topic)
	}
}

// TestDumpLogSegments: Apache Kafka reads every segment and index that the broker wrote without complaint.
func TestDumpLogSegments(t *testing.T) {
	tl := needTools(t)
	tg := startTarget(t)
	if tg.data == "" {
		t.Skip("the files of another broker are not ours to read: this runs without TIDEMARK_INTEROP_BOOTSTRAP")
	}
	topic := fmt.Sprintf("segments-%d", os.Getpid())
	tl.tool(t, "", "TopicCommand", "--bootstrap-server", tg.addr, "--create", "--topic", topic, "--partitions", 1,
		"--config", "segment.bytes=1048576", "--config", "index.interval.bytes=512")
	for i, c := range tl.clients() {
		for j, codec := range codecs {
			c.run(t, tl, "produce", tg.addr, topic, codec, "all", (i*len(codecs)+j)*2000, 2000)
		}
		c.run(t, tl, "group", tg.addr, topic, "dump-"+c.name, 100)
	}
	if err := tg.broker.Stop(); err != nil {
		t.Fatal(err)
	}
	var files []string
	for _, glob := range []string{topic + "-0/*", "__consumer_offsets-*/*"} {
		found, err := filepath.Glob(filepath.Join(tg.data, glob))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range found {
			switch info, err := os.Stat(f); {
			case err != nil:
				t.Fatal(err)
			case regexp.MustCompile(`\.(log|index|timeindex|snapshot)$`).MatchString(f) && info.Size() > 0:
				files = append(files, f)
			}
		}
	}
	if len(files) < 6 {
		t.Fatalf("only %v to read: segments did not roll", files)
	}
	out := tl.dumpSegments(t, files, nil)
	if n := strings.Count(out, "Dumping "); n != len(files) {
		t.Errorf("%d files were dumped, want %d", n, len(files))
	}
	if h := holes(out); len(h) > 0 {
		t.Errorf("there are holes: %v", h)
	}
	groups := tl.tool(t, "", "DumpLogSegments", "--offsets-decoder", "--files", offsetsFile(t, tg.data))
	wantText(t, "offsets decoder", groups, `"group":"dump-`)
}

// offsetsFile is a segment of __consumer_offsets that holds something.
func offsetsFile(t *testing.T, data string) string {
	found, err := filepath.Glob(filepath.Join(data, "__consumer_offsets-*/*.log"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range found {
		if info, err := os.Stat(f); err == nil && info.Size() > 0 {
			return f
		}
	}
	t.Fatal("no segment of __consumer_offsets holds anything")
	return ""
}
