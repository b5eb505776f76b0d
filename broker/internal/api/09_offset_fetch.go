package api

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/broker/internal/metadata"
	"github.com/tidemark/tidemark/core/kafka"
)

// offsetFetch serves OffsetFetch 1 to 10.
//
//   - 2 may ask for all topics (null), and has one error for all
//   - 5 adds the leader epoch
//   - 6 is flexible
//   - 7 may ask for stable offsets only
//   - 8 asks for several groups
//   - 9 adds member id and epoch for the groups of KIP-848
//   - 10 names topics by id
//
// The coordinator gets topics named and, where they exist, with their id in every version: an offset of a topic that was
// deleted is not one of the topic that was created under its name later.
func (h *Handlers) offsetFetch(c *Call, r kmsg.Request) kmsg.Response {
	req := r.(*kmsg.OffsetFetchRequest)
	img := h.Image()
	groups := req.Groups
	if req.Version < 8 {
		groups = []kmsg.OffsetFetchRequestGroup{oldOffsetFetch(req)}
	}
	unknown := make([][]kmsg.OffsetFetchResponseGroupTopic, len(groups))
	for i := range groups {
		if groups[i].Topics != nil {
			groups[i].Topics, unknown[i] = resolveFetch(img, req.Version, groups[i].Topics)
		}
	}
	reply := c.Later()
	h.Groups.OffsetFetch(groups, req.RequireStable, c.answerMemory(), func(out []kmsg.OffsetFetchResponseGroup) {
		resp := kmsg.NewPtrOffsetFetchResponse()
		for i := range out {
			if req.Version >= 10 && groups[i].Topics == nil {
				out[i].Topics = withIDs(img, out[i].Topics)
			}
			if out[i].ErrorCode == 0 {
				out[i].Topics = append(out[i].Topics, unknown[i]...)
			}
		}
		if req.Version < 8 {
			oldOffsetFetched(resp, req, &out[0])
		} else {
			resp.Groups = out
		}
		reply(resp)
	})
	return nil
}

// resolveFetch gives every topic its name and id; what a version 10 request names by an id that is unknown is answered.
func resolveFetch(img *metadata.Image, version int16, topics []kmsg.OffsetFetchRequestGroupTopic) (known []kmsg.OffsetFetchRequestGroupTopic, unknown []kmsg.OffsetFetchResponseGroupTopic) {
	known = topics[:0]
	for _, t := range topics {
		if version < 10 {
			if topic := img.Topic(t.Topic); topic != nil {
				t.TopicID = [16]byte(topic.ID)
			}
			known = append(known, t)
			continue
		}
		if topic := img.TopicByID(kafka.TopicID(t.TopicID)); topic != nil {
			t.Topic = topic.Name
			known = append(known, t)
			continue
		}
		rt := kmsg.NewOffsetFetchResponseGroupTopic()
		rt.TopicID = t.TopicID
		for _, p := range t.Partitions {
			rp := noOffset(p)
			rp.ErrorCode = int16(kafka.UnknownTopicId)
			rt.Partitions = append(rt.Partitions, rp)
		}
		unknown = append(unknown, rt)
	}
	return known, unknown
}

func noOffset(partition int32) kmsg.OffsetFetchResponseGroupTopicPartition {
	p := kmsg.NewOffsetFetchResponseGroupTopicPartition()
	p.Partition, p.Offset, p.LeaderEpoch, p.Metadata = partition, -1, -1, kmsg.StringPtr("")
	return p
}

// withIDs keeps the topics that exist, with their ids: version 10 cannot name others.
func withIDs(img *metadata.Image, topics []kmsg.OffsetFetchResponseGroupTopic) []kmsg.OffsetFetchResponseGroupTopic {
	kept := topics[:0]
	for _, t := range topics {
		topic := img.Topic(t.Topic)
		if topic == nil || t.TopicID != [16]byte{} && t.TopicID != [16]byte(topic.ID) {
			continue
		}
		t.TopicID = [16]byte(topic.ID)
		kept = append(kept, t)
	}
	return kept
}

// oldOffsetFetch turns a request for one group into that of version 8.
func oldOffsetFetch(req *kmsg.OffsetFetchRequest) kmsg.OffsetFetchRequestGroup {
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group = req.Group
	if req.Topics == nil && req.Version >= 2 {
		return g
	}
	g.Topics = make([]kmsg.OffsetFetchRequestGroupTopic, 0, len(req.Topics))
	for i := range req.Topics {
		t := kmsg.NewOffsetFetchRequestGroupTopic()
		t.Topic, t.Partitions = req.Topics[i].Topic, req.Topics[i].Partitions
		g.Topics = append(g.Topics, t)
	}
	return g
}

// oldOffsetFetched turns one group's answer into that of versions before 8; version 1 has errors in partitions only.
func oldOffsetFetched(resp *kmsg.OffsetFetchResponse, req *kmsg.OffsetFetchRequest, g *kmsg.OffsetFetchResponseGroup) {
	resp.ErrorCode = g.ErrorCode
	if g.ErrorCode != 0 && req.Version < 2 {
		for i := range req.Topics {
			t := kmsg.NewOffsetFetchResponseGroupTopic()
			t.Topic = req.Topics[i].Topic
			for _, p := range req.Topics[i].Partitions {
				rp := noOffset(p)
				rp.ErrorCode = g.ErrorCode
				t.Partitions = append(t.Partitions, rp)
			}
			g.Topics = append(g.Topics, t)
		}
	}
	for i := range g.Topics {
		t := kmsg.NewOffsetFetchResponseTopic()
		t.Topic = g.Topics[i].Topic
		for _, p := range g.Topics[i].Partitions {
			rp := kmsg.NewOffsetFetchResponseTopicPartition()
			rp.Partition, rp.Offset, rp.LeaderEpoch = p.Partition, p.Offset, p.LeaderEpoch
			rp.Metadata, rp.ErrorCode = p.Metadata, p.ErrorCode
			t.Partitions = append(t.Partitions, rp)
		}
		resp.Topics = append(resp.Topics, t)
	}
}
