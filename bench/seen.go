package bench

import (
	"io"
	"strings"
	"unicode/utf8"
)

// seen makes a writer on which names from outside (suites, cells, notes, errors, functions of a profile) cannot move a
// terminal's cursor, colour it or turn its text around: such characters become replacement characters.
func seen(to io.Writer) io.Writer {
	if w, ok := to.(*seenWriter); ok {
		return w
	}
	return &seenWriter{to}
}

type seenWriter struct{ to io.Writer }

// Write passes on whole texts: every line here is printed by one call.
func (w *seenWriter) Write(p []byte) (int, error) {
	if _, err := io.WriteString(w.to, seenText(string(p))); err != nil {
		return 0, err
	}
	return len(p), nil
}

// seenText replaces control and direction characters, line ends and tabs aside.
func seenText(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return r
		case r < ' ', r >= 0x7f && r < 0xa0, r == '\u2028', r == '\u2029', r >= '\u202a' && r <= '\u202e', r >= '\u2066' && r <= '\u2069':
			return utf8.RuneError
		}
		return r
	}, text)
}
