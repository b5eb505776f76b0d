package versus

import (
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/tidemark/tidemark/bench/stats"
)

// columns of the table, in terminal and report.
func columns() []string {
	return []string{"row", "figure", "ours", "Kafka", "ratio [95%]", "pairs", "better half", "of ceiling", "goal", "verdict"}
}

// Print writes the table and what stands below it.
func Print(w io.Writer, d *Document, dir string) {
	results := Analyse(d)
	fmt.Fprintln(w, head(d))
	table := [][]string{columns()}
	for _, r := range results {
		for i := range r.Lines {
			table = append(table, cells(&r, i))
		}
	}
	printTable(w, table)
	for _, text := range footers(d, results, dir) {
		fmt.Fprintln(w, text)
	}
}

// head says what was compared.
func head(d *Document) string {
	var arms []string
	for _, a := range d.Arms {
		name := a.Name
		if a.Heap != "" {
			name += " (heap " + a.Heap + ")"
		}
		arms = append(arms, name)
	}
	version := ""
	for _, a := range d.Arms {
		if !a.Ours {
			version = a.Version
		}
	}
	text := fmt.Sprintf("versus  %s  %s beside %s  %s", d.Profile, strings.Join(arms, ", "), version, duration(d.Seconds))
	if d.State != "finished" {
		text += "  " + strings.ToUpper(d.State)
	}
	if d.Profile != "full" {
		text += "\n" + d.Profile + ": " + d.About + " - shows where to look, proves nothing"
	}
	return text
}

func duration(seconds float64) string {
	return fmt.Sprintf("%dm%02ds", int(seconds)/60, int(seconds)%60)
}

// cells are one line of the table; the row's title stands on its first line alone.
func cells(r *Result, i int) []string {
	l := &r.Lines[i]
	title := r.Row.Title
	if i > 0 {
		title = ""
	}
	kafka := "-"
	for _, s := range l.Kafka {
		if s.Arm == l.Best {
			kafka = sideText(s) + " " + s.Arm
		}
	}
	ratio, half := "none: "+l.NoRatio, "-"
	if !math.IsNaN(l.Ratio.Value) {
		ratio, half = ratioText(l.Ratio), "x"+figure(l.BetterHalf)
	}
	for _, text := range []string{l.Few, l.Fresh} {
		if text != "" {
			ratio += " (" + text + ")"
		}
	}
	verdict := string(l.Verdict)
	if doubts := strings.Join(l.Doubts, "; "); doubts != "" && l.Verdict == NoGoal {
		ratio += " (" + doubts + ")"
	} else if doubts != "" {
		verdict += " (" + doubts + ")"
	}
	share := "-"
	if !math.IsNaN(l.Share.Value) {
		share = fmt.Sprintf("%.0f%% of %s", 100*l.Share.Value, figure(l.Ceiling))
	} else if !math.IsNaN(l.OfRow) {
		share = fmt.Sprintf("%.0f%% of own %s", 100*l.OfRow, l.Goal.OfRow)
	}
	unit := l.Goal.Measure
	return []string{title, unit, sideText(l.Ours), kafka, ratio, fmt.Sprintf("%d/%d", len(l.Pairs), l.Processes), half, share, goalText(l.Goal, l.Unit), verdict}
}

// sideText is a figure; in brackets where it comes from windows that had not settled.
func sideText(s Side) string {
	switch {
	case math.IsNaN(s.Value):
		return "- (" + s.Why + ")"
	case !s.Settled:
		return "(" + figure(s.Value) + ")"
	}
	return figure(s.Value)
}

func ratioText(e stats.Estimate) string {
	if math.IsNaN(e.Low) {
		return "x" + figure(e.Value)
	}
	return fmt.Sprintf("x%s [%s %s]", figure(e.Value), figure(e.Low), figure(e.High))
}

func goalText(g Goal, unit string) string {
	var parts []string
	other := "Kafka"
	if g.Against != "" {
		other = g.Against
	}
	if g.Ratio > 0 {
		parts = append(parts, fmt.Sprintf(">= %gx %s", g.Ratio, other))
	}
	if g.AtMost > 0 {
		parts = append(parts, fmt.Sprintf("<= %gx %s", g.AtMost, other))
	}
	if g.OfCeiling > 0 {
		parts = append(parts, fmt.Sprintf(">= %g%% of ceiling", 100*g.OfCeiling))
	}
	if g.OfRowShare > 0 {
		parts = append(parts, fmt.Sprintf(">= %g%% of own %s", 100*g.OfRowShare, g.OfRow))
	}
	if g.Under > 0 {
		parts = append(parts, fmt.Sprintf("<= %g %s", g.Under, unit))
	}
	if len(parts) == 0 {
		if g.Against != "" {
			return "against " + g.Against
		}
		return "-"
	}
	return strings.Join(parts, ", ")
}

