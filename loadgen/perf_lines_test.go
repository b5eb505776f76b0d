package loadgen

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestAPerfLineIsOfAllItsSeconds: its latencies are those of the seconds whose records it counts, and the seconds it divides by
// are of the window. Second by second the acks take 10 ms, but 900 ms in the second of each five.
func TestAPerfLineIsOfAllItsSeconds(t *testing.T) {
	for _, warmUp := range []time.Duration{0, 1500 * time.Millisecond, 3 * time.Second, 7 * time.Second} {
		var out bytes.Buffer
		lines := &perfLines{w: &out}
		sum := counts{}
		for at := time.Duration(0); at <= warmUp+16*time.Second; at += time.Second {
			s := progressState{elapsed: at + time.Millisecond, warmUp: warmUp, warming: at < warmUp}
			if in := at - warmUp; in > 0 { // what the part of a second since the last look held
				part := min(in, time.Second)
				n, h := int64(part/(10*time.Millisecond)), newHistogram()
				for range n {
					v := 10 * time.Millisecond
					if (in-1)/time.Second%5 == 1 {
						v = 900 * time.Millisecond
					}
					_ = h.RecordValue(int64(v))
				}
				sum.ackedDuring, sum.ackedDuringBytes = sum.ackedDuring+n, sum.ackedDuringBytes+n<<20
				s.ack, s.hist = compact(h), h
			}
			s.sum = sum
			lines.show(s)
		}
		got := strings.Split(strings.TrimSpace(out.String()), "\n")
		if len(got) != 3 {
			t.Errorf("warm-up %v: %d lines:\n%s", warmUp, len(got), out.String())
		}
		for _, line := range got {
			var records int64
			var rate, mb, mean, worst float64
			if _, err := fmt.Sscanf(line, "%d records sent, %f records/sec (%f MB/sec), %f ms avg latency, %f ms max latency.", &records, &rate, &mb, &mean, &worst); err != nil {
				t.Fatalf("%q: %v", line, err)
			}
			if rate < 99 || rate > 101 || mb < 99 || mb > 101 || mean < 180 || mean > 210 || worst < 899 || worst > 901 {
				t.Errorf("warm-up %v: of 100 records/s that take about 190 ms on average, 900 at most: %q", warmUp, line)
			}
		}
	}
}
