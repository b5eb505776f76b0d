package loadgen

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemark/tidemark/core/kafka"
	"github.com/tidemark/tidemark/loadgen/result"
	"github.com/tidemark/tidemark/loadgen/sink"
	"github.com/tidemark/tidemark/loadgen/workload"
	"github.com/tidemark/tidemark/profiles"
)

// tidemark runs the command as a shell would, in a folder of its own.
func tidemark(t *testing.T, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	root := &cobra.Command{Use: "tidemark", SilenceUsage: true, SilenceErrors: true}
	root.AddCommand(Commands()...)
	var out, errs bytes.Buffer
	root.SetOut(&out)
	root.SetErr(&errs)
	root.SetArgs(args)
	err = root.ExecuteContext(t.Context())
	return out.String(), errs.String(), err
}

func TestRefusalsAreOneLineAndLeaveNothing(t *testing.T) {
	to := target(t, sink.Script{})
	to.Create("there", 2)
	denied := target(t, sink.Script{RefuseTopics: kafka.TopicAuthorizationFailed})
	b := []string{"load", "--bootstrap", to.Addr(), "--window", "100ms", "--warm-up", "0s"}
	blocked := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(blocked, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "w.yaml")
	if err := os.WriteFile(file, []byte("rate: 100\nlingr: 5ms\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		args []string
		exit int
		says string
	}{
		{"no cluster", []string{"load"}, exitUsage, "--bootstrap"},
		{"no port", []string{"load", "--bootstrap", "localhost"}, exitUsage, "HOST:PORT"},
		{"nobody there", []string{"load", "--bootstrap", "127.0.0.1:1"}, exitFailure, "refused"},
		{"another host", []string{"load", "--bootstrap", "192.0.2.1:9092"}, exitUsage, "--yes"},
		{"rate 0", append(b, "--rate", "0"), exitUsage, "rate"},
		{"rate and max", append(b, "--rate", "5", "--max"), exitUsage, "exclude"},
		{"typing error", []string{"load", "--workload", file, "--bootstrap", to.Addr()}, exitUsage, `"linger"`},
		{"unknown flag", append(b, "--lingr", "5ms"), exitUsage, "lingr"},
		{"bad size", append(b, "--record-size", "5 elephants"), exitUsage, "record-size"},
		{"no topic", append(b, "--create", "never", "--topic", "nowhere"), exitUsage, "does not exist"},
		{"topic exists", append(b, "--create", "fresh", "--topic", "there"), exitUsage, "exists"},
		{"few partitions", append(b, "--create", "never", "--topic", "there", "--partitions", "3"), exitUsage, "2 partitions"},
		{"not allowed", []string{"load", "--bootstrap", denied.Addr()}, exitFailure, "TOPIC_AUTHORIZATION_FAILED"},
		{"unwritable", append(b, "--out", filepath.Join(blocked, "out")), exitFailure, "out:"},
		{"no payload file", append(b, "--payload-file", filepath.Join(blocked, "no")), exitUsage, "payload-file"},
		{"unknown profile", append(b, "--profile", "cpuu"), exitUsage, "--profile"},
		{"bad pyroscope", append(b, "--pyroscope", "localhost:4040"), exitUsage, "http://HOST:PORT"},
		{"bad profile target", append(b, "--profile-target", "localhost"), exitUsage, "HOST:PORT"},
		{"raw and sticky", append(b, "--groups", "1", "--assignor", "cooperative-sticky"), exitFailure, "driver kgo"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "out")
			args := c.args
			if !strings.Contains(strings.Join(args, " "), "--out") {
				args = append(args[:len(args):len(args)], "--out", dir)
			}
			stdout, _, err := tidemark(t, args...)
			if err == nil || ExitCode(err) != c.exit || !strings.Contains(err.Error(), c.says) {
				t.Errorf("exit %d, want %d: %v (want %q in it)", ExitCode(err), c.exit, err, c.says)
			}
			if stdout != "" {
				t.Errorf("printed %q", stdout)
			}
			if _, err := os.Stat(dir); err == nil {
				t.Error("the folder was left behind")
			}
		})
	}
	if n := to.Stats().Records; n != 0 {
		t.Errorf("%d records were sent", n)
	}
}

