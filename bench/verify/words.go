package verify

import (
	"fmt"
	"math"
	"strings"
)

// The words for figures, by the rules of the report: three digits that matter, thousands apart.

// three prints v with three digits that matter.
func three(v float64) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return "–"
	}
	a := math.Abs(v)
	for _, rule := range []struct {
		under  float64
		format string
	}{{0.00995, "%.2g"}, {0.0995, "%.3f"}, {9.995, "%.2f"}, {99.95, "%.1f"}, {1000, "%.0f"}} {
		if a < rule.under && (v != 0 || rule.under > 1) {
			return fmt.Sprintf(rule.format, v)
		}
	}
	step := math.Pow(10, math.Floor(math.Log10(a))-2)
	return apart(math.Round(v/step) * step)
}

// apart prints a whole number with its thousands apart.
func apart(v float64) string {
	digits := fmt.Sprintf("%.0f", math.Round(math.Abs(v)))
	var b strings.Builder
	if v < 0 {
		b.WriteByte('-')
	}
	for i, d := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(d)
	}
	return b.String()
}

// brackets prints an interval, "" where it is not known.
func brackets(low, high float64) string {
	if math.IsNaN(low) || math.IsNaN(high) {
		return ""
	}
	return "[" + three(low) + " " + three(high) + "]"
}

// times prints a ratio.
func (c *comparison) times() string {
	if math.IsNaN(c.ratio) {
		return "–"
	}
	return strings.TrimSpace("×" + three(c.ratio) + " " + brackets(c.low, c.high))
}

// many prints "1 run", "2 runs".
func many(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return apart(float64(n)) + " " + what + "s"
}

func ms(nanos int64) string { return three(float64(nanos) / 1e6) }

// String prints a percentile with its support.
func (p percentile) String() string {
	if p.Censored {
		return fmt.Sprintf("> %s ms (censored, %d above)", ms(p.Nanos), p.Above)
	}
	return fmt.Sprintf("%s ms (%d above)", ms(p.Nanos), p.Above)
}

// cut shortens as the report does: blanks made one, n letters, the last an ellipsis.
func cut(s string, n int) string {
	s = strings.Join(strings.Fields(tame(s)), " ")
	if r := []rune(s); len(r) > n {
		return strings.TrimRight(string(r[:n-1]), " ,;:") + "…"
	}
	return s
}

// tame replaces control and direction characters as every page does.
func tame(s string) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	return strings.Map(func(r rune) rune {
		control := r < 0x20 && r != '\n' && r != '\t' || r >= 0x7f && r < 0xa0 || r == 0xfffe || r == 0xffff
		turns := r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069
		if control || turns {
			return '\uFFFD'
		}
		return r
	}, s)
}
