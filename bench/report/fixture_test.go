package report_test

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/google/pprof/profile"

	"github.com/tidemark/tidemark/bench/gate"
	"github.com/tidemark/tidemark/bench/host"
	"github.com/tidemark/tidemark/bench/matrix"
	"github.com/tidemark/tidemark/bench/report"
	"github.com/tidemark/tidemark/bench/store"
	"github.com/tidemark/tidemark/bench/suites"
	"github.com/tidemark/tidemark/loadgen/result"
	"github.com/tidemark/tidemark/loadgen/workload"
)

// bench is a made-up run of a built-in suite: real folders, real histogram logs, figures from a seed.
type bench struct {
	t      *testing.T
	dir    string
	folder *store.Folder
	plan   *store.Plan
	host   *store.Host
	// change may bend a run before it is written; dir is its folder. Returning false leaves the run out.
	change func(c *store.Cell, r *store.Run, res *result.Result, dir string) bool
	// profiles writes a CPU profile into each run of the cells that it names.
	profiles map[string]bool
	noLogs   bool
	light    bool // few records a second
}

const capacityFound = 320_000.0

func newBench(t *testing.T, suite string) *bench {
	t.Helper()
	s, err := suites.Find(suite)
	if err != nil {
		t.Fatal(err)
	}
	s.Rate *= 3 // enough records in a window for tails that rest on separate stalls
	plan, err := matrix.Plan(s, 7)
	if err != nil {
		t.Fatal(err)
	}
	plan.RunID, plan.Created = "tm-4f2a", time.Date(2026, 11, 29, 22, 15, 0, 0, time.UTC)
	plan.Command = []string{"tidemark", "bench", "run", "quick", "--seed", "7", "--out", "run-20261129-221500"}
	plan.Versions = store.Versions{Tidemark: "0.1.0", Go: "go1.26.0"}
	dir := filepath.Join(t.TempDir(), "run")
	if keep := os.Getenv("REPORT_DIR"); keep != "" { // to look at the page in a browser
		dir = filepath.Join(keep, strings.ReplaceAll(t.Name(), "/", "_"))
		_ = os.RemoveAll(dir)
	}
	f, err := store.Create(dir)
	if err != nil {
		t.Fatal(err)
	}
	return &bench{t: t, dir: dir, folder: f, plan: plan, profiles: map[string]bool{}, host: &store.Host{
		Schema: 1,
		Fingerprint: host.Fingerprint{Hostname: "bench-01", Kernel: "6.12.8", OS: "Debian 13", Architecture: "amd64", CPUModel: "AMD EPYC 7763", Cores: 2, CoresOnline: 2,
			MemoryBytes: 8 << 30, Governor: "performance", HugePages: "madvise", FileSystem: "ext4", Device: "/dev/vda", Rotational: "no", FreeBytes: 40 << 30,
			DirtyBackgroundRatio: 10, DirtyRatio: 20, ClockSource: "tsc", BootID: "b1", Hypervisor: "KVM"},
		Ceilings: []host.Ceiling{{Name: "recv+crc32c+pwrite", What: "read, CRC-32C, pwrite", Unit: "MB/s", Value: 1500, PerCPU: 1600},
			{Name: "timer", What: "99th percentile of how late a sleep of 200 us ends", Unit: "us", Value: 61}},
	}}
}

// write fills the folder and writes the report; it returns both files.
func (b *bench) write() (page, markdown string) {
	b.t.Helper()
	check := func(err error) {
		b.t.Helper()
		if err != nil {
			b.t.Fatal(err)
		}
	}
	check(b.folder.WritePlan(b.plan))
	if b.host != nil {
		check(b.folder.WriteHost(b.host))
	}
	started := b.plan.Created
	for order, rp := range b.plan.Runs {
		c := b.plan.Cells[rp.Cell-1]
		if c.Role == store.Ladder {
			c.Rate = math.Round(c.LoadShare * capacityFound)
			c.WindowMS = 1200
		}
		dir, err := b.folder.Begin(&c, rp.Repeat)
		check(err)
		r, res := b.run(&c, rp, order, dir)
		r.Started = started.Add(time.Duration(order) * 3 * time.Second)
		r.Ended = r.Started.Add(3 * time.Second)
		if b.change != nil && !b.change(&c, r, res, dir) {
			check(b.folder.Discard(&c, rp.Repeat))
			continue
		}
		if r.Status != store.Broken {
			res.Schema = 1
			check(writeJSON(filepath.Join(dir, result.FileName), res))
		}
		check(os.WriteFile(filepath.Join(dir, "cell.yaml"), []byte("name: x\n"), 0o644))
		check(os.WriteFile(filepath.Join(dir, "load.log"), nil, 0o644))
		// As Commit does, without waiting for the disk.
		check(writeJSON(filepath.Join(dir, "run.json"), r))
		check(os.Rename(dir, strings.TrimSuffix(dir, ".partial")))
	}
	for _, c := range b.plan.Cells {
		if b.profiles[c.Name] { // the repeat with heavy profiles
			heavy := filepath.Join(b.folder.CellDir(&c), "profiled", "profiles")
			writeProfile(b.t, heavy, false)
			check(os.Rename(filepath.Join(heavy, "broker.cpu.pprof"), filepath.Join(heavy, "broker.mutex.pprof")))
		}
	}
	check(b.folder.WriteStatus(&store.Status{Schema: 1, State: store.Finished, Started: started, Ended: started.Add(178 * time.Second), Seconds: 178, Capacity: capacityFound,
		RateFixed: b.plan.RateFixed, RunsPlanned: len(b.plan.Runs), Notes: []string{"broker on core 0, load on core 1"}}))
	return b.report()
}

