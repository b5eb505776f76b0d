package store_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidemark/tidemark/bench/store"
	"github.com/tidemark/tidemark/loadgen/result"
	"github.com/tidemark/tidemark/loadgen/workload"
)

func newFolder(t *testing.T) (*store.Folder, *store.Plan) {
	t.Helper()
	f, err := store.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	p := &store.Plan{Schema: store.Schema, Suite: "t", Cells: []store.Cell{
		{Number: 1, Name: "baseline", Role: store.Baseline, Kind: store.Latency, Repeats: 2, Asked: workload.Default()},
		{Number: 2, Name: "a/../b <x>", Role: store.Axis, Kind: store.Latency, Repeats: 1, Against: 1, Asked: workload.Default()},
	}}
	if err := f.WritePlan(p); err != nil {
		t.Fatal(err)
	}
	return f, p
}

func commit(t *testing.T, f *store.Folder, c *store.Cell, repeat, order int) {
	t.Helper()
	dir, err := f.Begin(c, repeat)
	if err != nil {
		t.Fatal(err)
	}
	r := &result.Result{Question: workload.Latency, Asked: c.Asked, Valid: true}
	if err := r.Write(dir); err != nil {
		t.Fatal(err)
	}
	cpu := &result.Process{CPUNanos: 42}
	if err := f.Commit(c, &store.Run{Schema: store.Schema, Cell: c.Number, Repeat: repeat, Order: order, Status: store.OK, Target: store.Target{Process: cpu}}); err != nil {
		t.Fatal(err)
	}
}

func TestFolderReadsBackWhatWasWritten(t *testing.T) {
	f, p := newFolder(t)
	commit(t, f, &p.Cells[0], 2, 0)
	commit(t, f, &p.Cells[1], 1, 1)
	commit(t, f, &p.Cells[0], 1, 2)
	d, err := store.Load(f.Dir())
	if err != nil {
		t.Fatal(err)
	}
	var order []int
	for _, r := range d.Runs {
		order = append(order, 10*r.Cell+r.Repeat)
		if r.Result == nil || r.Result.Target == nil || r.Result.Target.CPUNanos != 42 {
			t.Errorf("run %+v", r)
		}
	}
	if len(order) != 3 || order[0] != 12 || order[1] != 21 || order[2] != 11 {
		t.Errorf("runs in the order %v", order)
	}
	if strings.Contains(strings.TrimPrefix(f.CellDir(&p.Cells[1]), f.Dir()), "..") && filepath.Dir(f.CellDir(&p.Cells[1])) != f.Path("cells") {
		t.Errorf("cell folder %s escapes", f.CellDir(&p.Cells[1]))
	}
}

func TestUnfinishedRepeatIsNotThere(t *testing.T) {
	f, p := newFolder(t)
	dir, err := f.Begin(&p.Cells[0], 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "run.json"), []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	if f.Done(&p.Cells[0], 1) {
		t.Error("a folder that was never committed counts as done")
	}
	if d, err := store.Load(f.Dir()); err != nil || len(d.Runs) != 0 {
		t.Errorf("%v %v", d, err)
	}
	again, err := f.Begin(&p.Cells[0], 1)
	if err != nil {
		t.Fatal(err)
	}
	if left, _ := os.ReadDir(again); len(left) > 0 {
		t.Error("the second try starts with files of the first")
	}
}

