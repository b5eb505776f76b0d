package replica

import (
	"slices"
	"testing"

	"github.com/tidemark/tidemark/broker/internal/metadata"
	"github.com/tidemark/tidemark/core/kafka"
)

// The first image's topics are found by name and id, those that come later beside them, and one of a single partition can grow.
func TestTheFirstImageIsFound(t *testing.T) {
	for _, n := range []int{0, 1, 5000} {
		s, img := newBenchSet(t, n)
		found := 0
		for state := range img.Topics() {
			byName, byID := s.topics.named(state.Name), s.topics.withID(state.ID)
			if byName == nil || byName != byID || byName.name != state.Name || byName.id != state.ID || len(byName.parts) != 1 || byName.parts[0] == nil {
				t.Fatalf("%s: %+v, by its id %+v", state.Name, byName, byID)
			}
		}
		for range s.topics.all {
			found++
		}
		if found != n {
			t.Errorf("%d of %d topics", found, n)
		}
		records := made(n)
		if n > 0 {
			more := metadata.Partition{Replicas: []kafka.BrokerID{0}, ISR: []kafka.BrokerID{0}}
			records = append(records, &metadata.PartitionsRecord{TopicID: made(0)[0].(*metadata.TopicRecord).ID, First: 1, Partitions: slices.Repeat([]metadata.Partition{more}, 2)})
		}
		before := s.topics.named("topic-0")
		next, d := change(t, img, records...)
		s.Apply(next, d)
		for state := range next.Topics() {
			if got := s.topics.named(state.Name); got == nil || got != s.topics.withID(state.ID) || len(got.parts) != len(state.Partitions) || slices.Contains(got.parts, nil) {
				t.Fatalf("%s after a change: %+v", state.Name, got)
			}
		}
		if n > 0 && s.topics.named("topic-0").parts[0] != before.parts[0] {
			t.Error("a topic that grows loses its partition")
		}
	}
}
