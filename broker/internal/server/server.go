// Package server owns the broker's listeners and connections: it reads requests, hands them to package api, and writes
// the answers in the order of the requests.
//
//	             one goroutine a connection                        any goroutine
//	socket ─► read ─► frame ─► api.Serve ──┬─ done at once ─┐   completes a call that waited
//	                   ▲                   └─ waits ─┐      │            │
//	                   └───────── reads on ◄─────────┴──────┘            ▼
//	        ring of calls, oldest first:   [done][done][waits][done][waits]
//	                                        └── ready ──┘  sent by whoever finds no writer, without blocking;
//	                                                       what the socket does not take: a writer goroutine
//
// # Concurrency
//
// Listen's accept goroutine, one sweeper (idle and stuck connections), one goroutine for each connection. That goroutine
// lives inside one syscall.RawConn.Read call: it reads all that is there with one system call, serves what came, and
// waits for more. Since the runtime's poller is edge-triggered and keeps an edge that came in between, a read that left
// room in its buffer needs no second one to learn that the socket is empty: one read for each burst of requests. The price
// is that an end of stream which arrived together with the last bytes goes unseen; the sweeper looks for it once the
// connection has become quiet. An idle connection holds no buffer.
//
// A connection's ring has one lock, the innermost of the broker. Nobody blocks on another connection's socket.
package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidemark/tidemark/broker/config"
	"github.com/tidemark/tidemark/broker/internal/api"
	"github.com/tidemark/tidemark/core/buf"
	"github.com/tidemark/tidemark/core/clock"
)

// sendTimeoutNanos is how long a socket may take nothing of an answer before its connection is closed.
const sendTimeoutNanos = int64(30 * time.Second)

// partingNanos is the same at a stop: who reads nothing must not hold it up.
const partingNanos = int64(2 * time.Second)

// sweepEvery is how often idle and stuck connections are looked for.
const sweepEvery = time.Second

// Handler serves requests; *api.Handlers is one.
type Handler interface {
	// Serve serves one request. With c.More another one follows at once, or a Settle.
	Serve(c *api.Call, frame []byte)
	// Settle ends what a row of requests with More has left to do.
	Settle(client *api.Client)
}

// Options is what a server is made of.
type Options struct {
	Handlers Handler
	Config   *config.Broker
	Pool     *buf.Pool
	Logger   *slog.Logger
}

// Server accepts connections on any number of listeners.
type Server struct {
	o        Options
	transfer transfer
	budget   *budget
	complain *complainer
	calls    sync.Pool // *api.Call
	ctx      context.Context
	cancel   context.CancelFunc
	stopping chan struct{}  // closed when Shutdown begins
	wg       sync.WaitGroup // acceptors and connections
	sweeper  sync.WaitGroup
	mu       struct {
		sync.Mutex
		listeners []net.Listener
		names     []string // of the listeners
		conns     map[*conn]struct{}
		perIP     map[string]int
		closed    bool
	}
	open atomic.Int64 // connections
	met  metrics
}

// New makes a server that listens nowhere yet.
func New(o Options) (*Server, error) {
	t, err := parseTransfer(o.Config.SocketTransfer)
	if err != nil {
		return nil, err
	}
	s := &Server{o: o, transfer: t, budget: newBudget(o.Config.QueuedMaxRequestBytes), complain: newComplainer(o.Logger)}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.stopping = make(chan struct{})
	s.calls.New = func() any { return new(api.Call) }
	s.mu.conns = map[*conn]struct{}{}
	s.mu.perIP = map[string]int{}
	s.sweeper.Add(1)
	go s.sweep()
	return s, nil
}

// Listen binds a listener (its name, PLAINTEXT and the like, goes with each request); clients wait in its backlog until
// Start. The address that it gives has the port that was picked for port 0.
func (s *Server) Listen(name, addr string) (net.Addr, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("listener %s on %s: %w", name, addr, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.closed {
		return nil, errors.Join(net.ErrClosed, l.Close())
	}
	s.mu.listeners = append(s.mu.listeners, l)
	s.mu.names = append(s.mu.names, name)
	return l.Addr(), nil
}

// Start begins to accept on every listener. It is called once, after the last Listen.
func (s *Server) Start() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, l := range s.mu.listeners {
		s.wg.Add(1)
		go s.accept(s.mu.names[i], l)
	}
}

// Connections counts the open connections.
func (s *Server) Connections() int64 { return s.open.Load() }

// Shutdown stops accepting and reading, answers what has been read, and closes the connections. Fetches that wait for
// bytes are answered at once with what there is. When ctx ends first the connections are cut, whatever they wait for.
func (s *Server) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	if s.mu.closed {
		s.mu.Unlock()
		return nil
	}
	s.mu.closed = true
	close(s.stopping)
	for _, l := range s.mu.listeners {
		_ = l.Close()
	}
	for c := range s.mu.conns {
		c.stopReading()
	}
	s.mu.Unlock()
	done := make(chan struct{})
	go func() { s.wg.Wait(); close(done) }()
	var err error
	select {
	case <-done:
	case <-ctx.Done():
		err = s.cut(ctx, done)
	}
	s.cancel()
	s.sweeper.Wait()
	return err
}

