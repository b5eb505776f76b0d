package verify

import (
	"errors"
	"fmt"
	"html"
	"io/fs"
	"math"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// table is a table of a report, as a reader sees it.
type table struct {
	head []string
	rows [][]string
}

// reports compares the Answer and the tables of both reports with what follows from the runs.
func (o *Outcome) reports(b *bench, s *sums) {
	page, pageErr := readFile(filepath.Join(b.dir, "report.html"))
	text, textErr := readFile(filepath.Join(b.dir, "report.md"))
	for name, err := range map[string]error{"report.html": pageErr, "report.md": textErr} {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			o.skip("%s: it is not there; tidemark bench report writes it", name)
		case err != nil:
			o.find(name, "%v", err)
		}
	}
	if pageErr == nil {
		said := htmlAnswer(string(page))
		o.answer("report.html", said, s, b)
		o.tables("report.html", htmlTables(string(page)), s, b)
	}
	if textErr == nil {
		o.answer("report.md", mdAnswer(string(text)), s, b)
		o.tables("report.md", mdTables(string(text)), s, b)
	}
	if pageErr == nil || textErr == nil {
		o.skip("pictures, curves, ceilings and lateness in report.html: tidemark bench report draws them again from the same files")
	}
}

// answer compares the sentences of a report with those made here.
func (o *Outcome) answer(place string, said []string, s *sums, b *bench) {
	want := s.answer(b, false)
	if !slices.Equal(said, want) {
		if early := s.answer(b, true); slices.Equal(said, early) {
			want = early
			o.skip("whether a finding rests on one run: %s was written by a version that did not ask", place)
		}
	}
	for i := range max(len(said), len(want)) {
		o.Sentences++
		switch {
		case i >= len(said):
			o.find(place+", the Answer", "lacks: %s", want[i])
		case i >= len(want):
			o.find(place+", the Answer", "does not follow from the runs: %s", said[i])
		case said[i] != want[i]:
			o.find(place+", the Answer", "%s", firstDifference(said[i], want[i]))
		}
	}
}

// firstDifference shows two sentences from where they part.
func firstDifference(said, want string) string {
	a, b := []rune(said), []rune(want)
	i := 0
	for i < min(len(a), len(b)) && a[i] == b[i] {
		i++
	}
	from := max(0, i-40)
	around := func(r []rune) string { return string(r[min(from, len(r)):min(len(r), i+60)]) }
	return fmt.Sprintf("says %q, by the runs it is %q", around(a), around(b))
}

var (
	tags     = regexp.MustCompile(`(?s)<[^>]*>`)
	anyTable = regexp.MustCompile(`(?s)<table.*?</table>`)
	anyRow   = regexp.MustCompile(`(?s)<tr.*?</tr>`)
	anyCell  = regexp.MustCompile(`(?s)<(?:th|td)[^>]*>(.*?)</(?:th|td)>`)
	folded   = regexp.MustCompile(`(?s)<details.*</details>`)
)

// plain is what a reader sees of a piece of HTML.
func plain(markup string) string {
	return strings.Join(strings.Fields(html.UnescapeString(tags.ReplaceAllString(markup, ""))), " ")
}

func htmlAnswer(page string) (out []string) {
	_, rest, ok := strings.Cut(page, `<div class="sentences">`)
	if !ok {
		return nil
	}
	inner, _, _ := strings.Cut(rest, "</div>")
	for _, p := range regexp.MustCompile(`(?s)<p[ >].*?</p>`).FindAllString(inner, -1) {
		out = append(out, plain(p))
	}
	return out
}

func htmlTables(page string) (out []table) {
	for _, t := range anyTable.FindAllString(page, -1) {
		var one table
		for _, r := range anyRow.FindAllString(t, -1) {
			var cells []string
			for _, c := range anyCell.FindAllStringSubmatch(r, -1) {
				cells = append(cells, plain(folded.ReplaceAllString(c[1], "")))
			}
			if one.head == nil {
				one.head = cells
			} else {
				one.rows = append(one.rows, cells)
			}
		}
		out = append(out, one)
	}
	return out
}

// unmark takes Markdown's escapes away.
func unmark(s string) string {
	var b strings.Builder
	escaped := false
	for _, r := range strings.ReplaceAll(s, ":&#47;/", "://") {
		if r == '\\' && !escaped {
			escaped = true
			continue
		}
		escaped = false
		b.WriteRune(r)
	}
	return strings.Join(strings.Fields(html.UnescapeString(b.String())), " ")
}

// mdAnswer is what stands between the title and the tallies of report.md.
func mdAnswer(text string) (out []string) {
	for _, block := range strings.Split(text, "\n\n")[1:] {
		if strings.HasPrefix(block, "records lost ") || strings.HasPrefix(block, "**records lost ") || strings.HasPrefix(block, "#") {
			break
		}
		out = append(out, strings.TrimPrefix(unmark(block), "**Attention.** "))
	}
	return out
}

