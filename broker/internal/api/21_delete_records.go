package api

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/broker/internal/controller"
	"github.com/tidemark/tidemark/core/kafka"
)

// deleteRecords serves API key 21, versions 0 to 2: the log start moves up to an offset, -1 for the high watermark.
func (h *Handlers) deleteRecords(c *Call, req kmsg.Request) kmsg.Response {
	r := req.(*kmsg.DeleteRecordsRequest)
	reply := c.Later()
	go func() { // a partition that is used for the first time is opened
		resp := kmsg.NewPtrDeleteRecordsResponse()
		for i := range r.Topics {
			t := kmsg.NewDeleteRecordsResponseTopic()
			t.Topic = r.Topics[i].Topic
			for _, asked := range r.Topics[i].Partitions {
				p := kmsg.NewDeleteRecordsResponseTopicPartition()
				start, code := h.deleteBefore(t.Topic, asked.Partition, kafka.Offset(asked.Offset))
				p.Partition, p.LowWatermark, p.ErrorCode = asked.Partition, int64(start), int16(code)
				t.Partitions = append(t.Partitions, p)
			}
			resp.Topics = append(resp.Topics, t)
		}
		reply(resp)
	}()
	return nil
}

func (h *Handlers) deleteBefore(topic string, n int32, before kafka.Offset) (kafka.Offset, kafka.ErrorCode) {
	if controller.InternalTopic(topic) && h.Image().Topic(topic) != nil {
		return kafka.NoOffset, kafka.InvalidTopicException
	}
	p, code := h.partitionOf(topic, n)
	if code != kafka.None {
		return kafka.NoOffset, code
	}
	return p.DeleteRecords(before)
}
