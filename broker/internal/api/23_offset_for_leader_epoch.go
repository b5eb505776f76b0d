package api

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/core/kafka"
)

// offsetForLeaderEpoch serves API key 23, versions 2 to 4: where did an epoch end?
func (h *Handlers) offsetForLeaderEpoch(_ *Call, req kmsg.Request) kmsg.Response {
	r := req.(*kmsg.OffsetForLeaderEpochRequest)
	resp := kmsg.NewPtrOffsetForLeaderEpochResponse()
	for i := range r.Topics {
		in := &r.Topics[i]
		out := kmsg.NewOffsetForLeaderEpochResponseTopic()
		out.Topic = in.Topic
		for j := range in.Partitions {
			q := &in.Partitions[j]
			a := kmsg.NewOffsetForLeaderEpochResponseTopicPartition()
			a.Partition, a.LeaderEpoch, a.EndOffset = q.Partition, -1, -1
			p, code := h.partitionOf(in.Topic, q.Partition)
			if code == kafka.None {
				code = p.CheckEpoch(kafka.LeaderEpoch(q.CurrentLeaderEpoch))
			}
			if code == kafka.None {
				epoch, end := p.EpochEnd(kafka.LeaderEpoch(q.LeaderEpoch))
				a.LeaderEpoch, a.EndOffset = int32(epoch), int64(end)
			}
			a.ErrorCode = int16(code)
			out.Partitions = append(out.Partitions, a)
		}
		resp.Topics = append(resp.Topics, out)
	}
	return resp
}
