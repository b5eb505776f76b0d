package controller

import (
	"github.com/tidemark/tidemark/broker/internal/metadata"
	"github.com/tidemark/tidemark/core/kafka"
)

// TopicRef names a topic by its id or, with no id, by its name.
type TopicRef struct {
	Name string
	ID   kafka.TopicID
}

// decideDelete decides on a whole DeleteTopics request.
func decideDelete(d *decision, topics []TopicRef) []TopicResult {
	out := make([]TopicResult, len(topics))
	for i, ref := range topics {
		var t *metadata.Topic
		if ref.ID.IsZero() {
			if t = d.image.Topic(ref.Name); t == nil {
				out[i] = refused(ref.Name, kafka.UnknownTopicOrPartition, "This server does not host this topic-partition.")
				continue
			}
		} else if t = d.image.TopicByID(ref.ID); t == nil {
			out[i] = refused(ref.Name, kafka.UnknownTopicId, "This server does not host this topic ID.")
			out[i].ID = ref.ID
			continue
		}
		d.add(&metadata.RemoveTopicRecord{ID: t.ID})
		out[i] = TopicResult{Name: t.Name, ID: t.ID}
	}
	return out
}

// MorePartitions asks that a topic have Count partitions in all.
type MorePartitions struct {
	Name        string
	Count       int32
	Assignments [][]kafka.BrokerID // of the new ones; nil: the controller places them
}

// decideMorePartitions decides on a whole CreatePartitions request.
func decideMorePartitions(d *decision, topics []MorePartitions) []TopicResult {
	total := 0
	for _, m := range topics {
		if t := d.image.Topic(m.Name); t != nil {
			total += max(0, int(m.Count)-len(t.Partitions))
		}
	}
	out := make([]TopicResult, len(topics))
	for i := range topics {
		if total >= maxPartitionsPerRequest {
			out[i] = refused(topics[i].Name, kafka.PolicyViolation, "Excessively large number of partitions per request: %d more, fewer than %d are taken.",
				total, maxPartitionsPerRequest)
			continue
		}
		out[i] = decideMoreOf(d, &topics[i])
	}
	return out
}

func decideMoreOf(d *decision, m *MorePartitions) TopicResult {
	t := d.image.Topic(m.Name)
	if t == nil {
		return refused(m.Name, kafka.UnknownTopicOrPartition, "This server does not host this topic-partition.")
	}
	have := int32(len(t.Partitions))
	switch {
	case m.Count == have:
		return refused(m.Name, kafka.InvalidPartitions, "Topic already has %d partition(s).", have)
	case m.Count < have:
		return refused(m.Name, kafka.InvalidPartitions, "The topic %s currently has %d partition(s); %d would not be an increase.", m.Name, have, m.Count)
	}
	added, factor := int(m.Count-have), len(t.Partitions[0].Replicas)
	if text := d.tooMany(added); text != "" {
		return refused(m.Name, kafka.PolicyViolation, "%s", text)
	}
	assignments := m.Assignments
	if assignments == nil {
		var text string
		if assignments, text = d.spread(added, factor); text != "" {
			return refused(m.Name, kafka.InvalidReplicationFactor, "%s", text)
		}
	} else {
		if len(assignments) != added {
			return refused(m.Name, kafka.InvalidReplicaAssignment, "Attempted to add %d additional partition(s), but only %d assignment(s) were specified.",
				added, len(assignments))
		}
		if text := d.checkAssignments(assignments, factor); text != "" {
			return refused(m.Name, kafka.InvalidReplicaAssignment, "%s", text)
		}
	}
	more := []metadata.Record{&metadata.PartitionsRecord{TopicID: t.ID, First: kafka.Partition(have), Partitions: d.partitions(assignments)}}
	if d.tooLarge(more) {
		return refused(m.Name, kafka.PolicyViolation, "%s", imageFull)
	}
	d.add(more...)
	return TopicResult{Name: m.Name, ID: t.ID, Topic: d.image.Topic(m.Name)}
}
