package stats_test

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/tidemark/tidemark/bench/stats"
)

// TestVerdictTable is METHOD 9's: changes in percent, + is bad, allowance 5%; the last column is the gate's exit code.
func TestVerdictTable(t *testing.T) {
	nan := math.NaN()
	for _, c := range []struct {
		name          string
		low, at, high float64
		want          stats.Verdict
		proven        bool
		candidate     int
		df            int
		exit          stats.Outcome
	}{
		{"equal", -0.5, 0.15, 0.8, stats.NoWorse, false, 5, 30, stats.Pass},
		{"small loss", 1, 2, 3, stats.NoWorse, true, 5, 30, stats.Pass},
		{"clear loss", 6, 7.5, 9, stats.Worse, false, 5, 30, stats.Regression},
		{"loss of unclear size", 0.5, 4, 8, stats.CannotTell, false, 5, 30, stats.Inconclusive},
		{"gain", -9, -7, -5, stats.Better, false, 5, 30, stats.Pass},
		{"wide", -8, 1, 10, stats.CannotTell, false, 5, 30, stats.Inconclusive},
		{"estimate over the allowance, interval over 0", 0.1, 6, 12, stats.Worse, false, 5, 30, stats.Regression},
		{"one run", -0.5, 0.15, 0.8, stats.NoWorse, false, 1, 30, stats.Inconclusive},
		{"no run", nan, nan, nan, stats.CannotTell, false, 0, 30, stats.Inconclusive},
		{"not a number", nan, nan, nan, stats.CannotTell, false, 5, 30, stats.Inconclusive},
		{"noise hardly known", -0.5, 0.15, 0.8, stats.CannotTell, false, 5, 19, stats.Inconclusive},
	} {
		for _, d := range []stats.Direction{stats.LowerIsBetter, stats.HigherIsBetter} {
			r := stats.Ratio{NCandidate: c.candidate, NBaseline: 9, Noise: stats.Noise{Sigma: 0.03, DF: c.df},
				Value: 1 + c.at/100, Interval: stats.Interval{Low: 1 + c.low/100, High: 1 + c.high/100}}
			if d == stats.HigherIsBetter {
				r.Value, r.Low, r.High = 1/r.Value, 1/r.High, 1/r.Low
			}
			r.Weakest = r.Value
			j := stats.Judge(r, d, 0.05)
			if j.Verdict != c.want || j.ProvenLoss != c.proven {
				t.Errorf("%s, %v is better: %v (loss proven %v), want %v", c.name, d, j.Verdict, j.ProvenLoss, c.want)
			}
			if got := stats.Gate([]stats.Judgement{j}); got != c.exit {
				t.Errorf("%s, %v is better: gate %d, want %d", c.name, d, got, c.exit)
			}
			if c.proven && !strings.Contains(j.Words(), "2% is proven") {
				t.Errorf("%s: %q does not print the loss", c.name, j.Words())
			}
		}
	}
	if got := stats.Gate(nil); got != stats.Inconclusive {
		t.Errorf("nothing compared: gate %d", got)
	}
	var none stats.Judgement
	if got := stats.Gate([]stats.Judgement{none}); got != stats.Inconclusive {
		t.Errorf("a judgement that nobody made: gate %d", got)
	}
	if j := stats.Judge(stats.Ratio{NCandidate: 5, NBaseline: 5, Value: 1, Interval: stats.Interval{Low: 1, High: 1}, Noise: stats.Noise{DF: 30}}, 0, 0.05); j.Verdict != stats.CannotTell {
		t.Errorf("a metric without direction: %v", j.Verdict)
	}
}

