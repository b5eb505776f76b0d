package host

import (
	"testing"
	"time"
)

func TestRequestCeilingCountsAnsweredRequests(t *testing.T) {
	for _, frame := range []int{1160, 16 << 10, 1 << 20} {
		c, requests := RequestCeiling(t.TempDir(), nil, nil, frame, 5, 50*time.Millisecond)
		if c.Error != "" || !(c.PerCPU > 0) || !(requests > 0) {
			t.Errorf("frames of %d: %+v, %v requests", frame, c, requests)
			continue
		}
		if perRequest := c.PerCPU * 1e6 / requests; perRequest < float64(frame)*0.999 || perRequest > float64(frame)*1.001 {
			t.Errorf("frames of %d: %v bytes a request", frame, perRequest)
		}
	}
	if c := SendfileCeiling(t.TempDir(), nil, nil, 50*time.Millisecond); c.Error != "" || !(c.PerCPU > 0) {
		t.Errorf("%+v", c)
	}
	if c, _ := RequestCeiling("/no/such/folder", nil, nil, 1160, 5, time.Millisecond); c.Error == "" {
		t.Error("a folder that is not there has a ceiling")
	}
}
