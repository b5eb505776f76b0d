package sink

import (
	"encoding/binary"

	"github.com/twmb/franz-go/pkg/kbin"

	"github.com/tidemark/tidemark/core/kafka"
	"github.com/tidemark/tidemark/core/record"
)

// Produce is parsed and answered in one pass by hand: the answer mirrors the request's topics and partitions, so it is
// written to the connection's output while the request is read. Parsing is the sink's own, not core/wire's, so that the
// raw driver, which uses core/wire, is not its own witness.

// produceVersions are those served; topic names up to 12, ids at 13.
const (
	produceMin, produceMax = 3, 13
	produceFlexible        = 9
	produceIDs             = 13
)

// produceRequest is the state of one pass.
type produceRequest struct {
	version  int16
	flexible bool
	acks     int16
	now, due int64
	records  int64
	batches  int64
	bytes    int64
	silent   bool // no answer at all
	twice    bool
	hangup   bool
}

// handleProduce handles a request whose header was read; b is at its body. It reports whether the connection goes on.
func (c *conn) handleProduce(s *scripted, now int64, version int16, correlation int32, b *kbin.Reader) bool {
	p := &c.produce
	*p = produceRequest{version: version, flexible: version >= produceFlexible, now: now, due: s.frozenUntil(now)}
	_ = p.nullable(b) // transactional id
	p.acks = b.Int16()
	b.Int32() // timeout
	at := c.begin()
	c.out = binary.BigEndian.AppendUint32(c.out, uint32(correlation))
	if p.flexible {
		c.out = append(c.out, 0)
	}
	topics := p.count(b)
	c.count(p, topics)
	for range topics {
		if !b.Ok() {
			break
		}
		c.produceTopic(s, p, b)
	}
	if p.flexible {
		skipTags(b)
	}
	c.out = binary.BigEndian.AppendUint32(c.out, uint32(s.Throttle.Milliseconds()))
	if p.flexible {
		c.out = append(c.out, 0)
	}
	st := &c.sink.stats
	st.produces.Add(1)
	st.batches.Add(p.batches)
	st.records.Add(p.records)
	st.bytes.Add(p.bytes)
	switch {
	case b.Complete() != nil:
		c.drop(at)
		return false
	case p.hangup:
		c.drop(at)
		return false
	case p.acks == 0 || p.silent:
		c.drop(at)
		return true
	}
	if p.twice {
		again := append([]byte(nil), c.out[at+4:]...)
		c.end(at, p.due, now)
		at = c.begin()
		c.out = append(c.out, again...)
	}
	c.end(at, p.due, now)
	return true
}

func (p *produceRequest) nullable(b *kbin.Reader) []byte {
	if p.flexible {
		return b.CompactNullableBytes()
	}
	n := b.Int16()
	if n < 0 {
		return nil
	}
	return b.Span(int(n))
}

// count reads an array's length; a length that the input cannot hold ends the parse.
func (p *produceRequest) count(b *kbin.Reader) int {
	n := int32(0)
	if p.flexible {
		n = b.CompactArrayLen()
	} else {
		n = b.ArrayLen()
	}
	if int(n) > len(b.Src) {
		b.Src = nil
		b.Int8() // marks the reader as failed
		return 0
	}
	return max(int(n), 0)
}

func (c *conn) count(p *produceRequest, n int) {
	if p.flexible {
		c.out = binary.AppendUvarint(c.out, uint64(n+1))
	} else {
		c.out = binary.BigEndian.AppendUint32(c.out, uint32(n))
	}
}

