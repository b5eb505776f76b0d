package versus

import (
	"bytes"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/tidemark/tidemark/bench/exit"
	"github.com/tidemark/tidemark/bench/store"
	"github.com/tidemark/tidemark/loadgen/result"
	"github.com/tidemark/tidemark/loadgen/workload"
)

// probesOf plays one closed loop after the other of each arm.
func probesOf(t *testing.T, b *Block, of map[string][]Window) (runs map[string]int, err error) {
	t.Helper()
	runs = map[string]int{}
	err = b.probe(func(arm, probe int) (*Window, error) {
		name := b.Arms[arm]
		if runs[name] >= len(of[name]) {
			t.Fatalf("%s is probed once more", name)
		}
		w := of[name][runs[name]]
		runs[name]++
		w.Arm, w.Pair = name, probe
		return &w, nil
	})
	return runs, err
}

func TestAProbeThatLosesDataIsCountedAndNotTriedAgain(t *testing.T) {
	good := Window{Status: "ok", Reached: 1000, Acked: 10, ReadBack: 10}
	for name, bad := range map[string]Window{
		"lost 3": {Status: "invalid", Reached: 1000, Acked: 10, ReadBack: 7, Lost: 3}, "corrupt 2": {Status: "invalid", Reached: 1000, Acked: 10, ReadBack: 10, Corrupt: 2},
	} {
		d := document(Goal{Measure: "ack p50", AtMost: 0.5}, nil)
		d.Rows[0].Share = 0.5
		b := &Block{Row: "row", Process: 1, Arms: []string{"tidemark", "kafka"}}
		runs, err := probesOf(t, b, map[string][]Window{"tidemark": {good, good}, "kafka": {bad}})
		if err == nil || runs["kafka"] != 1 || len(b.Probes) != 2 {
			t.Errorf("%s: %v after %v, %d kept", name, err, runs, len(b.Probes))
		}
		b.Error, d.Blocks = "no capacity", []*Block{b}
		var out bytes.Buffer
		dir := t.TempDir()
		err = finish(&out, d, dir)
		if exit.Of(err) != exit.Invalid || !errors.Is(err, errInvalid) {
			t.Errorf("%s: ends with %d: %v", name, exit.Of(err), err)
		}
		if !strings.Contains(out.String(), name) || !strings.Contains(out.String(), "damaged   row in process 1: kafka") || !strings.Contains(out.String(), "20 records acknowledged in 2 windows") {
			t.Errorf("%s is not in\n%s", name, out.String())
		}
		if err := d.Write(dir); err != nil {
			t.Fatal(err)
		}
		if again, err := Read(dir); err != nil || len(again.Blocks[0].Probes) != 2 {
			t.Errorf("%s is not in the document: %v", name, err)
		}
	}
}

func TestACapacityNeedsTwoClosedLoopsThatSaySomething(t *testing.T) {
	good := Window{Status: "ok", Reached: 1000}
	limited := Window{Status: "generator-limited", Reached: 3000}
	silent, unread := Window{Status: "invalid"}, Window{Status: "ok", Reached: 5000, Unverified: "the reader timed out"}
	b := &Block{Arms: []string{"tidemark", "kafka"}}
	runs, err := probesOf(t, b, map[string][]Window{"tidemark": {limited, good}, "kafka": {silent, unread, good, good}})
	if err != nil || runs["tidemark"] != 2 || runs["kafka"] != 4 || len(b.Probes) != 6 {
		t.Errorf("%v after %v, %d kept", err, runs, len(b.Probes))
	}
	if got := b.capacityOf("tidemark"); len(got) != 2 || got[0] != (capacity{3000, "generator-limited"}) || got[1] != (capacity{1000, "ok"}) {
		t.Errorf("%v", got)
	}
	b = &Block{Arms: []string{"kafka"}}
	if runs, err := probesOf(t, b, map[string][]Window{"kafka": {silent, unread, good, silent, unread}}); err == nil || runs["kafka"] != capacityTries || len(b.Probes) != capacityTries {
		t.Errorf("%v after %v", err, runs)
	}
	ended := errors.New("kafka ended")
	b = &Block{Arms: []string{"kafka"}}
	if err := b.probe(func(int, int) (*Window, error) { return &Window{Arm: "kafka", Lost: 1}, ended }); !errors.Is(err, ended) || len(b.Probes) != 1 {
		t.Errorf("%v, %d kept", err, len(b.Probes))
	}
}

// TestWhatAClosedLoopReachesIsWhatWasAckedInside: records whose ack came behind the window are in the ends, not in the rate.
func TestWhatAClosedLoopReachesIsWhatWasAckedInside(t *testing.T) {
	res := &result.Result{Question: workload.Capacity}
	res.Window.StartNanos, res.Window.EndNanos = 0, 2e9
	res.Ends.Acked, res.Produce.RecordsPerSec = 17536, 8000
	w := newWindow("kafka", 0, &store.Run{Status: store.OK, Result: res}, false)
	w.Unverified = "" // read back since
	if got := reachedPerSec(w); got != 8000 {
		t.Errorf("%v records/s", got)
	}
	if w := newWindow("kafka", 0, &store.Run{Status: store.OK, Result: res}, true); w.Reached != 0 {
		t.Errorf("a reading window reaches %v", w.Reached)
	}
}