func TestFurtherRunsThatAreSaidToDecideDo(t *testing.T) {
	noise := stats.Noise{Sigma: 0.05, DF: 30}
	r := stats.Compare([]float64{1.03, 1.01}, []float64{1, 1.02, 0.98, 1, 1.01, 0.99, 1, 1, 1}, noise)
	j := stats.Judge(r, stats.LowerIsBetter, 0.05)
	if j.Verdict != stats.CannotTell || j.MoreRuns < 1 || j.MoreRuns > 1000 {
		t.Fatalf("%v, %d more runs", j.Verdict, j.MoreRuns)
	}
	// The same estimate from so many runs more, dealt to the smaller side, decides; from one fewer it does not.
	decides := func(more int) bool {
		nc, nb := 2, 9
		for range more {
			if nc <= nb {
				nc++
			} else {
				nb++
			}
		}
		n := stats.Noise{Sigma: noise.Sigma, DF: noise.DF + more}
		half := n.T() * n.Sigma * math.Sqrt(1/float64(nc)+1/float64(nb))
		e := math.Log(r.Value)
		return stats.Decide(stats.Change{Estimate: e, Low: e - half, High: e + half}, math.Log1p(0.05)) != stats.CannotTell
	}
	if !decides(j.MoreRuns) || decides(j.MoreRuns-1) {
		t.Errorf("%d more runs is not the least number that decides", j.MoreRuns)
	}
}

// TestFalseAlarmsAtTheStatedRate compares a cell with itself 4,000 times under pooled noise: 95% intervals must miss 1
// in 5% of the cases, give or take one point.
func TestFalseAlarmsAtTheStatedRate(t *testing.T) {
	const trials, seed = 4000, 11
	random := rand.New(rand.NewPCG(seed, 0))
	missed := 0
	for range trials {
		groups := make([][]float64, 16)
		for i := range groups {
			level := math.Exp(3 * random.NormFloat64()) // cells differ by orders of magnitude; their noise does not
			for range 2 + 7*btoi(i == 0) {
				groups[i] = append(groups[i], level*math.Exp(0.2*random.NormFloat64()))
			}
		}
		same := groups[0]
		r := stats.Compare(same[:2], same[2:], stats.Pool(groups[1:]))
		if !r.Contains(1) {
			missed++
		}
	}
	if share := float64(missed) / trials; math.Abs(share-0.05) > 0.01 {
		t.Errorf("seed %d: %.1f%% of the intervals miss, want 5%% ± 1", seed, 100*share)
	}
}

