package servertest

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sys/unix"

	"github.com/tidemark/tidemark/broker/config"
	"github.com/tidemark/tidemark/core/kafka"
	"github.com/tidemark/tidemark/core/vfs"
	"github.com/tidemark/tidemark/core/vfs/vfstest"
)

// helperHung is a node in a process of its own, since both ends of 12,000 connections do not fit in one. SIGUSR1 makes the
// first log folder hang, SIGUSR2 lets it go.
func helperHung() {
	a, b := filepath.Join(os.Getenv("HELPER_DIR"), "a"), filepath.Join(os.Getenv("HELPER_DIR"), "b")
	hang := make(chan struct{})
	var hangs atomic.Bool
	fs := &vfstest.Faulty{FS: vfs.OS{}, Hook: func(op vfstest.Op) error {
		if hangs.Load() && strings.HasPrefix(op.Name, a) {
			// A thread for each, as in the kernel: Go's own waiting would cost none.
			var ts unix.Timespec
			ts.Nsec = 50e6
			for hangs.Load() {
				_ = unix.Nanosleep(&ts, nil)
			}
			<-hang
		}
		return nil
	}}
	// Without the tail ring every fetch goes to a file.
	cfg, _, err := config.Load("", []string{"log.dirs=" + a + "," + b, "node.id=0", "tidemark.tail.bytes=0"})
	t := &helperT{}
	must(t, err)
	n := startWith(t, cfg, fs)
	n.topicWithID("t", costTopicID, 2)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGUSR1, syscall.SIGUSR2)
	fmt.Println(n.addr)
	for s := range signals {
		if s == syscall.SIGUSR2 {
			hangs.Store(false)
			close(hang)
		} else {
			hangs.Store(true)
			fmt.Println("hangs")
		}
	}
}

// A disk that hangs under thousands of connections parks their requests: ApiVersions is answered, the other log folder
// serves appends, reads and fetches that wait, and the process has no thread for each. When the disk comes back everybody
// has been answered, or is.
//
//tidy:long one story: hang, look, let go
func TestAHungDiskHoldsUpItsOwnFolderOnly(t *testing.T) {
	var limit unix.Rlimit
	must(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &limit))
	connections := int(min(12_000, limit.Cur-200)) &^ 3
	if testing.Short() {
		connections = 400
	}
	exe, err := os.Executable()
	must(t, err)
	dir := t.TempDir()
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), helperEnv+"=hung", "HELPER_DIR="+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	lines := bufio.NewScanner(out)
	lines.Scan()
	n := &node{t: t, addr: lines.Text()}

	put := func(p int32) *kmsg.ProduceRequest {
		return produceRequest(9, 1, "t", costTopicID, map[int32][]byte{p: batch(t, 1, []byte("x"))})
	}
	c := n.dial()
	for p := range int32(2) {
		if r := produced(t, c.do(put(p)), 0); r.ErrorCode != 0 {
			t.Fatalf("%+v", r)
		}
	}
	stuck, healthy := int32(0), int32(1)
	if _, err := os.Stat(filepath.Join(dir, "a", "t-0")); err != nil {
		stuck, healthy = 1, 0
	}
	must(t, cmd.Process.Signal(syscall.SIGUSR1))
	lines.Scan()

	// One in four appends to the folder that hangs, one reads from it, one waits for its bytes, one waits for the other's.
	readStuck := fetchRequest(12, "t", costTopicID, map[int32]int64{stuck: 0})
	waitStuck := fetchRequest(12, "t", costTopicID, map[int32]int64{stuck: 1})
	waitHealthy := fetchRequest(12, "t", costTopicID, map[int32]int64{healthy: 1})
	waitStuck.MaxWaitMillis, waitHealthy.MaxWaitMillis = 600_000, 600_000
	kinds := []kmsg.Request{put(stuck), readStuck, waitStuck, waitHealthy}
	clients := dialMany(t, n.addr, connections)
	for i, cl := range clients {
		cl.send(kinds[i%4])
	}
	// Those that wait for the other folder's bytes must all be parked before these come, or they read them at once: both is
	// an answer.
	ask := n.dial()
	for range 20 {
		if v := ask.do(kmsg.NewPtrApiVersionsRequest()).(*kmsg.ApiVersionsResponse); v.ErrorCode != 0 {
			t.Fatalf("%+v", v)
		}
		if r := produced(t, c.do(put(healthy)), 0); r.ErrorCode != 0 {
			t.Fatalf("the other folder: %+v", r)
		}
	}
	if p := fetched(t, c.do(fetchRequest(12, "t", costTopicID, map[int32]int64{healthy: 0})), 0); len(p.RecordBatches) == 0 {
		t.Fatalf("the other folder: %+v", p)
	}
	for i := 3; i < len(clients); i += 4 {
		resp, _ := clients[i].receive(waitHealthy)
		if p := fetched(t, resp, 0); p.ErrorCode != 0 || len(p.RecordBatches) == 0 {
			t.Fatalf("a fetch that waited for the other folder: %+v", p)
		}
	}
	if got := threads(t, cmd.Process.Pid); got > 150 {
		t.Errorf("%d threads under %d connections, 64 may hang", got, connections)
	} else {
		t.Logf("%d connections, %d threads, %s", connections, got, peakMemory(t, cmd.Process.Pid))
	}

	must(t, cmd.Process.Signal(syscall.SIGUSR2))
	for i, cl := range clients {
		if i%4 == 3 {
			continue
		}
		resp, _ := cl.receive(kinds[i%4])
		var code int16
		if r, ok := resp.(*kmsg.ProduceResponse); ok {
			code = produced(t, r, 0).ErrorCode
		} else {
			code = fetched(t, resp, 0).ErrorCode
		}
		if code != 0 && !stalls(code) {
			t.Fatalf("connection %d, after the disk came back: %v", i, kafka.ErrorCode(code))
		}
	}
}

// stalls says whether a request has been turned away because its log folder was found stalled, as happens within seconds.
func stalls(code int16) bool { return kafka.ErrorCode(code) == kafka.KafkaStorageError }

func dialMany(t *testing.T, addr string, n int) []*client {
	t.Helper()
	clients := make([]*client, n)
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for i := w; i < n; i += 8 {
				c, err := net.Dial("tcp", addr)
				if err != nil {
					t.Error(err)
					return
				}
				_ = c.SetDeadline(time.Now().Add(2 * patience))
				clients[i] = &client{t: t, c: c}
			}
		})
	}
	wg.Wait()
	t.Cleanup(func() {
		for _, c := range clients {
			if c != nil {
				_ = c.c.Close()
			}
		}
	})
	if t.Failed() {
		t.FailNow()
	}
	return clients
}

// status reads a number of /proc/PID/status.
func status(t *testing.T, pid int, field string) int {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	must(t, err)
	for line := range strings.SplitSeq(string(b), "\n") {
		if rest, ok := strings.CutPrefix(line, field+":"); ok {
			n, err := strconv.Atoi(strings.Fields(rest)[0])
			must(t, err)
			return n
		}
	}
	t.Fatalf("no %s in the status of process %d", field, pid)
	return 0
}

func threads(t *testing.T, pid int) int { return status(t, pid, "Threads") }

func peakMemory(t *testing.T, pid int) string {
	return fmt.Sprintf("%d MiB at its peak", status(t, pid, "VmHWM")>>10)
}
