package report

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/google/pprof/profile"

	"github.com/tidemark/tidemark/profiles"
)

// Bounds of flame graphs.
const (
	flamePrune      = 0.005 // a frame under this share is left out
	flameDepth      = 48
	flameRow        = 16.0
	flameWidth      = 1120.0
	maxProfileBytes = 64 << 20
)

// stack is one frame with what was called from it.
type stack struct {
	name  string
	value int64
	calls map[string]*stack
}

func (s *stack) call(name string) *stack {
	if s.calls == nil {
		s.calls = map[string]*stack{}
	}
	next := s.calls[name]
	if next == nil {
		next = &stack{name: name}
		s.calls[name] = next
	}
	return next
}

// sorted are the callees by name, so that the same code stands in the same place in every picture.
func (s *stack) sorted() []*stack {
	out := make([]*stack, 0, len(s.calls))
	for _, c := range s.calls {
		out = append(out, c)
	}
	slices.SortFunc(out, func(a, b *stack) int { return strings.Compare(a.name, b.name) })
	return out
}

// cpuProfile is the target's CPU profile of a cell, merged over its repeats.
type cpuProfile struct {
	root    *stack
	samples int64
	files   []string // relative to the report
	parts   [len(parts)]int64
}

// parts are where a CPU-second of a broker goes. The frame nearest to the leaf that a pattern knows decides.
var parts = [...]struct {
	name    string
	pattern *regexp.Regexp
}{
	{"receive", regexp.MustCompile(`\(\*(conn|netFD|FD)\)\.Read|readFrame|readRequest|readSocket|io\.Read|unix\.([rR]ead|[rR]ecvfrom)$`)},
	{"check", regexp.MustCompile(`crc32|core/record\.|core/compress|core/wire\.|klauspost/compress|pierrec/lz4`)},
	{"write", regexp.MustCompile(`core/commitlog.*([aA]ppend|[wW]rite|[rR]oll|[pP]ublish)|core/vfs.*Write|[pP]write`)},
	{"send", regexp.MustCompile(`\(\*(conn|netFD|FD|Buffers)\)\.(Write|Writev|writeTo|writeBuffers)|writeMessage|[sS]endfile|(^|[^p])[wW]ritev|unix\.[wW]rite$`)},
	{"the rest", nil},
}

// profileOf reads the target's CPU profiles of the cell, nil where there are none that can be read.
func (p *page) profileOf(c *cell) *cpuProfile {
	var all []*profile.Profile
	out := &cpuProfile{}
	for _, r := range c.runs {
		for _, name := range runFiles(r.Dir) {
			if process, kind := profileName(name); process == "load" || kind != profiles.CPU {
				continue
			}
			one, err := readProfile(filepath.Join(r.Dir, name))
			if err != nil {
				continue
			}
			all = append(all, one)
			out.files = append(out.files, p.relative(r.Dir, name))
		}
	}
	if len(all) == 0 {
		return nil
	}
	merged, err := profile.Merge(all)
	if err != nil {
		merged = all[0]
	}
	out.grow(merged)
	if out.root == nil || out.root.value <= 0 {
		return nil
	}
	return out
}

