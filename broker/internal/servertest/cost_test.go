package servertest

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tidemark/tidemark/core/kafka"
)

// The cost of a request is CPU time of the process that serves it, so both sides run as children of the benchmark: the
// broker, and a bare loop that only does what no broker can avoid (receive, CRC-32C, pwrite, answer).
const helperEnv = "TIDEMARK_SERVER_COST_HELPER"

// costTopicID is the topic of both.
var costTopicID = kafka.TopicID{1, 2, 3}

func TestMain(m *testing.M) {
	kind, _, _ := strings.Cut(os.Getenv(helperEnv), ":")
	switch kind {
	case "broker":
		helperBroker()
	case "hung":
		helperHung()
	case "bare":
		serveBare(bareConn)
	case "baresend":
		helperBareSend()
	default:
		os.Exit(m.Run())
	}
}

// helperT satisfies testing.TB for the harness in a child.
type helperT struct {
	testing.TB
}

func (h *helperT) Helper()                   {}
func (h *helperT) Cleanup(func())            {}
func (h *helperT) Fatal(a ...any)            { fmt.Fprintln(os.Stderr, a...); os.Exit(1) }
func (h *helperT) Fatalf(f string, a ...any) { h.Fatal(fmt.Sprintf(f, a...)) }

func helperBroker() {
	settings := strings.Split(os.Getenv(helperEnv), ":") // broker:name=value:name=value
	settings[0] = "log.segment.bytes=1073741824"
	n := startNode(&helperT{}, os.Getenv("HELPER_DIR"), settings...)
	n.topicWithID("t", costTopicID, 6)
	if name := os.Getenv("HELPER_PROFILE"); name != "" {
		f, err := os.Create(name)
		must(n.t, err)
		must(n.t, pprof.StartCPUProfile(f))
		defer pprof.StopCPUProfile()
	}
	fmt.Println(n.addr)
	waitForTerm()
	n.stop()
}

// serveBare gives each connection, numbered, a goroutine.
func serveBare(serve func(c net.Conn, i int)) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Println(l.Addr())
	go func() {
		for i := 0; ; i++ {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go serve(c, i)
		}
	}()
	waitForTerm()
}

func waitForTerm() {
	ch := make(chan os.Signal, 1)
	signal.Notify(ch, syscall.SIGTERM)
	<-ch
}

// bareConn is blocking system calls on one thread: no poller, no parsing.
func bareConn(c net.Conn, i int) {
	f, err := c.(*net.TCPConn).File()
	if err != nil {
		return
	}
	defer func() { _, _ = f.Close(), c.Close() }()
	fd := int(f.Fd())
	_ = unix.SetNonblock(fd, false)
	log, err := os.Create(os.Getenv("HELPER_DIR") + "/bare" + strconv.Itoa(i))
	if err != nil {
		return
	}
	defer func() { _ = log.Close() }()
	writeback := newWriteback(log)
	table := crc32.MakeTable(crc32.Castagnoli)
	b := make([]byte, 4<<20)
	answer := make([]byte, 60)
	binary.BigEndian.PutUint32(answer, 56)
	have, at, big := 0, int64(0), false
	for {
		room := len(b)
		if have >= 4 { // no more than the frame: the rest would have to be moved
			room = int(binary.BigEndian.Uint32(b)) + 4
		} else if big {
			room = 4
		}
		n, err := unix.Read(fd, b[have:room])
		if n <= 0 || err != nil {
			return
		}
		have += n
		used, answers := 0, []byte(nil)
		for have-used >= 4 {
			size := int(binary.BigEndian.Uint32(b[used:])) + 4
			if have-used < size {
				break
			}
			frame := b[used : used+size]
			big = size > 64<<10
			crc32.Checksum(frame[90:], table)
			if _, err := unix.Pwrite(int(log.Fd()), frame[60:], at); err != nil {
				return
			}
			at += int64(size - 60)
			writeback.reach(at)
			used += size
			answers = append(answers, answer...)
		}
		have = copy(b, b[used:have])
		if len(answers) > 0 {
			if _, err := unix.Write(fd, answers); err != nil {
				return
			}
		}
	}
}

type helper struct {
	kind string
	cmd  *exec.Cmd
	addr string
}

