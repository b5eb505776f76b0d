package report

import (
	"html"
	"net/url"
	"path/filepath"
	"strings"
	"unicode/utf8"
)

// clean replaces what may stand in no XML document, and the characters that turn the direction of text around: a topic's
// name must not be able to dress up as another figure.
func clean(s string) string {
	if !utf8.ValidString(s) {
		s = strings.ToValidUTF8(s, "\uFFFD")
	}
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return r
		case r < 0x20 || r >= 0x7f && r < 0xa0 || r == 0xfffe || r == 0xffff:
			return '\uFFFD'
		case r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069:
			return '\uFFFD'
		}
		return r
	}, s)
}

// esc makes s safe in element content and in quoted attributes, of HTML and of SVG.
func esc(s string) string { return html.EscapeString(clean(s)) }

// short cuts s to n runes, the last an ellipsis.
func short(s string, n int) string {
	s = strings.Join(strings.Fields(clean(s)), " ")
	if r := []rune(s); len(r) > n {
		return strings.TrimRight(string(r[:n-1]), " ,;:") + "…"
	}
	return s
}

// fileURL is a path relative to the report as an address. What lies outside the folder has none.
func fileURL(path string) (string, bool) {
	if !filepath.IsLocal(path) {
		return "", false
	}
	parts := strings.Split(filepath.ToSlash(path), "/")
	for i, p := range parts {
		parts[i] = url.PathEscape(p)
	}
	return "./" + strings.Join(parts, "/"), true
}

// shellLine is an argument list as a shell takes it.
func shellLine(args []string) string {
	out := make([]string, len(args))
	for i, a := range args {
		if a != "" && strings.IndexFunc(a, func(r rune) bool {
			return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("_-./:=,@%+", r))
		}) < 0 {
			out[i] = a
			continue
		}
		out[i] = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
	}
	return strings.Join(out, " ")
}
