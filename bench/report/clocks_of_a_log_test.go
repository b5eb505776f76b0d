package report

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// TestTheOtherClocksOfALogAreNoneOfItsSeconds: ack.hlog has the delivery and the pacer between its own lines, and each column
// of a heat map once was another clock's.
func TestTheOtherClocksOfALogAreNoneOfItsSeconds(t *testing.T) {
	encoded := func(value int64) string {
		h := hdrhistogram.New(1, 3_600_000_000_000, 3)
		if err := h.RecordValues(value, value); err != nil {
			t.Fatal(err)
		}
		b, err := h.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	var b strings.Builder
	for second := range int64(3) {
		fmt.Fprintf(&b, "%d.0,1.0,0.1,%s\n", second, encoded(10+second))
		for i, tag := range []string{"delivery", "pacer", "blocked"} {
			fmt.Fprintf(&b, "Tag=%s,%d.0,1.0,0.1,%s\n", tag, second, encoded(int64(100*(i+1))+second))
		}
	}
	for tag, want := range map[string]int64{"": 10, "delivery": 100, "pacer": 200} {
		in := readTagged(strings.NewReader(b.String()), "ack.hlog", tag)
		if in.err != nil || len(in.seconds) != 3 {
			t.Fatalf("tag %q: %d seconds, %v", tag, len(in.seconds), in.err)
		}
		for i, h := range in.seconds {
			if v := want + int64(i); h.TotalCount() != v || h.Max() != v {
				t.Errorf("tag %q, second %d: %d values up to %d, want %d", tag, i, h.TotalCount(), h.Max(), v)
			}
		}
	}
	if in := readTagged(strings.NewReader(b.String()), "ack.hlog", "nobody"); in.err == nil {
		t.Error("a clock that the log has not is read")
	}
	backwards := fmt.Sprintf("5.0,1.0,0.1,%s\n4.0,1.0,0.1,%s\n", encoded(7), encoded(7))
	if in := readLog(bytes.NewReader([]byte(backwards)), "ack.hlog"); in.err == nil || !strings.Contains(in.err.Error(), "backwards") || in.seconds != nil {
		t.Errorf("%+v", in)
	}
	apart := fmt.Sprintf("5.0,1.0,0.1,%s\nTag=x,1.0,1.0,0.1,%s\n6.0,1.0,0.1,%s\n", encoded(7), encoded(7), encoded(7))
	if in := readLog(strings.NewReader(apart), "ack.hlog"); in.err != nil || len(in.seconds) != 2 {
		t.Errorf("a tag with a time of its own: %+v", in)
	}
}
