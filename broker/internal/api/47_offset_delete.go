package api

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/core/kafka"
)

// offsetDelete serves OffsetDelete 0. Partitions that do not exist are answered here.
func (h *Handlers) offsetDelete(c *Call, r kmsg.Request) kmsg.Response {
	req := r.(*kmsg.OffsetDeleteRequest)
	img := h.Image()
	var unknown []kmsg.OffsetDeleteResponseTopic
	known := req.Topics[:0]
	for _, t := range req.Topics {
		n := int32(0)
		if topic := img.Topic(t.Topic); topic != nil {
			n = int32(len(topic.Partitions))
		}
		bad := kmsg.NewOffsetDeleteResponseTopic()
		bad.Topic = t.Topic
		partitions := t.Partitions[:0]
		for _, p := range t.Partitions {
			if p.Partition >= 0 && p.Partition < n {
				partitions = append(partitions, p)
				continue
			}
			rp := kmsg.NewOffsetDeleteResponseTopicPartition()
			rp.Partition, rp.ErrorCode = p.Partition, int16(kafka.UnknownTopicOrPartition)
			bad.Partitions = append(bad.Partitions, rp)
		}
		if len(bad.Partitions) > 0 {
			unknown = append(unknown, bad)
		}
		if t.Partitions = partitions; len(partitions) > 0 {
			known = append(known, t)
		}
	}
	req.Topics = known
	reply := c.Later()
	h.Groups.OffsetDelete(req, func(resp *kmsg.OffsetDeleteResponse) {
		if resp.ErrorCode == 0 {
			resp.Topics = joinDeleted(resp.Topics, unknown)
		}
		reply(resp)
	})
	return nil
}

// joinDeleted puts a topic's unknown partitions beside its known ones.
func joinDeleted(topics, unknown []kmsg.OffsetDeleteResponseTopic) []kmsg.OffsetDeleteResponseTopic {
	at := make(map[string]int, len(topics))
	for i := range topics {
		at[topics[i].Topic] = i
	}
	for _, bad := range unknown {
		if i, ok := at[bad.Topic]; ok {
			topics[i].Partitions = append(topics[i].Partitions, bad.Partitions...)
			continue
		}
		at[bad.Topic] = len(topics)
		topics = append(topics, bad)
	}
	return topics
}
