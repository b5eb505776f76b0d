package api

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/core/kafka"
)

// describeProducers serves API key 61, version 0: the producers whose state the leader of a partition keeps.
func (h *Handlers) describeProducers(c *Call, req kmsg.Request) kmsg.Response {
	r := req.(*kmsg.DescribeProducersRequest)
	reply := c.Later()
	cost := &answerCost{c: c}
	go func() { // it waits for appends under way
		resp := kmsg.NewPtrDescribeProducersResponse()
		told := map[kafka.TopicPartition]bool{} // an answer is much larger than a question: each is given once
		for i := range r.Topics {
			t := kmsg.NewDescribeProducersResponseTopic()
			t.Topic = r.Topics[i].Topic
			unknown := len(t.Topic) > kafka.MaxTopicNameLength // and not to be looked up for each partition
			for _, n := range r.Topics[i].Partitions {
				tp := kafka.TopicPartition{Topic: t.Topic, Partition: kafka.Partition(n)}
				if !cost.take(toldProducerBytes) {
					return
				}
				if !unknown && told[tp] {
					again := kmsg.NewDescribeProducersResponseTopicPartition()
					again.Partition, again.ErrorCode = n, int16(kafka.InvalidRequest)
					t.Partitions = append(t.Partitions, again)
					continue
				}
				if !unknown {
					told[tp] = true
				}
				all, ok := h.producersOf(t.Topic, n, cost)
				if !ok {
					return
				}
				t.Partitions = append(t.Partitions, all)
			}
			resp.Topics = append(resp.Topics, t)
		}
		reply(resp)
	}()
	return nil
}

// toldProducerBytes is what a producer, or a partition, takes in memory: in the answer and, twice, in its encoding, which grows by being copied.
const toldProducerBytes = 200

// producersOf tells a partition's producers; false when there is no memory for them and the call has been aborted.
func (h *Handlers) producersOf(topic string, n int32, cost *answerCost) (_ kmsg.DescribeProducersResponseTopicPartition, ok bool) {
	out := kmsg.NewDescribeProducersResponseTopicPartition()
	out.Partition = n
	out.ActiveProducers = []kmsg.DescribeProducersResponseTopicPartitionActiveProducer{}
	fail := func(code kafka.ErrorCode) (kmsg.DescribeProducersResponseTopicPartition, bool) {
		out.ErrorCode, out.ErrorMessage = int16(code), kmsg.StringPtr(code.Error())
		return out, true
	}
	p, code := h.partitionOf(topic, n)
	if code != kafka.None {
		return fail(code)
	}
	producers, code := p.ActiveProducers()
	if code != kafka.None {
		return fail(code)
	}
	if !cost.take(int64(len(producers)) * toldProducerBytes) {
		return out, false
	}
	for _, s := range producers {
		a := kmsg.NewDescribeProducersResponseTopicPartitionActiveProducer()
		a.ProducerID, a.ProducerEpoch, a.LastSequence = int64(s.ID), int32(s.Epoch), s.LastSequence
		a.LastTimestamp, a.CoordinatorEpoch, a.CurrentTxnStartOffset = s.Timestamp, s.CoordinatorEpoch, int64(s.TxnFirstOffset)
		out.ActiveProducers = append(out.ActiveProducers, a)
	}
	return out, true
}
