package loadgen

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/core/kafka"
	"github.com/tidemark/tidemark/loadgen/result"
)

// dropTimeout is how long the deletion of the run's topics may take: the result stands by then, and a target that is
// frozen at the end of its run must not hold up the next. As long is waited after a signal for topics that are being made.
const dropTimeout = 3 * time.Second

// createTopics makes the topics. A signal does not cut it short at once: whether they are there would not be known.
func (r *run) createTopics(ctx context.Context, names []string) error {
	if len(names) == 0 {
		return nil
	}
	req := kmsg.NewPtrCreateTopicsRequest()
	req.TimeoutMillis, req.ValidateOnly = int32(contactTimeout.Milliseconds()), r.o.CheckOnly
	for _, name := range names {
		t := kmsg.NewCreateTopicsRequestTopic()
		t.Topic, t.NumPartitions, t.ReplicationFactor = name, int32(r.spec.Partitions), int16(r.spec.Replication)
		for _, k := range slices.Sorted(maps.Keys(r.spec.TopicConfigs)) {
			c := kmsg.NewCreateTopicsRequestTopicConfig()
			v := r.spec.TopicConfigs[k]
			c.Name, c.Value = k, &v
			t.Configs = append(t.Configs, c)
		}
		req.Topics = append(req.Topics, t)
	}
	if err := ctx.Err(); err != nil {
		return failure(fmt.Errorf("create topics: %w", context.Cause(ctx)))
	}
	one, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*contactTimeout)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(dropTimeout, cancel) })
	defer stop()
	if !r.o.CheckOnly {
		r.made, r.unanswered = names, true
	}
	kresp, err := r.askController(one, req)
	if err != nil {
		return failure(fmt.Errorf("create topics: %w", err))
	}
	r.made, r.unanswered = nil, false
	var problem error
	for _, t := range kresp.(*kmsg.CreateTopicsResponse).Topics {
		code := kafka.ErrorCode(t.ErrorCode)
		if code == kafka.None && r.o.CheckOnly {
			continue
		}
		if code == kafka.None {
			r.made = append(r.made, t.Topic)
			continue
		}
		problem = fmt.Errorf("create topic %s: %w", t.Topic, withMessage(code, t.ErrorMessage))
	}
	if problem != nil {
		return failure(problem)
	}
	return nil
}

// askController sends a request to the controller where the cluster names one that it can reach.
func (r *run) askController(ctx context.Context, req kmsg.Request) (kmsg.Response, error) {
	view, err := r.cluster.View(ctx)
	if err != nil {
		return nil, err
	}
	if addr, ok := view.Brokers[view.ControllerID]; ok {
		return r.cluster.AskBroker(ctx, addr, req)
	}
	return r.cluster.Ask(ctx, req)
}

// dropTopics deletes the topics that this run made, and no others. It returns, and says, which of them may still be there.
func (r *run) dropTopics() []result.LeftTopic {
	if r.cluster == nil {
		return nil
	}
	defer r.cluster.Close()
	if len(r.made) == 0 || r.spec.KeepTopics {
		return nil
	}
	left := r.deleteTopics()
	if len(left) > 0 && r.o.Warnings != nil {
		_, _ = io.WriteString(r.o.Warnings, visible(r.leftBehind(left))+"\n")
	}
	return left
}

func (r *run) deleteTopics() (left []result.LeftTopic) {
	because := func(why string) []result.LeftTopic {
		left = nil
		for _, name := range r.made {
			left = append(left, result.LeftTopic{Topic: name, Why: why})
		}
		return left
	}
	switch {
	case r.died() != "":
		return because("the target died: " + r.died())
	case r.unanswered && r.spec.Topic != "":
		return because("whether this run made it, or somebody else at the same time, the cluster did not answer")
	}
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.TimeoutMillis = int32(contactTimeout.Milliseconds())
	for _, name := range r.made {
		req.TopicNames = append(req.TopicNames, name)
		t := kmsg.NewDeleteTopicsRequestTopic()
		t.Topic = &name
		req.Topics = append(req.Topics, t)
	}
	ctx, cancel := context.WithTimeout(context.Background(), dropTimeout)
	defer cancel()
	kresp, err := r.askController(ctx, req)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return because("no answer within " + dropTimeout.String())
	case err != nil:
		return because(err.Error())
	}
	answered := map[string]kmsg.DeleteTopicsResponseTopic{}
	for _, t := range kresp.(*kmsg.DeleteTopicsResponse).Topics {
		if t.Topic != nil {
			answered[*t.Topic] = t
		}
	}
	for _, name := range r.made {
		t, ok := answered[name]
		switch code := kafka.ErrorCode(t.ErrorCode); {
		case !ok:
			left = append(left, result.LeftTopic{Topic: name, Why: "the answer does not name it"})
		case code == kafka.UnknownTopicOrPartition && r.unanswered:
			left = append(left, result.LeftTopic{Topic: name, Why: "it is not there, but the cluster did not answer when it was to make it, and may do so yet"})
		case code != kafka.None && code != kafka.UnknownTopicOrPartition: // one that is not there has been deleted by somebody
			left = append(left, result.LeftTopic{Topic: name, Why: withMessage(code, t.ErrorMessage).Error()})
		}
	}
	return left
}

// leftBehind is a line that names the topics, why they are there and how to delete them.
func (r *run) leftBehind(left []result.LeftTopic) string {
	var names, patterns, whys []string
	for _, l := range left {
		names, patterns = append(names, l.Topic), append(patterns, strings.ReplaceAll(l.Topic, ".", `\.`))
		if !slices.Contains(whys, l.Why) {
			whys = append(whys, l.Why)
		}
	}
	secured := ""
	if r.o.Security != nil {
		secured = "--command-config FILE "
	}
	return fmt.Sprintf("not deleted: %s: %s; delete them with: kafka-topics.sh --bootstrap-server %s %s--delete --topic '%s'",
		strings.Join(names, ", "), strings.Join(whys, ", "), strings.Join(r.o.Bootstrap, ","), secured, strings.Join(patterns, "|"))
}

// withMessage is an error code with what the cluster said beside it.
func withMessage(code kafka.ErrorCode, message *string) error {
	if message == nil || *message == "" {
		return code
	}
	return fmt.Errorf("%w: %s", code, *message)
}
