package stats

import (
	"fmt"
	"math"
	"sort"

	"github.com/tidemark/tidemark/core/lie"
)

// Direction says which way a metric is good. Its zero value is invalid, so that a forgotten direction is noticed.
type Direction int

// The directions of a metric.
const (
	LowerIsBetter Direction = iota + 1
	HigherIsBetter
)

// String returns "lower" or "higher".
func (d Direction) String() string {
	switch d {
	case LowerIsBetter:
		return "lower"
	case HigherIsBetter:
		return "higher"
	}
	return "unset"
}

// Verdict is what a comparison says. The zero value is CannotTell: nothing that was left out ever passes.
type Verdict int

// The four verdicts of METHOD 6.
const (
	CannotTell Verdict = iota
	Better
	Worse
	NoWorse
)

// String returns the verdict's words, "no worse" without its allowance.
func (v Verdict) String() string {
	switch v {
	case Better:
		return "better"
	case Worse:
		return "worse"
	case NoWorse:
		return "no worse"
	}
	return "cannot tell"
}

// Change is a ratio on the log scale with "+ is bad" whatever the metric's direction.
type Change struct {
	Estimate, Low, High float64
}

// Change turns the ratio for a metric of direction d into a change. An unset direction gives NaN.
func (r Ratio) Change(d Direction) Change {
	e, lo, hi := math.Log(r.Value), math.Log(r.Low), math.Log(r.High)
	if lie.Told == lie.DirectionFlipped {
		d = LowerIsBetter + HigherIsBetter - d
	}
	switch d {
	case LowerIsBetter:
		return Change{e, lo, hi}
	case HigherIsBetter:
		return Change{-e, -hi, -lo}
	}
	nan := math.NaN()
	return Change{nan, nan, nan}
}

// Decide returns the verdict on a change under the allowance d (log scale, math.Log1p(0.05) for 5%).
//
//	worse        the whole interval above 0 and the estimate at least d
//	better       the whole interval below 0
//	no worse     the upper end below d (a proven small loss included)
//	cannot tell  all else, NaN included
func Decide(c Change, d float64) Verdict {
	switch {
	case math.IsNaN(c.Estimate) || math.IsNaN(c.Low) || math.IsNaN(c.High) || math.IsNaN(d):
		return CannotTell
	case c.High < 0:
		return Better
	case c.Low > 0 && c.Estimate >= d:
		return Worse
	case c.High < d:
		return NoWorse
	}
	return CannotTell
}

// Judgement is a verdict with what it rests on.
type Judgement struct {
	Verdict    Verdict   `json:"verdict"`
	Ratio      Ratio     `json:"ratio"`
	Direction  Direction `json:"direction"`
	Allowance  float64   `json:"allowance"`  // 0.05 for 5%
	ProvenLoss bool      `json:"provenLoss"` // NoWorse, and yet the whole interval is on the bad side
	MoreRuns   int       `json:"moreRuns"`   // CannotTell: further runs (both sides together) that would decide; 0 unknown
	Reason     string    `json:"reason"`     // CannotTell: why, where it is not the width of the interval
}

// maxMoreRuns bounds the search for the number of further runs; past it the answer is "more than a thousand".
const maxMoreRuns = 1000

// Judge compares r with the allowance (0.05 for 5%). Fewer than MinDF degrees of freedom, a missing side, or a
// metric without direction are "cannot tell" with a reason.
func Judge(r Ratio, d Direction, allowance float64) Judgement {
	j := Judgement{Ratio: r, Direction: d, Allowance: allowance}
	limit := math.Log1p(allowance)
	change := r.Change(d)
	switch {
	case r.NCandidate == 0 || r.NBaseline == 0:
		j.Reason = "no run to compare"
		return j
	case d != LowerIsBetter && d != HigherIsBetter:
		j.Reason = "the metric has no direction"
		return j
	case math.IsNaN(change.Estimate) || math.IsInf(change.Estimate, 0):
		j.Reason = "no number to compare"
		return j
	case r.Noise.DF < MinDF:
		// No number of runs of these two cells alone is promised: the noise is pooled over all cells of the kind.
		j.Reason = fmt.Sprintf("noise rests on %d degrees of freedom, %d are needed", r.Noise.DF, MinDF)
		return j
	}
	j.Verdict = Decide(change, limit)
	j.ProvenLoss = j.Verdict == NoWorse && change.Low > 0
	if j.Verdict == CannotTell {
		j.MoreRuns = moreRuns(change.Estimate, limit, r)
	}
	return j
}

