package report

import (
	"fmt"
	"math"
	"strings"

	"github.com/tidemark/tidemark/bench/gate"
	"github.com/tidemark/tidemark/bench/stats"
	"github.com/tidemark/tidemark/bench/store"
	"github.com/tidemark/tidemark/loadgen/result"
	"github.com/tidemark/tidemark/loadgen/workload"
)

// believe is the section that meets the doubt.
func (p *page) believe(b *strings.Builder) {
	p.caveatsHTML(b)
	b.WriteString("<h3>Noise: how far one run may lie from its cell's value</h3>\n")
	p.noiseTable(b)
	b.WriteString("<h3>Lateness: is it the generator?</h3>\n")
	p.latenessTable(b)
	b.WriteString("<h3>Share of the ceiling</h3>\n")
	p.ceilingTable(b)
	b.WriteString("<h3>Verification</h3>\n")
	p.verification(b)
	b.WriteString("<h3>Calibration</h3>\n")
	p.calibration(b)
}

// calibration shows what the load process read where the truth was known, and the host's timer from the ceilings.
func (p *page) calibration(b *strings.Builder) {
	for i := range p.d.Status.Calibrations {
		c := &p.d.Status.Calibrations[i]
		fmt.Fprintf(b, "<p>Session %d: %s, %s.</p>\n", i+1, esc(short(c.Line(), 300)), tries(c.Tries))
		t := newTable("what was known", "truth", "reading", "error", "right from", "to", "")
		for _, r := range c.Readings {
			verdict, digits := "right", 0
			if !r.OK {
				verdict = "WRONG: the runs of this session do not count"
			}
			if r.Unit == "ms" {
				digits = 2
			}
			show := func(v float64) string { return esc(fmt.Sprintf("%.*f %s", digits, v, r.Unit)) }
			t.row(esc(short(r.Name, 60)), show(r.Truth), show(r.Reading), esc(fmt.Sprintf("%+.*f %s", digits, r.Reading-r.Truth, r.Unit)), show(r.Low), show(r.High), verdict)
		}
		if len(t.rows) > 0 {
			b.WriteString(`<div class="scroll" tabindex="0">` + t.html("") + "</div>\n")
		}
	}
	var rows [][]string
	for _, c := range p.d.Host.Ceilings {
		if c.Name == "timer" || c.Name == "core taken away" {
			value := number(c.Value) + " " + c.Unit
			if c.Error != "" {
				value = "not measured: " + short(c.Error, 80)
			}
			rows = append(rows, []string{esc(c.Name), esc(value), esc(short(c.What, 120))})
		}
	}
	if len(p.d.Status.Calibrations) == 0 {
		why(b, "this run did not measure a scripted target (truth, reading, error) beside its cells")
	}
	if len(rows) == 0 {
		return
	}
	t := newTable("the host's clock and cores", "reading", "what it is")
	for _, r := range rows {
		t.row(r...)
	}
	b.WriteString(`<div class="scroll" tabindex="0">` + t.html("") + "</div>\n")
}

func tries(n int) string {
	if n == 1 {
		return "at the first try"
	}
	return fmt.Sprintf("%d tries", n)
}

func (p *page) noiseTable(b *strings.Builder) {
	t := newTable("metric", "kind of cell", "one run, 95%", "degrees of freedom", "visible with 2 against the baseline's runs")
	for _, m := range store.Metrics() {
		for _, kind := range []store.Kind{store.Latency, store.Capacity} {
			n := p.a.Noise[gate.NoiseKey{Metric: m.Name, Kind: kind}]
			if !n.Known() {
				continue
			}
			against := 2
			if kind == store.Latency && p.baseline != nil {
				against = max(1, len(p.cell(p.baseline.Number).counted))
			}
			df := fmt.Sprint(n.DF)
			if n.DF < stats.MinDF {
				df += fmt.Sprintf(" (verdicts need %d)", stats.MinDF)
			}
			t.row(esc(m.Name), esc(string(kind)), "±"+number(n.RunPercent())+"%", esc(df), "×"+number(n.SmallestVisible(2, against)))
		}
	}
	if len(t.rows) == 0 {
		why(b, "nothing ran twice, so noise is not known and no verdict can be given")
		return
	}
	b.WriteString(`<div class="scroll" tabindex="0">` + t.html("") + "</div>\n")
	n := p.a.Noise[gate.NoiseKey{Metric: "ack p99", Kind: store.Latency}]
	if n.Known() {
		fmt.Fprintf(b, "<p class=\"aside\">Pooled over the repeats of all cells on the log scale; the last column is the smallest ratio that such a comparison finds four times in five.</p>\n")
	}
}

