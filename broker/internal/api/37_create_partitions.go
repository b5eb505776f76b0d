package api

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/broker/internal/controller"
	"github.com/tidemark/tidemark/core/kafka"
)

// createPartitions serves API key 37, versions 0 to 3: more partitions, never fewer.
func (h *Handlers) createPartitions(c *Call, req kmsg.Request) kmsg.Response {
	r := req.(*kmsg.CreatePartitionsRequest)
	reply, ctx := c.Later(), c.Context()
	go func() { reply(h.createPartitionsNow(ctx, r)) }()
	return nil
}

// createPartitionsNow blocks until the partitions are committed.
func (h *Handlers) createPartitionsNow(ctx context.Context, r *kmsg.CreatePartitionsRequest) kmsg.Response {
	resp := kmsg.NewPtrCreatePartitionsResponse()
	tell := func(name string, code kafka.ErrorCode, text string) {
		t := kmsg.NewCreatePartitionsResponseTopic()
		t.Topic, t.ErrorCode, t.ErrorMessage = name, int16(code), errText(code, text)
		resp.Topics = append(resp.Topics, t)
	}
	times := map[string]int{}
	for i := range r.Topics {
		times[r.Topics[i].Topic]++
	}
	var topics []controller.MorePartitions
	for i := range r.Topics {
		t := &r.Topics[i]
		switch {
		case times[t.Topic] > 1:
			times[t.Topic] = -1 // told once
			tell(t.Topic, kafka.InvalidRequest, "Duplicate topic name.")
		case times[t.Topic] == 1:
			m := controller.MorePartitions{Name: t.Topic, Count: t.Count}
			for _, a := range t.Assignment {
				m.Assignments = append(m.Assignments, readReplicas(a.Replicas))
			}
			topics = append(topics, m)
		}
	}
	if len(topics) > 0 {
		ctx, cancel := within(ctx, r.TimeoutMillis)
		defer cancel()
		for _, result := range h.Controller.CreatePartitions(ctx, topics, r.ValidateOnly) {
			tell(result.Name, result.Err, result.Text)
		}
	}
	return resp
}
