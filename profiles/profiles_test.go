package profiles

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	httppprof "net/http/pprof"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/pprof/profile"
)

// burned builds a CPU profile by hand: each function with its samples.
func burned(t *testing.T, samples map[string]int64) []byte {
	t.Helper()
	p := &profile.Profile{SampleType: []*profile.ValueType{{Type: "samples", Unit: "count"}, {Type: "cpu", Unit: "nanoseconds"}},
		PeriodType: &profile.ValueType{Type: "cpu", Unit: "nanoseconds"}, Period: 10_000_000}
	outer := &profile.Function{ID: 1, Name: "main.main"}
	p.Function = append(p.Function, outer)
	outerLoc := &profile.Location{ID: 1, Line: []profile.Line{{Function: outer}}}
	p.Location = append(p.Location, outerLoc)
	for name, n := range samples {
		f := &profile.Function{ID: uint64(len(p.Function) + 1), Name: name}
		l := &profile.Location{ID: uint64(len(p.Location) + 1), Line: []profile.Line{{Function: f}}}
		p.Function, p.Location = append(p.Function, f), append(p.Location, l)
		p.Sample = append(p.Sample, &profile.Sample{Location: []*profile.Location{l, outerLoc}, Value: []int64{n, n * 10_000_000}})
	}
	var b strings.Builder
	if err := p.Write(&b); err != nil {
		t.Fatal(err)
	}
	return []byte(b.String())
}

// TestPushReachesReceiver: the bytes that are kept are the bytes that arrive, under labels that Pyroscope can read.
func TestPushReachesReceiver(t *testing.T) {
	dir := t.TempDir()
	r, err := NewReceiver(dir)
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(r)
	defer srv.Close()
	p, err := NewPusher(srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	want := burned(t, map[string]int64{"a": 3})
	now := time.Now()
	const pushes = 50
	for range pushes {
		p.Push(Profile{App: "tidemark.broker", Labels: map[string]string{"suite": "quick", "keys": "hot(0.5, {x}=1)"}, Kind: CPU,
			From: now.Add(-time.Second), Until: now, Data: want})
	}
	if sent, err := p.Close(); err != nil || sent != pushes {
		t.Fatalf("sent %d, %v", sent, err)
	}
	index, err := os.ReadFile(filepath.Join(dir, "index.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(index)), "\n")
	if len(lines) != pushes || r.Count() != pushes {
		t.Fatalf("%d lines, %d received, want %d", len(lines), r.Count(), pushes)
	}
	var rec Received
	if err := json.Unmarshal([]byte(lines[0]), &rec); err != nil {
		t.Fatal(err)
	}
	if rec.App != "tidemark.broker" || rec.Labels["suite"] != "quick" || rec.Labels["keys"] != "hot(0.5___x__1)" || !rec.Until.Equal(now) {
		t.Errorf("received %+v", rec)
	}
	got, err := os.ReadFile(filepath.Join(dir, rec.File))
	if err != nil || string(got) != string(want) {
		t.Errorf("the file that arrived differs (%d bytes, %v)", len(got), err)
	}
}

// TestPyroscopeThatFails: down, answering errors, accepting and never answering: one error each, whatever is pushed.
func TestPyroscopeThatFails(t *testing.T) {
	asked := 0
	errs := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked++
		http.Error(w, "no", http.StatusInternalServerError)
	}))
	defer errs.Close()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone.Close()
	for name, addr := range map[string]string{"errors": errs.URL, "silent": "http://" + silent.Addr().String(), "down": "http://" + gone.Addr().String()} {
		t.Run(name, func(t *testing.T) {
			p, err := NewPusher(addr)
			if err != nil {
				t.Fatal(err)
			}
			for range 30 {
				p.Push(Profile{App: "x", Kind: Heap, Data: []byte("x")})
			}
			if sent, err := p.Close(); err == nil || sent != 0 {
				t.Errorf("sent %d, error %v", sent, err)
			}
		})
	}
	if asked != 1 {
		t.Errorf("a failing server was asked %d times, want once", asked)
	}
	if _, err := NewPusher("localhost:4040"); err == nil {
		t.Error("an address without a scheme was taken")
	}
}

// TestAnAddressHoldsNoPassword: a bench writes it into its results, and prints it.
func TestAnAddressHoldsNoPassword(t *testing.T) {
	for _, bad := range []string{"http://user:secret@127.0.0.1:4040", "https://secret@profiles.example", "http://user:secret%zz@127.0.0.1:4040", "user:secret@127.0.0.1:4040"} {
		if err := CheckAddress(bad); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", bad, err)
		}
		if _, err := NewPusher(bad); err == nil {
			t.Errorf("%s: a pusher takes it", bad)
		}
	}
	if err := CheckAddress("https://profiles.example/base"); err != nil {
		t.Error(err)
	}
}

