package verify

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// answer makes the sentences of the Answer again. early takes the words of versions before hashes.txt.
func (s *sums) answer(b *bench, early bool) []string {
	w := &writer{b: b, s: s, early: early}
	for i := range b.plan.Cells {
		c := &b.plan.Cells[i]
		if c.Role == "baseline" && w.baseline == nil {
			w.baseline = c
		}
		if c.Role == "probe" && w.probe == nil {
			w.probe = c
		}
	}
	var out []string
	for _, text := range []string{w.damage(), w.uncounted(), w.carried(), w.latency(), w.modelled(), w.changed(), w.untold()} {
		if text != "" {
			out = append(out, text)
		}
	}
	switch len(out) {
	case 0:
		text := fmt.Sprintf("Nothing was measured: %d of %d runs finished, and none of them counts", len(b.runs), len(b.plan.Runs))
		if b.state.Error != "" {
			text += " (" + cut(b.state.Error, 200) + ")"
		}
		return []string{text + ".", w.standing()}
	case 1:
		return append(out, w.standing())
	}
	if len(out) > 5 {
		return append(out[:4], strings.Join(out[4:], " "))
	}
	return out
}

type writer struct {
	b               *bench
	s               *sums
	early           bool
	baseline, probe *cell
}

func (w *writer) standing() string {
	state := w.b.state.State
	if state == "" {
		state = "of unknown state"
	}
	return fmt.Sprintf("The run is %s, with %d of %d runs done in %s.", state, len(w.b.runs), w.b.planned(), many(len(w.b.plan.Cells), "cell"))
}

// tally sums verification over measured and profiled runs, and counts the cells with a run of each state.
func (w *writer) tally() (lost, duplicated, disordered, corrupt int64, cells map[string]int, unverified int) {
	cells = map[string]int{}
	for i := range w.b.plan.Cells {
		seen := map[string]bool{}
		for _, r := range slices.Concat(w.b.runs, w.b.profiled) {
			if r.Cell != i+1 {
				continue
			}
			if !r.marked("profiled") || r.Status == "invalid" || r.Status == "failed" {
				seen[r.Status] = true
			}
			if r.result == nil {
				continue
			}
			v := r.result.Verification
			lost, duplicated, disordered, corrupt = lost+v.Lost, duplicated+v.Duplicated, disordered+v.OutOfOrder, corrupt+v.Corrupt
			if !v.On || !v.Complete {
				unverified++
			}
		}
		for s := range seen {
			cells[s]++
		}
	}
	return lost, duplicated, disordered, corrupt, cells, unverified
}

func (w *writer) damage() string {
	lost, duplicated, disordered, corrupt, cells, _ := w.tally()
	if lost+duplicated+disordered+corrupt == 0 && cells["invalid"]+cells["failed"] == 0 {
		return ""
	}
	text := fmt.Sprintf("Verification does not pass: %s lost, %s duplicated, %s out of order, %s corrupt; %s invalid and %d failed: ",
		apart(float64(lost)), apart(float64(duplicated)), apart(float64(disordered)), apart(float64(corrupt)), many(cells["invalid"], "cell"), cells["failed"])
	var names []string
	for i := range w.b.plan.Cells {
		if w.harmed(i + 1) {
			names = append(names, cut(w.b.plan.Cells[i].Name, 40))
		}
	}
	switch {
	case len(names) == 0:
		text += "see the verification"
	case len(names) > 4:
		text += strings.Join(names[:4], ", ") + " and others"
	default:
		text += strings.Join(names, ", ")
	}
	return text + ". Use no figure of theirs."
}

func (w *writer) harmed(number int) bool {
	return slices.ContainsFunc(w.b.runsOf(number), func(r *run) bool {
		bad := r.Status == "invalid" || r.Status == "failed"
		if r.result != nil {
			v := r.result.Verification
			bad = bad || v.Lost+v.Duplicated+v.OutOfOrder+v.Corrupt > 0
		}
		return bad
	})
}

func (b *bench) countedOf(number int) (n int) {
	for _, r := range b.runsOf(number) {
		if r.counts() {
			n++
		}
	}
	return n
}

// state says why a cell's runs do not all count.
func (b *bench) stateOf(number int) string {
	runs := b.runsOf(number)
	if len(runs) == 0 && b.plan.Cells[number-1].Searched {
		return "not needed by the search"
	}
	if len(runs) == 0 {
		return "not run"
	}
	if b.countedOf(number) == len(runs) {
		return ""
	}
	var parts []string
	for _, s := range []string{"failed", "invalid", "partial", "generator-limited", "throttled", "saturated"} {
		n := 0
		for _, r := range runs {
			if r.Status == s {
				n++
			}
		}
		if n == len(runs) {
			parts = append(parts, s)
		} else if n > 0 {
			parts = append(parts, fmt.Sprintf("%d of %d %s", n, len(runs), s))
		}
	}
	profiled := 0
	for _, r := range runs {
		if r.Status == "ok" && !r.counts() {
			profiled++
		}
	}
	if profiled > 0 && len(parts) == 0 {
		return fmt.Sprintf("%d of %d profiled", profiled, len(runs))
	}
	return strings.Join(parts, ", ")
}

