package loadgen

import (
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/pprof"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidemark/tidemark/loadgen/result"
	"github.com/tidemark/tidemark/loadgen/sink"
	"github.com/tidemark/tidemark/loadgen/workload"
	"github.com/tidemark/tidemark/profiles"
)

func profiled(t *testing.T, o Profiling, script sink.Script) (*result.Result, string) {
	t.Helper()
	s := latency(2000)
	s.Window = workload.Duration(1300 * time.Millisecond)
	dir := filepath.Join(t.TempDir(), "out")
	res, err := Run(t.Context(), Options{Spec: s, Bootstrap: []string{target(t, script).Addr()}, Out: dir, Profile: o})
	if res == nil {
		t.Fatal(err)
	}
	back, err := result.Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := back.CheckFiles(dir); err != nil {
		t.Error(err)
	}
	return back, dir
}

// admin is a target's HTTP side: this process stands for it, but for its CPU, which it has but one profile of.
func admin(t *testing.T) string {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	return strings.TrimPrefix(srv.URL, "http://")
}

// TestProfilesAreKeptAndPushed: each profile is captured once; the file and what arrives are the same bytes.
func TestProfilesAreKeptAndPushed(t *testing.T) {
	got := t.TempDir()
	receiver, err := profiles.NewReceiver(got)
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(receiver)
	defer srv.Close()
	heavy := []profiles.Kind{profiles.Heap, profiles.Mutex, profiles.Block}
	o := Profiling{Kinds: append([]profiles.Kind{profiles.CPU}, heavy...), Target: admin(t), Pyroscope: srv.URL}
	res, dir := profiled(t, o, sink.Script{})
	for range 5 { // a push, or a profile of the target, that a busy host has held up beyond its time-out is said
		if !slices.ContainsFunc(res.Profiles.Notes, func(n string) bool { return strings.Contains(n, "deadline") || strings.Contains(n, "cancel") }) {
			break
		}
		res, dir = profiled(t, o, sink.Script{})
	}
	if !res.Run.Profiled || !res.Has(result.Profiled) || res.Countable() {
		t.Error("a run with heavy profiles counts")
	}
	want := []string{"profiles/broker.heap.pprof", "profiles/broker.mutex.pprof", "profiles/broker.block.pprof",
		"profiles/load.cpu.pprof", "profiles/load.heap.pprof", "profiles/load.mutex.pprof", "profiles/load.block.pprof"}
	var files []string
	for _, p := range res.Profiles.Taken {
		files = append(files, p.File)
	}
	if !slices.Equal(files, want) || res.Profiles.Pushed != len(want) {
		t.Errorf("%d pushed, taken %q", res.Profiles.Pushed, files)
	}
	if n := res.Profiles.Notes; len(n) != 1 || !strings.Contains(n[0], "404") {
		t.Errorf("the target has no CPU profile, and the notes are %q", n)
	}
	index, err := os.ReadFile(filepath.Join(got, "index.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	arrived := map[string]profiles.Received{}
	for line := range strings.Lines(string(index)) {
		var rec profiles.Received
		if err := json.Unmarshal([]byte(line), &rec); err != nil {
			t.Fatal(err)
		}
		arrived[rec.SHA256] = rec
	}
	for _, f := range res.Files {
		if f.Kind != "pprof" {
			continue
		}
		rec, ok := arrived[f.SHA256]
		if !ok || rec.Labels["node"] == "" || rec.Labels["suite"] == "" {
			t.Errorf("%s did not arrive as it was kept: %+v", f.Name, rec)
			continue
		}
		// The window and its answers, and not much of what came before.
		if length := rec.Until.Sub(rec.From); length < res.Asked.Window.D() {
			t.Errorf("%s covers %v of a window of %v", f.Name, length, res.Asked.Window)
		}
	}
	b, err := os.ReadFile(filepath.Join(dir, "profiles", "load.cpu.pprof"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := profiles.Parse(b); err != nil {
		t.Error(err)
	}
}

// TestACPUProfileLeavesTheRunCounting: what measured repeats carry.
func TestACPUProfileLeavesTheRunCounting(t *testing.T) {
	res, _ := profiled(t, Profiling{Kinds: []profiles.Kind{profiles.CPU}}, sink.Script{})
	if res.Run.Profiled || res.Has(result.Profiled) || len(res.Profiles.Taken) != 1 || len(res.Profiles.Notes) != 0 {
		t.Errorf("%+v", res.Profiles)
	}
}

// TestPyroscopeAndTargetThatFail: down, silent or gone, they are said once each, and the run is what it would have been.
func TestPyroscopeAndTargetThatFail(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	for name, o := range map[string]Profiling{
		"silent server": {Pyroscope: "http://" + silent.Addr().String()},
		"server gone":   {Pyroscope: "http://127.0.0.1:1"},
		"target gone":   {Target: "127.0.0.1:1"},
	} {
		t.Run(name, func(t *testing.T) {
			o.Kinds = []profiles.Kind{profiles.CPU}
			res, _ := profiled(t, o, sink.Script{})
			if len(res.Profiles.Notes) != 1 || len(res.Profiles.Taken) != 1 || res.Profiles.Pushed != 0 {
				t.Errorf("%+v", res.Profiles)
			}
			if !res.Valid || res.Partial || res.Ends.Acked != res.Ends.Intended || !res.Verification.Clean() {
				t.Errorf("the run was disturbed: %+v %+v", res.Ends, res.Verdicts)
			}
		})
	}
}

// TestNothingAckedHasNoPercentile: 0 acknowledged records are censored, not fast, and the pacer is not held against them.
func TestNothingAckedHasNoPercentile(t *testing.T) {
	s := latency(500)
	s.Window, s.Drain = workload.Duration(500*time.Millisecond), workload.Duration(300*time.Millisecond)
	s.WarmUp, s.Groups = 0, nil
	dir := filepath.Join(t.TempDir(), "out")
	to := target(t, sink.Script{AckDelay: time.Hour})
	res, err := Run(t.Context(), Options{Spec: s, Bootstrap: []string{to.Addr()}, Out: dir})
	if res == nil {
		t.Fatal(err)
	}
	if res.Ends.Acked != 0 {
		t.Fatalf("%d acked", res.Ends.Acked)
	}
	var b strings.Builder
	printResult(&b, res, dir)
	for line := range strings.Lines(b.String()) {
		if strings.HasPrefix(line, "ack ") && (!strings.Contains(line, "censored") || strings.Contains(line, "0.00")) {
			t.Errorf("%s", line)
		}
	}
	for _, v := range res.Verdicts {
		if v.Kind == result.GeneratorLimited && strings.Contains(v.Reason, "ack p99") {
			t.Errorf("judged against nothing: %s", v.Reason)
		}
	}
}