func TestReceiverRefuses(t *testing.T) {
	r, err := NewReceiver(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	ok := "/ingest?name=a%7Bb=c%7D&from=1700000000&until=1700000001"
	for _, c := range []struct {
		method, path, body string
		want               int
	}{
		{"GET", "/", "", 404},
		{"GET", ok, "", 405},
		{"POST", "/ingest", "", 400},
		{"POST", ok, "not a profile", 400},
		{"POST", "/ingest?name=a%7Bb&from=1&until=2", "", 400},
		{"POST", "/ingest?name=a&from=x&until=2", string(burned(t, map[string]int64{"f": 1})), 400},
		{"POST", ok, string(burned(t, map[string]int64{"f": 1})), 200},
	} {
		w := httptest.NewRecorder()
		r.ServeHTTP(w, httptest.NewRequest(c.method, c.path, strings.NewReader(c.body)))
		if w.Code != c.want {
			t.Errorf("%s %s: %d %s, want %d", c.method, c.path, w.Code, w.Body, c.want)
		}
	}
}

func TestDiffIsPerWork(t *testing.T) {
	parse := func(m map[string]int64) *profile.Profile {
		p, err := Parse(burned(t, m))
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	before, after := parse(map[string]int64{"crc": 1000, "write": 1000}), parse(map[string]int64{"crc": 2000, "write": 6000})
	got, err := Diff(before, after, 1000, 2000)
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 1 || got[0].Name != "write" || got[0].After != 3*got[0].Before {
		t.Errorf("twice the work for the same crc and three times the write: %+v", got)
	}
	if _, err := Diff(parse(map[string]int64{"crc": 999}), after, 1, 1); !errors.Is(err, ErrFewSamples) {
		t.Errorf("999 samples: %v", err)
	}
	funcs, total := Top(before)
	if total != 2000*10_000_000 || funcs[len(funcs)-1].Name != "main.main" || funcs[len(funcs)-1].Cum != total {
		t.Errorf("top %+v of %d", funcs, total)
	}
}

// TestSelfAndFetch: both ways of capturing give profiles that parse.
func TestSelfAndFetch(t *testing.T) {
	end, err := Self([]Kind{CPU, Heap, Mutex, Block, Goroutine})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Self([]Kind{CPU}); err == nil {
		t.Error("two CPU profiles at once")
	}
	got, err := end()
	if err != nil || len(got) != 5 {
		t.Fatalf("%d profiles, %v", len(got), err)
	}
	for k, b := range got {
		if _, err := Parse(b); err != nil {
			t.Errorf("%s: %v", k, err)
		}
	}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.String() == "/debug/pprof/mutex?rate=100&seconds=2" {
			_, _ = w.Write(got[Mutex])
			return
		}
		http.NotFound(w, r)
	}))
	defer srv.Close()
	host := strings.TrimPrefix(srv.URL, "http://")
	if b, err := Fetch(context.Background(), srv.Client(), host, Mutex, 2*time.Second); err != nil || string(b) != string(got[Mutex]) {
		t.Errorf("fetch: %d bytes, %v", len(b), err)
	}
	if _, err := Fetch(context.Background(), srv.Client(), host, Heap, 0); err == nil {
		t.Error("a 404 is no profile")
	}
}

// TestRemoteCPUEndsWhenAsked: a profile of another process ends when its caller says so, whole seconds or not.
func TestRemoteCPUEndsWhenAsked(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/profile", httppprof.Profile)
	srv := httptest.NewServer(mux)
	defer srv.Close()
	host := strings.TrimPrefix(srv.URL, "http://")
	c, err := StartCPU(t.Context(), host, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	b, err := c.End()
	if err != nil {
		t.Fatal(err)
	}
	if p, err := Parse(b); err != nil || p.DurationNanos >= int64(time.Minute) {
		t.Errorf("the profile: %v", err)
	}
	end, err := Self([]Kind{CPU}) // a process has one CPU profile at a time
	if err != nil {
		t.Fatal(err)
	}
	if c, err = StartCPU(t.Context(), host, time.Minute); err != nil {
		t.Fatal(err)
	}
	if _, err := c.End(); err == nil || !strings.Contains(err.Error(), "500") {
		t.Errorf("a second profile at once: %v", err)
	}
	if _, err := end(); err != nil {
		t.Error(err)
	}
	if _, err := StartCPU(t.Context(), "127.0.0.1:1", time.Second); err == nil {
		t.Error("nobody there, and no error")
	}
	ctx, cancel := context.WithCancel(t.Context())
	lost, err := StartCPU(ctx, host, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if _, err := lost.End(); err == nil {
		t.Error("a cancelled profile came all the same")
	}
}

// FuzzParse: what a push or a file holds is no reason to fall over.
func FuzzParse(f *testing.F) {
	f.Add([]byte("\x1f\x8b"))
	f.Add([]byte("heap profile: 0: 0 [0: 0] @ heap/1048576\n"))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := Parse(b)
		if err != nil {
			return
		}
		Top(p)
		Samples(p)
		_, _ = Diff(p, p, 1, 2)
	})
}

// FuzzParseLabels: what Labels wrote is read back as it was written.
func FuzzParseLabels(f *testing.F) {
	f.Add("app", "in-flight", "5")
	f.Add("a{b", "k,=", "{}= ,")
	f.Fuzz(func(t *testing.T, app, key, value string) {
		_, _, _ = parseLabels(app)
		text := Labels(app, map[string]string{key: value})
		gotApp, labels, err := parseLabels(text)
		if err != nil || Labels(gotApp, labels) != text {
			t.Errorf("%q was read as %q %v: %v", text, gotApp, labels, err)
		}
	})
}
