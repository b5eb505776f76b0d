package loadgen

import (
	"strings"
	"sync"
	"testing"
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