func TestFlagsAndFileAreOne(t *testing.T) {
	flags := []string{"--rate", "12345", "--acks", "1", "--linger", "5ms", "--keys", "hot(0.9, 0.1)", "--record-size", "uniform(100B, 2KiB)",
		"--groups", "3,1", "--idempotence=false", "--compression", "zstd", "--compressibility", "0.75", "--topic-configs", "segment.bytes=1048576"}
	first, _, err := tidemark(t, append([]string{"load", "--print-workload"}, flags...)...)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "w.yaml")
	if err := os.WriteFile(file, []byte(first), 0o600); err != nil {
		t.Fatal(err)
	}
	second, _, err := tidemark(t, "load", "--print-workload", "--workload", file)
	if err != nil || second != first {
		t.Errorf("%v\n%s\n%s", err, first, second)
	}
	if second, _, err = tidemark(t, "load", "--print-workload", "--workload", file, "--rate", "7"); err != nil || !strings.Contains(second, "rate: 7") || !strings.Contains(second, "linger: 5ms") {
		t.Errorf("a flag beside the file: %v\n%s", err, second)
	}
	if _, err := workload.Parse(file, []byte(first)); err != nil {
		t.Error(err)
	}
}

// ombWorkload is a workload file of OpenMessaging Benchmark.
const ombWorkload = `name: 1 topic / 4 partitions / 1Kb
topics: 1
partitionsPerTopic: 4
messageSize: 1024
useRandomizedPayloads: true
randomBytesRatio: 0.5
randomizedPayloadPoolSize: 1000
subscriptionsPerTopic: 1
consumerPerSubscription: 1
producersPerTopic: 1
producerRate: 2000
consumerBacklogSizeGB: 0
testDurationMinutes: 15
`

func ombDriver(addr string) string {
	return `name: Kafka
driverClass: io.openmessaging.benchmark.driver.kafka.KafkaBenchmarkDriver
replicationFactor: 1
topicConfig: ""
commonConfig: |
  bootstrap.servers=` + addr + `
producerConfig: |
  acks=all
  linger.ms=1
  batch.size=131072
consumerConfig: |
  auto.offset.reset=earliest
  enable.auto.commit=false
`
}

// TestTheExamplesRun runs the commands of the help text, as they stand but for address and length.
func TestTheExamplesRun(t *testing.T) {
	to := target(t, sink.Script{KeepBytes: 16 << 20})
	receiver, err := profiles.NewReceiver(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	pyroscope := httptest.NewServer(receiver)
	defer pyroscope.Close()
	metrics := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "# TYPE process_cpu_seconds_total counter\nprocess_cpu_seconds_total 1\n")
	}))
	defer metrics.Close()
	dir := t.TempDir()
	for name, text := range map[string]string{"client.properties": "security.protocol=PLAINTEXT\n", "w.yaml": ombWorkload, "d.yaml": ombDriver(to.Addr())} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(t.TempDir(), "cell.yaml")
	lines := strings.Split(loadExample, "\n")
	for i := len(lines) - 1; i >= 0; i-- { // the last one prints the file that another reads
		line := strings.NewReplacer("127.0.0.1:9092", to.Addr(), "http://127.0.0.1:4040", pyroscope.URL, "'", "", "cell.yaml", file,
			"broker.example:9093", to.Addr(), "http://127.0.0.1:9644", metrics.URL, "client.properties", filepath.Join(dir, "client.properties"),
			"1-topic-16-partitions-1kb.yaml", filepath.Join(dir, "w.yaml"), "kafka-latency.yaml", filepath.Join(dir, "d.yaml"), "run-1", filepath.Join(t.TempDir(), "run-1")).Replace(strings.TrimSpace(lines[i]))
		line, redirect, _ := strings.Cut(line, " > ")
		args := strings.Fields(line)[1:]
		if redirect == "" {
			args = append(args, "--window", "300ms", "--warm-up", "100ms", "--no-progress")
			if !strings.Contains(line, "--out") {
				args = append(args, "--out", filepath.Join(t.TempDir(), "out"))
			}
		}
		out, _, err := tidemark(t, args...)
		if code := ExitCode(err); code != 0 && !strings.Contains(err.Error(), result.GeneratorLimited) && !strings.Contains(err.Error(), "fail-if") {
			t.Errorf("%s: exit %d: %v", line, code, err)
		}
		if redirect != "" {
			if err := os.WriteFile(file, []byte(out), 0o600); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if strings.Contains(line, "--check-only") {
			if !strings.Contains(out, "round trip") || strings.Contains(out, "intended") {
				t.Errorf("%s printed\n%s", line, out)
			}
			continue
		}
		if !strings.Contains(out, "intended ") || !strings.Contains(out, "an ack meant: ") || !strings.Contains(out, "results in ") {
			t.Errorf("%s printed\n%s", line, out)
		}
	}
	if receiver.Count() != 4 {
		t.Errorf("%d profiles were pushed by the examples, want 4", receiver.Count())
	}
}

