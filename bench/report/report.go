// Package report turns the folder of a bench run into what a person reads: report.html, one file without network, and
// report.md.
//
//	store.Data, gate.Analysis -> page -+-> answer   two to five sentences, each with its interval and its evidence
//	.hlog, pprof files ----------------+-> figures  static SVG, drawn for a desk and for a phone
//	                                   +-> tables   behind every picture, and of all cells
//
// It leaves every statistic and verdict to stats and gate, so that report, terminal and gate can not disagree. Answer,
// pictures and tables show with script and style sheets off: pictures have presentation attributes, the phone's copy is
// hidden by an attribute; script only adds hover, filter, sort, zoom and the comparison of any two cells. All that comes
// from outside (names, paths, errors) passes esc. Nothing here keeps state: a page is built in one goroutine and thrown
// away.
package report

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/tidemark/tidemark/bench/gate"
	"github.com/tidemark/tidemark/bench/store"
)

// Write writes report.html and report.md into d.Dir, each whole or not at all. It takes every verdict from a and
// computes none of its own; an unfinished or empty run gets a page that says so. What a missing or damaged file beside
// the results takes away from the page is said there, it is no error.
func Write(d *store.Data, a *gate.Analysis) error {
	p := newPage(d, a)
	for _, f := range []struct{ name, text string }{{"report.html", p.html()}, {"report.md", p.markdown()}} {
		if err := writeWhole(filepath.Join(d.Dir, f.name), f.text); err != nil {
			return err
		}
	}
	return nil
}

// Answer is the sentences that open the report, as plain text.
func Answer(d *store.Data, a *gate.Analysis) []string {
	var out []string
	for _, s := range newPage(d, a).answer() {
		out = append(out, s.text())
	}
	return out
}

func writeWhole(path, text string) error {
	tmp := path + ".tmp"
	if err := os.WriteFile(tmp, []byte(text), 0o644); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	if err := os.Rename(tmp, path); err != nil {
		_ = os.Remove(tmp)
		return fmt.Errorf("write the report: %w", err)
	}
	return nil
}
