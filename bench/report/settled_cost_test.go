package report

import (
	"strings"
	"testing"

	"github.com/tidemark/tidemark/bench/store"
	"github.com/tidemark/tidemark/loadgen/result"
)

// TestTheSettledCostIsPerByteOfTheWindow: of a closed loop the bytes are those acked inside the window, in which the CPU was
// counted too, as in every other cost.
func TestTheSettledCostIsPerByteOfTheWindow(t *testing.T) {
	settled := int64(6e9)
	r := &store.Run{
		Result: &result.Result{Ends: result.Ends{Intended: 30, Acked: 30, AckedBytes: 3e9}, Produce: result.Produce{AckedInside: 20, AckedInsideBytes: 2e9}},
		Target: store.Target{Process: &result.Process{CPUNanos: 4e9, SettledCPUNanos: &settled}},
	}
	if text := (&page{}).achieved(&cell{runs: []*store.Run{r}}); !strings.Contains(text, "The target used 2.00 CPU-s/GB, 3.00 with what kernel threads") {
		t.Error(text)
	}
}
