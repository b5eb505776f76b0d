package report

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// paint is a colour of the page: an attribute for readers without style sheets, and a class by which the style sheet
// gives it its dark twin. The set is told apart by colour-blind eyes in both; shape or word says the same again.
type paint struct{ class, light, dark string }

var (
	paints = map[string]paint{
		"frame":  {"p-frame", "#ffffff", "#161b21"},
		"edge":   {"p-edge", "#d5dbe1", "#323b45"},
		"grid":   {"p-grid", "#e9edf1", "#262e37"},
		"axis":   {"p-axis", "#8b97a3", "#66727e"},
		"muted":  {"p-muted", "#5a6672", "#9eabb7"},
		"ink":    {"p-ink", "#17202a", "#e6ebf0"},
		"band":   {"p-band", "#e8edf2", "#232c36"},
		"shade":  {"p-shade", "#fbe9d3", "#3a2c19"},
		"blue":   {"p-blue", "#0a69ad", "#5fb4f2"},
		"orange": {"p-orange", "#c44a08", "#ff9a5c"},
		"green":  {"p-green", "#00795a", "#3fcaa0"},
		"purple": {"p-purple", "#95437c", "#e394c8"},
		"gold":   {"p-gold", "#8a6a00", "#e9bd45"},
		"sky":    {"p-sky", "#2f8fcc", "#8fcdf5"},
		"h1":     {"p-h1", "#c9def1", "#17324c"},
		"h2":     {"p-h2", "#9dc5e6", "#1d4a73"},
		"h3":     {"p-h3", "#67a5d6", "#27689f"},
		"h4":     {"p-h4", "#3784c0", "#4390cb"},
		"h5":     {"p-h5", "#185f9e", "#7dbbea"},
		"h6":     {"p-h6", "#083a6b", "#d3eafc"},
		"hot0":   {"p-hot0", "#f4d9bd", "#5c3a1c"},
		"hot1":   {"p-hot1", "#efcba6", "#6b431f"},
		"hot2":   {"p-hot2", "#f0d6a8", "#64481a"},
		"cool":   {"p-cool", "#b7d7ef", "#1f4c70"},
	}
	// series are the colours and shapes of curves, in order.
	series = []string{"ink", "blue", "orange", "green", "purple", "gold", "sky"}
)

// frame is the size of a picture: the same picture is drawn twice, for a desk and for a phone, and the second is
// hidden unless the style sheet finds a narrow screen.
type frame struct {
	width  float64
	narrow bool
}

// canvas writes one SVG. Every mark has presentation attributes, so that it shows with style sheets off.
type canvas struct {
	strings.Builder
	width, height float64
}

func num(v float64) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return "0"
	}
	s := strconv.FormatFloat(v, 'f', 1, 64)
	return strings.TrimSuffix(s, ".0")
}

func fill(name string) string {
	p := paints[name]
	return ` class="` + p.class + `" fill="` + p.light + `"`
}

// stroke is a class of its own, "s-NAME": a class can not be both.
func stroke(name string, width float64) string {
	p := paints[name]
	return ` class="s` + p.class[1:] + `" fill="none" stroke="` + p.light + `" stroke-width="` + num(width) + `"`
}

func (c *canvas) rect(x, y, w, h float64, attributes string) {
	fmt.Fprintf(c, `<rect x="%s" y="%s" width="%s" height="%s"%s/>`, num(x), num(y), num(max(w, 0)), num(max(h, 0)), attributes)
}

func (c *canvas) line(x1, y1, x2, y2 float64, attributes string) {
	fmt.Fprintf(c, `<path d="M%s %sL%s %s"%s/>`, num(x1), num(y1), num(x2), num(y2), attributes)
}

func (c *canvas) path(d, attributes string) { fmt.Fprintf(c, `<path d="%s"%s/>`, d, attributes) }

// text writes s at a baseline; anchor is start, middle or end.
func (c *canvas) text(x, y, size float64, anchor, colour, s string) {
	c.styled(x, y, size, anchor, colour, "", s)
}

func (c *canvas) styled(x, y, size float64, anchor, colour, attributes, s string) {
	at := ""
	if anchor != "start" {
		at = ` text-anchor="` + anchor + `"`
	}
	fmt.Fprintf(c, `<text x="%s" y="%s" font-size="%s"%s%s%s>%s</text>`, num(x), num(y), num(size), at, fill(colour), attributes, esc(s))
}

const bold = ` font-weight="600"`

