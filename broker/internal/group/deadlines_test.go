package group

import (
	"math"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// commitOne commits an offset of a simple consumer, with a retention of its own unless that is -1.
func commitOne(m *Machine, now Now, retainMS int64) {
	r := kmsg.NewPtrOffsetCommitRequest()
	r.Version, r.Group, r.Generation, r.RetentionTimeMillis = 3, "g", -1, retainMS
	t := kmsg.NewOffsetCommitRequestTopic()
	p := kmsg.NewOffsetCommitRequestTopicPartition()
	t.Topic, t.Partitions = "t", append(t.Partitions, p)
	r.Topics = append(r.Topics, t)
	m.OffsetCommit(now, "commit", r)
	for _, w := range m.Take().Writes {
		m.Written(now, w.Ticket, 0)
	}
}

// A time so long that it stands for never does not come round to one that has passed.
func TestTheLongestTimesAreNeverOver(t *testing.T) {
	now := Now{MonoMS: 1000, WallMS: 1_700_000_000_000}
	c := scenarioConfig()
	c.RetentionCheckMS, c.WriteTimeoutMS = math.MaxInt64, math.MaxInt32
	m := New(c, func() string { return "id" })
	commitOne(m, now, -1)
	if next, ok := m.Next(); ok && next < now.MonoMS {
		t.Fatalf("the next deadline is %d, and it is %d", next, now.MonoMS)
	}
	now.MonoMS += math.MaxInt32
	m.Tick(now)
	if next, ok := m.Next(); ok && next < now.MonoMS {
		t.Fatalf("the next deadline is %d, and it is %d", next, now.MonoMS)
	}

	c = scenarioConfig()
	m = New(c, func() string { return "id" })
	commitOne(m, now, math.MaxInt64)
	for range 4 {
		now.MonoMS += c.OffsetsRetentionMS
		now.WallMS += c.OffsetsRetentionMS
		m.Tick(now)
	}
	if w := m.Take().Writes; len(w) != 0 {
		t.Errorf("an offset that is to be kept for ever is removed: %d writes", len(w))
	}
}