// footers say what the table cannot: data checked, rows left out, what the rest is spent on.
func footers(d *Document, results []Result, dir string) []string {
	var out []string
	all := totals(d, results)
	out = append(out, fmt.Sprintf("data      %s records acknowledged in %d windows, read back: lost %d  duplicated %d  out of order %d  corrupt %d  not read back %s",
		grouped(all.Acked), all.Windows, all.Lost, all.Duplicated, all.OutOfOrder, all.Corrupt, grouped(all.Unread)))
	out = append(out, damages(d)...)
	for i := range results {
		if text := marksText(d, &results[i]); text != "" {
			out = append(out, text)
		}
		if text := buildsText(results[i].Row, d.blocksOf(results[i].Row.Name)); text != "" {
			out = append(out, text)
		}
	}
	for _, r := range results {
		if text := restText(r, dir); text != "" {
			out = append(out, text)
		}
		if r.CeilingMoved {
			out = append(out, "ceiling   "+r.Row.Title+": moved by more than 15% within a block")
		}
	}
	out = append(out, capacities(d)...)
	if text := tunedRows(d); text != "" {
		out = append(out, text)
	}
	for _, m := range d.Missing {
		out = append(out, "not here  "+m.Title+": "+m.Why)
	}
	if len(d.LeftOut) > 0 {
		out = append(out, "left out  "+strings.Join(d.LeftOut, ", ")+" (not asked for)")
	}
	for _, n := range d.Notes {
		out = append(out, "note      "+n)
	}
	if d.Error != "" {
		out = append(out, "error     "+d.Error)
	}
	return out
}

// damages name every window in which data were broken, or may be without its showing.
func damages(d *Document) []string {
	var out []string
	say := func(where string, w *Window) {
		if w.damaged() {
			out = append(out, fmt.Sprintf("damaged   %s: %s %s; see %s", where, w.Arm, w.damage(), w.Folder))
		}
		if w.Hidden > 0 {
			out = append(out, fmt.Sprintf("unsure    %s: %s left records without an ack, which may be in the log: beside them a loss of up to %s would not show; see %s", where, w.Arm, grouped(w.Hidden), w.Folder))
		}
	}
	for _, b := range d.Blocks {
		for _, w := range b.all() {
			say(fmt.Sprintf("%s in process %d", b.Row, b.Process), w)
		}
	}
	for _, w := range d.Damaged {
		say("beside the rows", w)
	}
	return out
}

// damage is what was found in a window that is broken.
func (w *Window) damage() string {
	return fmt.Sprintf("lost %d, duplicated %d, out of order %d and corrupt %d of %s acknowledged records", w.Lost, w.Duplicated, w.OutOfOrder, w.Corrupt, grouped(w.Acked))
}

// tunedRows say where Kafka's second setting stood beside its first.
func tunedRows(d *Document) string {
	var names, rows []string
	for _, a := range d.Arms {
		if !a.Ours {
			names = append(names, a.Name)
		}
	}
	if len(names) < 2 {
		return ""
	}
	for _, row := range d.Rows {
		for _, b := range d.blocksOf(row.Name) {
			if len(b.windowsOf(names[1])) > 0 && row.Alone == "" && !slices.Contains(rows, row.Name) {
				rows = append(rows, row.Name)
			}
		}
	}
	if len(rows) == 0 {
		return ""
	}
	return fmt.Sprintf("settings  %s stood beside %s in %s; in all other rows Kafka has its defaults", names[1], names[0], strings.Join(rows, ", "))
}

// under reports whether a line of a row did not reach its goal, or cannot be told to.
func (r *Result) under() bool {
	for _, l := range r.Lines {
		if l.Verdict == NotMet || l.Verdict == CannotTell {
			return true
		}
	}
	return false
}

// restText is what a row under its goal spends its CPU on.
func restText(r Result, dir string) string {
	if !r.under() || r.Profile == "" {
		return ""
	}
	spent, err := Spent(filepath.Join(dir, r.Profile))
	if err != nil {
		return ""
	}
	return "spent on  " + r.Row.Name + ": " + spent
}

// figure is a number with three digits that count.
func figure(v float64) string {
	switch a := math.Abs(v); {
	case math.IsNaN(v):
		return "-"
	case a >= 1000:
		return grouped(int64(math.Round(v)))
	case a >= 100:
		return fmt.Sprintf("%.0f", v)
	case a >= 10:
		return fmt.Sprintf("%.1f", v)
	case a >= 1:
		return fmt.Sprintf("%.2f", v)
	}
	return fmt.Sprintf("%.3g", v)
}

// grouped is a whole number with commas.
func grouped(n int64) string {
	text := fmt.Sprint(n)
	for i := len(text) - 3; i > 0 && text[i-1] != '-'; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// printTable aligns columns by their widest cell.
func printTable(w io.Writer, rows [][]string) {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, c := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(c))
		}
	}
	for _, row := range rows {
		var b strings.Builder
		for i, c := range row {
			b.WriteString(c + strings.Repeat(" ", widths[i]-utf8.RuneCountInString(c)+2))
		}
		fmt.Fprintln(w, strings.TrimRight(b.String(), " "))
	}
}
