package loadgen

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/tidemark/tidemark/core/clock"
	"github.com/tidemark/tidemark/loadgen/result"
	"github.com/tidemark/tidemark/loadgen/workload"
)

func nanosNow() int64 { return clock.Nanos() }

// printResult writes the final lines: what was asked, the four ends, the clocks (ack, delivery and pacer each first in
// their rows), what the batches were, what an ack meant, and where the result is.
func printResult(to io.Writer, res *result.Result, out string) {
	w := &strings.Builder{}
	defer func() { _, _ = io.WriteString(to, visible(w.String())) }()
	s := &res.Asked
	_, _ = fmt.Fprintf(w, "%s\n%s\n", headline(res), endsLine(res))
	if len(res.Clocks) > 0 {
		printClocks(w, res)
	} else {
		_, _ = fmt.Fprintf(w, "rate          %s records/s   %s   %s   no latency: a closed loop measures its own window\n",
			thousands(int64(res.Produce.RecordsPerSec)), rate(res.Produce.BytesPerSec), generatorShare(res))
		if cpu := res.Generator.CPUNanos; cpu > 0 && res.Ends.Acked > 0 {
			_, _ = fmt.Fprintf(w, "cost          %s records for each CPU-second of the generator\n", thousands(int64(res.Produce.RecordsPerSec*res.Window.Seconds()*1e9/float64(cpu))))
		}
	}
	b := &res.Produce.Batches
	_, _ = fmt.Fprintf(w, "batches       %s, %s (median)   %s a request   %s requests/s\n", plural(int64(b.RecordsMedian), "record"), size(int64(b.BytesMedian)),
		plural(int64(b.PerRequestMedian), "batch"), thousands(int64(b.RequestsPerSec)))
	if res.Payload.MeasuredRatio > 0 && (s.Compression != "none" || s.Compressibility > 0) {
		_, _ = fmt.Fprintf(w, "payload       %s compresses it %.2f to 1\n", res.Payload.ReferenceCodec, res.Payload.MeasuredRatio)
	}
	for _, g := range res.Consume.Groups {
		name := g.Name
		if name == "" {
			name = "no group"
		}
		_, _ = fmt.Fprintf(w, "consumers     %s: %s   %s delivered   lag at most %s   %s   %s\n", name, plural(int64(g.Members), "member"), thousands(g.Delivered),
			thousands(g.LagMax), plural(int64(g.Rebalances), "rebalance"), plural(g.Commits, "commit"))
	}
	_, _ = fmt.Fprintf(w, "an ack meant: %s\n", res.AckMeant.Sentence)
	for _, e := range res.Errors {
		_, _ = fmt.Fprintf(w, "error         %s: %s (%s)\n", e.Kind, plural(e.Records, "record"), withoutKind(e.First, e.Kind))
	}
	for _, f := range res.Verification.Findings {
		_, _ = fmt.Fprintf(w, "found         %s: topic %s partition %d offset %d, producer %d record %d: %s\n", f.Kind, f.Topic, f.Partition, f.Offset, f.Producer, f.Sequence, f.Text)
	}
	for _, v := range res.Verdicts {
		_, _ = fmt.Fprintf(w, "%s: %s\n", v.Kind, v.Reason)
	}
	if cost := costLine(res); cost != "" {
		_, _ = fmt.Fprintf(w, "broker cost   %s\n", cost)
	}
	for _, c := range res.Conditions {
		text := c.Outcome
		if c.Measured != "" {
			text += ": it was " + c.Measured
		}
		if c.Reason != "" {
			text += ": " + c.Reason
		}
		_, _ = fmt.Fprintf(w, "fail-if       %s   %s\n", c.Condition, text)
	}
	if p := res.Profiles; p != nil {
		for _, n := range p.Notes {
			_, _ = fmt.Fprintf(w, "profiles      %s\n", n)
		}
		if p.Pushed > 0 {
			_, _ = fmt.Fprintf(w, "profiles      %s pushed\n", plural(int64(p.Pushed), "profile"))
		}
	}
	if out != "" {
		names := make([]string, 0, len(res.Files)+1)
		names = append(names, result.FileName)
		for _, f := range res.Files {
			names = append(names, f.Name)
		}
		_, _ = fmt.Fprintf(w, "results in %s/ (%s)\n", strings.TrimSuffix(out, "/"), strings.Join(names, ", "))
	}
}

func headline(res *result.Result) string {
	s := &res.Asked
	parts := []string{"acks=" + s.Acks, s.RecordSize.String(), plural(int64(s.Partitions*s.Topics), "partition")}
	if k := s.Keys.String(); k != "none" {
		parts = append(parts, k)
	}
	if s.Linger > 0 {
		parts = append(parts, "linger="+s.Linger.String())
	}
	if s.Compression != "none" {
		parts = append(parts, s.Compression)
	}
	if s.Idempotence {
		parts = append(parts, "idempotent")
	}
	parts = append(parts, s.Driver+" driver")
	asked := "as fast as it goes, " + strconv.Itoa(s.InFlight) + " in flight"
	if s.Question == workload.Latency {
		asked = thousands(int64(s.Rate)) + "/s"
	}
	to := strings.Join(res.Run.Bootstrap, ",")
	if to == "" {
		to = "nowhere"
	}
	return fmt.Sprintf("%s  %s for %s   -> %s", strings.Join(parts, "  "), asked, time.Duration(res.Window.EndNanos-res.Window.StartNanos).Round(10*time.Millisecond), to)
}

