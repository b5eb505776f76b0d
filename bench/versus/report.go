package versus

import (
	"fmt"
	"html"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"
)

// WriteReport writes report.md and report.html into the folder, each whole or not at all. Both say only what Analyse
// computes.
func WriteReport(d *Document, dir string) error {
	results := Analyse(d)
	if err := writeFile(filepath.Join(dir, "report.md"), []byte(markdown(d, results, dir))); err != nil {
		return err
	}
	return writeFile(filepath.Join(dir, "report.html"), []byte(page(d, results, dir)))
}

// answer is what the table says in a few sentences.
func answer(d *Document, results []Result) []string {
	counts := map[Verdict]int{}
	var missed []string
	for _, r := range results {
		for _, l := range r.Lines {
			counts[l.Verdict]++
			if l.Verdict == NotMet {
				missed = append(missed, r.Row.Title+" ("+l.Goal.Measure+")")
			}
		}
	}
	out := []string{fmt.Sprintf("Of %d goals %d are met, %d are not met, %d cannot be told.", counts[Met]+counts[NotMet]+counts[CannotTell], counts[Met], counts[NotMet], counts[CannotTell])}
	if len(missed) > 0 {
		out = append(out, "Not met: "+strings.Join(missed, "; ")+".")
	}
	all := totals(d, results)
	data := fmt.Sprintf("Acknowledged records lost %d, duplicated %d, out of order %d, corrupt %d, both sides together", all.Lost, all.Duplicated, all.OutOfOrder, all.Corrupt)
	if all.Hidden > 0 {
		data += fmt.Sprintf("; a loss of up to %s more would not show", grouped(all.Hidden))
	}
	out = append(out, data+".")
	if d.State != "finished" {
		out = append(out, "This session is "+d.State+": what stands here is what it had measured.")
	}
	if d.Profile != "full" {
		out = append(out, "Profile "+d.Profile+" ("+d.About+"): it shows where to look and proves nothing.")
	}
	return out
}

// method are the notes that a reader needs to doubt the table well.
func method(d *Document) []string {
	cores := "broker and generator share the cores"
	if len(d.Arms) > 0 && len(d.Arms[0].Cores) > 0 {
		cores = fmt.Sprintf("all brokers are pinned to cores %v, the load to the others", d.Arms[0].Cores)
	}
	return []string{
		"One host, loopback, one node with one replica; " + cores + ". All sides stay alive while one of them is loaded; what the others used meanwhile is in versus.json (idle).",
		"A window is one run of tidemark load with a fresh topic (unless a row says otherwise). Dirty pages are written out before it. The sides alternate ABBA; the windows next to each other are a pair.",
		"Cost is work for each CPU-second of the broker by its CPU clock, interpolated at the window's ends, without what a JVM's compiler threads used. The receive cost of produced bytes on loopback falls to the client. Closed-loop rows show no latency, rows at a rate no throughput.",
		"Settled: over a side's last five windows of equal work (the seconds of a run at a fixed rate) range at most 5% and trend within 1% a window, or no more of both than five readings of the bare loop beside it would show by chance (95%; nothing settles beside a loop that varies by more than 12%), and a JVM's compiler threads under 1% of a core, or under what the loop varies by. A block that did not settle is dropped whole; figures in brackets come from such blocks and are in no ratio.",
		fmt.Sprintf("A ratio is ours over the better of Kafka's settings: geometric mean over the pairs with its 95%% interval (log scale, Student t), and needs %d pairs and %d processes of each side before its goal can be met. With as many processes, mean and interval are over one geometric mean for each where that interval is the wider one, and so for the share of a ceiling; with fewer, no interval contains what varies between processes. A goal is met when the whole interval reaches it. Better half: ours over the geometric mean of the better half of Kafka's windows.", d.MinPairs, minProcesses),
		"Ceiling: a bare loop that does only what no broker can avoid, half a second before each pair and behind the last, on the same cores. As much memory as a window or a loop writes is used and given back right before it.",
		"Marks stand beside figures: steal - the host took over 1% of the window; late pacer - over a tenth of the ack p99 may be the generator's own lateness; fresh memory - the window wrote into memory that the host had to fetch first: it leaves the costs where enough pairs remain, and where they do not, no goal of the figure can be told.",
		"A row at a share of each side's capacity asks what a side reached in closed loops. Where the generator bounded one of them, the share is of the generator's capacity, and no goal of the row can be told. A figure over blocks of several builds is of none of them, and tells no goal either.",
		"What a window had acknowledged is read back, record by record: by its own consumers, or by this command afterwards, which counts: where records had no ack, as many acknowledged ones may be lost without its seeing it, and the window says so.",
	}
}

