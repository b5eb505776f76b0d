package report

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/tidemark/tidemark/bench/store"
	"github.com/tidemark/tidemark/loadgen/result"
)

// TestAFreezeLeavesItsSecondsEmpty: a log has no line for a second in which nothing ended, and what comes behind one stays
// where it was.
func TestAFreezeLeavesItsSecondsEmpty(t *testing.T) {
	line := func(at float64, records int) string {
		h := hdrhistogram.New(1, 3_600_000_000_000, 3)
		for range records {
			if err := h.RecordValue(5_000_000); err != nil {
				t.Fatal(err)
			}
		}
		b, err := h.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf("%.3f,1.0,5.0,%s\n", 1_764_454_500+at, b)
	}
	const header = "#[StartTime: 1764454500.000 (seconds since epoch), 2025-11-29T22:15:00Z]\n#[BaseTime: 0.0 (seconds since epoch)]\n"
	for _, c := range []struct {
		name, log string
		want      []int64 // records by column
	}{
		{"a freeze in the middle", header + line(0, 1) + line(1.002, 2) + line(4.004, 5) + line(5.003, 6), []int64{1, 2, 0, 0, 5, 6}},
		{"a freeze at once", header + line(1.999, 3) + line(3.001, 4), []int64{0, 0, 3, 4, 0, 0}},
		{"what the drain brought", header + line(0, 1) + line(5.1, 6) + line(6.1, 7) + line(9, 1), []int64{1, 0, 0, 0, 0, 14}},
		{"a log that has no start", line(0, 1) + line(2, 3), []int64{1, 0, 3, 0, 0, 0}},
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "ack.hlog"), []byte(c.log), 0o644); err != nil {
			t.Fatal(err)
		}
		r := &store.Run{Dir: dir, Result: &result.Result{}}
		for i := range c.want {
			r.Result.Intervals = append(r.Result.Intervals, result.Interval{StartNanos: int64(i) * 1e9, LengthNanos: 1e9})
		}
		p := &page{logs: map[*store.Run]*interval{}}
		h := p.heatOf(&cell{Cell: &store.Cell{Kind: store.Latency}, runs: []*store.Run{r}})
		var got []int64
		for _, s := range h.columns {
			got = append(got, s.records)
		}
		if !slices.Equal(got, c.want) || h.missing != "" {
			t.Errorf("%s: %v by second, want %v (%s)", c.name, got, c.want, h.missing)
		}
	}
}

// TestTheSlowestRecordIsPlacedWhereItEnded: the seconds of a run are those in which its histograms were taken.
func TestTheSlowestRecordIsPlacedWhereItEnded(t *testing.T) {
	for acks, want := range map[string]string{"all": "(ack, 900 ms) was acked in second 3 of repeat 2", "0": "(delivery, 900 ms) was delivered in second 3 of repeat 2"} {
		c := &store.Cell{Kind: store.Latency}
		c.Asked.Acks = acks
		r := &store.Run{Repeat: 2, Result: &result.Result{Intervals: []result.Interval{{StartNanos: 3e9, LengthNanos: 1e9,
			Clocks: map[string]result.IntervalLatency{clock(c): {Count: 10, P99: 8e8, Max: 9e8}}}}}}
		h := &heat{c: &cell{Cell: c, runs: []*store.Run{r}}}
		if got := h.slowest(); !strings.Contains(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