func readProfile(path string) (*profile.Profile, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Size() > maxProfileBytes {
		return nil, fmt.Errorf("%s has %d bytes, more than a profile has", path, info.Size())
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return profile.Parse(f)
}

func (x *cpuProfile) grow(p *profile.Profile) {
	value, samples := -1, -1
	for i, t := range p.SampleType {
		switch t.Type {
		case "cpu":
			value = i
		case "samples":
			samples = i
		}
	}
	if value < 0 {
		return
	}
	x.root = &stack{name: "all"}
	for _, s := range p.Sample {
		v := s.Value[value]
		if samples >= 0 {
			x.samples += s.Value[samples]
		}
		x.root.value += v
		at, depth := x.root, 0
		part := len(parts) - 1
		for i := len(s.Location) - 1; i >= 0; i-- {
			for k := len(s.Location[i].Line) - 1; k >= 0; k-- {
				fn := s.Location[i].Line[k].Function
				if fn == nil || fn.Name == "runtime.goexit" {
					continue
				}
				for n, known := range parts {
					if known.pattern != nil && known.pattern.MatchString(fn.Name) {
						part = n
					}
				}
				if depth++; depth <= flameDepth {
					at = at.call(frameName(fn.Name))
					at.value += v
				}
			}
		}
		x.parts[part] += v
	}
}

// frameName drops the path before the package.
func frameName(s string) string {
	head, tail, _ := strings.Cut(s, "[")
	if i := strings.LastIndexByte(head, '/'); i >= 0 {
		head = head[i+1:]
	}
	if tail != "" {
		head += "[…]"
	}
	return short(head, 80)
}

func (p *page) baselineProfile() *cpuProfile {
	if p.baseline == nil {
		return nil
	}
	return p.profileOf(p.cell(p.baseline.Number))
}

// flame is the cell's flame graph and the split of its CPU as HTML; ok is false where there is no profile or no room.
func (p *page) flame(c *cell, base *cpuProfile, room int) (text string, ok bool) {
	x := p.profileOf(c)
	if x == nil {
		return "", false
	}
	isBase := p.baseline != nil && c.Number == p.baseline.Number
	if isBase || base == nil || x.samples < profiles.MinSamples || base.samples < profiles.MinSamples {
		base = nil
	}
	var b strings.Builder
	b.WriteString(p.splitFigure(c, x).render())
	what := fmt.Sprintf("Width: share of the target's CPU time; frames under %g%% are left out; %s samples.", 100*flamePrune, grouped(float64(x.samples)))
	switch {
	case base != nil:
		what += " Warm: a larger share than in the baseline, blue: a smaller one, pale: within half a point."
	case !isBase:
		what += fmt.Sprintf(" No difference to the baseline is shown: both need %d samples.", profiles.MinSamples)
	}
	depth := x.root.depth(x.root.value)
	f := &figure{
		title:   "Where the target's CPU went: " + short(c.Name, 60),
		caption: p.caption(what, c.meant(), c.repeats(), ""),
		height:  func(frame) float64 { return float64(depth) * flameRow },
		draw:    func(cv *canvas, fr frame, top float64) { drawFlame(cv, fr, top, x, base) },
	}
	b.WriteString(`<figure class="flame"><div class="scroll" tabindex="0">` + f.svg(frame{width: flameWidth}) + `</div>`)
	b.WriteString(`<details class="behind"><summary>the numbers</summary>` + x.table() + `</details></figure>`)
	var links []string
	for _, name := range x.files {
		if u, ok := fileURL(name); ok {
			links = append(links, `<a href="`+esc(u)+`" download="">`+esc(filepath.Base(filepath.Dir(filepath.Dir(name)))+"/"+filepath.Base(name))+`</a>`)
		}
	}
	b.WriteString(`<p class="aside">pprof files: ` + strings.Join(links, " ") + `</p>`)
	if b.Len() > room {
		return "", false
	}
	return b.String(), true
}

func (s *stack) depth(total int64) int {
	deepest := 0
	for _, c := range s.calls {
		if float64(c.value) >= flamePrune*float64(total) {
			deepest = max(deepest, c.depth(total))
		}
	}
	return deepest + 1
}

func drawFlame(c *canvas, f frame, top float64, x, base *cpuProfile) {
	left, width := 16.0, f.width-32
	total := x.root.value
	rects := map[string]*strings.Builder{}
	var order []string
	var words strings.Builder
	var walk func(s, b *stack, at float64, depth int)
	walk = func(s, b *stack, at float64, depth int) {
		share := float64(s.value) / float64(total)
		w := share * width
		y := top + float64(depth)*flameRow
		colour, hint := []string{"hot0", "hot1", "hot2"}[len(s.name)%3], fmt.Sprintf("%s %s%%", s.name, number(100*share))
		if base != nil {
			before := 0.0
			if b != nil {
				before = float64(b.value) / float64(base.root.value)
			}
			switch d := share - before; {
			case d > 0.005:
				colour = "hot1"
			case d < -0.005:
				colour = "cool"
			default:
				colour = "band"
			}
			hint += fmt.Sprintf(", baseline %s%%", number(100*before))
		}
		r := rects[colour]
		if r == nil {
			r = &strings.Builder{}
			rects[colour] = r
			order = append(order, colour)
		}
		fmt.Fprintf(r, `<rect x="%s" y="%s" width="%s" height="15"><title>%s</title></rect>`, num(at), num(y), num(max(w-0.5, 0.4)), esc(hint))
		if room := int((w - 6) / 5.6); room >= 4 {
			fmt.Fprintf(&words, `<text x="%s" y="%s">%s</text>`, num(at+3), num(y+11.5), esc(short(s.name, room)))
		}
		for _, next := range s.sorted() {
			v := float64(next.value) / float64(total)
			if v >= flamePrune {
				var nb *stack
				if b != nil {
					nb = b.calls[next.name]
				}
				walk(next, nb, at, depth+1)
			}
			at += v * width
		}
	}
	var b *stack
	if base != nil {
		b = base.root
	}
	walk(x.root, b, left, 0)
	for _, colour := range order {
		c.WriteString("<g" + fill(colour) + ">" + rects[colour].String() + "</g>")
	}
	c.WriteString(`<g font-size="10"` + fill("ink") + ` pointer-events="none">` + words.String() + "</g>")
}

// table lists the functions with the largest own share.
func (x *cpuProfile) table() string {
	self := map[string]int64{}
	var walk func(*stack)
	walk = func(s *stack) {
		own := s.value
		for _, c := range s.calls {
			own -= c.value
			walk(c)
		}
		self[s.name] += own
	}
	walk(x.root)
	var names []string
	for name := range self {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int {
		if self[a] != self[b] {
			return int(min(1, max(-1, self[b]-self[a])))
		}
		return strings.Compare(a, b)
	})
	t := newTable("function", "own share of CPU")
	for _, name := range names[:min(len(names), 15)] {
		t.row(esc(name), number(100*float64(self[name])/float64(x.root.value))+"%")
	}
	return t.html("")
}

// splitFigure shows where a CPU-second of the target goes.
func (p *page) splitFigure(c *cell, x *cpuProfile) *figure {
	t := newTable("part", "share of the target's CPU")
	for i, part := range parts {
		t.row(part.name, number(100*float64(x.parts[i])/float64(x.root.value))+"%")
	}
	return &figure{
		wide: 760, title: "Where a CPU-second of the target goes: " + short(c.Name, 50),
		caption: p.caption(fmt.Sprintf("Share of the target's CPU samples (%s), by the innermost known function of each stack; linear axis from 0 to 100%%.", grouped(float64(x.samples))),
			c.meant(), c.repeats(), ""),
		height: func(frame) float64 { return 22 * float64(len(parts)) },
		table:  t.html(""),
		draw: func(cv *canvas, f frame, top float64) {
			left, right := 80.0, f.width-70
			for i, part := range parts {
				y := top + 22*float64(i)
				share := float64(x.parts[i]) / float64(x.root.value)
				cv.text(left-8, y+13, 11.5, "end", "ink", part.name)
				cv.rect(left, y+2, right-left, 15, fill("band"))
				cv.rect(left, y+2, (right-left)*share, 15, fill("blue"))
				cv.text(right+6, y+13, 11, "start", "ink", number(100*share)+"%")
			}
		},
	}
}
