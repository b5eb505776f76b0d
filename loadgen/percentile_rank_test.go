package loadgen

import (
	"math/rand/v2"
	"testing"
)

// TestAPercentileHasAsManyAboveAsItSays counts, for histograms of every size up to 2,000 values that all differ, the values
// above each percentile: so many it must say, and with one record less it would be another percentile.
func TestAPercentileHasAsManyAboveAsItSays(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 0))
	h := newHistogram()
	var values []int64
	for n := int64(1); n <= 2000; n++ {
		v := random.Int64N(1_000_000)
		if err := h.RecordValue(v); err != nil {
			t.Fatal(err)
		}
		if values = append(values, v); n%7 != 0 {
			continue
		}
		for _, q := range summarise(h, 0, 0, 0, nil, 0).Percentiles {
			above := int64(0)
			for _, v := range values {
				if v > q.Nanos { // the highest value of its bucket
					above++
				}
			}
			if above != q.Above {
				t.Fatalf("%d values, p%g: %d lie above %d, it says %d", n, q.P, above, q.Nanos, q.Above)
			}
		}
	}
}
