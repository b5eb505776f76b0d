package versus

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/tidemark/tidemark/bench/store"
)

func TestMarksAreCountedByRowAndSide(t *testing.T) {
	d := document(Goal{Measure: "MB per CPU-s", Ratio: 2}, [][][2]float64{repeat([2]float64{250, 100}, 3)})
	if text := strings.Join(footers(d, Analyse(d), ""), "\n"); strings.Contains(text, "marks  ") {
		t.Errorf("marks of windows that have none:\n%s", text)
	}
	ours, theirs := d.Blocks[0].windowsOf("tidemark"), d.Blocks[0].windowsOf("kafka")
	for _, w := range ours {
		w.Marks = []string{store.MarkSteal}
	}
	ours[0].Marks = append(ours[0].Marks, store.MarkLate)
	d.Blocks[0].Probes = []*Window{{Arm: "tidemark", Status: "ok", Reached: 1}}
	want := "marks     a row: tidemark late pacer 1, steal 3 of 4; kafka none of 3 windows"
	if text := footers(d, Analyse(d), ""); !slices.Contains(text, want) {
		t.Errorf("no %q in %q", want, text)
	}
	theirs[2].Marks = []string{store.MarkCeilingMoved}
	dir := t.TempDir()
	for name, text := range map[string]string{"html": page(d, Analyse(d), dir), "md": markdown(d, Analyse(d), dir)} {
		if !strings.Contains(text, "tidemark late pacer 1, steal 3 of 4; kafka ceiling moved 1 of 3 windows") {
			t.Errorf("%s:\n%s", name, text)
		}
	}
}

// TestWindowsInFreshMemoryLeaveTheCostsWhereEnoughPairsRemain: where they do not, that is said and nothing is proved (METHOD 5).
func TestWindowsInFreshMemoryLeaveTheCostsWhereEnoughPairsRemain(t *testing.T) {
	p := repeat([2]float64{250, 100}, 3)
	fresh := func(d *Document, blocks ...int) *Document {
		for _, i := range blocks {
			w := d.Blocks[i].windowsOf("kafka")[0]
			w.Marks, w.WireBytes = []string{store.MarkFreshMemory}, 10e6 // ten times the cost: each page faults in the host
		}
		return d
	}
	goal := Goal{Measure: "MB per CPU-s", Ratio: 2}
	all := func() *Document { return document(goal, [][][2]float64{p, p, p}) }
	text := func(d *Document) (Line, string) {
		r := Analyse(d)
		return r[0].Lines[0], strings.Join(cells(&r[0], 0), " | ")
	}
	if l, row := text(all()); len(l.Pairs) != 9 || l.Fresh != "" || strings.Contains(row, "fresh") {
		t.Errorf("none is fresh: %d pairs, %s", len(l.Pairs), row)
	}
	l, row := text(fresh(all(), 0, 2))
	if len(l.Pairs) != 7 || l.Ratio.Value > 2.6 || l.Verdict != Met || !strings.Contains(row, "2 of 18 windows in fresh memory left out") {
		t.Errorf("%d pairs, x%v, %s, %s", len(l.Pairs), l.Ratio.Value, l.Verdict, row)
	}
	d := document(goal, [][][2]float64{p[:2], p[:2], p[:2]})
	l, row = text(fresh(d, 0, 1))
	if len(l.Pairs) != 6 || l.Verdict != CannotTell || !strings.Contains(row, "2 of 12 windows in fresh memory)") || !strings.Contains(row, "too few pairs without") {
		t.Errorf("four pairs remain: %d pairs, %s, %s", len(l.Pairs), l.Verdict, row)
	}
	d = document(goal, [][][2]float64{p, p, p[:1]})
	if l, row = text(fresh(d, 2)); len(l.Pairs) != 7 || l.Verdict != CannotTell || !strings.Contains(row, "too few pairs without") {
		t.Errorf("two processes remain: %d pairs, %s, %s", len(l.Pairs), l.Verdict, row)
	}
	// A latency is no cost.
	d = fresh(all(), 0)
	d.Rows[0].Goals = []Goal{{Measure: "ack p99", AtMost: 0.5}}
	for _, b := range d.Blocks {
		for _, w := range b.Windows {
			w.Percentiles = map[string]Percentile{"ack p99": {MS: 1}}
		}
	}
	if l, row = text(d); len(l.Pairs) != 9 || strings.Contains(row, "fresh") || math.IsNaN(l.Ratio.Value) {
		t.Errorf("latency: %d pairs, %s", len(l.Pairs), row)
	}
}
