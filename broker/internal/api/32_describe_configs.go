package api

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/broker/config"
	"github.com/tidemark/tidemark/broker/internal/metadata"
	"github.com/tidemark/tidemark/core/kafka"
)

// describeConfigs serves API key 32, versions 1 to 4, for topics and for this broker.
func (h *Handlers) describeConfigs(c *Call, req kmsg.Request) kmsg.Response {
	r := req.(*kmsg.DescribeConfigsRequest)
	resp := kmsg.NewPtrDescribeConfigsResponse()
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
		if told[of] {
			again := kmsg.NewDescribeConfigsResponseResource()
			again.ResourceType, again.ResourceName = asked.ResourceType, asked.ResourceName
			again.ErrorCode, again.ErrorMessage = int16(kafka.InvalidRequest), kmsg.StringPtr("The resource is named twice.")
			resp.Resources = append(resp.Resources, again)
			continue
		}
		told[of] = true
		resp.Resources = append(resp.Resources, h.describeResource(r, asked))
	}
	return resp
}

func (h *Handlers) describeResource(r *kmsg.DescribeConfigsRequest, asked *kmsg.DescribeConfigsRequestResource) kmsg.DescribeConfigsResponseResource {
	out := kmsg.NewDescribeConfigsResponseResource()
	out.ResourceType, out.ResourceName = asked.ResourceType, asked.ResourceName
	entries, code, text := h.configEntries(asked)
	out.ErrorCode, out.ErrorMessage = int16(code), clip(text)
	for _, e := range entries {
		if len(asked.ConfigNames) == 0 || slices.Contains(asked.ConfigNames, e.Definition.Name) {
			out.Configs = append(out.Configs, describeEntry(r, &e))
		}
	}
	return out
}

// configEntries finds what a resource has to tell.
func (h *Handlers) configEntries(asked *kmsg.DescribeConfigsRequestResource) (entries []config.Entry, code kafka.ErrorCode, text string) {
	name := asked.ResourceName
	switch asked.ResourceType {
	case kmsg.ConfigResourceTypeTopic:
		if err := kafka.ValidateTopicName(name); err != nil {
			return nil, kafka.InvalidTopicException, err.Error()
		}
		img := h.Image()
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
