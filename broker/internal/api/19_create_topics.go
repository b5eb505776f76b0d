package api

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/broker/config"
	"github.com/tidemark/tidemark/broker/internal/controller"
	"github.com/tidemark/tidemark/core/kafka"
)

// createTopics serves API key 19, versions 2 to 7.
func (h *Handlers) createTopics(c *Call, req kmsg.Request) kmsg.Response {
	r := req.(*kmsg.CreateTopicsRequest)
	reply, ctx := c.Later(), c.Context()
	cost := &answerCost{c: c}
	go func() {
		if resp := h.createTopicsNow(ctx, r, cost); resp != nil {
			reply(resp)
		}
	}()
	return nil
}

// within bounds a request by its own time-out; without one it gets a second.
func within(ctx context.Context, timeoutMS int32) (context.Context, context.CancelFunc) {
	if timeoutMS <= 0 {
		timeoutMS = 1000
	}
	return context.WithTimeout(ctx, time.Duration(timeoutMS)*time.Millisecond)
}

// createTopicsNow blocks until the topics are committed. Topics that are refused before the controller sees them come
// last, as in Kafka. Without memory for the answer nothing is created: the call has been aborted, and the response is nil.
func (h *Handlers) createTopicsNow(ctx context.Context, r *kmsg.CreateTopicsRequest, cost *answerCost) kmsg.Response {
	resp := kmsg.NewPtrCreateTopicsResponse()
	var defaults []kmsg.CreateTopicsResponseTopicConfig // most topics have none of their own, and a request may make thousands
	if r.Version >= 5 {
		defaults = h.createdSettings(nil)
	}
	if !cost.take(createdCost(r, defaults)) {
		return nil
	}
	times := map[string]int{}
	for i := range r.Topics {
		times[r.Topics[i].Topic]++
	}
	var (
		topics  []controller.NewTopic
		refused []controller.TopicResult
	)
	for i := range r.Topics {
		t := &r.Topics[i]
		switch n, text := readNewTopic(t); {
		case times[t.Topic] > 1:
			times[t.Topic] = -1 // told once
			refused = append(refused, controller.TopicResult{Name: t.Topic, Err: kafka.InvalidRequest, Text: "Duplicate topic name."})
		case times[t.Topic] == -1:
		case t.Topic == kafka.MetadataTopic:
			refused = append(refused, controller.TopicResult{Name: t.Topic, Err: kafka.InvalidRequest,
				Text: "Creation of internal topic " + t.Topic + " is prohibited."})
		case text.Err != kafka.None:
			refused = append(refused, text)
		default:
			topics = append(topics, n)
		}
	}
	if len(topics) > 0 {
		ctx, cancel := within(ctx, r.TimeoutMillis)
		defer cancel()
		told := &toldLines{Logger: h.Logger, left: maxToldLines}
		defer told.end()
		for i, result := range h.Controller.CreateTopics(ctx, topics, r.ValidateOnly) {
			settings := defaults
			if r.Version >= 5 && len(topics[i].Configs) > 0 && result.Err == kafka.None {
				settings = h.createdSettings(topics[i].Configs)
			}
			resp.Topics = append(resp.Topics, createdTopic(result, settings))
			if result.Err == kafka.None && !r.ValidateOnly {
				warnIdle(told, &topics[i])
			}
		}
	}
	for _, result := range refused {
		resp.Topics = append(resp.Topics, createdTopic(result, nil))
	}
	n := 0
	for i := range resp.Topics {
		t := &resp.Topics[i]
		if n += toldTopicBytes + len(t.Topic); t.ErrorMessage != nil {
			n += len(*t.ErrorMessage)
		}
		n += settingsBytes(t.Configs)
	}
	return &paidResponse{resp, n}
}

const (
	createdTopicBytes   = 256 // what a created topic takes decoded, and encoded beside its name, settings or error
	createdSettingBytes = 64  // what a setting takes decoded
	toldTopicBytes      = 48  // what a topic takes encoded, beside its name, settings or error
	toldSettingBytes    = 12  // what a setting takes encoded, beside its name and value
)

// createdCost bounds what the answer takes. The defaults are shared; settings that include some of a topic's own are not.
func createdCost(r *kmsg.CreateTopicsRequest, defaults []kmsg.CreateTopicsResponseTopicConfig) (n int64) {
	each := createdTopicBytes + max(settingsBytes(defaults), maxErrorText+len("..."))
	for i := range r.Topics {
		t := &r.Topics[i]
		if n += int64(each + len(t.Topic)); len(t.Configs) == 0 || len(defaults) == 0 {
			continue
		}
		n += int64(len(defaults) * createdSettingBytes)
		for _, own := range t.Configs {
			if own.Value != nil {
				n += int64(len(*own.Value))
			}
		}
	}
	return n
}

