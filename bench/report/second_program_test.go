package report_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/tidemark/tidemark/bench/store"
	"github.com/tidemark/tidemark/bench/verify"
	"github.com/tidemark/tidemark/loadgen/result"
)

// TestRandomResultsAreWrittenAsASecondProgramReadsThem makes benches of random states up, renders them, and has each table
// and each sentence of the Answer made again by bench/verify, which shares no code with the report.
func TestRandomResultsAreWrittenAsASecondProgramReadsThem(t *testing.T) {
	for seed := range uint64(4) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 77))
			b := newBench(t, "smoke")
			if seed == 0 {
				b.plan.Primary = nil
			}
			b.light = true
			share := random.Float64() * 0.3
			b.change = func(c *store.Cell, r *store.Run, res *result.Result, _ string) bool {
				delete(res.Clocks, result.Pacer) // a made-up run keeps its log in a file of its own
				if random.Float64() >= share {
					return true
				}
				set := func(s store.RunStatus, kind string) {
					r.Status, r.Reasons = s, []string{"it was <so>, said \"the\" seed & all"}
					res.Add(result.Verdict{Kind: kind, Reason: r.Reasons[0]})
				}
				switch random.IntN(6) {
				case 0:
					set(store.Saturated, result.Saturated)
				case 1:
					set(store.GeneratorLimited, result.GeneratorLimited)
				case 2:
					set(store.Throttled, result.Throttled)
				case 3:
					res.Verification.Lost = 1 + random.Int64N(5000)
					set(store.Invalid, result.Invalid)
				case 4:
					r.Marks = append(r.Marks, store.MarkFreshMemory)
				case 5:
					return false
				}
				return true
			}
			b.write()
			if err := store.Seal(b.dir); err != nil {
				t.Fatal(err)
			}
			o, err := verify.Dir(b.dir)
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range o.Findings {
				t.Errorf("%s: %s", f.Place, f.Text)
			}
			if o.Published < 20 || o.Sentences < 4 || !o.Sealed {
				t.Errorf("hardly anything was checked: %+v", *o)
			}
		})
	}
}

// TestThePageNeedsNeitherStyleNorScript takes both away, as a server whose policy blocks them does, and looks for
// everything that a reader came for.
func TestThePageNeedsNeitherStyleNorScript(t *testing.T) {
	b := newBench(t, "smoke")
	b.light = true
	page, _ := b.write()
	bare := withoutScript(page)
	for _, want := range []string{`<section id="answer">`, "<svg", "<table", "bench-01", `name="viewport"`, `hidden="hidden"`, "default-src 'none'"} {
		if !strings.Contains(bare, want) {
			t.Errorf("without style and script the page has no %q", want)
		}
	}
	for _, never := range []string{" style=", "javascript:", " onclick=", " onload=", "http-equiv=\"refresh\"", "@import", "src=\"http", "<link"} {
		if strings.Contains(bare, never) {
			t.Errorf("the page has %q, which a strict policy blocks or which reaches outside", never)
		}
	}
	wide, narrow := strings.Count(bare, `<svg`), strings.Count(bare, `viewBox="0 0 3`)
	if narrow == 0 || narrow*2 > wide+narrow {
		t.Errorf("%d pictures, %d of them for 390 pixels: each is to be drawn for both", wide, narrow)
	}
}
