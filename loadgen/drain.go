package loadgen

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/core/clock"
	"github.com/tidemark/tidemark/core/kafka"
)

// drain waits until every group has read to the end of the log, as long as the drain allows, and takes the last counts.
func (r *run) drain(ctx context.Context) {
	from := time.Now()
	r.complete, r.reason = r.readToEnd(ctx, from.Add(max(0, r.spec.Drain.D()-r.drained)))
	r.drained += time.Since(from)
	for _, rd := range r.readers {
		rd.close()
	}
	r.collector.finish()
}

func (r *run) readToEnd(ctx context.Context, deadline time.Time) (complete bool, reason string) {
	switch {
	case len(r.readers) == 0:
		return false, "nobody reads in this run"
	case r.died() != "":
		return false, "the target died: " + r.died()
	case r.cluster == nil:
		return true, ""
	}
	one, cancel := context.WithTimeout(context.WithoutCancel(ctx), contactTimeout)
	ends, err := r.logEnds(one)
	cancel()
	if err != nil {
		return false, fmt.Sprintf("the logs' ends are not known: %v", err)
	}
	for {
		left := r.behind(ends)
		if left == "" {
			return true, ""
		}
		if time.Now().After(deadline) {
			return false, "the drain ended before " + left
		}
		r.waitUntil(context.WithoutCancel(ctx), clock.Nanos()+int64(2*time.Millisecond))
	}
}

// behind names a group that has not read to the ends.
func (r *run) behind(ends [][]kafka.Offset) string {
	for _, g := range r.groups {
		if g.checker == nil {
			for _, rd := range g.members {
				if rd.consumer.Lag() != 0 {
					return g.label() + " had read to the end"
				}
			}
			continue
		}
		for t, parts := range ends {
			for p, end := range parts {
				if at := g.checker.Position(int32(t), int32(p)); at < end {
					return fmt.Sprintf("%s had read partition %d of %s to its end (%d of %d)", g.label(), p, r.topics[t].Name, at, end)
				}
			}
		}
	}
	return ""
}

// logEnds asks every leader for the ends of its logs.
func (r *run) logEnds(ctx context.Context) ([][]kafka.Offset, error) {
	names := make([]string, len(r.topics))
	out := make([][]kafka.Offset, len(r.topics))
	index := map[string]int{}
	for i, t := range r.topics {
		names[i], out[i], index[t.Name] = t.Name, make([]kafka.Offset, t.Partitions), i
	}
	view, err := r.cluster.View(ctx, names...)
	if err != nil {
		return nil, err
	}
	byLeader := map[kafka.BrokerID]*kmsg.ListOffsetsRequest{}
	for i, name := range names {
		tv := view.Topics[name]
		if tv == nil || len(tv.Partitions) < len(out[i]) {
			return nil, fmt.Errorf("topic %s is gone: %w", name, kafka.UnknownTopicOrPartition)
		}
		for p := range out[i] {
			req := byLeader[tv.Partitions[p].Leader]
			if req == nil {
				req = kmsg.NewPtrListOffsetsRequest()
				req.ReplicaID = -1
				byLeader[tv.Partitions[p].Leader] = req
			}
			if n := len(req.Topics); n == 0 || req.Topics[n-1].Topic != name {
				t := kmsg.NewListOffsetsRequestTopic()
				t.Topic = name
				req.Topics = append(req.Topics, t)
			}
			q := kmsg.NewListOffsetsRequestTopicPartition()
			q.Partition, q.Timestamp, q.CurrentLeaderEpoch = int32(p), -1, -1
			t := &req.Topics[len(req.Topics)-1]
			t.Partitions = append(t.Partitions, q)
		}
	}
	for leader, req := range byLeader {
		kresp, err := r.cluster.AskBroker(ctx, view.Brokers[leader], req)
		if err != nil {
			return nil, err
		}
		for _, t := range kresp.(*kmsg.ListOffsetsResponse).Topics {
			for _, p := range t.Partitions {
				if p.ErrorCode != 0 {
					return nil, fmt.Errorf("end of topic %s partition %d: %w", t.Topic, p.Partition, kafka.ErrorCode(p.ErrorCode))
				}
				if i, ok := index[t.Topic]; ok && int(p.Partition) < len(out[i]) {
					out[i][p.Partition] = kafka.Offset(p.Offset)
				}
			}
		}
	}
	return out, nil
}
