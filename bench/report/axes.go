package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/tidemark/tidemark/bench/gate"
	"github.com/tidemark/tidemark/bench/stats"
	"github.com/tidemark/tidemark/bench/store"
)

// panel is the cells of one axis, drawn in a small frame of their own.
type panel struct {
	axis  string
	cells []*cell
}

// panels groups the cells that are compared with another by the axis that they change, the strongest effect first.
func (p *page) panels(kind store.Kind, metric string) []panel {
	var out []panel
	for _, c := range p.cells(func(c *store.Cell) bool { return c.Kind == kind && c.Against != 0 }) {
		var names []string
		for _, s := range c.Settings {
			names = append(names, s.Axis)
		}
		axis := strings.Join(names, " × ")
		if axis == "" {
			axis = "other"
		}
		i := slices.IndexFunc(out, func(q panel) bool { return q.axis == axis })
		if i < 0 {
			i = len(out)
			out = append(out, panel{axis: axis})
		}
		out[i].cells = append(out[i].cells, c)
	}
	strength := func(q panel) float64 {
		most := -1.0
		for _, c := range q.cells {
			if x, ok := p.a.Comparison(c.Number, metric); ok && !math.IsNaN(x.Judgement.Ratio.Value) {
				most = max(most, math.Abs(math.Log(x.Judgement.Ratio.Value)))
			}
		}
		return most
	}
	slices.SortStableFunc(out, func(a, b panel) int {
		switch x, y := strength(a), strength(b); {
		case x > y:
			return -1
		case x < y:
			return 1
		}
		return 0
	})
	return out
}

// comparedRuns says how many runs of how many cells stand against how many.
func (p *page) comparedRuns(cells []*cell, metric string) string {
	runs, n, against := 0, 0, 0
	for _, c := range cells {
		if x, ok := p.a.Comparison(c.Number, metric); ok {
			runs += x.Judgement.Ratio.NCandidate
			n++
			against = max(against, x.Judgement.Ratio.NBaseline)
		}
	}
	return count(runs, "run") + " of " + count(n, "cell") + " against " + count(against, "run")
}

// stops says what cells that a stop rule ended are compared with.
func (p *page) stops() string {
	if len(p.d.Status.Stopped) == 0 {
		return ""
	}
	return " Cells that were stopped stand against the runs before their stop."
}

// maxForest is how many cells one picture of ratios shows.
const maxForest = 40

// strongest keeps the panels with the strongest effects where there are more cells than a picture can show.
func strongest(panels []panel, cells []*cell) (keep []panel, shown []*cell, note string) {
	if len(cells) <= maxForest {
		return panels, cells, ""
	}
	for _, q := range panels {
		q.cells = q.cells[:min(len(q.cells), maxForest-len(shown))]
		if len(q.cells) > 0 {
			keep, shown = append(keep, q), append(shown, q.cells...)
		}
	}
	return keep, shown, fmt.Sprintf("The %d of %d cells whose axes did most; all are in the table of all cells. ", len(shown), len(cells))
}

// baseName is what ratios are to, in a title.
func baseName(c *store.Cell) string {
	if c.Role == store.Probe {
		return "the baseline"
	}
	return short(c.Name, 40)
}

// needsMore says that noise is known too badly for verdicts, where it is.
func (p *page) needsMore(metric string, kind store.Kind) string {
	if n := p.a.Noise[gate.NoiseKey{Metric: metric, Kind: kind}]; n.DF < stats.MinDF {
		return fmt.Sprintf("No verdicts: noise rests on %d degrees of freedom, %d are needed. ", n.DF, stats.MinDF)
	}
	return ""
}

// value is what a cell sets its panel's axis to.
func (c *cell) value() string {
	var values []string
	for _, s := range c.Settings {
		values = append(values, s.Value)
	}
	if len(values) == 0 {
		return c.Name
	}
	return strings.Join(values, " × ")
}

