package monitor

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/google/pprof/profile"
	"github.com/prometheus/client_golang/prometheus"
)

func options() Options {
	r := prometheus.NewRegistry()
	c := prometheus.NewCounter(prometheus.CounterOpts{Name: "tidemark_test_total", Help: "Counts."})
	r.MustRegister(c)
	c.Inc()
	return Options{Addr: "127.0.0.1:0", Registry: r, Logger: slog.New(slog.DiscardHandler)}
}

func get(m *Server, path string) (int, string) {
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest("GET", path, nil))
	return w.Code, w.Body.String()
}

func TestPages(t *testing.T) {
	m := newServer(options())
	for _, c := range []struct {
		path string
		code int
		want string
	}{
		{"/healthz", 200, "ok"},
		{"/readyz", 503, "starting or stopping"},
		{"/metrics", 503, "starting"},
		{"/debug/pprof/", 200, "goroutine"},
		{"/debug/pprof/goroutine?debug=1", 200, "monitor"},
		{"/debug/pprof/cmdline", 200, "monitor"},
		{"/debug/pprof/mutex?rate=0&seconds=1", 400, "at least 1"},
		{"/debug/pprof/mutex?rate=5", 400, "seconds"},
		{"/debug/pprof/block?rate=5&seconds=100000", 400, "seconds of 1 to 600"},
		{"/debug/pprof/nothing", 404, "Unknown profile"},
		{"/", 404, ""},
	} {
		if code, body := get(m, c.path); code != c.code || !strings.Contains(body, c.want) {
			t.Errorf("%s: %d %.200q, want %d with %q", c.path, code, body, c.code, c.want)
		}
	}
}

func TestReadyWhenTold(t *testing.T) {
	m := newServer(options())
	for _, ready := range []bool{true, false} {
		m.SetReady(ready)
		if code, _ := get(m, "/readyz"); (code == 200) != ready {
			t.Errorf("ready %v answers %d", ready, code)
		}
		if code, body := get(m, "/metrics"); code != 200 || !strings.Contains(body, "tidemark_test_total 1") {
			t.Errorf("/metrics, ready %v: %d %.200q", ready, code, body) // of a broker that stops too
		}
	}
}

func TestNothingStandsOnTheDefaultMux(t *testing.T) {
	for _, path := range []string{"/metrics", "/healthz"} {
		w := httptest.NewRecorder()
		http.DefaultServeMux.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
		if w.Code != 404 {
			t.Errorf("%s: %d", path, w.Code)
		}
	}
}

func TestARateHoldsForOneRequest(t *testing.T) {
	var set []int
	p := &profileRate{set: func(rate int) { set = append(set, rate) }}
	h := p.handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		inner := httptest.NewRecorder()
		p.handler(nil).ServeHTTP(inner, httptest.NewRequest("GET", "/?rate=7&seconds=1", nil))
		w.WriteHeader(inner.Code)
	}))
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", "/?rate=100&seconds=1", nil))
	if w.Code != http.StatusConflict || len(set) != 2 || set[0] != 100 || set[1] != 0 {
		t.Errorf("a second request meanwhile got %d; rates set: %v", w.Code, set)
	}
}

// A contended mutex shows in a profile taken over the socket.
func TestMutexProfileOfARunningServer(t *testing.T) {
	m, err := New(options())
	if err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	var contenders sync.WaitGroup
	var mu sync.Mutex
	for range 4 {
		contenders.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				mu.Lock()
				for i := range 1000 {
					_ = i
				}
				mu.Unlock()
			}
		})
	}
	samples := 0
	for tries := 0; samples == 0 && tries < 60; tries++ { // on a busy host nobody may have run in that second
		resp, err := http.Get("http://" + m.Addr() + "/debug/pprof/mutex?rate=1&seconds=1")
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		prof, err := profile.ParseData(body)
		if err != nil {
			t.Fatalf("%s: %d bytes, %v", resp.Status, len(body), err)
		}
		samples = len(prof.Sample)
	}
	close(stop)
	contenders.Wait()
	if samples == 0 {
		t.Error("no contention in any profile")
	}
	http.DefaultClient.CloseIdleConnections()
	if err := m.Close(); err != nil {
		t.Error(err)
	}
}