func writeJSON(path string, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o644)
}

// report writes the report of what the folder holds.
func (b *bench) report() (page, markdown string) {
	b.t.Helper()
	d, err := store.Load(b.dir)
	if err != nil {
		b.t.Fatal(err)
	}
	if err := report.Write(d, gate.Analyse(d)); err != nil {
		b.t.Fatal(err)
	}
	h, err := os.ReadFile(filepath.Join(b.dir, "report.html"))
	if err != nil {
		b.t.Fatal(err)
	}
	m, err := os.ReadFile(filepath.Join(b.dir, "report.md"))
	if err != nil {
		b.t.Fatal(err)
	}
	return string(h), string(m)
}

// run makes one run up.
func (b *bench) run(c *store.Cell, rp store.RunPlan, order int, dir string) (*store.Run, *result.Result) {
	rng := rand.New(rand.NewPCG(uint64(c.Number), uint64(rp.Repeat)))
	spec := c.Asked
	spec.Rate = c.Rate
	window := float64(c.WindowMS) / 1000
	start := int64(1e12) + int64(order)*3e9
	res := &result.Result{Question: spec.Question, Asked: spec, Valid: true, Clocks: map[string]result.Latency{}}
	res.AckMeant = result.AckMeaning{Acks: string(spec.Acks), Replicas: 1, MinISR: 1, FsyncMode: "none", Fsyncs: new(int64), Cache: "warm", Regime: "burst",
		Sentence: "written to the page cache of 1 broker; no fsync"}
	size := spec.RecordSize.Mean()
	rate := c.Rate
	cost := 1.1 * math.Exp(0.02*rng.NormFloat64()) * (1 + 300/size)
	if spec.Linger.Nanos() > 1e6 {
		cost *= 0.4
	}
	if spec.Compression != "none" {
		cost *= 1.3
	}
	if c.Kind == store.Capacity {
		rate = capacityFound * math.Exp(0.02*rng.NormFloat64()) * math.Min(4, 1024/size) * (1 + b2f(spec.BatchSize > 16<<10)*0.3)
		window = math.Min(window, float64(c.MaxBytes)/(rate*size))
	}
	n := int64(rate * window)
	res.Window = result.Window{StartNanos: start, EndNanos: start + int64(window*1e9), PlannedEnd: start + int64(window*1e9), EndedBy: "window"}
	res.Ends = result.Ends{Intended: n, Acked: n, AckedInTime: n, AckedBytes: int64(float64(n) * size)}
	seconds := res.Window.Seconds()
	rate = float64(n) / seconds
	perBatch := 1 + rate/20000 + float64(spec.Linger.Nanos())/1e6*rate/6000
	batches := int64(float64(n)/perBatch) + 1
	res.Produce = result.Produce{RecordsPerSec: rate, BytesPerSec: float64(res.Ends.AckedBytes) / seconds, AskedPerSec: c.Rate, HeldShare: 1, PartitionSkew: 1.02, Batches: result.Batches{
		Batches: batches, Requests: batches/2 + 1, RequestsPerSec: float64(batches) / 2 / window, RecordsMedian: math.Round(perBatch), RecordsMax: int64(perBatch*3) + 1,
		BytesMedian: perBatch * size, WireBytes: int64(float64(n) * (size + 20)), PerRequestMedian: 2, PerRequestMax: 6}}
	res.Consume = result.Consume{RecordsPerSec: rate, Delivered: n, Fetches: batches / 3, Groups: []result.Group{{Name: "tm-4f2a-g0", Members: 1, Delivered: n}}}
	res.Verification = result.Verification{On: true, Complete: true, Acked: n, Delivered: n}
	res.Generator = result.Process{CPUNanos: int64(window * 3e8), Seconds: window, RunQueueNanos: 4e6}
	res.Settings = []result.Setting{{Name: "acks", Asked: string(spec.Acks), Effective: string(spec.Acks)}, {Name: "linger", Asked: "0s", Effective: "0s"}}
	b.clocks(c, res, rng, rate, window, dir)
	cpu := int64(cost * float64(res.Ends.AckedBytes))
	r := &store.Run{Schema: 1, Cell: c.Number, Repeat: rp.Repeat, Order: order, Seed: rp.Seed, Status: store.OK, Rate: c.Rate,
		Command: []string{"tidemark", "load", "--workload", "cell.yaml", "--bootstrap", "127.0.0.1:41234"},
		Target: store.Target{Mode: "embedded", Bootstrap: "127.0.0.1:41234", Version: "tidemark 0.1.0", Cores: []int{0}, LoadCores: []int{1},
			Settings: []store.Setting{{Axis: "group.initial.rebalance.delay.ms", Value: "0"}}, Process: &result.Process{CPUNanos: cpu, Seconds: window}}}
	for i := int64(0); i <= 20; i++ {
		r.Target.Samples = append(r.Target.Samples, store.Sample{Nanos: start + (res.Window.EndNanos-start)*i/20, CPUNanos: cpu * i / 20})
	}
	if c.Kind == store.Capacity {
		r.Ceilings = []result.Ceiling{{Name: "recv+crc32c+pwrite", Unit: "MB/CPU-s", Before: 1600, After: 1580}}
	}
	if b.profiles[c.Name] {
		r.Profiles = []string{"broker.cpu.pprof"}
		writeProfile(b.t, filepath.Join(dir, "profiles"), spec.Linger.Nanos() > 1e6)
	}
	return r, res
}

