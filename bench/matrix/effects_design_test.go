package matrix_test

import (
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/tidemark/tidemark/bench/matrix"
	"github.com/tidemark/tidemark/bench/stats"
	"github.com/tidemark/tidemark/bench/store"
	"github.com/tidemark/tidemark/bench/suites"
)

const effectsHead = "name: x\nrate: 100\nwindow: 1s\n"

func effectsPlan(text string, seed uint64) (*store.Plan, error) {
	s, err := suites.Parse("s.yaml", []byte(effectsHead+text))
	if err != nil {
		return nil, err
	}
	return matrix.Plan(s, seed)
}

// determinant is that of the design's information matrix, over runs.
func determinant(p *store.Plan) float64 {
	n := 1 + len(p.Model)
	m := make([][]float64, n)
	for i := range m {
		m[i] = make([]float64, n)
	}
	for i := range p.Cells {
		if c := &p.Cells[i]; c.Modelled() && !c.Outside {
			stats.Gram(m, p.Row(c), float64(c.Repeats))
		}
	}
	det := 1.0
	for i := range m {
		det *= m[i][i]
		for k := i + 1; k < n; k++ {
			f := m[k][i] / m[i][i]
			for j := i; j < n; j++ {
				m[k][j] -= f * m[i][j]
			}
		}
	}
	return det
}

const fiveAxes = `baseline: {repeats: 4, set: {acks: all, linger: 0s, partitions: 6, compression: none, keys: uniform(1000)}}
matrix:
  design: effects
  model: [acks, linger, partitions, compression, keys, acks*linger]
  repeats: 2
  points: 12
  axes: {acks: [all, '1'], linger: [5ms], partitions: [1, 48], compression: [lz4], keys: [zipf(1.1)]}
`

// TestAnEffectsDesignIsWhatMethodAsksFor: a repeated centre, ten residual degrees of freedom, five cells outside, no
// setting that is the baseline's own.
func TestAnEffectsDesignIsWhatMethodAsksFor(t *testing.T) {
	p, err := effectsPlan(fiveAxes, 3)
	if err != nil {
		t.Fatal(err)
	}
	runs, points, outside, centre := 0, 0, 0, 0
	for i := range p.Cells {
		c := &p.Cells[i]
		if c.Role == store.Axis && (c.Against != 0 || len(c.Settings) == 0) || strings.Contains(c.Name, "acks=all") {
			t.Errorf("cell %+v", c)
		}
		switch {
		case c.Role == store.Baseline:
			centre = c.Repeats
		case c.Outside:
			outside++
		default:
			points++
			runs += c.Repeats
		}
	}
	if points != 12 || outside != 5 || centre != 4 || len(p.Model) != 7 || runs+centre-1-len(p.Model) < 10 || p.Design != store.Effects {
		t.Errorf("%d points, %d outside, centre %d times, model %+v", points, outside, centre, p.Model)
	}
	for _, term := range p.Model {
		if !(term.StandardError > 0.1 && term.StandardError < 1) {
			t.Errorf("standard error of %s: %v of a run", term.Name, term.StandardError)
		}
	}
	again, _ := effectsPlan(fiveAxes, 3)
	if !reflect.DeepEqual(p, again) {
		t.Error("the same seed plans another design")
	}
}

// TestTheDesignIsAsGoodAsTheBestOfAll: over all choices of 6 of 11 combinations, none has a greater determinant.
func TestTheDesignIsAsGoodAsTheBestOfAll(t *testing.T) {
	const text = `baseline: {repeats: 3, set: {linger: 0s, partitions: 6, compression: none, acks: all}}
matrix: {design: effects, model: [linger, partitions, acks], repeats: 2, points: 6, axes: {linger: [5ms, 10ms], partitions: [1], acks: ['1']}}
`
	p, err := effectsPlan(text, 1)
	if err != nil {
		t.Fatal(err)
	}
	var rows [][]float64
	for linger := range 3 {
		for partitions := range 2 {
			for acks := range 2 {
				if linger+partitions+acks > 0 {
					rows = append(rows, []float64{1, b2f(linger == 1), b2f(linger == 2), float64(partitions), float64(acks)})
				}
			}
		}
	}
	best := 0.0
	for set := range 1 << len(rows) {
		q := &store.Plan{Model: p.Model, Cells: []store.Cell{p.Cells[0]}}
		for i, row := range rows {
			if set>>i&1 == 1 {
				c := store.Cell{Role: store.Axis, Repeats: 2}
				for k, v := range row[1:] {
					if v == 1 {
						c.Settings = append(c.Settings, p.Model[k].Settings...)
					}
				}
				q.Cells = append(q.Cells, c)
			}
		}
		if len(q.Cells) == 7 {
			best = math.Max(best, determinant(q))
		}
	}
	if got := determinant(p); got < best*(1-1e-9) {
		t.Errorf("determinant %v, the best of all choices has %v", got, best)
	}
}