// cut closes what has not drained. Requests that nobody will ever answer (a disk hangs) do not hold the broker's stop up.
func (s *Server) cut(ctx context.Context, done chan struct{}) error {
	s.mu.Lock()
	n := len(s.mu.conns)
	for c := range s.mu.conns {
		c.close("")
	}
	s.mu.Unlock()
	select {
	case <-done:
		s.o.Logger.Warn("connections were cut before all their requests were answered", "connections", n)
		return nil
	case <-time.After(cutTimeout):
		return fmt.Errorf("%d connections did not end: %w", s.open.Load(), ctx.Err())
	}
}

// cutTimeout is how long the requests of connections that were cut may take to end.
const cutTimeout = time.Second

func (s *Server) accept(name string, l net.Listener) {
	defer s.wg.Done()
	for delay := time.Duration(0); ; {
		nc, err := l.Accept()
		if err == nil {
			delay = 0
			s.admit(name, nc.(*net.TCPConn))
			continue
		}
		select {
		case <-s.stopping:
			return
		default:
		}
		// Out of descriptors, most likely: existing connections go on, new ones wait in the kernel.
		s.complain.log("accept failed", "listener", name, "error", err)
		delay = min(delay*2+5*time.Millisecond, time.Second)
		select {
		case <-time.After(delay):
		case <-s.stopping:
			return
		}
	}
}

// admit starts a connection, or closes it when there are too many.
func (s *Server) admit(name string, nc *net.TCPConn) {
	host := nc.RemoteAddr().(*net.TCPAddr).IP.String()
	cfg := s.o.Config.Now()
	s.mu.Lock()
	refuse := ""
	switch {
	case s.mu.closed:
		s.mu.Unlock()
		_ = nc.Close()
		return
	case len(s.mu.conns) >= int(cfg.MaxConnections):
		refuse = "max.connections is reached"
	case s.mu.perIP[host] >= int(cfg.MaxConnectionsPerIP):
		refuse = "max.connections.per.ip is reached"
	}
	if refuse != "" {
		s.mu.Unlock()
		s.met.refused.Add(1)
		s.complain.log("connection refused", "client", host, "reason", refuse)
		_ = nc.Close()
		return
	}
	if cfg.SocketSendBufferBytes > 0 {
		_ = nc.SetWriteBuffer(int(cfg.SocketSendBufferBytes))
	}
	if cfg.SocketReceiveBufferBytes > 0 {
		_ = nc.SetReadBuffer(int(cfg.SocketReceiveBufferBytes))
	}
	raw, err := nc.SyscallConn()
	if err != nil {
		s.mu.Unlock()
		_ = nc.Close()
		return
	}
	c := newConn(s, nc, raw, name, host)
	s.mu.conns[c] = struct{}{}
	s.mu.perIP[host]++
	s.open.Add(1)
	s.met.accepted.Add(1)
	s.wg.Add(1)
	s.mu.Unlock()
	go c.run()
}

func (s *Server) forget(c *conn) {
	s.mu.Lock()
	delete(s.mu.conns, c)
	if s.mu.perIP[c.client.ClientHost]--; s.mu.perIP[c.client.ClientHost] <= 0 {
		delete(s.mu.perIP, c.client.ClientHost)
	}
	s.mu.Unlock()
	s.open.Add(-1)
	s.wg.Done()
}

// sweep closes connections that nobody uses and those whose peer takes nothing: their answers hold buffers and leases.
func (s *Server) sweep() {
	defer s.sweeper.Done()
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-tick.C:
		}
		now := clock.Nanos()
		idle := s.o.Config.ConnectionsMaxIdleMS * int64(time.Millisecond)
		starved := s.budget.waiters.Load() > 0
		sendNanos := sendTimeoutNanos
		select {
		case <-s.stopping:
			sendNanos = partingNanos
		default:
		}
		s.mu.Lock()
		for c := range s.mu.conns {
			if since := c.stuck.Load(); since != 0 && now-since > sendNanos {
				c.close(fmt.Sprintf("took nothing of its answer for %s", time.Duration(sendNanos)))
			} else if since := c.held.Load(); since != 0 && now-since > sendTimeoutNanos {
				c.close("an answer that holds open files waited 30 s behind an unfinished request")
			} else if c.stalled(now, starved) {
				c.close("a part of a request came, and next to nothing for 5 s while others waited for its memory (queued.max.request.bytes)")
			} else if idle > 0 && c.idleFor(now) > idle {
				c.close("")
			} else {
				c.lookForEnd(now)
				c.handOver(now)
			}
		}
		s.mu.Unlock()
	}
}
