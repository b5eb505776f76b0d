// Package verify does a bench's arithmetic again, by a second and plain program (METHOD 8): from the histogram logs, the
// counters and the plan to every published figure, verdict and sentence of the Answer.
//
//	.hlog --own decoder--> percentiles --+--> compared with result.json, repeat by repeat
//	samples, counts -------> cost -------+
//	limits of METHOD 3 ----> each run's state and marks, whatever verdicts its result lists
//	plan.json, status --> noise, ratios, verdicts --> tables of report.md and report.html, and the Answer, word by word
//	hashes.txt, result.json -----------> SHA-256 of every file
//
// It shares no code with stats, gate, store and report, which made the figures: it reads the JSON with structs of its
// own, decodes HdrHistogram itself and has its own rounding, so that a mistake there is not made here again. What the
// files do not hold cannot be recomputed and is listed as such. The seal is checked last, for it shows accidents, not
// forgery: a figure that was changed and sealed again is found by the arithmetic. The package writes nothing, keeps no
// state and never panics on what it reads.
package verify

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// Finding is one thing that does not hold.
type Finding struct {
	Place string // "cell 7 linger=5ms, repeat 2", "report.md", "the Answer"
	Text  string
}

// Outcome is what a verification did.
type Outcome struct {
	Cells, Runs int
	Histograms  int // decoded
	Figures     int // of single runs, recomputed
	Published   int // figures and verdicts of the reports, recomputed
	Sentences   int // of the Answer, made again
	Files       int // whose SHA-256 was compared
	// OneLow counts percentiles that stand one record lower than the records above them say, as versions before
	// hashes.txt read every sixth: taken as they are, and said.
	OneLow int
	Sealed bool
	// NotChecked lists what could not be recomputed from what is there, and why.
	NotChecked []string
	Findings   []Finding
}

// maxFindings bounds the list: a folder that is wrong everywhere need not be listed whole.
const maxFindings = 2000

func (o *Outcome) find(place, format string, a ...any) {
	if len(o.Findings) < maxFindings {
		o.Findings = append(o.Findings, Finding{place, fmt.Sprintf(format, a...)})
	}
}

func (o *Outcome) skip(format string, a ...any) {
	text := fmt.Sprintf(format, a...)
	if !slices.Contains(o.NotChecked, text) {
		o.NotChecked = append(o.NotChecked, text)
	}
}

// Dir verifies the folder of a bench run. The error is for a folder that cannot be read as one at all (it is none, its
// plan is damaged, it is of a newer version); everything else that does not hold is a Finding.
func Dir(dir string) (*Outcome, error) {
	b, err := read(dir)
	if err != nil {
		return nil, err
	}
	o := &Outcome{Cells: len(b.plan.Cells)}
	for _, problem := range b.problems {
		o.find(problem.Place, "%s", problem.Text)
	}
	if _, err := os.Stat(filepath.Join(dir, SealName)); err == nil {
		o.Sealed = true
	}
	o.suite(b)
	for _, r := range slices.Concat(b.runs, b.profiled) {
		o.run(b, r)
		o.asked(r)
	}
	o.Runs = len(b.runs) + len(b.profiled)
	if o.OneLow > 0 {
		o.skip("%d percentiles stand one record lower than the records above them say, as an earlier version read them: taken as they are", o.OneLow)
	}
	if b.plan.Design == "pairwise" {
		o.skip("the list of cliffs of a pairwise design: tidemark bench report makes it again from the same runs")
	}
	o.stops(b)
	s := analyse(b)
	o.reports(b, s)
	o.seal(b)
	return o, nil
}
