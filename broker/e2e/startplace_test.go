package e2e

import (
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark/tidemark/broker/proc"
)

// A start never makes a new cluster beside the logs of an old one: the order of log.dirs has changed, a disk is missing or new.
func TestLogsAreNotTakenFromTheirMetadata(t *testing.T) {
	root := t.TempDir()
	a, b, fresh := root+"/a", root+"/b", root+"/new"
	first := start(t, proc.Options{NoAdmin: true, Data: a + "," + b})
	create(t, first, "kept", 4)
	c := newClient(t, first, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	for p := range int32(4) { // two logs in each folder
		if err := c.ProduceSync(t.Context(), &kgo.Record{Topic: "kept", Partition: p, Value: []byte("v")}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	if err := first.Stop(); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []struct{ dirs, metadata, want string }{
		{b + "," + a, "", a + "/__cluster_metadata-0"},
		{fresh + "," + a + "," + b, "", a + "/__cluster_metadata-0"},
		{fresh + "," + b, "", b + " holds logs of cluster " + first.ClusterID},
		{a + "," + b, fresh, a + "/__cluster_metadata-0"},
	} {
		args := []string{"--listen", "127.0.0.1:0", "--data", bad.dirs}
		if bad.metadata != "" {
			args = append(args, "-o", "metadata.log.dir="+bad.metadata)
		}
		if text, code := refuses(t, args...); code != 5 || !strings.Contains(text, bad.want) {
			t.Errorf("%v: exit code %d, %q; want %q", args, code, text, bad.want)
		}
	}
	link := root + "/link" // the same folder by another name is no other one
	if err := os.Symlink(a, link); err != nil {
		t.Fatal(err)
	}
	again := start(t, proc.Options{NoAdmin: true, Data: a + "," + b, Properties: []string{"metadata.log.dir=" + link}})
	r := newClient(t, again, kgo.ConsumeTopics("kept"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	for n := 0; n < 4; {
		f := r.PollRecords(t.Context(), 4)
		if f.Err() != nil {
			t.Fatal(f.Err())
		}
		n += f.NumRecords()
	}
}

// A metadata folder of its own belongs to one broker; --data gives a second one its own, whatever the file says.
func TestTheMetadataFolderBelongsToOneBroker(t *testing.T) {
	root := t.TempDir()
	file := root + "/server.properties"
	if err := os.WriteFile(file, []byte("metadata.log.dir="+root+"/meta\nadvertised.listeners=PLAINTEXT://localhost:9092\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	b := start(t, proc.Options{NoAdmin: true, Config: file, Properties: []string{"log.dirs=" + root + "/a"}})
	if text, code := refuses(t, "--listen", "127.0.0.1:0", "--data", root+"/b", "-o", "metadata.log.dir="+root+"/meta"); code != 5 ||
		!containsAll(text, root+"/meta", "used by another broker") {
		t.Errorf("exit code %d, %q", code, text)
	}
	log := &logText{}
	own := start(t, proc.Options{NoAdmin: true, Config: file, Data: root + "/b", Stderr: log})
	if own.ClusterID == b.ClusterID {
		t.Error("both are of one cluster")
	}
	_, port, err := net.SplitHostPort(own.Addr)
	if err != nil {
		t.Fatal(err)
	}
	if m := metadataOf(dial(t, own.Addr), 9, false); net.JoinHostPort(m.Brokers[0].Host, port) != own.Addr || !strings.Contains(log.String(), "advertised.listeners") {
		t.Errorf("clients are sent to %s:%d by %s; its log:\n%s", m.Brokers[0].Host, m.Brokers[0].Port, own.Addr, log.String())
	}
}

// What Apache Kafka keeps in its metadata folder is not called damaged.
func TestAFolderOfKafkaIsNamed(t *testing.T) {
	for name, content := range map[string]string{
		"quorum-state": `{"leaderId":1,"leaderEpoch":3,"votedId":-1,"data_version":1}`,
		"00000000000000000000-0000000000.checkpoint": strings.Repeat("\x00", 16) + "\x02" + strings.Repeat("\x00", 80),
	} {
		data := t.TempDir()
		folder := filepath.Join(data, "__cluster_metadata-0")
		if err := os.Mkdir(folder, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if text, code := refuses(t, "--listen", "127.0.0.1:0", "--data", data); code != 5 || !containsAll(text, name, "Apache Kafka", "log.dirs") {
			t.Errorf("%s: exit code %d, %q", name, code, text)
		}
	}
}

// No connections at all may be wanted: 0 is a bound like any other.
func TestNoConnectionsMayBeAllowed(t *testing.T) {
	for _, property := range []string{"max.connections=0", "max.connections.per.ip=0"} {
		b := start(t, proc.Options{NoAdmin: true, Data: t.TempDir(), Properties: []string{property}})
		c, err := net.Dial("tcp", b.Addr)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }()
		_ = c.SetReadDeadline(time.Now().Add(patience))
		if _, err := c.Read(make([]byte, 1)); err == nil || err != io.EOF && !strings.Contains(err.Error(), "reset") {
			t.Errorf("%s: %v", property, err)
		}
	}
}

// A start that hangs on its disk is seen to live, and ends by the second signal.
func TestASecondSignalEndsAStart(t *testing.T) {
	data := t.TempDir()
	if err := syscall.Mkfifo(filepath.Join(data, "meta.properties"), 0o600); err != nil {
		t.Fatal(err)
	}
	log := &logText{}
	cmd := exec.CommandContext(t.Context(), proc.Binary(t), "broker", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--data", data)
	cmd.Stderr = log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	until(t, "the HTTP side is up", func() bool { return strings.Contains(log.String(), "admin http://") })
	_, after, _ := strings.Cut(log.String(), "admin ")
	address := strings.Trim(strings.Fields(after)[0], `"`)
	for page, want := range map[string]int{"/healthz": 200, "/readyz": 503, "/metrics": 503} {
		resp, err := http.Get(address + page)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("%s answers %s", page, resp.Status)
		}
	}
	ticks := time.NewTicker(10 * time.Millisecond)
	defer ticks.Stop()
	limit := time.After(patience)
	for {
		select {
		case <-done:
			return
		case <-ticks.C:
			_ = cmd.Process.Signal(syscall.SIGTERM)
		case <-limit:
			_ = cmd.Process.Kill()
			t.Fatal("it does not end")
		}
	}
}
