package broker

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/core/vfs"
)

func (s *said) lines(text string) int {
	s.Lock()
	defer s.Unlock()
	return strings.Count(s.text.String(), text)
}

// connect is one connection of a client that comes, does one thing and goes. It ends in an answer, in the broker closing it, or in
// an error of the test.
func connect(addr string, kind int) error {
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		return err
	}
	c := nc.(*net.TCPConn)
	defer func() { _ = c.SetLinger(0); _ = c.Close() }() // no TIME_WAIT: ports are few
	_ = c.SetDeadline(time.Now().Add(2 * time.Minute))
	versions := kmsg.NewRequestFormatter(kmsg.FormatterClientID("storm")).AppendRequest(nil, kmsg.NewPtrApiVersionsRequest(), 1)
	send := map[int][]byte{0: versions, 1: []byte("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"), 2: {0xff, 0xff, 0xff, 0xff},
		3: versions[:len(versions)-3], 4: nil, 5: versions}[kind]
	if _, err := c.Write(send); err != nil {
		return err
	}
	switch kind {
	case 0: // answered
		var size [4]byte
		if _, err := io.ReadFull(c, size[:]); err != nil {
			return fmt.Errorf("ApiVersions: %w", err)
		}
		_, err := io.CopyN(io.Discard, c, int64(binary.BigEndian.Uint32(size[:])))
		return err
	case 1, 2: // closed by the broker; what it had not read yet makes that a reset
		_, err := c.Read(make([]byte, 1))
		if ne, ok := err.(net.Error); err == nil || ok && ne.Timeout() {
			return fmt.Errorf("a connection that is none of Kafka's stays open: %v", err)
		}
	}
	return nil // gone in the middle of a request, before one, and before its answer
}

// usage is what a process holds.
type usage struct {
	goroutines, files int
	heap              uint64
}

func usageNow(t *testing.T) usage {
	t.Helper()
	runtime.GC()
	runtime.GC() // what the pools hold goes with the second
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	files, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return usage{runtime.NumGoroutine(), len(files), m.HeapInuse}
}

// Thousands of connections as fast as they come, good ones, bad ones and ones that go in the middle: each is answered or closed,
// a producer goes on all the while, the log stays short, and afterwards nothing of them is left.
func TestAStormOfConnects(t *testing.T) {
	connects := 5000
	if testing.Short() {
		connects = 600
	}
	b, log, err := startOver(t, vfs.NewMem(nil))
	if err != nil {
		t.Fatal(err)
	}
	producer := clientOf(t, b, kgo.AllowAutoTopicCreation())
	put := func() {
		t.Helper()
		if err := producer.ProduceSync(t.Context(), kgo.StringRecord("v")).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	put()
	own := b.server.Connections() + 1 // of the producer, which may want one more
	storm := func(n int) {
		t.Helper()
		var next atomic.Int64
		var wg sync.WaitGroup
		for range 16 {
			wg.Go(func() {
				for i := next.Add(1) - 1; i < int64(n); i = next.Add(1) - 1 {
					if err := connect(b.Addr(), int(i%6)); err != nil {
						t.Errorf("connection %d: %v", i, err)
						return
					}
				}
			})
		}
		done := make(chan struct{})
		go func() { wg.Wait(); close(done) }()
		for {
			put() // each of these is acknowledged, or the test ends
			select {
			case <-done:
				return
			default:
			}
		}
	}
	storm(300) // what is made once and kept is made by these
	gone := func() bool { return b.server.Connections() <= own }
	waitFor(t, "the connections are forgotten", gone)
	before, began := usageNow(t), time.Now()
	storm(connects)
	waitFor(t, "the connections are forgotten", gone)
	seconds := int(time.Since(began)/time.Second) + 2
	if n, most := log.lines("level=WARN"), 5*(seconds+2); n > most {
		t.Errorf("%d lines of warnings in %d s, at most %d may be", n, seconds, most)
	}
	var after usage
	waitFor(t, "files and goroutines are given back", func() bool {
		after = usageNow(t)
		return after.files <= before.files+10 && after.goroutines <= before.goroutines+20
	})
	t.Logf("%d connects in %v; before %+v, after %+v", connects, time.Since(began).Round(time.Millisecond), before, after)
	if grown := int64(after.heap) - int64(before.heap); grown > 16<<20 {
		t.Errorf("the heap has grown by %d KiB", grown>>10)
	}
	put()
	if err := stop(t, b); err != nil {
		t.Error(err)
	}
	if log.lines("panic") > 0 || bytes.Contains(log.text.Bytes(), []byte("bug:")) {
		t.Error("the log speaks of a bug")
	}
}

func waitFor(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !ok(); runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
	}
}
