package bench

import (
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tidemark/tidemark/bench/gate"
	"github.com/tidemark/tidemark/bench/stats"
	"github.com/tidemark/tidemark/bench/store"
)

// printSummary prints a bench as REPORT draws it; the last line ends with the report's path.
func printSummary(w io.Writer, d *store.Data, a *gate.Analysis) {
	length := ""
	if d.Status.Seconds > 0 {
		length = "  " + time.Duration(d.Status.Seconds*float64(time.Second)).Round(time.Second).String()
	}
	fmt.Fprintf(w, "\n%s  %d cells  %d runs%s  %s written\n", d.Plan.Suite, len(d.Plan.Cells), len(d.Runs), length, mib(a.Counts.BytesWritten))
	printCalibrations(w, d.Status.Calibrations)
	printNoise(w, d, a)
	printAxes(w, d, a)
	printCliffs(w, d, a)
	printEffects(w, d, a)
	printLadder(w, d, a)
	printCapacity(w, d, a)
	for _, n := range d.Status.Notes {
		fmt.Fprintf(w, "note: %s\n", n)
	}
	n := a.Counts
	fmt.Fprintf(w, "not counted: %s saturated, %d generator-limited, %d throttled, %d invalid, %d failed    lost %d duplicated %d out of order %d corrupt %d%s\n",
		plural(n.CellsSaturated, "cell"), n.CellsGeneratorLimited, n.CellsThrottled, n.CellsInvalid, n.CellsFailed, n.Lost, n.Duplicated, n.OutOfOrder, n.Corrupt, unverified(n))
	switch counted := countedRuns(d); {
	case counted == 0:
		fmt.Fprintln(w, "NOT ONE RUN COUNTS: each was saturated, limited by the generator or cut short, for the reasons above; try on a host that is idle")
	case counted < len(d.Runs):
		fmt.Fprintln(w, "in brackets: of runs that do not count, for what stands beside them")
	}
	fmt.Fprintf(w, "again   %s\n", strings.Join(d.Plan.Command, " "))
	fmt.Fprintf(w, "report  %s\n", filepath.Join(d.Dir, "report.html"))
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func unverified(n gate.Counts) string {
	if n.Unverified == 0 {
		return ""
	}
	return fmt.Sprintf("  (%s not verified to the end)", plural(n.Unverified, "run"))
}

// printNoise says how far one run may be off.
func printNoise(w io.Writer, d *store.Data, a *gate.Analysis) {
	var parts []string
	df := math.MaxInt // of the figure that rests on the fewest
	for _, key := range []struct {
		metric string
		kind   store.Kind
		name   string
	}{{"ack p99", store.Latency, "p99"}, {"CPU per GB", store.Latency, "CPU/GB"}, {"records", store.Capacity, "capacity"}} {
		n := a.Noise[gate.NoiseKey{Metric: key.metric, Kind: key.kind}]
		if n.Known() {
			parts = append(parts, fmt.Sprintf("%s ±%.0f%%", key.name, n.RunPercent()))
			df = min(df, n.DF)
		}
	}
	switch {
	case len(parts) > 0:
	case countedRuns(d) == 0:
		fmt.Fprintln(w, "noise: not known, no run counts")
		return
	default:
		fmt.Fprintln(w, "noise: not known, no cell has two runs that count")
		return
	}
	rest := fmt.Sprintf("%d degrees of freedom", df)
	if len(parts) > 1 {
		rest = "at least " + rest
	}
	fmt.Fprintf(w, "noise, one run, 95%%:  %s   (%s)\n", strings.Join(parts, "   "), rest)
}

// estimate is a cell's value over the runs that count; where none does, the median of those that do not stands in
// brackets.
func estimate(d *store.Data, a *gate.Analysis, cell int, metric string) string {
	if e, ok := a.Estimate(cell, metric); ok {
		return figure(e.Estimate.Value)
	}
	if v := stats.Median(uncounted(d, cell, metric)); !math.IsNaN(v) {
		return "(" + figure(v) + ")"
	}
	return "-"
}

// uncounted lists a metric's values in the runs that do not count and yet have a result.
func uncounted(d *store.Data, cell int, metric string) (values []float64) {
	m, ok := store.MetricNamed(metric)
	if !ok || m.Kind != "" && m.Kind != d.Cell(cell).Kind {
		return nil
	}
	for _, r := range d.RunsOf(cell) {
		if r.Result == nil || r.Countable() || r.Status == store.Invalid {
			continue
		}
		if v, ok := m.Value(r); ok {
			values = append(values, v)
		}
	}
	return values
}

// figure prints three digits that matter.
func figure(v float64) string {
	switch {
	case math.IsNaN(v):
		return "-"
	case v >= 1000:
		return grouped(v)
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

func ratio(r stats.Ratio) string {
	if math.IsNaN(r.Value) {
		return "-"
	}
	if math.IsNaN(r.Low) {
		return fmt.Sprintf("x%.3g", r.Value)
	}
	return fmt.Sprintf("x%-5.3g [%.3g %.3g]", r.Value, r.Low, r.High)
}

// counted is how many of a cell's runs enter, out of how many there are.
func counted(d *store.Data, cell int) string {
	runs := d.RunsOf(cell)
	n := 0
	for _, r := range runs {
		if r.Countable() {
			n++
		}
	}
	if n < len(runs) {
		return fmt.Sprintf("n=%d of %d", n, len(runs))
	}
	return fmt.Sprintf("n=%d", n)
}

func countedRuns(d *store.Data) int {
	n := 0
	for _, r := range d.Runs {
		if r.Countable() {
			n++
		}
	}
	return n
}

func cellsOf(d *store.Data, role store.Role) []*store.Cell {
	var out []*store.Cell
	for i := range d.Plan.Cells {
		if d.Plan.Cells[i].Role == role {
			out = append(out, &d.Plan.Cells[i])
		}
	}
	return out
}

// printAxes is the table of settings changed one at a time.
func printAxes(w io.Writer, d *store.Data, a *gate.Analysis) {
	axes := cellsOf(d, store.Axis)
	baselines := cellsOf(d, store.Baseline)
	if len(baselines) == 0 {
		return
	}
	t := newTable("change one setting", "", "ack p99 ms", "ratio [95%]", "delivery p99", "CPU-s/GB", "verdict")
	for _, c := range append(baselines, axes...) {
		name := "  " + c.Name
		if c.Role == store.Baseline {
			name = "baseline at " + grouped(d.Status.RateFixed) + "/s"
		}
		change := "-"
		metric := "ack p99"
		comparison, ok := a.Comparison(c.Number, metric)
		if !ok { // acks=0 has no ack: what it is compared by is delivery
			comparison, ok = a.Comparison(c.Number, "delivery p99")
			metric = "delivery p99"
		}
		if ok {
			change = ratio(comparison.Judgement.Ratio)
		}
		if ok && metric != "ack p99" {
			change += " delivery"
		}
		if c.Role == store.Baseline {
			change = ""
		}
		t.row(name, counted(d, c.Number), estimate(d, a, c.Number, "ack p99"), change, estimate(d, a, c.Number, "delivery p99"),
			estimate(d, a, c.Number, "CPU per GB"), verdictOf(d, a, c, metric))
	}
	t.print(w)
}

// verdictOf is latency's and cost's verdict in one phrase.
func verdictOf(d *store.Data, a *gate.Analysis, c *store.Cell, metric string) string {
	if c.Against == 0 {
		return ""
	}
	if text := whyNotCounted(d, c.Number); text != "" {
		return text
	}
	var parts []string
	for _, m := range []struct{ metric, word string }{{metric, "latency"}, {"CPU per GB", "cost"}} {
		if comparison, ok := a.Comparison(c.Number, m.metric); ok {
			parts = append(parts, m.word+" "+comparison.Words())
		}
	}
	if len(parts) == 2 && strings.TrimPrefix(parts[0], "latency ") == strings.TrimPrefix(parts[1], "cost ") {
		return strings.TrimPrefix(parts[0], "latency ")
	}
	return strings.Join(parts, ", ")
}

// notNeeded is the state of a rate that a search did not try.
const notNeeded = "not needed by the search"

// whyNotCounted names the state of a cell of which no run counts.
func whyNotCounted(d *store.Data, cell int) string {
	runs := d.RunsOf(cell)
	if len(runs) == 0 && d.Cell(cell).Searched {
		return notNeeded
	}
	if len(runs) == 0 {
		return "not run"
	}
	for _, r := range runs {
		if r.Countable() {
			return ""
		}
	}
	return string(runs[len(runs)-1].Status)
}

// atLeast is the estimate, or where the generator was the limit the most of what it got, as the Answer has it: a lower bound.
func atLeast(d *store.Data, a *gate.Analysis, cell int, metric string) string {
	text := estimate(d, a, cell, metric)
	if values := uncounted(d, cell, metric); strings.HasPrefix(text, "(") && len(values) > 0 && whyNotCounted(d, cell) == string(store.GeneratorLimited) {
		return ">= " + figure(slices.Max(values))
	}
	return text
}

// marksOf lists the marks that all runs of a cell carry: why there is no ratio.
func marksOf(d *store.Data, cell int) string {
	runs := d.RunsOf(cell)
	var marks []string
	for _, m := range []string{store.MarkFreshMemory, store.MarkProfiled} {
		all := len(runs) > 0
		for _, r := range runs {
			all = all && r.Marked(m)
		}
		if all {
			marks = append(marks, m+": no ratio")
		}
	}
	return strings.Join(marks, ", ")
}

// printCliffs lists what a pairwise design found.
func printCliffs(w io.Writer, d *store.Data, a *gate.Analysis) {
	if d.Plan.Design != store.Pairwise {
		return
	}
	cliffs := gate.Cliffs(d, a)
	fmt.Fprintf(w, "pairwise design: %s failed, saturated or far off; it supports no effect of a setting, since each combination changes several\n", plural(len(cliffs), "combination"))
	for _, c := range cliffs {
		fmt.Fprintf(w, "  %s: %s\n", d.Cell(c.Cell).Name, c.Why)
	}
}

func printLadder(w io.Writer, d *store.Data, a *gate.Analysis) {
	cells := cellsOf(d, store.Ladder)
	if len(cells) == 0 {
		return
	}
	t := newTable(fmt.Sprintf("load, of %s/s found", grouped(d.Status.Capacity)), "", "records/s", "ack p50", "p99", "p99.9 ms", "delivery p99", "CPU-s/GB", "")
	for _, c := range cells {
		rate := "-"
		if runs := d.RunsOf(c.Number); len(runs) > 0 {
			rate = grouped(runs[0].Rate)
		}
		t.row("  "+strings.TrimPrefix(c.Name, "load "), counted(d, c.Number), rate, estimate(d, a, c.Number, "ack p50"), estimate(d, a, c.Number, "ack p99"),
			estimate(d, a, c.Number, "ack p99.9"), estimate(d, a, c.Number, "delivery p99"), estimate(d, a, c.Number, "CPU per GB"), whyNotCounted(d, c.Number))
	}
	t.print(w)
	switch b := a.Bracket; {
	case d.Plan.SLOP99MS <= 0:
	case b.Found:
		fmt.Fprintf(w, "capacity with p99 within %g ms: from %s/s (three of three runs passed) to %s/s (three of three failed)\n", d.Plan.SLOP99MS, grouped(b.Low), grouped(b.High))
	default:
		fmt.Fprintf(w, "capacity with p99 within %g ms: not found, %s\n", d.Plan.SLOP99MS, b.Why)
	}
}

func printCapacity(w io.Writer, d *store.Data, a *gate.Analysis) {
	cells := append(cellsOf(d, store.Probe), cellsOf(d, store.Ceiling)...)
	if len(cells) == 0 {
		return
	}
	t := newTable("capacity, closed loop", "", "records/s", "MB/s", "ratio [95%]", "CPU-s/GB", "verdict")
	for _, c := range cells {
		name, change := "baseline", ""
		if c.Role == store.Ceiling {
			name = "  " + strings.TrimPrefix(c.Name, "capacity ")
			change = "-"
		}
		if comparison, ok := a.Comparison(c.Number, "throughput"); ok {
			change = ratio(comparison.Judgement.Ratio)
		}
		verdict := whyNotCounted(d, c.Number)
		if comparison, ok := a.Comparison(c.Number, "CPU per GB"); ok && verdict == "" {
			verdict = "cost " + comparison.Words()
		} else if ok && verdict == string(store.GeneratorLimited) {
			verdict += ", cost " + comparison.Words()
		}
		if verdict == "" {
			verdict = marksOf(d, c.Number)
		}
		t.row(name, counted(d, c.Number), atLeast(d, a, c.Number, "records"), atLeast(d, a, c.Number, "throughput"), change, estimate(d, a, c.Number, "CPU per GB"), verdict)
	}
	t.print(w)
}

// table aligns columns: the first two and the last to the left, numbers to the right.
type table struct{ rows [][]string }

func newTable(head ...string) *table { return &table{rows: [][]string{head}} }

func (t *table) row(cells ...string) { t.rows = append(t.rows, cells) }

func (t *table) print(w io.Writer) {
	widths := make([]int, len(t.rows[0]))
	for _, row := range t.rows {
		for i, cell := range row {
			widths[i] = max(widths[i], len([]rune(cell)))
		}
	}
	for _, row := range t.rows {
		var line strings.Builder
		for i, cell := range row {
			pad := strings.Repeat(" ", widths[i]-len([]rune(cell)))
			left := i < 2 || i == len(row)-1 || strings.HasPrefix(t.rows[0][i], "ratio")
			if left {
				line.WriteString(cell + pad + "  ")
			} else {
				line.WriteString(pad + cell + "  ")
			}
		}
		fmt.Fprintln(w, strings.TrimRight(line.String(), " "))
	}
}
