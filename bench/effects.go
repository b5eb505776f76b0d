package bench

import (
	"fmt"
	"io"
	"math"

	"github.com/tidemark/tidemark/bench/gate"
	"github.com/tidemark/tidemark/bench/stats"
	"github.com/tidemark/tidemark/bench/store"
)

// printModel says what an effects design will be able to see of each term of its model, and what it cannot tell from it.
func printModel(w io.Writer, p *store.Plan) {
	runs, points, outside, df := 0, 0, 0, 0
	for i := range p.Cells {
		c := &p.Cells[i]
		if !c.Modelled() {
			continue
		}
		df += c.Repeats - 1
		if c.Outside {
			outside++
			continue
		}
		runs += c.Repeats
		points++
	}
	fmt.Fprintf(w, "model     %s over %d runs of %d cells, %d residual degrees of freedom; noise from repeats, on %d; %d cells outside the design must fall where it foretells\n",
		plural(len(p.Model), "effect"), runs, points, runs-1-len(p.Model), df, outside)
	if df < stats.MinDF {
		fmt.Fprintf(w, "verdicts need %d degrees of freedom of repeats: every effect will read \"cannot tell\"; more repeats\n", stats.MinDF)
	}
	visible := func(t store.Term, runNoise float64) float64 {
		n := stats.Noise{DF: df}
		n.Sigma = math.Log1p(runNoise) / n.T()
		return 100 * (n.SmallestEffect(t.StandardError) - 1)
	}
	t := newTable("", "effect", fmt.Sprintf("smallest seen 4 times in 5, ±%.0f%% a run (ack p99)", 100*usualNoiseP99), fmt.Sprintf("±%.0f%% (CPU per GB)", 100*usualNoiseCPU), "not told from")
	for _, one := range p.Model {
		t.row("", one.Name, fmt.Sprintf("%.0f%%", visible(one, usualNoiseP99)), fmt.Sprintf("%.0f%%", visible(one, usualNoiseCPU)), aliasText(one))
	}
	t.print(w)
}

// aliasText is what of an interaction outside the model would pass for the term.
func aliasText(t store.Term) string {
	if t.Alias == "" {
		return "-"
	}
	return fmt.Sprintf("%.2f of %s", t.AliasShare, t.Alias)
}

// printEffects prints what an effects design found, and whether its model may be believed.
func printEffects(w io.Writer, d *store.Data, a *gate.Analysis) {
	for _, m := range a.Models {
		if !gate.Shown(d, m) {
			continue
		}
		fmt.Fprintf(w, "\n%s by the model: %s\n", m.Metric.Name, m.Words())
		if m.Why != "" {
			continue
		}
		t := newTable("", "effect", "ratio [95%]", "verdict", "not told from")
		for i, e := range m.Effects {
			t.row("", e.Term.Name, ratio(e.Judgement.Ratio), m.WordsOf(i), aliasText(e.Term))
		}
		t.print(w)
		for _, c := range m.Checks {
			fmt.Fprintf(w, "  outside: %s %s\n", d.Cell(c.Cell).Name, c.Words())
		}
	}
}