// atShare is a finished row at a share of the capacities, ours met by far; status is that of our first closed loop.
func atShare(status string) *Document {
	d := document(Goal{Measure: "ack p50", AtMost: 0.5}, nil)
	d.Rows[0].Share = 0.5
	for p := range 3 {
		b := &Block{Row: "row", Process: p + 1, Arms: []string{"tidemark", "kafka"}, Settled: map[string]string{"tidemark": "", "kafka": ""}, From: map[string]int{}}
		for i := range 2 {
			for _, arm := range b.Arms {
				probe := &Window{Arm: arm, Pair: i, Status: "ok", Reached: 8000}
				ms := 10 * (1 + 0.01*float64(i))
				if arm == "tidemark" {
					ms, probe.Reached = 1, 40000
					if i == 0 {
						probe.Status = status
					}
				}
				b.Probes = append(b.Probes, probe)
				b.Windows = append(b.Windows, &Window{Arm: arm, Pair: i, Status: "ok", Percentiles: map[string]Percentile{"ack p50": {MS: ms}}})
			}
		}
		d.Blocks = append(d.Blocks, b)
	}
	return d
}

func TestAShareOfABoundedCapacityTellsNoGoal(t *testing.T) {
	of := func(d *Document) (Line, string) {
		results := Analyse(d)
		return results[0].Lines[0], strings.Join(cells(&results[0], 0), " | ") + "\n" + strings.Join(footers(d, results, ""), "\n")
	}
	if l, text := of(atShare("ok")); l.Verdict != Met || strings.Contains(text, boundedWords) {
		t.Errorf("%s\n%s", l.Verdict, text)
	}
	l, text := of(atShare("generator-limited"))
	if l.Verdict != CannotTell || math.IsNaN(l.Ratio.Value) || !strings.Contains(text, "cannot tell (capacity of tidemark bounded by the generator)") ||
		!strings.Contains(text, "tidemark 40,000 (bounded by the generator) 40,000 40,000 (bounded") || !strings.Contains(text, "kafka 8,000 8,000") {
		t.Errorf("%s\n%s", l.Verdict, text)
	}
	// A document that has the figures alone does not say whether they were bounded.
	d := atShare("ok")
	for _, b := range d.Blocks {
		b.Probes, b.Capacity = nil, map[string][]float64{"tidemark": {40000, 40000}, "kafka": {8000, 8000}}
	}
	l, text = of(d)
	if l.Verdict != CannotTell || !strings.Contains(text, "not known whether the capacities were bounded") || !strings.Contains(text, "tidemark 40,000 40,000 40,000") {
		t.Errorf("%s\n%s", l.Verdict, text)
	}
	// The setting of Kafka that is not compared with may be bounded.
	d = atShare("ok")
	d.Arms = append(d.Arms, ArmInfo{Name: "kafka-tuned"})
	d.Blocks[0].Probes = append(d.Blocks[0].Probes, &Window{Arm: "kafka-tuned", Status: "generator-limited", Reached: 1})
	if l, _ := of(d); l.Verdict != Met {
		t.Errorf("%s for another setting's capacity", l.Verdict)
	}
}

// TestTheRateAskedIsOneObservationForABlock: it is set once for all windows of a block, whose agreement shows nothing.
func TestTheRateAskedIsOneObservationForABlock(t *testing.T) {
	d := document(Goal{Measure: "records/s asked"}, [][][2]float64{{{1, 1}, {1, 1}, {1, 1}}, {{1, 1}, {1, 1}}})
	rates := [][2]float64{{19232, 3200}, {20000, 4000}}
	for i, b := range d.Blocks {
		for _, w := range b.Windows {
			w.Asked = rates[i][1]
			if w.Arm == "tidemark" {
				w.Asked = rates[i][0]
			}
		}
	}
	r := Analyse(d)[0]
	l := r.Lines[0]
	if want := math.Sqrt(19232 * 20000); len(l.Pairs) != 2 || l.Ours.Windows != 2 || math.Abs(l.Ours.Value-want) > 1e-6 || math.IsNaN(l.Ratio.Low) {
		t.Errorf("%d pairs, ours %v of %d, ratio %+v", len(l.Pairs), l.Ours.Value, l.Ours.Windows, l.Ratio)
	}
	d.Blocks = d.Blocks[:1]
	r = Analyse(d)[0]
	if l = r.Lines[0]; len(l.Pairs) != 1 || !math.IsNaN(l.Ratio.Low) || !math.IsNaN(l.Ours.Interval.Low) || math.Abs(l.Ratio.Value-6.01) > 1e-9 {
		t.Errorf("%d pairs, ratio %+v", len(l.Pairs), l.Ratio)
	}
	if row := cells(&r, 0); row[4] != "x6.01" || row[5] != "1/1" {
		t.Errorf("%q", row)
	}
}
