package verify

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// TestTheOwnDecoderReadsWhatTheLibraryWrites compares counts and values of random histograms of several precisions.
func TestTheOwnDecoderReadsWhatTheLibraryWrites(t *testing.T) {
	const seed = 31
	random := rand.New(rand.NewPCG(seed, 0))
	for i := range 30 {
		lowest, digits := int64(1)<<random.IntN(12), 1+random.IntN(4)
		h := hdrhistogram.New(lowest, 3_600_000_000_000, digits)
		for range random.IntN(2000) {
			if err := h.RecordValue(int64(1) << random.IntN(40) * (1 + random.Int64N(3))); err != nil {
				t.Fatal(err)
			}
		}
		raw, err := h.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
		if err != nil {
			t.Fatal(err)
		}
		l, err := parseLine("1.0,1.0,0.0," + string(raw))
		if err != nil {
			t.Fatalf("seed %d, histogram %d: %v", seed, i, err)
		}
		if l.counts.total != h.TotalCount() {
			t.Fatalf("seed %d, histogram %d: %d values, want %d", seed, i, l.counts.total, h.TotalCount())
		}
		for _, p := range []float64{1, 25, 50, 90, 99, 99.9, 100} {
			if h.TotalCount() > 0 && l.counts.nearest(p) != h.ValueAtPercentile(p) {
				t.Fatalf("seed %d, histogram %d (lowest %d, %d digits): p%g is %d, want %d", seed, i, lowest, digits, p, l.counts.nearest(p), h.ValueAtPercentile(p))
			}
		}
	}
}

func TestLogsOfOthersAreReadOrRefusedWithTheirLine(t *testing.T) {
	h := hdrhistogram.New(1, 3_600_000_000_000, 3)
	if err := h.RecordValue(1000); err != nil {
		t.Fatal(err)
	}
	b, err := h.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
	if err != nil {
		t.Fatal(err)
	}
	one := string(b)
	for name, c := range map[string]struct {
		text, want string // want "" for a right reading
		lines      int
	}{
		"comments, legend, tags, DOS ends":   {"#[x]\r\n\"StartTimestamp\"\r\n0.1,1.0,0.0," + one + "\r\nTag=a b,0.1,1.0,0.0," + one + "\r\n", "", 2},
		"tags each with a time of their own": {"5.0,1,0," + one + "\nTag=x,1.0,1,0," + one + "\n", "", 2},
		"time goes backwards":                {"5.0,1,0," + one + "\n4.0,1,0," + one, "line 2: time goes backwards: 4.000 after 5.000", 0},
		"a tag's time goes backwards":        {"Tag=x,5.0,1,0," + one + "\n6.0,1,0," + one + "\nTag=x,4.0,1,0," + one, "line 3: time goes backwards", 0},
		"a field too many":                   {"5.0,1,0,0," + one, "line 1: 5 fields", 0},
		"a tag alone":                        {"Tag=x", "line 1: a tag without figures", 0},
		"no base64":                          {"5.0,1,0,HIST!", "line 1: histogram", 0},
		"an old encoding":                    {"5.0,1,0,HISTEwAAAAMAAAAA", "line 1: histogram: not in the V2", 0},
		"cut short":                          {"5.0,1,0," + one[:len(one)/2/4*4], "line 1: histogram", 0},
		"no number":                          {"five,1,0," + one, "line 1: ", 0},
	} {
		lines, err := parseLog([]byte(c.text))
		if c.want == "" && (err != nil || len(lines) != c.lines) || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %d lines, %v; want %d, %q", name, len(lines), err, c.lines, c.want)
		}
	}
}

// FuzzHistogramLog: whatever the text, no panic and no more memory than the bounds.
func FuzzHistogramLog(f *testing.F) {
	h := hdrhistogram.New(1, 1_000_000, 2)
	_ = h.RecordValue(77)
	if b, err := h.Encode(hdrhistogram.V2CompressedEncodingCookieBase); err == nil {
		f.Add([]byte("1,1,1," + string(b) + "\nTag=x,2,1,1," + string(b)))
	}
	f.Add([]byte("#\n\"x\"\nTag=,,,"))
	f.Fuzz(func(t *testing.T, text []byte) {
		lines, err := parseLog(text)
		for i := range lines {
			if n := lines[i].counts.total; n > 0 && lines[i].counts.nearest(99) < 0 {
				t.Errorf("%d values, a negative p99", n)
			}
		}
		if err == nil && len(lines) > bytes.Count(text, []byte("\n"))+1 {
			t.Errorf("%d lines of %d", len(lines), bytes.Count(text, []byte("\n"))+1)
		}
	})
}
