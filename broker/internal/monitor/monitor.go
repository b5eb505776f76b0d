// Package monitor is the broker's HTTP side for operators: /healthz, /readyz, /metrics for Prometheus, and /debug/pprof.
// It serves on one listener of its own, which should not be reachable by clients: profiles tell what the process does.
//
// Block and mutex profiles are off until somebody asks for them, since sampling costs. A profile request may set the rate
// for its own length:
//
//	/debug/pprof/mutex?rate=100&seconds=10    every 100th contended lock
//	/debug/pprof/block?rate=1000000&seconds=10    one sample for each millisecond blocked
//
// The rates are the process's: while one such request runs, others of its kind are refused with 409. Start begins the
// server's goroutines, Shutdown ends them; they block on sockets only.
package monitor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"runtime"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Options is what the monitor tells of.
type Options struct {
	Registry *prometheus.Registry
	// Healthy and Ready say what is wrong, or nil. Not healthy means that a restart may help (a log folder has failed),
	// not ready that clients are not served (starting, stopping).
	Healthy, Ready func() error
	Logger         *slog.Logger
}

// Monitor is the HTTP server.
type Monitor struct {
	o      Options
	server *http.Server
	done   chan struct{}
	block  profileRate
	mutex  profileRate
}

// New makes a monitor that does not serve yet.
func New(o Options) *Monitor {
	m := &Monitor{o: o, done: make(chan struct{}),
		block: profileRate{set: func(rate int) { runtime.SetBlockProfileRate(rate) }},
		mutex: profileRate{set: func(rate int) { runtime.SetMutexProfileFraction(rate) }}}
	m.server = &http.Server{Handler: m.Handler(), ReadHeaderTimeout: 10 * time.Second,
		ErrorLog: slog.NewLogLogger(o.Logger.Handler(), slog.LevelDebug)}
	return m
}

// Handler is the monitor's pages, for a server of one's own.
func (m *Monitor) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", answer(m.o.Healthy))
	mux.HandleFunc("GET /readyz", answer(m.o.Ready))
	mux.Handle("GET /metrics", promhttp.HandlerFor(m.o.Registry, promhttp.HandlerOpts{Registry: m.o.Registry, MaxRequestsInFlight: 4}))
	mux.HandleFunc("GET /debug/pprof/", pprof.Index) // names the profiles, and serves heap, goroutine, allocs, threadcreate
	mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("POST /debug/pprof/symbol", pprof.Symbol)
	mux.Handle("GET /debug/pprof/block", m.block.handler(pprof.Handler("block")))
	mux.Handle("GET /debug/pprof/mutex", m.mutex.handler(pprof.Handler("mutex")))
	return mux
}

// answer says ok, or 503 and what is wrong.
func answer(check func() error) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		if check != nil {
			if err := check(); err != nil {
				w.WriteHeader(http.StatusServiceUnavailable)
				fmt.Fprintln(w, err)
				return
			}
		}
		fmt.Fprintln(w, "ok")
	}
}

// Start serves on a listener, which Shutdown closes.
func (m *Monitor) Start(l net.Listener) {
	go func() {
		defer close(m.done)
		if err := m.server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			m.o.Logger.Error("the admin listener failed", "address", l.Addr().String(), "error", err)
		}
	}()
}

// Shutdown waits for requests under way, profiles among them, as long as ctx allows, and then cuts them off. Only after
// Start.
func (m *Monitor) Shutdown(ctx context.Context) error {
	err := m.server.Shutdown(ctx)
	if err != nil {
		err = errors.Join(err, m.server.Close())
	}
	<-m.done
	return err
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
