package result

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/tidemark/tidemark/loadgen/workload"
)

func sample() *Result {
	n := int64(7)
	r := &Result{
		Question: workload.Latency, Asked: workload.Default(), Valid: true,
		Run:  Run{ID: "ab", Command: []string{"tidemark", "load"}, Topics: []string{"<b>topic</b>"}},
		Ends: Ends{Intended: 100, Acked: 90, Failed: 5, Unanswered: 3, Unsent: 2},
		Clocks: map[string]Latency{Ack: {Count: 90, Censored: 10, Sound: true, Percentiles: []Percentile{
			{P: 50, Nanos: 210000, Above: 50, Excursions: 12}, {P: 99, Nanos: 5e9, Censored: true}}}},
		Intervals: []Interval{{LengthNanos: 1e9, Acked: 90, Clocks: map[string]IntervalLatency{Ack: {Count: 90}}}},
		Target:    &Process{PID: 4, CPUNanos: 1e9, Seconds: 2, ReadCalls: &n, Counters: map[string]float64{"fsyncs": 0}},
	}
	r.Asked.Groups = []int{3, 1}
	return r
}

func TestWhatIsWrittenIsRead(t *testing.T) {
	dir := t.TempDir()
	r := sample()
	if err := os.WriteFile(filepath.Join(dir, "ack.hlog"), []byte("#[log]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := r.AddFile(dir, "ack.hlog", "hlog"); err != nil {
		t.Fatal(err)
	}
	if err := r.Write(dir); err != nil {
		t.Fatal(err)
	}
	got, err := Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	if got.Asked.Hash() != r.Asked.Hash() {
		t.Error("the workload changed")
	}
	if !reflect.DeepEqual(got, r) {
		a, _ := json.Marshal(r)
		b, _ := json.Marshal(got)
		t.Errorf("wrote %s\nread  %s", a, b)
	}
	if err := got.CheckFiles(dir); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "ack.hlog"), []byte("#[lie]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := got.CheckFiles(dir); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "ack.hlog") {
		t.Errorf("a changed file was not named: %v", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 2 {
		t.Errorf("the folder holds %v, %v", entries, err)
	}
	if q, ok := got.Clocks[Ack].At(99); !ok || !q.Censored {
		t.Error("p99 is no longer censored")
	}
}

func TestBadResultsAreRefused(t *testing.T) {
	dir := t.TempDir()
	if err := sample().Write(dir); err != nil {
		t.Fatal(err)
	}
	good, err := os.ReadFile(filepath.Join(dir, FileName))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, text string
		kind       error
		want       string
	}{
		{"newer", strings.Replace(string(good), `"schema": 1`, `"schema": 99`, 1), ErrNewer, "schema 99"},
		{"no schema", `{"latency": 5}`, ErrDamaged, "schema"},
		{"not JSON", "hello\n", ErrDamaged, "line 1"},
		{"empty", "", ErrDamaged, ""},
		{"sum", strings.Replace(string(good), `"acked": 90`, `"acked": 91`, 1), ErrDamaged, "do not add up"},
		{"escaping file", strings.Replace(string(good), `"files": null`, `"files": [{"name": "../../x"}]`, 1), ErrDamaged, "outside"},
		{"wrong type", strings.Replace(string(good), `"intended": 100`, `"intended": "many"`, 1), ErrDamaged, "line "},
	} {
		if _, err := Decode([]byte(c.text)); !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v", c.name, err)
		}
	}
	for cut := 0; cut < len(good)-2; cut += 7 {
		if _, err := Decode(good[:cut]); !errors.Is(err, ErrDamaged) {
			t.Fatalf("cut at %d of %d: got %v", cut, len(good), err)
		}
	}
	if _, err := Read(filepath.Join(dir, "nothing")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing folder: %v", err)
	}
}

func TestUnknownFieldsOfTheSameSchemaAreRead(t *testing.T) {
	dir := t.TempDir()
	if err := sample().Write(dir); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(dir, FileName))
	if err != nil {
		t.Fatal(err)
	}
	b = bytes.Replace(b, []byte(`"acks": "all"`), []byte(`"acks": "all", "later-setting": 5`), 1)
	if r, err := Decode(bytes.Replace(b, []byte("{"), []byte(`{"later": {"x": 1},`), 1)); err != nil || r.Ends.Acked != 90 {
		t.Errorf("got %v", err)
	}
}

func TestNotANumberIsKeptAndConvicts(t *testing.T) {
	dir := t.TempDir()
	r := sample()
	r.Produce.RecordsPerSec = math.NaN()
	r.Clocks[Ack] = Latency{MeanNanos: math.Inf(1)}
	if err := r.Write(dir); err != nil {
		t.Fatal(err)
	}
	got, err := Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	if got.Valid || got.Countable() || len(got.Verdicts) != 2 || !strings.Contains(got.Verdicts[0].Reason+got.Verdicts[1].Reason, "produce.recordsPerSec") {
		t.Errorf("valid %v, verdicts %v", got.Valid, got.Verdicts)
	}
}

func TestVerdictsDecideWhatCounts(t *testing.T) {
	for kind, want := range map[string]bool{
		GeneratorLimited: false, Saturated: false, Throttled: false, Invalid: false, Partial: false, Unsettled: false,
		FreshMemory: false, Profiled: false, Steal: true, Late: true,
	} {
		r := sample()
		r.Add(Verdict{Kind: kind})
		if r.Countable() != want || !r.Has(kind) {
			t.Errorf("%s: countable %v", kind, r.Countable())
		}
	}
	r := sample()
	r.Question = workload.Capacity
	r.Add(Verdict{Kind: Saturated})
	if !r.Countable() {
		t.Error("a capacity run saturates its target by its nature")
	}
}

func FuzzDecode(f *testing.F) {
	dir := f.TempDir()
	if err := sample().Write(dir); err != nil {
		f.Fatal(err)
	}
	good, err := os.ReadFile(filepath.Join(dir, FileName))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add([]byte(`{"schema":1}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := Decode(b)
		if err == nil {
			if _, err := json.Marshal(r); err != nil {
				t.Error(err)
			}
		}
	})
}
