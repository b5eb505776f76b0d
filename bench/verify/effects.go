package verify

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/gonum/mathext"
	"gonum.org/v1/gonum/stat/distuv"
)

// fitted is a model of one metric by another way than the report's: orthogonal columns (Gram and Schmidt), and a fit of
// its own without each run.
type fitted struct {
	why         string
	runs        int
	noise       noise     // of one run, by the repeats of the design's cells
	lack        float64   // probability that repeats alone put the fitted cells as far off the model as they lie
	at          []float64 // of the centre and of each term, logs
	scale       []float64 // standard errors, for a noise of 1
	weakest     []float64
	likeness    []string      // what would pass for each term
	comparisons []*comparison // one for each term
	checks      []checked
	inside      int
}

// none is a change of a log that arithmetic alone makes.
const none = 1e-9

type checked struct {
	cell             int
	told             bool
	value, low, high float64 // foretold
	found            float64
}

func (c checked) inside() bool { return c.told && c.found >= c.low && c.found <= c.high }

func (f *fitted) holds() bool { return f.doubt() == "" }

// doubt is why no effect is told: each of two tests, of the cells outside and of the cells fitted, has half of 5%.
func (f *fitted) doubt() string {
	if f.why != "" {
		return f.why
	}
	if f.noise.df < 20 {
		return fmt.Sprintf("noise rests on %d degrees of freedom of repeats, 20 are needed to tell whether it holds", f.noise.df)
	}
	told := 0
	for _, k := range f.checks {
		if k.told {
			told++
			if !k.inside() {
				return "it does not hold"
			}
		}
	}
	if f.lack < 0.025 {
		return "it does not hold in the cells that it was fitted to"
	}
	if told == 0 || told != len(f.checks) {
		return fmt.Sprintf("it is not confirmed, only %d of %d cells outside tell", told, len(f.checks))
	}
	return ""
}

// columns are a cell's, as the plan's model sees it.
func (b *bench) columns(c *cell) []float64 {
	row := []float64{1}
	for _, t := range b.plan.Model {
		v := 1.0
		for _, s := range t.Settings {
			if !slices.Contains(c.Settings, s) {
				v = 0
			}
		}
		row = append(row, v)
	}
	return row
}

// least solves for the coefficients by orthogonal columns; q is what a row is in them. ok is false where columns depend on
// each other.
func least(x [][]float64, y []float64) (at []float64, solve func(row []float64) (pull []float64), ok bool) {
	p := len(x[0])
	q := make([][]float64, p) // orthonormal columns
	r := make([][]float64, p) // upper triangle: column j is the sum of r[i][j] q[i]
	for j := range p {
		q[j], r[j] = make([]float64, len(x)), make([]float64, p)
		whole := 0.0
		for i := range x {
			q[j][i] = x[i][j]
			whole += x[i][j] * x[i][j]
		}
		for range 2 { // once more, for what rounding left
			for k := range j {
				dot := 0.0
				for i := range x {
					dot += q[k][i] * q[j][i]
				}
				r[k][j] += dot
				for i := range x {
					q[j][i] -= dot * q[k][i]
				}
			}
		}
		square := 0.0
		for _, v := range q[j] {
			square += v * v
		}
		if !(square > 1e-9*math.Max(whole, 1e-300)) {
			return nil, nil, false
		}
		r[j][j] = math.Sqrt(square)
		for i := range q[j] {
			q[j][i] /= r[j][j]
		}
	}
	at = make([]float64, p)
	for j := p - 1; j >= 0; j-- {
		sum := 0.0
		for i := range x {
			sum += q[j][i] * y[i]
		}
		for k := j + 1; k < p; k++ {
			sum -= r[j][k] * at[k]
		}
		at[j] = sum / r[j][j]
	}
	// solve gives z with r' z = row, whose length is the row's standard error.
	return at, func(row []float64) []float64 {
		z := make([]float64, p)
		for j := range p {
			sum := row[j]
			for k := range j {
				sum -= r[k][j] * z[k]
			}
			z[j] = sum / r[j][j]
		}
		return z
	}, true
}

func length(v []float64) float64 {
	sum := 0.0
	for _, x := range v {
		sum += x * x
	}
	return math.Sqrt(sum)
}

// whole reports whether all of a cell's runs count and had settled.
func (b *bench) whole(number int) bool {
	for _, r := range b.runsOf(number) {
		if !r.counts() || slices.ContainsFunc(r.result.Verdicts, func(v struct {
			Kind string `json:"kind"`
		}) bool {
			return v.Kind == "unsettled"
		}) {
			return false
		}
	}
	return len(b.runsOf(number)) > 0
}