func b2f(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// clocks makes ack, delivery and pacer with their intervals and logs.
func (b *bench) clocks(c *store.Cell, res *result.Result, rng *rand.Rand, rate, window float64, dir string) {
	level := 0.21 * math.Exp(0.04*rng.NormFloat64()) / math.Max(0.06, 1-rate/(capacityFound*1.04))
	if c.Kind == store.Capacity {
		level = 1
	}
	linger := float64(res.Asked.Linger.Nanos()) / 1e6
	skew := 1 + 0.4*b2f(res.Asked.Keys.Kind == workload.KeysZipf) + float64(len(res.Asked.Groups)*res.Asked.Groups[0]-1)*0.05
	clocks := []string{result.Ack, result.Delivery, result.Pacer}
	seconds := int(math.Ceil(window))
	samples := int64(2500)
	if b.light {
		samples = 50
	}
	whole := map[string]*hdrhistogram.Histogram{}
	logs := map[string]*hdrhistogram.HistogramLogWriter{}
	for _, name := range clocks {
		whole[name] = hdrhistogram.New(1, 3_600_000_000_000, 3)
		if !b.noLogs && c.Kind == store.Latency {
			f, err := os.Create(filepath.Join(dir, name+".hlog"))
			if err != nil {
				b.t.Fatal(err)
			}
			defer f.Close()
			logs[name] = hdrhistogram.NewHistogramLogWriter(f)
		}
	}
	for s := range seconds {
		in := result.Interval{StartNanos: int64(s) * 1e9, LengthNanos: int64(math.Min(1, window-float64(s)) * 1e9), Clocks: map[string]result.IntervalLatency{}}
		if in.LengthNanos < 1e6 {
			continue
		}
		n := int64(rate * float64(in.LengthNanos) / 1e9)
		in.Intended, in.Acked, in.Delivered, in.Lag, in.GeneratorCPU = n, n, n, rng.Int64N(400), 0.3
		parts := map[string]*hdrhistogram.Histogram{}
		for _, name := range clocks {
			parts[name] = hdrhistogram.New(1, 3_600_000_000_000, 3)
		}
		for range samples {
			v := level * math.Exp(0.45*rng.NormFloat64())
			if rng.Float64() < 0.01 {
				v *= 2 + 6*rng.Float64()
			}
			v += linger * rng.Float64()
			weight := max(1, n/samples)
			must(b.t, parts[result.Ack].RecordValues(int64(v*1e6), weight))
			must(b.t, parts[result.Delivery].RecordValues(int64((v*1.3*skew+0.1)*1e6), weight))
			must(b.t, parts[result.Pacer].RecordValues(int64((0.008+0.01*rng.ExpFloat64())*1e6), weight))
		}
		for _, name := range clocks {
			h := parts[name]
			whole[name].Merge(h)
			in.Clocks[name] = result.IntervalLatency{Count: h.TotalCount(), P50: h.ValueAtPercentile(50), P90: h.ValueAtPercentile(90), P99: h.ValueAtPercentile(99), P999: h.ValueAtPercentile(99.9), Max: h.Max()}
			if w := logs[name]; w != nil {
				h.SetStartTimeMs(1_764_454_500_000 + int64(s)*1000)
				h.SetEndTimeMs(1_764_454_500_000 + int64(s+1)*1000)
				must(b.t, w.OutputIntervalHistogram(h))
			}
		}
		if c.Kind == store.Capacity {
			in.Clocks = nil
		}
		res.Intervals = append(res.Intervals, in)
	}
	if k := len(res.Intervals); k > 0 { // what rounding left over
		left := res.Ends.Acked
		for _, in := range res.Intervals[:k-1] {
			left -= in.Acked
		}
		res.Intervals[k-1].Acked = left
	}
	if c.Kind == store.Capacity {
		return
	}
	for _, name := range clocks {
		h := whole[name]
		l := result.Latency{Count: h.TotalCount(), Sound: true, MinNanos: h.Min(), MaxNanos: h.Max()}
		l.Percentiles = percentilesOf(h)
		res.Clocks[name] = l
	}
}

// percentilesOf counts ranks as the load process does.
func percentilesOf(h *hdrhistogram.Histogram) (out []result.Percentile) {
	for _, p := range []float64{50, 75, 90, 95, 99, 99.9, 99.99} {
		rank, seen := max(1, int64(math.Ceil(p/100*float64(h.TotalCount())))), int64(0)
		for _, bar := range h.Distribution() {
			if seen += bar.Count; seen >= rank {
				above := h.TotalCount() - seen
				out = append(out, result.Percentile{P: p, Nanos: min(bar.To, h.Max()), Above: above, Excursions: above / 4})
				break
			}
		}
	}
	return out
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// writeProfile writes a CPU profile of a broker with a few stacks.
func writeProfile(t *testing.T, dir string, lingering bool) {
	t.Helper()
	p := &profile.Profile{SampleType: []*profile.ValueType{{Type: "samples", Unit: "count"}, {Type: "cpu", Unit: "nanoseconds"}}, PeriodType: &profile.ValueType{Type: "cpu", Unit: "nanoseconds"}, Period: 1e7}
	functions := map[string]*profile.Location{}
	at := func(name string) *profile.Location {
		if l := functions[name]; l != nil {
			return l
		}
		fn := &profile.Function{ID: uint64(len(functions) + 1), Name: name}
		l := &profile.Location{ID: fn.ID, Line: []profile.Line{{Function: fn}}}
		functions[name] = l
		p.Function, p.Location = append(p.Function, fn), append(p.Location, l)
		return l
	}
	const server = "github.com/tidemark/tidemark/broker/internal/server.(*connection)."
	for _, s := range []struct {
		n     int64
		stack string
	}{
		{420, "runtime.goexit;" + server + "serve;" + server + "readFrame;net.(*conn).Read;internal/poll.(*FD).Read;syscall.read"},
		{250 + 100*int64(b2f(lingering)), "runtime.goexit;" + server + "serve;github.com/tidemark/tidemark/broker/internal/api.(*Handlers).produce;github.com/tidemark/tidemark/core/record.Validate;hash/crc32.update"},
		{310, "runtime.goexit;" + server + "serve;github.com/tidemark/tidemark/broker/internal/api.(*Handlers).produce;github.com/tidemark/tidemark/core/commitlog.(*Log).Append;golang.org/x/sys/unix.pwritev"},
		{380, "runtime.goexit;" + server + "write;net.(*Buffers).WriteTo;internal/poll.(*FD).Writev;syscall.writev"},
		{90, "runtime.goexit;runtime.gcBgMarkWorker;runtime.scanobject"},
		{2, "runtime.goexit;runtime.tiny"},
	} {
		sample := &profile.Sample{Value: []int64{s.n, s.n * 1e7}}
		names := strings.Split(s.stack, ";")
		for i := len(names) - 1; i >= 0; i-- {
			sample.Location = append(sample.Location, at(names[i]))
		}
		p.Sample = append(p.Sample, sample)
	}
	must(t, os.MkdirAll(dir, 0o755))
	for _, name := range []string{"broker.cpu.pprof", "load.cpu.pprof"} {
		f, err := os.Create(filepath.Join(dir, name))
		must(t, err)
		must(t, p.Write(f))
		must(t, f.Close())
	}
}

// realistic bends a bench into one with a saturated cell, as quick makes them.
func (b *bench) realistic() *bench {
	b.profiles["baseline"], b.profiles["linger=5ms"], b.profiles["acks=1"] = true, true, true
	b.change = func(c *store.Cell, r *store.Run, res *result.Result, _ string) bool {
		if c.Name == "load 90%" {
			r.Status, r.Reasons = store.Saturated, []string{fmt.Sprintf("held %.1f%% of its rate: 99%% is the least", 96.2)}
			res.Add(result.Verdict{Kind: result.Saturated, Reason: r.Reasons[0]})
		}
		return true
	}
	return b
}