// moreRuns is the least number of further runs, each dealt to the side that has fewer, of which an interval around the
// same estimate decides. A narrower interval never loses its verdict, so the number can be bisected.
func moreRuns(estimate, limit float64, r Ratio) int {
	return 1 + sort.Search(maxMoreRuns, func(i int) bool {
		more := i + 1
		nc, nb := dealt(r.NCandidate, r.NBaseline, more)
		noise := Noise{Sigma: r.Noise.Sigma, DF: r.Noise.DF + more}
		half := noise.T() * noise.Sigma * math.Sqrt(1/float64(nc)+1/float64(nb))
		return Decide(Change{estimate, estimate - half, estimate + half}, limit) != CannotTell
	})
}

// dealt adds runs to two sides, the smaller first.
func dealt(a, b, more int) (int, int) {
	gap := min(more, max(a-b, b-a))
	if a < b {
		a += gap
	} else {
		b += gap
	}
	more -= gap
	return a + (more+1)/2, b + more/2
}

// Words returns the judgement as REPORT writes it: "worse", "better", "no worse than 5%", "cannot tell: 12 more runs".
func (j Judgement) Words() string {
	switch j.Verdict {
	case NoWorse:
		words := fmt.Sprintf("no worse than %.3g%%", 100*j.Allowance)
		if j.ProvenLoss {
			words += fmt.Sprintf(" (a loss of %.2g%% is proven)", 100*math.Expm1(j.Ratio.Change(j.Direction).Estimate))
		}
		return words
	case CannotTell:
		switch {
		case j.Reason != "":
			return "cannot tell: " + j.Reason
		case j.MoreRuns > maxMoreRuns:
			return fmt.Sprintf("cannot tell: over %d more runs", maxMoreRuns)
		case j.MoreRuns == 1:
			return "cannot tell: 1 more run"
		case j.MoreRuns > 0:
			return fmt.Sprintf("cannot tell: %d more runs", j.MoreRuns)
		}
	}
	return j.Verdict.String()
}

// Outcome is what a gate answers; its values are the interface's exit codes.
type Outcome int

// The outcomes of a gate.
const (
	Pass         Outcome = 0
	Regression   Outcome = 1
	Inconclusive Outcome = 3
)

// Gate sums gated judgements up: any worse that stands among all of them (Holm, 5% together) is a regression; any that
// cannot be told, a side with one run and a worse that may be chance included, is inconclusive; and nothing compared is
// never a pass.
func Gate(judgements []Judgement) Outcome {
	outcome := Pass
	if len(judgements) == 0 {
		outcome = Inconclusive
	}
	for _, own := range GateEach(judgements) {
		switch own {
		case Regression:
			return Regression
		case Pass:
		default:
			outcome = Inconclusive
		}
	}
	return outcome
}

// GateEach is what each judgement says to a gate that looks at all of them together.
func GateEach(judgements []Judgement) []Outcome {
	p := make([]float64, len(judgements))
	for i, j := range judgements {
		p[i] = j.Ratio.P
	}
	stands := Holm(p, 1-Confidence)
	out := make([]Outcome, len(judgements))
	for i, j := range judgements {
		switch {
		case j.Ratio.NCandidate < 2 || j.Ratio.NBaseline < 2:
			out[i] = Inconclusive
		case j.Verdict == Worse && stands[i] && !j.Ratio.RestsOnOneRun():
			out[i] = Regression
		case j.Verdict == Better || j.Verdict == NoWorse:
			out[i] = Pass
		default:
			out[i] = Inconclusive
		}
	}
	return out
}

// Holm reports which of the probabilities p are small enough that the family as a whole errs in at most alpha of all
// cases (S. Holm, 1979). NaN never is. The result is in p's order.
func Holm(p []float64, alpha float64) []bool {
	return stepwise(p, func(rank, n int) float64 { return alpha / float64(n-rank) }, false)
}

// FalseDiscovery reports which of p stand when at most rate of those reported may be chance (Benjamini, Hochberg).
func FalseDiscovery(p []float64, rate float64) []bool {
	return stepwise(p, func(rank, n int) float64 { return rate * float64(rank+1) / float64(n) }, true)
}

// stepwise orders p and accepts a run of the smallest: up to the first that fails (step down), or up to the last that
// holds (step up).
func stepwise(p []float64, bound func(rank, n int) float64, stepUp bool) []bool {
	order := make([]int, 0, len(p))
	for i, v := range p {
		if !math.IsNaN(v) {
			order = append(order, i)
		}
	}
	sort.SliceStable(order, func(a, b int) bool { return p[order[a]] < p[order[b]] })
	accepted := 0
	for rank, i := range order {
		if p[i] <= bound(rank, len(p)) {
			accepted = rank + 1
		} else if !stepUp {
			break
		}
	}
	out := make([]bool, len(p))
	for _, i := range order[:accepted] {
		out[i] = true
	}
	return out
}

// MarshalText writes a direction as its word.
func (d Direction) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// MarshalText writes a verdict as its words.
func (v Verdict) MarshalText() ([]byte, error) { return []byte(v.String()), nil }
