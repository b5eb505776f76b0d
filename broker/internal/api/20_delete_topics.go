package api

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/broker/internal/controller"
	"github.com/tidemark/tidemark/core/kafka"
)

// deleteTopics serves API key 20, versions 1 to 6. From version 6 on topics may be named by id.
func (h *Handlers) deleteTopics(c *Call, req kmsg.Request) kmsg.Response {
	r := req.(*kmsg.DeleteTopicsRequest)
	if r.Version < 6 {
		for i := range r.TopicNames {
			t := kmsg.NewDeleteTopicsRequestTopic()
			t.Topic = &r.TopicNames[i]
			r.Topics = append(r.Topics, t)
		}
	}
	if !h.Config.DeleteTopicEnable {
		return deletionDisabled(r)
	}
	reply, ctx := c.Later(), c.Context()
	go func() { reply(h.deleteTopicsNow(ctx, r)) }()
	return nil
}

// deletionDisabled refuses all topics: delete.topic.enable is false. Versions below 3 do not know the error.
func deletionDisabled(r *kmsg.DeleteTopicsRequest) kmsg.Response {
	resp := kmsg.NewPtrDeleteTopicsResponse()
	code := kafka.TopicDeletionDisabled
	if r.Version < 3 {
		code = kafka.InvalidRequest
	}
	for _, asked := range r.Topics {
		resp.Topics = append(resp.Topics, deletedTopic(r.Version, asked.Topic, asked.TopicID, code, "Topic deletion is disabled."))
	}
	return resp
}

func deletedTopic(version int16, name *string, id kafka.TopicID, code kafka.ErrorCode, text string) kmsg.DeleteTopicsResponseTopic {
	t := kmsg.NewDeleteTopicsResponseTopic()
	t.Topic, t.TopicID, t.ErrorCode, t.ErrorMessage = name, id, int16(code), errText(code, text)
	if version < 6 && t.Topic == nil {
		t.Topic = new(string)
	}
	return t
}

// deleteTopicsNow blocks until the deletions are committed.
func (h *Handlers) deleteTopicsNow(ctx context.Context, r *kmsg.DeleteTopicsRequest) kmsg.Response {
	resp := kmsg.NewPtrDeleteTopicsResponse()
	img := h.Image()
	// The same topic may come by its name and by its id.
	times := map[kafka.TopicID]int{}
	byName := map[string]int{}
	for _, t := range r.Topics {
		switch {
		case t.Topic == nil:
			times[t.TopicID]++
		case img.Topic(*t.Topic) != nil:
			times[img.Topic(*t.Topic).ID]++
			byName[*t.Topic]++
		default:
			byName[*t.Topic]++
		}
	}
	var refs []controller.TopicRef
	refuse := func(t kmsg.DeleteTopicsRequestTopic, text string) {
		resp.Topics = append(resp.Topics, deletedTopic(r.Version, t.Topic, t.TopicID, kafka.InvalidRequest, text))
	}
	for _, t := range r.Topics {
		id := kafka.TopicID(t.TopicID)
		switch {
		case t.Topic == nil && id.IsZero():
			refuse(t, "Neither topic name nor id were specified.")
		case t.Topic != nil && !id.IsZero():
			refuse(t, "You may not specify both topic name and topic id.")
		case t.Topic != nil && byName[*t.Topic] > 1:
			byName[*t.Topic] = -1 // told once
			refuse(t, "Duplicate topic name.")
		case t.Topic != nil && byName[*t.Topic] == -1:
		case t.Topic != nil && img.Topic(*t.Topic) != nil && times[img.Topic(*t.Topic).ID] > 1, t.Topic == nil && times[id] > 1:
			refuse(t, "The same topic was specified twice.")
		default:
			ref := controller.TopicRef{ID: id}
			if t.Topic != nil {
				ref.Name = *t.Topic
			}
			refs = append(refs, ref)
		}
	}
	if len(refs) == 0 {
		return resp
	}
	ctx, cancel := within(ctx, r.TimeoutMillis)
	defer cancel()
	results := h.Controller.DeleteTopics(ctx, refs)
	h.awaitDeleted(ctx, r.TimeoutMillis, results)
	for i, result := range results {
		var name *string
		if result.Name != "" || refs[i].ID.IsZero() {
			name = &result.Name
		}
		resp.Topics = append(resp.Topics, deletedTopic(r.Version, name, result.ID, result.Err, result.Text))
	}
	return resp
}

// awaitDeleted waits for the folders to be renamed, at most half of the request's time and never long: the topics are gone,
// whatever a disk does.
func (h *Handlers) awaitDeleted(ctx context.Context, timeoutMS int32, results []controller.TopicResult) {
	if h.Replicas == nil {
		return // a controller alone
	}
	ctx, cancel := within(ctx, min(timeoutMS/2, maxDeletionWaitMS))
	defer cancel()
	for _, r := range results {
		if r.Err == kafka.None {
			h.Replicas.AwaitDeleted(ctx, r.ID)
		}
	}
}

const maxDeletionWaitMS = 5000
