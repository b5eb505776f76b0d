package servertest

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/broker/config"
	"github.com/tidemark/tidemark/broker/internal/api"
	"github.com/tidemark/tidemark/broker/internal/server"
	"github.com/tidemark/tidemark/core/buf"
)

// generous answers each request with so many bytes, and looks at what is not sent of its answers before when it gets one.
type generous struct {
	answerBytes int
	later       bool // by another goroutine
	wait        chan struct{}
	ctx         context.Context

	taken, open, unsent, mostOpen, mostUnsent atomic.Int64
	done                                      sync.WaitGroup
}

// Sent tells that an answer has left.
func (g *generous) Sent() { g.unsent.Add(-1) }

func (g *generous) Serve(c *api.Call, _ []byte) {
	raise(&g.mostUnsent, g.unsent.Load())
	raise(&g.mostOpen, g.open.Add(1))
	g.taken.Add(1)
	answer := func() {
		if g.wait != nil {
			select {
			case <-g.wait:
			case <-g.ctx.Done():
			}
		}
		c.Answer.Head = binary.BigEndian.AppendUint32(make([]byte, 0, 4+g.answerBytes), uint32(g.answerBytes))[:4+g.answerBytes]
		c.Answer.Owner = g
		g.unsent.Add(1)
		g.open.Add(-1)
		c.Conn.Completed(c)
	}
	if g.later {
		g.done.Go(answer)
		return
	}
	answer()
}

func (*generous) Settle(*api.Client) {}

func raise(to *atomic.Int64, n int64) {
	for {
		have := to.Load()
		if n <= have || to.CompareAndSwap(have, n) {
			return
		}
	}
}

// dialGenerous starts a server with that handler and sends it so many requests in one go.
func dialGenerous(t *testing.T, g *generous, requests int, request kmsg.Request, settings ...string) net.Conn {
	t.Helper()
	g.ctx = t.Context()
	cfg, _, err := config.Load("", settings)
	must(t, err)
	s, err := server.New(server.Options{Handlers: g, Config: cfg, Pool: buf.NewPool(), Logger: slog.New(slog.DiscardHandler)})
	must(t, err)
	a, err := s.Listen("PLAINTEXT", "127.0.0.1:0")
	must(t, err)
	s.Start()
	c, err := net.Dial("tcp", a.String())
	must(t, err)
	t.Cleanup(func() {
		_ = c.Close()
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		must(t, s.Shutdown(ctx))
		g.done.Wait()
	})
	_ = c.SetDeadline(time.Now().Add(patience))
	var row []byte
	for i := range requests {
		row = append(row, frame(int32(i), request)...)
	}
	g.done.Go(func() { // the server need not read on before it is read from
		if _, err := c.Write(row); err != nil {
			t.Error(err)
		}
	})
	return c
}

func readAnswers(t *testing.T, c net.Conn, n, size int) {
	t.Helper()
	for i := range n {
		var head [4]byte
		if _, err := io.ReadFull(c, head[:]); err != nil || binary.BigEndian.Uint32(head[:]) != uint32(size) {
			t.Fatalf("answer %d of %d: %v, %v", i, n, head, err)
		}
		if _, err := io.CopyN(io.Discard, c, int64(size)); err != nil {
			t.Fatalf("answer %d of %d: %v", i, n, err)
		}
	}
}

// TestLargeAnswersAreMadeOneAtATime: a connection whose answers its client has yet to read asks for no more of them, whether they
// are made at once or by somebody else; none is lost by it.
func TestLargeAnswersAreMadeOneAtATime(t *testing.T) {
	const requests, size = 40, 2 << 20
	for name, request := range map[string]kmsg.Request{"at once": kmsg.NewPtrListGroupsRequest(), "later": kmsg.NewPtrListGroupsRequest(),
		"at once, large requests": manyTopics()} {
		t.Run(name, func(t *testing.T) {
			g := &generous{answerBytes: size, later: name == "later"}
			n := requests
			if name == "at once, large requests" {
				n = 4
			}
			c := dialGenerous(t, g, n, request)
			readAnswers(t, c, n, size)
			if g.mostUnsent.Load() > 0 || g.mostOpen.Load() > 1 {
				t.Errorf("a request was taken while %d answers of %d bytes were unsent; %d were being made at once", g.mostUnsent.Load(), size, g.mostOpen.Load())
			}
		})
	}
}

// manyTopics is a request that is read into a buffer of its own.
func manyTopics() kmsg.Request {
	r := kmsg.NewPtrCreateTopicsRequest()
	for range 10_000 {
		t := kmsg.NewCreateTopicsRequestTopic()
		t.Topic = "a-topic-name"
		r.Topics = append(r.Topics, t)
	}
	return r
}

// TestSmallAnswersAreMadeTogether: what costs little is taken without waiting for what came before.
func TestSmallAnswersAreMadeTogether(t *testing.T) {
	const requests, size = 100, 2000
	g := &generous{answerBytes: size, later: true, wait: make(chan struct{})}
	c := dialGenerous(t, g, requests, kmsg.NewPtrHeartbeatRequest())
	eventually(t, "all requests are taken before the first is answered", func() bool { return g.taken.Load() == requests })
	close(g.wait)
	readAnswers(t, c, requests, size)
}

// TestAMemberThatWaitsIsAlone: a group's answers may be large, so that a connection asks for the next when it has one; what is
// behind a request that waits for a rebalance holds no memory of others meanwhile.
func TestAMemberThatWaitsIsAlone(t *testing.T) {
	const members, behind = 20, 12_000
	join := kmsg.NewPtrJoinGroupRequest()
	heartbeat, large := kmsg.NewPtrHeartbeatRequest(), kmsg.NewPtrProduceRequest()
	heartbeat.Group = strings.Repeat("g", behind)
	large.Version, large.TransactionID = 9, kmsg.StringPtr(strings.Repeat("x", members*behind/2))
	g := &generous{answerBytes: 100, later: true, wait: make(chan struct{})}
	first := dialGenerous(t, g, 2, join, fmt.Sprint("queued.max.request.bytes=", members*behind),
		fmt.Sprint("socket.request.max.bytes=", members*behind))
	conns := []net.Conn{first}
	dial := func(row []byte) net.Conn {
		c, err := net.Dial("tcp", first.RemoteAddr().String())
		must(t, err)
		t.Cleanup(func() { _ = c.Close() })
		_ = c.SetDeadline(time.Now().Add(patience))
		_, err = c.Write(row)
		must(t, err)
		return c
	}
	for len(conns) < members {
		conns = append(conns, dial(append(frame(1, join), frame(2, heartbeat)...)))
	}
	eventually(t, "every member waits", func() bool { return g.taken.Load() >= members })
	other := dial(frame(1, large))
	eventually(t, "others are served", func() bool { return g.taken.Load() > members })
	if n := g.mostOpen.Load(); n != members+1 {
		t.Errorf("%d requests of %d members and one other were taken before the first was answered", n, members)
	}
	close(g.wait)
	for _, c := range conns {
		readAnswers(t, c, 2, 100)
	}
	readAnswers(t, other, 1, 100)
}
