package versus

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidemark/tidemark/loadgen/workload"
)

func builtInRow(t *testing.T, s *Suite, name string) *Row {
	t.Helper()
	for i := range s.Rows {
		if s.Rows[i].Name == name {
			return &s.Rows[i]
		}
	}
	t.Fatalf("no row %s", name)
	return nil
}

// TestCapacityIsThatOfTheLatencyRowWithOneRecordForEachRequest: nothing but the question, the rate and what the row says differs.
func TestCapacityIsThatOfTheLatencyRowWithOneRecordForEachRequest(t *testing.T) {
	s, err := BuiltIn()
	if err != nil {
		t.Fatal(err)
	}
	r := builtInRow(t, s, "latency-share")
	open, err := s.spec(r)
	if err != nil {
		t.Fatal(err)
	}
	closed, err := s.capacitySpec(r)
	if err != nil {
		t.Fatal(err)
	}
	if closed.Question != workload.Capacity || closed.Rate != 0 || float64(closed.BatchSize) >= 2*closed.RecordSize.Mean() {
		t.Errorf("asks %s at %v in batches of %d", closed.Question, closed.Rate, closed.BatchSize)
	}
	if closed.Partitions != open.Partitions || closed.InFlight != open.InFlight || closed.Acks != open.Acks || closed.Linger != open.Linger {
		t.Errorf("another workload: %+v, %+v", closed, open)
	}
	if got := shareOf(open, r.Share, []capacity{{perSec: 20000}, {perSec: 30000}}); got.Rate != 12500 || open.Rate == 12500 {
		t.Errorf("half of 25,000 is %v", got.Rate)
	}
	if other, err := s.capacitySpec(builtInRow(t, s, "latency-2k")); other != nil || err != nil {
		t.Errorf("a row with a rate of its own has a capacity: %v", err)
	}
}

func TestWindowsThatLostRecordsAreNoCapacity(t *testing.T) {
	for _, c := range []struct {
		w    Window
		want float64
	}{
		{Window{Status: "ok", Reached: 5}, 5},
		{Window{Status: "generator-limited", Reached: 5}, 5},
		{Window{Status: "ok", Records: 10, Seconds: 2}, 0},
		{Window{Status: "ok", Reached: 5, Lost: 1}, 0},
		{Window{Status: "ok", Reached: 5, Corrupt: 1}, 0},
		{Window{Status: "ok", Reached: 5, Unverified: "the reader timed out"}, 0},
		{Window{Status: "partial", Reached: 5}, 0},
		{Window{Status: "invalid", Reached: 5}, 0},
		{Window{Reached: 5}, 0},
	} {
		if got := reachedPerSec(&c.w); got != c.want {
			t.Errorf("%+v: %v", c.w, got)
		}
	}
}

func TestKeptTopicIsPrimedInSmallRequests(t *testing.T) {
	s, err := BuiltIn()
	if err != nil {
		t.Fatal(err)
	}
	r := builtInRow(t, s, "partitions-5000")
	spec, err := s.spec(r)
	if err != nil {
		t.Fatal(err)
	}
	fill, err := fillSpec(r, spec)
	if err != nil || fill == nil {
		t.Fatal(fill, err)
	}
	if records := float64(fill.MaxBytes) / fill.RecordSize.Mean(); records < float64(fill.Partitions) || fill.RequestMax >= spec.RequestMax {
		t.Errorf("%.0f records for %d partitions in requests of %d", records, fill.Partitions, fill.RequestMax)
	}
	if fill, err := fillSpec(builtInRow(t, s, "tail"), spec); fill != nil || err != nil {
		t.Errorf("a row with fresh topics is written before: %v", err)
	}
}

func TestTunedRowsAreNamedAndKnown(t *testing.T) {
	s, err := BuiltIn()
	if err != nil {
		t.Fatal(err)
	}
	full, err := s.profile("full")
	if err != nil {
		t.Fatal(err)
	}
	if !full.tunes("fetch") || full.tunes("zstd") {
		t.Error("the tuned set stands beside in the wrong rows")
	}
	defaults, err := s.profile("defaults")
	if err != nil || defaults.tunes("fetch") {
		t.Errorf("Kafka's defaults alone: %v", err)
	}
	for _, c := range []struct{ from, to, want string }{
		{"tuned-rows: [produce-1MiB", "tuned-rows: [produce-1TiB", "produce-1TiB"},
		{"share: 0.5", "share: 1.5", "between 0 and 1"},
		{"capacity: {batch-size", "capacity: {batch-sighs", "batch-sighs"},
		{"topic: kept\n    prime", "prime", "only a kept topic"},
	} {
		if _, err := Parse("versus.yaml", []byte(strings.Replace(string(builtIn), c.from, c.to, 1))); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.to, err)
		}
	}
}

