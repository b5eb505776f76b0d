package report

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tidemark/tidemark/bench/gate"
	"github.com/tidemark/tidemark/bench/store"
	"github.com/tidemark/tidemark/loadgen/result"
)

// page is what every section of the report draws from.
type page struct {
	d *store.Data
	a *gate.Analysis

	baseline *store.Cell // nil: the suite has none
	probe    *store.Cell // nil: no capacity was looked for
	hash     string      // of plan and results, short
	logs     map[*store.Run]*interval
	target   string // "embedded tidemark 0.1" as captions say it
	host     string
	asked    string // the baseline's settings in one line
}

// cell is a cell with its runs.
type cell struct {
	*store.Cell
	runs    []*store.Run
	counted []*store.Run
	planned int // runs that it sets out to make
}

func newPage(d *store.Data, a *gate.Analysis) *page {
	p := &page{d: d, a: a, logs: map[*store.Run]*interval{}}
	for i := range d.Plan.Cells {
		c := &d.Plan.Cells[i]
		if c.Role == store.Baseline && p.baseline == nil {
			p.baseline = c
		}
		if c.Role == store.Probe && p.probe == nil {
			p.probe = c
		}
	}
	p.hash = hashOf(d)
	p.target = d.Plan.Target
	for _, r := range d.Runs {
		if r.Target.Version != "" {
			p.target += " (" + r.Target.Version + ")"
			break
		}
	}
	p.host = hostLine(d)
	var asked []string
	for _, s := range d.Plan.Baseline {
		if slices.Contains([]string{"drain", "buffer", "partitioner", "driver", "compressibility"}, s.Axis) {
			continue
		}
		asked = append(asked, s.Axis+"="+s.Value)
	}
	p.asked = strings.Join(asked, " ")
	return p
}

// hashOf names the data that a picture was drawn from: plan, and each run with its result.
func hashOf(d *store.Data) string {
	h := sha256.New()
	e := json.NewEncoder(h)
	for _, part := range []any{d.Plan, d.Host} {
		if err := e.Encode(part); err != nil {
			fmt.Fprintf(h, "%v", err)
		}
	}
	for _, r := range d.Runs {
		if err := e.Encode([]any{r, r.Result}); err != nil {
			fmt.Fprintf(h, "%v", err)
		}
	}
	return hex.EncodeToString(h.Sum(nil))[:10]
}

func hostLine(d *store.Data) string {
	f := d.Host.Fingerprint
	var parts []string
	add := func(format string, v any, known bool) {
		if known {
			parts = append(parts, fmt.Sprintf(format, v))
		}
	}
	add("%s", f.Hostname, f.Hostname != "")
	add("%s", f.CPUModel, f.CPUModel != "")
	add("%d cores", f.Cores, f.Cores > 0)
	add("Linux %s", f.Kernel, f.Kernel != "")
	add("%s", f.FileSystem, f.FileSystem != "")
	if len(parts) == 0 {
		return "host not recorded"
	}
	return strings.Join(parts, ", ")
}

func (p *page) cell(number int) *cell {
	c := &cell{Cell: p.d.Cell(number)}
	if c.Cell == nil {
		return nil
	}
	c.runs, c.planned = p.d.RunsOf(number), p.d.Repeats(c.Cell)
	for _, r := range c.runs {
		if r.Countable() {
			c.counted = append(c.counted, r)
		}
	}
	return c
}

func (p *page) cells(keep func(*store.Cell) bool) []*cell {
	var out []*cell
	for i := range p.d.Plan.Cells {
		if c := &p.d.Plan.Cells[i]; keep(c) {
			out = append(out, p.cell(c.Number))
		}
	}
	return out
}

// acksNothing reports whether the cell's records got no acks: it is never in a table with those that did.
func acksNothing(c *store.Cell) bool { return string(c.Asked.Acks) == "0" }

// clock is the latency that a cell is judged by.
func clock(c *store.Cell) string {
	if acksNothing(c) {
		return result.Delivery
	}
	return result.Ack
}

func latencyMetric(c *store.Cell) string { return clock(c) + " p99" }

