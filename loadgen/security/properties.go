package security

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/tidemark/tidemark/loadgen/workload"
)

// Property is one line of a properties file.
type Property struct {
	Name, Value string
	Line        int // where it begins
}

// ParseProperties reads text as java.util.Properties does: # and ! begin comments, the name ends at =, : or blank, a
// backslash at the line's end joins the next line to it, \t \n \r \f \uXXXX stand for characters and any other escaped
// character for itself. The first line has the number first. An error tells the place and no value.
func ParseProperties(name string, first int, text []byte) ([]Property, error) {
	var out []Property
	if !utf8.Valid(text) {
		return nil, &workload.Problem{File: name, Text: "the file is no UTF-8 text (a key store? name it in ssl.keystore.location)"}
	}
	lines := strings.Split(strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(string(text)), "\n")
	for i := 0; i < len(lines); i++ {
		at := first + i
		line := strings.TrimLeft(lines[i], " \t\f")
		if line == "" || line[0] == '#' || line[0] == '!' {
			continue
		}
		for endsInEscape(line) && i+1 < len(lines) {
			i++
			line = line[:len(line)-1] + strings.TrimLeft(lines[i], " \t\f")
		}
		key, value := splitProperty(line)
		fail := func(text string) error {
			return &workload.Problem{File: name, Place: workload.Place{Line: at, Column: 1}, Text: text}
		}
		p := Property{Line: at}
		var ok bool
		if p.Name, ok = unescape(key); !ok || p.Name == "" {
			return nil, fail("this line has no name=value")
		}
		if p.Value, ok = unescape(value); !ok {
			return nil, fail("a \\u without four hexadecimal digits")
		}
		p.Value = strings.TrimRight(p.Value, " \t")
		for _, r := range p.Name {
			if r < ' ' || r == 0x7f || r == utf8.RuneError {
				return nil, fail("the name holds control characters")
			}
		}
		out = append(out, p)
	}
	return out, nil
}

// endsInEscape reports whether the line ends in a backslash that is not escaped itself.
func endsInEscape(line string) bool {
	n := 0
	for n < len(line) && line[len(line)-1-n] == '\\' {
		n++
	}
	return n%2 == 1
}

// splitProperty cuts at the first =, : or blank that is not escaped.
func splitProperty(line string) (key, value string) {
	for i := 0; i < len(line); i++ {
		switch line[i] {
		case '\\':
			i++
		case '=', ':':
			return line[:i], strings.TrimLeft(line[i+1:], " \t\f")
		case ' ', '\t', '\f':
			rest := strings.TrimLeft(line[i:], " \t\f")
			if rest != "" && (rest[0] == '=' || rest[0] == ':') {
				rest = strings.TrimLeft(rest[1:], " \t\f")
			}
			return line[:i], rest
		}
	}
	return line, ""
}

// unescape resolves the backslashes.
func unescape(s string) (string, bool) {
	if !strings.Contains(s, `\`) {
		return s, true
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' {
			b.WriteByte(s[i])
			continue
		}
		if i++; i == len(s) {
			break
		}
		switch s[i] {
		case 't':
			b.WriteByte('\t')
		case 'n':
			b.WriteByte('\n')
		case 'r':
			b.WriteByte('\r')
		case 'f':
			b.WriteByte('\f')
		case 'u':
			if i+5 > len(s) {
				return "", false
			}
			n, err := strconv.ParseUint(s[i+1:i+5], 16, 16)
			if err != nil {
				return "", false
			}
			b.WriteRune(rune(n))
			i += 4
		default:
			b.WriteByte(s[i])
		}
	}
	return b.String(), true
}
