package report

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tidemark/tidemark/bench/gate"
	"github.com/tidemark/tidemark/bench/stats"
	"github.com/tidemark/tidemark/bench/store"
)

// markdownBytes bounds report.md: what CI servers take as a comment or a summary is 65,536 characters.
const markdownBytes = 58_000

// md makes s safe in Markdown: everything that could be markup, a mention or an issue's number is escaped.
func md(s string) string {
	s = strings.Join(strings.Fields(clean(s)), " ")
	var b strings.Builder
	last := ' '
	for _, r := range s {
		before := last
		last = r
		switch {
		case r == '&':
			b.WriteString("&amp;")
			continue
		case r == '<':
			b.WriteString("&lt;")
			continue
		case r == '>':
			b.WriteString("&gt;")
			continue
		case r == '@':
			b.WriteString("&#64;")
			continue
		case strings.ContainsRune("\\`*_[]#|~$", r) || r == '(' && before == ']':
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	return strings.ReplaceAll(b.String(), "://", ":&#47;/")
}

// markdown is report.md: worst first, details folded, no images.
func (p *page) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# Tidemark: %s\n\n", md(short(filepath.Base(p.d.Plan.Suite), 60)))
	for _, s := range p.answer() {
		mark := ""
		if s.alarm {
			mark = "**Attention.** "
		}
		fmt.Fprintf(&b, "%s%s\n\n", mark, md(s.text()))
	}
	var counts []string
	for _, t := range p.tallies() {
		text := fmt.Sprintf("%s %s", t.name, grouped(float64(t.value)))
		if t.bad {
			text = "**" + text + "**"
		}
		counts = append(counts, text)
	}
	b.WriteString(strings.Join(counts, " · ") + "\n\n")
	fmt.Fprintf(&b, "%s\n\n", md(fmt.Sprintf("Target: %s. Host: %s. An ack meant: %s. %s, %d of %d runs. Data #%s.",
		short(p.target, 120), short(p.host, 200), orUnknown(short(p.baselineMeant(), 160)), count(len(p.d.Plan.Cells), "cell"), len(p.d.Runs), p.d.Planned(), p.hash)))
	tail := p.mdTail()
	room := markdownBytes - b.Len() - len(tail)
	for _, part := range []string{p.mdTroubles(), p.mdEffects(), p.mdComparisons(store.Latency), p.mdComparisons(store.Capacity), p.mdLoad(), p.mdNoise()} {
		if len(part) > room {
			part = cutRows(part, room)
		}
		room -= len(part)
		b.WriteString(part)
	}
	b.WriteString(tail)
	return b.String()
}

// cutRows shortens a part to whole lines within room and says so; it closes what it cuts open.
func cutRows(part string, room int) string {
	const end = "\n\nMore stands in report.html.\n\n"
	if room < 400 {
		return ""
	}
	part = part[:strings.LastIndexByte(part[:room-len(end)-20], '\n')]
	if strings.Count(part, "<details>") > strings.Count(part, "</details>") {
		part += "\n\n</details>"
	}
	return part + end
}

// mdTable writes a table; cells are raw text.
func mdTable(head []string, rows [][]string) string {
	var b strings.Builder
	line := func(cells []string) {
		for _, c := range cells {
			b.WriteString("| " + md(short(c, 160)) + " ")
		}
		b.WriteString("|\n")
	}
	line(head)
	b.WriteString(strings.Repeat("|---", len(head)) + "|\n")
	for _, r := range rows {
		line(r)
	}
	return b.String() + "\n"
}

func fold(title, body string) string {
	return "<details><summary>" + esc(title) + "</summary>\n\n" + body + "\n</details>\n\n"
}

// mdTroubles lists the cells with runs that do not count, the worst first.
func (p *page) mdTroubles() string {
	var rows [][]string
	all := p.cells(func(*store.Cell) bool { return true })
	slices.SortStableFunc(all, func(a, b *cell) int { return int(b2f(b.harmed()) - b2f(a.harmed())) })
	for _, c := range all {
		state := c.state()
		if state == "" {
			continue
		}
		reason := ""
		for _, r := range c.runs {
			if len(r.Reasons) > 0 {
				reason = r.Reasons[0]
				break
			}
			if r.Error != "" {
				reason = r.Error
			}
		}
		rows = append(rows, []string{fmt.Sprint(c.Number), short(c.Name, 60), state, reason})
	}
	if len(rows) == 0 {
		return ""
	}
	return "## What did not count\n\n" + mdTable([]string{"cell", "name", "state", "why"}, rows)
}

// mdComparisons lists the comparisons, the worst first; what does not stand is folded.
func (p *page) mdComparisons(kind store.Kind) string {
	var list []gate.Comparison
	for _, x := range p.a.Comparisons {
		c := p.d.Cell(x.Cell)
		if c.Kind != kind {
			continue
		}
		switch x.Metric.Name {
		case "ack p99", "delivery p99", "throughput", "CPU per GB":
			list = append(list, x)
		}
	}
	if len(list) == 0 {
		return ""
	}
	badness := func(x gate.Comparison) float64 {
		v := x.Judgement.Ratio.Change(x.Metric.Direction).Estimate
		if math.IsNaN(v) {
			return -1e9
		}
		if x.Judgement.Verdict == stats.Worse {
			return v + 1000
		}
		return v
	}
	slices.SortStableFunc(list, func(a, b gate.Comparison) int {
		switch x, y := badness(a), badness(b); {
		case x > y:
			return -1
		case x < y:
			return 1
		}
		return 0
	})
	var stand, rest [][]string
	for _, x := range list {
		value := "–"
		if e, ok := p.a.Estimate(x.Cell, x.Metric.Name); ok {
			value = estimate(e.Estimate, x.Metric.Unit)
		}
		note := ""
		if x.Primary {
			note = "named beforehand"
		}
		if doubt := x.Doubt(); doubt != "" {
			note = strings.TrimPrefix(note+", "+doubt, ", ")
		}
		row := []string{short(p.d.Cell(x.Cell).Name, 60), x.Metric.Name, value, ratio(x.Judgement.Ratio), x.Judgement.Words(), note}
		if (finding{what: x}).stands() {
			stand = append(stand, row)
		} else {
			rest = append(rest, row)
		}
	}
	head := []string{"cell", "metric", "value [95%]", "ratio [95%]", "verdict", ""}
	title := "## Changes at the fixed rate\n\n"
	if kind == store.Capacity {
		title = "## Changes in a closed loop\n\n"
	}
	if len(stand) == 0 {
		title += "None stands.\n\n"
	} else {
		title += mdTable(head, stand)
	}
	if len(rest) > 0 {
		title += fold(count(len(rest), "comparison")+" that would need more runs or lie within the allowance", mdTable(head, rest))
	}
	return title
}

func (p *page) mdLoad() string {
	var rows [][]string
	l := p.loadData()
	for _, c := range l.cells {
		row := []string{short(c.Name, 60), grouped(c.rate())}
		for _, q := range quantiles {
			text := "–"
			if e, ok := p.a.Estimate(c.Number, clock(c.Cell)+" "+q.name); ok {
				text = estimate(e.Estimate, "")
				if n, thin := c.support(clock(c.Cell), q.p); thin && q.p > 50 {
					text += " in " + count(n, "stall")
				}
			}
			row = append(row, text)
		}
		rows = append(rows, append(row, c.repeats(), c.state()))
	}
	if len(rows) == 0 {
		return ""
	}
	return "## Latency against offered rate\n\n" + mdTable([]string{"cell", "records/s", "p50 ms", "p99 ms", "p99.9 ms", "runs", "state"}, rows)
}

func (p *page) mdNoise() string {
	var rows [][]string
	for _, m := range store.Metrics() {
		for _, kind := range []store.Kind{store.Latency, store.Capacity} {
			if n := p.a.Noise[gate.NoiseKey{Metric: m.Name, Kind: kind}]; n.Known() {
				rows = append(rows, []string{m.Name, string(kind), "±" + number(n.RunPercent()) + "%", fmt.Sprint(n.DF)})
			}
		}
	}
	if len(rows) == 0 {
		return ""
	}
	return fold("Noise of one run, 95%", mdTable([]string{"metric", "kind of cell", "one run", "degrees of freedom"}, rows))
}

// mdTail is what always stands at the end.
func (p *page) mdTail() string {
	var b strings.Builder
	if list := p.caveats(); len(list) > 0 {
		b.WriteString("## Can I believe it?\n\n")
		for _, s := range list {
			b.WriteString("- " + md(s) + "\n")
		}
		b.WriteString("\n")
	}
	if len(p.d.Plan.Command) > 0 {
		command := clean(shellLine(p.d.Plan.Command))
		fence := "```"
		for strings.Contains(command, fence) {
			fence += "`"
		}
		b.WriteString("Again:\n\n" + fence + "\n" + short(command, 4000) + "\n" + fence + "\n\n")
	}
	b.WriteString("Pictures, every cell and its files: report.html beside this file.\n")
	return b.String()
}
