package loadgen

import (
	"strings"
	"testing"
	"time"

	"github.com/tidemark/tidemark/loadgen/sink"
	"github.com/tidemark/tidemark/loadgen/workload"
)

// TestAWindowOfNoRecordIsInvalid: a table of dashes and 0 lost of 0 is no result of a run that was asked for.
func TestAWindowOfNoRecordIsInvalid(t *testing.T) {
	s := latency(1)
	s.WarmUp, s.Window = 0, workload.Duration(20*time.Millisecond)
	if at := workload.NewSchedule(s, 0).Next(); at < s.Window.Nanos() {
		t.Fatalf("seed %d intends a record after %d ns", s.Seed, at)
	}
	res, err := Run(t.Context(), Options{Spec: s, Bootstrap: []string{target(t, sink.Script{}).Addr()}})
	if res == nil || res.Valid || ExitCode(err) != 4 || res.Ends.Intended != 0 || !strings.Contains(reasons(res), "not one record was intended in a window of 0.02 s") {
		t.Fatalf("%+v, exit %d, %v", res, ExitCode(err), err)
	}
}

// TestRecordsOfNoBytesEnd: their payload compresses to nothing, however many are made to find out.
func TestRecordsOfNoBytesEnd(t *testing.T) {
	s := latency(500)
	s.WarmUp, s.Window, s.Verify, s.RecordSize = 0, workload.Duration(100*time.Millisecond), workload.VerifyOff, workload.FixedSize(0)
	if err := s.Validate(); err != nil {
		t.Fatal(err)
	}
	res := load(t, s, target(t, sink.Script{}))
	if res.Ends.Intended == 0 || res.Ends.Acked != res.Ends.Intended || res.Payload.RecordBytesMax != 0 {
		t.Errorf("%+v, %+v", res.Ends, res.Payload)
	}
}