func (p *page) latenessTable(b *strings.Builder) {
	t := newTable("cell", "pacer p99 ms, worst run", "share of ack p99", "blocked, share of the window", "generator's CPU, cores", "generator waited for a core")
	marked, limited := 0, 0
	for _, c := range p.cells(func(c *store.Cell) bool { return c.Kind == store.Latency }) {
		for _, r := range c.runs {
			if r.Marked(store.MarkLate) {
				marked++
			}
			if r.Status == store.GeneratorLimited {
				limited++
			}
		}
		var pacer, share, blocked, cpu, wait float64
		n := 0
		for _, r := range c.runs {
			if r.Result == nil {
				continue
			}
			n++
			late, _ := r.Result.Clocks[result.Pacer].At(99)
			shown, ok := r.Result.Clocks[clock(c.Cell)].At(99)
			pacer = max(pacer, float64(late.Nanos)/1e6)
			if ok && shown.Nanos > 0 {
				share = max(share, float64(late.Nanos)/float64(shown.Nanos))
			}
			seconds := r.Result.Window.Seconds()
			if seconds > 0 {
				producers := max(1, float64(r.Result.Asked.Producers))
				blocked = max(blocked, float64(r.Result.Produce.BlockedNanos)/1e9/seconds/producers)
			}
			g := r.Result.Generator
			cpu = max(cpu, g.CPUShare())
			if g.Seconds > 0 {
				wait = max(wait, float64(g.RunQueueNanos)/1e9/g.Seconds)
			}
		}
		if n == 0 {
			continue
		}
		over := ""
		switch {
		case share > 0.5:
			over = " (over half)"
		case share > 0.1:
			over = " (over a tenth)"
		}
		t.row(link(cellAddress(c.Number), c.Name), number(pacer), esc(number(100*share)+"% "+over), whole(100*blocked)+"%", number(cpu), number(100*wait)+"% of the window")
	}
	if len(t.rows) == 0 {
		why(b, "no latency cell has run")
		return
	}
	fmt.Fprintf(b, "<p>%s marked <b>%s</b>: between a tenth and half of the p99 may be the generator's own lateness, so the target's own lies at most that much lower. "+
		"%s generator-limited (over half of the p99, or short of a core) and not used.</p>\n", runsAre(marked), store.MarkLate, runsAre(limited))
	b.WriteString(`<details class="behind"><summary>` + count(len(t.rows), "latency cell") + `, worst run of each</summary><div class="scroll" tabindex="0">` + t.html("") + "</div></details>\n")
}

func runsAre(n int) string {
	switch n {
	case 0:
		return "No run is"
	case 1:
		return "1 run is"
	}
	return count(n, "run") + " are"
}

// ceiling is what the receiving side could do at best, from beside the run or else from before the bench; in MB for
// each CPU-second.
func (p *page) ceiling(r *store.Run) float64 {
	for _, c := range r.Ceilings {
		if c.Name == "recv+crc32c+pwrite" && c.Before > 0 && c.After > 0 {
			return math.Sqrt(c.Before * c.After)
		}
	}
	for _, c := range p.d.Host.Ceilings {
		if c.Name == "recv+crc32c+pwrite" && c.PerCPU > 0 {
			return c.PerCPU
		}
	}
	return 0
}

func (p *page) ceilingTable(b *strings.Builder) {
	t := newTable("capacity cell", "MB for each CPU-second", "the host at best", "share", "bytes on the wire")
	for _, c := range p.cells(func(c *store.Cell) bool { return c.Kind == store.Capacity }) {
		var shares, cells, bests []float64
		var wire int64
		for _, r := range c.counted {
			if r.Target.Process == nil || r.Target.Process.CPUNanos <= 0 || r.Result.Produce.Batches.WireBytes <= 0 {
				continue
			}
			best := p.ceiling(r)
			wire = r.Result.Produce.Batches.WireBytes
			each := float64(wire) / 1e6 / (float64(r.Target.Process.CPUNanos) / 1e9)
			if best > 0 {
				shares, cells, bests = append(shares, each/best), append(cells, each), append(bests, best)
			}
		}
		if len(shares) == 0 {
			continue
		}
		mean := func(v []float64) float64 { return stats.Mean(v, stats.Noise{}).Value }
		t.row(link(cellAddress(c.Number), c.Name), number(mean(cells)), number(mean(bests)), number(100*mean(shares))+"%", esc(bytesOf(wire)))
	}
	if len(t.rows) == 0 {
		why(b, "no capacity cell has both the target's CPU and a ceiling beside it")
		return
	}
	b.WriteString(`<div class="scroll" tabindex="0">` + t.html("") + "</div>\n")
	b.WriteString("<p class=\"aside\">The best is a bare loop on the same core: socket read, CRC-32C, pwrite. A broker also parses, answers and serves the consumers.</p>\n")
}

