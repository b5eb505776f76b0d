package wire

import (
	"encoding/binary"

	"github.com/tidemark/tidemark/core/kafka"
)

// ClientFetch is a Fetch request as a consumer sends it. Versions 4 to 18.
type ClientFetch struct {
	MaxWaitMS    int32
	MinBytes     int32
	MaxBytes     int32
	Isolation    kafka.IsolationLevel
	SessionID    int32 // 0 and SessionEpoch -1: no session
	SessionEpoch int32
	Topics       []ClientFetchTopic
	Forgotten    []ClientFetchTopic // Index of each partition is looked at
}

// ClientFetchTopic is one topic of it: by name to version 12, by id from 13.
type ClientFetchTopic struct {
	Name       string
	ID         kafka.TopicID
	Partitions []ClientFetchPartition
}

// ClientFetchPartition says where to go on in one partition.
type ClientFetchPartition struct {
	Index       kafka.Partition
	LeaderEpoch kafka.LeaderEpoch // -1: not known
	Offset      kafka.Offset
	MaxBytes    int32
}

// AppendClientFetch appends the frame of a Fetch request.
func AppendClientFetch(dst []byte, h ClientHeader, f *ClientFetch) []byte {
	start := len(dst)
	v, flexible := h.Version, h.Version >= 12
	dst = h.append(dst, 1, flexible)
	if v <= 14 {
		dst = append(dst, 0xff, 0xff, 0xff, 0xff) // replica id -1: a consumer
	}
	dst = binary.BigEndian.AppendUint32(dst, uint32(f.MaxWaitMS))
	dst = binary.BigEndian.AppendUint32(dst, uint32(f.MinBytes))
	dst = binary.BigEndian.AppendUint32(dst, uint32(f.MaxBytes))
	dst = append(dst, byte(f.Isolation))
	if v >= 7 {
		dst = binary.BigEndian.AppendUint32(dst, uint32(f.SessionID))
		dst = binary.BigEndian.AppendUint32(dst, uint32(f.SessionEpoch))
	}
	dst = clientAppendArrayLen(dst, len(f.Topics), flexible)
	for i := range f.Topics {
		dst = appendClientFetchTopic(dst, v, &f.Topics[i])
	}
	if v >= 7 {
		dst = clientAppendArrayLen(dst, len(f.Forgotten), flexible)
		for i := range f.Forgotten {
			dst = appendClientForgotten(dst, v, &f.Forgotten[i])
		}
	}
	if v >= 11 {
		dst = clientAppendString(dst, "", flexible) // rack
	}
	if flexible {
		dst = append(dst, 0)
	}
	endFrame(dst, start, 0)
	return dst
}

func appendClientFetchTopic(dst []byte, v int16, t *ClientFetchTopic) []byte {
	flexible := v >= 12
	if v >= 13 {
		dst = append(dst, t.ID[:]...)
	} else {
		dst = clientAppendString(dst, t.Name, flexible)
	}
	dst = clientAppendArrayLen(dst, len(t.Partitions), flexible)
	for _, p := range t.Partitions {
		dst = binary.BigEndian.AppendUint32(dst, uint32(p.Index))
		if v >= 9 {
			dst = binary.BigEndian.AppendUint32(dst, uint32(p.LeaderEpoch))
		}
		dst = binary.BigEndian.AppendUint64(dst, uint64(p.Offset))
		if v >= 12 {
			dst = append(dst, 0xff, 0xff, 0xff, 0xff) // last fetched epoch: followers only
		}
		if v >= 5 {
			dst = append(dst, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff) // log start offset: followers only
		}
		dst = binary.BigEndian.AppendUint32(dst, uint32(p.MaxBytes))
		if flexible {
			dst = append(dst, 0)
		}
	}
	if flexible {
		dst = append(dst, 0)
	}
	return dst
}

func appendClientForgotten(dst []byte, v int16, t *ClientFetchTopic) []byte {
	flexible := v >= 12
	if v >= 13 {
		dst = append(dst, t.ID[:]...)
	} else {
		dst = clientAppendString(dst, t.Name, flexible)
	}
	dst = clientAppendArrayLen(dst, len(t.Partitions), flexible)
	for _, p := range t.Partitions {
		dst = binary.BigEndian.AppendUint32(dst, uint32(p.Index))
	}
	if flexible {
		dst = append(dst, 0)
	}
	return dst
}

