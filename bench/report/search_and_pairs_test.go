package report_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidemark/tidemark/bench/store"
	"github.com/tidemark/tidemark/bench/verify"
	"github.com/tidemark/tidemark/loadgen/result"
)

func ownSuite(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "own.yaml")
	if err := os.WriteFile(file, []byte("name: own\nseed: 3\nrate: 2000\nmax-bytes: 4GiB\nwindow: 1s\nbaseline: {repeats: 2, set: {groups: [1]}}\n"+text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestTheBracketIsWrittenAsASecondProgramFindsIt makes searches of random outcomes up: their capacity under the objective is
// in the Answer, made again by bench/verify with a fit of its own.
func TestTheBracketIsWrittenAsASecondProgramFindsIt(t *testing.T) {
	found, notFound := 0, 0
	for seed := range uint64(3) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 78))
			b := newBench(t, ownSuite(t, "slo: 5ms\nprobes: {repeats: 1}\nladder: {search: true, shares: [25%, 50%, 90%, 100%]}\n"))
			b.light = true
			b.plan.Runs = append(b.plan.Runs, b.plan.Search...)
			share := 0.1 * float64(seed)
			b.change = func(c *store.Cell, r *store.Run, res *result.Result, _ string) bool {
				delete(res.Clocks, result.Pacer)
				if seed == 2 && c.Searched && c.LoadShare < 0.6 { // nothing passes
					r.Status = store.Saturated
					res.Add(result.Verdict{Kind: result.Saturated, Reason: "slow"})
				}
				if !c.Searched || random.Float64() >= share {
					return true
				}
				switch random.IntN(4) {
				case 0:
					r.Status, r.Reasons = store.Saturated, []string{"slow"}
					res.Add(result.Verdict{Kind: result.Saturated, Reason: "slow"})
				case 1:
					r.Status, r.Reasons = store.GeneratorLimited, []string{"late"}
					res.Add(result.Verdict{Kind: result.GeneratorLimited, Reason: "late"})
				case 2:
					res.Ends.Failed, res.Ends.Acked = 3, res.Ends.Acked-3
					res.Produce.RecordsPerSec = float64(res.Ends.Acked) / res.Window.Seconds()
				case 3:
					return false
				}
				return true
			}
			page, markdown := b.write()
			if err := store.Seal(b.dir); err != nil {
				t.Fatal(err)
			}
			o, err := verify.Dir(b.dir)
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range o.Findings {
				if !strings.Contains(f.Text, "values, result.json says") { // a made-up failure is in the log all the same
					t.Errorf("%s: %s", f.Place, f.Text)
				}
			}
			const clause = "highest rate with a p99 within 5.00 ms "
			if !strings.Contains(markdown, clause) || !strings.Contains(page, clause) {
				t.Errorf("no %q in\n%.1500s", clause, markdown)
			}
			if strings.Contains(markdown, clause+"lies between") {
				found++
			} else {
				notFound++
			}
		})
	}
	if found == 0 || notFound == 0 {
		t.Errorf("%d brackets found, %d not: each is to be tried", found, notFound)
	}
}

// TestAPairwisePageTellsCliffsAndNoEffects.
func TestAPairwisePageTellsCliffsAndNoEffects(t *testing.T) {
	b := newBench(t, ownSuite(t, "matrix: {design: pairwise, axes: {linger: [0s, 5ms], acks: ['1', all], partitions: [1, 6]}}\n"))
	b.light = true
	broke := 0
	b.change = func(c *store.Cell, r *store.Run, res *result.Result, _ string) bool {
		delete(res.Clocks, result.Pacer)
		if c.Role == store.Axis && broke == 0 {
			broke++
			r.Status, r.Reasons = store.Saturated, []string{"slow"}
			res.Add(result.Verdict{Kind: result.Saturated, Reason: "slow"})
		}
		return true
	}
	page, markdown := b.write()
	if !strings.Contains(page, "Cliffs of the pairwise design") || !strings.Contains(page, "1 of 2 runs saturated") {
		t.Error("the page has no cliff")
	}
	for _, never := range []string{"Changes at the fixed rate", "made ack p99", "Cannot be told from the baseline"} {
		if strings.Contains(markdown, never) {
			t.Errorf("a pairwise design is said to have effects: %q", never)
		}
	}
	o, err := verify.Dir(b.dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range o.Findings {
		t.Errorf("%s: %s", f.Place, f.Text)
	}
}
