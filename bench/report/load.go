package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/tidemark/tidemark/bench/stats"
	"github.com/tidemark/tidemark/bench/store"
	"github.com/tidemark/tidemark/loadgen/result"
)

// quantiles that the load picture draws, each with a shape and a colour of its own.
var quantiles = []struct {
	p      float64
	name   string
	colour string
}{{50, "p50", "green"}, {99, "p99", "blue"}, {99.9, "p99.9", "orange"}}

// dot is one percentile of one run at its offered rate.
type dot struct {
	rate, ms float64
	quantile int // index into quantiles
	run      *store.Run
	cell     *cell
	counted  bool // enters the curve
	thin     bool // under 10 excursions
	censored bool
}

// loadPicture is everything that the plot of latency against offered rate shows.
type loadPicture struct {
	cells    []*cell
	dots     []dot
	pacer    []dot // p99 of the generator's own lateness
	capacity stats.Estimate
	bracket  stats.Bracket // of the capacity under the objective
	rates    extent
	values   extent
	slo      float64 // ms, 0 for none
	linger   float64 // ms
}

func (p *page) loadData() *loadPicture {
	l := &loadPicture{rates: newExtent(), values: newExtent(), slo: p.d.Plan.SLOP99MS, bracket: p.a.Bracket}
	l.cells = p.cells(func(c *store.Cell) bool { return c.Role == store.Ladder || c.Role == store.Baseline })
	slices.SortStableFunc(l.cells, func(a, b *cell) int { return int(math.Copysign(1, a.rate()-b.rate())) })
	for _, c := range l.cells {
		l.linger = max(l.linger, float64(c.Asked.Linger.Nanos())/1e6)
		for _, r := range c.runs {
			if r.Result != nil {
				l.add(c, r)
			}
		}
	}
	if p.probe != nil {
		if e, ok := p.a.Estimate(p.probe.Number, "records"); ok {
			l.capacity = e.Estimate
			l.rates.add(e.Estimate.Value)
			l.rates.add(e.Estimate.High)
		}
	}
	if l.slo > 0 && !l.values.empty() {
		l.values.positive(l.slo)
	}
	return l
}

func (l *loadPicture) add(c *cell, r *store.Run) {
	latency, ok := r.Result.Clocks[clock(c.Cell)]
	if ok && latency.Sound {
		for i, q := range quantiles {
			v, ok := latency.At(q.p)
			if !ok || v.Nanos <= 0 || q.p > 50 && v.Above < 10 && !v.Censored {
				continue
			}
			d := dot{rate: r.Rate, ms: float64(v.Nanos) / 1e6, quantile: i, run: r, cell: c, counted: r.Countable() && !v.Censored,
				thin: v.Excursions < 10 && q.p > 50, censored: v.Censored}
			l.dots = append(l.dots, d)
			l.rates.add(d.rate)
			l.values.positive(d.ms)
		}
	}
	if v, ok := r.Result.Clocks[result.Pacer].At(99); ok && v.Nanos > 0 {
		l.pacer = append(l.pacer, dot{rate: r.Rate, ms: float64(v.Nanos) / 1e6, run: r, cell: c})
		l.values.positive(float64(v.Nanos) / 1e6)
	}
}

// load is the section of latency against offered rate.
func (p *page) load(b *strings.Builder) {
	l := p.loadData()
	if len(l.dots) == 0 {
		why(b, "no run at a stated rate has a latency yet")
		return
	}
	what := "One dot a run, lines through the geometric means; latency from the intended time, log axis. Hollow grey: fewer than 10 separate stalls support it. Crossed: the run did not count (saturated or limited)."
	if l.linger > 0 {
		what += fmt.Sprintf(" Linger %s ms.", number(l.linger))
	} else {
		what += " Linger 0: no floor below the curve."
	}
	if l.capacity.Value > 0 {
		what += " Shaded: interval of the capacity found in a closed loop."
	}
	switch {
	case l.bracket.Found:
		what += fmt.Sprintf(" Blue: the capacity under the objective lies between %s/s (three of three runs passed) and %s/s (three of three failed).", grouped(l.bracket.Low), grouped(l.bracket.High))
	case l.slo > 0:
		what += " Capacity under the objective: not found, " + l.bracket.Why + "."
	}
	name := result.Ack
	if p.baseline != nil {
		name = clock(p.baseline)
	}
	f := &figure{
		id: "load-plot", wide: 1000, title: "Latency (" + name + ") against offered rate, baseline settings",
		caption: p.caption(what, p.baselineMeant(), p.totalRepeats(l.cells), p.noise(name+" p99", store.Latency)),
		height: func(f frame) float64 {
			if f.narrow {
				return 300
			}
			return 400
		},
		draw:  func(c *canvas, f frame, top float64) { l.draw(c, f, top) },
		table: p.loadTable(l),
	}
	b.WriteString(strings.Replace(f.render(), "<figure", `<figure class="lead"`, 1))
}