func (p *page) verification(b *strings.Builder) {
	var acked, delivered, redelivered, unacked, foreign int64
	runs := 0
	for _, r := range p.d.Runs {
		if r.Result == nil || !r.Result.Verification.On {
			continue
		}
		runs++
		v := r.Result.Verification
		acked += v.Acked
		delivered += v.Delivered
		redelivered += v.Redelivered
		unacked += v.Unacked
		foreign += v.Foreign
	}
	if runs == 0 {
		why(b, "no run verified its data")
		return
	}
	n := p.a.Counts
	fmt.Fprintf(b, "<p>%s acked and %s delivered records were checked one by one in %s: <b>%s lost, %s duplicated, %s out of order, %s corrupt</b>; %s of another run. "+
		"Allowed and counted: %s delivered again inside a group, %s delivered without an ack. %s not verified to the end.</p>\n",
		grouped(float64(acked)), grouped(float64(delivered)), count(runs, "run"), grouped(float64(n.Lost)), grouped(float64(n.Duplicated)), grouped(float64(n.OutOfOrder)),
		grouped(float64(n.Corrupt)), grouped(float64(foreign)), grouped(float64(redelivered)), grouped(float64(unacked)), count(n.Unverified, "run"))
}

func (p *page) caveatsHTML(b *strings.Builder) {
	list := p.caveats()
	if len(list) == 0 {
		return
	}
	b.WriteString(`<ul class="caveats">`)
	for _, s := range list {
		b.WriteString("<li>" + esc(s) + "</li>")
	}
	b.WriteString("</ul>\n")
}

// caveats are up to five sentences "this would be wrong for you if", each from the run.
func (p *page) caveats() []string {
	var out []string
	say := func(format string, a ...any) {
		if len(out) < 5 {
			out = append(out, "This would be wrong for you if "+fmt.Sprintf(format, a...)+".")
		}
	}
	if len(p.d.Runs) == 0 {
		return nil
	}
	if loopback(p.d) {
		say("your clients reach the broker over a network: here both sides shared one host over loopback, which charges the receive cost of produced bytes to the client")
	}
	base := workload.Default()
	if p.baseline != nil {
		base = p.baseline.Asked
	} else if len(p.d.Plan.Cells) > 0 {
		base = p.d.Plan.Cells[0].Asked
	}
	if base.Replication <= 1 {
		say("you replicate: here one replica held the data, and an ack meant that this one had it")
	}
	f := p.d.Host.Fingerprint
	if written := p.a.Counts.BytesWritten; f.MemoryBytes > 0 && f.DirtyBackgroundRatio > 0 {
		limit := f.MemoryBytes / 100 * int64(f.DirtyBackgroundRatio)
		most := int64(0)
		for _, r := range p.d.Runs {
			if r.Result != nil {
				most = max(most, r.Result.Produce.Batches.WireBytes)
			}
		}
		if most > 0 && most < limit {
			say("you write for hours: the largest run wrote %s, below the %s at which this kernel starts to write back (%s in all)", bytesOf(most), bytesOf(limit), bytesOf(written))
		}
	}
	if cores := targetCores(p.d); cores > 0 && cores <= 2 {
		say("your broker has more cores: here it had %s", count(cores, "core"))
	}
	switch base.Keys.Kind {
	case workload.KeysUniform, workload.KeysRoundRobin, workload.KeysNone:
		say("your keys are skewed: the baseline's are %s, and every partition gets its share", base.Keys.String())
	}
	if s := windowSeconds(p.d); s > 0 && s < 30 {
		say("you care for what happens once an hour: a run's window was %s s", number(s))
	}
	return out
}

func loopback(d *store.Data) bool {
	for _, r := range d.Runs {
		host := r.Target.Bootstrap
		if strings.HasPrefix(host, "127.") || strings.HasPrefix(host, "localhost:") || strings.HasPrefix(host, "[::1]") {
			return true
		}
	}
	return d.Plan.Target == "embedded"
}

func targetCores(d *store.Data) int {
	for _, r := range d.Runs {
		if len(r.Target.Cores) > 0 {
			return len(r.Target.Cores)
		}
	}
	return d.Host.Fingerprint.Cores
}

func windowSeconds(d *store.Data) float64 {
	most := 0.0
	for _, r := range d.Runs {
		if r.Result != nil {
			most = max(most, r.Result.Window.Seconds())
		}
	}
	return most
}
