package api

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/core/kafka"
)

// listOffsets serves API key 2, versions 1 to 11.
func (h *Handlers) listOffsets(c *Call, req kmsg.Request) kmsg.Response {
	r := req.(*kmsg.ListOffsetsRequest)
	resp := kmsg.NewPtrListOffsetsResponse()
	doubled := askedTwice(r)
	for i := range r.Topics {
		in := &r.Topics[i]
		out := kmsg.NewListOffsetsResponseTopic()
		out.Topic = in.Topic
		for j := range in.Partitions {
			p := &in.Partitions[j]
			if doubled.has(i, p.Partition) {
				o := kmsg.NewListOffsetsResponseTopicPartition()
				o.Partition = p.Partition
				fillOffset(&o, kafka.InvalidRequest)
				out.Partitions = append(out.Partitions, o)
				continue
			}
			out.Partitions = append(out.Partitions, h.listOffset(c, in.Topic, p, r.IsolationLevel == 1))
		}
		resp.Topics = append(resp.Topics, out)
	}
	return resp
}

// askedTwice finds the partitions that a request names more than once. Kafka refuses them, and they alone; a look-up by time may
// read a whole batch, so that none must be made as often as one request can name a partition.
func askedTwice(r *kmsg.ListOffsetsRequest) (d doubled) {
	n := 0
	for i := range r.Topics {
		n += len(r.Topics[i].Partitions)
	}
	if n < 2 {
		return d
	}
	first := make(map[string]int, len(r.Topics))
	d.first = make([]int, len(r.Topics))
	seen := make(map[askedPartition]struct{}, n)
	for i := range r.Topics {
		name := r.Topics[i].Topic
		if _, again := first[name]; !again {
			first[name] = i
		}
		d.first[i] = first[name]
		for j := range r.Topics[i].Partitions {
			p := askedPartition{d.first[i], r.Topics[i].Partitions[j].Partition}
			if _, again := seen[p]; !again {
				seen[p] = struct{}{}
				continue
			}
			if d.twice == nil {
				d.twice = map[askedPartition]bool{}
			}
			d.twice[p] = true
		}
	}
	return d
}

// askedPartition is a partition of the topic whose name stands first at a number in the request: a name may be long, and is looked at
// once.
type askedPartition struct {
	topic     int
	partition int32
}

// doubled are the partitions that a request names more than once.
type doubled struct {
	first []int // for each topic of the request
	twice map[askedPartition]bool
}

func (d *doubled) has(topic int, partition int32) bool {
	return len(d.twice) > 0 && d.twice[askedPartition{d.first[topic], partition}]
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
	p, code := h.partitionOf(topic, in.Partition)
	if code == kafka.None {
		code = p.CheckEpoch(kafka.LeaderEpoch(in.CurrentLeaderEpoch))
	}
	if code != kafka.None {
		fillOffset(&out, code)
		return out
	}
	found, code := p.ListOffset(in.Timestamp, committed)
	if code == kafka.OffsetNotAvailable && c.Version < 5 {
		code = kafka.LeaderNotAvailable // which such clients know, and try again
	}
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