func (w *writer) uncounted() string {
	if w.baseline == nil {
		return ""
	}
	n := w.baseline.Number
	runs := w.b.runsOf(n)
	if len(runs) == 0 || w.b.countedOf(n) > 0 || w.harmed(n) {
		return ""
	}
	counted := 0
	for _, r := range w.b.runs {
		if r.counts() {
			counted++
		}
	}
	text := fmt.Sprintf("Latency is not told: %d of %d runs count, and none of the baseline's (%s", counted, len(w.b.runs), w.b.stateOf(n))
	if len(runs[0].Reasons) > 0 {
		text += ": " + cut(runs[0].Reasons[0], 140)
	}
	return text + "), so nothing is compared with it."
}

func (e estimate) brackets() string {
	if text := brackets(e.low, e.high); text != "" {
		return text
	}
	return "[interval not known]"
}

// rateOf is what a cell's runs were asked for.
func (b *bench) rateOf(c *cell) float64 {
	for _, r := range b.runsOf(c.Number) {
		if r.Rate > 0 {
			return r.Rate
		}
	}
	return c.Rate
}

// clockOf is the clock that a cell is judged by.
func clockOf(c *cell) string {
	if c.Asked.Acks == "0" {
		return "delivery"
	}
	return "ack"
}

func (w *writer) carried() string {
	text := ""
	if w.probe != nil {
		n := w.probe.Number
		if e, ok := w.s.estimates[n]["records"]; ok {
			text = "In a closed loop the baseline carried " + three(e.value) + " records/s " + e.brackets()
			if e, ok := w.s.estimates[n]["throughput"]; ok {
				text += fmt.Sprintf(" (%s MB/s %s)", three(e.value), e.brackets())
			}
			if e, ok := w.s.estimates[n]["CPU per GB"]; ok {
				text += fmt.Sprintf(" for %s CPU-s/GB %s", three(e.value), e.brackets())
			}
		}
		text += w.bound(n)
	}
	best, at := 0.0, (*cell)(nil)
	var saturated []string
	for i := range w.b.plan.Cells {
		c := &w.b.plan.Cells[i]
		if c.Role != "ladder" {
			continue
		}
		runs, counted := len(w.b.runsOf(c.Number)), w.b.countedOf(c.Number)
		if counted > 0 && counted == runs {
			if rate := w.b.rateOf(c); rate > best {
				best, at = rate, c
			}
		} else if strings.Contains(w.b.stateOf(c.Number), "saturated") {
			saturated = append(saturated, apart(w.b.rateOf(c))+"/s")
		}
	}
	if at != nil {
		lead := "; at "
		if text == "" {
			lead = "At "
		}
		text += lead + apart(best) + " records/s offered, the highest rate held in every run"
		name := clockOf(at) + " p99"
		if e, ok := w.s.estimates[at.Number][name]; ok {
			text += fmt.Sprintf(", %s was %s ms %s", name, three(e.value), e.brackets())
		}
	}
	if n := len(saturated); n > 0 && text != "" {
		list := saturated[0]
		if n > 1 {
			list = strings.Join(saturated[:n-1], ", ") + " and " + saturated[n-1]
		}
		text += "; " + list + " was not held"
	}
	if under := w.b.underObjective(); under != "" && !w.early {
		if text == "" {
			text = strings.ToUpper(under[:1]) + under[1:]
		} else {
			text += "; " + under
		}
	}
	if text == "" {
		return ""
	}
	return text + "."
}

// bound is what a probe that the generator limited carried all the same.
func (w *writer) bound(probe int) string {
	most, why := 0.0, ""
	for _, r := range w.b.runsOf(probe) {
		if r.Status != "generator-limited" || r.result == nil {
			continue
		}
		most = max(most, r.result.Produce.RecordsPerSec)
		if len(r.Reasons) > 0 {
			why = ", " + cut(r.Reasons[0], 140)
		}
	}
	if most == 0 || w.b.countedOf(probe) > 0 {
		return ""
	}
	return fmt.Sprintf("In a closed loop the baseline carried at least %s records/s (a lower bound without interval: the generator was the limit%s)", three(most), why)
}

