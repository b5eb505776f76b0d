package versus

import (
	"math"
	"strings"
	"testing"

	"github.com/tidemark/tidemark/bench/stats"
)

// cost is a window whose cost is v MB/CPU-s.
func cost(arm string, pair int, v float64) *Window {
	return &Window{Arm: arm, Pair: pair, Status: "ok", CPUSeconds: 1, WireBytes: v * 1e6, Records: 1, Acked: 1, ReadBack: 1}
}

// document is a finished session of one row with the goal given; each process is a block of pairs of ours and theirs.
func document(goal Goal, processes [][][2]float64) *Document {
	d := &Document{
		Schema: Schema, Profile: "full", State: "finished", MinPairs: 5,
		Arms: []ArmInfo{{Name: "tidemark", Ours: true}, {Name: "kafka"}},
		Rows: []RowInfo{{Name: "row", Title: "a row", Goals: []Goal{goal}}},
	}
	for i, pairs := range processes {
		b := &Block{Row: "row", Process: i + 1, Arms: []string{"tidemark", "kafka"}, Settled: map[string]string{"tidemark": "", "kafka": ""}, From: map[string]int{}}
		for j, p := range pairs {
			b.Windows = append(b.Windows, cost("tidemark", j, p[0]), cost("kafka", j, p[1]))
		}
		d.Blocks = append(d.Blocks, b)
	}
	return d
}

func repeat(p [2]float64, n int) [][2]float64 {
	var out [][2]float64
	for i := range n {
		wobble := 1 + 0.01*float64(i%2)
		out = append(out, [2]float64{p[0] * wobble, p[1]})
	}
	return out
}

func TestRatioIsTheGeometricMeanOverThePairs(t *testing.T) {
	d := document(Goal{Measure: "MB per CPU-s", Ratio: 2}, [][][2]float64{{{200, 100}, {800, 100}}, {{400, 100}, {400, 100}}, {{400, 100}}})
	l := Analyse(d)[0].Lines[0]
	if math.Abs(l.Ratio.Value-4) > 1e-9 || len(l.Pairs) != 5 || l.Processes != 3 {
		t.Errorf("ratio %v of %d pairs, %d processes", l.Ratio.Value, len(l.Pairs), l.Processes)
	}
	// ln 2 either way for two of five pairs: s = sqrt(2 ln²2 / 4), t(4) = 2.776.
	want := 4 * math.Exp(2.776*math.Sqrt(2*math.Ln2*math.Ln2/4)/math.Sqrt(5))
	if math.Abs(l.Ratio.High/want-1) > 0.01 || math.Abs(l.Ratio.Low*l.Ratio.High-16) > 1e-6 {
		t.Errorf("interval [%v %v], want up to %v", l.Ratio.Low, l.Ratio.High, want)
	}
	if math.Abs(l.BetterHalf-4) > 1e-9 {
		t.Errorf("better half x%v", l.BetterHalf)
	}
}

func TestGoalsNeedPairsProcessesAndTheWholeInterval(t *testing.T) {
	atLeast2 := Goal{Measure: "MB per CPU-s", Ratio: 2}
	three := func(ours, theirs float64) [][][2]float64 {
		p := repeat([2]float64{ours, theirs}, 2)
		return [][][2]float64{p, p, p}
	}
	for _, c := range []struct {
		name      string
		goal      Goal
		processes [][][2]float64
		want      Verdict
	}{
		{"clearly above", atLeast2, three(250, 100), Met},
		{"clearly below", atLeast2, three(150, 100), NotMet},
		{"the goal lies inside the interval", atLeast2, [][][2]float64{{{150, 100}, {260, 100}}, {{210, 100}, {190, 100}}, {{240, 100}, {170, 100}}}, CannotTell},
		{"two processes", atLeast2, three(250, 100)[:2], CannotTell},
		{"four pairs", atLeast2, [][][2]float64{{{250, 100}, {252, 100}}, {{250, 100}}, {{251, 100}}}, CannotTell},
		{"nothing measured", atLeast2, nil, CannotTell},
		{"no goal", Goal{Measure: "MB per CPU-s"}, three(250, 100), NoGoal},
		{"at most", Goal{Measure: "MB per CPU-s", AtMost: 0.5}, three(40, 100), Met},
		{"at most, above", Goal{Measure: "MB per CPU-s", AtMost: 0.5}, three(60, 100), NotMet},
		{"ours alone", Goal{Measure: "MB per CPU-s", Under: 50}, three(40, 100), Met},
		{"ours alone, above", Goal{Measure: "MB per CPU-s", Under: 30}, three(40, 100), NotMet},
		{"a ceiling that nobody measured", Goal{Measure: "MB per CPU-s", Ratio: 2, OfCeiling: 0.8}, three(250, 100), CannotTell},
	} {
		if got := Analyse(document(c.goal, c.processes))[0].Lines[0]; got.Verdict != c.want {
			t.Errorf("%s: %q, want %q (ratio %v [%v %v], %v)", c.name, got.Verdict, c.want, got.Ratio.Value, got.Ratio.Low, got.Ratio.High, got.Verdicts)
		}
	}
}