func (b *bench) fit(m metric) *fitted {
	f := &fitted{}
	var cells []*cell // that entered
	var logs [][]float64
	var x [][]float64 // of their runs
	var y []float64
	left := 0
	for i := range b.plan.Cells {
		c := &b.plan.Cells[i]
		centre := c.Role == "baseline"
		if c.Outside || !centre && (c.Role != "axis" || c.Against != 0) || len(b.runsOf(c.Number)) == 0 {
			continue
		}
		values := b.values(m, c.Number, true)
		if !centre && !b.whole(c.Number) || len(values) == 0 {
			left++
			continue
		}
		cells, logs = append(cells, c), append(logs, positive(values))
		for _, v := range positive(values) {
			x, y = append(x, b.columns(c)), append(y, v)
		}
	}
	n, p := len(y), 1+len(b.plan.Model)
	f.runs, f.noise = n, repeated(slices.Concat(logs, b.telling(m)))
	switch {
	case n-p < 10:
		f.why = fmt.Sprintf("%d runs that count leave %d effects %d degrees of freedom, 10 are needed", n, p-1, max(0, n-p))
	case f.noise.df == 0:
		f.why = "no cell ran twice, and repeats alone tell noise"
	}
	if f.why != "" {
		return f
	}
	at, solve, ok := least(x, y)
	if !ok {
		f.why = fmt.Sprintf("what is left when %d cells have left it does not tell its effects apart", left)
		return f
	}
	f.at = at
	for j := range at {
		if math.Abs(at[j]) < none {
			at[j] = 0
		}
		unit := make([]float64, p)
		unit[j] = 1
		f.scale = append(f.scale, length(solve(unit)))
	}
	f.lacking(b, cells, logs)
	f.without(x, y)
	f.liken(b, cells, logs, x)
	for j, t := range b.plan.Model {
		f.comparisons = append(f.comparisons, f.effect(1+j, t, m, b.plan.Allowance))
	}
	f.outside(b, m, solve)
	return f
}

// telling are the logs of the cells outside a design whose runs all count.
func (b *bench) telling(m metric) (logs [][]float64) {
	for _, c := range b.plan.Cells {
		if c.Outside && b.whole(c.Number) {
			logs = append(logs, positive(b.values(m, c.Number, true)))
		}
	}
	return logs
}

// repeated is the noise of one run by what runs of one cell differ: each pair of them once.
func repeated(cells [][]float64) (n noise) {
	squares := 0.0
	for _, v := range cells {
		for i := range v {
			for k := range i {
				squares += (v[i] - v[k]) * (v[i] - v[k]) / float64(len(v))
			}
		}
		n.df += max(0, len(v)-1)
	}
	if n.df > 0 {
		n.sigma = math.Sqrt(squares / float64(n.df))
	}
	return n
}

// foretold is what the model says of a row, on the log scale.
func (f *fitted) foretold(row []float64) (at float64) {
	for j, v := range row {
		at += v * f.at[j]
	}
	return at
}

// lacking tests what the fitted cells' means vary about the model against the noise of repeats.
func (f *fitted) lacking(b *bench, cells []*cell, logs [][]float64) {
	f.lack = 1
	squares, over := 0.0, -len(f.at)
	for i, c := range cells {
		if len(logs[i]) > 0 {
			off := mean(logs[i]) - f.foretold(b.columns(c))
			squares += off * off * float64(len(logs[i]))
			over++
		}
	}
	if over <= 0 || squares < float64(over)*none*none {
		return
	}
	// The tail of F is a regularized incomplete beta function of the share of noise in both.
	own := float64(f.noise.df) * f.noise.sigma * f.noise.sigma
	f.lack = mathext.RegIncBeta(float64(f.noise.df)/2, float64(over)/2, own/(own+squares))
}

// liken finds for each term the interaction of two settings outside the model that it would hold most of: such a column is
// fitted like a metric.
func (f *fitted) liken(b *bench, cells []*cell, logs, x [][]float64) {
	f.likeness = make([]string, len(b.plan.Model))
	most := make([]float64, len(b.plan.Model))
	for _, pair := range b.pairs(cells, logs) {
		var column []float64
		for i, c := range cells {
			v := 0.0
			if hasAll(c.Settings, pair) {
				v = 1
			}
			column = append(column, slices.Repeat([]float64{v}, len(logs[i]))...)
		}
		at, _, _ := least(x, column)
		for j := range most {
			share := math.Round(math.Round(at[1+j]*1e9)/1e9*100) / 100
			if math.Abs(share) >= 0.05 && math.Abs(share) > math.Abs(most[j]) {
				most[j] = share
				f.likeness[j] = fmt.Sprintf("%.2f of %s", share, cut(fmt.Sprintf("%s=%s × %s=%s", pair[0].Axis, pair[0].Value, pair[1].Axis, pair[1].Value), 60))
			}
		}
	}
}