func (l *loadPicture) draw(c *canvas, f frame, top float64) {
	left, right, height := 60.0, f.width-64, 400.0
	if f.narrow {
		left, right, height = 44, f.width-44, 300
	}
	bottom := top + height - 40
	x := scale{low: 0, high: l.rates.high * 1.06, from: left, to: right}
	y := logScale(l.values, bottom, top+6)
	axesOf(c, f, x, y, left, right, top+6, bottom, "offered rate, records/s", "ms (log)")
	if l.capacity.Value > 0 {
		low, high := l.capacity.Low, l.capacity.High
		if math.IsNaN(low) {
			low, high = l.capacity.Value, l.capacity.Value
		}
		c.rect(x.at(low), top+6, max(2, x.at(high)-x.at(low)), bottom-top-6, ` opacity="0.8"`+fill("shade"))
		c.line(x.at(l.capacity.Value), top+6, x.at(l.capacity.Value), bottom, ` stroke-dasharray="2 3"`+stroke("gold", 1.3))
		c.text(min(right, x.at(high)), top+1, 10.5, "end", "gold", "closed-loop capacity "+tick(math.Round(l.capacity.Value/1000)*1000)+"/s")
	}
	if l.bracket.Found {
		c.rect(x.at(l.bracket.Low), top+6, max(2, x.at(l.bracket.High)-x.at(l.bracket.Low)), bottom-top-6, ` opacity="0.5"`+fill("cool"))
	}
	if l.slo > 0 {
		c.line(left, y.at(l.slo), right, y.at(l.slo), ` stroke-dasharray="7 3"`+stroke("purple", 1.5))
		c.text(left+4, y.at(l.slo)-4, 10.5, "start", "purple", "objective: p99 "+number(l.slo)+" ms")
	}
	if l.linger > 0 && l.linger >= y.low {
		c.line(left, y.at(l.linger), right, y.at(l.linger), ` stroke-dasharray="1 3"`+stroke("muted", 1.5))
		c.text(right, y.at(l.linger)-4, 10.5, "end", "muted", "linger "+number(l.linger)+" ms")
	}
	var ends []label
	if at, last, ok := l.curve(c, x, y, l.pacer, ` stroke-dasharray="4 3"`+stroke("gold", 1.2)); ok {
		ends = append(ends, label{at + 8, last, "pacer", "gold"})
	}
	for i, q := range quantiles {
		var dots []dot
		for _, d := range l.dots {
			if d.quantile == i && d.counted {
				dots = append(dots, d)
			}
		}
		if at, last, ok := l.curve(c, x, y, dots, stroke(q.colour, 1.8)); ok {
			ends = append(ends, label{at + 8, last, q.name, q.colour})
		}
	}
	for _, d := range l.dots {
		l.dot(c, x, y, d)
	}
	place(c, ends, top+10, bottom, 11)
}

func (l *loadPicture) dot(c *canvas, x, y scale, d dot) {
	q := quantiles[d.quantile]
	colour, hollow := q.colour, false
	if d.thin || !d.counted {
		colour, hollow = "muted", true
	}
	hint := fmt.Sprintf("%s, repeat %d: %s %s ms at %s/s", d.cell.Name, d.run.Repeat, q.name, number(d.ms), grouped(d.rate))
	if d.censored {
		hint = strings.Replace(hint, q.name+" ", q.name+" > ", 1) + " (censored)"
	}
	if d.run.Status != store.OK {
		hint += ", " + string(d.run.Status)
	}
	px, py := x.at(d.rate), y.at(d.ms)
	c.mark(d.quantile, px, py, 3.4, colour, hollow, hint)
	if !d.counted {
		c.path(fmt.Sprintf("M%s %sl9 -9m-9 0l9 9", num(px-4.5), num(py+4.5)), stroke("muted", 1.2))
	}
}

// curve joins the geometric means of the dots at each rate, and returns where it ends.
func (l *loadPicture) curve(c *canvas, x, y scale, dots []dot, attributes string) (endX, endY float64, ok bool) {
	byRate := map[float64][]float64{}
	var rates []float64
	for _, d := range dots {
		if byRate[d.rate] == nil {
			rates = append(rates, d.rate)
		}
		byRate[d.rate] = append(byRate[d.rate], d.ms)
	}
	if len(rates) == 0 {
		return 0, 0, false
	}
	slices.Sort(rates)
	d := ""
	for i, r := range rates {
		mean := stats.Mean(byRate[r], stats.Noise{}).Value
		d += string("ML"[min(i, 1)]) + num(x.at(r)) + " " + num(y.at(mean))
		endX, endY = x.at(r), y.at(mean)
	}
	if len(rates) > 1 {
		c.path(d, attributes)
	}
	return endX, endY, true
}

