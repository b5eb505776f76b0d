package wire

import "github.com/tidemark/tidemark/core/kafka"

// Versions of Produce and Fetch that the codecs know, and the first flexible ones.
const (
	ProduceMin      = 3
	ProduceMax      = 13
	ProduceFlexible = 9
	FetchMin        = 4
	FetchMax        = 18
	FetchFlexible   = 12
)

// ProduceRequest is a Produce request as a view over its body.
type ProduceRequest struct {
	TransactionalID []byte // nil is null
	Acks            int16
	TimeoutMS       int32
	Topics          []ProduceTopic
	Partitions      []ProducePartition // of all topics, in order
}

// ProduceTopic names a topic (by id from version 13 on) and its range in Partitions.
type ProduceTopic struct {
	Name       []byte
	ID         kafka.TopicID
	First, End int
}

// ProducePartition is what goes to one partition. Records is nil where the request has null.
type ProducePartition struct {
	Partition kafka.Partition
	Records   []byte
}

// Parse makes p a view of a Produce request's body, using its slices again.
func (p *ProduceRequest) Parse(body []byte, version int16) error {
	flexible := version >= ProduceFlexible
	r := reader{b: body}
	p.Topics, p.Partitions = p.Topics[:0], p.Partitions[:0]
	p.TransactionalID = r.nullableString(flexible)
	p.Acks, p.TimeoutMS = r.int16(), r.int32()
	for n := r.count(flexible, 2); n > 0 && !r.bad; n-- {
		t := ProduceTopic{First: len(p.Partitions)}
		if version >= 13 {
			t.ID = r.uuid()
		} else {
			t.Name = r.string(flexible)
		}
		for m := r.count(flexible, 5); m > 0 && !r.bad; m-- {
			part := ProducePartition{Partition: kafka.Partition(r.int32()), Records: r.nullableBytes(flexible)}
			r.skipTags(flexible)
			p.Partitions = append(p.Partitions, part)
		}
		r.skipTags(flexible)
		t.End = len(p.Partitions)
		p.Topics = append(p.Topics, t)
		if len(p.Partitions) > MaxEntries {
			return ErrMalformed
		}
	}
	r.skipTags(flexible)
	if r.bad {
		return ErrMalformed
	}
	return nil
}

// Reset drops the views, so that the slices keep no request alive.
func (p *ProduceRequest) Reset() {
	clear(p.Topics)
	clear(p.Partitions)
	*p = ProduceRequest{Topics: p.Topics[:0], Partitions: p.Partitions[:0]}
}

// ProduceResult is the answer for one partition.
type ProduceResult struct {
	Err kafka.ErrorCode
	// HasBadRecord says that BadRecord is the index in the batch of the record that Text tells of (KIP-467, version 8 on).
	HasBadRecord  bool
	BadRecord     int32
	Base          kafka.Offset
	LogAppendTime int64 // -1: the client's times were kept
	LogStart      kafka.Offset
	Text          string // "" is null
	// HasLeader says that Leader and LeaderEpoch tell where to go instead (version 10 on).
	HasLeader   bool
	Leader      kafka.BrokerID
	LeaderEpoch kafka.LeaderEpoch
}

// AppendProduceResponse appends the body of the answer to p; results stand in the order of p.Partitions.
func AppendProduceResponse(dst []byte, version int16, p *ProduceRequest, results []ProduceResult, throttleMS int32) []byte {
	flexible := version >= ProduceFlexible
	dst = appendCount(dst, len(p.Topics), flexible)
	for i := range p.Topics {
		t := &p.Topics[i]
		if version >= 13 {
			dst = append(dst, t.ID[:]...)
		} else {
			dst = appendString(dst, t.Name, flexible)
		}
		dst = appendCount(dst, t.End-t.First, flexible)
		for j := t.First; j < t.End; j++ {
			dst = appendInt32(dst, int32(p.Partitions[j].Partition))
			dst = appendProduceResult(dst, version, &results[j])
		}
		dst = appendNoTags(dst, flexible)
	}
	dst = appendInt32(dst, throttleMS)
	return appendNoTags(dst, flexible)
}

func appendProduceResult(dst []byte, version int16, r *ProduceResult) []byte {
	flexible := version >= ProduceFlexible
	dst = appendInt16(dst, int16(r.Err))
	dst = appendInt64(dst, int64(r.Base))
	dst = appendInt64(dst, r.LogAppendTime)
	if version >= 5 {
		dst = appendInt64(dst, int64(r.LogStart))
	}
	if version >= 8 {
		dst = appendBadRecord(dst, r, flexible)
		dst = appendText(dst, r.Text, flexible)
	}
	if version >= 10 && r.HasLeader {
		dst = append(dst, 1)
		return appendLeaderTag(dst, 0, r.Leader, r.LeaderEpoch)
	}
	return appendNoTags(dst, flexible)
}

// appendBadRecord appends the list of errors of single records: one at most.
func appendBadRecord(dst []byte, r *ProduceResult, flexible bool) []byte {
	if !r.HasBadRecord {
		return appendCount(dst, 0, flexible)
	}
	dst = appendCount(dst, 1, flexible)
	dst = appendInt32(dst, r.BadRecord)
	dst = appendText(dst, r.Text, flexible)
	return appendNoTags(dst, flexible)
}
