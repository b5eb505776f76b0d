package servertest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/broker/config"
	"github.com/tidemark/tidemark/broker/internal/api"
	"github.com/tidemark/tidemark/broker/internal/server"
	"github.com/tidemark/tidemark/core/buf"
	"github.com/tidemark/tidemark/core/kafka"
	"github.com/tidemark/tidemark/core/vfs"
)

// logLines is a logger's output.
type logLines struct {
	sync.Mutex
	b bytes.Buffer
}

func (l *logLines) Write(b []byte) (int, error) {
	l.Lock()
	defer l.Unlock()
	return l.b.Write(b)
}

func (l *logLines) String() string {
	l.Lock()
	defer l.Unlock()
	return l.b.String()
}

// hold is a handler that never answers.
type hold struct{}

func (*hold) Serve(*api.Call, []byte) {}

func (*hold) Settle(*api.Client) {}

// A stop answers what has been read: producers learn of each batch that was written, and a fetch that would wait for ten
// minutes is answered with nothing.
func TestAStopAnswersWhatWasRead(t *testing.T) {
	n := startNode(t, t.TempDir())
	id := n.topic("t", 1)
	const producers, requests = 8, 50
	var clients []*client
	r := produceRequest(9, -1, "t", id, map[int32][]byte{0: batch(t, 1, make([]byte, 10_000))})
	for range producers {
		c := n.dial()
		c.do(kmsg.NewPtrApiVersionsRequest())
		clients = append(clients, c)
	}
	waiting := n.dial()
	f := fetchRequest(12, "t", id, map[int32]int64{0: 1 << 20})
	f.MaxWaitMillis, f.MinBytes = 600_000, 1<<30
	f.Topics[0].Partitions[0].FetchOffset, f.Topics[0].Partitions[0].PartitionMaxBytes = 0, 1
	waiting.send(f)
	waiting.send(kmsg.NewPtrApiVersionsRequest()) // behind it
	for deadline := time.Now().Add(patience); n.server.Connections() < producers+1 || n.waits.Len() == 0; runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatal("not all have connected, or the fetch was not read")
		}
	}
	for _, c := range clients {
		for range requests {
			c.send(r)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	must(t, n.server.Shutdown(ctx))
	p, code := n.set.Get(id, 0)
	if code != kafka.None {
		t.Fatal(code)
	}
	answered := 0
	for _, c := range clients {
		for {
			resp, _, err := c.tryReceive(r)
			if err != nil {
				if !errors.Is(err, io.EOF) {
					t.Errorf("a connection ends in %v, answers may be lost", err)
				}
				break
			}
			if a := produced(t, resp, 0); a.ErrorCode != 0 {
				t.Errorf("%+v", a)
			}
			answered++
		}
	}
	if end := int(p.LogEnd()); answered != end {
		t.Errorf("%d batches are in the log, %d were answered", end, answered)
	}
	if resp, _ := waiting.receive(f); fetched(t, resp, 0).ErrorCode != 0 {
		t.Errorf("the fetch that waited: %+v", resp)
	}
}

// A connection with as many open requests as it may have, which waits to take the next one, ends like any other.
func TestAStopEndsAConnectionThatMayTakeNoMore(t *testing.T) {
	const most = 128
	n := startNode(t, t.TempDir())
	id := n.topic("t", 1)
	c := n.dial()
	f := fetchRequest(12, "t", id, map[int32]int64{0: 0})
	f.MaxWaitMillis = 600_000
	for range most + 10 {
		c.send(f)
	}
	eventually(t, "the ring is full", func() bool { runtime.Gosched(); return n.waits.Len() == most })
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	must(t, n.server.Shutdown(ctx))
	if ctx.Err() != nil {
		t.Error("the stop took all its time")
	}
	for i := range most {
		if resp, _ := c.receive(f); fetched(t, resp, 0).ErrorCode != 0 {
			t.Fatalf("fetch %d: %+v", i, resp)
		}
	}
}

// Clients that are connected and silent hold a stop up for no time, and it leaves no complaint in the log.
func TestAStopWithIdleClientsSaysNothing(t *testing.T) {
	cfg, _, err := config.Load("", []string{"log.dirs=" + t.TempDir()})
	must(t, err)
	var lines logLines
	s, err := server.New(server.Options{Handlers: &hold{}, Config: cfg, Pool: buf.NewPool(),
		Logger: slog.New(slog.NewTextHandler(&lines, nil))})
	must(t, err)
	a, err := s.Listen("PLAINTEXT", "127.0.0.1:0")
	must(t, err)
	s.Start()
	n := &node{t: t, server: s, addr: a.String()}
	for range 10 {
		n.dial()
	}
	must(t, s.Shutdown(context.Background()))
	if s.Connections() != 0 || strings.Contains(lines.String(), "WARN") || strings.Contains(lines.String(), "closed network") {
		t.Errorf("%d connections; log:\n%s", s.Connections(), lines.String())
	}
}

// What nobody answers is cut when the time for a stop is over.
func TestAStopIsBoundedByItsContext(t *testing.T) {
	hang := make(chan struct{})
	n, _ := faultyNode(t, hang)
	id := n.topic("stuck", 1)
	c := n.dial()
	c.send(produceRequest(9, 1, "stuck", id, map[int32][]byte{0: batch(t, 1, []byte("x"))}))
	hang <- struct{}{}
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if err := n.server.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the stop of a broker whose disk hangs: %v", err)
	}
	close(hang)
}

// Answers that nobody reads hold at most their part of queued.max.request.bytes, and stop nobody else.
func TestTheMemoryOfAnswersIsBounded(t *testing.T) {
	cfg, _, err := config.Load("", []string{"log.dirs=" + t.TempDir(), "node.id=0", "queued.max.request.bytes=4194304", "socket.request.max.bytes=1048576"})
	must(t, err)
	n := startWith(t, cfg, vfs.OS{})
	id := n.topic("t", 20)
	writer := n.dial()
	want := map[int32]int{}
	offsets := map[int32]int64{}
	for i := range int32(20) {
		r := produceRequest(9, 1, "t", id, map[int32][]byte{i: batch(t, 1, make([]byte, 50_000))})
		writer.do(r)
		want[i], offsets[i] = 50_000, 0
	}
	// 30 connections ask for a megabyte each and read nothing: four megabytes are all there is, and half of it is for
	// requests.
	var slow []*client
	for range 30 {
		c := n.dial()
		c.send(fetchRequest(12, "t", id, offsets))
		slow = append(slow, c)
	}
	if p := produced(t, writer.do(produceRequest(9, 1, "t", id, map[int32][]byte{0: batch(t, 1, make([]byte, 500_000))})), 0); p.ErrorCode != 0 {
		t.Fatalf("a producer beside slow readers: %+v", p)
	}
	for _, c := range slow {
		// Every reader comes to everything, in as many fetches as it takes.
		got := map[int32]bool{}
		r := fetchRequest(12, "t", id, offsets)
		for resp, _ := c.receive(r); ; resp = c.do(r) {
			for _, p := range resp.(*kmsg.FetchResponse).Topics[0].Partitions {
				if p.ErrorCode != 0 {
					t.Fatalf("%+v", p)
				}
				got[p.Partition] = got[p.Partition] || len(p.RecordBatches) > 50_000
			}
			left := map[int32]int64{}
			for i := range want {
				if !got[i] {
					left[i] = 0
				}
			}
			if len(left) == 0 {
				break
			}
			r = fetchRequest(12, "t", id, left)
		}
	}
}
