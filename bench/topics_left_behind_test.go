package bench

import (
	"strings"
	"testing"

	"github.com/tidemark/tidemark/bench/store"
	"github.com/tidemark/tidemark/bench/suites"
	"github.com/tidemark/tidemark/bench/target"
	"github.com/tidemark/tidemark/loadgen/result"
)

func TestTopicsLeftOnAClusterAreNotedOnce(t *testing.T) {
	left := &store.Run{Order: 2, Result: &result.Result{Run: result.Run{NotDeleted: []result.LeftTopic{{Topic: "bench-7-003-1-0", Why: "TOPIC_AUTHORIZATION_FAILED"}}}}}
	for _, c := range []struct {
		on    suites.Target
		notes int
	}{{suites.Target{}, 0}, {suites.Target{Bootstrap: "127.0.0.1:9092"}, 1}} {
		r := &runner{suite: &suites.Suite{Target: c.on}, plan: &store.Plan{RunID: "bench-7"}, status: &store.Status{}, target: &target.Target{Bootstrap: "127.0.0.1:9092"}}
		for _, res := range []*store.Run{nil, {}, {Result: &result.Result{}}, left, left} {
			r.leftBehind(res)
		}
		if notes := r.status.Notes; len(notes) != c.notes || c.notes == 1 && (!strings.Contains(notes[0], "run 3") || !strings.Contains(notes[0], "'bench-7-.*'")) {
			t.Errorf("%+v: %q", c.on, notes)
		}
	}
}
