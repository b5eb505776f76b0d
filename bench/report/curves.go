package report

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/tidemark/tidemark/bench/stats"
	"github.com/tidemark/tidemark/bench/store"
)

// grid are the percentiles at which curves are drawn.
var grid = []float64{1, 5, 10, 25, 50, 65, 75, 82.5, 90, 93, 95, 97, 98, 99, 99.3, 99.5, 99.7, 99.8, 99.9, 99.95, 99.97, 99.99}

// curve is a cell's quantile function: the geometric mean of its repeats at each percentile of the grid.
type curve struct {
	c      *cell
	runs   [][]float64 // ms; 0 where a run has no figure
	mean   []float64   // 0: none
	firm   float64     // the highest percentile that ten excursions support in the median run
	colour string
}

// curveOf takes the figures from the histograms where they are there, else from the result's own percentiles.
func (p *page) curveOf(c *cell) *curve {
	k := &curve{c: c, mean: make([]float64, len(grid))}
	name := clock(c.Cell)
	for _, r := range c.counted {
		latency := r.Result.Clocks[name]
		if !latency.Sound || latency.Count == 0 {
			continue
		}
		values := make([]float64, len(grid))
		total := float64(latency.Count + latency.Overflow + latency.Negative + latency.Censored)
		h := p.histograms(r, name)
		for i, q := range grid {
			if (1-q/100)*total < 10 { // under 10 records above: not shown
				break
			}
			if exact, ok := latency.At(q); ok {
				if !exact.Censored {
					values[i] = float64(exact.Nanos) / 1e6
				}
				continue
			}
			// Censored records lie above all others: the rank among those that arrived is higher.
			rank := q / 100 * total
			if h.total != nil && h.total.TotalCount() == latency.Count && rank <= float64(latency.Count) {
				values[i] = float64(h.total.ValueAtPercentile(100*rank/float64(latency.Count))) / 1e6
			}
		}
		k.runs = append(k.runs, values)
	}
	for i := range grid {
		k.mean[i] = stats.Mean(column(k.runs, i), stats.Noise{}).Value
		if math.IsNaN(k.mean[i]) || len(column(k.runs, i)) < len(k.runs) {
			k.mean[i] = 0
		}
	}
	for _, q := range []float64{50, 75, 90, 95, 99, 99.9, 99.99} {
		if _, thin := c.support(name, q); !thin || q == 50 {
			k.firm = q
		} else {
			break
		}
	}
	return k
}

func column(rows [][]float64, i int) []float64 {
	var out []float64
	for _, r := range rows {
		if r[i] > 0 {
			out = append(out, r[i])
		}
	}
	return out
}

// nines is where a percentile stands on an axis that gives each nine the same room.
func nines(p float64) float64 { return -math.Log10(1 - p/100) }

// allCurves are the curves of all latency cells that have one, by number of the cell.
func (p *page) allCurves() []*curve {
	var out []*curve
	for _, c := range p.cells(func(c *store.Cell) bool { return c.Kind == store.Latency }) {
		if k := p.curveOf(c); len(k.runs) > 0 && slices.ContainsFunc(k.mean, func(v float64) bool { return v > 0 }) {
			out = append(out, k)
		}
	}
	return out
}

// chosen picks what the static picture shows: the baseline, and the cells that the Answer names, at most six.
func (p *page) chosen(curves []*curve) []*curve {
	var out []*curve
	take := func(number int) {
		for _, k := range curves {
			if k.c.Number == number && len(out) < 6 && !slices.Contains(out, k) {
				k.colour = series[len(out)]
				out = append(out, k)
			}
		}
	}
	if p.baseline != nil {
		take(p.baseline.Number)
	}
	for _, number := range p.named() {
		take(number)
	}
	for _, k := range curves {
		if len(out) < 3 {
			take(k.c.Number)
		}
	}
	return out
}

// named are the cells that the Answer speaks of, those with a finding that stands first.
func (p *page) named() []int {
	all, _ := p.findings()
	var out []int
	for _, stands := range []bool{true, false} {
		for _, f := range all {
			if f.stands() == stands && !slices.Contains(out, f.c.Number) {
				out = append(out, f.c.Number)
			}
		}
	}
	return out
}

// pooled is the noise of the curves at each percentile of the grid.
func pooled(curves []*curve) []stats.Noise {
	out := make([]stats.Noise, len(grid))
	for i := range grid {
		var groups [][]float64
		for _, k := range curves {
			groups = append(groups, column(k.runs, i))
		}
		out[i] = stats.Pool(groups)
	}
	return out
}