func endsLine(res *result.Result) string {
	e, v := &res.Ends, &res.Verification
	acked, word := e.Acked, "acked"
	if res.Asked.Acks == workload.AcksNone {
		acked, word = e.HandedToSocket, "handed to the socket"
	}
	line := fmt.Sprintf("intended %s = %s %s + failed %s + unanswered %s + unsent %s", thousands(e.Intended), word, thousands(acked), thousands(e.Failed),
		thousands(e.Unanswered), thousands(e.Unsent))
	if !v.On {
		return line + "      not verified (--verify=off)"
	}
	line += fmt.Sprintf("      lost %s   duplicated %s   out of order %s", thousands(v.Lost), thousands(v.Duplicated), thousands(v.OutOfOrder))
	if v.Corrupt > 0 {
		line += "   corrupt " + thousands(v.Corrupt)
	}
	if !v.Complete {
		line += "   (not all was read back: " + v.Reason + ")"
	}
	return line
}

// printClocks prints the table of clocks. A saturated run's percentiles are shown, and said to be the run's length, not
// the target's latency.
func printClocks(w io.Writer, res *result.Result) {
	rows := [][]string{{"", "p50", "p90", "p99", "p99.9", "max", "ms"}}
	for _, name := range [...]string{result.Ack, result.Delivery, result.Pacer} {
		l, ok := res.Clocks[name]
		if !ok {
			continue
		}
		row := []string{name}
		for _, p := range [...]float64{50, 90, 99, 99.9} {
			row = append(row, shown(l, p))
		}
		if reached(l) {
			row = append(row, milliseconds(l.MaxNanos))
		} else {
			row = append(row, "-")
		}
		switch name {
		case result.Ack:
			row = append(row, "from the intended time")
			if res.Has(result.Saturated) {
				row[len(row)-1] = "from the intended time; saturated: grows with the run"
			}
		case result.Pacer:
			row = append(row, "generator "+generatorShare(res))
		default:
			row = append(row, "")
		}
		rows = append(rows, row)
	}
	widths := make([]int, 6)
	for _, row := range rows {
		for i := range widths {
			widths[i] = max(widths[i], len(row[i]))
		}
	}
	for _, row := range rows {
		line := fmt.Sprintf("%-*s", max(widths[0], 10), row[0])
		for i := 1; i < 6; i++ {
			line += fmt.Sprintf("  %*s", widths[i], row[i])
		}
		_, _ = fmt.Fprintln(w, strings.TrimRight(line+"   "+row[6], " "))
	}
}

// reached reports whether any record reached the clock's end: a clock of none has no percentile, not one of 0.
func reached(l result.Latency) bool { return l.Count+l.Overflow+l.Negative > 0 }

// shown is one percentile: not at all where fewer than ten records lie above it, and with its stalls where it is a tail.
func shown(l result.Latency, p float64) string {
	q, ok := l.At(p)
	switch {
	case !ok:
		return "-"
	case !reached(l):
		return "censored"
	}
	text := milliseconds(q.Nanos)
	if q.Censored {
		return "> " + text + " (censored)"
	}
	if q.Above < 10 && p > 90 {
		return "-"
	}
	if p >= 99.9 {
		text += " in " + plural(q.Excursions, "stall")
	}
	return text
}

// withoutKind takes the error's kind from the beginning of its text, which both the client and the target may have put there.
func withoutKind(text, kind string) string {
	for {
		rest, found := strings.CutPrefix(text, kind+": ")
		if !found {
			return text
		}
		text = rest
	}
}

func generatorShare(res *result.Result) string {
	if res.Window.Seconds() <= 0 {
		return "-"
	}
	text := fmt.Sprintf("%.0f%% of one core", 100*res.Generator.CPUShare())
	if res.Has(result.GeneratorLimited) {
		return text + ": the limit"
	}
	return text + ": not the limit"
}

func milliseconds(nanos int64) string {
	ms := float64(nanos) / 1e6
	if ms >= 100 {
		return strconv.FormatFloat(ms, 'f', 0, 64)
	}
	return strconv.FormatFloat(ms, 'f', 2, 64)
}

// thousands writes 1234567 as 1,234,567.
func thousands(n int64) string {
	s := strconv.FormatInt(n, 10)
	sign := ""
	if n < 0 {
		sign, s = "-", s[1:]
	}
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return sign + s
}

func plural(n int64, word string) string {
	switch {
	case n == 1:
	case strings.HasSuffix(word, "ch"):
		word += "es"
	default:
		word += "s"
	}
	return thousands(n) + " " + word
}

// size writes bytes in powers of two, one digit at most behind the point.
func size(n int64) string {
	switch {
	case n >= 1<<20:
		return strconv.FormatFloat(float64(n)/(1<<20), 'f', 1, 64) + " MiB"
	case n >= 10<<10:
		return strconv.FormatInt((n+512)>>10, 10) + " KiB"
	case n >= 1<<10:
		return strconv.FormatFloat(float64(n)/(1<<10), 'f', 1, 64) + " KiB"
	}
	return strconv.FormatInt(n, 10) + " B"
}

func rate(bytesPerSec float64) string {
	return strconv.FormatFloat(bytesPerSec/1e6, 'f', 1, 64) + " MB/s"
}
