package commitlog

import (
	"math"
	"strconv"
	"testing"

	"github.com/tidemark/tidemark/core/kafka"
)

// Whatever the load factor and however many keys there are, a search in the map of keys ends and stays within it.
func TestTheMapOfKeysHoldsUpWithAnyLoadFactor(t *testing.T) {
	for _, factor := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), -1, 0, math.SmallestNonzeroFloat64, 0.5, 1, 2, math.MaxFloat64} {
		c := NewCleaner(CleanerOptions{LoadFactor: factor})
		for _, want := range []int64{0, 3, 100, math.MaxInt64} {
			c.keys.reset(want, 24*64, c.o.LoadFactor)
			n := 0
			for ; n < 1000 && c.keys.put([]byte(strconv.Itoa(n)), kafka.Offset(n)); n++ {
			}
			if n == 0 || n >= 64 {
				t.Errorf("load factor %v, %d keys wanted: %d of 64 slots are used", factor, want, n)
			}
			if !c.keys.superseded([]byte("0"), -1) || c.keys.superseded([]byte("none"), -1) {
				t.Errorf("load factor %v, %d keys wanted: what was put is not what is there", factor, want)
			}
		}
	}
}