// ClientFetchAnswer is a view over the answer to a Fetch request.
type ClientFetchAnswer struct {
	ThrottleMS int32
	Err        kafka.ErrorCode // of the request as a whole (the session)
	SessionID  int32

	r          answerReader
	version    int16
	topics     int
	partitions int
	topic      ClientAnswerTopic
}

// ClientFetched is what an answer says of one partition. Records is a view over the frame: a run of batches, of which
// the last may be cut short.
type ClientFetched struct {
	Topic         ClientAnswerTopic
	Index         kafka.Partition
	Err           kafka.ErrorCode
	HighWatermark kafka.Offset
	LastStable    kafka.Offset
	LogStart      kafka.Offset
	Aborted       int // how many aborted transactions AbortedAt can be asked for
	Records       []byte
	LeaderID      kafka.BrokerID // -1 where it is not told
	LeaderEpoch   kafka.LeaderEpoch

	aborted []byte
	stride  int
}

// ParseClientFetchAnswer begins to read an answer; b begins behind the correlation id.
func ParseClientFetchAnswer(b []byte, version int16) *ClientFetchAnswer {
	a := &ClientFetchAnswer{version: version, r: answerBody(b, version >= 12)}
	a.ThrottleMS = a.r.int32()
	if version >= 7 {
		a.Err = kafka.ErrorCode(a.r.int16())
		a.SessionID = a.r.int32()
	}
	a.topics = a.r.arrayLen()
	return a
}

// Next reads the next partition. When it returns false, Whole tells whether the answer was whole.
func (a *ClientFetchAnswer) Next(p *ClientFetched) bool {
	for a.partitions == 0 {
		if a.r.bad {
			return false
		}
		if a.topics == 0 {
			a.r.eachTag(nil)
			return false
		}
		a.topics--
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

func (a *ClientFetchAnswer) partition(p *ClientFetched) {
	r := &a.r
	*p = ClientFetched{Topic: a.topic, Index: kafka.Partition(r.int32()), Err: kafka.ErrorCode(r.int16()), HighWatermark: kafka.Offset(r.int64()),
		LastStable: kafka.Offset(r.int64()), LogStart: -1, LeaderID: -1, LeaderEpoch: -1, stride: 16}
	if a.version >= 5 {
		p.LogStart = kafka.Offset(r.int64())
	}
	p.Aborted = r.arrayLen()
	p.aborted = r.b
	for n := p.Aborted; n > 0 && !r.bad; n-- {
		r.take(16)
		before := len(r.b)
		r.eachTag(nil)
		p.stride = 16 + before - len(r.b)
	}
	if a.version >= 11 {
		r.int32() // preferred read replica
	}
	p.Records = r.bytes()
	if r.bad {
		p.Aborted, p.Records = 0, nil
	}
	r.eachTag(func(tag uint64, v []byte) {
		if tag == 1 && len(v) >= 8 {
			p.LeaderID = kafka.BrokerID(binary.BigEndian.Uint32(v))
			p.LeaderEpoch = kafka.LeaderEpoch(binary.BigEndian.Uint32(v[4:]))
		}
	})
}

// AbortedAt tells the i-th aborted transaction: records of the producer from the offset to its abort marker are not to
// be delivered to readers of committed records. -1, -1 where the answer does not hold it.
func (p *ClientFetched) AbortedAt(i int) (kafka.ProducerID, kafka.Offset) {
	if i < 0 || i >= p.Aborted || (i+1)*p.stride > len(p.aborted) {
		return -1, -1
	}
	b := p.aborted[i*p.stride:]
	return kafka.ProducerID(binary.BigEndian.Uint64(b)), kafka.Offset(binary.BigEndian.Uint64(b[8:]))
}

// Whole tells, after Next returned false, whether the answer was cut short.
func (a *ClientFetchAnswer) Whole() error {
	if a.r.bad {
		return errShortAnswer
	}
	return nil
}