var bar = regexp.MustCompile(`(^|[^\\])\|`)

func mdTables(text string) (out []table) {
	open := false
	for _, l := range strings.Split(text, "\n") {
		if !strings.HasPrefix(l, "|") {
			open = false
			continue
		}
		if strings.HasPrefix(l, "|---") {
			continue
		}
		var cells []string
		for _, c := range strings.Split(bar.ReplaceAllString(l, "$1\x00"), "\x00")[1:] {
			cells = append(cells, unmark(c))
		}
		cells = cells[:len(cells)-1]
		if !open {
			open = true
			out = append(out, table{head: cells})
			continue
		}
		t := &out[len(out)-1]
		t.rows = append(t.rows, cells)
	}
	return out
}

// tables recomputes the tables that it knows by their heads.
func (o *Outcome) tables(place string, all []table, s *sums, b *bench) {
	for _, t := range all {
		head := strings.Join(t.head, "|")
		switch {
		case strings.HasPrefix(head, "effect on "):
			o.effectTable(place, t, b)
		case strings.HasPrefix(head, "cell outside the design|"):
			o.outsideTable(place, t, b)
		case strings.HasPrefix(head, "cell|metric|value [95%]|ratio [95%]|verdict"):
			o.each(place, t, b, func(c *cell, row []string) { o.mdComparison(place, c, row, s) })
		case strings.HasPrefix(head, "metric|kind of cell|one run"):
			o.noises(place, t, s)
		case strings.HasSuffix(head, "|ratio [95%]|verdict|runs") && len(t.head) == 5:
			name, unit, _ := strings.Cut(t.head[1], ", ")
			o.each(place, t, b, func(c *cell, row []string) { o.forest(place, c, name, unit, row, s, b) })
		case strings.HasPrefix(head, "cell|runs|"):
			o.each(place, t, b, func(c *cell, row []string) { o.allCells(place, c, t.head, row, s, b) })
		case strings.HasPrefix(head, "cell|offered, records/s|") || strings.HasPrefix(head, "cell|records/s|"):
			o.each(place, t, b, func(c *cell, row []string) { o.load(place, c, t.head, row, s, b) })
		}
	}
}

// each finds the cell that each row is about; pages may have shortened its name.
func (o *Outcome) each(place string, t table, b *bench, check func(*cell, []string)) {
	for _, row := range t.rows {
		if len(row) != len(t.head) {
			o.find(place, "a row of %d cells below a head of %d: %.80s", len(row), len(t.head), strings.Join(row, " | "))
			continue
		}
		found := false
		for i := range b.plan.Cells {
			c := &b.plan.Cells[i]
			if row[0] == cut(c.Name, 60) || row[0] == cut(c.Name, 1<<20) || row[0] == fmt.Sprintf("%d %s", c.Number, cut(c.Name, 1<<20)) {
				check(c, row)
				found = true
				break
			}
		}
		if !found {
			o.find(place, "the plan has no cell %q", row[0])
		}
	}
}

// published compares one figure or verdict of a report.
func (o *Outcome) published(place string, c *cell, what, said string, want ...string) {
	o.Published++
	if !slices.Contains(want, said) {
		o.find(fmt.Sprintf("%s, cell %d %s", place, c.Number, c.Name), "%s is %q there, by the runs it is %q", what, said, want[0])
	}
}

func (s *sums) comparison(cell int, name string) *comparison {
	for _, k := range s.comparisons {
		if k.cell == cell && k.metric.name == name {
			return k
		}
	}
	return nil
}

// shown is an estimate as tables have it.
func (s *sums) shown(c *cell, name, unit string) string {
	e, ok := s.estimates[c.Number][name]
	if !ok || e.runs == 0 {
		return "–"
	}
	text := strings.TrimSpace(three(e.value) + " " + unit)
	if i := brackets(e.low, e.high); i != "" {
		return text + " " + i
	}
	return text + " (no interval: nothing ran twice)"
}

func (o *Outcome) mdComparison(place string, c *cell, row []string, s *sums) {
	k := s.comparison(c.Number, row[1])
	if k == nil {
		o.find(place, "cell %d %s is compared in %s, which follows from no run", c.Number, c.Name, row[1])
		return
	}
	o.published(place, c, row[1], row[2], s.shown(c, row[1], k.metric.unit))
	o.published(place, c, "ratio of "+row[1], row[3], k.times())
	o.published(place, c, "verdict on "+row[1], row[4], k.words, k.early)
}

