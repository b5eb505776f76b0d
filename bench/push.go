package bench

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/tidemark/tidemark/bench/store"
	"github.com/tidemark/tidemark/profiles"
)

// measuredKinds is what a measured repeat may carry, profiledKinds what the one extra repeat does (METHOD 7).
func measuredKinds(c *store.Cell) []profiles.Kind {
	if c.CPUProfile {
		return []profiles.Kind{profiles.CPU}
	}
	return nil
}

func profiledKinds() []profiles.Kind {
	return []profiles.Kind{profiles.Heap, profiles.Mutex, profiles.Block}
}

// pusher sends the profile files of finished runs to a Pyroscope server, between two runs and never during one. A server
// that is down, answers errors, never answers, or is slower than one time-out a run is given up for the rest of the
// bench; the files are kept whatever becomes of the push.
type pusher struct {
	address string // "" for nowhere
	labels  map[string]string
	axes    []string // every axis of the plan: each profile carries the cell's value of each
	pushed  int
	gaveUp  bool
}

func newPusher(address string, p *store.Plan) *pusher {
	node, _ := os.Hostname()
	out := &pusher{address: address, labels: map[string]string{"suite": p.Suite, "node": node}}
	seen := map[string]bool{}
	for i := range p.Cells {
		for _, s := range p.Cells[i].Settings {
			if !seen[s.Axis] {
				seen[s.Axis] = true
				out.axes = append(out.axes, s.Axis)
			}
		}
	}
	return out
}

// labelsOf are the labels of a cell's profiles.
func (p *pusher) labelsOf(c *store.Cell) map[string]string {
	labels := map[string]string{"cell": c.Name}
	for k, v := range p.labels {
		labels[k] = v
	}
	for _, axis := range p.axes {
		if v, ok := c.Asked.Get(axis); ok {
			labels[axis] = v
		}
	}
	for _, s := range c.Settings {
		labels[s.Axis] = s.Value
	}
	return labels
}

// push sends what a run has kept and returns what went wrong, once.
func (p *pusher) push(c *store.Cell, r *store.Run) error {
	if p.address == "" || p.gaveUp || r.Result == nil || r.Result.Profiles == nil {
		return nil
	}
	out, err := profiles.NewPusher(p.address)
	if err != nil {
		p.gaveUp = true
		return err
	}
	labels := p.labelsOf(c)
	began := time.Now()
	for _, one := range r.Result.Profiles.Taken {
		b, readErr := os.ReadFile(filepath.Join(r.Dir, filepath.FromSlash(one.File)))
		if readErr != nil {
			err = readErr
			continue
		}
		from, _ := time.Parse(time.RFC3339Nano, one.FromUTC)
		until, _ := time.Parse(time.RFC3339Nano, one.UntilUTC)
		out.Push(profiles.Profile{App: "tidemark." + one.Process, Labels: labels, Kind: profiles.Kind(one.Kind), From: from, Until: until, Data: b})
	}
	sent, pushErr := out.Close()
	p.pushed += sent
	switch took := time.Since(began); {
	case pushErr != nil:
		err = pushErr
	case took > profiles.PushTimeout:
		err = fmt.Errorf("pyroscope at %s took %v for the profiles of one run", p.address, took.Round(100*time.Millisecond))
	}
	p.gaveUp = err != nil
	return err
}
