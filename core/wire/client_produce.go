package wire

import (
	"encoding/binary"

	"github.com/tidemark/tidemark/core/kafka"
)

// ClientProduce is a Produce request as a client sends it. Versions 3 to 13.
type ClientProduce struct {
	Acks      int16
	TimeoutMS int32
	Topics    []ClientProduceTopic
}

// ClientProduceTopic is one topic of it: by name to version 12, by id from 13.
type ClientProduceTopic struct {
	Name       string
	ID         kafka.TopicID
	Partitions []ClientProducePartition
}

// ClientProducePartition is one partition of it. RecordBytes is the length of its record batch, which the encoder does
// not see.
type ClientProducePartition struct {
	Index       kafka.Partition
	RecordBytes int
}

// AppendClientProduce appends the frame of a Produce request without its record batches, so that they need not be
// copied: cuts gets, for each partition in order, the position in dst behind which its batch belongs. The frame's
// length counts them. dst should be empty or the positions are those of the whole dst.
func AppendClientProduce(dst []byte, h ClientHeader, p *ClientProduce, cuts []int) ([]byte, []int) {
	start, more := len(dst), 0
	flexible := h.Version >= 9
	dst = h.append(dst, 0, flexible)
	if flexible {
		dst = append(dst, 0) // no transactional id
	} else {
		dst = append(dst, 0xff, 0xff)
	}
	dst = binary.BigEndian.AppendUint16(dst, uint16(p.Acks))
	dst = binary.BigEndian.AppendUint32(dst, uint32(p.TimeoutMS))
	dst = clientAppendArrayLen(dst, len(p.Topics), flexible)
	for i := range p.Topics {
		t := &p.Topics[i]
		if h.Version >= 13 {
			dst = append(dst, t.ID[:]...)
		} else {
			dst = clientAppendString(dst, t.Name, flexible)
		}
		dst = clientAppendArrayLen(dst, len(t.Partitions), flexible)
		for _, q := range t.Partitions {
			dst = binary.BigEndian.AppendUint32(dst, uint32(q.Index))
			if flexible {
				dst = binary.AppendUvarint(dst, uint64(q.RecordBytes)+1)
			} else {
				dst = binary.BigEndian.AppendUint32(dst, uint32(q.RecordBytes))
			}
			cuts = append(cuts, len(dst))
			more += q.RecordBytes
			if flexible {
				dst = append(dst, 0)
			}
		}
		if flexible {
			dst = append(dst, 0)
		}
	}
	if flexible {
		dst = append(dst, 0)
	}
	endFrame(dst, start, more)
	return dst, cuts
}

// ClientProduceAnswer is a view over the answer to a Produce request.
type ClientProduceAnswer struct {
	Topics     int // how many are left to be read
	ThrottleMS int32

	r          answerReader
	version    int16
	partitions int
	topic      ClientAnswerTopic
}

// ClientAnswerTopic names an answer's topic: by name or, where the version does so, by id.
type ClientAnswerTopic struct {
	Name []byte
	ID   kafka.TopicID
}

// ClientProduced is what an answer says of one partition.
type ClientProduced struct {
	Topic       ClientAnswerTopic
	Index       kafka.Partition
	Err         kafka.ErrorCode
	Message     []byte
	BaseOffset  kafka.Offset
	LogAppendMS int64
	LogStart    kafka.Offset
	LeaderID    kafka.BrokerID // -1 where it is not told
	LeaderEpoch kafka.LeaderEpoch
}

// ParseClientProduceAnswer begins to read an answer; b begins behind the correlation id.
func ParseClientProduceAnswer(b []byte, version int16) *ClientProduceAnswer {
	a := &ClientProduceAnswer{version: version, r: answerBody(b, version >= 9)}
	a.Topics = a.r.arrayLen()
	return a
}

// Next reads the next partition. When it returns false, Err tells whether the answer was whole, and ThrottleMS stands.
func (a *ClientProduceAnswer) Next(p *ClientProduced) bool {
	for a.partitions == 0 {
		if a.r.bad {
			return false
		}
		if a.Topics == 0 {
			a.ThrottleMS = a.r.int32()
			a.r.eachTag(nil)
			return false
		}
		a.Topics--
		a.topic = a.r.topic(a.version >= 13)
		if a.partitions = a.r.arrayLen(); a.partitions == 0 {
			a.r.eachTag(nil)
		}
	}
	a.partitions--
	a.partition(p)
	if a.partitions == 0 {
		a.r.eachTag(nil)
	}
	return !a.r.bad
}

func (r *answerReader) topic(byID bool) (t ClientAnswerTopic) {
	if byID {
		copy(t.ID[:], r.take(16))
	} else {
		t.Name = r.string()
	}
	return t
}

func (a *ClientProduceAnswer) partition(p *ClientProduced) {
	r := &a.r
	*p = ClientProduced{Topic: a.topic, Index: kafka.Partition(r.int32()), Err: kafka.ErrorCode(r.int16()), BaseOffset: kafka.Offset(r.int64()),
		LogAppendMS: r.int64(), LogStart: -1, LeaderID: -1, LeaderEpoch: -1}
	if a.version >= 5 {
		p.LogStart = kafka.Offset(r.int64())
	}
	if a.version >= 8 {
		for n := r.arrayLen(); n > 0 && !r.bad; n-- {
			r.int32()
			if m := r.string(); p.Message == nil {
				p.Message = m
			}
			r.eachTag(nil)
		}
		if m := r.string(); m != nil {
			p.Message = m
		}
	}
	if !r.flexible {
		return
	}
	r.eachTag(func(tag uint64, v []byte) {
		if tag == 0 && len(v) >= 8 {
			p.LeaderID = kafka.BrokerID(binary.BigEndian.Uint32(v))
			p.LeaderEpoch = kafka.LeaderEpoch(binary.BigEndian.Uint32(v[4:]))
		}
	})
}

// Err tells, after Next returned false, whether the answer was cut short.
func (a *ClientProduceAnswer) Err() error {
	if a.r.bad {
		return errShortAnswer
	}
	return nil
}
