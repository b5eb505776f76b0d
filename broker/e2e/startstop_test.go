package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark/tidemark/broker/proc"
)

// refuses runs `tidemark broker` with arguments that must end it, and returns what it says and its exit code.
func refuses(t *testing.T, args ...string) (stderr string, code int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, proc.Binary(t), append([]string{"broker"}, args...)...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if ctx.Err() != nil || err == nil {
		t.Fatalf("%v: the broker does not refuse: %v", args, err)
	}
	if out.Len() > 0 {
		t.Errorf("%v: a broker that refuses prints on stdout: %q", args, out.String())
	}
	return errs.String(), cmd.ProcessState.ExitCode()
}

// TestSecondBrokerIsRefused, with the pid of the first; the first goes on.
func TestSecondBrokerIsRefused(t *testing.T) {
	data := t.TempDir()
	b := start(t, proc.Options{NoAdmin: true, Data: data})
	text, code := refuses(t, "--listen", "127.0.0.1:0", "--data", data)
	if !strings.Contains(text, fmt.Sprint(b.PID)) || !strings.Contains(text, data) || code == 0 {
		t.Errorf("exit code %d, %q; want the pid %d and the folder", code, text, b.PID)
	}
	dial(t, b.Addr).alive()
	b.Kill()
	start(t, proc.Options{NoAdmin: true, Data: data})
}

// TestPortInUse is refused with the address, and leaves the folder free.
func TestPortInUse(t *testing.T) {
	b := start(t, proc.Options{NoAdmin: true, Data: t.TempDir()})
	data := t.TempDir()
	if text, code := refuses(t, "--listen", b.Addr, "--data", data); !strings.Contains(text, b.Addr) || code != 5 {
		t.Errorf("exit code %d, %q", code, text)
	}
	start(t, proc.Options{NoAdmin: true, Data: data})
}

// TestProperties: an unknown or wrong property is refused with file, line and the nearest known name; one that means nothing
// here is accepted with one warning.
func TestProperties(t *testing.T) {
	file := filepath.Join(t.TempDir(), "server.properties")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	data := t.TempDir()
	for _, c := range []struct {
		text string
		want []string
	}{
		{"node.id=1\nlog.segment.byte=1000000\n", []string{file + ":2", "log.segment.byte", `log.segment.bytes`}},
		{"# a comment\n\nnum.partitions=many\n", []string{file + ":3", "num.partitions", "many"}},
		{"num.partitions=0\n", []string{file + ":1", "num.partitions"}},
		{"listeners=SSL://127.0.0.1:0\n", []string{"SSL"}},
		{"socket.transfer=fast\n", []string{file + ":1", "socket.transfer", "sendfile"}},
	} {
		write(c.text)
		text, code := refuses(t, "--config", file, "--data", data)
		if !containsAll(text, c.want...) || code != 2 {
			t.Errorf("%q: exit code %d, %q; want code 2 and %q", c.text, code, text, c.want)
		}
	}
	if text, code := refuses(t, "-o", "nonsense.property=1", "--data", data); code != 2 || !strings.Contains(text, "nonsense.property") {
		t.Errorf("an override: exit code %d, %q", code, text)
	}
	if text, code := refuses(t, "--no-such-flag"); code != 2 {
		t.Errorf("an unknown flag: exit code %d, %q", code, text)
	}
	write("zookeeper.connect=x\n")
	write("node.id=7\nlisteners=PLAINTEXT://127.0.0.1:0\nnum.network.threads=3\nnum.partitions = 4\nlog.dirs=" + data + "\n")
	log := &logText{}
	b := start(t, proc.Options{NoAdmin: true, Config: file, Stderr: log, Listen: "127.0.0.1:0"})
	if n := strings.Count(log.String(), "num.network.threads"); n != 1 || b.NodeID != 7 {
		t.Errorf("node %d; %d warnings:\n%s", b.NodeID, n, log.String())
	}
	c := newClient(t, b, kgo.AllowAutoTopicCreation())
	if err := c.ProduceSync(t.Context(), &kgo.Record{Topic: "auto"}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	if got := metadataOf(dial(t, b.Addr), 9, false, "auto").Topics[0]; len(got.Partitions) != 4 {
		t.Errorf("num.partitions=4 gives %d", len(got.Partitions))
	}
}

// TestStdoutHasOneLine, the ready line, whatever happens later; everything else goes to stderr; SIGTERM and SIGINT end with 0.
func TestStdoutHasOneLine(t *testing.T) {
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		cmd := exec.Command(proc.Binary(t), "broker", "--listen", "127.0.0.1:0", "--data", t.TempDir(), "--admin", "127.0.0.1:0")
		stdout, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = cmd.Process.Kill() })
		var line []byte
		for one := make([]byte, 1); !bytes.HasSuffix(line, []byte("\n")); line = append(line, one...) {
			if _, err := stdout.Read(one); err != nil {
				t.Fatal(err)
			}
		}
		if !regexp.MustCompile(`^ready 127\.0\.0\.1:\d+ node=\d+ cluster=[A-Za-z0-9_-]{22}\n$`).Match(line) {
			t.Errorf("the ready line is %q", line)
		}
		addr := strings.Fields(string(line))[1]
		dial(t, addr).alive()
		w := dial(t, addr)
		_, _ = w.Write([]byte("GET / HTTP/1.1\r\n\r\n"))
		w.closes()
		if err := cmd.Process.Signal(signal); err != nil {
			t.Fatal(err)
		}
		rest, _ := io.ReadAll(stdout)
		if len(rest) > 0 {
			t.Errorf("more on stdout: %q", rest)
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("%v: %v", signal, err)
		}
	}
}

