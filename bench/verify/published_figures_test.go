package verify_test

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/tidemark/tidemark/bench/gate"
	"github.com/tidemark/tidemark/bench/report"
	"github.com/tidemark/tidemark/bench/store"
	"github.com/tidemark/tidemark/bench/verify"
)

const published = "../../results/quick"

// copied is a copy of the published run; files are linked where that works.
func copied(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "quick")
	err := filepath.WalkDir(published, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(published, path)
		if err != nil {
			return err
		}
		to := filepath.Join(dir, name)
		if e.IsDir() {
			return os.MkdirAll(to, 0o755)
		}
		if os.Link(path, to) == nil {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(to, text, 0o644)
	})
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func outcome(t *testing.T, dir string) *verify.Outcome {
	t.Helper()
	o, err := verify.Dir(dir)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// findings are an outcome's in one text.
func findings(o *verify.Outcome) string {
	var b strings.Builder
	for _, f := range o.Findings {
		fmt.Fprintf(&b, "%s: %s\n", f.Place, f.Text)
	}
	return b.String()
}

// folder is a cell's, whatever its number.
func folder(t *testing.T, dir, name string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "cells", "[0-9]*-"+name))
	if err != nil || len(found) != 1 {
		t.Fatalf("cell %s: %v, %v", name, found, err)
	}
	return found[0]
}

// change replaces the first match of a pattern in a file, and where it is part of a result's list the file's hash there.
func change(t *testing.T, path, pattern, with string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	at := regexp.MustCompile(pattern).FindSubmatchIndex(text)
	if at == nil {
		t.Fatalf("%s has no %s", path, pattern)
	}
	text = append(append(append([]byte{}, text[:at[2]]...), with...), text[at[3]:]...)
	if err := errors.Join(os.Remove(path), os.WriteFile(path, text, 0o644)); err != nil { // it may be a link
		t.Fatal(err)
	}
}

// publish writes the report anew and seals the folder, as who changes a figure would.
func publish(t *testing.T, dir string) {
	t.Helper()
	d, err := store.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := report.Write(d, gate.Analyse(d)); err != nil {
		t.Fatal(err)
	}
	if err := store.Seal(dir); err != nil {
		t.Fatal(err)
	}
}

// TestThePublishedRunHolds is the golden file of schema 1: the run in the repository as its version wrote it.
func TestThePublishedRunHolds(t *testing.T) {
	o := outcome(t, published)
	if len(o.Findings) > 0 {
		t.Errorf("%s", findings(o))
	}
	if o.Cells < 20 || o.Runs < 50 || o.Histograms < 500 || o.Figures < 3000 || o.Published < 500 || o.Sentences < 8 || o.Files < 150 {
		t.Errorf("hardly anything was checked: %+v", *o)
	}
}

func TestAFigureThatWasChangedAndSealedAgainNamesItsCell(t *testing.T) {
	p99 := `(?s)"ack": \{\s*"count": \d+,\s*"overflow".*?"p": 99,\s*"nanos": (\d+)`
	dir := copied(t)
	cell := folder(t, dir, "linger=5ms")
	number := strings.TrimLeft(filepath.Base(cell)[:3], "0")
	change(t, filepath.Join(cell, "rep-2/result.json"), p99, "1200000")
	publish(t, dir)
	o := outcome(t, dir)
	if text := findings(o); !strings.Contains(text, "cell "+number+" linger=5ms, repeat 2: ack p99 is ") || !strings.Contains(text, "result.json says 1.20 ms") {
		t.Errorf("the changed p99 is not named:\n%s", text)
	}
	// The report was made from the changed figure: its verdicts do not follow from the logs either.
	if !strings.Contains(findings(o), "report.md, cell "+number+" linger=5ms: ack p99 is") {
		t.Errorf("the report's figure is not named:\n%s", findings(o))
	}
	if strings.Contains(findings(o), "SHA-256") {
		t.Errorf("the seal was made again, and yet differs:\n%s", findings(o))
	}
}

