package api

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/core/kafka"
)

// offsetCommit serves OffsetCommit 2 to 10.
//
//   - 2 to 4 may ask for a retention of their own
//   - 6 adds the leader epoch
//   - 7 adds group.instance.id
//   - 8 is flexible
//   - 9 is for the groups of KIP-848 too; GROUP_ID_NOT_FOUND instead of ILLEGAL_GENERATION
//   - 10 names topics by id
//
// Partitions that do not exist are answered here; the rest goes to the coordinator, named and with its topic's id in
// every version.
func (h *Handlers) offsetCommit(c *Call, r kmsg.Request) kmsg.Response {
	req := r.(*kmsg.OffsetCommitRequest)
	img := h.Image()
	var unknown []kmsg.OffsetCommitResponseTopic
	known := req.Topics[:0]
	for i := range req.Topics {
		t := req.Topics[i]
		topic, code := img.Topic(t.Topic), kafka.UnknownTopicOrPartition
		if req.Version >= 10 {
			topic, code = img.TopicByID(kafka.TopicID(t.TopicID)), kafka.UnknownTopicId
		}
		numPartitions := int32(0)
		if topic != nil {
			t.Topic, t.TopicID = topic.Name, [16]byte(topic.ID)
			numPartitions, code = int32(len(topic.Partitions)), kafka.UnknownTopicOrPartition
		}
		bad := kmsg.NewOffsetCommitResponseTopic()
		bad.Topic, bad.TopicID = t.Topic, t.TopicID
		partitions := t.Partitions[:0]
		for _, p := range t.Partitions {
			if p.Partition >= 0 && p.Partition < numPartitions {
				partitions = append(partitions, p)
				continue
			}
			rp := kmsg.NewOffsetCommitResponseTopicPartition()
			rp.Partition, rp.ErrorCode = p.Partition, int16(code)
			bad.Partitions = append(bad.Partitions, rp)
		}
		if len(bad.Partitions) > 0 {
			unknown = append(unknown, bad)
		}
		if len(partitions) > 0 {
			t.Partitions = partitions
			known = append(known, t)
		}
	}
	req.Topics = known
	if len(known) == 0 {
		resp := kmsg.NewPtrOffsetCommitResponse()
		resp.Topics = unknown
		return resp
	}
	reply := c.Later()
	h.Groups.OffsetCommit(req, func(resp *kmsg.OffsetCommitResponse) {
		addCommitErrors(resp, unknown)
		reply(resp)
	})
	return nil
}

// addCommitErrors puts topics' unknown partitions beside their known ones.
func addCommitErrors(resp *kmsg.OffsetCommitResponse, unknown []kmsg.OffsetCommitResponseTopic) {
	type topic struct {
		name string
		id   [16]byte
	}
	at := make(map[topic]int, len(resp.Topics))
	for i := range resp.Topics {
		at[topic{resp.Topics[i].Topic, resp.Topics[i].TopicID}] = i
	}
	for _, bad := range unknown {
		of := topic{bad.Topic, bad.TopicID}
		if i, ok := at[of]; ok {
			resp.Topics[i].Partitions = append(resp.Topics[i].Partitions, bad.Partitions...)
			continue
		}
		at[of] = len(resp.Topics)
		resp.Topics = append(resp.Topics, bad)
	}
}