// forest is the picture of all ratios of one metric.
func (p *page) forest(kind store.Kind, m store.Metric) *figure {
	panels := p.panels(kind, m.Name)
	have := false
	e := newExtent()
	limit := 1 + p.d.Plan.Allowance
	e.positive(1 / limit / 1.02)
	e.positive(limit * 1.02)
	var cells []*cell
	for _, q := range panels {
		for _, c := range q.cells {
			cells = append(cells, c)
			if x, ok := p.a.Comparison(c.Number, m.Name); ok {
				have = true
				r := x.Judgement.Ratio
				for _, v := range []float64{r.Value, r.Low, r.High} {
					e.positive(min(200, max(0.005, v)))
				}
			}
		}
	}
	if !have {
		return nil
	}
	better := "left is better"
	if m.Direction == stats.HigherIsBetter {
		better = "right is better"
	}
	base := p.d.Cell(cells[0].Against)
	panels, cells, hidden := strongest(panels, cells)
	f := &figure{
		id:    "axes-" + strings.NewReplacer(" ", "-", ".", "").Replace(string(kind)+"-"+m.Name),
		title: fmt.Sprintf("%s, ratio to %s: %s", m.Name, baseName(base), better),
		caption: p.caption(hidden+p.needsMore(m.Name, kind)+fmt.Sprintf("Dot and 95%% interval of the ratio, log axis, no unit; small dots are single runs; shaded: within the allowance of %s%%.", percent(p.d.Plan.Allowance))+p.stops(),
			p.cell(base.Number).meant(), p.comparedRuns(cells, m.Name), p.noise(m.Name, kind)),
		height: func(f frame) float64 { return forestHeight(panels, f) },
		draw:   func(c *canvas, f frame, top float64) { p.drawForest(c, f, top, panels, m, e) },
		table:  p.forestTable(cells, m),
	}
	return f
}

const (
	forestRow  = 21.0
	forestHead = 20.0
	forestAxis = 34.0
)

func forestHeight(panels []panel, f frame) float64 {
	h := forestAxis
	for _, q := range panels {
		h += forestHead + forestRow*float64(len(q.cells)) + 8
		if f.narrow {
			h += 13 * float64(len(q.cells))
		}
	}
	return h
}

func (p *page) drawForest(c *canvas, f frame, top float64, panels []panel, m store.Metric, e extent) {
	left, right := 112.0, f.width-290 // room for "cannot tell (over 1000 more)"
	pad := 16.0
	if f.narrow {
		left, right, pad = 96, f.width-18, 10
	}
	s := logScale(e, left, right)
	bottom := top + forestHeight(panels, f) - forestAxis
	limit := 1 + p.d.Plan.Allowance
	y := top
	for _, q := range panels {
		row := forestRow
		if f.narrow {
			row += 13
		}
		h := forestHead + row*float64(len(q.cells))
		c.rect(pad, y, f.width-2*pad, h+2, ` rx="4" class="p-none s-grid" fill="none" stroke="#e9edf1"`)
		c.rect(s.at(1/limit), y+1, s.at(limit)-s.at(1/limit), h, fill("band"))
		for _, t := range ratioTicks(s) {
			c.line(s.at(t), y+1, s.at(t), y+h+1, stroke("grid", 1))
		}
		c.line(s.at(1), y+1, s.at(1), y+h+1, stroke("axis", 1.4))
		c.styled(pad+8, y+14, 11.5, "start", "muted", bold, fit(q.axis, 12.5, f.width-2*pad-20))
		for i, one := range q.cells {
			p.forestLine(c, f, s, one, m, y+forestHead+row*float64(i)+8, left)
		}
		y += h + 8
	}
	for _, t := range ratioTicks(s) {
		c.line(s.at(t), bottom-4, s.at(t), bottom, stroke("axis", 1))
		c.text(s.at(t), bottom+12, 10.5, "middle", "muted", "×"+tick(t))
	}
	c.text((left+right)/2, bottom+27, 10.5, "middle", "muted", "ratio of "+m.Name+" (log)")
}