// TestEachLieIsNamed tells a lie about a repeat each, all in one copy: whatever the others are, each is named.
func TestEachLieIsNamed(t *testing.T) {
	dir := copied(t)
	base := func(repeat int, file string) string {
		return filepath.Join(dir, fmt.Sprintf("cells/002-baseline/rep-%d", repeat), file)
	}
	var wants []string
	lie := func(want, path, pattern, with string) {
		change(t, path, pattern, with)
		wants = append(wants, want)
	}
	lie("cell 2 baseline, repeat 1: the target used ", base(1, "run.json"), `"cpuNanos": (\d+),\s*"runQueueNanos"`, "300000000")
	lie("cell 2 baseline, repeat 2: ", base(2, "result.json"), `"recordsPerSec": ([\d.]+)`, "5000")
	d, err := store.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range d.Runs {
		if r.Status == store.GeneratorLimited && r.Cell != 2 {
			lie(fmt.Sprintf(`cell %d %s, repeat %d: run.json calls it "ok", and what it measured makes it "generator-limited"`, r.Cell, d.Cell(r.Cell).Name, r.Repeat),
				filepath.Join(r.Dir, "run.json"), `"status": "(generator-limited)"`, "ok")
			break
		}
	}
	lie("report.md, the Answer: says ", filepath.Join(dir, "report.md"), `baseline's ack p50 was ([\d.]+) ms`, "0.03")
	lie(` is "×9.99 [9.98 9.99]" there, by the runs it is `, filepath.Join(dir, "report.html"), `<td>(×[\d.]+ \[[^<]*\])</td>`, "×9.99 [9.98 9.99]")
	lie("cell 2 baseline, repeat 4: ack.hlog: line ", base(4, "ack.hlog"), `(?m)^17.*?,(HISTFAAA[^\n]*)$`, "HISTFAAAAAl4")
	lie("cell 2 baseline, repeat 5: ack.hlog: line 11: time goes backwards", base(5, "ack.hlog"), `(?s)Tag=accepted.*?\n(\d+\.\d+),`, "1.000")
	lie("cell 2 baseline, repeat 6: "+base(6, "result.json")+" is damaged", base(6, "result.json"), `(?s)"ends": (.*)$`, "{")
	lie("cell 2 baseline, repeat 7: result.json: schema 2: written by a newer version", base(7, "result.json"), `"schema": (1)`, "2")
	lie("cell 2 baseline, repeat 8: 8,000 records were intended", base(8, "result.json"), `"intended": (\d+)`, "8000")
	lie("cell 2 baseline, repeat 9: profiles/load.cpu.pprof was changed since", base(9, "profiles/load.cpu.pprof"), `(?s)^(.*)$`, "x")
	text := strings.ReplaceAll(findings(outcome(t, dir)), "8000 records", "8,000 records")
	for _, want := range wants {
		if !strings.Contains(text, want) {
			t.Errorf("want %q in:\n%.6000s", want, text)
		}
	}
}

// TestAConvictionThatWasRemovedAndSealedAgainNamesItsRun: neither the verdict nor the state nor the reason is left, and the
// reports are of the better run.
func TestAConvictionThatWasRemovedAndSealedAgainNamesItsRun(t *testing.T) {
	dir := copied(t)
	d, err := store.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	var wants []string
	for _, r := range d.Runs {
		c := d.Cell(r.Cell)
		if r.Status != store.GeneratorLimited || c.Role != store.Baseline && c.Role != store.Ladder {
			continue
		}
		change(t, filepath.Join(r.Dir, "result.json"), `"kind": "(generator-limited)"`, "steal")
		change(t, filepath.Join(r.Dir, "run.json"), `"status": "(generator-limited)"`, "ok")
		change(t, filepath.Join(r.Dir, "run.json"), `(?s)"reasons": \[(.*?)\]`, "")
		change(t, filepath.Join(r.Dir, "run.json"), `"exitCode": (4)`, "0")
		wants = append(wants, fmt.Sprintf(`cell %d %s, repeat %d: run.json calls it "ok", and what it measured makes it "generator-limited": it`, r.Cell, c.Name, r.Repeat))
	}
	publish(t, dir)
	text := findings(outcome(t, dir))
	for _, want := range wants {
		if !strings.Contains(text, want) {
			t.Errorf("want %q in:\n%.3000s", want, text)
		}
	}
	if len(wants) < 3 {
		t.Errorf("the published run has %d convictions", len(wants))
	}
}

func TestWhatIsNoRunOrNewerIsRefused(t *testing.T) {
	dir := t.TempDir()
	if _, err := verify.Dir(dir); err == nil || !strings.Contains(err.Error(), "no bench run here") {
		t.Errorf("an empty folder: %v", err)
	}
	for text, want := range map[string]string{`{"schema": 2}`: "newer version", `{"sch`: "plan.json is damaged", `{"schema": 1, "cells": [{"number": 3}]}`: "cell 1 has number 3"} {
		if err := os.WriteFile(filepath.Join(dir, "plan.json"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := verify.Dir(dir); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// TestTheSealIsWhatSha256sumReads holds hashes.txt to its form.
func TestTheSealIsWhatSha256sumReads(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "cells", "001-a b"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"plan.json", "cells/001-a b/x", "x.tmp", ".lock"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(name), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := store.Seal(dir); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(dir, store.SealName))
	if err != nil {
		t.Fatal(err)
	}
	want := ""
	for _, name := range []string{"cells/001-a b/x", "plan.json"} {
		sum := sha256.Sum256([]byte(name))
		want += hex.EncodeToString(sum[:]) + "  " + name + "\n"
	}
	if string(got) != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}
