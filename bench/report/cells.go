package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tidemark/tidemark/bench/store"
	"github.com/tidemark/tidemark/loadgen/result"
)

// Bounds of the page: its parts in bytes. A cell that does not fit keeps its rows in the tables and its files.
const (
	pageBytes = 600 << 10
	cellBytes = 4 << 10
	maxFlames = 9 // the baseline's and eight more
)

// cellsSection is the section of single cells. room is what the page has left for it.
func (p *page) cellsSection(b *strings.Builder, room int) {
	if len(p.d.Plan.Cells) == 0 {
		why(b, "the plan has no cell")
		return
	}
	order := p.byInterest()
	kept := map[int]string{}
	left := 0
	flames, noProfile := 0, true
	base := p.baselineProfile()
	for i, c := range order {
		text := p.detail(c)
		if flames < maxFlames {
			if f, ok := p.flame(c, base, room-len(text)); ok {
				noProfile = false
				text += f
				flames++
			}
		}
		if len(text) > room {
			left = len(order) - i
			break
		}
		room -= len(text)
		kept[c.Number] = text
	}
	if noProfile {
		why(b, "no profile was kept in this run, so there is no flame graph and no split of the target's CPU")
	}
	for _, c := range p.cells(func(*store.Cell) bool { return true }) {
		text, ok := kept[c.Number]
		if !ok {
			text = `<p class="aside">This page has no room left for the cell's pictures; its figures are in the table of all cells, its files beside.</p>`
		}
		open := ""
		if p.baseline != nil && c.Number == p.baseline.Number {
			open = ` open="open"`
		}
		// The id is the address that script understands too: a link works with script on and off.
		if c.Against != 0 {
			fmt.Fprintf(b, `<span id="cell=%d&amp;vs=%d"></span>`, c.Number, c.Against)
		}
		fmt.Fprintf(b, `<details class="cell" id="cell=%d"%s><summary><span class="no">%d</span> <b>%s</b> <span class="sum">%s</span></summary>`+"\n%s</details>\n",
			c.Number, open, c.Number, esc(short(c.Name, 80)), p.summary(c), text)
	}
	if left > 0 {
		fmt.Fprintf(b, "<p class=\"aside\">%s without pictures here, to keep this page small.</p>\n", count(left, "cell"))
	}
}

// byInterest orders cells by how likely a reader is to ask for them: baseline, named in the Answer, what went wrong,
// ladder, the rest.
func (p *page) byInterest() []*cell {
	all := p.cells(func(*store.Cell) bool { return true })
	named := p.named()
	rank := func(c *cell) int {
		switch {
		case p.baseline != nil && c.Number == p.baseline.Number:
			return 0
		case c.harmed():
			return 1
		case p.probe != nil && c.Number == p.probe.Number:
			return 2
		}
		if i := slices.Index(named, c.Number); i >= 0 {
			return 3 + i
		}
		if c.state() != "" {
			return 100
		}
		return 101
	}
	slices.SortStableFunc(all, func(a, b *cell) int { return rank(a) - rank(b) })
	return all
}

// summary is the cell's one line: its main figure, its verdict, its state.
func (p *page) summary(c *cell) string {
	var parts []string
	metric, unit := latencyMetric(c.Cell), "ms"
	if c.Kind == store.Capacity {
		metric, unit = "throughput", "MB/s"
	}
	if e, ok := p.a.Estimate(c.Number, metric); ok {
		parts = append(parts, metric+" "+estimate(e.Estimate, unit))
	}
	if x, ok := p.a.Comparison(c.Number, metric); ok {
		parts = append(parts, ratio(x.Judgement.Ratio)+" "+x.Words())
	}
	if s := c.state(); s != "" {
		parts = append(parts, s)
	}
	return esc(strings.Join(append(parts, c.repeats()), " · "))
}