func (p *page) forestLine(c *canvas, f frame, s scale, one *cell, m store.Metric, y, left float64) {
	label := fit(one.value(), 12, left-24)
	c.text(left-8, y+4, 12, "end", "ink", label)
	words, figureText := one.state(), ""
	x, ok := p.a.Comparison(one.Number, m.Name)
	colour := "muted"
	if ok {
		j := x.Judgement
		r := j.Ratio
		switch j.Verdict {
		case stats.Worse:
			colour = "orange"
		case stats.Better:
			colour = "blue"
		}
		hint := fmt.Sprintf("%s: %s %s, %s", one.Name, m.Name, ratio(r), x.Words())
		if !math.IsNaN(r.Low) && !math.IsNaN(r.High) {
			c.line(s.at(r.Low), y, s.at(r.High), y, stroke(colour, 2))
			for _, v := range []float64{r.Low, r.High} {
				c.line(s.at(v), y-4, s.at(v), y+4, stroke(colour, 1.4))
			}
		}
		if len(one.counted) < 6 {
			if base, ok := p.a.Estimate(x.Against, m.Name); ok {
				for _, v := range m.Values(p.d, one.Number) {
					c.mark(0, s.at(v/base.Estimate.Value), y, 2, colour, true, "")
				}
			}
		}
		c.mark(0, s.at(r.Value), y, 4.2, colour, false, hint)
		figureText, words = ratio(r), x.Words()
	} else if words == "" {
		words = "no figure"
		if acksNothing(one.Cell) && strings.HasPrefix(m.Name, "ack ") {
			words = "no ack to time"
		}
	}
	if f.narrow {
		text := fit(strings.TrimSpace(figureText+"  "+brief(words)), 10, f.width-left-10)
		c.rect(left-2, y+8, textWidth(text, 10)+4, 12, fill("frame")) // lines behind words are hard to read
		c.text(left, y+17, 10, "start", "muted", text)
		return
	}
	c.text(s.to+12, y+4, 10.5, "start", "ink", figureText)
	at := s.to + 12
	if figureText != "" {
		at += 108
	}
	c.text(at, y+4, 10.5, "start", colour, fit(brief(words), 10.5, f.width-at-12))
}

func (p *page) forestTable(cells []*cell, m store.Metric) string {
	t := newTable("cell", m.Name+", "+m.Unit, "ratio [95%]", "verdict", "runs")
	for _, c := range cells {
		value, r, words := "–", "–", c.state()
		if e, ok := p.a.Estimate(c.Number, m.Name); ok {
			value = estimate(e.Estimate, "")
		}
		if x, ok := p.a.Comparison(c.Number, m.Name); ok {
			r, words = ratio(x.Judgement.Ratio), x.Words()
		}
		t.row(link(cellAddress(c.Number), c.Name), esc(value), esc(r), esc(words), esc(c.repeats()))
	}
	return t.html("")
}

// brief is a verdict where there is little room.
func brief(words string) string {
	if why, ok := strings.CutPrefix(words, "cannot tell: "); ok {
		n, _, runs := strings.Cut(why, " more run")
		if !runs {
			return "cannot tell"
		}
		return "cannot tell (" + strings.Replace(n, "over 1000", "1000+", 1) + " more)"
	}
	return strings.Replace(words, " is proven)", ")", 1)
}

// axes is the section of panels: latency and capacity cells apart.
func (p *page) axes(b *strings.Builder) {
	drawn := 0
	for _, group := range []struct {
		kind    store.Kind
		title   string
		metrics []string
	}{
		{store.Latency, "At the fixed rate", []string{"ack p99", "delivery p99", "CPU per GB"}},
		{store.Capacity, "In a closed loop", []string{"throughput", "CPU per GB"}},
	} {
		var figures []*figure
		for _, name := range group.metrics {
			if m, ok := store.MetricNamed(name); ok {
				if f := p.forest(group.kind, m); f != nil {
					figures = append(figures, f)
				}
			}
		}
		if len(figures) == 0 {
			continue
		}
		drawn += len(figures)
		fmt.Fprintf(b, "<h3>%s</h3>\n", esc(group.title))
		b.WriteString(`<div class="pair">`)
		for _, f := range figures {
			b.WriteString(f.render())
		}
		if text := p.exploratory(); text != "" && group.kind == store.Latency {
			b.WriteString(`<p class="aside side">` + esc(text) + " Axes stand in the order of their effect, the strongest first.</p>")
		}
		b.WriteString("</div>\n")
	}
	p.interactions(b)
	switch p.d.Plan.Design {
	case store.Pairwise:
		p.cliffs(b)
		return
	case store.Effects:
		p.effects(b)
		return
	}
	if drawn == 0 {
		why(b, "no cell that changes a setting has a run that counts yet, so there is nothing to compare with the baseline")
	}
}

