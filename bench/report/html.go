package report

import (
	_ "embed" // page.css and page.js
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tidemark/tidemark/bench/store"
)

//go:embed page.css
var styleSheet string

//go:embed page.js
var script string

// why stands where a section has no data.
func why(b *strings.Builder, text string) {
	b.WriteString(`<p class="why">Not shown: ` + esc(strings.TrimSuffix(text, ".")) + ".</p>\n")
}

// section is one part of the page.
type section struct {
	id, title, short string
	write            func(*strings.Builder)
}

// html is the whole page.
func (p *page) html() string {
	sections := []section{
		{"load", "Latency against offered rate", "Load", p.load},
		{"ack", "What an ack meant", "Ack", p.ackMeanings},
		{"axes", "What each setting changed", "Settings", p.axes},
		{"curves", "Percentile curves", "Curves", p.curves},
		{"within", "Within a cell", "Within", nil},
		{"believe", "Can I believe it?", "Believe it?", p.believe},
		{"cells", "All cells", "All cells", p.all},
		{"provenance", "Provenance", "Provenance", p.provenance},
	}
	parts := make([]string, len(sections))
	used := len(p.css()) + len(script) + 24<<10 + len(p.d.Plan.Cells)<<9 // head, Answer, and what each cell has without pictures
	for i, s := range sections {
		if s.write != nil {
			var b strings.Builder
			s.write(&b)
			parts[i] = b.String()
			used += len(parts[i])
		}
	}
	for i, s := range sections {
		if s.write == nil {
			var b strings.Builder
			p.cellsSection(&b, pageBytes+cellBytes*len(p.d.Plan.Cells)-used)
			parts[i] = b.String()
		}
	}
	var b strings.Builder
	p.head(&b, sections)
	for i, s := range sections {
		fmt.Fprintf(&b, "<section id=\"%s\"><h2>%s</h2>\n%s</section>\n", s.id, esc(s.title), parts[i])
	}
	b.WriteString("</main>\n<script>" + script + "</script>\n</body></html>\n")
	return b.String()
}

func (p *page) head(b *strings.Builder, sections []section) {
	name := short(filepath.Base(p.d.Plan.Suite), 60)
	if name == "." {
		name = "bench"
	}
	b.WriteString(`<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>` + esc("Tidemark: "+name) + `</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; base-uri 'none'; form-action 'none'">
<style>` + p.css() + `</style></head>
<body><a class="skip" href="#answer">Skip to the answer</a>
<nav aria-label="Sections"><a href="#answer">Answer</a>`)
	for _, s := range sections {
		fmt.Fprintf(b, ` <a href="#%s">%s</a>`, s.id, esc(s.short))
	}
	b.WriteString("</nav>\n<main>\n")
	fmt.Fprintf(b, `<header><p class="kicker">Tidemark bench report</p><h1>%s</h1><p class="id">%s</p></header>`+"\n", esc(name), p.identity())
	b.WriteString(`<section id="answer"><h2>Answer</h2>` + "\n")
	p.answerHTML(b)
	b.WriteString("</section>\n")
}

// identity is the line under the page's name.
func (p *page) identity() string {
	parts := []string{p.target, p.host}
	if s := p.d.Status.Started; !s.IsZero() {
		when := s.UTC().Format("2 Jan 2006 15:04 UTC")
		if spent := p.d.Status.Seconds; spent > 0 { // not Ended-Started: a resumed run waited in between
			when += ", " + duration(time.Duration(spent*float64(time.Second)))
		}
		parts = append(parts, when)
	}
	done := fmt.Sprintf("%d of %d runs", len(p.d.Runs), p.d.Planned())
	if p.d.Status.State != store.Finished {
		done += ", " + string(p.d.Status.State)
	}
	parts = append(parts, fmt.Sprintf("%s, %s", count(len(p.d.Plan.Cells), "cell"), done), bytesOf(p.a.Counts.BytesWritten)+" written", "data #"+p.hash)
	for i, s := range parts {
		parts[i] = esc(short(s, 160))
	}
	return strings.Join(parts, " · ")
}

func (p *page) answerHTML(b *strings.Builder) {
	sentences := p.answer()
	alarms := 0
	for alarms < len(sentences) && sentences[alarms].alarm {
		alarms++
	}
	b.WriteString(`<div class="sentences">`)
	writeSentences(b, sentences[:alarms])
	if heads := p.headlines(); len(heads) > 0 {
		b.WriteString(`<ul class="heads">`)
		for _, h := range heads {
			fmt.Fprintf(b, `<li><a href="%s"><span class="label">%s</span> <b>%s</b> <span class="unit">%s</span> <span class="range">%s</span></a></li>`,
				esc(h.address), esc(h.label), esc(h.value), esc(h.unit), esc(h.interval))
		}
		b.WriteString("</ul>\n")
	}
	writeSentences(b, sentences[alarms:])
	b.WriteString("</div>\n" + `<ul class="tally" aria-label="Verification and what did not count">`)
	for _, t := range p.tallies() {
		class := ""
		if t.bad {
			class = ` class="bad"`
		}
		fmt.Fprintf(b, `<li%s><b>%s</b> %s</li>`, class, grouped(float64(t.value)), esc(t.name))
	}
	b.WriteString("</ul>\n" + `<p class="aside">Intervals in brackets are 95%, from noise pooled over all repeats. Verdicts allow ` + percent(p.d.Plan.Allowance) + `%.</p>` + "\n")
}

func writeSentences(b *strings.Builder, sentences []*sentence) {
	for _, s := range sentences {
		class := ""
		if s.alarm {
			class = ` class="alarm"`
		}
		b.WriteString("<p" + class + ">")
		for _, sp := range s.spans {
			if sp.address != "" {
				b.WriteString(link(sp.address, sp.text))
			} else {
				b.WriteString(esc(sp.text))
			}
		}
		b.WriteString("</p>\n")
	}
}