func b2f(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// TestAliasesNameWhatWouldPassForAnEffect: half of the combinations of three settings cannot tell one from the other two
// together, and the plan says so; all of them can.
func TestAliasesNameWhatWouldPassForAnEffect(t *testing.T) {
	p, err := effectsPlan(`baseline: {repeats: 4, set: {linger: 0s, partitions: 6, acks: all, compression: none}}
matrix: {design: effects, model: [linger, partitions, acks, compression], repeats: 2, points: 6, axes: {linger: [5ms], partitions: [1], acks: ['1'], compression: [lz4]}}
`, 1)
	if err != nil {
		t.Fatal(err)
	}
	named := 0
	for _, term := range p.Model {
		if term.Alias != "" {
			named++
			if !strings.Contains(term.Alias, " × ") || math.Abs(term.AliasShare) < 0.05 {
				t.Errorf("%+v", term)
			}
		}
	}
	if named == 0 {
		t.Error("six of fifteen combinations, and nothing passes for anything")
	}
}

func TestDesignsThatTellNothingAreRefused(t *testing.T) {
	const set = "baseline: {repeats: 4, set: {linger: 0s, partitions: 6, acks: all}}\n"
	for _, c := range []struct{ name, text, want string }{
		{"no model", "matrix: {design: effects, axes: {linger: [5ms]}}\n", "name its terms: model: [linger]"},
		{"model of another design", "matrix: {design: full, model: [linger], axes: {linger: [5ms]}}\n", "for design effects, this one is full"},
		{"points of another design", "matrix: {points: 4, axes: {linger: [5ms]}}\n", "for design effects, this one is one-factor"},
		{"no such axis", set + "matrix: {design: effects, model: [lingr], axes: {linger: [5ms]}}\n", `no axis is called "lingr" (did you mean "linger"?)`},
		{"an axis in no term", set + "matrix: {design: effects, model: [linger], axes: {linger: [5ms], partitions: [1]}}\n", "axis partitions is in no term"},
		{"interaction alone", set + "matrix: {design: effects, model: [linger, linger*partitions], axes: {linger: [5ms], partitions: [1]}}\n", "needs partitions as a term of its own"},
		{"three", set + "matrix: {design: effects, model: [a*b*c], axes: {linger: [5ms]}}\n", "one axis or two"},
		{"with itself", set + "matrix: {design: effects, model: [linger*linger], axes: {linger: [5ms]}}\n", "with itself"},
		{"twice", set + "matrix: {design: effects, model: [linger, linger], axes: {linger: [5ms]}}\n", "stands twice"},
		{"primary", set + "primary: [linger=5ms]\nmatrix: {design: effects, model: [linger], axes: {linger: [5ms]}}\n", "leave primary out"},
		{"centre once", "baseline: {repeats: 1}\nmatrix: {design: effects, model: [linger], axes: {linger: [5ms]}}\n", "which is repeated"},
		{"too few combinations", set + "matrix: {design: effects, model: [linger, partitions], axes: {linger: [5ms], partitions: [1]}}\n", "must foretell 5 more"},
		{"only the baseline's", set + "matrix: {design: effects, model: [linger], axes: {linger: [0s]}}\n", "no value but the baseline's"},
		{"too few runs", set + "matrix: {design: effects, model: [linger, partitions, acks], repeats: 1, points: 6, axes: {linger: [5ms, 10ms], partitions: [1], acks: ['1']}}\n", "10 are needed"},
		{"never apart", set + "matrix: {design: effects, model: [linger, partitions, acks, compression, linger*partitions], repeats: 3, axes: {linger: [5ms], partitions: [1], acks: ['1'], compression: [lz4]}, exclude: [{linger: 5ms, partitions: 1}]}\n", "linger=5ms × partitions=1 and nothing changed apart"},
		{"too few points", set + "matrix: {design: effects, points: 2, model: [linger, partitions, acks, compression], repeats: 9, axes: {linger: [5ms], partitions: [1], acks: ['1'], compression: [lz4]}}\n", "cannot tell 4 effects apart"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, err := effectsPlan(c.text, 1)
			if err == nil {
				t.Fatalf("planned: %+v", p.Model)
			}
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("got  %v\nwant %s", err, c.want)
			}
		})
	}
}