// TestPowerCurve pins what two against nine runs find at a noise of 5% a run.
func TestPowerCurve(t *testing.T) {
	const trials, seed = 2000, 12
	random := rand.New(rand.NewPCG(seed, 0))
	noise := stats.Noise{Sigma: 0.05, DF: 28}
	found := func(effect float64) float64 {
		n := 0
		for range trials {
			draw := func(k int, level float64) (v []float64) {
				for range k {
					v = append(v, level*math.Exp(noise.Sigma*random.NormFloat64()))
				}
				return v
			}
			r := stats.Compare(draw(2, 1+effect), draw(9, 1), noise)
			if stats.Decide(r.Change(stats.LowerIsBetter), math.Log1p(0.05)) == stats.Worse {
				n++
			}
		}
		return float64(n) / trials
	}
	for _, c := range []struct{ effect, low, high float64 }{{0, 0, 0.03}, {0.02, 0.02, 0.15}, {0.05, 0.15, 0.4}, {0.10, 0.55, 0.85}, {0.20, 0.97, 1}} {
		if got := found(c.effect); got < c.low || got > c.high {
			t.Errorf("seed %d: an effect of %.0f%% is found in %.1f%% of the cases, want %.0f to %.0f", seed, 100*c.effect, 100*got, 100*c.low, 100*c.high)
		}
	}
	visible := noise.SmallestVisible(2, 9) - 1
	if got := found(visible); got < 0.7 || got > 0.9 {
		t.Errorf("seed %d: the change that the plan calls visible (%.1f%%) is found in %.0f%% of the cases, want about 80", seed, 100*visible, 100*got)
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

func TestPoolLeavesOutWhatIsNoMeasurement(t *testing.T) {
	n := stats.Pool([][]float64{{1, math.E}, {5}, {}, {2, 0, -1, math.NaN(), math.Inf(1)}})
	if n.DF != 1 || math.Abs(n.Sigma-math.Sqrt(0.5)) > 1e-12 {
		t.Errorf("%+v", n)
	}
	if e := stats.Mean([]float64{2, 8}, stats.Noise{}); math.Abs(e.Value-4) > 1e-12 || !math.IsNaN(e.Low) {
		t.Errorf("%+v: the mean of 2 and 8 is 4, its interval is not known", e)
	}
	if r := stats.Compare(nil, []float64{1}, n); !math.IsNaN(r.Value) || stats.Judge(r, stats.LowerIsBetter, 0.05).Verdict != stats.CannotTell {
		t.Errorf("%+v", r)
	}
	if noise := (stats.Noise{}); noise.Known() || !math.IsNaN(noise.RunPercent()) {
		t.Error("unknown noise has a figure")
	}
}

func TestStudentQuantileIsTheTables(t *testing.T) {
	for df, want := range map[int]float64{1: 12.706, 5: 2.571, 20: 2.086, 28: 2.048} {
		if got := (stats.Noise{Sigma: 1, DF: df}).T(); math.Abs(got-want) > 0.001 {
			t.Errorf("df %d: %v, want %v", df, got, want)
		}
	}
}

func TestHolmAndFalseDiscovery(t *testing.T) {
	p := []float64{0.01, 0.04, 0.03, 0.005, math.NaN()}
	if got := stats.Holm(p[:4], 0.05); got[0] != true || got[1] || got[2] || got[3] != true {
		t.Errorf("Holm %v", got)
	}
	if got := stats.FalseDiscovery(p[:4], 0.05); !got[0] || !got[1] || !got[2] || !got[3] {
		t.Errorf("false discovery %v", got)
	}
	if got := stats.Holm(p, 0.05); got[4] || !got[3] {
		t.Errorf("with a missing one %v", got)
	}
	if got := stats.Holm(nil, 0.05); len(got) != 0 {
		t.Errorf("none %v", got)
	}
}

// TestWorseAndBetterNeedTheirDirection is the lie "direction flipped": the same ratio is a gain for one metric and a
// loss for the other.
func TestWorseAndBetterNeedTheirDirection(t *testing.T) {
	r := stats.Ratio{NCandidate: 5, NBaseline: 5, Value: 1.2, Interval: stats.Interval{Low: 1.1, High: 1.3}, Noise: stats.Noise{Sigma: 0.05, DF: 30}}
	if v := stats.Judge(r, stats.LowerIsBetter, 0.05).Verdict; v != stats.Worse {
		t.Errorf("latency up 20%%: %v", v)
	}
	if v := stats.Judge(r, stats.HigherIsBetter, 0.05).Verdict; v != stats.Better {
		t.Errorf("throughput up 20%%: %v", v)
	}
}

// TestAFindingOfOneRunDoesNotFailAGate: one run that met a stall lifts the mean of two far over the allowance, and the
// interval with it.
func TestAFindingOfOneRunDoesNotFailAGate(t *testing.T) {
	baseline := []float64{1, 1.02, 0.98, 1.01, 0.99, 1, 1, 1.01, 0.99}
	for name, c := range map[string]struct {
		candidate []float64
		want      stats.Outcome
	}{
		"one run stalled": {[]float64{1.4, 1.01}, stats.Inconclusive},
		"both are slow":   {[]float64{1.2, 1.18}, stats.Regression},
		"equal":           {[]float64{1.01, 0.99}, stats.Pass},
		"a single run":    {[]float64{1.4}, stats.Inconclusive},
	} {
		j := stats.Judge(stats.Compare(c.candidate, baseline, stats.Noise{Sigma: 0.02, DF: 30}), stats.LowerIsBetter, 0.05)
		if got := stats.Gate([]stats.Judgement{j}); got != c.want {
			t.Errorf("%s: gate %d, want %d (%s, weakest x%.3f)", name, got, c.want, j.Words(), j.Ratio.Weakest)
		}
	}
}
