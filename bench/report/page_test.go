package report_test

import (
	"encoding/xml"
	"fmt"
	"html"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/tidemark/tidemark/bench/store"
	"github.com/tidemark/tidemark/loadgen/result"
	"github.com/tidemark/tidemark/loadgen/workload"
)

// checkPage holds every page to what any page must be.
func checkPage(t *testing.T, page, markdown string, cells int) {
	t.Helper()
	if limit := 600<<10 + cells*4<<10; len(page) > limit {
		t.Errorf("the page has %d bytes, %d are allowed for %d cells", len(page), limit, cells)
	}
	if n := len([]rune(markdown)); n >= 60_000 {
		t.Errorf("report.md has %d characters", n)
	}
	if strings.Contains(markdown, "![") {
		t.Error("report.md has an image")
	}
	svgs := regexp.MustCompile(`(?s)<svg.*?</svg>`).FindAllString(page, -1)
	for _, s := range svgs {
		checkXML(t, s)
	}
	// The only addresses are the name space of SVG, places in the page and files beside it.
	for _, m := range regexp.MustCompile(`(?i)(?:href|src|srcset|action|data|poster)="([^"]*)"`).FindAllStringSubmatch(page, -1) {
		if !strings.HasPrefix(m[1], "#") && !strings.HasPrefix(m[1], "./") {
			t.Errorf("address %q leaves the page", m[1])
		}
	}
	for _, bad := range []string{"@import", "url(", "<link", "<img", "<iframe", " style=", " onclick=", " onerror="} {
		if strings.Contains(withoutScript(page), bad) {
			t.Errorf("the page has %q", bad)
		}
	}
	if strings.Contains(strings.ReplaceAll(page, "http://www.w3.org/2000/svg", ""), "http://") {
		t.Error("the page names an http address")
	}
	for _, bad := range []string{"NaN", "+Inf", "%!", "<nil>"} {
		if strings.Contains(withoutScript(page), bad) || strings.Contains(markdown, bad) {
			t.Errorf("the report prints %q", bad)
		}
	}
	last := -1
	for _, id := range []string{"answer", "load", "ack", "axes", "curves", "within", "believe", "cells", "provenance"} {
		at := strings.Index(page, `<section id="`+id+`">`)
		if at <= last {
			t.Errorf("section %s is missing or out of order", id)
		}
		last = at
	}
	checkBalance(t, page)
	ids := map[string]bool{}
	for _, m := range regexp.MustCompile(` id="([^"]*)"`).FindAllStringSubmatch(page, -1) {
		if ids[m[1]] {
			t.Errorf("id %q twice", m[1])
		}
		ids[m[1]] = true
	}
	for _, m := range regexp.MustCompile(`href="#([^"]*)"`).FindAllStringSubmatch(page, -1) {
		if !ids[m[1]] {
			t.Errorf("link to #%s, which is nowhere", m[1])
		}
	}
	for _, m := range regexp.MustCompile(`(?s)<section id=.*?</section>`).FindAllString(page, -1) {
		if text := strings.TrimSpace(textOf(m[strings.Index(m, "</h2>"):])); text == "" {
			t.Errorf("an empty section: %.60s", m)
		}
	}
}

func checkXML(t *testing.T, s string) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(s))
	painted := []bool{false} // by a group around
	for {
		token, err := d.Token()
		if err == io.EOF {
			return
		}
		if err != nil {
			t.Fatalf("svg is not well-formed: %v in %.200s", err, s)
		}
		if _, ok := token.(xml.EndElement); ok {
			painted = painted[:len(painted)-1]
			continue
		}
		e, ok := token.(xml.StartElement)
		if !ok {
			continue
		}
		has := map[string]bool{}
		for _, a := range e.Attr {
			has[a.Name.Local] = true
			if strings.HasPrefix(a.Name.Local, "on") || a.Name.Local == "style" {
				t.Errorf("svg has attribute %s", a.Name.Local)
			}
		}
		switch e.Name.Local {
		case "path", "text", "rect":
			if !has["fill"] && !painted[len(painted)-1] {
				t.Errorf("%s without paint: %v", e.Name.Local, e.Attr)
			}
		case "svg", "g", "title":
		default:
			t.Errorf("svg has element %s", e.Name.Local)
		}
		painted = append(painted, has["fill"])
	}
}