func markdown(d *Document, results []Result, dir string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\n", mdText(strings.ReplaceAll(head(d), "\n", ". ")))
	for _, s := range answer(d, results) {
		b.WriteString(mdText(s) + "\n")
	}
	b.WriteString("\n| " + strings.Join(columns(), " | ") + " |\n|" + strings.Repeat("---|", len(columns())) + "\n")
	for _, r := range results {
		for i := range r.Lines {
			row := cells(&r, i)
			for j := range row {
				row[j] = mdText(row[j])
			}
			b.WriteString("| " + strings.Join(row, " | ") + " |\n")
		}
	}
	b.WriteString("\nFigures in brackets come from windows that had not settled. Pairs: pairs / fresh processes of each side.\n\n")
	for _, text := range footers(d, results, dir) {
		b.WriteString("- " + mdText(strings.Join(strings.Fields(text), " ")) + "\n")
	}
	b.WriteString("\n## Method\n\n")
	for _, m := range method(d) {
		b.WriteString("- " + mdText(m) + "\n")
	}
	b.WriteString("\n## Sides\n\n")
	for _, a := range d.Arms {
		b.WriteString("- **" + mdText(a.Name) + "** " + mdText(armText(a)) + "\n")
	}
	b.WriteString("\n## Rows\n\n")
	for _, r := range d.Rows {
		b.WriteString("- **" + mdText(r.Title) + "** (`" + r.Name + "`) " + mdText(rowText(r)) + "\n")
	}
	b.WriteString("\n## Provenance\n\n")
	for _, p := range provenance(d) {
		b.WriteString("- " + mdText(p) + "\n")
	}
	return b.String()
}

func armText(a ArmInfo) string {
	text := a.Version + ": " + a.About
	if a.Heap != "" {
		text += "; heap " + a.Heap
	}
	for _, name := range slices.Sorted(maps.Keys(a.Settings)) {
		text += "; " + name + "=" + a.Settings[name]
	}
	return text
}

func rowText(r RowInfo) string {
	if r.Alone != "" {
		return "measured alone"
	}
	text := strings.Join(r.Settings, " ")
	if r.Ceiling != "" {
		text += "; ceiling: " + r.Ceiling
	}
	return text
}

func provenance(d *Document) []string {
	h := d.Host
	return []string{
		"command: " + strings.Join(d.Command, " "),
		fmt.Sprintf("host: %s, kernel %s, %s, %d cores, %d MiB of memory, %s on %s, hypervisor %s, load average %.2f when it began", h.OS, h.Kernel, h.CPUModel, h.Cores, h.MemoryBytes>>20, h.FileSystem, h.Device, h.Hypervisor, h.Load1),
		fmt.Sprintf("started %s, %s, seed %d, suite %s %s", d.Started.Format("2006-01-02 15:04:05 UTC"), duration(d.Seconds), d.Seed, d.Suite, d.SuiteHash[:min(12, len(d.SuiteHash))]),
		"this program " + d.Version + ", " + d.GoVersion + "; blocks of " + strings.Join(builds(d.Blocks), ", "),
	}
}

// mdText makes text harmless inside a table cell of Markdown.
func mdText(s string) string {
	return strings.NewReplacer("|", "\\|", "<", "&lt;", "\n", " ", "`", "'", "*", "\\*", "_", "\\_").Replace(s)
}

const pageStyle = `:root{color-scheme:light dark}body{font:15px/1.5 system-ui,sans-serif;margin:0 auto;max-width:1500px;padding:1em}
table{border-collapse:collapse;font-size:13px}th,td{border-bottom:1px solid #8886;padding:3px 8px;text-align:left;vertical-align:top}
td.n{font-variant-numeric:tabular-nums}.scroll{overflow-x:auto}figure{margin:1em 0}figcaption{font-size:13px}`

// page is report.html: one file, no network, no script; pictures have presentation attributes.
func page(d *Document, results []Result, dir string) string {
	var b strings.Builder
	esc := html.EscapeString
	b.WriteString("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\"><title>versus</title><style>" + pageStyle + "</style></head><body>\n")
	fmt.Fprintf(&b, "<h1>This broker beside Apache Kafka</h1><p>%s</p>\n<h2>Answer</h2><p>", esc(head(d)))
	for _, s := range answer(d, results) {
		b.WriteString(esc(s) + " ")
	}
	b.WriteString("</p>\n<h2>Table</h2><div class=\"scroll\"><table><thead><tr>")
	for _, c := range columns() {
		b.WriteString("<th>" + esc(c) + "</th>")
	}
	b.WriteString("</tr></thead><tbody>\n")
	for _, r := range results {
		for i := range r.Lines {
			b.WriteString("<tr>")
			for _, c := range cells(&r, i) {
				b.WriteString("<td class=\"n\">" + esc(c) + "</td>")
			}
			b.WriteString("</tr>\n")
		}
	}
	b.WriteString("</tbody></table></div><p>Figures in brackets come from windows that had not settled. Pairs: pairs / fresh processes of each side.</p>\n<ul>")
	for _, text := range footers(d, results, dir) {
		b.WriteString("<li>" + esc(text) + "</li>\n")
	}
	b.WriteString("</ul>\n<h2>Each pair</h2>\n")
	for _, r := range results {
		for i := range r.Lines {
			b.WriteString(dots(d, &r, i))
		}
	}
	section := func(title string, lines []string) {
		fmt.Fprintf(&b, "<h2>%s</h2><ul>", esc(title))
		for _, l := range lines {
			b.WriteString("<li>" + esc(l) + "</li>\n")
		}
		b.WriteString("</ul>\n")
	}
	section("Method", method(d))
	var sides, rows []string
	for _, a := range d.Arms {
		sides = append(sides, a.Name+": "+armText(a))
	}
	for _, r := range d.Rows {
		rows = append(rows, r.Title+" ("+r.Name+"): "+rowText(r))
	}
	section("Sides", sides)
	section("Rows", rows)
	section("Provenance", provenance(d))
	b.WriteString("</body></html>\n")
	return b.String()
}