// TestAnInterruptWritesWhatWasMeasured sends the signal that a terminal sends.
func TestAnInterruptWritesWhatWasMeasured(t *testing.T) {
	own := make(chan os.Signal, 1) // without it the signal would end the test, should the command be over too early
	signal.Notify(own, os.Interrupt)
	defer signal.Stop(own)
	to := target(t, sink.Script{KeepBytes: 8 << 20})
	go func() {
		for to.Stats().Records < 700 {
			<-time.After(time.Millisecond)
		}
		_ = syscall.Kill(os.Getpid(), syscall.SIGINT)
	}()
	dir := filepath.Join(t.TempDir(), "out")
	out, _, err := tidemark(t, "load", "--bootstrap", to.Addr(), "--rate", "1000", "--warm-up", "200ms", "--window", "1m", "--no-progress", "--out", dir)
	if code := ExitCode(err); code != 0 && !strings.Contains(err.Error(), result.GeneratorLimited) {
		t.Errorf("exit %d: %v", code, err)
	}
	res, err := result.Read(dir)
	if err != nil || !res.Partial || !res.Valid || res.Countable() || res.Ends.Acked == 0 || !res.Ends.Sums() {
		t.Fatalf("%+v, %v", res, err)
	}
	if err := res.CheckFiles(dir); err != nil || !strings.Contains(out, "\npartial: interrupted\n") {
		t.Errorf("%v; printed\n%s", err, out)
	}
}

func TestOnlyTopicsOfTheRunAreDeleted(t *testing.T) {
	to := target(t, sink.Script{KeepBytes: 8 << 20})
	to.Create("mine", 6)
	for _, args := range [][]string{{"--create", "auto", "--topic", "mine"}, {"--prefix", "run"}} {
		out, _, err := tidemark(t, append([]string{"load", "--bootstrap", to.Addr(), "--rate", "100", "--window", "100ms", "--warm-up", "0s", "--no-progress",
			"--out", filepath.Join(t.TempDir(), "o")}, args...)...)
		if out == "" {
			t.Fatal(err)
		}
	}
	if _, _, err := tidemark(t, "load", "--bootstrap", to.Addr(), "--create", "fresh", "--topic", "mine"); ExitCode(err) != exitUsage {
		t.Errorf("the user's topic is gone: %v", err)
	}
	if _, _, err := tidemark(t, "load", "--bootstrap", to.Addr(), "--create", "never", "--topic", "run-0"); ExitCode(err) != exitUsage {
		t.Errorf("the run's topic is still there: %v", err)
	}
}
