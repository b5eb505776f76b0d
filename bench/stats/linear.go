package stats

import (
	"math"
	"sort"

	"gonum.org/v1/gonum/stat/distuv"
)

// Inverse returns the inverse of a symmetric positive definite matrix; ok is false where it is none, or so nearly none that
// the columns it was made of cannot be told apart.
func Inverse(m [][]float64) (inverse [][]float64, ok bool) {
	n := len(m)
	l := make([][]float64, n) // lower triangle, m = l l'
	for i := range n {
		l[i] = make([]float64, n)
		for j := range i + 1 {
			sum := m[i][j]
			for k := range j {
				sum -= l[i][k] * l[j][k]
			}
			switch {
			case i != j:
				l[i][j] = sum / l[j][j]
			case !(sum > 1e-9*math.Max(m[i][i], 1e-300)):
				return nil, false
			default:
				l[i][i] = math.Sqrt(sum)
			}
		}
	}
	inverse = make([][]float64, n)
	for i := range inverse {
		inverse[i] = make([]float64, n)
	}
	column := make([]float64, n)
	for c := range n {
		for i := range n { // l z = unit vector c
			sum := 0.0
			if i == c {
				sum = 1
			}
			for k := range i {
				sum -= l[i][k] * column[k]
			}
			column[i] = sum / l[i][i]
		}
		for i := n - 1; i >= 0; i-- { // l' x = z
			sum := column[i]
			for k := i + 1; k < n; k++ {
				sum -= l[k][i] * column[k]
			}
			column[i] = sum / l[i][i]
			inverse[i][c] = column[i]
		}
	}
	return inverse, true
}

// Dot is the sum of the products of two rows of one length.
func Dot(a, b []float64) float64 {
	sum := 0.0
	for i := range a {
		sum += a[i] * b[i]
	}
	return sum
}

// Gram adds weight times the product of a row with itself to m.
func Gram(m [][]float64, row []float64, weight float64) {
	for i, a := range row {
		for j, b := range row {
			m[i][j] += weight * a * b
		}
	}
}

// Times is the product of a matrix and a column.
func Times(m [][]float64, v []float64) []float64 {
	out := make([]float64, len(m))
	for i := range m {
		out[i] = Dot(m[i], v)
	}
	return out
}

// Fit is a linear model of the logs of a metric, fitted by least squares over the runs of cells. Its noise is that of
// repeats: what a model leaves over holds what it lacks as well, and intervals made of that grow with what is wrong.
type Fit struct {
	Coefficients []float64
	Noise        Noise // of one run
	Runs         int
	Lack         Lack
	Inverse      [][]float64 // of the information matrix X'X
	weakest      []float64
}

// Lack is how far the means of the cells that a model was fitted to lie off it, against the noise of repeats: an F test of
// what the model lacks.
type Lack struct {
	F  float64 // what cells vary about the model, by what runs vary within cells
	DF int     // cells beyond the model's columns
	P  float64 // probability of that much by repeats alone; NaN without such a cell, or without known noise
}

// rounding is a change of a log that arithmetic alone makes.
const rounding = 1e-9

// FitOf fits the logs of the values of cells, each with a row whose first entry is 1, under the noise of repeats. Values
// without a logarithm are left out. ok is false where the rows cannot tell the columns apart, or leave nothing over.
func FitOf(rows, cells [][]float64, noise Noise) (f *Fit, ok bool) {
	if len(rows) == 0 || len(rows) != len(cells) {
		return nil, false
	}
	p := len(rows[0])
	m := make([][]float64, p)
	for i := range m {
		m[i] = make([]float64, p)
	}
	right := make([]float64, p)
	logs := make([][]float64, len(cells))
	f = &Fit{Noise: noise}
	for i, row := range rows {
		logs[i] = logsOf(cells[i])
		f.Runs += len(logs[i])
		Gram(m, row, float64(len(logs[i])))
		for _, l := range logs[i] {
			for j, v := range row {
				right[j] += v * l
			}
		}
	}
	if f.Runs <= p {
		return nil, false
	}
	if f.Inverse, ok = Inverse(m); !ok {
		return nil, false
	}
	f.Coefficients = Times(f.Inverse, right)
	for j, b := range f.Coefficients {
		if math.Abs(b) < rounding {
			f.Coefficients[j] = 0
		}
	}
	f.weaken(rows, logs)
	f.Lack = f.lackOf(rows, logs)
	return f, true
}

