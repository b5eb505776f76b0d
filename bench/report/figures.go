package report

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/tidemark/tidemark/bench/stats"
)

// Words for numbers. Three digits that matter, units once, nothing that the reader must compute.

// number prints v with three digits that matter, thousands grouped.
func number(v float64) string {
	a := math.Abs(v)
	switch {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return "–"
	case a >= 1000:
		unit := math.Pow(10, math.Floor(math.Log10(a))-2)
		return grouped(math.Round(v/unit) * unit)
	case a >= 99.95:
		return fmt.Sprintf("%.0f", v)
	case a >= 9.995:
		return fmt.Sprintf("%.1f", v)
	case a >= 0.0995 || v == 0:
		return fmt.Sprintf("%.2f", v)
	case a >= 0.00995:
		return fmt.Sprintf("%.3f", v)
	}
	return fmt.Sprintf("%.2g", v)
}

// grouped prints a whole number with its thousands apart.
func grouped(v float64) string {
	s := strconv.FormatFloat(math.Round(math.Abs(v)), 'f', 0, 64)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	if v < 0 {
		return "-" + s
	}
	return s
}

// tick prints a number beside an axis.
func tick(v float64) string {
	a := math.Abs(v)
	switch {
	case a >= 1e6:
		return strconv.FormatFloat(v/1e6, 'g', 4, 64) + "M"
	case a >= 1e4:
		return strconv.FormatFloat(v/1e3, 'g', 4, 64) + "k"
	case a >= 1000:
		return grouped(v)
	}
	return strconv.FormatFloat(v, 'g', 4, 64)
}

// between prints an interval, "[0.84 0.98]", or nothing where it is not known.
func between(i stats.Interval) string {
	if math.IsNaN(i.Low) || math.IsNaN(i.High) {
		return ""
	}
	return "[" + number(i.Low) + " " + number(i.High) + "]"
}

// estimate prints a value with its interval.
func estimate(e stats.Estimate, unit string) string {
	if math.IsNaN(e.Value) {
		return "–"
	}
	s := number(e.Value)
	if unit != "" {
		s += " " + unit
	}
	if i := between(e.Interval); i != "" {
		return s + " " + i
	}
	return s + " (no interval: nothing ran twice)"
}

// ratio prints "×0.97 [0.82 1.14]".
func ratio(r stats.Ratio) string {
	if math.IsNaN(r.Value) {
		return "–"
	}
	if i := between(r.Interval); i != "" {
		return "×" + number(r.Value) + " " + i
	}
	return "×" + number(r.Value)
}

// whole prints a number without needless zeros: 3, 1.5.
func whole(v float64) string {
	if v == math.Trunc(v) && math.Abs(v) < 1000 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return number(v)
}

// percent prints a share as people say it: 5, 2.5.
func percent(share float64) string { return fmt.Sprintf("%.3g", 100*share) }

// bytesOf prints a size in binary units.
func bytesOf(n int64) string {
	switch v := float64(n); {
	case n >= 1<<30:
		return number(v/(1<<30)) + " GiB"
	case n >= 1<<20:
		return number(v/(1<<20)) + " MiB"
	case n >= 1<<10:
		return number(v/(1<<10)) + " KiB"
	}
	return fmt.Sprintf("%d B", n)
}

// milliseconds prints nanoseconds as milliseconds, without the unit.
func milliseconds(nanos int64) string { return number(float64(nanos) / 1e6) }

// count prints "1 run", "2 runs".
func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return grouped(float64(n)) + " " + what + "s"
}

// listed joins words as a sentence does.
func listed(words []string) string {
	switch len(words) {
	case 0:
		return ""
	case 1:
		return words[0]
	}
	return strings.Join(words[:len(words)-1], ", ") + " and " + words[len(words)-1]
}

// duration prints a length of time for a person.
func duration(d time.Duration) string {
	if d >= 10*time.Second {
		return d.Round(time.Second).String()
	}
	return d.Round(10 * time.Millisecond).String()
}
