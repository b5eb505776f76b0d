// Package export writes the results of a bench in the forms that other tools take: OpenMessaging Benchmark's result
// JSON, Go benchmark text for benchstat, github-action-benchmark's JSON, and CSV.
//
//	store.Data --+--> omb      one JSON a run, for the charts of openmessaging/benchmark
//	             +--> gobench  one line a run, for benchstat
//	             +--> gab      two files, because there the direction belongs to the tool
//	             +--> csv      one row a run
//
// Only figures that count are written, so that what bench/gate would not use no other tool uses either (a closed loop in fresh
// memory has none); what was not measured is left out and never 0. The package computes nothing but what a format asks for (percentiles of single
// seconds, from the .hlog files) and keeps no state.
package export

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"regexp"
	"strconv"
	"strings"

	"github.com/tidemark/tidemark/bench/gate"
	"github.com/tidemark/tidemark/bench/stats"
	"github.com/tidemark/tidemark/bench/store"
)

// Format is a form of results.
type Format string

// The formats.
const (
	OMB     Format = "omb"
	GoBench Format = "gobench"
	GAB     Format = "gab"
	CSV     Format = "csv"
)

// Formats lists them.
func Formats() []Format { return []Format{OMB, GoBench, GAB, CSV} }

// Files reports whether the format is several files, which Write gives names to, and not one text.
func (f Format) Files() bool { return f == OMB || f == GAB }

// Write writes d in a format. create opens a file of the output by its name, "" for a format of one text.
func Write(d *store.Data, f Format, create func(name string) (io.WriteCloser, error)) error {
	file := func(name string, fill func(io.Writer) error) error {
		w, err := create(name)
		if err != nil {
			return err
		}
		if err := fill(w); err != nil {
			_ = w.Close()
			return fmt.Errorf("export %s: %w", f, err)
		}
		return w.Close()
	}
	switch f {
	case OMB:
		return writeOMB(d, file)
	case GoBench:
		return file("", func(w io.Writer) error { return writeGoBench(d, w) })
	case CSV:
		return file("", func(w io.Writer) error { return writeCSV(d, w) })
	case GAB:
		a := gate.Analyse(d)
		for _, one := range []struct {
			name string
			d    stats.Direction
		}{{"customBiggerIsBetter.json", stats.HigherIsBetter}, {"customSmallerIsBetter.json", stats.LowerIsBetter}} {
			if err := file(one.name, func(w io.Writer) error { return writeGAB(d, a, one.d, w) }); err != nil {
				return err
			}
		}
		return nil
	}
	return fmt.Errorf("format %q: want one of %v", f, Formats())
}

var (
	noUnit = regexp.MustCompile(`[^A-Za-z0-9./%-]+`)
	noName = regexp.MustCompile(`[^A-Za-z0-9=.,_()%:+-]+`)
)

// unit is a metric's unit in one word, as Go's benchmark text wants it: "ack-p99-ms", "records/s".
func unit(m store.Metric) string {
	switch m.Unit {
	case "records/s", "MB/s", "CPU-s/GB":
		return m.Unit
	case "ms":
		return noUnit.ReplaceAllString(m.Name, "-") + "-ms"
	case "us":
		return "us-CPU/request"
	case "calls":
		return "calls/record"
	case "(from 0.1)":
		return "allocs/record"
	}
	return noUnit.ReplaceAllString(m.Name+"-"+m.Unit, "-")
}

