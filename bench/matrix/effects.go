package matrix

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/tidemark/tidemark/bench/gate"
	"github.com/tidemark/tidemark/bench/stats"
	"github.com/tidemark/tidemark/bench/store"
	"github.com/tidemark/tidemark/bench/suites"
	"github.com/tidemark/tidemark/loadgen/workload"
)

// What an effects design must have (METHOD 6), and what it is bounded by.
const (
	leastResidual  = 10   // degrees of freedom that the model leaves over
	usualResidual  = 20   // what a design that is told no number of points goes for
	outside        = 5    // cells that the model is not fitted to and must foretell
	mostCandidates = 2000 // a design chooses among; of more, the seed draws these
	mostTerms      = 60
	starts         = 4 // from which exchanges begin; the best end is taken
)

// effects adds the cells of a D-optimal design for the suite's model, and five outside it. The baseline is its centre: every
// axis at its own value, repeated.
func (b *builder) effects() {
	if b.err != nil {
		return
	}
	m := &b.suite.Matrix
	fail := func(format string, a ...any) {
		b.err = fmt.Errorf("%s: %s: %w", b.suite.File, fmt.Sprintf(format, a...), suites.ErrSuite)
	}
	axes, candidates, err := b.candidates()
	if err != nil {
		b.err = err
		return
	}
	model := terms(m.Model, axes)
	p := 1 + len(model)
	if len(model) > mostTerms {
		fail("the model has %d effects, %d are the most", len(model), mostTerms)
		return
	}
	centre := float64(b.suite.BaselineRepeats)
	points := m.Points
	if points == 0 {
		need := math.Ceil((float64(p+usualResidual) - centre) / float64(m.Repeats))
		if m.Repeats > 1 { // noise is that of repeats, the centre's and those outside included
			need = math.Max(need, math.Ceil((stats.MinDF-(centre-1))/float64(m.Repeats-1))-outside)
		}
		points = max(1, p-1, min(int(need), len(candidates)-outside))
	}
	switch residual := points*m.Repeats + b.suite.BaselineRepeats - p; {
	case len(candidates)-outside < points:
		fail("the axes make %d combinations beside the baseline: the design takes %d, and the model must foretell %d more; name more values, fewer points, or design full", len(candidates), points, outside)
		return
	case points+1 < p:
		fail("%d combinations and the centre cannot tell %d effects apart: more points, or fewer terms", points, len(model))
		return
	case residual < leastResidual:
		fail("%d combinations of %d runs and %d of the centre leave a model of %d effects %d degrees of freedom, %d are needed: more points or repeats",
			points, m.Repeats, b.suite.BaselineRepeats, len(model), residual, leastResidual)
		return
	}
	random := rand.New(rand.NewPCG(b.plan.Seed, 0xd0_97_1a_1))
	if len(candidates) > mostCandidates {
		random.Shuffle(len(candidates), func(i, j int) { candidates[i], candidates[j] = candidates[j], candidates[i] })
		candidates = candidates[:mostCandidates]
	}
	rows := make([][]float64, len(candidates))
	for i, c := range candidates {
		rows[i] = store.RowOf(model, settingsOf(c))
	}
	chosen, best := []int(nil), math.Inf(-1)
	for start := range starts {
		one := search{rows: rows, weight: float64(m.Repeats), centre: centre}
		one.begin(points, start, random)
		if d := one.exchange(); d > best {
			chosen, best = one.chosen, d
		}
	}
	slices.Sort(chosen)
	inverse, ok := stats.Inverse(information(rows, chosen, float64(m.Repeats), centre))
	if !ok {
		fail("exclude leaves no combinations that tell %s apart: give up a term of the model or an exclusion", together(model, rows))
		return
	}
	entered := make([]gate.Entered, len(chosen))
	for k, i := range chosen {
		entered[k] = gate.Entered{Row: rows[i], Settings: settingsOf(candidates[i]), Runs: float64(m.Repeats)}
	}
	b.plan.Model = gate.Describe(model, inverse, entered)
	b.place(candidates, chosen, random)
}

