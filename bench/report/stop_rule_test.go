package report_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidemark/tidemark/bench/gate"
	"github.com/tidemark/tidemark/bench/store"
	"github.com/tidemark/tidemark/bench/verify"
	"github.com/tidemark/tidemark/loadgen/result"
)

// TestASecondProgramLooksAtEveryStop: what the rule allows passes; a cell that was stopped before its sixth run, or at
// another width than its runs have, is found.
func TestASecondProgramLooksAtEveryStop(t *testing.T) {
	b := newBench(t, ownSuite(t, "stop: {width: 60%, metrics: [CPU per GB]}\nmatrix: {repeats: 9, axes: {linger: [0s, 5ms], partitions: [1]}}\n"))
	b.light = true
	d := &store.Data{Plan: *b.plan}
	b.change = func(c *store.Cell, r *store.Run, res *result.Result, _ string) bool {
		delete(res.Clocks, result.Pacer)
		for _, s := range d.Status.Stopped {
			if s.Cell == c.Number {
				return false
			}
		}
		if width, narrow := gate.Narrow(d, c); narrow {
			d.Status.Stopped = append(d.Status.Stopped, store.Stopped{Cell: c.Number, Runs: len(d.RunsOf(c.Number)), Order: r.Order, Width: width})
			return false
		}
		r.Result = res
		d.Runs = append(d.Runs, r)
		return true
	}
	b.write()
	if len(d.Status.Stopped) != 3 {
		t.Fatalf("%+v", d.Status.Stopped)
	}
	findings := func(change func([]store.Stopped)) (list []string, markdown string) {
		text, err := os.ReadFile(filepath.Join(b.dir, "status.json"))
		if err != nil {
			t.Fatal(err)
		}
		var s store.Status
		if err := json.Unmarshal(text, &s); err != nil {
			t.Fatal(err)
		}
		s.Stopped = append([]store.Stopped(nil), d.Status.Stopped...)
		change(s.Stopped)
		if err := b.folder.WriteStatus(&s); err != nil {
			t.Fatal(err)
		}
		_, markdown = b.report()
		o, err := verify.Dir(b.dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range o.Findings {
			list = append(list, f.Place+": "+f.Text)
		}
		return list, markdown
	}
	list, markdown := findings(func([]store.Stopped) {})
	if len(list) > 0 || !strings.Contains(markdown, fmt.Sprintf("%d of %d runs", len(d.Runs), len(d.Runs))) {
		t.Errorf("as the rule allows: %q\n%.600s", list, markdown)
	}
	for name, change := range map[string]func([]store.Stopped){
		"too early":     func(s []store.Stopped) { s[0].Order = 5 },
		"another width": func(s []store.Stopped) { s[1].Width *= 1.5 },
		"the baseline":  func(s []store.Stopped) { s[2].Cell = 1 },
	} {
		if list, _ := findings(change); !strings.Contains(strings.Join(list, "\n"), "was stopped") {
			t.Errorf("%s: %q", name, list)
		}
	}
}