func hasAll(list, wanted []setting) bool {
	return !slices.ContainsFunc(wanted, func(s setting) bool { return !slices.Contains(list, s) })
}

// pairs are the settings that some cell has two of, and that no term is for, in the order of the cells.
func (b *bench) pairs(cells []*cell, logs [][]float64) (list [][]setting) {
	for _, t := range b.plan.Model {
		if len(t.Settings) == 2 {
			list = append(list, t.Settings)
		}
	}
	terms := len(list)
	for i, c := range cells {
		for k, a := range c.Settings {
			for _, z := range c.Settings[k+1:] {
				known := slices.ContainsFunc(list, func(p []setting) bool { return hasAll(p, []setting{a, z}) })
				if !known && len(logs[i]) > 0 {
					list = append(list, []setting{a, z})
				}
			}
		}
	}
	return list[terms:]
}

// without fits once more without each run and keeps the least of each effect.
func (f *fitted) without(x [][]float64, y []float64) {
	f.weakest = make([]float64, len(f.at))
	for j := range f.at {
		f.weakest[j] = math.Abs(f.at[j])
	}
	for i := range x {
		at, _, ok := least(slices.Concat(x[:i], x[i+1:]), slices.Concat(y[:i], y[i+1:]))
		for j := range f.at {
			if !ok {
				f.lone(x, y, i, j)
				continue
			}
			if v := at[j] * math.Copysign(1, f.at[j]); v < f.weakest[j] { // never below NaN, which stays
				f.weakest[j] = v
			}
		}
	}
}

// lone is a run without which the columns cannot be told apart: of the effects that it alone tells, and that move when it
// does, nothing is left.
func (f *fitted) lone(x [][]float64, y []float64, i, j int) {
	moved := slices.Clone(y)
	moved[i]++
	if at, _, ok := least(x, moved); ok && math.Abs(at[j]-f.at[j]) > 1e-9 {
		f.weakest[j] = math.NaN()
	}
}

func (f *fitted) effect(j int, t term, m metric, allowance float64) *comparison {
	k := &comparison{metric: m, noise: f.noise, runs: f.runs, base: f.runs, weakest: f.weakest[j]}
	e := f.noise.sigma * f.scale[j]
	half := f.noise.t() * e
	k.ratio, k.low, k.high = math.Exp(f.at[j]), math.Exp(f.at[j]-half), math.Exp(f.at[j]+half)
	switch {
	case f.at[j] == 0:
		k.p = 1
	case e > 0:
		k.p = 2 * distuv.StudentsT{Sigma: 1, Nu: float64(f.noise.df)}.Survival(math.Abs(f.at[j]/e))
	}
	k.judge(allowance)
	if k.verdict == "cannot tell" && !k.reason {
		at, low, high := k.bad()
		n := 1
		for ; n <= 1000; n++ {
			h := (high - low) / 2 * noise{df: f.noise.df + n}.t() / f.noise.t() * math.Sqrt(float64(f.runs)/float64(f.runs+n))
			if verdictOf(at, at-h, at+h, math.Log1p(allowance)) != "cannot tell" {
				break
			}
		}
		k.words = fmt.Sprintf("cannot tell: %d more runs", n)
		switch {
		case n > 1000:
			k.words = "cannot tell: over 1000 more runs"
		case n == 1:
			k.words = "cannot tell: 1 more run"
		}
	}
	return k
}

// outside foretells the cells that the fit has not seen, all of them together in 97.5% of all cases.
func (f *fitted) outside(b *bench, m metric, solve func([]float64) []float64) {
	n := 0
	for _, c := range b.plan.Cells {
		if c.Outside {
			n++
		}
	}
	for i := range b.plan.Cells {
		c := &b.plan.Cells[i]
		if !c.Outside {
			continue
		}
		v := positive(b.values(m, c.Number, true))
		k := checked{cell: c.Number, told: b.whole(c.Number) && len(v) > 0, found: math.NaN()}
		if len(v) > 0 {
			k.found = math.Exp(mean(v))
		}
		row := b.columns(c)
		at := f.foretold(row)
		t := distuv.StudentsT{Sigma: 1, Nu: float64(f.noise.df)}.Quantile(1 - 0.025/float64(n)/2)
		half := max(none, t*f.noise.sigma*math.Hypot(math.Sqrt(1/float64(max(1, len(v)))), length(solve(row))))
		k.value, k.low, k.high = math.Exp(at), math.Exp(at-half), math.Exp(at+half)
		if k.inside() {
			f.inside++
		}
		f.checks = append(f.checks, k)
	}
}

