package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/pprof/profile"

	"github.com/tidemark/tidemark/bench/store"
	"github.com/tidemark/tidemark/profiles"
)

// received reads the index of what a receiver was sent, by the hash of the bytes.
func received(t *testing.T, dir string) map[string][]profiles.Received {
	t.Helper()
	index, err := os.ReadFile(filepath.Join(dir, "index.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][]profiles.Received{}
	for line := range strings.Lines(string(index)) {
		var rec profiles.Received
		if err := json.Unmarshal([]byte(line), &rec); err != nil {
			t.Fatal(err)
		}
		out[rec.SHA256] = append(out[rec.SHA256], rec)
	}
	return out
}

// checkPushed compares the profile files of every run with what arrived, byte for byte by their hashes, and returns how
// many there are.
func checkPushed(t *testing.T, d *store.Data, arrived map[string][]profiles.Received) (files int) {
	t.Helper()
	for _, r := range slices.Concat(d.Runs, d.Profiled) {
		c := d.Cell(r.Cell)
		if r.Result == nil {
			continue
		}
		cell := strings.NewReplacer("=", "_", " ", "_").Replace(c.Name)
		if err := r.Result.CheckFiles(r.Dir); err != nil {
			t.Error(err)
		}
		for _, f := range r.Result.Files {
			if f.Kind != "pprof" {
				continue
			}
			files++
			got := slices.IndexFunc(arrived[f.SHA256], func(rec profiles.Received) bool { return rec.Labels["cell"] == cell })
			if got < 0 {
				t.Errorf("%s: %s was not pushed as it was kept", c.Name, f.Name)
				continue
			}
			rec := arrived[f.SHA256][got]
			if rec.Labels["suite"] != d.Plan.Suite || rec.Labels["node"] == "" || rec.Labels["linger"] != c.Asked.Linger.String() || rec.Labels["acks"] != c.Asked.Acks {
				t.Errorf("%s: %s came with labels %v", c.Name, f.Name, rec.Labels)
			}
		}
	}
	return files
}

func TestProfilesAreKeptPushedAndOutOfStatistics(t *testing.T) {
	got := t.TempDir()
	receiver, err := profiles.NewReceiver(got)
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(receiver)
	defer srv.Close()
	dir := filepath.Join(t.TempDir(), "out")
	summary, err := runBench(t, runOptions{out: dir, noProgress: true, pyroscope: srv.URL}, "smoke")
	if err != nil {
		t.Fatal(err)
	}
	d, err := store.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(d.Profiled) != 1 || !d.Profiled[0].Marked(store.MarkProfiled) || d.Profiled[0].Countable() || d.Cell(d.Profiled[0].Cell).Role != store.Baseline {
		t.Fatalf("profiled runs: %+v", d.Profiled)
	}
	if want := []string{"broker.heap.pprof", "broker.mutex.pprof", "broker.block.pprof", "load.heap.pprof", "load.mutex.pprof", "load.block.pprof"}; !slices.Equal(d.Profiled[0].Profiles, want) {
		t.Errorf("the profiled run keeps %q", d.Profiled[0].Profiles)
	}
	if d.Status.RunsDone != len(d.Plan.Runs) || len(d.Runs) != len(d.Plan.Runs) {
		t.Errorf("the profiled run is counted: %+v", d.Status)
	}
	for _, r := range d.Runs {
		if !slices.Equal(r.Profiles, []string{"broker.cpu.pprof", "load.cpu.pprof"}) || r.Marked(store.MarkProfiled) {
			t.Errorf("%s keeps %q, marks %q", d.Cell(r.Cell).Name, r.Profiles, r.Marks)
		}
	}
	files := checkPushed(t, d, received(t, got))
	if want := 2*len(d.Runs) + 6; files != want || receiver.Count() != want {
		t.Errorf("%d files, %d received, want %d", files, receiver.Count(), want)
	}
	if !strings.Contains(summary, "profiles were pushed to "+srv.URL) {
		t.Errorf("the summary does not say so:\n%s", summary)
	}
}

// TestSilentPyroscopeIsSaidOnce: a server that accepts and never answers costs one time-out, whatever is pushed.
func TestSilentPyroscopeIsSaidOnce(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	asked := make(chan int)
	go func() {
		n := 0
		var open []net.Conn
		for {
			c, err := silent.Accept()
			if err != nil {
				break
			}
			n++
			open = append(open, c)
		}
		for _, c := range open {
			c.Close()
		}
		asked <- n
	}()
	dir := filepath.Join(t.TempDir(), "out")
	summary, err := runBench(t, runOptions{out: dir, noProgress: true, pyroscope: "http://" + silent.Addr().String()}, "smoke")
	if err != nil {
		t.Fatal(err)
	}
	silent.Close()
	if n := <-asked; n != 1 {
		t.Errorf("the silent server was asked %d times, want once", n)
	}
	d, err := store.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	told := slices.DeleteFunc(slices.Clone(d.Status.Notes), func(n string) bool { return !strings.Contains(n, "no longer pushed") })
	if len(told) != 1 || strings.Count(summary, "no longer pushed") != 1 {
		t.Errorf("notes %q", d.Status.Notes)
	}
	for _, r := range d.Runs {
		if r.Status != store.OK || len(r.Profiles) != 2 {
			t.Errorf("%s: %s %v, profiles %q", d.Cell(r.Cell).Name, r.Status, r.Reasons, r.Profiles)
		}
	}
}

// cpuFile writes a CPU profile of a function for each name with its samples.
func cpuFile(t *testing.T, path string, samples map[string]int64) {
	t.Helper()
	p := &profile.Profile{SampleType: []*profile.ValueType{{Type: "samples", Unit: "count"}, {Type: "cpu", Unit: "nanoseconds"}},
		PeriodType: &profile.ValueType{Type: "cpu", Unit: "nanoseconds"}, Period: 10_000_000}
	for name, n := range samples {
		f := &profile.Function{ID: uint64(len(p.Function) + 1), Name: name}
		l := &profile.Location{ID: f.ID, Line: []profile.Line{{Function: f}}}
		p.Function, p.Location = append(p.Function, f), append(p.Location, l)
		p.Sample = append(p.Sample, &profile.Sample{Location: []*profile.Location{l}, Value: []int64{n, n * 10_000_000}})
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	w, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Write(w); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestDiffMergesRepeats: each repeat alone has too few samples, a cell's together have enough.
func TestDiffMergesRepeats(t *testing.T) {
	dir := t.TempDir()
	for cell, n := range map[string]int64{"a": 400, "b": 700} {
		for _, repeat := range []string{"rep-1", "rep-2"} {
			cpuFile(t, filepath.Join(dir, cell, repeat, "profiles", "broker.cpu.pprof"), map[string]int64{"crc": 300, "main.write": n})
		}
	}
	a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	out, err := output(t, "profiles", "diff", a, b)
	if err != nil || !strings.Contains(out, "main.write") || !strings.Contains(out, "+6.00 s") || strings.Contains(out, "crc") {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err = output(t, "profiles", "diff", a, b, "--work-a", "100", "--work-b", "200"); err != nil || !strings.Contains(out, "-3e+07 ns") {
		t.Errorf("per work: %v\n%s", err, out)
	}
	one := filepath.Join(a, "rep-1", "profiles", "broker.cpu.pprof")
	if _, err := output(t, "profiles", "diff", one, one); exitOf(err) != exitInconclusive {
		t.Errorf("700 samples: %v", err)
	}
	if _, err := output(t, "profiles", "diff", a, b, "--process", "load"); exitOf(err) != exitUsage {
		t.Errorf("no profile of the generator: %v", err)
	}
}

// TestExamplesOfProfileCommandsRun runs the commands of the help texts as they stand, but for addresses and folders.
func TestExamplesOfProfileCommandsRun(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "out")
	if _, err := runBench(t, runOptions{out: dir, noProgress: true}, "smoke"); err != nil {
		t.Fatal(err)
	}
	before, after := filepath.Join(t.TempDir(), "before.pprof"), filepath.Join(t.TempDir(), "after.pprof")
	cpuFile(t, before, map[string]int64{"crc": 3000})
	cpuFile(t, after, map[string]int64{"crc": 6000})
	for _, cell := range []string{"a", "b"} {
		cpuFile(t, filepath.Join(dir, cell, "cells", "002-baseline", "rep-1", "profiles", "broker.cpu.pprof"), map[string]int64{"crc": int64(1000 * len(cell))})
	}
	replace := strings.NewReplacer("run-20261129-221500", dir, "before.pprof", before, "after.pprof", after,
		" a/cells", " "+dir+"/a/cells", " b/cells", " "+dir+"/b/cells", "127.0.0.1:4040", "127.0.0.1:0", "received", filepath.Join(dir, "received"))
	for line := range strings.Lines(profileExample + "\n" + profilesExample) {
		args := strings.Fields(replace.Replace(line))[1:]
		if args[1] == "receive" {
			continue // runs until it is told to end: below
		}
		out, err := output(t, args...)
		if err != nil {
			t.Errorf("%s: %v\n%s", line, err, out)
		}
	}
	if out, err := output(t, "bench", "profile", dir, "lingr=5ms"); exitOf(err) != exitUsage || !strings.Contains(err.Error(), `did you mean "linger=5ms"`) {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err := output(t, "bench", "profile", dir, "acks=1", "--kind", "heap"); exitOf(err) != exitUsage {
		t.Errorf("a cell without heap profiles: %v\n%s", err, out)
	}
}

// TestReceiveSaysReadyAndEnds: by --max, and when it is told to.
func TestReceiveSaysReadyAndEnds(t *testing.T) {
	for _, most := range []int{0, 3} {
		dir := t.TempDir()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		r, w := io.Pipe()
		ended := make(chan error, 1)
		go func() {
			ended <- receive(ctx, w, "127.0.0.1:0", dir, most)
			w.Close()
		}()
		lines := bufio.NewScanner(r)
		if !lines.Scan() || !strings.HasPrefix(lines.Text(), "ready 127.0.0.1:") {
			t.Fatalf("said %q", lines.Text())
		}
		p, err := profiles.NewPusher("http://" + strings.TrimPrefix(lines.Text(), "ready "))
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), "x.pprof")
		cpuFile(t, path, map[string]int64{"f": 1})
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			p.Push(profiles.Profile{App: "a", Labels: map[string]string{"suite": "x"}, Kind: profiles.CPU, From: time.Now(), Until: time.Now(), Data: b})
		}
		if sent, err := p.Close(); sent != 3 || err != nil {
			t.Errorf("%d sent, %v", sent, err)
		}
		if most == 0 {
			cancel()
		}
		if !lines.Scan() || !strings.Contains(lines.Text(), "3 profiles in ") {
			t.Errorf("said %q at the end", lines.Text())
		}
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if n := len(received(t, dir)); n != 1 {
			t.Errorf("%d different profiles", n)
		}
	}
}

func TestShortNamesOfFunctions(t *testing.T) {
	for name, want := range map[string]string{
		"runtime.futex": "runtime.futex",
		"github.com/tidemark/tidemark/core/buf.(*Pool).Get":                                           "buf.(*Pool).Get",
		"github.com/x/commitlog.(*fifo[go.shape.struct { github.com/x/y.base github.com/z.T }]).push": "commitlog.(*fifo[...]).push",
		"main.main.func1": "main.main.func1",
		"":                "",
	} {
		if got := shortName(name); got != want {
			t.Errorf("%q is shown as %q, want %q", name, got, want)
		}
	}
}
