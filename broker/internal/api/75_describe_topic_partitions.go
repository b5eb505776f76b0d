package api

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/broker/internal/metadata"
	"github.com/tidemark/tidemark/core/kafka"
)

// describeTopicPartitions serves API key 75, version 0 (KIP-966): topics sorted by name from a cursor on, at most as many
// partitions as the request and max.request.partition.size.limit allow, and the cursor for the next request.
func (h *Handlers) describeTopicPartitions(c *Call, req kmsg.Request) kmsg.Response {
	r := req.(*kmsg.DescribeTopicPartitionsRequest)
	resp := kmsg.NewPtrDescribeTopicPartitionsResponse()
	names := make([]string, len(r.Topics))
	for i := range r.Topics {
		names[i] = r.Topics[i].Topic
	}
	slices.Sort(names)
	names = slices.Compact(names)
	d := &partitionPage{img: h.Image(), resp: resp, left: max(1, int(min(r.ResponsePartitionLimit, h.Config.MaxRequestPartitionSizeLimit))),
		cost: answerCost{c: c}}
	if k := r.Cursor; k != nil && (k.Partition < 0 || len(names) > 0 && !slices.Contains(names, k.Topic)) {
		for _, name := range names {
			if !d.pay(toldPageTopicBytes+len(name), describedTopicBytes) {
				return nil
			}
			t := kmsg.NewDescribeTopicPartitionsResponseTopic()
			t.ErrorCode, t.Topic, t.AuthorizedOperations = int16(kafka.InvalidRequest), kmsg.StringPtr(name), operationsUnasked
			resp.Topics = append(resp.Topics, t)
		}
		return d.paid()
	}
	var from string
	if r.Cursor != nil {
		from, d.cursor = r.Cursor.Topic, r.Cursor
	}
	if len(names) == 0 {
		for t := range d.img.TopicsFrom(from) {
			if !d.add(t.Name, t) {
				break
			}
		}
		return d.paid()
	}
	for _, name := range names {
		if name >= from && !d.add(name, d.img.Topic(name)) {
			break
		}
	}
	return d.paid()
}

// partitionPage is an answer under way.
type partitionPage struct {
	img    *metadata.Image
	resp   *kmsg.DescribeTopicPartitionsResponse
	cursor *kmsg.DescribeTopicPartitionsRequestCursor
	left   int // partitions that still fit
	cost   answerCost
	told   int  // bytes of the answer, at most
	broke  bool // there was no memory, and the call has been aborted
}

const (
	toldPageTopicBytes     = 64  // what a topic takes encoded, beside its name
	describedTopicBytes    = 128 // and decoded
	toldPagePartitionBytes = 64  // what a partition takes encoded, beside its replicas
	describedPartBytes     = 256 // and decoded
)

// pay takes memory for so many bytes of the answer and what they are encoded from; false when there is none.
func (d *partitionPage) pay(told, decoded int) bool {
	d.told += told
	d.broke = d.broke || !d.cost.take(int64(told+decoded))
	return !d.broke
}

// paid is the answer; nil when the call has been aborted.
func (d *partitionPage) paid() kmsg.Response {
	if d.broke {
		return nil
	}
	return &paidResponse{d.resp, d.told}
}

// add describes a topic, nil when there is none of that name, and answers false when the page is full.
func (d *partitionPage) add(name string, topic *metadata.Topic) bool {
	if d.left == 0 { // there is more: the next page begins here
		d.next(name, 0)
		return false
	}
	if !d.pay(toldPageTopicBytes+len(name), describedTopicBytes) {
		return false
	}
	t := kmsg.NewDescribeTopicPartitionsResponseTopic()
	t.Topic, t.AuthorizedOperations = kmsg.StringPtr(name), topicOperations
	if topic == nil {
		t.ErrorCode = int16(kafka.UnknownTopicOrPartition)
		if kafka.ValidateTopicName(name) != nil {
			t.ErrorCode = int16(kafka.InvalidTopicException)
		}
		d.resp.Topics = append(d.resp.Topics, t)
		return true
	}
	t.TopicID, t.IsInternal = topic.ID, topic.Internal
	first := 0
	if d.cursor != nil && d.cursor.Topic == name {
		first = min(int(d.cursor.Partition), len(topic.Partitions))
	}
	end := min(first+d.left, len(topic.Partitions))
	for i := first; i < end; i++ {
		p := &topic.Partitions[i]
		ids := 4 * (2*len(p.Replicas) + len(p.ISR) + len(p.ELR) + len(p.LastKnownELR)) // some of the replicas may be offline
		if !d.pay(toldPagePartitionBytes+ids, describedPartBytes+ids) {
			return false
		}
		t.Partitions = append(t.Partitions, d.partition(i, &topic.Partitions[i]))
	}
	d.left -= end - first
	d.resp.Topics = append(d.resp.Topics, t)
	if end < len(topic.Partitions) {
		d.next(name, end)
		return false
	}
	return true
}

func (d *partitionPage) next(name string, partition int) {
	n := kmsg.NewDescribeTopicPartitionsResponseNextCursor()
	n.Topic, n.Partition = name, int32(partition)
	d.resp.NextCursor = &n
	d.told += toldPageTopicBytes + len(name)
}

func (d *partitionPage) partition(i int, p *metadata.Partition) kmsg.DescribeTopicPartitionsResponseTopicPartition {
	out := kmsg.NewDescribeTopicPartitionsResponseTopicPartition()
	out.Partition, out.LeaderID, out.LeaderEpoch = int32(i), int32(p.Leader), int32(p.LeaderEpoch)
	if p.Leader == kafka.NoBroker {
		out.ErrorCode = int16(kafka.LeaderNotAvailable)
	}
	out.Replicas, out.ISR = brokerIDs(p.Replicas), brokerIDs(p.ISR)
	out.EligibleLeaderReplicas, out.LastKnownELR = brokerIDs(p.ELR), brokerIDs(p.LastKnownELR)
	out.OfflineReplicas = offline(d.img, p.Replicas)
	return out
}
