package group

import (
	"strings"
	"testing"
)

// TestARecordsSizeIsKnownBeforeItIsMade: what a write may hold is judged by it.
func TestARecordsSizeIsKnownBeforeItIsMade(t *testing.T) {
	for _, metadata := range []int{0, 1, 126, 127, 128, 16382, 16383, 16384, maxTextBytes} {
		for _, o := range []committed{{expireMS: -1}, {expireMS: -1, topicID: [16]byte{15: 1}}, {expireMS: 0}} {
			o.metadata = strings.Repeat("m", metadata)
			r := offsetRecord("group", offsetKey{"topic", 1}, &o)
			if got := offsetRecordBytes("group", offsetKey{"topic", 1}, &o); got != r.bytes() {
				t.Errorf("%d bytes of metadata, expiry %d: %d bytes, computed %d", metadata, o.expireMS, r.bytes(), got)
			}
		}
	}
	if got := groupKeyBytes("group"); got != len(groupRecordKey("group")) {
		t.Errorf("a group's key has %d bytes, computed %d", len(groupRecordKey("group")), got)
	}
}
