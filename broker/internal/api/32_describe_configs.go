package api

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/broker/config"
	"github.com/tidemark/tidemark/broker/internal/metadata"
	"github.com/tidemark/tidemark/core/kafka"
	"github.com/tidemark/tidemark/core/wire"
)

// describeConfigs serves API key 32, versions 1 to 4, for topics and for this broker. The answer is encoded resource by
// resource: decoded, that of a hundred thousand topics took a gigabyte.
func (h *Handlers) describeConfigs(c *Call, req kmsg.Request) kmsg.Response {
	r := req.(*kmsg.DescribeConfigsRequest)
	a := newConfigsAnswer(c, r)
	img := h.Image()
	type resource struct {
		kind kmsg.ConfigResourceType
		name string
	}
	told := map[resource]bool{} // an answer is much larger than a question: each is given once
	for i := range r.Resources {
		asked := &r.Resources[i]
		of := resource{asked.ResourceType, asked.ResourceName}
		if id, err := strconv.ParseInt(of.name, 10, 32); err == nil && of.kind == kmsg.ConfigResourceTypeBroker {
			of.name = strconv.FormatInt(id, 10) // 0, 00 and +0 are one broker
		}
		out := kmsg.NewDescribeConfigsResponseResource()
		out.ResourceType, out.ResourceName = asked.ResourceType, asked.ResourceName
		ok := true
		switch {
		case told[of]:
			out.ErrorCode, out.ErrorMessage = int16(kafka.InvalidRequest), kmsg.StringPtr("The resource is named twice.")
			ok = a.add(&out)
		case a.plain != nil && hasDefaults(img, asked):
			ok = a.addDefaults(&out)
		default:
			h.describeResource(img, r, asked, &out)
			if ok = a.add(&out); ok && hasDefaults(img, asked) {
				a.keepDefaults(&out)
			}
		}
		if !ok {
			return nil
		}
		told[of] = true
	}
	a.send()
	return nil
}

// hasDefaults says whether a whole topic is asked for that has no settings of its own: all such are told the same.
func hasDefaults(img *metadata.Image, asked *kmsg.DescribeConfigsRequestResource) bool {
	return asked.ResourceType == kmsg.ConfigResourceTypeTopic && len(asked.ConfigNames) == 0 && img.Topic(asked.ResourceName) != nil &&
		len(img.Config(metadata.TopicResource, asked.ResourceName)) == 0
}

func (h *Handlers) describeResource(img *metadata.Image, r *kmsg.DescribeConfigsRequest, asked *kmsg.DescribeConfigsRequestResource, out *kmsg.DescribeConfigsResponseResource) {
	entries, code, text := h.configEntries(img, asked)
	out.ErrorCode, out.ErrorMessage = int16(code), clip(text)
	for _, e := range entries {
		if len(asked.ConfigNames) == 0 || slices.Contains(asked.ConfigNames, e.Definition.Name) {
			out.Configs = append(out.Configs, describeEntry(r, &e))
		}
	}
}

// configsAnswer is the answer of a DescribeConfigs as it is encoded. It pays for the memory that it takes.
//
//	head: [header, number of resources][resource][name of a topic]          [name of a topic] ...
//	plain:                                                        [settings]                 [settings] ...
type configsAnswer struct {
	c      *Call
	cost   answerCost
	left   int    // resources to come
	out    []byte // head
	pieces []Piece
	mark   int // up to here out is in pieces
	shared int // bytes of pieces that are plain

	one   kmsg.DescribeConfigsResponse // holds one resource, to encode it
	bytes []byte                       // of one
	front int                          // of what comes before the resource there
	back  int                          // and behind it
	plain []byte                       // the settings of a topic that has none of its own, once one was asked for
}

func newConfigsAnswer(c *Call, r *kmsg.DescribeConfigsRequest) *configsAnswer {
	a := &configsAnswer{c: c, cost: answerCost{c: c}, left: len(r.Resources), front: 4 + 4}
	a.one.SetVersion(r.Version)
	if a.one.IsFlexible() {
		a.front, a.back = 4+1, 1 // the number 1 is one byte; no tags
	}
	a.out = wire.AppendResponseHeader(make([]byte, 0, replyBytes), c.CorrelationID, a.one.IsFlexible())
	a.out = appendResourceCount(a.out, len(r.Resources), a.one.IsFlexible())
	return a
}

// appendResourceCount appends what comes before the resources: no throttling, and their number.
func appendResourceCount(dst []byte, n int, flexible bool) []byte {
	dst = append(dst, 0, 0, 0, 0)
	if flexible {
		return binary.AppendUvarint(dst, uint64(n)+1)
	}
	return binary.BigEndian.AppendUint32(dst, uint32(n))
}

// encode gives a resource's bytes, which are good until the next call.
func (a *configsAnswer) encode(r *kmsg.DescribeConfigsResponseResource) []byte {
	a.one.Resources = append(a.one.Resources[:0], *r)
	a.bytes = a.one.AppendTo(a.bytes[:0])
	return a.bytes[a.front : len(a.bytes)-a.back]
}

// encodeName gives what comes before a resource's settings.
func (a *configsAnswer) encodeName(r *kmsg.DescribeConfigsResponseResource) []byte {
	bare := *r
	bare.Configs = nil
	b := a.encode(&bare)
	if a.one.IsFlexible() {
		return b[:len(b)-2] // without the number 0 and tags
	}
	return b[:len(b)-4]
}

