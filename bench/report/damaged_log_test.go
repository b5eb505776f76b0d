package report

import (
	"bytes"
	"strings"
	"testing"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// FuzzReadLog reads histogram logs that anybody may have damaged: an error and nothing else, or histograms whose sum is
// their total.
func FuzzReadLog(f *testing.F) {
	h := hdrhistogram.New(1, 3_600_000_000_000, 3)
	for v := int64(1); v < 1e9; v *= 3 {
		if err := h.RecordValue(v); err != nil {
			f.Fatal(err)
		}
	}
	var good bytes.Buffer
	w := hdrhistogram.NewHistogramLogWriter(&good)
	for range 2 {
		if err := w.OutputIntervalHistogram(h); err != nil {
			f.Fatal(err)
		}
	}
	f.Add(good.Bytes())
	f.Add(good.Bytes()[:good.Len()/2])
	for _, s := range []string{"", "\n", "#[StartTime: x", "Tag=a\n", "1,1,1,HISTFAAA\n", "Tag=a,0,1,2,!!\n", strings.Repeat("1,1,1,HISTFAAAAEV42pNpmSz\n", 3)} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		in := readLog(bytes.NewReader(b), "ack.hlog")
		if in.err != nil {
			if in.total != nil || in.seconds != nil || !strings.Contains(in.err.Error(), "ack.hlog") {
				t.Errorf("%+v", in)
			}
			return
		}
		sum := int64(0)
		for _, h := range in.seconds {
			sum += h.TotalCount()
		}
		if sum != in.total.TotalCount() {
			t.Errorf("the seconds hold %d values, the whole %d", sum, in.total.TotalCount())
		}
	})
}