// css is the style sheet with the colours of the pictures in front.
func (p *page) css() string {
	names := make([]string, 0, len(paints))
	for name := range paints {
		names = append(names, name)
	}
	slices.Sort(names)
	var light, dark, rules strings.Builder
	for _, name := range names {
		x := paints[name]
		v := "--" + x.class[2:]
		light.WriteString(v + ":" + x.light + ";")
		dark.WriteString(v + ":" + x.dark + ";")
		fmt.Fprintf(&rules, ".%s{fill:var(%s)}.s%s{stroke:var(%s)}", x.class, v, x.class[1:], v)
	}
	return ":root{" + light.String() + "}@media screen and (prefers-color-scheme:dark){:root{" + dark.String() + "}}" + rules.String() + styleSheet
}

// provenance is what another person needs to repeat the run.
func (p *page) provenance(b *strings.Builder) {
	plan, f := &p.d.Plan, p.d.Host.Fingerprint
	if len(plan.Command) > 0 {
		b.WriteString(`<p>The command that made this run:</p><pre class="cmd" tabindex="0"><code>` + esc(shellLine(plan.Command)) + "</code></pre>\n")
	}
	t := newTable("what", "value")
	add := func(name, value string) {
		if strings.TrimSpace(value) != "" {
			t.row(esc(name), esc(short(value, 400)))
		}
	}
	add("suite", plan.Suite)
	add("suite, SHA-256", plan.SuiteHash)
	add("data", "#"+p.hash+" (SHA-256 of plan, host and results, shortened; it shows accidents, not forgery)")
	add("run id", plan.RunID)
	add("seed", fmt.Sprint(plan.Seed))
	if !plan.Created.IsZero() {
		add("planned", plan.Created.UTC().Format(time.RFC3339))
	}
	modified := ""
	if plan.Versions.Modified {
		modified = ", from a tree with changes"
	}
	add("tidemark", strings.TrimSpace(plan.Versions.Tidemark+" "+plan.Versions.Go+modified))
	add("target", p.target)
	add("host", f.Hostname)
	add("kernel, system", strings.TrimSpace(f.Kernel+" "+f.OS+" "+f.Architecture))
	if f.CPUModel != "" {
		add("CPU", fmt.Sprintf("%s, %d of %d cores, governor %s, %s", f.CPUModel, f.Cores, f.CoresOnline, orUnknown(f.Governor), machine(f.Hypervisor)))
	}
	if f.MemoryBytes > 0 {
		add("memory", fmt.Sprintf("%s, swap %s, huge pages %s, writeback from %d%%, throttled at %d%%", bytesOf(f.MemoryBytes), bytesOf(f.SwapBytes), orUnknown(f.HugePages), f.DirtyBackgroundRatio, f.DirtyRatio))
	}
	if f.FileSystem != "" {
		add("disk", fmt.Sprintf("%s on %s, rotational %s, %s free", f.FileSystem, f.Device, orUnknown(f.Rotational), bytesOf(f.FreeBytes)))
	}
	add("clock", f.ClockSource)
	add("boot", f.BootID)
	for _, n := range p.d.Status.Notes {
		add("note", n)
	}
	for _, n := range p.profileNotes() {
		add("note on profiles", n)
	}
	b.WriteString(`<div class="scroll" tabindex="0">` + t.html("") + "</div>\n")
	p.settingsTables(b)
}

// machine says whether a hypervisor was seen.
func machine(hypervisor string) string {
	switch hypervisor {
	case "":
		return "no hypervisor seen"
	case "yes":
		return "a virtual machine"
	}
	return "a virtual machine under " + hypervisor
}

func orUnknown(s string) string {
	if s == "" {
		return "not known"
	}
	return s
}

// settingsTables lists the baseline, the effective settings of one of its runs, the target's own, and the ceilings.
func (p *page) settingsTables(b *strings.Builder) {
	fold := func(title string, t *table) {
		if len(t.rows) > 0 {
			fmt.Fprintf(b, `<details class="behind"><summary>%s</summary><div class="scroll" tabindex="0">%s</div></details>`+"\n", esc(title), t.html(""))
		}
	}
	asked := newTable("setting", "asked", "in effect", "note")
	target := newTable("broker setting", "value")
	for _, r := range p.d.Runs {
		if r.Result == nil || p.baseline != nil && r.Cell != p.baseline.Number {
			continue
		}
		for _, s := range r.Result.Settings {
			asked.row(esc(short(s.Name, 60)), esc(short(s.Asked, 120)), esc(short(s.Effective, 120)), esc(short(s.Note, 160)))
		}
		for _, s := range r.Target.Settings {
			target.row(esc(short(s.Axis, 80)), esc(short(s.Value, 120)))
		}
		break
	}
	if len(asked.rows) == 0 {
		asked = newTable("setting", "asked")
		for _, s := range p.d.Plan.Baseline {
			asked.row(esc(short(s.Axis, 60)), esc(short(s.Value, 120)))
		}
	}
	fold("settings of the baseline, asked and in effect", asked)
	fold("settings of the target", target)
	ceilings := newTable("the host at best", "value", "for each CPU-second", "what it is")
	for _, c := range p.d.Host.Ceilings {
		value, each := number(c.Value)+" "+c.Unit, "–"
		if c.Error != "" {
			value = "not measured: " + short(c.Error, 80)
		}
		if c.PerCPU > 0 {
			each = number(c.PerCPU) + " MB"
		}
		ceilings.row(esc(c.Name), esc(value), esc(each), esc(short(c.What, 140)))
	}
	fold("ceilings", ceilings)
}
