package versus

import (
	"math"
	"slices"
)

// The rule of METHOD 5. "Two windows agree within 15%" would have called a JVM settled at two thirds of what it reached
// later (178, 322, 374, 522, 587, 680 MB/CPU-s).
const (
	settleWindows  = 5
	settleRange    = 0.05 // (largest - smallest) / mean
	settleTrend    = 0.01 // slope of the line through them, for each window, of the mean
	compilerShare  = 0.01 // of a core, for the compiler threads of a JVM
	minProcesses   = 3    // fresh processes of each side before a ratio is a proof
	ceilingsApart  = 0.15
	minExcursions  = 10 // below, a percentile is shown with its weakness
	minPairsForCI  = 2
	betterHalfOver = 2
)

// Settled reports whether a series of windows of equal work has come to rest, by its last five: range at most 5%, trend
// within 1% a window either way. Fewer windows, or one that is not a positive number, is never settled. why says what is
// missing.
func Settled(series []float64) (ok bool, why string) {
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
	if r := (slices.Max(last) - slices.Min(last)) / mean; r > settleRange {
		return false, percent("range ", r) + " over the last five windows"
	}
	if s := slope(last) / mean; math.Abs(s) > settleTrend {
		return false, percent("trend ", s) + " a window"
	}
	return true, ""
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