// detail is what the page shows of one cell, flame graph aside.
func (p *page) detail(c *cell) string {
	var b strings.Builder
	if len(c.runs) == 0 {
		why(&b, "this cell has not run")
		return b.String()
	}
	reasons := marksOf(c)
	for _, r := range c.runs {
		for _, text := range r.Reasons {
			reasons = append(reasons, fmt.Sprintf("repeat %d, %s: %s", r.Repeat, r.Status, short(text, 240)))
		}
		if len(r.Reasons) == 0 && r.Error != "" {
			reasons = append(reasons, fmt.Sprintf("repeat %d, %s: %s", r.Repeat, r.Status, short(r.Error, 240)))
		}
	}
	if len(reasons) > 0 {
		b.WriteString(`<ul class="reasons">`)
		for _, text := range reasons[:min(len(reasons), 12)] {
			b.WriteString("<li>" + esc(text) + "</li>")
		}
		b.WriteString("</ul>")
	}
	b.WriteString("<p>" + esc(p.achieved(c)) + "</p>")
	h := p.heatOf(c)
	if f := h.figure(p); f != nil {
		b.WriteString(f.render())
	}
	if h.missing != "" && c.Kind == store.Latency {
		why(&b, "no heat map: "+h.missing)
	}
	if text := h.slowest(); text != "" && c.Kind == store.Latency {
		b.WriteString("<p>" + esc(text) + "</p>")
	}
	b.WriteString(findings(c))
	b.WriteString(p.heavy(c))
	return b.String()
}

// marksOf lists the marks of a cell's runs, a line for each: "5 of 9 repeats are marked late pacer".
func marksOf(c *cell) (lines []string) {
	marked := map[string]int{}
	var order []string
	for _, r := range c.runs {
		for _, m := range r.Marks {
			if marked[m] == 0 {
				order = append(order, m)
			}
			marked[m]++
		}
	}
	for _, m := range order[:min(len(order), 6)] {
		if marked[m] == len(c.runs) {
			lines = append(lines, fmt.Sprintf("every repeat is marked %s", short(m, 60)))
		} else {
			lines = append(lines, fmt.Sprintf("%d of %s are marked %s", marked[m], count(len(c.runs), "repeat"), short(m, 60)))
		}
	}
	return lines
}

// achieved is what the cell's first good run did on the wire: it explains most effects of linger, skew and partitions.
func (p *page) achieved(c *cell) string {
	r := c.runs[0]
	for _, one := range c.counted {
		r = one
		break
	}
	if r.Result == nil {
		return "No result: " + short(r.Error, 200)
	}
	x, e := r.Result.Produce.Batches, r.Result.Ends
	s := fmt.Sprintf("Repeat %d: intended %s = acked %s + failed %s + unanswered %s + unsent %s.", r.Repeat,
		grouped(float64(e.Intended)), grouped(float64(e.Acked+e.HandedToSocket)), grouped(float64(e.Failed)), grouped(float64(e.Unanswered)), grouped(float64(e.Unsent)))
	if x.Batches > 0 {
		s += fmt.Sprintf(" Median batch: %s and %s (at most %s records), %s a request, %s requests/s.", ofRecords(x.RecordsMedian), bytesOf(int64(x.BytesMedian)),
			grouped(float64(x.RecordsMax)), whole(x.PerRequestMedian), number(x.RequestsPerSec))
	}
	if _, bytes := r.Carried(); r.Target.Process != nil && r.Target.Process.SettledCPUNanos != nil && bytes > 0 {
		t := r.Target.Process
		s += fmt.Sprintf(" The target used %s CPU-s/GB, %s with what kernel threads spent from the run's begin until its pages were clean.",
			number(float64(t.CPUNanos)/float64(bytes)), number(float64(*t.SettledCPUNanos)/float64(bytes)))
	}
	s += coresOf(r.Cores)
	for _, g := range r.Result.Consume.Groups {
		if g.IdleMembers > 0 {
			s += fmt.Sprintf(" %s of %d in group %s had no partition.", count(g.IdleMembers, "member"), g.Members, short(g.Name, 40))
		}
	}
	if w := r.Result.Window; w.EndedBy != "" && w.EndedBy != "window" {
		s += fmt.Sprintf(" The window ended after %s s by %s.", number(w.Seconds()), short(w.EndedBy, 30))
	}
	return s
}

// maxCores is how many cores a cell's paragraph lists.
const maxCores = 8

// coresOf tells what became of each of the host's cores (METHOD 4).
func coresOf(cores []result.Core) (s string) {
	for i, c := range cores {
		if i == maxCores {
			return s + fmt.Sprintf(" And %d more cores.", len(cores)-maxCores)
		}
		share := func(v float64) string { return fmt.Sprintf("%.1f%%", 100*v) }
		s += fmt.Sprintf(" Core %d: busy %s, soft interrupts %s, the host took %s", c.Core, share(c.Busy), share(c.SoftIRQ), share(c.Steal))
		if c.Kernel > 0 {
			s += ", kernel threads " + share(c.Kernel)
		}
		s += "."
	}
	return s
}