func TestDamagedFoldersNameTheFile(t *testing.T) {
	for name, c := range map[string]struct {
		damage func(f *store.Folder, p *store.Plan) error
		want   string
		is     error
	}{
		"no plan":  {func(f *store.Folder, _ *store.Plan) error { return os.Remove(f.Path("plan.json")) }, "plan.json", store.ErrNoRun},
		"cut plan": {func(f *store.Folder, _ *store.Plan) error { return os.Truncate(f.Path("plan.json"), 40) }, "plan.json", nil},
		"newer":    {func(f *store.Folder, p *store.Plan) error { p.Schema++; return f.WritePlan(p) }, "newer", store.ErrNewer},
		"numbers":  {func(f *store.Folder, p *store.Plan) error { p.Cells[1].Number = 7; return f.WritePlan(p) }, "has number 7", nil},
		"cut run": {func(f *store.Folder, p *store.Plan) error {
			return os.Truncate(filepath.Join(f.RunDir(&p.Cells[0], 1), "run.json"), 30)
		}, "run.json", nil},
		"missing result": {func(f *store.Folder, p *store.Plan) error {
			return os.Remove(filepath.Join(f.RunDir(&p.Cells[0], 1), "result.json"))
		}, "result.json", nil},
		"moved run": {func(f *store.Folder, p *store.Plan) error {
			return os.Rename(f.RunDir(&p.Cells[0], 1), f.RunDir(&p.Cells[0], 2))
		}, "says cell 1 repeat 1", nil},
	} {
		t.Run(name, func(t *testing.T) {
			f, p := newFolder(t)
			commit(t, f, &p.Cells[0], 1, 0)
			if err := c.damage(f, p); err != nil {
				t.Fatal(err)
			}
			_, err := store.Load(f.Dir())
			if err == nil || !strings.Contains(err.Error(), c.want) || c.is != nil && !errors.Is(err, c.is) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestOneBenchAtATimeInAFolder(t *testing.T) {
	f, _ := newFolder(t)
	if err := f.Lock(); err != nil {
		t.Fatal(err)
	}
	g, err := store.Open(f.Dir())
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Lock(); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("got %v", err)
	}
	f.Unlock()
	if err := g.Lock(); err != nil {
		t.Error(err)
	}
	g.Unlock()
}

func TestPercentilesWithoutSupportAreNoMetric(t *testing.T) {
	d := &store.Data{Plan: store.Plan{Cells: []store.Cell{{Number: 1, Kind: store.Latency}}}}
	m, ok := store.MetricNamed("ack p99")
	if !ok {
		t.Fatal("no such metric")
	}
	for name, c := range map[string]struct {
		p    result.Percentile
		edit func(*store.Run)
		want bool
	}{
		"sound":           {result.Percentile{P: 99, Nanos: 1e6, Above: 50}, func(*store.Run) {}, true},
		"censored":        {result.Percentile{P: 99, Nanos: 1e6, Above: 50, Censored: true}, func(*store.Run) {}, false},
		"nine above":      {result.Percentile{P: 99, Nanos: 1e6, Above: 9}, func(*store.Run) {}, false},
		"saturated":       {result.Percentile{P: 99, Nanos: 1e6, Above: 50}, func(r *store.Run) { r.Status = store.Saturated }, false},
		"heavy profiles":  {result.Percentile{P: 99, Nanos: 1e6, Above: 50}, func(r *store.Run) { r.Marks = []string{store.MarkProfiled} }, false},
		"dropped counts":  {result.Percentile{P: 99, Nanos: 1e6, Above: 50}, func(r *store.Run) { r.Result.Clocks[result.Ack] = result.Latency{Sound: false} }, false},
		"result is gone":  {result.Percentile{P: 99, Nanos: 1e6, Above: 50}, func(r *store.Run) { r.Result = nil }, false},
		"of another kind": {result.Percentile{P: 99, Nanos: 1e6, Above: 50}, func(*store.Run) { d.Plan.Cells[0].Kind = store.Capacity }, false},
	} {
		d.Plan.Cells[0].Kind = store.Latency
		r := &store.Run{Cell: 1, Status: store.OK, Result: &result.Result{Clocks: map[string]result.Latency{
			result.Ack: {Count: 5000, Sound: true, Percentiles: []result.Percentile{c.p}},
		}}}
		c.edit(r)
		if _, ok := m.Of(d, r); ok != c.want {
			t.Errorf("%s: counts %v, want %v", name, ok, c.want)
		}
	}
}

// TestCostIsPerWhatWasCarriedMeanwhile: in a closed loop the target's CPU over the window is divided by what was acked inside
// it, of which a part was intended before, and not by what was intended in it. Versions before ackedInside, and open loops,
// have the ends alone.
func TestCostIsPerWhatWasCarriedMeanwhile(t *testing.T) {
	calls, allocations := int64(3000), int64(12000)
	for name, c := range map[string]struct {
		change func(*result.Result)
		want   map[string]float64
	}{
		"closed loop":    {func(*result.Result) {}, map[string]float64{"CPU per GB": 2.5, "calls per record": 2.5, "allocations per record": 5}},
		"before a field": {func(r *result.Result) { r.Produce = result.Produce{} }, map[string]float64{"CPU per GB": 2, "calls per record": 2, "allocations per record": 4}},
		"without acks": {func(r *result.Result) { r.Ends.Acked, r.Ends.HandedToSocket = 0, 3000 },
			map[string]float64{"CPU per GB": 2.5}},
	} {
		res := &result.Result{Ends: result.Ends{Intended: 3000, Acked: 3000, AckedBytes: 3e9},
			Produce: result.Produce{AckedInside: 2400, AckedInsideBytes: 24e8}}
		c.change(res)
		r := &store.Run{Cell: 1, Status: store.OK, Result: res, Target: store.Target{Process: &result.Process{CPUNanos: 6e9, ReadCalls: &calls, WriteCalls: &calls, Allocations: &allocations}}}
		d := &store.Data{Plan: store.Plan{Cells: []store.Cell{{Number: 1, Kind: store.Capacity}}}, Runs: []*store.Run{r}}
		for _, metric := range []string{"CPU per GB", "calls per record", "allocations per record"} {
			m, _ := store.MetricNamed(metric)
			if v, ok := m.Of(d, r); v != c.want[metric] || ok != (c.want[metric] > 0) {
				t.Errorf("%s: %s is %v, %v, want %v", name, metric, v, ok, c.want[metric])
			}
		}
	}
}