func (c *conn) produceTopic(s *scripted, p *produceRequest, b *kbin.Reader) {
	var t *topic
	if p.version >= produceIDs {
		id := b.Uuid()
		t = c.sink.topics.find(nil, id)
		c.out = append(c.out, id[:]...)
	} else {
		name := p.nullable(b)
		t = c.sink.topics.find(name, kafka.TopicID{})
		if p.flexible {
			c.out = binary.AppendUvarint(c.out, uint64(len(name)+1))
		} else {
			c.out = binary.BigEndian.AppendUint16(c.out, uint16(len(name)))
		}
		c.out = append(c.out, name...)
	}
	parts := p.count(b)
	c.count(p, parts)
	for range parts {
		if !b.Ok() {
			return
		}
		index := b.Int32()
		var batches []byte
		if p.flexible {
			batches = b.CompactNullableBytes()
			skipTags(b)
		} else {
			batches = b.NullableBytes()
		}
		base, code := c.produceBatches(s, p, t, index, batches)
		c.produceAnswer(p, index, base, code)
	}
	if p.flexible {
		skipTags(b)
		c.out = append(c.out, 0)
	}
}

// produceBatches takes the batches for one partition; Kafka's clients send one.
func (c *conn) produceBatches(s *scripted, p *produceRequest, t *topic, index int32, batches []byte) (kafka.Offset, kafka.ErrorCode) {
	part := t.part(index)
	if part == nil {
		if p.version >= produceIDs && t == nil {
			return -1, kafka.UnknownTopicId
		}
		return -1, kafka.UnknownTopicOrPartition
	}
	first, code := kafka.Offset(-1), kafka.None
	for len(batches) > 0 {
		batch, rest, err := record.Next(batches)
		if err != nil || len(batch) < record.HeaderBytes || batch.NumRecords() < 0 {
			return -1, kafka.CorruptMessage
		}
		batches = rest
		n := int64(batch.NumRecords())
		p.batches, p.records, p.bytes = p.batches+1, p.records+n, p.bytes+int64(len(batch))
		s.count(p.now, n)
		due := c.sink.due(s, p.now, int(n))
		harm := Kind("")
		if len(s.faults) > 0 {
			if f, hit := c.sink.harm(s, t.name, part.swapping()); hit {
				harm = f.Kind
				code = p.harmed(f, code)
			}
		}
		if p.acks == 0 || p.silent {
			due = 0
		}
		p.due = max(p.due, due)
		base, at, dropped := part.append(s, batch, harm, p.now, due)
		if s.LogArrivals && due > 0 {
			c.logged = append(c.logged, logged{part, at})
		}
		if first < 0 {
			first = base
		}
		c.sink.stats.dropped.Add(int64(dropped))
	}
	if code != kafka.None {
		first = -1
	}
	return first, code
}

// harmed notes what a fault does to the request.
func (p *produceRequest) harmed(f *armed, code kafka.ErrorCode) kafka.ErrorCode {
	switch f.Kind {
	case Refuse, StoreFail:
		return f.Code
	case DropAck:
		p.silent = true
	case RepeatAck:
		p.twice = true
	case Hangup:
		p.hangup = true
	}
	return code
}

func (c *conn) produceAnswer(p *produceRequest, index int32, base kafka.Offset, code kafka.ErrorCode) {
	out := binary.BigEndian.AppendUint32(c.out, uint32(index))
	out = binary.BigEndian.AppendUint16(out, uint16(code))
	out = binary.BigEndian.AppendUint64(out, uint64(base))
	out = binary.BigEndian.AppendUint64(out, ^uint64(0)) // log append time: create time is used
	if p.version >= 5 {
		out = binary.BigEndian.AppendUint64(out, 0) // log start
	}
	if p.version >= 8 {
		if p.flexible {
			out = append(out, 1, 0) // no record errors, no message
		} else {
			out = append(out, 0, 0, 0, 0, 0xff, 0xff)
		}
	}
	if p.flexible {
		out = append(out, 0)
	}
	c.out = out
}

// skipTags passes over the tagged fields of a flexible message.
func skipTags(b *kbin.Reader) {
	for n := b.Uvarint(); n > 0 && b.Ok(); n-- {
		b.Uvarint()
		b.Span(int(b.Uvarint()))
	}
}
