package versus

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/tidemark/tidemark/bench/store"
)

// The rule of METHOD 5. "Two windows agree within 15%" would have called a JVM settled at two thirds of what it reached
// later (178, 322, 374, 522, 587, 680 MB/CPU-s). METHOD's range of 5% and trend of 1% are for a host that is steady to 2%;
// where the bare loop beside a block, which has nothing to warm up, varies by more, a side may vary as the loop does.
const (
	settleWindows  = 5
	settleRange    = 0.05 // (largest - smallest) / mean
	settleTrend    = 0.01 // slope of the line through them, for each window, of the mean
	compilerShare  = 0.01 // of a core, for the compiler threads of a JVM, or what the bare loop varies by
	minProcesses   = 3    // fresh processes of each side before a ratio is a proof
	ceilingsApart  = 0.15
	minExcursions  = 10   // below, a percentile is shown with its weakness
	minReadings    = 5    // of the bare loop before its variation is known
	wildHost       = 0.12 // relative standard deviation of the bare loop above which nothing is settled
	betterHalfOver = 2
)

// Steadiness is how the bare loop beside a block varied.
type Steadiness struct {
	SD float64 // relative standard deviation
	N  int     // readings
}

// steadiness of the readings that could be taken; the zero value for fewer than two.
func steadiness(readings []float64) Steadiness {
	var taken []float64
	for _, v := range readings {
		if v > 0 {
			taken = append(taken, v)
		}
	}
	if len(taken) < 2 {
		return Steadiness{}
	}
	mean, sd := stat.MeanStdDev(taken, nil)
	return Steadiness{SD: sd / mean, N: len(taken)}
}

// studentizedRange is the upper 5% point of the range of five readings over the standard deviation of others with df
// degrees of freedom (Tukey's q for five groups). Each holds up to the next, for it is the wider of the two.
//
//tidy:table
var studentizedRange = []struct {
	df int
	q  float64
}{{4, 6.29}, {5, 5.67}, {6, 5.30}, {7, 5.06}, {8, 4.89}, {9, 4.76}, {10, 4.65}, {12, 4.51}, {15, 4.37}, {20, 4.23}, {30, 4.10}, {60, 3.98}}

// allowed are the range and the trend that five windows may show by chance where the host is as steady as s says, METHOD's
// own at least.
func (s Steadiness) allowed() (most, trend float64) {
	most, trend = settleRange, settleTrend
	if s.N < minReadings {
		return most, trend
	}
	q := 0.0
	for _, row := range studentizedRange {
		if row.df <= s.N-1 {
			q = row.q
		}
	}
	sxx := float64(settleWindows*(settleWindows*settleWindows-1)) / 12
	t := distuv.StudentsT{Sigma: 1, Nu: float64(s.N - 1)}.Quantile(0.975)
	return max(most, q*s.SD), max(trend, t*s.SD/math.Sqrt(sxx))
}

// Settled reports whether a series of windows of equal work has come to rest, by its last five: range at most 5%, trend
// within 1% a window either way, or no more of both than five readings of the bare loop beside it would show by chance
// (95%). Fewer windows, or one that is not a positive number, is never settled; nor is anything on a host whose bare loop
// varies by more than 12%. why says what is missing.
func Settled(series []float64, beside Steadiness) (ok bool, why string) {
	if len(series) < settleWindows {
		return false, "fewer than five windows"
	}
	last := series[len(series)-settleWindows:]
	sum := 0.0
	for _, v := range last {
		if math.IsNaN(v) || math.IsInf(v, 0) || v <= 0 {
			return false, "a window without a figure"
		}
		sum += v
	}
	mean := sum / settleWindows
	if beside.SD > wildHost {
		return false, fmt.Sprintf("the host: the bare loop beside it varies by %.0f%%", 100*beside.SD)
	}
	most, trend := beside.allowed()
	if r := (slices.Max(last) - slices.Min(last)) / mean; r > most {
		return false, percent("range ", r) + " over the last five windows" + percent(", of ", most)
	}
	if s := slope(last) / mean; math.Abs(s) > trend {
		return false, percent("trend ", s) + " a window" + percent(", of ", trend)
	}
	return true, ""
}

// judge says of each arm whether it had come to rest by its last five windows of equal work (Settled), and from which pair
// on it had (From), and reports whether all have. It looks at nothing but the block.
func (b *Block) judge() bool {
	host := Steadiness{}
	if b.Beside != nil {
		host = steadiness(b.Beside.PerCPU)
	}
	b.Settled, b.From = map[string]string{}, map[string]int{}
	all := true
	for _, arm := range b.Arms {
		windows := b.windowsOf(arm)
		parts := 1 // windows of equal work in a run
		for _, w := range windows {
			parts = max(parts, len(w.Series))
		}
		runs := (settleWindows + parts - 1) / parts
		_, why := Settled(rest(windows), host)
		last, compilers := windows[max(0, len(windows)-runs):], 0.0
		for _, w := range last {
			compilers += w.Compilers / float64(len(last))
			if st := store.RunStatus(w.Status); st == store.Invalid || st == store.Broken {
				why = "a window was " + w.Status
			}
		}
		if compilers >= max(compilerShare, host.SD) {
			why = percent("its compiler threads used ", compilers) + " of a core"
		}
		b.Settled[arm], b.From[arm] = why, max(0, len(windows)-max(runs, 2))
		all = all && why == ""
	}
	return all
}

// slope is that of the least-squares line through values at 0, 1, 2, ...
func slope(v []float64) float64 {
	n := float64(len(v))
	mx, my := (n-1)/2, 0.0
	for _, y := range v {
		my += y / n
	}
	var xy, xx float64
	for i, y := range v {
		xy += (float64(i) - mx) * (y - my)
		xx += (float64(i) - mx) * (float64(i) - mx)
	}
	return xy / xx
}

// Order is the arms of a block: forwards in even blocks, backwards in odd ones, so that a drift meets both sides alike
// (A B, B A, A B ...: ABBA).
func Order(block, arms int) []int {
	order := make([]int, arms)
	for i := range order {
		order[i] = i
		if block%2 == 1 {
			order[i] = arms - 1 - i
		}
	}
	return order
}