// checkBalance finds markup that came in from outside: an element opened and not closed, or the other way round.
func checkBalance(t *testing.T, page string) {
	t.Helper()
	var open []string
	for _, m := range regexp.MustCompile(`<(/?)([a-zA-Z][a-zA-Z0-9]*)((?:"[^"]*"|[^">])*)>`).FindAllStringSubmatch(withoutScript(page), -1) {
		name := strings.ToLower(m[2])
		switch {
		case name == "meta" || name == "input" || strings.HasSuffix(m[3], "/"):
		case m[1] == "":
			open = append(open, name)
		case len(open) == 0 || open[len(open)-1] != name:
			t.Fatalf("</%s> closes %v", name, open[max(0, len(open)-3):])
		default:
			open = open[:len(open)-1]
		}
	}
	if len(open) > 0 {
		t.Errorf("left open: %v", open)
	}
}

func withoutScript(page string) string {
	page = regexp.MustCompile(`(?s)<script.*?</script>`).ReplaceAllString(page, "")
	return regexp.MustCompile(`(?s)<style>.*?</style>`).ReplaceAllString(page, "")
}

func textOf(markup string) string {
	return html.UnescapeString(regexp.MustCompile(`(?s)<[^>]*>`).ReplaceAllString(markup, ""))
}

func TestQuickSuiteGetsAWholePage(t *testing.T) {
	b := newBench(t, "quick").realistic()
	page, md := b.write()
	checkPage(t, page, md, len(b.plan.Cells))
	t.Run("the Answer follows from the runs", func(t *testing.T) { checkAnswer(t, b, page, md) })
	bare := withoutScript(page)
	for _, want := range []string{
		"<s>", // the saturated cell's percentiles are struck through
		"Where the target&#39;s CPU went: linger=5ms", ", baseline 1", "target's mutex profile", "profiled/profiles/broker.mutex.pprof", // a flame graph with its difference
		`id="cell=9&amp;vs=2"`, "tidemark load --workload", `<table class="all">`, " stalls</span>",
		"written to the page cache of 1 broker; no fsync", "This would be wrong for you if",
	} {
		if !strings.Contains(bare, want) {
			t.Errorf("without script the page has no %q", want)
		}
	}
	if n := strings.Count(page, "<figure"); n < 12 {
		t.Errorf("%d figures", n)
	}
	for _, f := range regexp.MustCompile(`href="(\./cells/[^"]*)"`).FindAllStringSubmatch(page, -1) {
		name := strings.ReplaceAll(strings.ReplaceAll(f[1], "%25", "%"), "%28", "(")
		if _, err := os.Stat(filepath.Join(b.dir, strings.ReplaceAll(name, "%29", ")"))); err != nil {
			t.Errorf("linked file: %v", err)
			break
		}
	}
	for _, svg := range regexp.MustCompile(`(?s)<svg.*?</svg>`).FindAllString(page, -1) {
		said := textOf(strings.ReplaceAll(svg, "</text>", " "))
		for _, want := range []string{"bench-01", "no fsync", "Asked:", "acks=all", "data #", "tidemark 0.1.0"} {
			if !strings.Contains(said, want) {
				t.Fatalf("a picture does not say %q inside its frame: %s", want, said)
			}
		}
	}
	if before, _, _ := strings.Cut(md, "Changes at the fixed rate"); !strings.Contains(before, "load 90") {
		t.Error("report.md does not begin with what did not count")
	}
}

// hostile is what an outsider may put into a name.
const hostile = `"><script>alert(1)</script><svg onload=x>&amp;'` + "`|@all](javascript:x)\x00\x1b[31m\u202Eevil\n# head"