// place adds the cells that were chosen, and five of the others.
func (b *builder) place(candidates []Combination, chosen []int, random *rand.Rand) {
	var others []int
	for i := range candidates {
		if !slices.Contains(chosen, i) {
			others = append(others, i)
		}
	}
	random.Shuffle(len(others), func(i, j int) { others[i], others[j] = others[j], others[i] })
	others = others[:outside]
	slices.Sort(others)
	for k, i := range slices.Concat(chosen, others) {
		b.add(store.Cell{Name: nameOf(candidates[i]), Role: store.Axis, Kind: store.Latency, Repeats: b.suite.Matrix.Repeats, Rate: b.suite.Rate,
			Outside: k >= len(chosen)}, candidates[i])
	}
}

// candidates are all combinations of the axes' values, the baseline's own among them though no setting of theirs, but for
// the baseline itself and what is excluded; axes come without the baseline's values.
func (b *builder) candidates() (axes []suites.Axis, list []Combination, err error) {
	m := &b.suite.Matrix
	spec := workload.Default()
	for _, s := range b.suite.Baseline {
		if err := suites.Apply(&spec, s); err != nil {
			return nil, nil, fmt.Errorf("%s: %w: %w", s.At, err, suites.ErrSuite)
		}
	}
	own := map[suites.Setting]bool{} // settings that are the baseline's own
	whole := make([]suites.Axis, len(m.Axes))
	for i, a := range m.Axes {
		left := suites.Axis{Field: a.Field}
		for _, v := range a.Values {
			changed := spec.Clone()
			if err := suites.Apply(changed, v); err != nil {
				return nil, nil, fmt.Errorf("%s: %w: %w", v.At, err, suites.ErrSuite)
			}
			if changed.Hash() == spec.Hash() {
				own[v] = true
			} else {
				left.Values = append(left.Values, v)
			}
		}
		if len(left.Values) == 0 {
			return nil, nil, fmt.Errorf("%s: axis %s has no value but the baseline's: %w", a.Values[0].At, a.Field, suites.ErrSuite)
		}
		whole[i] = a
		if len(left.Values) == len(a.Values) {
			here := suites.Setting{Field: a.Field, Value: "\x00"}
			own[here] = true
			whole[i].Values = append([]suites.Setting{here}, a.Values...)
		}
		axes = append(axes, left)
	}
	all := full(whole)
	list = slices.DeleteFunc(slices.Clone(all), func(c Combination) bool { return Excluded(c, m.Exclude) })
	b.checkExclusions(list)
	if b.err != nil {
		return nil, nil, b.err
	}
	for i, c := range list {
		list[i] = slices.DeleteFunc(c, func(s suites.Setting) bool { return own[s] })
	}
	return axes, slices.DeleteFunc(list, func(c Combination) bool { return len(c) == 0 }), nil
}

func settingsOf(c Combination) []store.Setting {
	out := make([]store.Setting, len(c))
	for i, s := range c {
		out[i] = store.Setting{Axis: s.Field, Value: s.Value}
	}
	return out
}

// terms are the columns that a model has beside the centre: each value of an axis, each pair of values of two.
func terms(model [][]string, axes []suites.Axis) (out []store.Term) {
	values := func(field string) []suites.Setting {
		i := slices.IndexFunc(axes, func(a suites.Axis) bool { return a.Field == field })
		return axes[i].Values
	}
	for _, fields := range model {
		for _, a := range values(fields[0]) {
			if len(fields) == 1 {
				out = append(out, termOf(a))
				continue
			}
			for _, b := range values(fields[1]) {
				out = append(out, termOf(a, b))
			}
		}
	}
	return out
}

func termOf(settings ...suites.Setting) store.Term {
	t := store.Term{Settings: settingsOf(settings)}
	names := make([]string, len(settings))
	for i, s := range settings {
		names[i] = s.Field + "=" + s.Value
	}
	t.Name = strings.Join(names, " × ")
	return t
}

