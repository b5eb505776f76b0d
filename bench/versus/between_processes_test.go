package versus

import (
	"math"
	"strings"
	"testing"
)

// TestPairsOfOneProcessAreNoProcessesOfTheirOwn: fifteen pairs that agree inside each of three processes say little where the
// processes do not.
func TestPairsOfOneProcessAreNoProcessesOfTheirOwn(t *testing.T) {
	apart := [][][2]float64{repeat([2]float64{210, 100}, 5), repeat([2]float64{250, 100}, 5), repeat([2]float64{230, 100}, 5)}
	alike := [][][2]float64{repeat([2]float64{230, 100}, 5), repeat([2]float64{230, 100}, 5), repeat([2]float64{230, 100}, 5)}
	// The means of the processes are 2.1, 2.5 and 2.3, each times 1.01 to the power of two fifths; t(2) = 4.303.
	logs := []float64{math.Log(2.1), math.Log(2.5), math.Log(2.3)}
	mean := (logs[0] + logs[1] + logs[2]) / 3
	sum := 0.0
	for _, v := range logs {
		sum += (v - mean) * (v - mean)
	}
	half := 4.303 * math.Sqrt(sum/2) / math.Sqrt(3)
	middle := mean + 0.4*math.Log(1.01)
	for _, c := range []struct {
		name      string
		processes [][][2]float64
		want      Verdict
		between   bool
	}{
		{"apart", apart, CannotTell, true},
		{"alike", alike, Met, false},
		{"of two processes nothing is told", apart[:2], CannotTell, false},
	} {
		d := document(Goal{Measure: "MB per CPU-s", Ratio: 2, OfCeiling: 0.2}, c.processes)
		d.Rows[0].Ceiling = "a loop"
		for _, b := range d.Blocks {
			b.Beside = &Beside{PerCPU: []float64{1000, 1000, 1000, 1000, 1000, 1000}}
		}
		r := Analyse(d)
		l := &r[0].Lines[0]
		if l.Verdict != c.want || l.Between != c.between {
			t.Errorf("%s: %s, between %v: x%v [%v %v], share [%v %v]", c.name, l.Verdict, l.Between, l.Ratio.Value, l.Ratio.Low, l.Ratio.High, l.Share.Low, l.Share.High)
		}
		if !c.between {
			continue
		}
		for what, got := range map[string][2]float64{"low": {l.Ratio.Low, math.Exp(middle - half)}, "high": {l.Ratio.High, math.Exp(middle + half)},
			"value": {l.Ratio.Value, math.Exp(middle)}, "share's low": {l.Share.Low, math.Exp(middle-half) / 10}, "share's high": {l.Share.High, math.Exp(middle+half) / 10}} {
			if math.Abs(got[0]/got[1]-1) > 0.001 {
				t.Errorf("%s: %s is %v, want %v", c.name, what, got[0], got[1])
			}
		}
		if text := dots(d, &r[0], 0); !strings.Contains(text, "interval over one mean for each process") {
			t.Error(text)
		}
	}
}

func TestAnUnbalancedRowIsNotTheOneLongProcess(t *testing.T) {
	d := document(Goal{Measure: "MB per CPU-s", Ratio: 2}, [][][2]float64{repeat([2]float64{300, 100}, 20), {{190, 100}}, {{200, 100}}})
	if l := Analyse(d)[0].Lines[0]; l.Verdict != CannotTell || l.Ratio.Low > 1.9 {
		t.Errorf("%s: x%v [%v %v]", l.Verdict, l.Ratio.Value, l.Ratio.Low, l.Ratio.High)
	}
}
