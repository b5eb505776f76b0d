package gate_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/tidemark/tidemark/bench/gate"
	"github.com/tidemark/tidemark/bench/store"
	"github.com/tidemark/tidemark/loadgen/result"
)

// TestAStoppedCellIsComparedWithTheRunsBeforeItsStop: a host that gets slower after the stop makes no difference.
func TestAStoppedCellIsComparedWithTheRunsBeforeItsStop(t *testing.T) {
	d := data(1, 0, 1, 1)
	d.Runs = nil
	random := rand.New(rand.NewPCG(8, 0))
	for round := range 20 {
		for cell := 1; cell <= 3; cell++ {
			if cell == 2 && round >= 6 {
				continue
			}
			nanos := 1e6 * math.Exp(0.02*random.NormFloat64())
			if round >= 7 {
				nanos *= 1.5
			}
			r := &result.Result{Clocks: map[string]result.Latency{result.Ack: {Count: 1e5, Sound: true, Percentiles: []result.Percentile{{P: 99, Nanos: int64(nanos), Above: 1000, Excursions: 50}}}}}
			d.Runs = append(d.Runs, &store.Run{Cell: cell, Repeat: round + 1, Order: 3*round + cell - 1, Status: store.OK, Result: r})
		}
	}
	d.Status.Stopped = []store.Stopped{{Cell: 2, Runs: 6, Order: 3*6 + 1}}
	a := gate.Analyse(d)
	for _, want := range []struct{ cell, baseline int }{{2, 7}, {3, 20}} {
		c, ok := a.Comparison(want.cell, "ack p99")
		if r := c.Judgement.Ratio; !ok || r.NBaseline != want.baseline || math.Abs(r.Value-1) > 0.03 {
			t.Errorf("cell %d: %d runs against %d, ratio %v", want.cell, r.NCandidate, r.NBaseline, r.Value)
		}
	}
}