func TestUnsettledBlocksAreDroppedWhole(t *testing.T) {
	p := repeat([2]float64{250, 100}, 2)
	d := document(Goal{Measure: "MB per CPU-s", Ratio: 2}, [][][2]float64{p, p, p, {{900, 1}}})
	d.Blocks[3].Settled["kafka"] = "trend 9.0% a window"
	l := Analyse(d)[0].Lines[0]
	if len(l.Pairs) != 6 || l.Ratio.Value > 2.6 || l.Verdict != Met {
		t.Errorf("%d pairs, x%v, %s", len(l.Pairs), l.Ratio.Value, l.Verdict)
	}
	for _, b := range d.Blocks {
		b.Settled["kafka"] = "range 40.0% over the last five windows"
	}
	l = Analyse(d)[0].Lines[0]
	if !math.IsNaN(l.Ratio.Value) || l.Verdict != CannotTell || !strings.Contains(l.NoRatio, "unsettled: kafka, range 40.0%") {
		t.Errorf("x%v, %s, %q", l.Ratio.Value, l.Verdict, l.NoRatio)
	}
	if text := sideText(l.Kafka[0]); !strings.HasPrefix(text, "(") {
		t.Errorf("a figure that had not settled stands without brackets: %s", text)
	}
}

func TestOnlyTheSettledStretchEnters(t *testing.T) {
	d := document(Goal{Measure: "MB per CPU-s", Ratio: 2}, [][][2]float64{{{250, 1}, {250, 10}, {250, 100}, {251, 100}}})
	d.Blocks[0].From = map[string]int{"tidemark": 0, "kafka": 2}
	if l := Analyse(d)[0].Lines[0]; len(l.Pairs) != 2 || l.Ratio.Value > 2.6 {
		t.Errorf("%d pairs, x%v", len(l.Pairs), l.Ratio.Value)
	}
}

func TestTheBetterOfKafkasSettingsCounts(t *testing.T) {
	d := document(Goal{Measure: "MB per CPU-s", Ratio: 2}, [][][2]float64{{{250, 100}, {250, 100}}})
	d.Arms = append(d.Arms, ArmInfo{Name: "kafka-tuned"})
	b := d.Blocks[0]
	b.Settled["kafka-tuned"] = ""
	b.Windows = append(b.Windows, cost("kafka-tuned", 0, 200), cost("kafka-tuned", 1, 200))
	if l := Analyse(d)[0].Lines[0]; l.Best != "kafka-tuned" || math.Abs(l.Ratio.Value-1.25) > 1e-9 {
		t.Errorf("against %s: x%v", l.Best, l.Ratio.Value)
	}
	b.Settled["kafka-tuned"] = "trend"
	if l := Analyse(d)[0].Lines[0]; l.Best != "kafka" {
		t.Errorf("against %s, which had not settled", l.Best)
	}
}

func TestWindowsThatMeanNothingGiveNoFigure(t *testing.T) {
	capacity, latency := measures["MB per CPU-s"], measures["ack p99"]
	slow := &Window{Status: "ok", CPUSeconds: 1, WireBytes: 1, Percentiles: map[string]Percentile{"ack p99": {MS: 2}}}
	for _, c := range []struct {
		status            string
		lost              int64
		capacity, latency bool
	}{
		{"ok", 0, true, true}, {"generator-limited", 0, true, false}, {"saturated", 0, false, false},
		{"invalid", 0, false, false}, {"partial", 0, false, false}, {"ok", 1, false, false},
	} {
		w := *slow
		w.Status, w.Lost = c.status, c.lost
		_, whyC := capacity.figure(&w)
		_, whyL := latency.figure(&w)
		if (whyC == "") != c.capacity || (whyL == "") != c.latency {
			t.Errorf("%s, lost %d: cost %q, latency %q", c.status, c.lost, whyC, whyL)
		}
	}
}

