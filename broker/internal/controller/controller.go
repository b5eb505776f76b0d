// Package controller is the metadata quorum: it turns requests into metadata records, has them committed by a Raft
// group, and publishes the image that they make.
package controller

import (
	"context"
	"log/slog"

	"github.com/tidemark/tidemark/broker/config"
	"github.com/tidemark/tidemark/broker/internal/metadata"
	"github.com/tidemark/tidemark/core/kafka"
)

// Options is what a controller needs from its broker.
type Options struct {
	Config *config.Broker
	Dir    string // the folder that holds __cluster_metadata-0
	NowMS  func() int64
	Logger *slog.Logger
}

// NewTopic is one topic to create.
type NewTopic struct {
	Name              string
	NumPartitions     int32              // -1: num.partitions
	ReplicationFactor int16              // -1: default.replication.factor
	Assignments       [][]kafka.BrokerID // replicas of each partition; nil: the controller places them
	Configs           map[string]*string // nil value: back to the default
	Internal          bool
}

// TopicResult is the answer for one topic of a request.
type TopicResult struct {
	Name  string
	Topic *metadata.Topic // as it now is (or, validating only, would be); nil on error
	Err   kafka.ErrorCode
	Text  string // "" without error
}

// Controller owns the Raft group's goroutine.
type Controller struct{}

// Open reads the metadata log and makes the image that it describes. Nothing runs until Start.
func Open(o Options) (*Controller, error) { return nil, nil }

// Subscribe registers a function that is called for each new image, in order, on the controller's goroutine and before
// the request that caused it returns. To be called before Start. It must not call the controller.
func (c *Controller) Subscribe(f func(*metadata.Image, metadata.Delta)) {}

// Image is the newest committed image. Safe from any goroutine.
func (c *Controller) Image() *metadata.Image { return nil }

// Start runs the group: a single voter campaigns at once. It returns when this node leads.
func (c *Controller) Start(ctx context.Context) error { return nil }

// Shutdown stops the goroutine and closes the log. Waiting requests are answered with NOT_CONTROLLER.
func (c *Controller) Shutdown(ctx context.Context) error { return nil }

// RegisterBroker registers this node with a new broker epoch and gives every partition that it leads a new leader
// epoch, in one commit (BROKER 7). To be called once at each start, before the first append.
func (c *Controller) RegisterBroker(ctx context.Context, b metadata.Broker) (brokerEpoch int64, err error) {
	return 0, nil
}

// CreateTopics creates topics, each on its own: one's failure leaves the others. validateOnly commits nothing.
func (c *Controller) CreateTopics(ctx context.Context, topics []NewTopic, validateOnly bool) []TopicResult {
	return nil
}

// TopicRef names a topic by name or, with an empty name, by id.
type TopicRef struct {
	Name string
	ID   kafka.TopicID
}

// DeleteTopics deletes topics, each on its own.
func (c *Controller) DeleteTopics(ctx context.Context, topics []TopicRef) []TopicResult { return nil }

// MorePartitions asks that a topic has Count partitions in all.
type MorePartitions struct {
	Name        string
	Count       int32
	Assignments [][]kafka.BrokerID // of the new ones; nil: the controller places them
}

// CreatePartitions adds partitions, topic by topic.
func (c *Controller) CreatePartitions(ctx context.Context, topics []MorePartitions, validateOnly bool) []TopicResult {
	return nil
}

// AllocateProducerIDs reserves a block of producer ids that nobody was ever given.
func (c *Controller) AllocateProducerIDs(ctx context.Context) (first kafka.ProducerID, n int, err error) {
	return 0, 0, nil
}

// NextProducerID gives one producer id out of this broker's block, taking a new block when it is used up.
func (c *Controller) NextProducerID(ctx context.Context) (kafka.ProducerID, error) { return 0, nil }

// CreateInternalTopic creates __consumer_offsets or __transaction_state with its own settings, unless it exists.
func (c *Controller) CreateInternalTopic(ctx context.Context, name string) TopicResult {
	return TopicResult{}
}
