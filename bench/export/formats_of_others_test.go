package export_test

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/tidemark/tidemark/bench/export"
	"github.com/tidemark/tidemark/bench/store"
	"github.com/tidemark/tidemark/loadgen/result"
)

// files collects what an export writes.
type files map[string]*bytes.Buffer

type file struct{ *bytes.Buffer }

func (file) Close() error { return nil }

func exported(t *testing.T, f export.Format) (files, *store.Data) {
	t.Helper()
	d, err := store.Load("../../results/quick")
	if err != nil {
		t.Fatal(err)
	}
	return written(t, d, f), d
}

func written(t *testing.T, d *store.Data, f export.Format) files {
	t.Helper()
	out := files{}
	err := export.Write(d, f, func(name string) (io.WriteCloser, error) {
		out[name] = &bytes.Buffer{}
		return file{out[name]}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestWhatEntersNoRatioIsExportedNowhere: a capacity run in fresh memory pays for the host's page faults. No other tool is to
// compare what gate does not; that it ran stays in the rows of CSV.
func TestWhatEntersNoRatioIsExportedNowhere(t *testing.T) {
	d := &store.Data{Plan: store.Plan{Cells: []store.Cell{{Number: 1, Name: "capacity", Role: store.Probe, Kind: store.Capacity}}}}
	for i := range 3 {
		r := &result.Result{Ends: result.Ends{Intended: 1e6, Acked: 1e6, AckedBytes: 1e9}, Produce: result.Produce{RecordsPerSec: 1e6, BytesPerSec: 1e9}}
		run := &store.Run{Cell: 1, Repeat: i + 1, Status: store.OK, Result: r, Target: store.Target{Process: &result.Process{CPUNanos: 1e9}}}
		if i > 0 {
			run.Marks, run.Target.Process.CPUNanos, r.Produce.RecordsPerSec = []string{store.MarkFreshMemory}, 777e9, 777e6
		}
		d.Runs = append(d.Runs, run)
	}
	for f, want := range map[export.Format]string{export.OMB: "tidemark", export.GoBench: "1 CPU-s/GB", export.CSV: "1000000", export.GAB: "n=1"} {
		var all strings.Builder
		for name, b := range written(t, d, f) {
			all.WriteString(name + "\n" + b.String())
		}
		if text := all.String(); strings.Contains(text, "777") || strings.Contains(text, "rep-2") || !strings.Contains(text, want) {
			t.Errorf("%s: want %q, and no fresh memory, in\n%s", f, want, text)
		}
	}
	d.Runs = d.Runs[1:]
	for _, f := range export.Formats() {
		for name, b := range written(t, d, f) {
			if text := b.String(); strings.Contains(text, "777") || f == export.GoBench && strings.Contains(text, "Benchmark") || f == export.GAB && strings.Contains(text, "capacity") || f == export.OMB {
				t.Errorf("%s, of fresh memory alone: %s\n%s", f, name, text)
			}
		}
	}
}

// TestOMBReadsIt decodes each file into the fields that OpenMessaging Benchmark's TestResult has, and refuses others.
func TestOMBReadsIt(t *testing.T) {
	fields := regexp.MustCompile(`^(workload|driver|messageSize|topics|partitions|producersPerTopic|consumersPerTopic|beginTime|endTime|publishRate|publishErrorRate|consumeRate|backlog|` +
		`(publishLatency|publishDelayLatency|endToEndLatency)(Avg|50pct|75pct|95pct|99pct|999pct|9999pct|Max)|` +
		`aggregated(PublishLatency|PublishDelayLatency|EndToEndLatency)(Avg|50pct|75pct|95pct|99pct|999pct|9999pct|Max|Quantiles))$`)
	out, d := exported(t, export.OMB)
	countable := 0
	for _, r := range d.Runs {
		if r.Countable() {
			countable++
		}
	}
	if len(out) != countable {
		t.Errorf("%d files of %d runs that count", len(out), countable)
	}
	for name, b := range out {
		var all map[string]json.RawMessage
		if err := json.Unmarshal(b.Bytes(), &all); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for key := range all {
			if !fields.MatchString(key) {
				t.Errorf("%s: OMB has no field %q", name, key)
			}
		}
	}
	var one struct {
		MessageSize                   int
		Topics, Partitions            int
		PublishRate, PublishLatency50 []float64
		Publish99                     []float64          `json:"publishLatency99pct"`
		P99                           float64            `json:"aggregatedPublishLatency99pct"`
		Delay50                       float64            `json:"aggregatedPublishDelayLatency50pct"`
		Quantiles                     map[string]float64 `json:"aggregatedPublishLatencyQuantiles"`
		EndToEnd                      float64            `json:"aggregatedEndToEndLatency50pct"`
	}
	repeat, b := 0, (*bytes.Buffer)(nil)
	for repeat < 9 && b == nil { // the first that counts
		repeat++
		b = out[fmt.Sprintf("002-baseline-rep-%d.json", repeat)]
	}
	if b == nil {
		t.Fatal("no repeat of the baseline counts")
	}
	if err := json.Unmarshal(b.Bytes(), &one); err != nil {
		t.Fatal(err)
	}
	for _, r := range d.Runs {
		if d.Cell(r.Cell).Name != "baseline" || r.Repeat != repeat {
			continue
		}
		ack, _ := r.Result.Clocks[result.Ack].At(99)
		accepted, _ := r.Result.Clocks[result.Accepted].At(50)
		if one.MessageSize != 1024 || one.Topics != 1 || one.Partitions != 6 || len(one.PublishRate) != len(r.Result.Intervals) || len(one.Publish99) < 2 ||
			math.Abs(one.P99-float64(ack.Nanos)/1e6) > 1e-9 || math.Abs(one.Delay50-float64(accepted.Nanos)/1e3) > 1e-9 || one.EndToEnd < one.Quantiles["50"]/2 || len(one.Quantiles) < 10 {
			t.Errorf("%+v", one)
		}
		return
	}
	t.Error("the repeat is not there")
}

// TestBenchstatReadsIt parses the text by the grammar of the Go benchmark format.
func TestBenchstatReadsIt(t *testing.T) {
	out, d := exported(t, export.GoBench)
	config := regexp.MustCompile(`^[a-z][^\s:]*: \S`)
	unitLine := regexp.MustCompile(`^Unit (\S+) better=(higher|lower)$`)
	units := map[string]string{}
	names := map[string]int{}
	for _, l := range strings.Split(strings.TrimSpace(out[""].String()), "\n") {
		fields := strings.Fields(l)
		switch {
		case l == "" || config.MatchString(l):
		case unitLine.MatchString(l):
			m := unitLine.FindStringSubmatch(l)
			units[m[1]] = m[2]
		case strings.HasPrefix(l, "Benchmark"):
			names[fields[0]]++
			if n, err := strconv.Atoi(fields[1]); err != nil || n < 1 || len(fields)%2 != 0 {
				t.Errorf("%q", l)
			}
			for i := 2; i+1 < len(fields); i += 2 {
				if v, err := strconv.ParseFloat(fields[i], 64); err != nil || !(v > 0) || units[fields[i+1]] == "" {
					t.Errorf("%q of %q", fields[i:i+2], l)
				}
			}
		default:
			t.Errorf("no line of the format: %q", l)
		}
	}
	cores := fmt.Sprint("-", d.Host.Fingerprint.Cores)
	if names["BenchmarkBroker/latency/baseline"+cores] < 2 || names["BenchmarkBroker/latency/linger=5ms"+cores] < 1 {
		t.Errorf("%v", names)
	}
	if units["records/s"] != "higher" || units["ack-p99-ms"] != "lower" {
		t.Errorf("%v of %d cells", units, len(d.Plan.Cells))
	}
}

func TestGithubActionBenchmarkReadsIt(t *testing.T) {
	out, _ := exported(t, export.GAB)
	for name, want := range map[string]string{"customSmallerIsBetter.json": "ack p99", "customBiggerIsBetter.json": ""} {
		var list []struct {
			Name, Unit, Range, Extra string
			Value                    float64
		}
		dec := json.NewDecoder(bytes.NewReader(out[name].Bytes()))
		dec.DisallowUnknownFields()
		if err := dec.Decode(&list); err != nil || list == nil {
			t.Fatalf("%s: %v", name, err)
		}
		found := want == ""
		for _, e := range list {
			found = found || e.Name == "linger=5ms: "+want
			if e.Name == "" || e.Unit == "" || !(e.Value > 0) || name == "customBiggerIsBetter.json" && strings.Contains(e.Name, "CPU") {
				t.Errorf("%s: %+v", name, e)
			}
		}
		if !found {
			t.Errorf("%s has no %s", name, want)
		}
	}
}

func TestCSVLeavesOutWhatWasNotMeasured(t *testing.T) {
	out, d := exported(t, export.CSV)
	rows, err := csv.NewReader(out[""]).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) != len(d.Runs)+1 {
		t.Fatalf("%d rows of %d runs", len(rows), len(d.Runs))
	}
	empty := 0
	for _, r := range rows[1:] {
		for i, v := range r[10:21] {
			if v == "" {
				empty++
			} else if f, err := strconv.ParseFloat(v, 64); err != nil || !(f > 0) {
				t.Errorf("%s of %s is %q: what was not measured is left out, never 0", rows[0][10+i], r[1], v)
			}
		}
	}
	if empty == 0 {
		t.Error("capacity cells have latencies")
	}
}
