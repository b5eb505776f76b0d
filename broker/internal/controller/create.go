package controller

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/tidemark/tidemark/broker/internal/metadata"
	"github.com/tidemark/tidemark/core/kafka"
)

// NewTopic is one topic to create.
type NewTopic struct {
	Name              string
	NumPartitions     int32              // -1: num.partitions
	ReplicationFactor int16              // -1: default.replication.factor
	Assignments       [][]kafka.BrokerID // replicas of each partition; nil: the controller places them
	Configs           map[string]string
}

// TopicResult is the answer for one topic of a request.
type TopicResult struct {
	Name  string
	ID    kafka.TopicID
	Topic *metadata.Topic // as it now is, or, when only validated, would be; nil on error and after a deletion
	Err   kafka.ErrorCode
	Text  string // "" without error
}

func refused(name string, code kafka.ErrorCode, format string, a ...any) TopicResult {
	return TopicResult{Name: name, Err: code, Text: fmt.Sprintf(format, a...)}
}

// maxPartitionsPerRequest is where Kafka's controller refuses a whole request.
const maxPartitionsPerRequest = 10_000

// InternalTopic reports whether brokers keep a topic of that name for themselves.
func InternalTopic(name string) bool {
	return name == kafka.OffsetsTopic || name == kafka.TxnTopic || name == "__share_group_state"
}

// decideCreate decides on a whole CreateTopics request.
func decideCreate(d *decision, topics []NewTopic) []TopicResult {
	out := make([]TopicResult, len(topics))
	total := 0
	for i := range topics {
		total += max(0, int(d.partitionsOf(&topics[i])))
	}
	for i := range topics {
		if total >= maxPartitionsPerRequest {
			out[i] = refused(topics[i].Name, kafka.PolicyViolation, "Excessively large number of partitions per request: %d, fewer than %d are taken.",
				total, maxPartitionsPerRequest)
			continue
		}
		out[i] = decideCreateOne(d, &topics[i])
	}
	return out
}

// partitionsOf is how many partitions a topic is asked to have.
func (d *decision) partitionsOf(t *NewTopic) int32 {
	switch {
	case t.Assignments != nil:
		return int32(len(t.Assignments))
	case t.NumPartitions == -1:
		return d.config.NumPartitions
	}
	return t.NumPartitions
}