// TestEachArmIsMeasuredWhereTheProfileSaysSo: three arms in the first process in the rows named, the better of Kafka's settings
// later, and a setting that no row needs is not started.
func TestEachArmIsMeasuredWhereTheProfileSaysSo(t *testing.T) {
	rows := []Row{{Name: "row", Title: "a row", Goals: []Goal{{Measure: "MB per CPU-s", Ratio: 2}}}, {Name: "other", Title: "another"}}
	p := repeat([2]float64{250, 100}, 5)
	d := document(rows[0].Goals[0], [][][2]float64{p})
	d.Arms = append(d.Arms, ArmInfo{Name: "kafka-tuned"})
	s := &session{doc: d, rows: []*Row{&rows[0], &rows[1]}, profile: Profile{Tuned: true, TunedRows: []string{"row"}}}
	for _, a := range d.Arms {
		s.arms = append(s.arms, &arm{info: a})
	}
	names := func(arms []*arm) (out []string) {
		for _, a := range arms {
			out = append(out, a.info.Name)
		}
		return out
	}
	add := func(v float64) {
		d.Blocks[0].Settled["kafka-tuned"] = ""
		for i := range 5 {
			d.Blocks[0].Windows = append(d.Blocks[0].Windows, cost("kafka-tuned", i, v))
		}
	}
	two, three := []string{"tidemark", "kafka"}, []string{"tidemark", "kafka", "kafka-tuned"}
	if got := names(s.armsFor(&rows[0], 1)); !slices.Equal(got, three) {
		t.Errorf("first process: %v", got)
	}
	if got := names(s.armsFor(&rows[1], 1)); !slices.Equal(got, two) {
		t.Errorf("a row without the tuned set: %v", got)
	}
	add(90)
	if got := names(s.needed(2)); !slices.Equal(got, two) {
		t.Errorf("the tuned set was no better and is started again: %v", got)
	}
	d.Blocks[0].Windows = d.Blocks[0].Windows[:10]
	add(110)
	if got := names(s.needed(2)); !slices.Equal(got, three) {
		t.Errorf("the tuned set was better: %v", got)
	}
	if got := names(s.armsFor(&rows[0], 2)); !slices.Equal(got, []string{"tidemark", "kafka-tuned"}) {
		t.Errorf("second process: %v", got)
	}
	if text := tunedRows(d); !strings.Contains(text, "kafka-tuned stood beside kafka in row") {
		t.Errorf("%q", text)
	}
}

func TestCapacitiesAreInTheFooter(t *testing.T) {
	d := document(Goal{Measure: "ack p50", AtMost: 0.5}, nil)
	d.Rows[0].Share = 0.5
	d.Blocks = []*Block{{Row: "row", Process: 1, Capacity: map[string][]float64{"tidemark": {29440, 30000}, "kafka": {8000, 8100}}}}
	if text := strings.Join(capacities(d), "\n"); !strings.Contains(text, "tidemark 29,440 30,000; kafka 8,000 8,100 records/s") || !strings.Contains(text, "50%") || !strings.Contains(text, "was not kept") {
		t.Error(text)
	}
}

// TestARowIsMeasuredOnceMoreWhereTheProcessesThatFollowHaveTheirTime: in the last process, all that is left may be used.
func TestARowIsMeasuredOnceMoreWhereTheProcessesThatFollowHaveTheirTime(t *testing.T) {
	for _, c := range []struct {
		left, pass, block time.Duration
		processes         int
		want              bool
	}{
		{30 * time.Minute, 10 * time.Minute, time.Minute, 2, true},
		{20 * time.Minute, 10 * time.Minute, time.Minute, 2, false},
		{time.Minute, 10 * time.Minute, time.Minute, 0, true},
		{59 * time.Second, 10 * time.Minute, time.Minute, 0, false},
	} {
		if got := fits(c.left, c.pass, c.block, c.processes); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// TestRowsOfTheSessionBeforeStayInTheTable: rows can be measured in portions, into one document.
func TestRowsOfTheSessionBeforeStayInTheTable(t *testing.T) {
	suite, err := BuiltIn()
	if err != nil {
		t.Fatal(err)
	}
	s := &session{suite: suite, doc: &Document{Blocks: []*Block{{Row: "fetch", Process: 1}}}, rows: []*Row{builtInRow(t, suite, "tail")}}
	s.tableRows()
	var names []string
	for _, r := range s.doc.Rows {
		names = append(names, r.Name)
	}
	if !slices.Equal(names, []string{"fetch", "tail"}) || len(s.doc.LeftOut) != len(suite.Rows)-2 || slices.Contains(s.doc.LeftOut, "fetch") {
		t.Errorf("%v, left out %v", names, s.doc.LeftOut)
	}
}
