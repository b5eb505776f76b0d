package target

import (
	"path/filepath"

	"github.com/tidemark/tidemark/bench/host"
	"github.com/tidemark/tidemark/bench/store"
	"github.com/tidemark/tidemark/core/lie"
	"github.com/tidemark/tidemark/loadgen/result"
	"github.com/tidemark/tidemark/loadgen/workload"
)

// beside measures the receive ceiling before and after a run, on the run's own cores; nil measures nothing.
type beside struct {
	target *Target
	before host.Ceiling
}

// ceilingBeside measures before a capacity run of a target on this host, and nothing beside other runs.
func (t *Target) ceilingBeside(c *store.Cell) *beside {
	if c.Kind != store.Capacity || t.Mode() == "bootstrap" || t.options.Data == "" || t.options.NoCeilings {
		return nil
	}
	return &beside{target: t, before: t.ceiling()}
}

func (t *Target) ceiling() host.Ceiling {
	return host.ReceiveCeiling(filepath.Dir(t.options.Data), t.Cores, t.LoadCores)
}

// again measures after the run and returns both figures: MB for each CPU-second of the broker's side.
func (b *beside) again() []result.Ceiling {
	if b == nil || b.before.Error != "" {
		return nil
	}
	after := b.before
	if lie.Told != lie.CeilingCached {
		after = b.target.ceiling()
	}
	if after.Error != "" {
		return nil
	}
	return []result.Ceiling{{Name: b.before.Name, Unit: "MB/CPU-s", Before: b.before.PerCPU, After: after.PerCPU}}
}

// Touch uses n bytes of memory for page cache and gives them back right before a run, so that the run does not pay for
// pages that the host has yet to find (METHOD 5). It takes at most an eighth of what is available.
func (t *Target) Touch(n int64) (touched int64, err error) {
	return host.Touch(filepath.Dir(t.options.Data), min(n, ReadMemory().Available/8))
}

// mostPerSec is more than one producer has made a broker write here.
const mostPerSec = 1.5 * (1 << 30)

// willWrite is about what the target will write in a run, with what frames and indexes add.
func willWrite(s *workload.Spec) int64 {
	rate := mostPerSec
	switch {
	case s.Producers == 0:
		rate = 0
	case s.Rate > 0:
		rate = min(rate, s.Rate*s.RecordSize.Mean())
	}
	n := int64(rate * (s.WarmUp.D() + s.Window.D()).Seconds())
	if most := int64(s.MaxBytes); most > 0 {
		n = min(n, most)
	}
	return n + n/8
}