// fits are the models of all metrics of latency cells, with what stands among all of their effects: those that the Answer may
// name are a family of their own.
func (b *bench) fits() map[string]*fitted {
	if b.models != nil || b.plan.Design != "effects" || len(b.plan.Model) == 0 {
		return b.models
	}
	out := map[string]*fitted{}
	var all []*comparison
	centre := slices.IndexFunc(b.plan.Cells, func(c cell) bool { return c.Role == "baseline" })
	for _, m := range metrics() {
		if m.kind == "capacity" {
			continue
		}
		f := b.fit(m)
		for _, k := range f.comparisons {
			k.primary = centre >= 0 && (m.name == clockOf(&b.plan.Cells[centre])+" p99" || m.name == "CPU per GB")
		}
		out[m.name] = f
		all = append(all, f.comparisons...)
	}
	settle(all)
	b.models = out
	return out
}

// modelled is the Answer's sentence about the effects.
func (w *writer) modelled() string {
	fits := w.b.fits()
	if fits == nil || w.baseline == nil {
		return ""
	}
	var parts []string
	for _, name := range []string{clockOf(w.baseline) + " p99", "CPU per GB"} {
		f := fits[name]
		if f.why != "" {
			parts = append(parts, "on "+name+" are not known: "+f.why)
			continue
		}
		text := fmt.Sprintf("on %s, by a model that held in %d of %d cells outside its design: ", name, f.inside, len(f.checks))
		var stand []string
		for i, k := range f.comparisons {
			if k.found(false) {
				stand = append(stand, fmt.Sprintf("%s %s (%s)", cut(w.b.plan.Model[i].Name, 60), k.times(), k.words))
			}
		}
		switch n := len(stand); {
		case !f.holds():
			text += "none is told, for " + f.doubt()
		case n == 0:
			text += "none stands"
		case n > 6:
			text += strings.Join(stand[:6], ", ") + fmt.Sprintf(" and %d more", n-6)
		default:
			text += strings.Join(stand, ", ")
		}
		parts = append(parts, text)
	}
	return "Effects " + strings.Join(parts, "; ") + "."
}

// saidOf is the verdict on an effect as tables have it.
func (f *fitted) saidOf(k *comparison) string {
	if !f.holds() && (k.verdict == "better" || k.verdict == "worse") {
		return k.words + ", if the model held"
	}
	return k.said()
}

// effectTable recomputes the effects on one metric.
func (o *Outcome) effectTable(place string, t table, b *bench) {
	name := strings.TrimPrefix(t.head[0], "effect on ")
	f := b.fits()[name]
	if f == nil || f.why != "" || len(t.rows) != len(f.comparisons) {
		o.find(place, "a table of effects on %s, which follow from no run", name)
		return
	}
	for i, row := range t.rows {
		k, one := f.comparisons[i], b.plan.Model[i]
		tq := f.noise.t() + distuv.StudentsT{Sigma: 1, Nu: float64(f.noise.df)}.Quantile(0.80)
		want := []string{cut(one.Name, 60), k.times(), f.saidOf(k), "×" + three(math.Exp(tq*f.noise.sigma*f.scale[1+i])), cmp.Or(f.likeness[i], "–")}
		for j := range want {
			o.Published++
			if j >= len(row) || row[j] != want[j] {
				o.find(place, "%s of effect %s on %s is %q there, by the runs it is %q", t.head[j], one.Name, name, strings.Join(row[min(j, len(row)):min(j+1, len(row))], ""), want[j])
			}
		}
	}
}

// outsideTable recomputes what a model foretold of the cells outside its design.
func (o *Outcome) outsideTable(place string, t table, b *bench) {
	name, _, _ := strings.Cut(t.head[1], " foretold, ")
	f := b.fits()[name]
	if f == nil || len(t.rows) != len(f.checks) {
		o.find(place, "a table of cells outside a design, for %s, which follows from no run", name)
		return
	}
	for i, row := range t.rows {
		k := f.checks[i]
		c := &b.plan.Cells[k.cell-1]
		where := "outside"
		switch {
		case !k.told:
			where = "does not tell"
		case k.inside():
			where = "inside"
		}
		found := three(k.found)
		for j, want := range []string{cut(c.Name, 1<<20), three(k.value) + " " + brackets(k.low, k.high), found, where} {
			if j < len(row) && j > 0 {
				o.published(place, c, t.head[j]+" of the model of "+name, row[j], want)
			}
		}
	}
}
