// Package stats decides what the repeats of a bench run say: pooled noise, intervals, ratios, verdicts.
//
// The unit of repetition is the run (METHOD 6). A cell's metric is one positive number for each run; all work is on
// the log scale, so that "twice as slow" and "half as slow" are equally far from 1. Noise is one standard deviation
// for each metric and kind of cell, pooled over the repeats of all cells:
//
//	cell A  x x        within-cell deviations of the logs  --+
//	cell B  x x x  ->  sum of squares / degrees of freedom --+--> Noise{Sigma, DF} -> Student t
//	cell C  x x                                            --+
//
// so that a cell with two runs gets the interval that all repeats together support, not the one that two lucky
// numbers would give. The package knows nothing of records, cells or files; it holds no state, reads no clock and is
// safe for concurrent use.
package stats

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"
)

// MinDF is the number of degrees of freedom that pooled noise needs before any verdict but "cannot tell".
const MinDF = 20

// Confidence is the level of every interval that the bench prints.
const Confidence = 0.95

// Noise is the run-to-run standard deviation of one metric on the (natural) log scale.
type Noise struct {
	Sigma float64 `json:"sigma"` // standard deviation of the log of one run
	DF    int     `json:"df"`    // degrees of freedom it rests on; 0 means unknown
}

// Interval is a closed interval.
type Interval struct {
	Low  float64 `json:"low"`
	High float64 `json:"high"`
}

// Contains reports whether v lies in the interval.
func (i Interval) Contains(v float64) bool { return v >= i.Low && v <= i.High }

// Pool returns the noise pooled over groups; each group holds the values of one cell's repeats. Values that are not
// positive finite numbers are left out, groups with fewer than two of the rest add nothing.
func Pool(groups [][]float64) Noise {
	var sumSquares float64
	df := 0
	for _, g := range groups {
		logs := logsOf(g)
		if len(logs) < 2 {
			continue
		}
		mean := meanOf(logs)
		for _, l := range logs {
			sumSquares += (l - mean) * (l - mean)
		}
		df += len(logs) - 1
	}
	if df == 0 {
		return Noise{}
	}
	return Noise{Sigma: math.Sqrt(sumSquares / float64(df)), DF: df}
}

// Known reports whether the noise rests on any repeat at all.
func (n Noise) Known() bool { return n.DF > 0 }

// T returns the two-sided Student quantile for the package's confidence, NaN when the noise is unknown.
func (n Noise) T() float64 {
	if n.DF <= 0 {
		return math.NaN()
	}
	return tQuantile(1-(1-Confidence)/2, n.DF)
}

// RunPercent returns how far, in percent, one run may lie above its cell's true value: the "±18%" of the terminal.
func (n Noise) RunPercent() float64 { return 100 * math.Expm1(n.T()*n.Sigma) }

// SmallestVisible returns the smallest ratio above 1 that a comparison of nCandidate against nBaseline runs can tell
// from 1 with a probability of about 80%. The plan prints it before anything runs.
func (n Noise) SmallestVisible(nCandidate, nBaseline int) float64 {
	if n.DF <= 0 || nCandidate < 1 || nBaseline < 1 {
		return math.NaN()
	}
	standardError := n.Sigma * math.Sqrt(1/float64(nCandidate)+1/float64(nBaseline))
	return math.Exp((n.T() + tQuantile(0.80, n.DF)) * standardError)
}

// SmallestEffect is SmallestVisible for an effect whose standard error is scale times that of one run.
func (n Noise) SmallestEffect(scale float64) float64 {
	return math.Exp((n.T() + tQuantile(0.80, n.DF)) * n.Sigma * scale)
}

// Estimate is a cell's value over its repeats: the geometric mean with its 95% interval from pooled noise.
type Estimate struct {
	Value float64 `json:"value"`
	Interval
	N int `json:"n"` // runs that entered
}

// Mean returns the estimate of values under the pooled noise. Unusable values are left out; with none left, or with
// unknown noise, the fields that cannot be computed are NaN.
func Mean(values []float64, noise Noise) Estimate {
	logs := logsOf(values)
	if len(logs) == 0 {
		nan := math.NaN()
		return Estimate{Value: nan, Interval: Interval{nan, nan}}
	}
	mean := meanOf(logs)
	half := noise.T() * noise.Sigma / math.Sqrt(float64(len(logs)))
	return Estimate{Value: math.Exp(mean), Interval: Interval{math.Exp(mean - half), math.Exp(mean + half)}, N: len(logs)}
}

