package loadgen

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidemark/tidemark/loadgen/sink"
	"github.com/tidemark/tidemark/loadgen/workload"
)

// TestATargetMayDieAsTheWindowEnds: the watch finds out while flush and drain look whether it has; the race detector judges.
func TestATargetMayDieAsTheWindowEnds(t *testing.T) {
	s := latency(1)
	r := &run{spec: s, readers: []*reader{{}}}
	done := make(chan struct{})
	close(done)
	var wg sync.WaitGroup
	wg.Go(func() { r.dies("nobody listens") })
	r.flush(t.Context(), done)
	_, _ = r.readToEnd(t.Context(), r.started)
	wg.Wait()
	if complete, why := r.readToEnd(t.Context(), r.started); complete || !strings.Contains(why, "the target died: nobody listens") {
		t.Errorf("%v, %q", complete, why)
	}
}

// TestATargetThatDiesLateIsFoundDead: too late in the window for the watch, so that the drain has to see it.
func TestATargetThatDiesLateIsFoundDead(t *testing.T) {
	s := latency(500)
	s.WarmUp, s.Window, s.Drain = 0, workload.Duration(600*time.Millisecond), workload.Duration(10*time.Second)
	to := target(t, sink.Script{Freezes: []sink.Freeze{{AfterRecords: 100, For: time.Hour}}}) // so that something has no answer when it dies
	go func() {
		for to.Stats().Records < 100 {
			<-time.After(time.Millisecond)
		}
		_ = to.Close()
	}()
	res, _ := Run(t.Context(), Options{Spec: s, Bootstrap: []string{to.Addr()}, Out: t.TempDir()})
	if res == nil {
		t.Fatal("no result")
	}
	if why := reasons(res); res.Valid || !strings.Contains(why, "the target died") {
		t.Errorf("valid: %v; %s", res.Valid, why)
	}
}