// label is a name at the end of a curve.
type label struct {
	x, y         float64
	text, colour string
}

// place writes labels beside their curves, moved apart where they would touch.
func place(c *canvas, labels []label, top, bottom, size float64) {
	slices.SortStableFunc(labels, func(a, b label) int { return int(math.Copysign(1, a.y-b.y)) })
	gap := size + 2
	for i := range labels {
		labels[i].y = max(labels[i].y, top)
		if i > 0 {
			labels[i].y = max(labels[i].y, labels[i-1].y+gap)
		}
	}
	limit := bottom
	for i := len(labels) - 1; i >= 0; i-- {
		labels[i].y = min(labels[i].y, limit)
		limit = labels[i].y - gap
	}
	for _, l := range labels {
		c.styled(l.x, l.y+size*0.35, size, "start", l.colour, bold, l.text)
	}
}

// axesOf draws grid, ticks and the names of both axes.
func axesOf(c *canvas, f frame, x, y scale, left, right, top, bottom float64, xName, yName string) {
	ticksX := 8
	if f.narrow {
		ticksX = 4
	}
	for _, t := range y.ticks(7) {
		c.line(left, y.at(t), right, y.at(t), stroke("grid", 1))
		c.text(left-6, y.at(t)+3.5, 10.5, "end", "muted", tick(t))
	}
	for _, t := range x.ticks(ticksX) {
		c.line(x.at(t), top, x.at(t), bottom, stroke("grid", 1))
		c.text(x.at(t), bottom+14, 10.5, "middle", "muted", tick(t))
	}
	c.line(left, bottom, right, bottom, stroke("axis", 1.2))
	c.text((left+right)/2, bottom+30, 11, "middle", "muted", xName)
	// The unit stands at the axis's head, upright: nobody reads with the head on the shoulder.
	c.text(10+6*b2f(!f.narrow), top-2, 10.5, "start", "muted", yName)
}

func (p *page) loadTable(l *loadPicture) string {
	t := newTable("cell", "offered, records/s", "p50 ms", "p99 ms", "p99.9 ms", "pacer p99 ms", "CPU-s/GB", "runs", "state")
	for _, c := range l.cells {
		row := []string{link(cellAddress(c.Number), c.Name), esc(grouped(c.rate()))}
		for _, q := range quantiles {
			row = append(row, p.percentileHTML(c, clock(c.Cell), q.p))
		}
		worst := 0.0
		for _, d := range l.pacer {
			if d.cell.Number == c.Number {
				worst = max(worst, d.ms)
			}
		}
		cost := "–"
		if e, ok := p.a.Estimate(c.Number, "CPU per GB"); ok {
			cost = estimate(e.Estimate, "")
		}
		t.row(append(row, esc(number(worst)), esc(cost), esc(c.repeats()), esc(c.state()))...)
	}
	return t.html("")
}

// percentileHTML is a percentile of a cell with all that METHOD wants beside it: the interval, the stalls that it rests
// on where they are few, its lower bound where it is censored, and a strike with the run's length where the cell did not
// hold its rate.
func (p *page) percentileHTML(c *cell, clock string, percentile float64) string {
	metric := fmt.Sprintf("%s p%g", clock, percentile)
	if e, ok := p.a.Estimate(c.Number, metric); ok {
		text := esc(estimate(e.Estimate, ""))
		if n, thin := c.support(clock, percentile); thin && percentile > 50 {
			text = `<span class="thin">` + text + ` <span class="beside">in ` + esc(count(n, "stall")) + `</span></span>`
		}
		return text
	}
	for _, r := range c.runs {
		if r.Result == nil {
			continue
		}
		q, ok := r.Result.Clocks[clock].At(percentile)
		switch {
		case !ok:
			continue
		case q.Censored:
			return esc("> " + milliseconds(q.Nanos) + " (censored)")
		case r.Status == store.Saturated:
			return `<s>` + esc(milliseconds(q.Nanos)) + `</s> <span class="beside">in ` + esc(number(r.Result.Window.Seconds())) + ` s</span>`
		case r.Status != store.OK:
			return `<s>` + esc(milliseconds(q.Nanos)) + `</s>`
		case q.Above < 10 && percentile > 50:
			return `<span class="thin">under 10 records</span>`
		}
	}
	return "–"
}
