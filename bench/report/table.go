package report

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tidemark/tidemark/bench/store"
)

// table is an HTML table. Cells are HTML: whoever adds a row escapes it.
type table struct {
	head []string
	rows [][]string
	keys []string // an id for each row, "" for none
}

func newTable(head ...string) *table { return &table{head: head} }

func (t *table) row(cells ...string) {
	t.rows = append(t.rows, cells)
	t.keys = append(t.keys, "")
}

// html writes the table; the first column names the row.
func (t *table) html(attributes string) string {
	var b strings.Builder
	b.WriteString("<table" + attributes + "><thead><tr>")
	for _, h := range t.head {
		b.WriteString(`<th scope="col">` + esc(h) + "</th>")
	}
	b.WriteString("</tr></thead><tbody>")
	for i, row := range t.rows {
		b.WriteString("<tr")
		if t.keys[i] != "" {
			b.WriteString(` data-cell="` + esc(t.keys[i]) + `"`)
		}
		b.WriteString(">")
		for j, cell := range row {
			if j == 0 {
				b.WriteString(`<th scope="row">` + cell + "</th>")
			} else {
				b.WriteString("<td>" + cell + "</td>")
			}
		}
		b.WriteString("</tr>")
	}
	b.WriteString("</tbody></table>")
	return b.String()
}

// link is an address inside the page.
func link(address, text string) string {
	return `<a href="` + esc(address) + `">` + esc(text) + `</a>`
}

// all is the section of all cells: latency, latency without acks and capacity in tables of their own.
func (p *page) all(b *strings.Builder) {
	if len(p.d.Plan.Cells) == 0 {
		why(b, "the plan has no cell")
		return
	}
	b.WriteString(`<p class="tools" hidden="hidden"><label>Filter <input type="search" id="filter" placeholder="name, setting or state"></label> <span id="found" role="status"></span></p>` + "\n")
	for _, g := range []struct {
		title string
		keep  func(*store.Cell) bool
		table func([]*cell) string
	}{
		{"Latency, open loop at a stated rate", func(c *store.Cell) bool { return c.Kind == store.Latency && !acksNothing(c) }, p.latencyTable},
		{"Latency without acks (acks=0: handed to the socket, delivery is what can be timed)", func(c *store.Cell) bool { return c.Kind == store.Latency && acksNothing(c) }, p.latencyTable},
		{"Capacity, closed loop (prints no latency: it would be the generator's own window)", func(c *store.Cell) bool { return c.Kind == store.Capacity && !acksNothing(c) }, p.capacityTable},
		{"Capacity without acks (acks=0: what was handed to the socket, which no broker has answered for)", func(c *store.Cell) bool { return c.Kind == store.Capacity && acksNothing(c) }, p.capacityTable},
	} {
		cells := p.cells(g.keep)
		if len(cells) == 0 {
			continue
		}
		fmt.Fprintf(b, "<h3>%s</h3>\n<div class=\"scroll\" tabindex=\"0\">%s</div>\n", esc(g.title), g.table(cells))
	}
}

func (p *page) latencyTable(cells []*cell) string {
	noAcks := acksNothing(cells[0].Cell)
	head := []string{"cell", "runs", "asked /s"}
	if !noAcks {
		head = append(head, "ack p50 ms", "ack p99", "ack p99.9")
	}
	t := newTable(append(head, "delivery p99 ms", "CPU-s/GB", "p99 ratio [95%]", "verdict", "again, files")...)
	for _, c := range cells {
		row := []string{p.nameHTML(c), esc(c.repeats()), esc(grouped(c.rate()))}
		if !noAcks {
			row = append(row, p.percentileHTML(c, "ack", 50), p.percentileHTML(c, "ack", 99), p.percentileHTML(c, "ack", 99.9))
		}
		r, words := p.verdict(c, latencyMetric(c.Cell))
		t.row(append(row, p.percentileHTML(c, "delivery", 99), p.estimateHTML(c, "CPU per GB"), r, words, p.again(c)+p.files(c))...)
		t.keys[len(t.keys)-1] = fmt.Sprint(c.Number)
	}
	return t.html(` class="all"`)
}

