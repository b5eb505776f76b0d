package report

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tidemark/tidemark/profiles"
)

// heavy is the tables of the cell's one repeat with heap, mutex and block profiles, "" where it has none: the functions
// with the largest own share.
func (p *page) heavy(c *cell) string {
	if len(c.runs) == 0 || c.runs[0].Dir == "" {
		return ""
	}
	var b strings.Builder
	dir := heavyFolder(c.runs[0])
	for _, name := range runFiles(dir) {
		process, kind := profileName(name)
		if process != "broker" || kind == profiles.CPU || kind == profiles.Goroutine {
			continue
		}
		one, err := readProfile(filepath.Join(dir, name))
		if err != nil || len(one.SampleType) == 0 {
			continue
		}
		functions, total := profiles.Top(one)
		_, unit := profiles.Value(one)
		if total <= 0 {
			continue
		}
		t := newTable("function", "own share", unit)
		for _, f := range functions[:min(len(functions), 8)] {
			t.row(esc(frameName(f.Name)), number(100*float64(f.Flat)/float64(total))+"%", esc(grouped(float64(f.Flat))))
		}
		fmt.Fprintf(&b, `<details class="behind"><summary>target's %s profile, of the profiled repeat</summary><div class="scroll" tabindex="0">%s</div></details>`, esc(string(kind)), t.html(""))
	}
	return b.String()
}

// profileName takes "profiles/broker.heap.pprof" apart; the kind is "" where the name is no profile's.
func profileName(name string) (process string, kind profiles.Kind) {
	base, isProfile := strings.CutSuffix(filepath.Base(name), ".pprof")
	if filepath.Dir(name) != "profiles" || !isProfile {
		return "", ""
	}
	i := strings.LastIndexAny(base, ".-")
	if i < 0 {
		return "", ""
	}
	k, err := profiles.ParseKind(base[i+1:])
	if err != nil {
		return "", ""
	}
	return base[:i], k
}

// profileNotes are what went wrong with profiles and their upload, each once.
func (p *page) profileNotes() []string {
	var out []string
	for _, r := range p.d.Runs {
		if r.Result == nil || r.Result.Profiles == nil {
			continue
		}
		for _, n := range r.Result.Profiles.Notes {
			if !slices.Contains(out, n) && len(out) < 8 {
				out = append(out, n)
			}
		}
	}
	return out
}