// mark draws a point: its shape says the series as well as its colour does. hint is what a pointer over it reads.
func (c *canvas) mark(shape int, x, y, r float64, colour string, hollow bool, hint string) {
	paint := fill(colour)
	if hollow {
		paint = stroke(colour, 1.3)
	}
	d := ""
	switch shape % 4 {
	case 0:
		d = fmt.Sprintf("M%s %sa%s %s 0 1 0 %s 0a%s %s 0 1 0 %s 0z", num(x-r), num(y), num(r), num(r), num(2*r), num(r), num(r), num(-2*r))
	case 1:
		q := r * 0.88
		d = fmt.Sprintf("M%s %sh%sv%sh%sz", num(x-q), num(y-q), num(2*q), num(2*q), num(-2*q))
	case 2:
		d = fmt.Sprintf("M%s %sl%s %sh%sz", num(x), num(y-r*1.15), num(r*1.15), num(r*2), num(-r*2.3))
	case 3:
		d = fmt.Sprintf("M%s %sl%s %sl%s %sl%s %sz", num(x), num(y-r*1.25), num(r*1.25), num(r*1.25), num(-r*1.25), num(r*1.25), num(-r*1.25), num(-r*1.25))
	}
	if hint == "" {
		fmt.Fprintf(c, `<path d="%s"%s/>`, d, paint)
		return
	}
	fmt.Fprintf(c, `<path d="%s"%s><title>%s</title></path>`, d, paint, esc(hint))
}

// textWidth estimates how wide s is at a size: there is no font to ask, so it is the widest of the usual ones.
func textWidth(s string, size float64) float64 {
	w := 0.0
	for _, r := range s {
		switch {
		case strings.ContainsRune("iljtfI.,:;'|![]() ", r):
			w += 0.37
		case strings.ContainsRune("mwMW@%—", r):
			w += 0.95
		case r >= 'A' && r <= 'Z':
			w += 0.7
		case r > 0x2e80:
			w += 1
		default:
			w += 0.62
		}
	}
	return w * size
}

// fit cuts s to a width.
func fit(s string, size, width float64) string {
	s = short(s, 400)
	for n := len([]rune(s)); textWidth(s, size) > width && n > 2; n-- {
		s = short(s, n-1)
	}
	return s
}

// wrap breaks s into lines of at most width; a word that is longer than a line is cut.
func wrap(s string, size, width float64) []string {
	var lines []string
	line := ""
	for _, word := range strings.Fields(clean(s)) {
		for textWidth(word, size) > width && len([]rune(word)) > 8 {
			word = short(word, len([]rune(word))*3/4)
		}
		if line != "" && textWidth(line+" "+word, size) > width {
			lines = append(lines, line)
			line = ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	if line != "" {
		lines = append(lines, line)
	}
	return lines
}

// figure is one picture: a title that says what it shows, its drawing and the caption that travels inside its frame.
type figure struct {
	title   string
	caption []string // one paragraph each, wrapped
	height  func(f frame) float64
	draw    func(c *canvas, f frame, top float64) // from y=top down to top+height
	table   string                                // HTML of the table behind it
	id      string
	wide    float64 // width at a desk; 0 is 580, half of the page
}

// render returns the HTML of the figure: both pictures and its table.
func (g *figure) render() string {
	var b strings.Builder
	b.WriteString("<figure")
	if g.id != "" {
		b.WriteString(` id="` + esc(g.id) + `"`)
	}
	b.WriteString(">")
	desk := frame{width: 580}
	if g.wide > 0 {
		desk.width = g.wide
	}
	// The attribute hides the phone's copy where there is no style sheet; it means nothing on an svg, so a div has it.
	b.WriteString(`<div class="wide">` + g.svg(desk) + `</div><div class="narrow" hidden="hidden">` + g.svg(frame{width: 360, narrow: true}) + `</div>`)
	if g.table != "" {
		b.WriteString(`<details class="behind"><summary>the numbers</summary><div class="scroll" tabindex="0">` + g.table + `</div></details>`)
	}
	b.WriteString("</figure>\n")
	return b.String()
}

func (g *figure) svg(f frame) string {
	size, small := 15.0, 10.5
	pad := 16.0
	if f.narrow {
		size, small, pad = 14, 10, 10
	}
	title := wrap(g.title, size*1.08, f.width-2*pad) // bold is wider
	var caption []string
	for _, p := range g.caption {
		caption = append(caption, wrap(p, small, f.width-2*pad)...)
	}
	top := pad + float64(len(title))*(size+4) + 6
	body := g.height(f)
	lineHeight := small + 3.5
	height := top + body + 12 + float64(len(caption))*lineHeight + pad - 4
	c := &canvas{width: f.width, height: height}
	fmt.Fprintf(c, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %s %s" width="%s" height="%s" role="img" aria-label="%s" font-family="system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', sans-serif">`,
		num(f.width), num(height), num(f.width), num(height), esc(g.title))
	c.rect(0.5, 0.5, f.width-1, height-1, ` rx="6" class="p-frame s-edge" fill="#ffffff" stroke="#d5dbe1"`)
	for i, t := range title {
		c.styled(pad, pad+size*0.85+float64(i)*(size+4), size, "start", "ink", bold, t)
	}
	g.draw(c, f, top)
	for i, t := range caption {
		c.text(pad, top+body+12+small+float64(i)*lineHeight, small, "start", "muted", t)
	}
	c.WriteString("</svg>")
	return c.String()
}
