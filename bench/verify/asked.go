package verify

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
)

// suite checks that the suite beside a plan is the one that the plan was made of.
func (o *Outcome) suite(b *bench) {
	text, err := readFile(filepath.Join(b.dir, "suite.yaml"))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		o.skip("whether the plan is the suite's: suite.yaml is not there")
	case err != nil:
		o.find("suite.yaml", "%v", err)
	case b.plan.SuiteHash != "":
		o.Figures++
		if sum := sha256.Sum256(text); hex.EncodeToString(sum[:]) != b.plan.SuiteHash {
			o.find("suite.yaml", "it is not the suite of which plan.json was made: its SHA-256 is %x, there it is %s", sum, b.plan.SuiteHash)
		}
	}
}

// ownOfRun are the settings that each run has of its own, or that its rate decides.
var ownOfRun = []string{"name", "prefix", "topic", "seed", "rate", "warm-up", "window", "drain", "max-bytes", "max-duration"}

// asked checks that a run asked what its cell does, so that no result stands in a cell of another workload.
func (o *Outcome) asked(r *run) {
	if r.result == nil || r.result.Asked.all == nil || r.cell.Asked.all == nil {
		return
	}
	o.Figures++
	var parts []string
	for name, want := range r.cell.Asked.all {
		got, ok := r.result.Asked.all[name]
		if ok && string(got) != string(want) && !slices.Contains(ownOfRun, name) {
			parts = append(parts, name+" "+string(got)+" where the plan has "+string(want))
		}
	}
	slices.Sort(parts)
	if len(parts) > 0 {
		o.find(r.place, "its result is of another workload: %s", cut(strings.Join(parts, ", "), 300))
	}
}
