package report

import (
	"fmt"
	"math"
	"strings"

	"github.com/tidemark/tidemark/bench/gate"
	"github.com/tidemark/tidemark/bench/stats"
	"github.com/tidemark/tidemark/bench/store"
)

// modelled is the sentence of the Answer about an effects design: for latency and for cost, what its model says, and whether
// the cells outside the design let it be believed.
func (p *page) modelled() *sentence {
	s := &sentence{}
	for _, m := range p.a.Models {
		if !gate.Answered(p.d, m) {
			continue
		}
		lead := "; "
		if len(s.spans) == 0 {
			lead = "Effects "
		}
		s.say("%son ", lead).see("#effects", "%s", m.Metric.Name)
		if m.Why != "" {
			s.say(" are not known: %s", m.Why)
			continue
		}
		inside := 0
		for _, c := range m.Checks {
			inside += int(b2f(c.Inside()))
		}
		s.say(", by a model that held in %d of %d cells outside its design: ", inside, len(m.Checks))
		if doubt := m.Doubt(); doubt != "" {
			s.say("none is told, for %s", doubt)
			continue
		}
		named := 0
		for _, e := range m.Effects {
			j := e.Judgement
			if !e.Stands || j.Verdict != stats.Better && j.Verdict != stats.Worse {
				continue
			}
			if named++; named > 6 {
				continue
			}
			if named > 1 {
				s.say(", ")
			}
			s.say("%s %s (%s)", short(e.Term.Name, 60), ratio(j.Ratio), j.Words())
		}
		switch {
		case named == 0:
			s.say("none stands")
		case named > 6:
			s.say(" and %d more", named-6)
		}
	}
	if len(s.spans) == 0 {
		return nil
	}
	return s.say(".")
}

// smallest is the least ratio that the fit would see of a term four times in five.
func smallest(e gate.Effect) string {
	return "×" + number(e.Judgement.Ratio.Noise.SmallestEffect(e.Term.StandardError))
}

func alias(t store.Term) string {
	if t.Alias == "" {
		return "–"
	}
	return fmt.Sprintf("%.2f of %s", t.AliasShare, short(t.Alias, 60))
}

func effectRows(m *gate.Model) (rows [][]string) {
	for i, e := range m.Effects {
		rows = append(rows, []string{short(e.Term.Name, 60), ratio(e.Judgement.Ratio), m.WordsOf(i), smallest(e), alias(e.Term)})
	}
	return rows
}

func effectHead(m *gate.Model) []string {
	return []string{"effect on " + m.Metric.Name, "ratio [95%]", "verdict", "smallest that is seen", "not told from"}
}

// effects is the part of the page about an effects design.
func (p *page) effects(b *strings.Builder) {
	b.WriteString(`<h3 id="effects">Effects by the model</h3>` + "\n<p>Each cell of this design changes several settings at once; a model takes their effects apart, on the log scale, each as a ratio to runs " +
		"without the setting (a pair: what both do beyond what each does alone). Noise is that of repeats. Two tests, at 5% together, ask whether the model holds: five cells that it was not fitted to " +
		"must fall where it foretells, and its own may lie off it by no more than their repeats do. “Smallest that is seen” (four times in five) and “not told from”, which names what outside the model " +
		"would pass for the effect and how much of it, are those of the cells that stayed: cells with a run that was saturated, limited or throttled have left.</p>\n")
	for _, m := range p.a.Models {
		if !gate.Shown(p.d, m) {
			continue
		}
		fmt.Fprintf(b, "<p>%s: %s.</p>\n", esc(m.Metric.Name), esc(m.Words()))
		if m.Why != "" {
			continue
		}
		b.WriteString(p.effectsFigure(m).render())
		t := newTable("cell outside the design", m.Metric.Name+" foretold, "+m.Metric.Unit, "found", "")
		for _, c := range m.Checks {
			where := "outside"
			if !c.Told {
				where = "does not tell"
			} else if c.Inside() {
				where = "inside"
			}
			t.row(link(cellAddress(c.Cell), p.d.Cell(c.Cell).Name), esc(estimate(c.Predicted, "")), esc(number(c.Found)), where)
		}
		b.WriteString(`<div class="scroll" tabindex="0">` + t.html("") + "</div>\n")
	}
}