// search looks for the rows with the greatest determinant of their information matrix: from a start it exchanges one row
// for another as long as that makes it greater (Fedorov).
type search struct {
	rows           [][]float64
	weight, centre float64
	chosen         []int
	used           []bool
}

// ridge keeps a start that cannot tell all columns apart from being no start.
const ridge = 1e-6

// begin chooses greedily what is told worst so far, or at random from the second start on.
func (s *search) begin(points, start int, random *rand.Rand) {
	s.used = make([]bool, len(s.rows))
	if start > 0 {
		for _, i := range random.Perm(len(s.rows))[:points] {
			s.take(i)
		}
		return
	}
	for range points {
		inverse := s.inverse()
		best, most := -1, math.Inf(-1)
		for i, row := range s.rows {
			if v := stats.Dot(row, stats.Times(inverse, row)); !s.used[i] && v > most*(1+1e-9) {
				best, most = i, v
			}
		}
		s.take(best)
	}
}

func (s *search) take(i int) {
	s.used[i] = true
	s.chosen = append(s.chosen, i)
}

func (s *search) inverse() [][]float64 {
	m := information(s.rows, s.chosen, s.weight, s.centre)
	for i := range m {
		m[i][i] += ridge
	}
	inverse, ok := stats.Inverse(m)
	if !ok { // the ridge is too low for rounding: a higher one tells the same order
		for i := range m {
			m[i][i] += 1e-3
		}
		inverse, _ = stats.Inverse(m)
	}
	return inverse
}

// information is X'X of the chosen rows and of the centre.
func information(rows [][]float64, chosen []int, weight, centre float64) [][]float64 {
	p := len(rows[0])
	m := make([][]float64, p)
	for i := range m {
		m[i] = make([]float64, p)
	}
	m[0][0] = centre
	for _, i := range chosen {
		stats.Gram(m, rows[i], weight)
	}
	return m
}

// exchange returns the log of the determinant that it ends at.
func (s *search) exchange() float64 {
	const mostExchanges = 500
	for range mostExchanges {
		inverse := s.inverse()
		pulls := make([][]float64, len(s.rows))
		for i, row := range s.rows {
			pulls[i] = stats.Times(inverse, row)
		}
		best, out, in := 1+1e-6, -1, -1
		for k, i := range s.chosen {
			own := s.weight * stats.Dot(s.rows[i], pulls[i])
			for j := range s.rows {
				if s.used[j] {
					continue
				}
				both := s.weight * stats.Dot(s.rows[i], pulls[j])
				if gain := (1+s.weight*stats.Dot(s.rows[j], pulls[j]))*(1-own) + both*both; gain > best*(1+1e-9) {
					best, out, in = gain, k, j
				}
			}
		}
		if out < 0 {
			break
		}
		s.used[s.chosen[out]], s.used[in] = false, true
		s.chosen[out] = in
	}
	return -logDeterminant(s.inverse())
}

// logDeterminant is that of a symmetric positive definite matrix, by elimination.
func logDeterminant(m [][]float64) (sum float64) {
	a := make([][]float64, len(m))
	for i := range m {
		a[i] = slices.Clone(m[i])
	}
	for i := range a {
		if !(a[i][i] > 0) {
			return math.Inf(1)
		}
		sum += math.Log(a[i][i])
		for k := i + 1; k < len(a); k++ {
			share := a[k][i] / a[i][i]
			for j := i; j < len(a); j++ {
				a[k][j] -= share * a[i][j]
			}
		}
	}
	return sum
}

// together names effects that all rows have alike, or that none has.
func together(model []store.Term, rows [][]float64) string {
	for i := range model {
		never := true
		for _, row := range rows {
			never = never && row[1+i] == 0
		}
		if never {
			return model[i].Name + " and nothing changed"
		}
		for k := range i {
			same := true
			for _, row := range rows {
				same = same && row[1+i] == row[1+k]
			}
			if same {
				return model[k].Name + " and " + model[i].Name
			}
		}
	}
	return "all effects of the model"
}
