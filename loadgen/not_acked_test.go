package loadgen

import (
	"testing"
	"time"

	"github.com/tidemark/tidemark/core/kafka"
	"github.com/tidemark/tidemark/loadgen/sink"
	"github.com/tidemark/tidemark/loadgen/workload"
)

// TestRecordsWithoutAnAckAreCountedOverTheWholeRun: one is stored in the warm-up and answered with an error, and the last have
// no answer. Whoever counts the log finds the first, and maybe the others.
func TestRecordsWithoutAnAckAreCountedOverTheWholeRun(t *testing.T) {
	t.Parallel()
	s := latency(500)
	s.KeepTopics = true // a frozen target drops none
	s.Arrivals, s.BatchSize, s.Retries, s.Drain = workload.ArrivalsConstant, 1, 0, workload.Duration(100*time.Millisecond)
	res := load(t, s, target(t, sink.Script{
		Faults:  []sink.Fault{{Kind: sink.StoreFail, Code: kafka.NotEnoughReplicasAfterAppend, Batch: 20}},
		Freezes: []sink.Freeze{{AfterRecords: 300, For: time.Hour}},
	}))
	if v := res.Verification; len(res.Errors) == 0 || res.Ends.Unanswered == 0 || v.NotAcked < res.Errors[0].Records+res.Ends.Unanswered || v.NotAcked > 601 {
		t.Errorf("%d without an ack: errors %+v, %+v", v.NotAcked, res.Errors, res.Ends)
	}
	s = latency(500)
	if v := load(t, s, target(t, sink.Script{})).Verification; v.NotAcked != 0 || v.Acked == 0 {
		t.Errorf("all were acked: %+v", v)
	}
}
