package loadgen

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/tidemark/tidemark/core/kafka"
	"github.com/tidemark/tidemark/loadgen/result"
	"github.com/tidemark/tidemark/loadgen/sink"
	"github.com/tidemark/tidemark/loadgen/workload"
)

func TestARunOfRefusedRecordsIsInvalid(t *testing.T) {
	s := latency(500)
	res, err := Run(t.Context(), Options{Spec: s, Bootstrap: []string{target(t, sink.Script{Faults: []sink.Fault{{Kind: sink.Refuse, Batch: 1, Every: 1, Code: kafka.MessageTooLarge}}}).Addr()}})
	if res == nil || res.Valid || ExitCode(err) != 4 || res.Ends.Failed == 0 || res.Ends.Acked != 0 {
		t.Fatalf("%+v, exit %d, %v", res, ExitCode(err), err)
	}
	if !strings.Contains(reasons(res), "was acknowledged; see the errors") {
		t.Error(reasons(res))
	}
}

func TestBytesSpentInTheWarmUpLeaveNothingMeasured(t *testing.T) {
	s := latency(1000)
	s.WarmUp, s.MaxBytes = workload.Duration(time.Minute), 100<<10
	res, err := Run(t.Context(), Options{Spec: s, Bootstrap: []string{target(t, sink.Script{}).Addr()}})
	if res == nil || res.Valid || ExitCode(err) != 4 || !strings.Contains(err.Error(), "--max-bytes") {
		t.Fatalf("%+v, exit %d, %v", res, ExitCode(err), err)
	}
}

// TestARunCutInTheWarmUpHasFailed: a script that reads 0 would take it for a measurement.
func TestARunCutInTheWarmUpHasFailed(t *testing.T) {
	s := latency(1000)
	s.WarmUp, s.MaxDuration = workload.Duration(time.Minute), workload.Duration(500*time.Millisecond)
	for by, want := range map[string]string{"max-duration": "--max-duration 500ms", "signal": "interrupted in the warm-up of 1m"} {
		r := &run{spec: s, endedBy: by, res: &result.Result{Valid: true}}
		r.judgeEmpty(r.res)
		if err := r.verdictError(); ExitCode(err) != exitFailure || !r.res.Partial || !strings.Contains(err.Error(), "nothing was measured: "+want) {
			t.Errorf("%s: exit %d, %v", by, ExitCode(err), err)
		}
	}
}

func TestASignalInTheWarmUpShowsNoFigures(t *testing.T) {
	s := latency(1000)
	s.WarmUp = workload.Duration(time.Minute)
	to := target(t, sink.Script{})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		for to.Stats().Records < 100 {
			<-time.After(time.Millisecond)
		}
		cancel()
	}()
	res, err := Run(ctx, Options{Spec: s, Bootstrap: []string{to.Addr()}})
	if ExitCode(err) != exitFailure || res == nil || !res.Partial || !res.Valid || res.Has(result.GeneratorLimited) {
		t.Fatalf("exit %d, %+v, %v", ExitCode(err), res, err)
	}
	if b := &res.Produce.Batches; b.RequestsPerSec != 0 || res.Produce.RecordsPerSec != 0 {
		t.Errorf("%v requests/s and %v records/s of a window that never began", b.RequestsPerSec, res.Produce.RecordsPerSec)
	}
	var text bytes.Buffer
	printResult(&text, res, "")
	if !strings.Contains(text.String(), "nothing was measured") {
		t.Error(text.String())
	}
}

func TestAnErrorsKindIsSaidOnce(t *testing.T) {
	kind := kafka.MessageTooLarge.Error()
	if got := withoutKind(kind+": "+kind+": the batch has 2 MiB", kind); got != "the batch has 2 MiB" {
		t.Error(got)
	}
}

func TestATargetThatDiesWhileConsumersJoinIsNoticed(t *testing.T) {
	s := latency(500)
	s.Groups = []int{1}
	to := target(t, sink.Script{RebalanceDelay: time.Minute})
	go func() {
		for to.Stats().Records < 1 { // the first probe
			<-time.After(time.Millisecond)
		}
		_ = to.Close()
	}()
	out := t.TempDir()
	res, err := Run(t.Context(), Options{Spec: s, Bootstrap: []string{to.Addr()}, Out: out})
	if err == nil || ExitCode(err) != 4 || res == nil || res.Valid || !strings.Contains(err.Error(), "before anything was measured") {
		t.Fatalf("exit %d, %v, %+v", ExitCode(err), err, res)
	}
	kept, err := result.Read(out)
	if err != nil || kept.Valid || kept.Countable() || !kept.Has(result.Invalid) || kept.Window.Seconds() != 0 || kept.Ends.Intended != 0 {
		t.Errorf("kept %+v, %v", kept, err)
	}
	var text bytes.Buffer
	printResult(&text, res, out)
	if !strings.Contains(text.String(), "the target died") {
		t.Error(text.String())
	}
}

// TestTheBacklogIsTheWindows: what the drain has worked off does not make a growing backlog look level, and a chunk that
// the driver does not take is part of it.
func TestTheBacklogIsTheWindows(t *testing.T) {
	r := &run{spec: latency(100)}
	r.window.start = 1_000_000_000
	r.window.end.Store(4_000_000_000)
	c := &collector{r: r, closing: backlog{at: 4_000_100_000, outstanding: 300}}
	for i := range int64(2) {
		c.seconds = append(c.seconds, collected{start: (i + 1) * 1e9, end: (i + 2) * 1e9, outstanding: 100 * (i + 1)})
	}
	c.seconds = append(c.seconds, collected{start: 3e9, end: 4_100_000_000, outstanding: 0}) // after a short drain
	r.collector = c
	if slope := r.backlogSlope(); slope < 99 || slope > 101 {
		t.Errorf("%v records/s, want 100", slope)
	}
	b := &book{window: &r.window}
	b.mu.ends.allAccepted, b.mu.ends.allEnded = 10, 4
	p := &pacer{r: r}
	p.offered.Store(64)
	r.books, r.pacers = []*book{b}, []*pacer{p}
	if n := c.outstanding(0); n != 70 {
		t.Errorf("%d outstanding, want 6 in the driver and 64 offered to it", n)
	}
}