// add encodes a resource; false when there is no memory for it and the call has been aborted.
func (a *configsAnswer) add(r *kmsg.DescribeConfigsResponseResource) bool {
	return a.append(a.encode(r), 0)
}

// keepDefaults keeps the settings of a topic for others that are told the same.
func (a *configsAnswer) keepDefaults(r *kmsg.DescribeConfigsResponseResource) {
	name := len(a.encodeName(r))
	a.plain = bytes.Clone(a.encode(r)[name:])
}

// addDefaults adds a topic that has no settings of its own, as add does.
func (a *configsAnswer) addDefaults(r *kmsg.DescribeConfigsResponseResource) bool {
	if !a.append(a.encodeName(r), 2*pieceBytes) {
		return false
	}
	a.pieces = append(a.pieces, Piece{From: a.mark, To: len(a.out)}, Piece{B: a.plain})
	a.mark = len(a.out)
	a.shared += len(a.plain)
	return true
}

// pieceBytes is what a Piece takes, and once more since their list grows by being copied.
const pieceBytes = 2 * 80

// append appends to the head, which grows to what is left when that takes as much again, or else to the double.
func (a *configsAnswer) append(b []byte, beside int64) bool {
	grow := 0
	if cap(a.out)-len(a.out) < len(b)+1 { // and the tags at the end
		grow = max(len(b)+1, min(a.left*(len(b)+1), len(a.out)))
	}
	if !a.cost.take(int64(grow) + beside) {
		return false
	}
	if grow > 0 {
		a.out = append(make([]byte, 0, len(a.out)+grow), a.out...)
	}
	a.out = append(a.out, b...)
	a.left--
	return true
}

func (a *configsAnswer) send() {
	if a.one.IsFlexible() {
		a.out = append(a.out, 0)
	}
	wire.FinishFrame(a.out, a.shared)
	if len(a.pieces) > 0 && a.mark < len(a.out) {
		a.pieces = append(a.pieces, Piece{From: a.mark, To: len(a.out)})
	}
	a.c.Answer.Head, a.c.Answer.Pieces = a.out, a.pieces
	a.c.Conn.Completed(a.c)
}

// configEntries finds what a resource has to tell.
func (h *Handlers) configEntries(img *metadata.Image, asked *kmsg.DescribeConfigsRequestResource) (entries []config.Entry, code kafka.ErrorCode, text string) {
	name := asked.ResourceName
	switch asked.ResourceType {
	case kmsg.ConfigResourceTypeTopic:
		if err := kafka.ValidateTopicName(name); err != nil {
			return nil, kafka.InvalidTopicException, err.Error()
		}
		if img.Topic(name) == nil {
			return nil, kafka.UnknownTopicOrPartition, ""
		}
		return h.Config.Now().DescribeTopic(img.Config(metadata.TopicResource, name)), kafka.None, ""
	case kmsg.ConfigResourceTypeBroker:
		if name == "" { // what was set at run time for all brokers
			return h.Config.Now().DescribeAll(), kafka.None, ""
		}
		if code, text := h.otherBroker(name, " or empty string,"); code != kafka.None {
			return nil, code, text
		}
		return h.Config.Now().Describe(), kafka.None, ""
	case kmsg.ConfigResourceTypeBrokerLogger: // this broker's log has no levels that could be asked for
		if name == "" {
			return nil, kafka.InvalidRequest, "Broker id must not be empty"
		}
		code, text := h.otherBroker(name, "")
		return nil, code, text
	}
	return nil, kafka.InvalidRequest, fmt.Sprintf("Configs of resource type %s are not served.", asked.ResourceType)
}

// otherBroker refuses a broker id that is not this broker's.
func (h *Handlers) otherBroker(name, orElse string) (kafka.ErrorCode, string) {
	id, err := strconv.ParseInt(name, 10, 32)
	if err != nil {
		return kafka.InvalidRequest, "Broker id must be an integer, but it is: " + name
	}
	if kafka.BrokerID(id) != h.NodeID {
		return kafka.InvalidRequest, fmt.Sprintf("Unexpected broker id, expected %d%s but received %s", h.NodeID, orElse, name)
	}
	return kafka.None, ""
}

func describeEntry(r *kmsg.DescribeConfigsRequest, e *config.Entry) kmsg.DescribeConfigsResponseResourceConfig {
	d := e.Definition
	c := kmsg.NewDescribeConfigsResponseResourceConfig()
	c.Name, c.ReadOnly, c.Source, c.ConfigType = d.Name, e.ReadOnly, kmsg.ConfigSource(e.Source), kmsg.ConfigType(d.Type)
	c.IsSensitive = d.Type == config.Password
	if !e.Null && !c.IsSensitive {
		c.Value = kmsg.StringPtr(e.Value)
	}
	if r.IncludeSynonyms {
		for _, s := range e.Synonyms {
			cs := kmsg.NewDescribeConfigsResponseResourceConfigConfigSynonym()
			cs.Name, cs.Source = s.Name, kmsg.ConfigSource(s.Source)
			if !c.IsSensitive {
				cs.Value = kmsg.StringPtr(s.Value)
			}
			c.ConfigSynonyms = append(c.ConfigSynonyms, cs)
		}
	}
	if r.IncludeDocumentation && r.Version >= 3 {
		c.Documentation = &d.Doc
	}
	return c
}
