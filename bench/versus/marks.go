package versus

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tidemark/tidemark/bench/store"
)

// Marked counts the marks of an arm's windows in a row: what stands beside their figures.
type Marked struct {
	Windows int            // all of them, also of blocks that are in no ratio, and closed loops that found a capacity
	Marks   map[string]int // windows with each
}

// fresh reports whether a window wrote into memory that the host had to fetch first.
func (w *Window) fresh() bool { return slices.Contains(w.Marks, store.MarkFreshMemory) }

// mark counts a window.
func (r *Result) mark(w *Window) {
	if r.Marks == nil {
		r.Marks = map[string]*Marked{}
	}
	if r.Marks[w.Arm] == nil {
		r.Marks[w.Arm] = &Marked{Marks: map[string]int{}}
	}
	m := r.Marks[w.Arm]
	m.Windows++
	for _, name := range w.Marks {
		m.Marks[name]++
	}
}

// marksText is the marks of a row side by side; "" for none.
func marksText(d *Document, r *Result) string {
	var sides []string
	marked := false
	for _, a := range d.Arms {
		m := r.Marks[a.Name]
		if m == nil {
			continue
		}
		var parts []string
		for _, name := range slices.Sorted(maps.Keys(m.Marks)) {
			parts = append(parts, fmt.Sprintf("%s %d", name, m.Marks[name]))
		}
		if len(parts) == 0 {
			parts = []string{"none"}
		}
		marked = marked || len(m.Marks) > 0
		sides = append(sides, fmt.Sprintf("%s %s of %d", a.Name, strings.Join(parts, ", "), m.Windows))
	}
	if !marked {
		return ""
	}
	return "marks     " + r.Row.Title + ": " + strings.Join(sides, "; ") + " windows"
}

// freshWindows counts the windows of a row, and those in fresh memory.
func freshWindows(blocks []*Block) (fresh, all int) {
	for _, b := range blocks {
		for _, w := range b.Windows {
			all++
			if w.fresh() {
				fresh++
			}
		}
	}
	return fresh, all
}

// withoutFresh is a line of costs without the windows in fresh memory, or, where too few pairs remain for a ratio, the line
// as it is, which then proves nothing.
func withoutFresh(d *Document, blocks []*Block, line Line, without func() Line) Line {
	fresh, all := freshWindows(blocks)
	if fresh == 0 {
		return line
	}
	text := fmt.Sprintf("%d of %d windows in fresh memory", fresh, all)
	less := without()
	if len(less.Pairs) >= d.MinPairs && less.Processes >= min(line.Processes, minProcesses) {
		less.Fresh = text + " left out"
		return less
	}
	line.Fresh = text
	line.Doubts = append(line.Doubts, "too few pairs without those in fresh memory")
	return line
}
