package report_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/tidemark/tidemark/bench/store"
	"github.com/tidemark/tidemark/loadgen/result"
)

// checkAnswer makes the figures of the Answer again, from result.json and run.json alone and without
// the packages that the report takes them from.
func checkAnswer(t *testing.T, b *bench, page, md string) {
	d, err := store.Load(b.dir)
	if err != nil {
		t.Fatal(err)
	}
	p99 := func(r *store.Run) float64 { q, _ := r.Result.Clocks[result.Ack].At(99); return float64(q.Nanos) / 1e6 }
	records := func(r *store.Run) float64 { return r.Result.Produce.RecordsPerSec }
	cost := func(r *store.Run) float64 {
		return float64(r.Target.Process.CPUNanos) / float64(r.Result.Ends.AckedBytes)
	}
	cell := func(name string) int {
		for _, c := range d.Plan.Cells {
			if c.Name == name {
				return c.Number
			}
		}
		t.Fatalf("no cell %q", name)
		return 0
	}
	base, linger, many := cell("baseline"), cell("linger=5ms"), cell("groups=8")
	var want []string
	mean, half := logMean(d, cell("capacity"), store.Capacity, records)
	want = append(want, fmt.Sprintf("carried %s records/s [%s %s] (", three(mean), three(mean/half), three(mean*half)))
	mean, half = logMean(d, base, store.Latency, p99)
	want = append(want, fmt.Sprintf("ack p99 was %.2f ms [%.2f %.2f]", mean, mean/half, mean*half))
	r, low, high := logRatio(d, linger, base, p99)
	want = append(want, fmt.Sprintf("linger=5ms made ack p99 ×%.2f [%.2f %.2f] (worse)", r, low, high))
	r, low, high = logRatio(d, linger, base, cost)
	want = append(want, fmt.Sprintf("and CPU per GB ×%.2f [%.2f %.2f] (better)", r, low, high))
	r, low, high = logRatio(d, many, base, p99)
	want = append(want, fmt.Sprintf("groups=8 in ack p99 ×%.2f [%.2f %.2f]", r, low, high), "240,000 records/s offered, the highest rate held in every run", "288,000/s was not held")
	answer := textOf(between(page, `<div class="sentences">`, "</div>"))
	for _, w := range want {
		if !strings.Contains(answer, w) {
			t.Errorf("the Answer does not say %q:\n%s", w, answer)
		}
		if plain := strings.NewReplacer("\\", "", "&#64;", "@").Replace(md); !strings.Contains(plain, w) {
			t.Errorf("report.md does not say %q", w)
		}
	}
	if n := strings.Count(between(page, `<div class="sentences">`, "</div>"), "<p"); n < 2 || n > 5 {
		t.Errorf("%d sentences", n)
	}
	tally := textOf(between(page, `<ul class="tally"`, "</ul>"))
	for _, w := range []string{"0 records lost", "0 duplicated", "0 cells invalid", "1 saturated"} {
		if !strings.Contains(tally, w) {
			t.Errorf("beside the Answer stands no %q: %s", w, tally)
		}
	}
}

// values are a figure of a cell's good runs, as logs.
func values(d *store.Data, cell int, f func(*store.Run) float64) []float64 {
	var out []float64
	for _, r := range d.Runs {
		if r.Cell == cell && r.Status == store.OK {
			out = append(out, math.Log(f(r)))
		}
	}
	return out
}

func average(v []float64) float64 {
	s := 0.0
	for _, x := range v {
		s += x
	}
	return s / float64(len(v))
}

// pooledNoise is t times the standard deviation within cells.
func pooledNoise(d *store.Data, kind store.Kind, f func(*store.Run) float64) float64 {
	squares, df := 0.0, 0
	for _, c := range d.Plan.Cells {
		v := values(d, c.Number, f)
		if c.Kind != kind || len(v) < 2 {
			continue
		}
		for _, x := range v {
			squares += (x - average(v)) * (x - average(v))
		}
		df += len(v) - 1
	}
	return distuv.StudentsT{Sigma: 1, Nu: float64(df)}.Quantile(0.975) * math.Sqrt(squares/float64(df))
}

func logMean(d *store.Data, cell int, kind store.Kind, f func(*store.Run) float64) (mean, factor float64) {
	v := values(d, cell, f)
	return math.Exp(average(v)), math.Exp(pooledNoise(d, kind, f) / math.Sqrt(float64(len(v))))
}

func logRatio(d *store.Data, cell, base int, f func(*store.Run) float64) (ratio, low, high float64) {
	a, b := values(d, cell, f), values(d, base, f)
	e := average(a) - average(b)
	half := pooledNoise(d, store.Latency, f) * math.Sqrt(1/float64(len(a))+1/float64(len(b)))
	return math.Exp(e), math.Exp(e - half), math.Exp(e + half)
}

// three prints a number above 1,000 with three digits that matter.
func three(v float64) string {
	s := fmt.Sprintf("%.0f", v)
	n := len(s)
	unit := math.Pow(10, float64(n-3))
	s = fmt.Sprintf("%.0f", math.Round(v/unit)*unit)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
