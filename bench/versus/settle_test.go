package versus

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

func TestSettledByRangeAndTrendOfTheLastFiveWindows(t *testing.T) {
	for _, c := range []struct {
		name   string
		series []float64
		want   bool
	}{
		{"a JVM that warms up", []float64{178, 322, 374, 522, 587, 680}, false},
		{"five equal windows", []float64{900, 900, 900, 900, 900}, true},
		{"only the last five count", []float64{178, 322, 374, 522, 587, 680, 900, 905, 898, 903, 901}, true},
		{"four windows", []float64{900, 900, 900, 900}, false},
		{"none", nil, false},
		{"range of 5.1%", []float64{100, 102.6, 100, 97.5, 100}, false},
		{"range of 4.9% without trend", []float64{100, 102.4, 100, 97.5, 100}, true},
		{"creeps 1.2% a window within 5%", []float64{97.6, 98.8, 100, 101.2, 102.4}, false},
		{"falls 1.1% a window within 5%", []float64{102.2, 101.1, 100, 98.9, 97.8}, false},
		{"a window without a figure", []float64{100, 100, 0, 100, 100}, false},
	} {
		if got, why := Settled(c.series, Steadiness{}); got != c.want || got == (why != "") {
			t.Errorf("%s: settled %v (%s), want %v", c.name, got, why, c.want)
		}
	}
}

// TestNoStretchOfTheWarmUpSeriesSettles: the series of a JVM that warms up must not settle, wherever one stops to look.
func TestNoStretchOfTheWarmUpSeriesSettles(t *testing.T) {
	series := []float64{178, 322, 374, 522, 587, 680}
	for end := range series {
		for _, n := range []int{0, 2, 5, 6, 9, 16, 100} {
			for sd := 0.0; sd <= 0.5; sd += 0.01 {
				if ok, _ := Settled(series[:end+1], Steadiness{SD: sd, N: n}); ok {
					t.Errorf("settled after %v beside a loop that varies by %v of %d readings", series[:end+1], sd, n)
				}
			}
		}
	}
}

// TestASideMayVaryAsTheBareLoopDoes simulates sides that are as steady as the loop beside them, less steady, and ones that
// still warm up.
func TestASideMayVaryAsTheBareLoopDoes(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	draw := func(n int, sd, trend float64) []float64 {
		v := make([]float64, n)
		for i := range v {
			v[i] = 1000 * (1 + sd*random.NormFloat64() + trend*float64(i))
		}
		return v
	}
	share := func(sd, trend float64) float64 {
		const rounds = 4000
		settled := 0
		for range rounds {
			if ok, _ := Settled(draw(5, sd, trend), steadiness(draw(6, 0.06, 0))); ok {
				settled++
			}
		}
		return float64(settled) / rounds
	}
	if got := share(0.06, 0); got < 0.88 || got > 0.98 {
		t.Errorf("%.3f of the sides that are as steady as the loop settle, two tests at 95%% ask for at least 0.90 or so", got)
	}
	if got := share(0.06, 0.15); got > 0.05 {
		t.Errorf("%.3f of the sides that gain 15%% a window settle", got)
	}
	if got := share(0.3, 0); got > 0.25 {
		t.Errorf("%.3f of the sides that vary five times as much as the loop settle", got)
	}
	if ok, why := Settled([]float64{100, 104, 98, 101, 99}, Steadiness{SD: 0.03, N: 4}); ok || !strings.Contains(why, "range") {
		t.Errorf("four readings say nothing of the loop: %s", why)
	}
	if ok, why := Settled([]float64{100, 100, 100, 100, 100}, Steadiness{SD: 0.13, N: 9}); ok || !strings.Contains(why, "the host") {
		t.Errorf("a wild host: %s", why)
	}
}

// TestCompilersThatWorkUnsettleASide: by their mean over the last five windows, against 1% of a core or what the host varies by.
func TestCompilersThatWorkUnsettleASide(t *testing.T) {
	for _, c := range []struct {
		compilers []float64
		loop      []float64
		want      string
	}{
		{[]float64{0, 0, 0.02, 0, 0}, []float64{100, 100, 100, 100, 100, 100}, ""},
		{[]float64{0.01, 0.01, 0.01, 0.01, 0.01}, []float64{100, 100, 100, 100, 100, 100}, "its compiler threads used 1.0% of a core"},
		{[]float64{0.03, 0.03, 0.03, 0.03, 0.03}, []float64{95, 105, 95, 105, 95, 105}, ""},
		{[]float64{0.06, 0.06, 0.06, 0.06, 0.06}, []float64{95, 105, 95, 105, 95, 105}, "its compiler threads used 6.0% of a core"},
	} {
		b := &Block{Arms: []string{"kafka"}, Settled: map[string]string{}, From: map[string]int{}, Beside: &Beside{PerCPU: c.loop}}
		for i, share := range c.compilers {
			w := cost("kafka", i, 100)
			w.Compilers, w.Series = share, []float64{100}
			b.Windows = append(b.Windows, w)
		}
		if settled := b.judge(); b.Settled["kafka"] != c.want || settled != (c.want == "") || b.From["kafka"] != 0 {
			t.Errorf("%v: %q from %d, want %q", c.compilers, b.Settled["kafka"], b.From["kafka"], c.want)
		}
	}
}

func TestBlocksAlternate(t *testing.T) {
	for block, want := range [][]int{{0, 1}, {1, 0}, {0, 1}, {1, 0}} {
		if got := Order(block, 2); !slices.Equal(got, want) {
			t.Errorf("block %d: %v, want %v", block, got, want)
		}
	}
	if got := Order(3, 3); !slices.Equal(got, []int{2, 1, 0}) {
		t.Errorf("three arms, odd block: %v", got)
	}
}
