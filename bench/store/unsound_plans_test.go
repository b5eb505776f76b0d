package store_test

import (
	"strings"
	"testing"

	"github.com/tidemark/tidemark/bench/store"
)

// TestPlansWhosePartsDoNotFitAreRefused: each of these made a reader panic, look for two thousand million files, or compare a
// throughput with a latency.
func TestPlansWhosePartsDoNotFitAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		change func(p *store.Plan)
		want   string
	}{
		"sound":          {func(*store.Plan) {}, ""},
		"against nobody": {func(p *store.Plan) { p.Cells[1].Against = 99 }, "compared with cell 99"},
		"against itself": {func(p *store.Plan) { p.Cells[1].Against = 2 }, "compared with cell 2"},
		"against less":   {func(p *store.Plan) { p.Cells[1].Against = -1 }, "compared with cell -1"},
		"against another kind": {func(p *store.Plan) {
			p.Cells[1].Against, p.Cells[0].Kind, p.Cells[1].Kind = 1, store.Capacity, store.Latency
		}, "is compared with cell 1, capacity"},
		"no kind":                {func(p *store.Plan) { p.Cells[0].Kind = "both" }, "neither latency nor capacity"},
		"repeats without end":    {func(p *store.Plan) { p.Cells[0].Repeats = 1 << 31 }, "runs 2147483648 times"},
		"repeats less than none": {func(p *store.Plan) { p.Cells[0].Repeats = -1 }, "runs -1 times"},
		"one name twice":         {func(p *store.Plan) { p.Cells[1].Name = p.Cells[0].Name }, "both called"},
		"a run of no cell":       {func(p *store.Plan) { p.Runs = append(p.Runs, store.RunPlan{Cell: 9, Repeat: 1}) }, "repeat 1 of cell 9"},
		"a run of cell 0":        {func(p *store.Plan) { p.Search = append(p.Search, store.RunPlan{Repeat: 1}) }, "repeat 1 of cell 0"},
		"a repeat too many":      {func(p *store.Plan) { p.Profiled = append(p.Profiled, store.RunPlan{Cell: 1, Repeat: 50}) }, "repeat 50 of cell 1"},
	} {
		t.Run(name, func(t *testing.T) {
			f, p := newFolder(t)
			c.change(p)
			if err := f.WritePlan(p); err != nil {
				t.Fatal(err)
			}
			_, err := store.Load(f.Dir())
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "plan.json")) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}