// exploratory says how many of the comparisons nobody asked for would stand out by chance.
func (p *page) exploratory() string {
	all, stand := 0, 0
	for _, c := range p.a.Comparisons {
		if !c.Primary {
			all++
			stand += int(b2f(c.Stands))
		}
	}
	if all == 0 {
		return ""
	}
	return fmt.Sprintf("Beyond the comparisons named beforehand this run makes %d exploratory ones (every metric of every cell); by chance alone about %s of them would stand out at 95%%. "+
		"%d stand at a false discovery rate of 5%%; only those are called worse or better without \"may be chance\".", all, whole(p.a.ChanceFindings), stand)
}

// interactions draws a heat map for each pair of axes that some cells change together.
func (p *page) interactions(b *strings.Builder) {
	type pairOf struct{ a, b string }
	var order []pairOf
	found := map[pairOf][]gate.Comparison{}
	for _, x := range p.a.Comparisons {
		c := p.d.Cell(x.Cell)
		if len(c.Settings) != 2 || x.Metric.Name != latencyMetric(c) {
			continue
		}
		k := pairOf{c.Settings[0].Axis, c.Settings[1].Axis}
		if found[k] == nil {
			order = append(order, k)
		}
		found[k] = append(found[k], x)
	}
	for i, k := range order {
		if len(found[k]) < 4 || i >= 6 {
			continue
		}
		var rows, columns []string
		at := map[[2]string]gate.Comparison{}
		for _, x := range found[k] {
			s := p.d.Cell(x.Cell).Settings
			if !slices.Contains(rows, s[0].Value) {
				rows = append(rows, s[0].Value)
			}
			if !slices.Contains(columns, s[1].Value) {
				columns = append(columns, s[1].Value)
			}
			at[[2]string{s[0].Value, s[1].Value}] = x
		}
		f := &figure{
			title:   fmt.Sprintf("%s against %s: ratio of p99 to the baseline", short(k.a, 30), short(k.b, 30)),
			caption: p.caption("Ratio of p99 (no unit); bluer is lower, warmer is higher.", p.baselineMeant(), count(len(found[k]), "cell"), ""),
			height:  func(frame) float64 { return 24*float64(len(rows)) + 30 },
		}
		f.draw = func(c *canvas, fr frame, top float64) {
			left := 96.0
			w := (fr.width - left - 16) / float64(len(columns))
			for j, column := range columns {
				c.text(left+w*(float64(j)+0.5), top+12, 11, "middle", "muted", short(column, int(w/6)))
			}
			for r, row := range rows {
				y := top + 20 + 24*float64(r)
				c.text(left-8, y+15, 11, "end", "muted", short(row, 14))
				for j, column := range columns {
					x, ok := at[[2]string{row, column}]
					if !ok {
						continue
					}
					v := x.Judgement.Ratio.Value
					colour := "band"
					if v > 1+p.d.Plan.Allowance {
						colour = "hot0"
					} else if v < 1/(1+p.d.Plan.Allowance) {
						colour = "cool"
					}
					c.rect(left+w*float64(j)+1, y, w-2, 22, fill(colour))
					c.text(left+w*(float64(j)+0.5), y+15, 11, "middle", "ink", "×"+number(v))
				}
			}
		}
		b.WriteString(f.render())
	}
}

// cliffs lists what a pairwise design found.
func (p *page) cliffs(b *strings.Builder) {
	t := newTable("combination", "what was found")
	for _, c := range gate.Cliffs(p.d, p.a) {
		t.row(link(cellAddress(c.Cell), p.d.Cell(c.Cell).Name), esc(c.Why))
	}
	fmt.Fprintf(b, "<h3>Cliffs of the pairwise design</h3>\n<p>%s failed, saturated or far off. Each combination changes several settings at once, so that none of this is the effect of one: "+
		"a one-factor or full design tells that.</p>\n", count(len(t.rows), "combination"))
	if len(t.rows) > 0 {
		b.WriteString(`<div class="scroll" tabindex="0">` + t.html("") + "</div>\n")
	}
}