// weaken finds what is left of each coefficient without the run that does most for it.
func (f *Fit) weaken(rows, logs [][]float64) {
	f.weakest = append([]float64(nil), f.Coefficients...)
	for i, row := range rows {
		pull := Times(f.Inverse, row) // what a run does to each coefficient, by its leverage
		leverage := Dot(row, pull)
		for _, l := range logs[i] {
			left := l - Dot(row, f.Coefficients)
			for j, b := range f.Coefficients {
				without := math.NaN() // the run alone tells some column
				if 1-leverage > 1e-9 {
					without = b - pull[j]*left/(1-leverage)
				} else if math.Abs(pull[j]) < 1e-9 {
					without = b
				}
				if math.IsNaN(without) || without*sign(b) < f.weakest[j]*sign(b) {
					f.weakest[j] = without
				}
			}
		}
	}
}

func (f *Fit) lackOf(rows, logs [][]float64) Lack {
	l := Lack{F: math.NaN(), P: math.NaN(), DF: -len(f.Coefficients)}
	squares := 0.0
	for i, own := range logs {
		if len(own) == 0 {
			continue
		}
		l.DF++
		off := meanOf(own) - Dot(rows[i], f.Coefficients)
		squares += float64(len(own)) * off * off
	}
	if l.DF <= 0 || !f.Noise.Known() {
		l.DF = max(0, l.DF)
		return l
	}
	switch mean := squares / float64(l.DF); {
	case mean < rounding*rounding:
		l.F, l.P = 0, 1
	case f.Noise.Sigma == 0:
		l.F, l.P = math.Inf(1), 0
	default:
		l.F = mean / (f.Noise.Sigma * f.Noise.Sigma)
		l.P = distuv.F{D1: float64(l.DF), D2: float64(f.Noise.DF)}.Survival(l.F)
	}
	return l
}

func sign(v float64) float64 { return math.Copysign(1, v) }

// Effect is the ratio that column j makes, with its 95% interval.
func (f *Fit) Effect(j int) Ratio {
	b, e := f.Coefficients[j], f.Noise.Sigma*math.Sqrt(f.Inverse[j][j])
	half := f.Noise.T() * e
	return Ratio{Value: math.Exp(b), Interval: Interval{math.Exp(b - half), math.Exp(b + half)}, P: pValue(b, e, f.Noise.DF),
		NCandidate: f.Runs, NBaseline: f.Runs, Noise: f.Noise, Weakest: math.Exp(f.weakest[j])}
}

// Predict is where the mean of so many new runs of a row must fall, in confidence of all cases, if the model holds.
func (f *Fit) Predict(row []float64, runs int, confidence float64) Estimate {
	at, half := Dot(row, f.Coefficients), math.NaN()
	if f.Noise.Known() {
		half = tQuantile(1-(1-confidence)/2, f.Noise.DF) * f.Noise.Sigma * math.Sqrt(1/float64(runs)+Dot(row, Times(f.Inverse, row)))
		half = math.Max(half, rounding)
	}
	return Estimate{Value: math.Exp(at), Interval: Interval{math.Exp(at - half), math.Exp(at + half)}, N: runs}
}

// JudgeEffect is Judge for the effect of a model, to whose width all runs add.
func JudgeEffect(r Ratio, d Direction, allowance float64) Judgement {
	j := Judge(r, d, allowance)
	if j.Verdict != CannotTell || j.Reason != "" {
		return j
	}
	change, limit := r.Change(d), math.Log1p(allowance)
	half := (change.High - change.Low) / 2
	j.MoreRuns = 1 + sort.Search(maxMoreRuns, func(i int) bool {
		more := i + 1
		n := Noise{DF: r.Noise.DF + more}
		h := half * n.T() / r.Noise.T() * math.Sqrt(float64(r.NCandidate)/float64(r.NCandidate+more))
		return Decide(Change{change.Estimate, change.Estimate - h, change.Estimate + h}, limit) != CannotTell
	})
	return j
}
