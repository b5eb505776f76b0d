// Package monitor is the broker's HTTP side for operators: /healthz, /readyz, /metrics for Prometheus, and /debug/pprof.
// It serves on one listener of its own, which should not be reachable by clients: profiles tell what the process does.
//
// Block and mutex profiles are off until somebody asks for them, since sampling costs. A profile request may set the rate
// for its own length:
//
//	/debug/pprof/mutex?rate=100&seconds=10    every 100th contended lock
//	/debug/pprof/block?rate=1000000&seconds=10    one sample for each millisecond blocked
//
// The rates are the process's: while one such request runs, others of its kind are refused with 409. New begins the
// server's goroutines, Close ends them; they block on sockets only.
package monitor

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Options is what the server tells of.
type Options struct {
	Addr     string // HOST:PORT to listen on; port 0 picks a free one
	Registry *prometheus.Registry
	Logger   *slog.Logger
}

// Server is the HTTP server.
type Server struct {
	o        Options
	listener net.Listener
	server   *http.Server
	done     chan struct{}
	ready    atomic.Bool
	started  atomic.Bool // it has been ready
	block    profileRate
	mutex    profileRate
}

// New listens and serves: healthy at once, ready when SetReady says so.
func New(o Options) (*Server, error) {
	l, err := net.Listen("tcp", o.Addr)
	if err != nil {
		return nil, fmt.Errorf("admin listener: %w", err)
	}
	s := newServer(o)
	s.listener = l
	go s.serve()
	return s, nil
}

func newServer(o Options) *Server {
	s := &Server{o: o, done: make(chan struct{}), block: profileRate{set: runtime.SetBlockProfileRate},
		mutex: profileRate{set: func(rate int) { runtime.SetMutexProfileFraction(rate) }}}
	s.server = &http.Server{Handler: s.Handler(), ReadHeaderTimeout: 10 * time.Second,
		ErrorLog: slog.NewLogLogger(o.Logger.Handler(), slog.LevelDebug)}
	return s
}

func (s *Server) serve() {
	defer close(s.done)
	if err := s.server.Serve(s.listener); !errors.Is(err, http.ErrServerClosed) {
		s.o.Logger.Error("the admin listener failed", "address", s.Addr(), "error", err)
	}
}

// Addr is the bound address, HOST:PORT.
func (s *Server) Addr() string { return s.listener.Addr().String() }

// SetReady says whether clients are served now.
func (s *Server) SetReady(ready bool) {
	s.ready.Store(ready)
	if ready {
		s.started.Store(true)
	}
}

// Close ends the server and cuts off requests under way, profiles among them.
func (s *Server) Close() error {
	err := s.server.Close()
	<-s.done
	return err
}

// Handler is the server's pages.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", s.healthz)
	mux.HandleFunc("GET /readyz", s.readyz)
	mux.Handle("GET /metrics", s.onceStarted(promhttp.HandlerFor(s.o.Registry, promhttp.HandlerOpts{Registry: s.o.Registry, MaxRequestsInFlight: 4})))
	mux.HandleFunc("GET /debug/pprof/", pprof.Index) // names the profiles, and serves heap, goroutine, allocs, threadcreate
	mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("POST /debug/pprof/symbol", pprof.Symbol)
	mux.Handle("GET /debug/pprof/block", s.block.handler(pprof.Handler("block")))
	mux.Handle("GET /debug/pprof/mutex", s.mutex.handler(pprof.Handler("mutex")))
	return mux
}

// onceStarted keeps a page back until the broker has been ready: what it tells is not there before.
func (s *Server) onceStarted(page http.Handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !s.started.Load() {
			http.Error(w, "not yet: the broker is starting", http.StatusServiceUnavailable)
			return
		}
		page.ServeHTTP(w, r)
	}
}

func (s *Server) healthz(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	fmt.Fprintln(w, "ok")
}

func (s *Server) readyz(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	if !s.ready.Load() {
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprintln(w, "not ready: the broker is starting or stopping")
		return
	}
	fmt.Fprintln(w, "ok")
}

// profileRate switches the sampling of one of the runtime's two profiles that are off by default.
type profileRate struct {
	set  func(int)
	busy struct {
		sync.Mutex
		on bool
	}
}

// maxProfileSeconds bounds how long a request keeps sampling on.
const maxProfileSeconds = 600

// handler serves the profile; with rate in its query it samples at that rate while the request runs. net/http/pprof makes
// a profile of seconds=N the difference between its end and its beginning, so older samples do not count.
func (p *profileRate) handler(profile http.Handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		text := r.FormValue("rate")
		if text == "" {
			profile.ServeHTTP(w, r)
			return
		}
		rate, err := strconv.Atoi(text)
		seconds, secondsErr := strconv.Atoi(r.FormValue("seconds"))
		if err != nil || rate < 1 || secondsErr != nil || seconds < 1 || seconds > maxProfileSeconds {
			http.Error(w, fmt.Sprintf("rate=%q seconds=%q: want rate of at least 1 and seconds of 1 to %d", text, r.FormValue("seconds"),
				maxProfileSeconds), http.StatusBadRequest)
			return
		}
		if !p.begin(rate) {
			http.Error(w, "another request samples this profile: try again when it has ended", http.StatusConflict)
			return
		}
		defer p.end()
		profile.ServeHTTP(w, r)
	}
}

func (p *profileRate) begin(rate int) bool {
	p.busy.Lock()
	defer p.busy.Unlock()
	if p.busy.on {
		return false
	}
	p.busy.on = true
	p.set(rate)
	return true
}

func (p *profileRate) end() {
	p.busy.Lock()
	defer p.busy.Unlock()
	p.busy.on = false
	p.set(0)
}