func ofRecords(n float64) string {
	if n == 1 {
		return "1 record"
	}
	return whole(n) + " records"
}

// findings are the first examples of damaged data and the errors that the cell's runs met.
func findings(c *cell) string {
	var lines []string
	for _, r := range c.runs {
		if r.Result == nil {
			continue
		}
		for _, f := range r.Result.Verification.Findings {
			lines = append(lines, fmt.Sprintf("repeat %d, %s: topic %s partition %d offset %d, producer %d sequence %d. %s", r.Repeat,
				short(f.Kind, 20), short(f.Topic, 60), f.Partition, f.Offset, f.Producer, f.Sequence, short(f.Text, 160)))
		}
		for _, e := range r.Result.Errors {
			kept := ""
			if e.Retried {
				kept = ", mended by a retry"
			}
			lines = append(lines, fmt.Sprintf("repeat %d: %s × %s in %s%s. First: %s", r.Repeat, grouped(float64(e.Count)), short(e.Kind, 40), short(e.Where, 20), kept, short(e.First, 160)))
		}
	}
	if len(lines) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString(`<ul class="reasons">`)
	for i, l := range lines {
		if i == 12 {
			fmt.Fprintf(&b, "<li>%d more in result.json</li>", len(lines)-i)
			break
		}
		b.WriteString("<li>" + esc(l) + "</li>")
	}
	b.WriteString("</ul>")
	return b.String()
}

// ackMeanings is the section on what an ack meant: a row for each meaning, with the cells that had it.
func (p *page) ackMeanings(b *strings.Builder) {
	type group struct {
		m        result.AckMeaning
		low, top int64
		fsyncs   bool
		cells    []int
		runs     int
	}
	var groups []*group
	for _, c := range p.cells(func(*store.Cell) bool { return true }) {
		for _, r := range c.runs {
			if r.Result == nil || r.Result.AckMeant.Acks == "" {
				continue
			}
			m := r.Result.AckMeant
			seen := m.Fsyncs
			m.Fsyncs = nil
			i := slices.IndexFunc(groups, func(g *group) bool { return g.m == m })
			if i < 0 {
				i = len(groups)
				groups = append(groups, &group{m: m, low: 1 << 62})
			}
			g := groups[i]
			g.runs++
			if seen != nil {
				g.fsyncs = true
				g.low, g.top = min(g.low, *seen), max(g.top, *seen)
			}
			if !slices.Contains(g.cells, c.Number) {
				g.cells = append(g.cells, c.Number)
			}
		}
	}
	if len(groups) == 0 {
		why(b, "no finished run says what its acks meant")
		return
	}
	word := func(s string) string {
		if s == "" {
			return "not known"
		}
		return esc(short(s, 60))
	}
	t := newTable("acks", "an ack meant", "replicas", "min ISR", "fsync mode", "fsyncs seen", "cache state", "regime", "cells")
	for _, g := range groups {
		fsyncs := "not counted"
		if g.fsyncs {
			fsyncs = grouped(float64(g.low))
			if g.top > g.low {
				fsyncs += " to " + grouped(float64(g.top)) + " a run"
			}
		}
		cells := fmt.Sprintf("all %d", len(g.cells))
		if len(g.cells) < len(p.d.Plan.Cells) {
			var links []string
			for _, n := range g.cells[:min(len(g.cells), 12)] {
				links = append(links, link(cellAddress(n), fmt.Sprint(n)))
			}
			cells = strings.Join(links, " ")
			if len(g.cells) > 12 {
				cells += fmt.Sprintf(" and %d more", len(g.cells)-12)
			}
		}
		t.row(word(g.m.Acks), esc(short(g.m.Sentence, 200)), fmt.Sprint(g.m.Replicas), fmt.Sprint(g.m.MinISR), word(g.m.FsyncMode), esc(fsyncs), word(g.m.Cache), word(g.m.Regime), cells)
	}
	b.WriteString(`<div class="scroll" tabindex="0">` + t.html(` class="ack"`) + "</div>\n")
}
