package coordinator

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/broker/internal/group"
	"github.com/tidemark/tidemark/broker/internal/metadata"
	"github.com/tidemark/tidemark/core/kafka"
)

// OffsetCommit serves API key 8 for topics that the caller knows to exist; in every version they are named and carry
// their id.
func (g *Groups) OffsetCommit(req *kmsg.OffsetCommitRequest, reply func(*kmsg.OffsetCommitResponse)) {
	g.ask(req.Group, func(m *group.Machine, now group.Now) {
		to := func(r kmsg.Response) { reply(r.(*kmsg.OffsetCommitResponse)) }
		if gone := g.withoutGone(req); len(gone) > 0 {
			to = func(r kmsg.Response) {
				resp := r.(*kmsg.OffsetCommitResponse)
				resp.Topics = append(resp.Topics, gone...)
				reply(resp)
			}
			if len(req.Topics) == 0 {
				r := kmsg.NewPtrOffsetCommitResponse()
				r.Version = req.Version
				to(r)
				return
			}
		}
		m.OffsetCommit(now, to, req)
	}, func(code kafka.ErrorCode) {
		r := kmsg.NewPtrOffsetCommitResponse()
		r.Version = req.Version
		for i := range req.Topics {
			r.Topics = append(r.Topics, commitFailed(&req.Topics[i], code))
		}
		reply(r)
	})
}

// withoutGone takes out of a request the topics that have gone since the caller looked, and answers for them. It is called in the
// shard's loop, which Apply has remove the offsets of topics that an image lacks once that is the newest one. So a commit that sees
// the image before it comes before the removal, and one that sees this image, or comes even behind the removal, must leave no offset
// there, which nobody would remove.
func (g *Groups) withoutGone(req *kmsg.OffsetCommitRequest) (gone []kmsg.OffsetCommitResponseTopic) {
	img, code := g.newest(), kafka.UnknownTopicOrPartition
	if req.Version >= 10 {
		code = kafka.UnknownTopicId
	}
	there := req.Topics[:0]
	for i := range req.Topics {
		t := &req.Topics[i]
		if img.TopicByID(t.TopicID) == nil {
			gone = append(gone, commitFailed(t, code))
			continue
		}
		there = append(there, *t)
	}
	req.Topics = there
	return gone
}

func (g *Groups) newest() *metadata.Image {
	if g.o.Image != nil {
		return g.o.Image()
	}
	return g.apply.image.Load()
}

func commitFailed(t *kmsg.OffsetCommitRequestTopic, code kafka.ErrorCode) kmsg.OffsetCommitResponseTopic {
	r := kmsg.NewOffsetCommitResponseTopic()
	r.Topic, r.TopicID = t.Topic, t.TopicID
	for i := range t.Partitions {
		p := kmsg.NewOffsetCommitResponseTopicPartition()
		p.Partition, p.ErrorCode = t.Partitions[i].Partition, int16(code)
		r.Partitions = append(r.Partitions, p)
	}
	return r
}
