package raw

import (
	"testing"
	"time"
)

// TestASessionIsRenewedBeforeItEnds: from 85 to 95% of its lifetime.
func TestASessionIsRenewedBeforeItEnds(t *testing.T) {
	for at, want := range map[float64]time.Duration{0: 850 * time.Millisecond, 0.5: 900 * time.Millisecond, 1: 950 * time.Millisecond} {
		if got := again(time.Second, at); got < want-time.Microsecond || got > want+time.Microsecond {
			t.Errorf("at %v: after %v, want %v", at, got, want)
		}
	}
}
