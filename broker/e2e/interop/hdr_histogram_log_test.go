package interop

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/tidemark/tidemark/broker/proc"
)

// TestHdrHistogramsOwnProcessorReadsOurLogs: what Java's HistogramLogProcessor makes of ack.hlog and delivery.hlog is the
// count, the maximum's bucket and the percentiles of the result.
func TestHdrHistogramsOwnProcessorReadsOurLogs(t *testing.T) {
	dir := os.Getenv("TIDEMARK_INTEROP")
	if dir == "" {
		t.Skip("make interop installs what it needs")
	}
	classpath, err := os.ReadFile(filepath.Join(dir, "classpath"))
	if err != nil {
		t.Fatal(err)
	}
	tg := startTarget(t)
	out := filepath.Join(t.TempDir(), "run")
	load := exec.Command(proc.Binary(t), "load", "--bootstrap", tg.addr, "--rate", "2000", "--warm-up", "200ms", "--window", "2500ms", "--groups", "1", "--out", out, "--no-progress")
	if said, err := load.CombinedOutput(); err != nil && load.ProcessState.ExitCode() != 4 { // a busy host limits the generator
		t.Fatalf("%v\n%s", err, said)
	}
	var res struct {
		Clocks map[string]struct {
			Count       int64
			Percentiles []struct {
				P     float64
				Nanos int64
			}
		}
	}
	b, err := os.ReadFile(filepath.Join(out, "result.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &res); err != nil {
		t.Fatal(err)
	}
	for clock, file := range map[string]string{"ack": "ack.hlog", "delivery": "delivery.hlog"} {
		text, err := exec.Command("java", "-cp", strings.TrimSpace(string(classpath)), "org.HdrHistogram.HistogramLogProcessor",
			"-i", filepath.Join(out, file), "-outputValueUnitRatio", "1", "-percentilesOutputTicksPerHalf", "100").CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", file, err, text)
		}
		total := regexp.MustCompile(`Total count += +(\d+)`).FindSubmatch(text)
		if total == nil || string(total[1]) != strconv.FormatInt(res.Clocks[clock].Count, 10) || res.Clocks[clock].Count == 0 {
			t.Errorf("%s: the processor counts %s, the result %d", file, total, res.Clocks[clock].Count)
		}
		for _, q := range res.Clocks[clock].Percentiles {
			if q.P > 99 {
				continue
			}
			if got := valueAt(string(text), q.P/100); got < 0.98*float64(q.Nanos) || got > 1.1*float64(q.Nanos) {
				t.Errorf("%s: p%g is %.0f to the processor, %d to the result", file, q.P, got, q.Nanos)
			}
		}
	}
}

// valueAt is the first value of a percentile table at or above a quantile.
func valueAt(table string, quantile float64) float64 {
	for line := range strings.Lines(table) {
		f := strings.Fields(line)
		if len(f) < 3 {
			continue
		}
		value, err := strconv.ParseFloat(f[0], 64)
		at, err2 := strconv.ParseFloat(f[1], 64)
		if err == nil && err2 == nil && at >= quantile {
			return value
		}
	}
	return 0
}