// TestCleanStop leaves its marker, in the middle of traffic too, and what was acknowledged until then is there.
func TestCleanStop(t *testing.T) {
	data := t.TempDir()
	b := start(t, proc.Options{Data: data})
	create(t, b, "t", 2)
	l := newLedger()
	s := l.newSender(t, b.Addr, 0, seeded(t))
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			s.sendOne(ctx, "t", s.r.Int32N(2))
		}
	}()
	until(t, "records are acknowledged", func() bool { return l.count() > 500 })
	if err := b.Stop(); err != nil {
		t.Errorf("stop in the middle of traffic: %v", err)
	}
	stop()
	<-ended
	s.c.Close()
	marker := filepath.Join(data, ".kafka_cleanshutdown")
	if _, err := os.Stat(marker); err != nil {
		t.Errorf("no marker of a clean stop: %v", err)
	}
	b = start(t, proc.Options{Data: data})
	if _, err := os.Stat(marker); err == nil {
		t.Error("the marker is there while a broker runs")
	}
	l.check(t, b, "t")
	b.Kill()
	if _, err := os.Stat(marker); err == nil {
		t.Error("the marker is there after a kill")
	}
}

// TestTemporaryFolder is removed by the broker that made it.
func TestTemporaryFolder(t *testing.T) {
	temp := t.TempDir()
	b := start(t, proc.Options{NoAdmin: true, Env: []string{"TMPDIR=" + temp}})
	create(t, b, "t", 1)
	made, err := os.ReadDir(temp)
	if err != nil || len(made) != 1 {
		t.Fatalf("%v %v", made, err)
	}
	if err := b.Stop(); err != nil {
		t.Error(err)
	}
	if left, _ := os.ReadDir(temp); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

// TestAdmin: health, readiness, metrics that count, profiles.
func TestAdmin(t *testing.T) {
	b := start(t, proc.Options{Data: t.TempDir()})
	create(t, b, "t", 1)
	fill(t, b, "t", 0, 10, 100)
	get := func(path string) string {
		t.Helper()
		r, err := (&http.Client{Timeout: patience}).Get("http://" + b.Admin + path)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = r.Body.Close() }()
		body, err := io.ReadAll(r.Body)
		if err != nil || r.StatusCode != http.StatusOK {
			t.Errorf("%s: %s %v", path, r.Status, err)
		}
		return string(body)
	}
	get("/healthz")
	get("/readyz")
	metrics := get("/metrics")
	if !strings.Contains(metrics, "# TYPE tidemark_") || !strings.Contains(metrics, "go_goroutines") {
		t.Errorf("metrics:\n%.2000s", metrics)
	}
	for _, profile := range []string{"heap", "goroutine", "mutex", "block", "profile?seconds=1"} {
		if get("/debug/pprof/"+profile) == "" {
			t.Errorf("no %s profile", profile)
		}
	}
}

// TestEveryThreadOfABrokerWakesLate: Go's monitor thread, which is made before the program's own code runs, has the coarse timer
// slack too; and the program that was put in its own place for that is the same process with the same arguments.
func TestEveryThreadOfABrokerWakesLate(t *testing.T) {
	data := filepath.Join(t.TempDir(), "a folder with spaces")
	b := start(t, proc.Options{NoAdmin: true, Data: data})
	dial(t, b.Addr).alive()
	if args, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", b.PID)); err != nil || !bytes.Contains(args, []byte("\x00"+data+"\x00")) {
		t.Errorf("process %d has the arguments %q (%v)", b.PID, args, err)
	}
	threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", b.PID))
	if err != nil || len(threads) < 2 {
		t.Fatalf("%d threads, %v", len(threads), err)
	}
	for _, thread := range threads {
		slack, err := os.ReadFile("/proc/" + thread.Name() + "/timerslack_ns")
		switch {
		case errors.Is(err, os.ErrPermission):
			t.Skip("reading another process's timer slack needs CAP_SYS_NICE")
		case errors.Is(err, os.ErrNotExist): // it has ended
		case err != nil || strings.TrimSpace(string(slack)) != "1000000":
			t.Errorf("thread %s of %d has a timer slack of %q ns (%v)", thread.Name(), b.PID, slack, err)
		}
	}
}
