package versus

import (
	"slices"
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
		if got, why := Settled(c.series); got != c.want || got == (why != "") {
			t.Errorf("%s: settled %v (%s), want %v", c.name, got, why, c.want)
		}
	}
}

// TestNoStretchOfTheWarmUpSeriesSettles: the series of a JVM that warms up must not settle, wherever one stops to look.
func TestNoStretchOfTheWarmUpSeriesSettles(t *testing.T) {
	series := []float64{178, 322, 374, 522, 587, 680}
	for end := range series {
		if ok, _ := Settled(series[:end+1]); ok {
			t.Errorf("settled after %v", series[:end+1])
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
