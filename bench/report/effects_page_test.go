package report_test

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidemark/tidemark/bench/gate"
	"github.com/tidemark/tidemark/bench/store"
	"github.com/tidemark/tidemark/bench/verify"
	"github.com/tidemark/tidemark/loadgen/result"
)

const effectsSuite = `profiles: {extra: none}
matrix:
  design: effects
  model: [linger, compression, partitions]
  repeats: 3
  points: 8
  axes: {linger: [0s, 5ms], compression: [none, lz4], partitions: [6, 1, 12, 48]}
`

// effectsBench makes a bench of an effects design up. Cost is multiplied as the tests say; pages are made again by the
// second program, which must find nothing.
func effectsBench(t *testing.T, cost func(c *store.Cell) float64, change func(c *store.Cell, r *store.Run, res *result.Result)) (page, markdown string, a *gate.Analysis) {
	t.Helper()
	return effectsBenchOf(t, effectsSuite, 4, cost, change)
}

// effectsBenchOf is effectsBench for another suite, with so many runs of its centre.
func effectsBenchOf(t *testing.T, suite string, centre int, cost func(c *store.Cell) float64, change func(c *store.Cell, r *store.Run, res *result.Result)) (page, markdown string, a *gate.Analysis) {
	t.Helper()
	file := ownSuite(t, suite)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	text = []byte(strings.Replace(string(text), "set: {groups: [1]}", "set: {groups: [1], linger: 0s, compression: none, partitions: 6}", 1))
	if err := os.WriteFile(file, []byte(strings.Replace(string(text), "repeats: 2,", fmt.Sprintf("repeats: %d,", centre), 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	b := newBench(t, file)
	b.light = true
	b.change = func(c *store.Cell, r *store.Run, res *result.Result, _ string) bool {
		delete(res.Clocks, result.Pacer)
		if p := r.Target.Process; p != nil {
			p.CPUNanos = int64(1e9 * float64(res.Ends.AckedBytes) / 1e9 * cost(c) * math.Exp(0.01*float64(int(r.Seed%7)-3)))
			r.Target.Samples = nil
		}
		if change != nil {
			change(c, r, res)
		}
		return true
	}
	page, markdown = b.write()
	if err := store.Seal(b.dir); err != nil {
		t.Fatal(err)
	}
	o, err := verify.Dir(b.dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range o.Findings {
		t.Errorf("%s: %s", f.Place, f.Text)
	}
	d, err := store.Load(b.dir)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"the page": page, "the Markdown": markdown} {
		if !strings.Contains(text, "Effects by the model") || !strings.Contains(text, "effect on CPU per GB") {
			t.Errorf("%s has no effects", name)
		}
	}
	if d.Plan.Design != store.Effects || filepath.Dir(b.dir) == "" {
		t.Error("no effects design")
	}
	return page, markdown, gate.Analyse(d)
}

func modelOf(t *testing.T, a *gate.Analysis, metric string) *gate.Model {
	t.Helper()
	for _, m := range a.Models {
		if m.Metric.Name == metric {
			return m
		}
	}
	t.Fatalf("no model of %s", metric)
	return nil
}

// TestTheEffectsAreThoseThatWereMade: settings that multiply the cost are told apart though each cell changes several, and
// the Answer says so.
func TestTheEffectsAreThoseThatWereMade(t *testing.T) {
	_, markdown, a := effectsBench(t, func(c *store.Cell) float64 {
		cost := 2.0
		for _, s := range c.Settings {
			switch s.Axis {
			case "linger":
				cost *= 0.5
			case "compression":
				cost *= 1.3
			}
		}
		return cost
	}, nil)
	m := modelOf(t, a, "CPU per GB")
	if !m.Holds() || m.Left != 0 || m.Cells != 9 {
		t.Fatalf("%s: %+v", m.Words(), m.Checks)
	}
	for i, want := range []float64{0.5, 1.3, 1, 1, 1} {
		if r := m.Effects[i].Judgement.Ratio; math.Abs(r.Value/want-1) > 0.03 || want != 1 && !m.Effects[i].Stands {
			t.Errorf("%s: %v [%v %v], made %v, %s", m.Effects[i].Term.Name, r.Value, r.Low, r.High, want, m.WordsOf(i))
		}
	}
	for _, want := range []string{"on CPU per GB, by a model that held in 5 of 5 cells outside its design: linger=5ms ×0.49", "compression=lz4 ×1.29"} {
		if !strings.Contains(markdown, want) {
			t.Errorf("the Answer lacks %q:\n%.900s", want, markdown)
		}
	}
}

// TestAModelThatDoesNotHoldSaysSo: two settings that do together what neither does alone, in whatever cell, and no term for it.
func TestAModelThatDoesNotHoldSaysSo(t *testing.T) {
	page, markdown, a := effectsBench(t, func(c *store.Cell) float64 {
		linger, compression := false, false
		for _, s := range c.Settings {
			linger, compression = linger || s.Axis == "linger", compression || s.Axis == "compression"
		}
		if linger && compression {
			return 2.5
		}
		return 2
	}, nil)
	m := modelOf(t, a, "CPU per GB")
	if m.Holds() {
		t.Fatalf("%s: %+v", m.Words(), m.Checks)
	}
	if !strings.Contains(markdown, "outside its design: none is told, for it does not hold") || !strings.Contains(page, "IT DOES NOT HOLD") {
		t.Errorf("not said:\n%.900s", markdown)
	}
}

// TestAModelWithoutRepeatsTellsNoEffect: nothing tells what it leaves over from what it lacks.
func TestAModelWithoutRepeatsTellsNoEffect(t *testing.T) {
	suite := strings.NewReplacer("repeats: 3", "repeats: 1", "points: 8", "points: 10").Replace(effectsSuite)
	page, markdown, _ := effectsBenchOf(t, suite, 8, func(*store.Cell) float64 { return 2 }, nil)
	if !strings.Contains(markdown, "none is told, for noise rests on 7 degrees of freedom of repeats, 20 are needed") || !strings.Contains(page, "whether it holds cannot be told") {
		t.Errorf("not said:\n%.900s", markdown)
	}
}

// TestCellsThatDoNotCountLeaveTheModel: with one run saturated a cell leaves it whole; with most of them gone there is none.
func TestCellsThatDoNotCountLeaveTheModel(t *testing.T) {
	saturate := func(upTo int) func(c *store.Cell, r *store.Run, res *result.Result) {
		return func(c *store.Cell, r *store.Run, res *result.Result) {
			if c.Role == store.Axis && c.Number <= upTo && r.Repeat == 2 {
				r.Status, r.Reasons = store.Saturated, []string{"slow"}
				res.Add(result.Verdict{Kind: result.Saturated, Reason: "slow"})
			}
		}
	}
	flat := func(*store.Cell) float64 { return 2 }
	_, _, a := effectsBench(t, flat, saturate(2))
	if m := modelOf(t, a, "CPU per GB"); m.Left != 1 || m.Cells != 8 || m.Runs != 4+7*3 {
		t.Errorf("one cell saturated: %d left, %d cells, %d runs: %s", m.Left, m.Cells, m.Runs, m.Words())
	}
	b := newBench(t, ownSuite(t, effectsSuite))
	b.light, b.noLogs = true, true
	b.change = func(c *store.Cell, r *store.Run, res *result.Result, _ string) bool {
		saturate(99)(c, r, res)
		return true
	}
	_, markdown := b.write()
	if !strings.Contains(markdown, "Effects on ack p99 are not known: ") || !strings.Contains(markdown, "degrees of freedom, 10 are needed") {
		t.Errorf("no cell is left, and that is not said:\n%.900s", markdown)
	}
}