func decideCreateOne(d *decision, t *NewTopic) TopicResult {
	if err := kafka.ValidateTopicName(t.Name); err != nil {
		return refused(t.Name, kafka.InvalidTopicException, "%s", err)
	}
	if d.image.Topic(t.Name) != nil {
		return refused(t.Name, kafka.TopicAlreadyExists, "Topic '%s' already exists.", t.Name)
	}
	if other := d.image.Colliding(t.Name); other != "" {
		return refused(t.Name, kafka.InvalidTopicException, "Topic '%s' collides with existing topic: %s", t.Name, other)
	}
	for key, value := range t.Configs {
		if err := checkValue(metadata.TopicResource, key, value); err != nil {
			return refused(t.Name, kafka.InvalidConfig, "%s", err)
		}
	}
	if _, err := d.config.Topic(t.Configs); err != nil {
		return refused(t.Name, kafka.InvalidConfig, "%s", err)
	}
	if text := d.tooMany(int(d.partitionsOf(t))); text != "" && !InternalTopic(t.Name) {
		return refused(t.Name, kafka.PolicyViolation, "%s", text)
	}
	placed, bad := d.place(t)
	if bad.Err != kafka.None {
		return bad
	}
	id := d.newTopicID()
	group := []metadata.Record{&metadata.TopicRecord{Name: t.Name, ID: id, Internal: InternalTopic(t.Name)},
		&metadata.PartitionsRecord{TopicID: id, Partitions: placed}}
	keys := make([]string, 0, len(t.Configs))
	for k := range t.Configs {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	for _, k := range keys {
		group = append(group, &metadata.ConfigRecord{Kind: metadata.TopicResource, Name: t.Name, Key: k, Value: t.Configs[k]})
	}
	if d.tooLarge(group) {
		return refused(t.Name, kafka.PolicyViolation, "%s", imageFull)
	}
	d.add(group...)
	return TopicResult{Name: t.Name, ID: id, Topic: d.image.Topic(t.Name)}
}

// place gives each partition of a new topic its replicas.
func (d *decision) place(t *NewTopic) ([]metadata.Partition, TopicResult) {
	if t.Assignments != nil {
		return d.placeByHand(t)
	}
	n, factor := d.partitionsOf(t), int(t.ReplicationFactor)
	switch {
	case n <= 0:
		return nil, refused(t.Name, kafka.InvalidPartitions, "Number of partitions was set to an invalid non-positive value.")
	case factor == -1:
		factor = int(d.config.DefaultReplicationFactor)
	case factor <= 0:
		return nil, refused(t.Name, kafka.InvalidReplicationFactor, "Replication factor must be larger than 0, or -1 to use the default value.")
	}
	assignments, text := d.spread(int(n), factor)
	if text != "" {
		return nil, refused(t.Name, kafka.InvalidReplicationFactor, "%s", text)
	}
	return d.partitions(assignments), TopicResult{}
}

func (d *decision) placeByHand(t *NewTopic) ([]metadata.Partition, TopicResult) {
	switch {
	case t.ReplicationFactor != -1:
		return nil, refused(t.Name, kafka.InvalidRequest, "A manual partition assignment was specified, but replication factor was not set to -1.")
	case t.NumPartitions != -1:
		return nil, refused(t.Name, kafka.InvalidRequest, "A manual partition assignment was specified, but numPartitions was not set to -1.")
	}
	if text := d.checkAssignments(t.Assignments, len(t.Assignments[0])); text != "" {
		return nil, refused(t.Name, kafka.InvalidReplicaAssignment, "%s", text)
	}
	return d.partitions(t.Assignments), TopicResult{}
}

// checkAssignments says in words what is wrong with replicas chosen by hand; "" when nothing is.
func (d *decision) checkAssignments(assignments [][]kafka.BrokerID, factor int) string {
	for _, replicas := range assignments {
		if len(replicas) == 0 {
			return "The manual partition assignment includes an empty replica list."
		}
		if len(replicas) != factor {
			return fmt.Sprintf("The manual partition assignment includes a partition with %d replica(s), but this is not "+
				"consistent with previous partitions, which have %d replica(s).", len(replicas), factor)
		}
		for i, id := range replicas {
			if d.image.Broker(id) == nil {
				return fmt.Sprintf("The manual partition assignment includes broker %d, but no such broker is registered.", id)
			}
			if slices.Contains(replicas[:i], id) {
				return fmt.Sprintf("The manual partition assignment includes the broker %d more than once.", id)
			}
		}
	}
	return ""
}

// spread places n partitions over the brokers that are not fenced, one after another from where the topics before have
// ended, each partition's replicas on neighbours.
func (d *decision) spread(n, factor int) (assignments [][]kafka.BrokerID, text string) {
	var brokers []kafka.BrokerID
	for b := range d.image.Brokers() {
		if !b.Fenced && !b.Shutdown {
			brokers = append(brokers, b.ID)
		}
	}
	if factor > len(brokers) {
		return nil, fmt.Sprintf("Unable to replicate the partition %d time(s): The target replication factor of %d cannot "+
			"be reached because only %d broker(s) are registered.", factor, factor, len(brokers))
	}
	start := d.image.NumPartitions() % len(brokers)
	ring := slices.Concat(brokers, brokers) // any broker's neighbours lie behind it
	for i := range n {
		at := (start + i) % len(brokers)
		assignments = append(assignments, ring[at:at+factor:at+factor])
	}
	return assignments, ""
}

// partitions begins the partitions of an assignment: all replicas in sync, the first of them not fenced leads.
func (d *decision) partitions(assignments [][]kafka.BrokerID) []metadata.Partition {
	out := make([]metadata.Partition, len(assignments))
	for i, replicas := range assignments {
		p := metadata.Partition{Leader: kafka.NoBroker, Replicas: replicas, ISR: replicas}
		for _, id := range replicas {
			if b := d.image.Broker(id); b != nil && !b.Fenced {
				p.Leader = id
				break
			}
		}
		out[i] = p
	}
	return out
}

// decideCreateOffsets creates __consumer_offsets, unless it is there. A cluster of one broker takes factor 1.
func decideCreateOffsets(d *decision) TopicResult {
	if t := d.image.Topic(kafka.OffsetsTopic); t != nil {
		return TopicResult{Name: t.Name, ID: t.ID, Topic: t}
	}
	factor := d.config.OffsetsTopicReplicationFactor
	brokers := 0
	for range d.image.Brokers() {
		brokers++
	}
	if brokers == 1 {
		factor = 1
	}
	return decideCreateOne(d, &NewTopic{Name: kafka.OffsetsTopic, NumPartitions: d.config.OffsetsTopicNumPartitions, ReplicationFactor: factor,
		Configs: map[string]string{
			"cleanup.policy":   "compact",
			"compression.type": "producer",
			"segment.bytes":    strconv.Itoa(int(d.config.OffsetsTopicSegmentBytes)),
		}})
}
