package loadgen

import (
	"strings"
	"testing"
	"time"

	"github.com/tidemark/tidemark/core/kafka"
	"github.com/tidemark/tidemark/loadgen/sink"
	"github.com/tidemark/tidemark/loadgen/workload"
)

// TestARetryExplainsItsDuplicatesWheneverItWas: what was read is checked over the whole run, so a batch that was sent again in
// the warm-up, while probing or in the drain excuses what it repeated as one in the window does.
func TestARetryExplainsItsDuplicatesWheneverItWas(t *testing.T) {
	hangup := func(batch int64) []sink.Fault { return []sink.Fault{{Kind: sink.Hangup, Batch: batch}} }
	for _, c := range []struct {
		name, driver string
		script       sink.Script
		blames       string // a part of the verdict
	}{
		{"while probing", workload.DriverRaw, sink.Script{Faults: hangup(3)}, ""},
		{"in the warm-up", workload.DriverRaw, sink.Script{Faults: hangup(20)}, ""},
		{"in the drain", workload.DriverRaw, sink.Script{Faults: hangup(600), Freezes: []sink.Freeze{{AfterRecords: 580, For: 400 * time.Millisecond}}}, ""},
		{"in the warm-up, by kgo", workload.DriverKgo, sink.Script{Faults: hangup(8)}, ""},
		{"never", workload.DriverRaw, sink.Script{Faults: []sink.Fault{{Kind: sink.Repeat, Batch: 200}}}, "no retry explains them"},
		{"after an answer, by kgo", workload.DriverKgo, sink.Script{Faults: []sink.Fault{{Kind: sink.StoreFail, Code: kafka.RequestTimedOut, Batch: 8}}}, "whether it sent them twice itself is not known"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := latency(500)
			s.Driver, s.Arrivals, s.Consumers, s.BatchSize = c.driver, workload.ArrivalsConstant, 1, 1
			if c.driver == workload.DriverKgo { // which takes no batch so small
				s.BatchSize = 16 << 10
			}
			c.script.KeepBytes = 8 << 20
			res := load(t, s, target(t, c.script))
			if v := res.Verification; v.Duplicated == 0 || !v.Complete {
				t.Fatalf("nothing was repeated: %+v", v)
			}
			text := reasons(res)
			if res.Valid != (c.blames == "") || !strings.Contains(text, c.blames) {
				t.Errorf("valid %v: %s; want %q", res.Valid, text, c.blames)
			}
		})
	}
}
