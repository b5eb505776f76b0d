package verify

import (
	"math"
	"testing"
)

// TestTheSecondProgramDividesByWhatWasCarriedMeanwhile, as bench/store does: by what was acked inside the window of a closed
// loop, and where a result does not hold that by its ends.
func TestTheSecondProgramDividesByWhatWasCarriedMeanwhile(t *testing.T) {
	calls, objects := int64(3000), int64(12000)
	for name, want := range map[string][3]float64{"closed loop": {2.5, 2.5, 5}, "before a field": {2, 2, 4}, "without acks": {2.5, math.NaN(), math.NaN()}} {
		r := &run{result: &result{}}
		r.Target.Process = &process{CPUNanos: 6e9, ReadCalls: &calls, WriteCalls: &calls, Objects: &objects}
		r.result.Ends.Acked, r.result.Ends.AckedBytes = 3000, 3e9
		if name != "before a field" {
			r.result.Produce.Inside, r.result.Produce.InsideBytes = 2400, 24e8
		}
		if name == "without acks" {
			r.result.Ends.Acked = 0
		}
		for i, metric := range []string{"CPU per GB", "calls per record", "allocations per record"} {
			for _, m := range metrics() {
				if v := m.of(r); m.name == metric && v != want[i] && !(math.IsNaN(v) && math.IsNaN(want[i])) {
					t.Errorf("%s: %s is %v, want %v", name, metric, v, want[i])
				}
			}
		}
	}
}