// Ratio compares a candidate cell with its baseline: candidate / baseline.
type Ratio struct {
	Value float64 `json:"value"`
	Interval
	NCandidate int     `json:"nCandidate"`
	NBaseline  int     `json:"nBaseline"`
	P          float64 `json:"p"` // two-sided probability of a ratio this far from 1 by chance
	Noise      Noise   `json:"noise"`
	// Weakest is the ratio after the one run is left out, of either side, that the finding owes most to; NaN where a side
	// has a single run.
	Weakest float64 `json:"weakest"`
}

// oneRunShare is how much of a ratio, on the log scale, must remain when any one run is left out.
const oneRunShare = 0.4

// RestsOnOneRun reports whether the ratio falls below two fifths of itself, or turns round, when one run is left out. Runs
// that met a stall are far out of what Student's t expects of noise: with two runs a side, and one run of twenty
// stalled, one of six comparisons of equals stood by Holm in 10.6% of simulated benches; with this rule in under 5%.
func (r Ratio) RestsOnOneRun() bool {
	whole, left := math.Log(r.Value), math.Log(r.Weakest)
	return !(math.Abs(whole) > 0) || math.IsNaN(left) || left/whole < oneRunShare
}

// weakest is the estimate, on the log scale, without the run that does most for it.
func weakest(candidate, baseline []float64) float64 {
	whole := meanOf(candidate) - meanOf(baseline)
	sign := math.Copysign(1, whole)
	if len(candidate) < 2 || len(baseline) < 2 {
		return math.NaN()
	}
	without := func(logs []float64, v float64) float64 {
		n := float64(len(logs))
		return (meanOf(logs)*n - v) / (n - 1)
	}
	left := sign * whole
	for _, v := range candidate {
		left = min(left, sign*(without(candidate, v)-meanOf(baseline)))
	}
	for _, v := range baseline {
		left = min(left, sign*(meanOf(candidate)-without(baseline, v)))
	}
	return sign * left
}

// Compare returns the ratio of the geometric means of candidate and baseline with its 95% interval from pooled noise.
// Fields that cannot be computed are NaN.
func Compare(candidate, baseline []float64, noise Noise) Ratio {
	c, b := logsOf(candidate), logsOf(baseline)
	r := Ratio{NCandidate: len(c), NBaseline: len(b), Noise: noise}
	if len(c) == 0 || len(b) == 0 {
		nan := math.NaN()
		r.Value, r.Interval, r.P, r.Weakest = nan, Interval{nan, nan}, nan, nan
		return r
	}
	estimate := meanOf(c) - meanOf(b)
	standardError := noise.Sigma * math.Sqrt(1/float64(len(c))+1/float64(len(b)))
	half := noise.T() * standardError
	r.Value = math.Exp(estimate)
	r.Interval = Interval{math.Exp(estimate - half), math.Exp(estimate + half)}
	r.P = pValue(estimate, standardError, noise.DF)
	r.Weakest = math.Exp(weakest(c, b))
	return r
}

// pValue is the two-sided probability of an estimate this far from 0.
func pValue(estimate, standardError float64, df int) float64 {
	switch {
	case df <= 0 || math.IsNaN(estimate):
		return math.NaN()
	case standardError == 0 && estimate == 0:
		return 1
	case standardError == 0:
		return 0
	}
	t := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: float64(df)}
	return 2 * t.Survival(math.Abs(estimate/standardError))
}

// Median returns the middle of values (the mean of the middle two), NaN for none. The input is left as it is.
func Median(values []float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	s := slices.Clone(values)
	slices.Sort(s)
	m := len(s) / 2
	if len(s)%2 == 1 {
		return s[m]
	}
	return (s[m-1] + s[m]) / 2
}

func tQuantile(p float64, df int) float64 {
	return distuv.StudentsT{Mu: 0, Sigma: 1, Nu: float64(df)}.Quantile(p)
}

func logsOf(values []float64) []float64 {
	logs := make([]float64, 0, len(values))
	for _, v := range values {
		if v > 0 && !math.IsInf(v, 0) {
			logs = append(logs, math.Log(v))
		}
	}
	return logs
}

func meanOf(values []float64) float64 {
	var sum float64
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}