func TestShareOfTheCeilingBesideIt(t *testing.T) {
	p := repeat([2]float64{800, 100}, 2)
	d := document(Goal{Measure: "MB per CPU-s", Ratio: 2, OfCeiling: 0.7}, [][][2]float64{p, p, p})
	d.Rows[0].Ceiling = "a loop"
	for _, b := range d.Blocks {
		b.Beside = &Beside{PerCPU: []float64{900, 1100, 900}}
	}
	r := Analyse(d)[0]
	if l := r.Lines[0]; math.Abs(l.Share.Value-0.804) > 0.001 || l.Verdict != Met || !r.CeilingMoved {
		t.Errorf("share %v, %s, moved %v", l.Share.Value, l.Verdict, r.CeilingMoved)
	}
}

func TestReachedTurnsTheIntervalAroundForAtMost(t *testing.T) {
	e := stats.Estimate{Value: 0.1, Interval: stats.Interval{Low: 0.08, High: 0.12}}
	for goal, want := range map[float64]Verdict{0.125: Met, 0.11: CannotTell, 0.07: NotMet} {
		if got := reached(e, goal, false, ""); got != want {
			t.Errorf("at most %v: %s, want %s", goal, got, want)
		}
	}
}

func TestBuiltInSuiteIsReadStrictly(t *testing.T) {
	s, err := BuiltIn()
	if err != nil {
		t.Fatal(err)
	}
	for i := range s.Rows {
		if r := &s.Rows[i]; r.Alone == "" {
			if _, err := s.spec(r); err != nil {
				t.Error(err)
			}
		}
	}
	for _, c := range []struct{ from, to, want string }{
		{"alone: start", "alone: stirt", "stirt"},
		{"measure: MB per CPU-s", "measure: MB per second", "MB per second"},
		{"of-row: produce-1MiB", "of-row: nothing", "nothing"},
		{"read: 768MiB", "reed: 768MiB", "reed"},
		{"rows: [produce-1MiB", "rows: [produce-1TiB", "produce-1TiB"},
	} {
		if _, err := Parse("versus.yaml", []byte(strings.Replace(string(builtIn), c.from, c.to, 1))); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.to, err)
		}
	}
}

func TestReportEscapesAndNamesWhatIsMissing(t *testing.T) {
	d := document(Goal{Measure: "MB per CPU-s", Ratio: 2}, [][][2]float64{{{250, 100}, {250, 101}}})
	d.Rows[0].Title, d.Notes = `<script>alert(1)</script>`, []string{`a note with <b> & "quotes"`}
	d.Missing = []Missing{{Title: "TLS", Why: "not built"}}
	dir := t.TempDir()
	html, md := page(d, Analyse(d), dir), markdown(d, Analyse(d), dir)
	for name, text := range map[string]string{"html": html, "md": md} {
		if strings.Contains(text, "<script") || strings.Contains(text, "<b>") || !strings.Contains(text, "TLS") {
			t.Errorf("%s:\n%s", name, text)
		}
	}
	if !strings.Contains(html, "<svg") {
		t.Error("no picture of the pairs")
	}
}

// TestAReadingThatCouldNotBeTakenKeepsItsPlace: the share of a pair is of the readings beside it, or there is none.
func TestAReadingThatCouldNotBeTakenKeepsItsPlace(t *testing.T) {
	p := repeat([2]float64{800, 100}, 4)
	d := document(Goal{Measure: "MB per CPU-s", Ratio: 2, OfCeiling: 0.7}, [][][2]float64{p})
	d.Rows[0].Ceiling = "a loop"
	d.Blocks[0].Beside = &Beside{PerCPU: []float64{1000, 0, 1000, 1000, 1000}}
	r := Analyse(d)[0]
	if l := r.Lines[0]; math.Abs(l.Share.Value-0.804) > 0.001 || r.CeilingMoved {
		t.Errorf("share %v, moved %v", l.Share.Value, r.CeilingMoved)
	}
	if s := steadiness(d.Blocks[0].Beside.PerCPU); s.N != 4 || s.SD != 0 {
		t.Errorf("%+v", s)
	}
}
