package target

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/tidemark/tidemark/bench/host"
	"github.com/tidemark/tidemark/bench/store"
	"github.com/tidemark/tidemark/core/lie"
	"github.com/tidemark/tidemark/loadgen/result"
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

// touchChunk is how much is written at a time.
const touchChunk = 1 << 20

// Touch uses n bytes of memory for page cache and gives them back, so that the first large run does not pay for pages
// that the host has yet to find (METHOD 5). It takes at most an eighth of what is available.
func (t *Target) Touch(n int64) (touched int64, err error) {
	n = min(n, ReadMemory().Available/8)
	f, err := os.CreateTemp(filepath.Dir(t.options.Data), "touch-*")
	if err != nil {
		return 0, fmt.Errorf("touch memory: %w", err)
	}
	defer f.Close()
	if err := os.Remove(f.Name()); err != nil {
		return 0, fmt.Errorf("touch memory: %w", err)
	}
	block := make([]byte, touchChunk)
	for touched < n {
		k, err := f.Write(block)
		touched += int64(k)
		if err != nil {
			return touched, fmt.Errorf("touch memory: %w", err)
		}
	}
	t.touched = max(t.touched, touched)
	return touched, nil
}