// settingsBytes bounds what settings take encoded.
func settingsBytes(list []kmsg.CreateTopicsResponseTopicConfig) (n int) {
	for i := range list {
		if n += toldSettingBytes + len(list[i].Name); list[i].Value != nil {
			n += len(*list[i].Value)
		}
	}
	return n
}

// warnIdle logs the settings of a new topic that nothing follows from.
func warnIdle(told *toldLines, t *controller.NewTopic) {
	for name := range t.Configs {
		if why := config.TopicIdle(name); why != "" {
			told.log(slog.LevelWarn, "setting "+name+" has no effect here: "+why, "topic", t.Name)
		}
	}
}

// readNewTopic turns a topic of the request into the controller's; Err tells what cannot be turned.
func readNewTopic(t *kmsg.CreateTopicsRequestTopic) (controller.NewTopic, controller.TopicResult) {
	n := controller.NewTopic{Name: t.Topic, NumPartitions: t.NumPartitions, ReplicationFactor: t.ReplicationFactor}
	for _, config := range t.Configs {
		if config.Value == nil {
			return n, controller.TopicResult{Name: t.Topic, Err: kafka.InvalidConfig,
				Text: "Null value not supported for topic configs: " + config.Name}
		}
		if n.Configs == nil {
			n.Configs = map[string]string{}
		}
		n.Configs[config.Name] = *config.Value
	}
	if len(t.ReplicaAssignment) > 0 {
		n.Assignments = make([][]kafka.BrokerID, len(t.ReplicaAssignment))
		for _, a := range t.ReplicaAssignment {
			if a.Partition < 0 || int(a.Partition) >= len(n.Assignments) || n.Assignments[a.Partition] != nil {
				return n, controller.TopicResult{Name: t.Topic, Err: kafka.InvalidReplicaAssignment,
					Text: "partitions should be a consecutive 0-based integer sequence"}
			}
			n.Assignments[a.Partition] = readReplicas(a.Replicas)
		}
	}
	return n, controller.TopicResult{}
}

func readReplicas(ids []int32) []kafka.BrokerID {
	out := make([]kafka.BrokerID, len(ids))
	for i, id := range ids {
		out[i] = kafka.BrokerID(id)
	}
	return out
}

// createdTopic tells of one topic, with the settings that it got.
func createdTopic(result controller.TopicResult, settings []kmsg.CreateTopicsResponseTopicConfig) kmsg.CreateTopicsResponseTopic {
	t := kmsg.NewCreateTopicsResponseTopic()
	t.Topic, t.ErrorCode, t.TopicID = result.Name, int16(result.Err), result.ID
	t.NumPartitions, t.ReplicationFactor, t.Configs = -1, -1, []kmsg.CreateTopicsResponseTopicConfig{}
	if result.Err != kafka.None {
		t.ErrorMessage = clip(result.Text)
		return t
	}
	t.NumPartitions = int32(len(result.Topic.Partitions))
	t.ReplicationFactor = int16(len(result.Topic.Partitions[0].Replicas))
	t.Configs = settings
	return t
}

// createdSettings lists all settings of a topic that was made with some of its own.
func (h *Handlers) createdSettings(own map[string]string) (list []kmsg.CreateTopicsResponseTopicConfig) {
	for _, e := range h.Config.Now().DescribeTopic(own) {
		c := kmsg.NewCreateTopicsResponseTopicConfig()
		c.Name, c.Value, c.Source = e.Definition.Name, kmsg.StringPtr(e.Value), int8(e.Source)
		list = append(list, c)
	}
	return list
}

// errText is an error's words for a field that may be null.
func errText(code kafka.ErrorCode, text string) *string {
	if code == kafka.None {
		return nil
	}
	if text == "" {
		text = fmt.Sprint(code)
	}
	return clip(text)
}

// maxErrorText bounds what is said of an error: it may quote what a client has sent, and a field of an older version has room for
// 32,767 bytes.
const maxErrorText = 1000

func clip(text string) *string {
	if len(text) > maxErrorText {
		text = strings.ToValidUTF8(text[:maxErrorText], "") + "..."
	}
	return &text
}