func startHelper(b *testing.B, kind string) *helper {
	b.Helper()
	cmd := exec.Command(os.Args[0])
	if _, err := exec.LookPath("taskset"); err == nil {
		cmd = exec.Command("taskset", "-c", "0", os.Args[0])
	}
	cmd.Env = append(os.Environ(), helperEnv+"="+kind, "HELPER_DIR="+b.TempDir(), "GOMAXPROCS=1")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	must(b, err)
	must(b, cmd.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	must(b, err)
	h := &helper{kind: kind, cmd: cmd, addr: strings.TrimSpace(line)}
	b.Cleanup(func() { _ = cmd.Process.Signal(syscall.SIGTERM); _ = cmd.Wait() })
	return h
}

// cpu is the child's CPU time so far, as its CPU clock tells (clock_getcpuclockid): to the nanosecond.
func (h *helper) cpu(b *testing.B) time.Duration {
	b.Helper()
	const schedClock = 2
	var t unix.Timespec
	must(b, unix.ClockGettime(int32(^h.cmd.Process.Pid<<3|schedClock), &t))
	return time.Duration(t.Nano())
}

// drive sends frames over one connection with a window of requests for a while, one window at least, and gives how many were
// answered.
func drive(b *testing.B, addr string, frame []byte, window int, d time.Duration) int {
	b.Helper()
	c, err := net.Dial("tcp", addr)
	must(b, err)
	defer func() { _ = c.Close() }()
	var burst []byte
	for range window {
		burst = append(burst, frame...)
	}
	r := bufio.NewReaderSize(c, 64<<10)
	var size [4]byte
	answered := 0
	for end := time.Now().Add(d); answered == 0 || time.Now().Before(end); {
		_, err := c.Write(burst)
		must(b, err)
		for range window {
			_, err := io.ReadFull(r, size[:])
			must(b, err)
			_, err = r.Discard(int(binary.BigEndian.Uint32(size[:])))
			must(b, err)
			answered++
		}
	}
	return answered
}

// checkAccepted makes sure that what is weighed is appended and not refused.
func checkAccepted(b *testing.B, f []byte) {
	b.Helper()
	n := startNode(b, b.TempDir())
	n.topicWithID("t", costTopicID, 1)
	c := n.dial()
	_, err := c.c.Write(f)
	must(b, err)
	resp, _ := c.receive(produceRequest(9, 1, "t", costTopicID, nil))
	if p := produced(b, resp, 0); p.ErrorCode != 0 {
		b.Fatalf("%+v", p)
	}
}

// slice is how long one side of a comparison runs before the other one: a noisy host then hits both alike.
const slice = 100 * time.Millisecond

// side is one child of a comparison and what it has done for how much of its CPU time.
type side struct {
	*helper
	n   int
	cpu time.Duration
}

// interleave lets children work by turns, ABBA, for about d in all, and gives how much each has done for a CPU-second.
func interleave(b *testing.B, kinds []string, d time.Duration, work func(h *helper, d time.Duration) int) map[string]float64 {
	b.Helper()
	var sides []*side
	for _, kind := range kinds {
		s := &side{helper: startHelper(b, kind)}
		work(s.helper, slice)
		sides = append(sides, s)
	}
	for end := time.Now().Add(d); time.Now().Before(end); slices.Reverse(sides) {
		for _, s := range sides {
			before := s.helper.cpu(b)
			s.n += work(s.helper, slice)
			s.cpu += s.helper.cpu(b) - before
		}
	}
	cost := map[string]float64{}
	for _, s := range sides {
		cost[s.kind] = float64(s.n) / s.cpu.Seconds()
	}
	return cost
}

// BenchmarkProduceCost gives requests for each CPU-second of the broker, of the bare loop, and their ratio.
func BenchmarkProduceCost(b *testing.B) {
	for _, c := range []struct {
		name   string
		size   int
		window int
	}{
		{"size=1KiB/window=1", 1 << 10, 1},
		{"size=1KiB/window=5", 1 << 10, 5},
		{"size=16KiB/window=1", 16 << 10, 1},
		{"size=16KiB/window=5", 16 << 10, 5},
		{"size=1MiB/window=2", 1000 << 10, 2},
	} {
		b.Run(c.name, func(b *testing.B) {
			records := max(c.size/1024, 1)
			f := frame(1, produceRequest(9, 1, "t", costTopicID, map[int32][]byte{0: batch(b, records, make([]byte, c.size/records))}))
			checkAccepted(b, f)
			d := max(time.Duration(b.N)*time.Microsecond, 2*time.Second)
			cost := interleave(b, []string{"broker", "bare"}, d, func(h *helper, d time.Duration) int {
				return drive(b, h.addr, f, c.window, d)
			})
			b.ReportMetric(cost["broker"], "broker-req/cpu-s")
			b.ReportMetric(cost["bare"], "bare-req/cpu-s")
			b.ReportMetric(cost["broker"]/cost["bare"], "share")
			b.ReportMetric(0, "ns/op")
		})
	}
}
