package config

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf16"
)

// property is one name and value of a properties file, with the line on which it begins.
type property struct {
	name, value string
	line        int
}

// parseProperties reads Java's properties syntax (java.util.Properties.load): # and ! begin a comment line, a backslash
// at the end of a line continues it, =, : or white space ends the name, and \t \n \r \f \uXXXX and \x stand for
// themselves. Text is UTF-8; a repeated name is returned twice.
func parseProperties(file []byte) ([]property, error) {
	var out []property
	lines := strings.Split(strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(string(file)), "\n")
	for i := 0; i < len(lines); i++ {
		first := i + 1
		text := strings.TrimLeft(lines[i], " \t\f")
		if text == "" || text[0] == '#' || text[0] == '!' {
			continue
		}
		for continues(text) {
			text = text[:len(text)-1]
			i++
			if i == len(lines) {
				break
			}
			text += strings.TrimLeft(lines[i], " \t\f")
		}
		name, value := splitProperty(text)
		p := property{line: first}
		var err error
		if p.name, err = unescape(name); err != nil {
			return nil, fmt.Errorf("%d: %w", first, err)
		}
		if p.value, err = unescape(value); err != nil {
			return nil, fmt.Errorf("%d: %w", first, err)
		}
		out = append(out, p)
	}
	return out, nil
}

// continues reports whether a line ends in an odd number of backslashes.
func continues(line string) bool {
	n := len(line) - len(strings.TrimRight(line, `\`))
	return n%2 == 1
}

// splitProperty cuts a logical line at its first unescaped separator.
func splitProperty(line string) (name, value string) {
	end := 0
	for end < len(line) && !strings.ContainsRune("=: \t\f", rune(line[end])) {
		if line[end] == '\\' {
			end++
		}
		end++
	}
	end = min(end, len(line))
	rest := strings.TrimLeft(line[end:], " \t\f")
	if rest != "" && (rest[0] == '=' || rest[0] == ':') {
		rest = strings.TrimLeft(rest[1:], " \t\f")
	}
	return line[:end], rest
}

func unescape(s string) (string, error) {
	if !strings.Contains(s, `\`) {
		return s, nil
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) {
			b.WriteByte(s[i])
			continue
		}
		i++
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
			r, err := hexRune(s[i+1:])
			if err != nil {
				return "", err
			}
			i += 4
			if utf16.IsSurrogate(r) && strings.HasPrefix(s[i+1:], `\u`) {
				if low, err := hexRune(s[i+3:]); err == nil {
					r = utf16.DecodeRune(r, low)
					i += 6
				}
			}
			b.WriteRune(r)
		default:
			b.WriteByte(s[i])
		}
	}
	return b.String(), nil
}

func hexRune(s string) (rune, error) {
	if len(s) < 4 {
		return 0, fmt.Errorf(`\u%s: want four hexadecimal digits after \u`, s)
	}
	v, err := strconv.ParseUint(s[:4], 16, 16)
	if err != nil {
		return 0, fmt.Errorf(`\u%s: want four hexadecimal digits after \u`, s[:4])
	}
	return rune(v), nil
}
