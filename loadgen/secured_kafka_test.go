package loadgen

import (
	"bytes"
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark/tidemark/loadgen/result"
)

// kafkaPort is a free port whose next one is free too: a combined node's controller listens there.
func kafkaPort(t *testing.T) int {
	t.Helper()
	for range 100 {
		a, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		port := a.Addr().(*net.TCPAddr).Port
		b, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(port+1))
		_ = a.Close()
		if err == nil {
			_ = b.Close()
			return port
		}
	}
	t.Fatal("no two free ports side by side")
	return 0
}

// startKafka starts Apache Kafka with a listener of SASL_SSL that wants client certificates, and gives the plain and the
// secured address.
func startKafka(t *testing.T, k keys) (plain, secured string) {
	t.Helper()
	script, err := filepath.Abs("../scripts/kafka/kafka")
	if err != nil {
		t.Fatal(err)
	}
	var store []byte // Kafka reads key and certificate from one file
	for _, path := range []string{k.serverKey, k.server} {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		store = append(store, b...)
	}
	dir := t.TempDir()
	keystore := filepath.Join(dir, "broker.pem")
	if err := os.WriteFile(keystore, store, 0o600); err != nil {
		t.Fatal(err)
	}
	port, securePort := kafkaPort(t), kafkaPort(t)
	plain, secured = "127.0.0.1:"+strconv.Itoa(port), "127.0.0.1:"+strconv.Itoa(securePort)
	module := "org.apache.kafka.common.security."
	props := []string{
		"listeners=PLAINTEXT://" + plain + ",SECURE://" + secured + ",CONTROLLER://127.0.0.1:" + strconv.Itoa(port+1),
		"advertised.listeners=PLAINTEXT://" + plain + ",SECURE://" + secured,
		"listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SECURE:SASL_SSL",
		"ssl.keystore.type=PEM", "ssl.keystore.location=" + keystore, "ssl.truststore.type=PEM", "ssl.truststore.location=" + k.ca,
		"listener.name.secure.ssl.client.auth=required", "connections.max.reauth.ms=2000", "sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
		"listener.name.secure.plain.sasl.jaas.config=" + module + `plain.PlainLoginModule required user_alice="plain-secret"\u003b`,
		"listener.name.secure.scram-sha-256.sasl.jaas.config=" + module + `scram.ScramLoginModule required\u003b`,
		"listener.name.secure.scram-sha-512.sasl.jaas.config=" + module + `scram.ScramLoginModule required\u003b`,
	}
	cmd := exec.Command(script, "start", filepath.Join(dir, "kafka"), strconv.Itoa(port))
	cmd.Env = append(os.Environ(), "KAFKA_HEAP=512M", "KAFKA_PROPERTIES="+strings.Join(props, ";"))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &log, &log, time.Second
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { _ = cmd.Wait(); close(done) }()
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		<-done
		if t.Failed() {
			t.Logf("Apache Kafka said:\n%s", log.String())
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	for {
		up := 0
		for _, addr := range []string{plain, secured} { // neither is bound first for sure
			if c, err := net.Dial("tcp", addr); err == nil {
				_ = c.Close()
				up++
			}
		}
		if up == 2 {
			return plain, secured
		}
		select {
		case <-done:
			t.Fatal("Apache Kafka ended")
		case <-ctx.Done():
			t.Fatal("Apache Kafka does not listen")
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// TestApacheKafkaWithTLSAndSASL ends each session after two seconds, so that clients authenticate again within a window (the
// broker takes no second authentication within one second of the first). It needs Java and Apache Kafka's artifacts: `make interop` runs it.
func TestApacheKafkaWithTLSAndSASL(t *testing.T) {
	if os.Getenv("TIDEMARK_INTEROP") == "" {
		t.Skip("make interop runs it")
	}
	k := makeKeys(t, "127.0.0.1")
	plain, secured := startKafka(t, k)
	cl, err := kgo.NewClient(kgo.SeedBrokers(plain))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	adm := kadm.NewClient(cl)
	for _, m := range []kadm.ScramMechanism{kadm.ScramSha256, kadm.ScramSha512} {
		altered, err := adm.AlterUserSCRAMs(t.Context(), nil, []kadm.UpsertSCRAM{{User: frontUser, Mechanism: m, Iterations: 4096, Password: frontSecret}})
		if err != nil || altered.Error() != nil {
			t.Fatal(err, altered.Error())
		}
	}
	quota := kadm.AlterClientQuotaEntry{Entity: kadm.ClientQuotaEntity{{Type: "user", Name: kadm.StringPtr(frontUser)}},
		Ops: []kadm.AlterClientQuotaOp{{Key: "producer_byte_rate", Value: 40 << 20}}}
	if _, err := adm.AlterClientQuotas(t.Context(), []kadm.AlterClientQuotaEntry{quota}); err != nil {
		t.Fatal(err)
	}
	common := []string{"security.protocol=SASL_SSL", "ssl.truststore.type=PEM", "ssl.truststore.location=" + k.ca, "ssl.keystore.type=PEM", "ssl.keystore.location=" + k.client}
	for _, c := range []struct{ mechanism, module, password string }{
		{"PLAIN", "plain.PlainLoginModule", "plain-secret"},
		{"SCRAM-SHA-256", "scram.ScramLoginModule", frontSecret},
		{"SCRAM-SHA-512", "scram.ScramLoginModule", frontSecret},
	} {
		file := properties(t, append(common[:len(common):len(common)], "sasl.mechanism="+c.mechanism, login(c.module, frontUser, c.password))...)
		for _, driver := range []string{"raw", "kgo"} {
			t.Run(c.mechanism+" "+driver, func(t *testing.T) {
				dir := filepath.Join(t.TempDir(), "out")
				_, stderr, err := tidemark(t, "load", "--bootstrap", secured, "--driver", driver, "--command-config", file, "--out", dir,
					"--rate", "500", "--window", "4s", "--groups", "1")
				if err != nil && !strings.Contains(err.Error(), result.GeneratorLimited) {
					t.Fatal(err)
				}
				res, err := result.Read(dir)
				if err != nil {
					t.Fatal(err)
				}
				if e, v := res.Ends, res.Verification; e.Intended == 0 || e.Acked != e.Intended || !v.Complete || !v.Clean() || v.Delivered != v.Acked {
					t.Errorf("%+v %+v", e, v)
				}
				if !strings.Contains(stderr, "41,943,040 for user alice") || !strings.Contains(stderr, "1 of 1 replicas in sync") {
					t.Errorf("the first contact said\n%s", stderr)
				}
			})
		}
		wrong := properties(t, append(common[:len(common):len(common)], "sasl.mechanism="+c.mechanism, login(c.module, frontUser, "s3cr-wrong"))...)
		if _, _, err := tidemark(t, "load", "--bootstrap", secured, "--command-config", wrong, "--check-only"); ExitCode(err) != exitFailure ||
			!strings.Contains(err.Error(), "SASL_AUTHENTICATION_FAILED") || strings.Contains(err.Error(), "s3cr") {
			t.Errorf("a wrong password: %v", err)
		}
	}
	_, _, err = tidemark(t, "load", "--bootstrap", secured, "--check-only")
	if ExitCode(err) != exitFailure || !strings.Contains(err.Error(), "--command-config") {
		t.Errorf("without TLS: %v", err)
	}
}