func (w *writer) latency() string {
	if w.baseline == nil {
		return ""
	}
	text, c := "", w.baseline
	for _, p := range []float64{50, 99, 99.9} {
		name := fmt.Sprintf("%s p%g", clockOf(c), p)
		e, ok := w.s.estimates[c.Number][name]
		if !ok {
			continue
		}
		if text == "" {
			text = "At " + apart(w.b.rateOf(c)) + " records/s the baseline's "
		} else {
			text += ", "
		}
		text += fmt.Sprintf("%s was %s ms %s", name, three(e.value), e.brackets())
		if n, ok := w.b.stalls(c.Number, clockOf(c), p); ok && n < 10 {
			text += fmt.Sprintf(" in only %s a run", many(int(math.Round(n)), "stall"))
		}
	}
	if text == "" {
		return ""
	}
	return text + ", from the intended time, over " + many(w.b.countedOf(c.Number), "run") + "."
}

// stalls is the median number of separate stalls behind a percentile of a cell's runs that count.
func (b *bench) stalls(number int, clock string, p float64) (float64, bool) {
	var all []float64
	for _, r := range b.runsOf(number) {
		if !r.counts() {
			continue
		}
		for _, q := range r.result.Clocks[clock].Percentiles {
			if q.P == p {
				all = append(all, float64(q.Excursions))
			}
		}
	}
	if len(all) == 0 {
		return 0, false
	}
	slices.Sort(all)
	return (all[(len(all)-1)/2] + all[len(all)/2]) / 2, true
}

// findings are the comparisons that the Answer may name.
func (w *writer) findings() (list []*comparison, primary bool) {
	for _, k := range w.s.comparisons {
		primary = primary || k.primary
	}
	for _, k := range w.s.comparisons {
		c := &w.b.plan.Cells[k.cell-1]
		main := clockOf(c) + " p99"
		if c.Kind == "capacity" {
			main = "throughput"
		}
		if (k.primary || !primary) && (k.metric.name == main || k.metric.name == "CPU per GB") {
			list = append(list, k)
		}
	}
	return list, primary
}

func (w *writer) name(k *comparison) string { return cut(w.b.plan.Cells[k.cell-1].Name, 48) }

func (w *writer) changed() string {
	list, primary := w.findings()
	cells := map[int]bool{}
	judged := false
	var parts []string // one for each cell with a finding
	last := 0
	for _, k := range list {
		cells[k.cell] = true
		judged = judged || !k.reason
		if !k.found(w.early) {
			continue
		}
		text := fmt.Sprintf("%s %s (%s)", k.metric.name, k.times(), k.words)
		if k.cell == last {
			parts[len(parts)-1] += " and " + text
		} else {
			parts = append(parts, w.name(k)+" made "+text)
		}
		last = k.cell
	}
	if !judged {
		return ""
	}
	open := "named beforehand, "
	if !primary {
		open = "(exploratory, none was named beforehand), "
	}
	open = "Of " + many(len(cells), "change") + " " + open
	switch n := len(parts); {
	case n == 0:
		return open + "none made latency, throughput or cost better or worse beyond doubt."
	case n > 6:
		return open + strings.Join(parts[:6], "; ") + fmt.Sprintf("; %d more did so too.", n-6)
	}
	return open + strings.Join(parts, "; ") + "."
}

func (w *writer) untold() string {
	list, _ := w.findings()
	var parts []string
	noWorse := 0
	for _, k := range list {
		words := k.words
		if w.early {
			words = k.early
		}
		switch {
		case k.found(w.early):
		case k.verdict == "no worse":
			noWorse++
		default:
			text := fmt.Sprintf("%s in %s %s", w.name(k), k.metric.name, k.times())
			if why, ok := strings.CutPrefix(words, "cannot tell: "); ok {
				text += " (" + strings.NewReplacer("more runs", "more runs would", "more run", "more run would").Replace(why) + ")"
			} else if k.verdict != "cannot tell" && !w.early {
				text += " (" + words + ", " + k.doubt(len(list)) + ")"
			}
			parts = append(parts, text)
		}
	}
	var out []string
	if n := len(parts); n > 6 {
		parts = append(parts[:6:6], fmt.Sprintf("%d more", n-6))
	}
	if len(parts) > 0 {
		out = append(out, "Cannot be told from the baseline: "+strings.Join(parts, "; "))
	}
	if noWorse > 0 {
		out = append(out, fmt.Sprintf("%s no worse than %.3g%%", many(noWorse, "comparison"), 100*w.b.plan.Allowance))
	}
	if len(out) == 0 {
		return ""
	}
	return strings.Join(out, "; ") + "."
}

// doubt says why a verdict does not stand.
func (k *comparison) doubt(among int) string {
	if k.oneRun() {
		return "but one run alone makes it so"
	}
	return "but that may be chance among " + many(among, "comparison")
}