// writeGoBench writes the Go benchmark format (golang.org/design/14313-benchmark-format): one line for each run.
func writeGoBench(d *store.Data, w io.Writer) error {
	var b strings.Builder
	config := func(key, value string) {
		if value = strings.Join(strings.Fields(value), " "); value != "" {
			fmt.Fprintf(&b, "%s: %s\n", key, value)
		}
	}
	f := d.Host.Fingerprint
	config("suite", d.Plan.Suite)
	config("target", d.Plan.Target)
	config("seed", fmt.Sprint(d.Plan.Seed))
	config("tidemark", d.Plan.Versions.String())
	config("cpu", f.CPUModel)
	config("kernel", f.Kernel)
	b.WriteByte('\n')
	units := map[string]bool{}
	for _, m := range store.Metrics() {
		if u := unit(m); !units[u] {
			units[u] = true
			fmt.Fprintf(&b, "Unit %s better=%s\n", u, m.Direction)
		}
	}
	b.WriteByte('\n')
	for _, r := range d.Runs {
		c := d.Cell(r.Cell)
		var line strings.Builder
		for _, m := range store.Metrics() {
			if v, ok := m.OfRatio(d, r); ok {
				fmt.Fprintf(&line, " %s %s", strconv.FormatFloat(v, 'g', 6, 64), unit(m))
			}
		}
		if line.Len() > 0 {
			fmt.Fprintf(&b, "%s 1%s\n", benchName(c, max(1, f.Cores)), line.String())
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// benchName is "BenchmarkBroker/latency/linger=5ms-2".
func benchName(c *store.Cell, cores int) string {
	parts := []string{"BenchmarkBroker", string(c.Kind)}
	for _, s := range c.Settings {
		parts = append(parts, noName.ReplaceAllString(s.Axis+"="+s.Value, "_"))
	}
	if len(c.Settings) == 0 {
		parts = append(parts, noName.ReplaceAllString(c.Name, "_"))
	}
	return fmt.Sprintf("%s-%d", strings.Join(parts, "/"), cores)
}

// entry is one figure of github-action-benchmark.
type entry struct {
	Name  string  `json:"name"`
	Unit  string  `json:"unit"`
	Value float64 `json:"value"`
	Range string  `json:"range,omitempty"`
	Extra string  `json:"extra,omitempty"`
}

func writeGAB(d *store.Data, a *gate.Analysis, direction stats.Direction, w io.Writer) error {
	entries := []entry{} // an empty list, not null
	for _, e := range a.Estimates {
		c := d.Cell(e.Cell)
		of := stats.Mean(e.Metric.RatioValues(d, e.Cell), a.Noise[gate.NoiseKey{Metric: e.Metric.Name, Kind: c.Kind}])
		if e.Metric.Direction != direction || math.IsNaN(of.Value) {
			continue
		}
		one := entry{Name: c.Name + ": " + e.Metric.Name, Unit: e.Metric.Unit, Value: of.Value,
			Extra: fmt.Sprintf("n=%d, suite %s, %s", of.N, d.Plan.Suite, d.Plan.Versions)}
		if half := of.High / of.Value; !math.IsNaN(half) {
			one.Range = fmt.Sprintf("± %.1f%%", 100*(half-1))
		}
		entries = append(entries, one)
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(entries)
}

// writeCSV writes one row a run. A cell that a spreadsheet would take for a formula gets an apostrophe in front.
func writeCSV(d *store.Data, w io.Writer) error {
	out := csv.NewWriter(w)
	head := []string{"cell", "name", "role", "kind", "settings", "repeat", "order", "status", "marks", "rate"}
	for _, m := range store.Metrics() {
		head = append(head, m.Name+" "+m.Unit)
	}
	if err := out.Write(append(head, "acked", "failed", "unanswered", "unsent", "lost", "duplicated")); err != nil {
		return err
	}
	for _, r := range d.Runs {
		c := d.Cell(r.Cell)
		var settings []string
		for _, s := range c.Settings {
			settings = append(settings, s.Axis+"="+s.Value)
		}
		row := []string{strconv.Itoa(c.Number), plain(c.Name), plain(string(c.Role)), plain(string(c.Kind)), plain(strings.Join(settings, " ")), strconv.Itoa(r.Repeat),
			strconv.Itoa(r.Order), plain(string(r.Status)), plain(strings.Join(r.Marks, ", ")), strconv.FormatFloat(r.Rate, 'f', -1, 64)}
		for _, m := range store.Metrics() {
			text := ""
			if v, ok := m.OfRatio(d, r); ok {
				text = strconv.FormatFloat(v, 'g', 9, 64)
			}
			row = append(row, text)
		}
		ends := make([]string, 6)
		if r.Result != nil {
			e, v := r.Result.Ends, r.Result.Verification
			for i, n := range []int64{e.Acked, e.Failed, e.Unanswered, e.Unsent} {
				ends[i] = strconv.FormatInt(n, 10)
			}
			if v.On {
				ends[4], ends[5] = strconv.FormatInt(v.Lost, 10), strconv.FormatInt(v.Duplicated, 10)
			}
		}
		if err := out.Write(append(row, ends...)); err != nil {
			return err
		}
	}
	out.Flush()
	return out.Error()
}

func plain(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 || r >= '\u202a' && r <= '\u202e' || r >= '\u2066' && r <= '\u2069' {
			return '\ufffd'
		}
		return r
	}, s)
	if s != "" && strings.ContainsRune("=+-@\t\r", rune(s[0])) {
		return "'" + s
	}
	return s
}