func TestMarkupInNamesIsText(t *testing.T) {
	b := newBench(t, "smoke")
	b.plan.Suite, b.plan.Target, b.plan.RunID, b.plan.Command = hostile, hostile, hostile, []string{"tidemark", hostile}
	for i := range b.plan.Cells {
		c := &b.plan.Cells[i]
		c.Name += hostile
		for k := range c.Settings {
			c.Settings[k] = store.Setting{Axis: c.Settings[k].Axis + hostile, Value: hostile}
		}
	}
	for i := range b.plan.Primary {
		b.plan.Primary[i] += hostile
	}
	for i := range b.plan.Baseline {
		b.plan.Baseline[i].Value = hostile
	}
	f := &b.host.Fingerprint
	f.Hostname, f.Kernel, f.CPUModel, f.FileSystem, f.OS, f.Governor = hostile, hostile, hostile, hostile, hostile, hostile
	b.host.Ceilings[0].What, b.host.Ceilings[1].Error = hostile, hostile
	b.change = func(c *store.Cell, r *store.Run, res *result.Result, dir string) bool {
		r.Reasons, r.Error, r.Target.Version, r.Command, r.Marks = []string{hostile}, hostile, hostile, []string{hostile}, []string{hostile}
		r.Target.Settings = []store.Setting{{Axis: hostile, Value: hostile}}
		res.AckMeant.Sentence, res.AckMeant.Cache, res.AckMeant.Regime = hostile, hostile, hostile
		res.Errors = []result.ErrorCount{{Kind: hostile, Where: hostile, First: hostile, Count: 1}}
		res.Events = []result.Event{{Nanos: 1e8, Kind: hostile, Text: hostile}}
		res.Settings = []result.Setting{{Name: hostile, Asked: hostile, Effective: hostile, Note: hostile}}
		res.Consume.Groups = []result.Group{{Name: hostile, IdleMembers: 2, Members: 3}}
		res.Window.EndedBy = hostile
		res.Verification.Lost = 1
		res.Verification.Findings = []result.Finding{{Kind: hostile, Topic: hostile, Text: hostile}}
		_ = os.WriteFile(filepath.Join(dir, `"><b>&`), nil, 0o644)
		return true
	}
	page, md := b.write()
	checkPage(t, page, md, len(b.plan.Cells))
	outside := regexp.MustCompile("(?s)```.*?```").ReplaceAllString(md, "") // the command, as code
	for _, s := range []string{"<script>alert", "<svg onload", "\x00", "\x1b", "\u202e"} {
		if strings.Contains(page, s) || strings.Contains(outside, s) {
			t.Errorf("%q came through", s)
		}
	}
	for _, s := range []string{"](javascript", "@all", "\n# head"} {
		if strings.Contains(outside, s) {
			t.Errorf("report.md has %q", s)
		}
	}
	if n := strings.Count(page, "<script"); n != 2 {
		t.Errorf("%d script elements, 2 are the page's own", n)
	}
}

func TestALatePacerIsNamedWhereTheDoubtIs(t *testing.T) {
	b := newBench(t, "smoke")
	marks := 0
	b.change = func(c *store.Cell, r *store.Run, _ *result.Result, _ string) bool {
		if c.Kind == store.Latency && marks < 2 {
			marks++
			r.Marks = append(r.Marks, store.MarkLate)
		}
		return true
	}
	page, md := b.write()
	checkPage(t, page, md, len(b.plan.Cells))
	_, doubt, _ := strings.Cut(page, `<section id="believe">`)
	doubt, _, _ = strings.Cut(doubt, "</section>")
	if want := "<p>2 runs are marked <b>late pacer</b>: "; !strings.Contains(doubt, want) || !strings.Contains(doubt, "No run is generator-limited") {
		t.Errorf("no %q in\n%s", want, doubt)
	}
}

