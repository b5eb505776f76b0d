package target

import (
	"path/filepath"
	"testing"

	"github.com/tidemark/tidemark/bench/calibrate"
	"github.com/tidemark/tidemark/bench/store"
	"github.com/tidemark/tidemark/loadgen/result"
	"github.com/tidemark/tidemark/loadgen/workload"
)

// TestACeilingIsMeasuredOnBothSidesOfARun: two measurements never agree to the last digit; a figure that was kept does.
func TestACeilingIsMeasuredOnBothSidesOfARun(t *testing.T) {
	target := &Target{options: Options{Data: filepath.Join(t.TempDir(), "data")}}
	target.options.Target.Command = []string{"measured", "here"}
	beside := target.ceilingBeside(&store.Cell{Kind: store.Capacity})
	if beside == nil {
		t.Fatal("a capacity run has no ceiling")
	}
	if beside.before.Error != "" {
		t.Fatal(beside.before.Error)
	}
	got := beside.again()
	if len(got) == 0 {
		t.Fatal("nothing was measured after the run")
	}
	for _, c := range got {
		if c.Before <= 0 || c.After <= 0 || c.Before == c.After {
			t.Errorf("%+v", c)
		}
	}
	if (&Target{options: Options{Data: t.TempDir()}}).ceilingBeside(&store.Cell{Kind: store.Latency}) != nil {
		t.Error("a latency run pays for a ceiling")
	}
}

// TestARateNearTheSinksIsTheGenerators: above 80% of what the same workload reaches against a target that costs nothing the
// generator may be what was measured (METHOD 3), unless that target was itself the limit.
func TestARateNearTheSinksIsTheGenerators(t *testing.T) {
	for name, c := range map[string]struct {
		sink *calibrate.Reached
		rate float64
		want store.RunStatus
	}{
		"not measured":             {nil, 1e9, store.OK},
		"at 80%":                   {&calibrate.Reached{RecordsPerSec: 1000}, 800, store.OK},
		"above":                    {&calibrate.Reached{RecordsPerSec: 1000}, 801, store.GeneratorLimited},
		"the sink was the limit":   {&calibrate.Reached{RecordsPerSec: 1000, SinkShare: 0.95}, 990, store.OK},
		"it could not be measured": {&calibrate.Reached{RecordsPerSec: 1000, Error: "gone"}, 990, store.OK},
	} {
		for _, kind := range []store.Kind{store.Latency, store.Capacity} {
			r := &store.Run{Sink: c.sink, Result: &result.Result{Valid: true, Ends: result.Ends{Intended: 10, Acked: 10}, Verification: result.Verification{On: true, Complete: true}}}
			r.Result.Produce.RecordsPerSec = c.rate
			Judge(&store.Cell{Kind: kind}, r, true)
			if r.Status != c.want {
				t.Errorf("%s, %s: %s %v, want %s", name, kind, r.Status, r.Reasons, c.want)
			}
		}
	}
}

// TestWorkloadsThatSendTheSameShareOneShape: rate, length and seed are not what the sink's rate depends on.
func TestWorkloadsThatSendTheSameShareOneShape(t *testing.T) {
	base := workload.Default()
	for name, change := range map[string]func(*workload.Spec){
		"rate":   func(s *workload.Spec) { s.Rate = 5 },
		"window": func(s *workload.Spec) { s.Window *= 2 },
		"seed":   func(s *workload.Spec) { s.Seed = 99 },
		"closed": func(s *workload.Spec) { s.Question, s.Rate, s.MaxBytes = workload.Capacity, 0, 1<<20 },
	} {
		s := base.Clone()
		if change(s); calibrate.Shape(s) != calibrate.Shape(&base) {
			t.Errorf("%s makes another shape", name)
		}
	}
	s := base.Clone()
	if s.Compression = "zstd"; calibrate.Shape(s) == calibrate.Shape(&base) {
		t.Error("a codec makes no other shape")
	}
}
