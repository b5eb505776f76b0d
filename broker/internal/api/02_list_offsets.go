package api

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/core/kafka"
)

// listOffsets serves API key 2, versions 1 to 11.
func (h *Handlers) listOffsets(c *Call, req kmsg.Request) kmsg.Response {
	r := req.(*kmsg.ListOffsetsRequest)
	resp := kmsg.NewPtrListOffsetsResponse()
	for i := range r.Topics {
		in := &r.Topics[i]
		out := kmsg.NewListOffsetsResponseTopic()
		out.Topic = in.Topic
		seen := make(map[int32]bool, len(in.Partitions))
		for j := range in.Partitions {
			p := &in.Partitions[j]
			seen[p.Partition] = true
			out.Partitions = append(out.Partitions, h.listOffset(c, in.Topic, p, r.IsolationLevel == 1))
		}
		if len(seen) < len(in.Partitions) { // Kafka refuses a partition that is asked for twice
			for j := range out.Partitions {
				fillOffset(&out.Partitions[j], kafka.InvalidRequest)
			}
		}
		resp.Topics = append(resp.Topics, out)
	}
	return resp
}

func fillOffset(out *kmsg.ListOffsetsResponseTopicPartition, code kafka.ErrorCode) {
	out.ErrorCode, out.Offset, out.Timestamp, out.LeaderEpoch = int16(code), -1, -1, -1
}

func (h *Handlers) listOffset(c *Call, topic string, in *kmsg.ListOffsetsRequestTopicPartition, committed bool) kmsg.ListOffsetsResponseTopicPartition {
	out := kmsg.NewListOffsetsResponseTopicPartition()
	out.Partition = in.Partition
	if in.Timestamp < 0 && !specialTime(in.Timestamp, c.Version) {
		fillOffset(&out, kafka.UnsupportedVersion)
		return out
	}
	p, code := h.Replicas.ByName([]byte(topic), kafka.Partition(in.Partition))
	if code == kafka.None {
		code = p.CheckEpoch(kafka.LeaderEpoch(in.CurrentLeaderEpoch))
	}
	if code != kafka.None {
		fillOffset(&out, code)
		return out
	}
	found, code := p.ListOffset(in.Timestamp, committed)
	if code != kafka.None {
		fillOffset(&out, code)
		return out
	}
	out.Offset, out.Timestamp, out.LeaderEpoch = int64(found.Offset), found.Timestamp, int32(found.Epoch)
	return out
}

// specialTime says whether a negative time means something in a version: -3 since 7 (KIP-734), -4 since 8 (KIP-405),
// -5 since 9 (KIP-1005), -6 since 11.
func specialTime(ts int64, version int16) bool {
	switch ts {
	case -1, -2:
		return true
	case -3:
		return version >= 7
	case -4:
		return version >= 8
	case -5:
		return version >= 9
	case -6:
		return version >= 11
	}
	return false
}