func TestMissingPiecesAreSaidInALine(t *testing.T) {
	for name, bend := range map[string]func(*bench){
		"no cell":     func(b *bench) { b.plan.Cells, b.plan.Runs, b.plan.Primary = nil, nil, nil },
		"nothing ran": func(b *bench) { b.plan.Runs = nil },
		"no host":     func(b *bench) { b.host = nil },
		"no logs":     func(b *bench) { b.noLogs = true },
		"one run": func(b *bench) {
			b.plan.Runs = b.plan.Runs[:1]
		},
		"no baseline": func(b *bench) {
			b.change = func(c *store.Cell, _ *store.Run, _ *result.Result, _ string) bool {
				return c.Role != store.Baseline && c.Role != store.Probe
			}
		},
		"empty results": func(b *bench) {
			b.change = func(_ *store.Cell, r *store.Run, res *result.Result, _ string) bool {
				*res = result.Result{Valid: true}
				r.Target, r.Ceilings = store.Target{}, nil
				return true
			}
		},
		"all broken": func(b *bench) {
			b.change = func(_ *store.Cell, r *store.Run, _ *result.Result, _ string) bool {
				r.Status, r.Error = store.Broken, "cannot reach the cluster"
				return true
			}
		},
		"all limited": func(b *bench) {
			b.change = func(_ *store.Cell, r *store.Run, _ *result.Result, _ string) bool {
				r.Status, r.Reasons = store.GeneratorLimited, []string{"its threads waited 48.6% of the window for a core"}
				return true
			}
		},
		"all invalid": func(b *bench) {
			b.change = func(_ *store.Cell, r *store.Run, res *result.Result, _ string) bool {
				r.Status, r.Reasons = store.Invalid, []string{"3 acknowledged records were lost"}
				res.Verification.Lost = 3
				return true
			}
		},
		"damaged logs and profiles": func(b *bench) {
			b.change = func(_ *store.Cell, r *store.Run, _ *result.Result, dir string) bool {
				_ = os.WriteFile(filepath.Join(dir, "ack.hlog"), []byte("\n1,1,1,HISTFAAAAEV42pNpmSz\nTag=x\n"), 0o644)
				_ = os.MkdirAll(filepath.Join(dir, "profiles"), 0o755)
				_ = os.WriteFile(filepath.Join(dir, "profiles", "broker.cpu.pprof"), []byte("\x1f\x8bnothing"), 0o644)
				return true
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, "smoke")
			bend(b)
			page, md := b.write()
			checkPage(t, page, md, len(b.plan.Cells))
			answer := between(page, `<div class="sentences">`, "</div>")
			if n := strings.Count(answer, "<p"); n < 1 || n > 5 {
				t.Errorf("the Answer has %d sentences: %s", n, textOf(answer))
			}
			if name != "no host" && name != "no logs" && name != "damaged logs and profiles" && !strings.Contains(page, "Not shown:") {
				t.Error("nothing says what is missing")
			}
			if name == "all limited" && (!strings.Contains(answer, "at least") || !strings.Contains(answer, "0 of 10 runs count")) {
				t.Errorf("a bench without a run that counts does not say so: %s", textOf(answer))
			}
			if name == "all invalid" && !strings.Contains(answer, `class="alarm"`) {
				t.Errorf("lost records do not stand first: %s", textOf(answer))
			}
		})
	}
}

func between(s, from, to string) string {
	_, after, _ := strings.Cut(s, from)
	inside, _, _ := strings.Cut(after, to)
	return inside
}

func TestCensoredPercentilesAndMissingAcksAreSaid(t *testing.T) {
	b := newBench(t, "smoke")
	b.change = func(c *store.Cell, r *store.Run, res *result.Result, _ string) bool {
		if c.Role != store.Axis {
			return true
		}
		ack := res.Clocks[result.Ack]
		for i := range ack.Percentiles {
			if ack.Percentiles[i].P >= 99 {
				ack.Percentiles[i].Censored, ack.Percentiles[i].Nanos = true, 30e9
			}
		}
		return true
	}
	last := &b.plan.Cells[len(b.plan.Cells)-1]
	for i := range b.plan.Cells {
		if c := &b.plan.Cells[i]; c.Role == store.Ladder {
			last = c
		}
	}
	last.Asked.Acks = workload.AcksNone
	page, md := b.write()
	checkPage(t, page, md, len(b.plan.Cells))
	if !strings.Contains(page, "&gt; 30,000 (censored)") {
		t.Error("a censored percentile does not print its lower bound")
	}
	if last.Kind == store.Latency && !strings.Contains(page, "Latency without acks") {
		t.Error("acks=0 has no table of its own")
	}
}

func TestManyCellsStayInsideTheBudget(t *testing.T) {
	b := newBench(t, "smoke")
	b.light, b.noLogs = true, true
	template := b.plan.Cells[len(b.plan.Cells)-1]
	for i := range b.plan.Cells {
		if b.plan.Cells[i].Role == store.Axis {
			template = b.plan.Cells[i]
		}
	}
	for len(b.plan.Cells) < 100 {
		c := template
		c.Number, c.Repeats = len(b.plan.Cells)+1, 2
		c.Name = fmt.Sprintf("%s number %d %s", template.Name, c.Number, strings.Repeat("long ", 8))
		c.WindowMS = 1200
		b.plan.Cells = append(b.plan.Cells, c)
		b.plan.Runs = append(b.plan.Runs, store.RunPlan{Cell: c.Number, Repeat: 1}, store.RunPlan{Cell: c.Number, Repeat: 2})
	}
	page, md := b.write()
	checkPage(t, page, md, len(b.plan.Cells))
	if !strings.Contains(page, "no room left") && len(page) > 1<<20 {
		t.Errorf("%d bytes", len(page))
	}
}