func (p *page) capacityTable(cells []*cell) string {
	t := newTable("cell", "runs", "records/s", "MB/s", "CPU-s/GB", "us CPU/request", "MB/s ratio [95%]", "verdict", "again, files")
	for _, c := range cells {
		r, words := p.verdict(c, "throughput")
		t.row(p.nameHTML(c), esc(c.repeats()), p.estimateHTML(c, "records"), p.estimateHTML(c, "throughput"), p.estimateHTML(c, "CPU per GB"),
			p.estimateHTML(c, "CPU per request"), r, words, p.again(c)+p.files(c))
		t.keys[len(t.keys)-1] = fmt.Sprint(c.Number)
	}
	return t.html(` class="all"`)
}

func (p *page) nameHTML(c *cell) string {
	return `<span class="no">` + fmt.Sprint(c.Number) + `</span> ` + link(cellAddress(c.Number), c.Name)
}

func (p *page) estimateHTML(c *cell, metric string) string {
	if e, ok := p.a.Estimate(c.Number, metric); ok {
		return esc(estimate(e.Estimate, ""))
	}
	return "–"
}

// verdict is a cell's ratio and what it says, or why there is none.
func (p *page) verdict(c *cell, metric string) (ratioHTML, words string) {
	x, ok := p.a.Comparison(c.Number, metric)
	state := c.state()
	if !ok {
		if state == "" && c.Role == store.Baseline {
			state = "the others are compared with it"
		}
		if state == "" {
			state = "–"
		}
		return "–", esc(state)
	}
	words = x.Words()
	if state != "" {
		words += " (" + state + ")"
	}
	return esc(ratio(x.Judgement.Ratio)), esc(words)
}

// again is the command that repeats one run of the cell.
func (p *page) again(c *cell) string {
	command := ""
	for _, r := range c.runs {
		if len(r.Command) > 0 {
			command = shellLine(r.Command)
			break
		}
	}
	if command == "" {
		return ""
	}
	return `<details class="cmd"><summary>command</summary><code tabindex="0">` + esc(command) + `</code></details>`
}

// maxFiles bounds what one run lists; where there are more than manyCells it lists result.json and cell.yaml alone, the
// others stand beside them.
const (
	maxFiles  = 40
	manyCells = 60
)

// files links what each run of the cell left behind.
func (p *page) files(c *cell) string {
	var b strings.Builder
	n := 0
	list := func(title, dir string) {
		names := runFiles(dir)
		if len(p.d.Plan.Cells) > manyCells {
			names = names[:min(len(names), 2)]
		}
		var links []string
		for _, name := range names {
			if u, ok := fileURL(p.relative(dir, name)); ok {
				links = append(links, `<a href="`+esc(u)+`" download="">`+esc(name)+`</a>`)
				n++
			}
		}
		if len(links) > 0 {
			fmt.Fprintf(&b, "<div>%s: %s</div>", title, strings.Join(links, " "))
		}
	}
	for _, r := range c.runs {
		list(fmt.Sprintf("repeat %d", r.Repeat), r.Dir)
	}
	if len(c.runs) > 0 && c.runs[0].Dir != "" {
		list("profiled repeat, in no statistic", heavyFolder(c.runs[0]))
	}
	if n == 0 {
		return "no files"
	}
	return `<details class="files"><summary>` + count(n, "file") + `</summary>` + b.String() + `</details>`
}

// heavyFolder is where the cell's one repeat with heavy profiles lies, if there is one.
func heavyFolder(r *store.Run) string { return filepath.Join(filepath.Dir(r.Dir), "profiled") }

// runFiles lists the regular files of a run's folder and of its profiles, those that matter first.
func runFiles(dir string) []string {
	if dir == "" {
		return nil
	}
	var names []string
	for _, sub := range []string{"", "profiles"} {
		entries, err := os.ReadDir(filepath.Join(dir, sub))
		if err != nil {
			continue
		}
		for _, e := range entries {
			if e.Type().IsRegular() {
				names = append(names, filepath.Join(sub, e.Name()))
			}
		}
	}
	rank := func(name string) int {
		return slices.Index([]string{"load.log", "target.log", "run.json", "cell.yaml", "result.json"}, name)
	}
	slices.SortStableFunc(names, func(a, b string) int { return rank(b) - rank(a) })
	return names[:min(len(names), maxFiles)]
}