func cellAddress(number int) string { return fmt.Sprintf("#cell=%d", number) }

// state says in a few words why a cell's figures do not count, "" where all of its runs do.
func (c *cell) state() string {
	if len(c.runs) == 0 && c.Searched {
		return "not needed by the search"
	}
	if len(c.runs) == 0 {
		return "not run"
	}
	if len(c.counted) == len(c.runs) {
		return ""
	}
	seen := map[store.RunStatus]int{}
	profiled := 0
	for _, r := range c.runs {
		if r.Status != store.OK {
			seen[r.Status]++
		} else if !r.Countable() {
			profiled++
		}
	}
	var parts []string
	for _, s := range []store.RunStatus{store.Broken, store.Invalid, store.Partial, store.GeneratorLimited, store.Throttled, store.Saturated} {
		if n := seen[s]; n == len(c.runs) {
			parts = append(parts, string(s))
		} else if n > 0 {
			parts = append(parts, fmt.Sprintf("%d of %d %s", n, len(c.runs), s))
		}
	}
	if profiled > 0 && len(parts) == 0 {
		return fmt.Sprintf("%d of %d profiled", profiled, len(c.runs))
	}
	return strings.Join(parts, ", ")
}

// repeats is "n=2", or "n=1 of 2" where runs do not count or did not happen.
func (c *cell) repeats() string {
	planned := c.planned
	if len(c.counted) == planned {
		return fmt.Sprintf("n=%d", planned)
	}
	return fmt.Sprintf("n=%d of %d", len(c.counted), planned)
}

// rate is what a latency cell's runs were asked for, 0 where it is not known.
func (c *cell) rate() float64 {
	for _, r := range c.runs {
		if r.Rate > 0 {
			return r.Rate
		}
	}
	return c.Rate
}

// relative is a path inside the run's folder, relative to the report.
func (p *page) relative(path ...string) string {
	full := filepath.Join(path...)
	rel, err := filepath.Rel(p.d.Dir, full)
	if err != nil {
		return full
	}
	return rel
}

// noise is "p99 ±18%" for captions, "" where nothing ran twice.
func (p *page) noise(metric string, kind store.Kind) string {
	n := p.a.Noise[gate.NoiseKey{Metric: metric, Kind: kind}]
	if !n.Known() {
		return "noise not known: nothing ran twice"
	}
	return fmt.Sprintf("one run's %s ±%s%% (95%%, %d degrees of freedom)", metric, number(n.RunPercent()), n.DF)
}

// caption is what stands inside every picture's frame: a screenshot travels without its page.
func (p *page) caption(what, meant, repeats, noise string) []string {
	var lines []string
	if what != "" {
		lines = append(lines, what)
	}
	asked := p.asked
	if asked == "" {
		asked = "settings not recorded"
	}
	lines = append(lines, "Asked: "+short(asked, 260))
	if meant == "" {
		meant = "not recorded"
	}
	tail := "An ack meant: " + short(meant, 120) + " · Target: " + short(p.target, 80) + " · Host: " + short(p.host, 140) + " · " + repeats
	if noise != "" {
		tail += " · " + noise
	}
	return append(lines, tail+" · suite "+short(filepath.Base(p.d.Plan.Suite), 40)+", data #"+p.hash)
}

// meant is the sentence on what an ack meant in the cell's runs.
func (c *cell) meant() string {
	if c == nil {
		return ""
	}
	for _, r := range c.runs {
		if r.Result != nil && r.Result.AckMeant.Sentence != "" {
			return r.Result.AckMeant.Sentence
		}
	}
	return ""
}

func (p *page) baselineMeant() string {
	switch {
	case p.baseline != nil:
		return p.cell(p.baseline.Number).meant()
	case p.probe != nil:
		return p.cell(p.probe.Number).meant()
	}
	return ""
}

// totalRepeats is "51 runs of 22 cells".
func (p *page) totalRepeats(cells []*cell) string {
	n := 0
	for _, c := range cells {
		n += len(c.counted)
	}
	return count(n, "run") + " of " + count(len(cells), "cell")
}
