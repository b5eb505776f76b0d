// Package kafka holds the field's terms as types: offsets, epochs, identifiers, error codes and isolation levels as
// the Kafka protocol names them. It imports nothing of this module, so every other package can speak in its words.
//
// All types are plain values; the package has no state and is safe for concurrent use.
package kafka

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
)

// Offset is the position of a record in a partition's log, counted from 0.
type Offset int64

// LeaderEpoch numbers the terms of a partition's leaders; -1 means unknown.
type LeaderEpoch int32

// ProducerID identifies an idempotent or transactional producer; NoProducerID means none.
type ProducerID int64

// ProducerEpoch fences older incarnations of one producer id; -1 means none.
type ProducerEpoch int16

// BrokerID is a node's id in the cluster (node.id); -1 means none.
type BrokerID int32

// Partition is a partition's number within its topic.
type Partition int32

// TopicID is a topic's UUID (KIP-516). The zero value means no id.
type TopicID [16]byte

// Values that the protocol reserves.
const (
	NoOffset      Offset        = -1
	NoLeaderEpoch LeaderEpoch   = -1
	NoProducerID  ProducerID    = -1
	NoEpoch       ProducerEpoch = -1
	NoBroker      BrokerID      = -1
)

// Names of the topics that brokers write for themselves.
const (
	OffsetsTopic  = "__consumer_offsets"
	TxnTopic      = "__transaction_state"
	MetadataTopic = "__cluster_metadata"
)

// TopicPartition names one partition.
type TopicPartition struct {
	Topic     string
	Partition Partition
}

// String gives Kafka's usual form, topic-partition, which is also the name of the partition's folder.
func (tp TopicPartition) String() string {
	return tp.Topic + "-" + strconv.Itoa(int(tp.Partition))
}

// String encodes the id as Kafka prints it: URL-safe base64 without padding, 22 characters.
func (id TopicID) String() string { return base64.RawURLEncoding.EncodeToString(id[:]) }

// IsZero reports whether the id is the protocol's "no id".
func (id TopicID) IsZero() bool { return id == TopicID{} }

// ParseTopicID reads the 22-character form that String writes.
func ParseTopicID(s string) (TopicID, error) {
	var id TopicID
	b, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil || len(b) != len(id) {
		return id, fmt.Errorf("topic id %q: want 22 characters of URL-safe base64", s)
	}
	copy(id[:], b)
	return id, nil
}

// IsolationLevel says which records a consumer may see.
type IsolationLevel int8

// Isolation levels of Fetch and ListOffsets.
const (
	ReadUncommitted IsolationLevel = 0
	ReadCommitted   IsolationLevel = 1
)

// MaxTopicNameLength is the longest topic name that Kafka takes, in bytes.
const MaxTopicNameLength = 249

// Errors of ValidateTopicName.
var (
	errTopicEmpty = errors.New("topic name is empty: give it 1 to 249 characters of [a-zA-Z0-9._-]")
	errTopicDots  = errors.New(`topic name cannot be "." or ".."`)
)

// ValidateTopicName checks a name by Kafka's rule: 1 to 249 characters of [a-zA-Z0-9._-], neither "." nor "..".
func ValidateTopicName(name string) error {
	switch {
	case name == "":
		return errTopicEmpty
	case name == "." || name == "..":
		return errTopicDots
	case len(name) > MaxTopicNameLength:
		return fmt.Errorf("topic name is %d characters long: at most %d are allowed", len(name), MaxTopicNameLength)
	}
	for i := 0; i < len(name); i++ {
		c := name[i]
		ok := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '_' || c == '-'
		if !ok {
			return fmt.Errorf("topic name %q has the character %q at %d: only [a-zA-Z0-9._-] are allowed", name, c, i)
		}
	}
	return nil
}