// effectsFigure is the picture of one model: a dot and its interval for each effect.
func (p *page) effectsFigure(m *gate.Model) *figure {
	limit := 1 + p.d.Plan.Allowance
	x := newExtent()
	x.positive(1 / limit / 1.02)
	x.positive(limit * 1.02)
	t := newTable(effectHead(m)...)
	for i, row := range effectRows(m) {
		r := m.Effects[i].Judgement.Ratio
		for _, v := range []float64{r.Value, r.Low, r.High} {
			x.positive(min(200, max(0.005, v)))
		}
		for k := range row {
			row[k] = esc(row[k])
		}
		t.row(row...)
	}
	better := "left is better"
	if m.Metric.Direction == stats.HigherIsBetter {
		better = "right is better"
	}
	height := func(f frame) float64 { return 36*float64(len(m.Effects)) + forestAxis }
	return &figure{
		id:    "effects-" + strings.NewReplacer(" ", "-", ".", "").Replace(m.Metric.Name),
		title: fmt.Sprintf("%s: ratio that each effect of the model makes: %s", m.Metric.Name, better),
		caption: p.caption(fmt.Sprintf("Dot and 95%% interval, log axis, no unit; shaded: within the allowance of %s%%. %s.", percent(p.d.Plan.Allowance), m.Words()),
			p.baselineMeant(), fmt.Sprintf("%d runs of %d cells", m.Runs, m.Cells), ""),
		height: height,
		draw: func(c *canvas, f frame, top float64) {
			s := logScale(x, 24, f.width-24)
			bottom := top + height(f) - forestAxis
			c.rect(s.at(1/limit), top, s.at(limit)-s.at(1/limit), bottom-top, fill("band"))
			for _, at := range ratioTicks(s) {
				c.line(s.at(at), top, s.at(at), bottom+4, stroke("grid", 1))
				c.text(s.at(at), bottom+16, 10.5, "middle", "muted", "×"+tick(at))
			}
			c.line(s.at(1), top, s.at(1), bottom, stroke("axis", 1.4))
			for i, e := range m.Effects {
				y, r := top+36*float64(i), e.Judgement.Ratio
				colour := "muted"
				switch e.Judgement.Verdict {
				case stats.Worse:
					colour = "orange"
				case stats.Better:
					colour = "blue"
				}
				text := fit(e.Term.Name+"  "+ratio(r)+"  "+brief(m.WordsOf(i)), 10.5, f.width-40)
				c.rect(14, y+2, textWidth(text, 10.5)+8, 13, fill("frame")) // lines behind words are hard to read
				c.text(16, y+12, 10.5, "start", "ink", text)
				if !math.IsNaN(r.Low) && !math.IsNaN(r.High) {
					c.line(s.at(r.Low), y+24, s.at(r.High), y+24, stroke(colour, 2))
				}
				c.mark(0, s.at(r.Value), y+24, 4.2, colour, false, e.Term.Name+" "+ratio(r)+", "+m.WordsOf(i))
			}
			c.text(f.width/2, bottom+30, 10.5, "middle", "muted", "ratio of "+m.Metric.Name+" (log)")
		},
		table: t.html(""),
	}
}

// mdEffects is the same as tables.
func (p *page) mdEffects() string {
	text := ""
	for _, m := range p.a.Models {
		if !gate.Shown(p.d, m) {
			continue
		}
		text += md(m.Metric.Name+": "+m.Words()) + ".\n\n"
		if m.Why == "" {
			text += mdTable(effectHead(m), effectRows(m))
		}
	}
	if text == "" {
		return ""
	}
	return "## Effects by the model\n\n" + text
}