func (o *Outcome) noises(place string, t table, s *sums) {
	for _, row := range t.rows {
		n, ok := s.noise[[2]string{row[0], row[1]}]
		o.Published++
		want := "±" + three(100*math.Expm1(n.t()*n.sigma)) + "%"
		df, _, _ := strings.Cut(row[3], " ")
		if !ok || row[2] != want || df != fmt.Sprint(n.df) {
			o.find(place, "noise of %s in %s cells is %s from %s degrees of freedom there, by the runs it is %s from %d", row[0], row[1], row[2], df, want, n.df)
		}
	}
}

// repeats is "n=2", "n=1 of 2".
func (b *bench) repeats(c *cell) string {
	n, all := b.countedOf(c.Number), len(b.runsOf(c.Number))
	if !c.Searched {
		planned := c.Repeats
		for _, s := range b.state.Stopped {
			if s.Cell == c.Number {
				planned = s.Runs
			}
		}
		all = max(all, planned)
	}
	if n == all {
		return fmt.Sprintf("n=%d", n)
	}
	return fmt.Sprintf("n=%d of %d", n, all)
}

func (o *Outcome) forest(place string, c *cell, name, _ string, row []string, s *sums, b *bench) {
	o.published(place, c, name, row[1], s.shown(c, name, ""))
	ratio, words, early := "–", b.stateOf(c.Number), b.stateOf(c.Number)
	if k := s.comparison(c.Number, name); k != nil {
		ratio, words, early = k.times(), k.said(), k.early
		row[3] = o.undoubted(place, k, row[3], "")
	}
	o.published(place, c, "ratio of "+name, row[2], ratio)
	o.published(place, c, "verdict on "+name, row[3], words, early)
	o.published(place, c, "runs", row[4], b.repeats(c))
}

// undoubted takes a verdict that older versions wrote without its doubt for the one with it, and says so.
func (o *Outcome) undoubted(place string, k *comparison, said, suffix string) string {
	if said != k.words+suffix || k.said() == k.words {
		return said
	}
	o.skip("whether a verdict may be chance or rests on one run: the tables of %s were written by a version that said so in the Answer alone", place)
	return k.said() + suffix
}

// metricOf names the metric of a column of the tables of all cells and of offered rates; clock is the cell's own.
func metricOf(head, clock string) string {
	switch head {
	case "ack p50 ms", "ack p99", "ack p99.9", "delivery p99 ms":
		return strings.TrimSuffix(head, " ms")
	case "p50 ms", "p99 ms", "p99.9 ms":
		return clock + " " + strings.TrimSuffix(head, " ms")
	case "CPU-s/GB":
		return "CPU per GB"
	case "us CPU/request":
		return "CPU per request"
	case "MB/s":
		return "throughput"
	case "records/s":
		return "records"
	}
	return ""
}

var beside = regexp.MustCompile(` in [0-9,]+ stalls?$`)

// column compares a figure of a table; what is struck through or without support there has no estimate to compare.
func (o *Outcome) column(place string, c *cell, head, said string, s *sums) {
	name := metricOf(head, clockOf(c))
	if name == "" {
		return
	}
	if _, ok := s.estimates[c.Number][name]; !ok && strings.Contains(name, " p") {
		return
	}
	o.published(place, c, name, beside.ReplaceAllString(said, ""), s.shown(c, name, ""))
}

func (o *Outcome) allCells(place string, c *cell, head, row []string, s *sums, b *bench) {
	main := clockOf(c) + " p99"
	if c.Kind == "capacity" {
		main = "throughput"
	}
	for i, h := range head {
		switch k := s.comparison(c.Number, main); {
		case h == "runs":
			o.published(place, c, "runs", row[i], b.repeats(c))
		case h == "asked /s":
			o.published(place, c, "the rate", row[i], apart(b.rateOf(c)))
		case strings.HasSuffix(h, "ratio [95%]"):
			want := "–"
			if k != nil {
				want = k.times()
			}
			o.published(place, c, h, row[i], want)
		case h == "verdict" && k != nil:
			suffix := ""
			if state := b.stateOf(c.Number); state != "" {
				suffix = " (" + state + ")"
			}
			o.published(place, c, "the verdict", o.undoubted(place, k, row[i], suffix), k.said()+suffix, k.early+suffix)
		default:
			o.column(place, c, h, row[i], s)
		}
	}
}

func (o *Outcome) load(place string, c *cell, head, row []string, s *sums, b *bench) {
	for i, h := range head {
		switch {
		case i == 1:
			o.published(place, c, "the rate", row[i], apart(b.rateOf(c)))
		case h == "runs":
			o.published(place, c, "runs", row[i], b.repeats(c))
		case h == "state":
			o.published(place, c, "the state", row[i], b.stateOf(c.Number))
		default:
			o.column(place, c, h, row[i], s)
		}
	}
}
