package servertest

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/core/kafka"
)

// TestAPartitionThatIsAskedForTwiceIsRefused: it, in all its places, and nothing beside it.
func TestAPartitionThatIsAskedForTwiceIsRefused(t *testing.T) {
	n := startNode(t, t.TempDir())
	n.topic("a", 3)
	n.topic("b", 3)
	c := n.dial()
	for version := int16(1); version <= 11; version++ {
		r := kmsg.NewPtrListOffsetsRequest()
		r.Version, r.ReplicaID = version, -1
		for _, topic := range []struct {
			name  string
			parts []int32
		}{{"a", []int32{0, 1, 0}}, {"b", []int32{0, 1}}, {"a", []int32{2}}, {"b", []int32{1, 2}}} {
			rt := kmsg.NewListOffsetsRequestTopic()
			rt.Topic = topic.name
			for _, p := range topic.parts {
				rp := kmsg.NewListOffsetsRequestTopicPartition()
				rp.Partition, rp.Timestamp, rp.CurrentLeaderEpoch = p, -1, -1
				rt.Partitions = append(rt.Partitions, rp)
			}
			r.Topics = append(r.Topics, rt)
		}
		doubled := map[kafka.TopicPartition]bool{{Topic: "a", Partition: 0}: true, {Topic: "b", Partition: 1}: true}
		answered := 0
		for _, topic := range c.do(r).(*kmsg.ListOffsetsResponse).Topics {
			for _, p := range topic.Partitions {
				answered++
				want, offset := kafka.None, int64(0)
				if doubled[kafka.TopicPartition{Topic: topic.Topic, Partition: kafka.Partition(p.Partition)}] {
					want, offset = kafka.InvalidRequest, -1
				}
				if kafka.ErrorCode(p.ErrorCode) != want || p.Offset != offset {
					t.Errorf("version %d, %s-%d: %v with offset %d, want %v", version, topic.Topic, p.Partition, kafka.ErrorCode(p.ErrorCode), p.Offset, want)
				}
			}
		}
		if answered != 8 {
			t.Errorf("version %d: %d partitions answered, want 8", version, answered)
		}
	}
}