// curves is the section of percentile curves, with the comparison of two cells.
func (p *page) curves(b *strings.Builder) {
	all := p.allCurves()
	if len(all) == 0 {
		why(b, "no latency cell has a run that counts yet")
		return
	}
	some := p.chosen(all)
	what := "Geometric mean over the repeats at each percentile; every nine takes the same room. Dotted: fewer than 10 separate stalls support it; ends where fewer than 10 records lie above."
	f := &figure{
		id: "curves-plot", title: "Percentile curves: latency from the intended time",
		caption: p.caption(what, p.baselineMeant(), p.curveRepeats(some), p.noise("ack p99", store.Latency)),
		height:  func(f frame) float64 { return 310 + 15*float64(len(some))*b2f(f.narrow) },
		draw:    func(c *canvas, f frame, top float64) { drawCurves(c, f, top, some) },
		table:   curveTable(some),
	}
	b.WriteString(`<div class="pair">`)
	b.WriteString(f.render())
	noise := pooled(all)
	if len(some) > 1 {
		b.WriteString(p.ratioFigure(some[1], some[0], noise).render())
	}
	b.WriteString("</div>\n")
	if len(some) > 1 {
		p.compareTool(b, all, some, noise)
	}
}

func b2f(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func (p *page) curveRepeats(some []*curve) string {
	var parts []string
	for _, k := range some {
		parts = append(parts, fmt.Sprintf("%s n=%d", short(k.c.Name, 24), len(k.runs)))
	}
	return "Repeats: " + strings.Join(parts, ", ")
}

func drawCurves(c *canvas, f frame, top float64, some []*curve) {
	left, right, height := 52.0, f.width-150, 310.0
	if f.narrow {
		left, right = 44, f.width-16
	}
	bottom := top + height - 40
	e := newExtent()
	last := 0.0
	for _, k := range some {
		for i, v := range k.mean {
			if v > 0 {
				e.positive(v)
				last = max(last, nines(grid[i]))
			}
		}
	}
	x := scale{low: nines(1), high: last * 1.02, from: left, to: right}
	y := logScale(e, bottom, top+8)
	for _, t := range y.ticks(7) {
		c.line(left, y.at(t), right, y.at(t), stroke("grid", 1))
		c.text(left-6, y.at(t)+3.5, 10.5, "end", "muted", tick(t))
	}
	percentileAxis(c, x, left, right, top+8, bottom)
	c.text(10+6*b2f(!f.narrow), top+2, 10.5, "start", "muted", "ms (log)")
	var ends []label
	for n, k := range some {
		at := drawCurve(c, x, y, k)
		ends = append(ends, label{right + 6, at, short(k.c.Name, 22), k.colour})
		if f.narrow {
			c.line(left, bottom+44+15*float64(n), left+18, bottom+44+15*float64(n), stroke(k.colour, 2.2))
			c.text(left+24, bottom+48+15*float64(n), 11, "start", "ink", short(k.c.Name, 40))
		}
	}
	if !f.narrow {
		place(c, ends, top+12, bottom, 11)
	}
}

func percentileAxis(c *canvas, x scale, left, right, top, bottom float64) {
	for _, t := range []float64{50, 90, 99, 99.9, 99.99} {
		if nines(t) > x.high {
			break
		}
		c.line(x.at(nines(t)), top, x.at(nines(t)), bottom, stroke("grid", 1))
		c.text(x.at(nines(t)), bottom+14, 10.5, "middle", "muted", fmt.Sprintf("p%g", t))
	}
	c.line(left, bottom, right, bottom, stroke("axis", 1.2))
	c.text((left+right)/2, bottom+30, 11, "middle", "muted", "percentile (log of what is above)")
}

// drawCurve draws the part that is well supported solid and the rest dotted, and returns where it ends.
func drawCurve(c *canvas, x, y scale, k *curve) (end float64) {
	solid, dotted := "", ""
	for i, v := range k.mean {
		if v <= 0 {
			continue
		}
		point := num(x.at(nines(grid[i]))) + " " + num(y.at(v))
		end = y.at(v)
		if grid[i] <= k.firm {
			solid += "L" + point
			dotted = "L" + point
		} else {
			dotted += "L" + point
		}
	}
	for _, part := range []struct{ d, attributes string }{{solid, ""}, {dotted, ` stroke-dasharray="1.5 3.5" stroke-linecap="round"`}} {
		if strings.Count(part.d, "L") > 1 {
			c.path("M"+part.d[1:], part.attributes+stroke(k.colour, 2))
		}
	}
	return end
}

func curveTable(some []*curve) string {
	head := []string{"percentile"}
	for _, k := range some {
		head = append(head, k.c.Name+", ms")
	}
	t := newTable(head...)
	for i, q := range grid {
		row := []string{fmt.Sprintf("p%g", q)}
		for _, k := range some {
			switch {
			case k.mean[i] <= 0:
				row = append(row, "–")
			case q > k.firm:
				row = append(row, `<span class="thin">`+number(k.mean[i])+`</span>`)
			default:
				row = append(row, number(k.mean[i]))
			}
		}
		t.row(row...)
	}
	return t.html("")
}

// ratioFigure compares two cells quantile by quantile.
func (p *page) ratioFigure(a, base *curve, noise []stats.Noise) *figure {
	ratios := make([]stats.Ratio, len(grid))
	e := newExtent()
	e.positive(0.9)
	e.positive(1.1)
	last := 0.0
	for i := range grid {
		ratios[i] = stats.Compare(column(a.runs, i), column(base.runs, i), noise[i])
		if a.mean[i] <= 0 || base.mean[i] <= 0 {
			ratios[i].Value = math.NaN()
			continue
		}
		last = max(last, nines(grid[i]))
		for _, v := range []float64{ratios[i].Value, ratios[i].Low, ratios[i].High} {
			e.positive(min(100, max(0.01, v)))
		}
	}
	title := fmt.Sprintf("%s over %s, quantile by quantile", short(a.c.Name, 40), short(base.c.Name, 40))
	t := newTable("percentile", "ratio [95%]")
	for i, q := range grid {
		t.row(fmt.Sprintf("p%g", q), esc(ratio(ratios[i])))
	}
	return &figure{
		id: "quantile-ratio", title: title,
		caption: p.caption("Ratio of the quantiles (no unit, log axis) with its 95% interval from noise pooled over all latency cells at that percentile.",
			a.c.meant(), fmt.Sprintf("n=%d against n=%d", len(a.runs), len(base.runs)), ""),
		height: func(frame) float64 { return 310 },
		table:  t.html(""),
		draw: func(c *canvas, f frame, top float64) {
			left, right, bottom := 52.0, f.width-24, top+270
			x := scale{low: nines(1), high: last * 1.02, from: left, to: right}
			y := logScale(e, bottom, top+8)
			limit := 1 + p.d.Plan.Allowance
			c.rect(left, y.at(limit), right-left, y.at(1/limit)-y.at(limit), fill("band"))
			for _, v := range ratioTicks(y) {
				c.line(left, y.at(v), right, y.at(v), stroke("grid", 1))
				c.text(left-6, y.at(v)+3.5, 10.5, "end", "muted", "×"+tick(v))
			}
			percentileAxis(c, x, left, right, top+8, bottom)
			c.line(left, y.at(1), right, y.at(1), stroke("axis", 1.4))
			line, over, under := "", "", ""
			for i, r := range ratios {
				if math.IsNaN(r.Value) {
					continue
				}
				at := num(x.at(nines(grid[i])))
				line += "L" + at + " " + num(y.at(r.Value))
				if !math.IsNaN(r.Low) && !math.IsNaN(r.High) {
					over += "L" + at + " " + num(y.at(r.High))
					under = "L" + at + " " + num(y.at(r.Low)) + under
				}
			}
			if over != "" {
				c.path("M"+(over + under)[1:]+"z", ` opacity="0.3"`+fill("blue"))
			}
			if line != "" {
				c.path("M"+line[1:], stroke("blue", 2.2))
			}
		},
	}
}

// compareTool is what script adds: any cell against any other, at first what the static picture compares. Its data are the curves of all cells.
func (p *page) compareTool(b *strings.Builder, all, some []*curve, noise []stats.Noise) {
	type one struct {
		Name string      `json:"name"`
		Runs [][]float64 `json:"runs"`
	}
	data := struct {
		Grid  []float64      `json:"grid"`
		Half  []float64      `json:"half"` // half an interval's width, log scale, for 1/n+1/m = 1
		Cells map[string]one `json:"cells"`
	}{Grid: grid, Cells: map[string]one{}}
	for _, n := range noise {
		half := n.T() * n.Sigma
		if math.IsNaN(half) {
			half = -1
		}
		data.Half = append(data.Half, rounded(half))
	}
	option := func(k, chosen *curve) string {
		selected := ""
		if k == chosen {
			selected = ` selected="selected"`
		}
		return fmt.Sprintf(`<option value="%d"%s>%s</option>`, k.c.Number, selected, esc(short(k.c.Name, 60)))
	}
	var left, right strings.Builder
	for _, k := range all {
		runs := make([][]float64, len(k.runs))
		for i, r := range k.runs {
			for _, v := range r {
				runs[i] = append(runs[i], rounded(v))
			}
		}
		data.Cells[fmt.Sprint(k.c.Number)] = one{short(k.c.Name, 60), runs}
		left.WriteString(option(k, some[1]))
		right.WriteString(option(k, some[0]))
	}
	text, err := json.Marshal(data)
	if err != nil {
		return
	}
	fmt.Fprintf(b, `<div id="compare" class="tools" hidden="hidden"><p><label>Compare <select id="cmp-cell">%s</select></label> <label>with <select id="cmp-vs">%s</select></label></p><div id="cmp-plot"></div></div>`+"\n",
		left.String(), right.String())
	fmt.Fprintf(b, `<script type="application/json" id="curves-data">%s</script>`+"\n", text)
}

// rounded keeps four digits.
func rounded(v float64) float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return 0
	}
	r, err := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 4, 64), 64)
	if err != nil {
		return 0
	}
	return r
}