// Sizes of a picture.
const (
	dotsWidth, dotsHeight = 720.0, 92.0
	dotsLeft, dotsRight   = 20.0, 700.0
)

// dots draws the ratio of each pair, the estimate with its interval, 1 and the goal on one logarithmic axis.
func dots(d *Document, r *Result, i int) string {
	l := &r.Lines[i]
	if len(l.Pairs) == 0 || math.IsNaN(l.Ratio.Value) {
		return ""
	}
	goal := max(l.Goal.Ratio, l.Goal.AtMost)
	values := []float64{1, l.Ratio.Value}
	for _, v := range []float64{goal, l.Ratio.Low, l.Ratio.High} {
		if v > 0 && !math.IsNaN(v) && !math.IsInf(v, 0) {
			values = append(values, v)
		}
	}
	for _, p := range l.Pairs {
		values = append(values, p.Ratio())
	}
	low, high := math.Log(slices.Min(values))-0.1, math.Log(slices.Max(values))+0.1
	x := func(v float64) float64 {
		return min(dotsRight, max(dotsLeft, dotsLeft+(math.Log(v)-low)/(high-low)*(dotsRight-dotsLeft)))
	}
	var b strings.Builder
	esc := html.EscapeString
	title := r.Row.Title + ": " + l.Goal.Measure + ", ours over " + l.Best
	fmt.Fprintf(&b, "<figure><svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" viewBox=\"0 0 %g %g\" width=\"100%%\" style=\"max-width:%gpx\"><title>%s</title><rect width=\"%g\" height=\"%g\" fill=\"#ffffff\"/>",
		dotsWidth, dotsHeight, dotsWidth, esc(title), dotsWidth, dotsHeight)
	fmt.Fprintf(&b, "<text x=\"%g\" y=\"16\" font-family=\"sans-serif\" font-size=\"12\" fill=\"#222222\">%s</text>", dotsLeft, esc(title))
	line := func(v float64, color, label string) {
		fmt.Fprintf(&b, "<line x1=\"%.1f\" y1=\"24\" x2=\"%.1f\" y2=\"66\" stroke=\"%s\" stroke-dasharray=\"3 3\"/><text x=\"%.1f\" y=\"80\" font-family=\"sans-serif\" font-size=\"10\" text-anchor=\"middle\" fill=\"%s\">%s</text>",
			x(v), x(v), color, x(v), color, esc(label))
	}
	line(1, "#555555", "1")
	if goal > 0 {
		line(goal, "#d55e00", "goal "+figure(goal))
	}
	if !math.IsNaN(l.Ratio.Low) && l.Ratio.Low > 0 {
		fmt.Fprintf(&b, "<line x1=\"%.1f\" y1=\"58\" x2=\"%.1f\" y2=\"58\" stroke=\"#0072b2\" stroke-width=\"3\"/>", x(l.Ratio.Low), x(l.Ratio.High))
	}
	fmt.Fprintf(&b, "<rect x=\"%.1f\" y=\"54\" width=\"3\" height=\"9\" fill=\"#0072b2\"/>", x(l.Ratio.Value)-1.5)
	for _, p := range l.Pairs {
		fmt.Fprintf(&b, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" fill=\"#009e73\" fill-opacity=\"0.6\"/>", x(p.Ratio()), 28+6*float64((p.Process-1)%4))
	}
	over := "interval over the pairs"
	switch {
	case l.Between:
		over = "interval over one mean for each process"
	case l.Processes < minProcesses:
		over = "interval without what varies between processes"
	}
	fmt.Fprintf(&b, "</svg><figcaption>%s %s; %d pairs of %d processes, %s, one row of dots a process; logarithmic axis of the ratio; %s better. Tidemark %s, %s; %s</figcaption></figure>\n",
		esc(ratioText(l.Ratio)), esc(string(l.Verdict)), len(l.Pairs), l.Processes, over, betterWord(l.Higher), esc(d.Version), esc(armVersion(d, l.Best)), esc(d.Host.CPUModel))
	return b.String()
}

func betterWord(higher bool) string {
	if higher {
		return "right is"
	}
	return "left is"
}

func armVersion(d *Document, name string) string {
	if a := d.arm(name); a != nil {
		return a.Version
	}
	return name
}
