// Package coordinator runs the consumer groups: it keeps one shard for each partition of __consumer_offsets that this
// broker leads, feeds requests and ticks to the shard's group.Machine, appends the records the machine wants written, and
// answers once the high watermark has passed them. What a group does is decided in package group; which topic
// partitions exist and where they live is replica's and metadata's.
//
// # Concurrency
//
// A shard has a queue and no goroutine of its own. Whoever puts a message into an empty queue starts the shard's loop;
// the loop takes all that is queued, hands it to the machine message by message, writes the records of the whole round as
// one batch, and ends when the queue is empty. The machine's earliest deadline is one time.Timer that queues a tick. So
// 50 idle partitions cost 50 small structs, no goroutine and no timer, and commits that arrive together share a batch.
//
//	request ──► queue ─► loop ─► group.Machine ─► records ─► partition.Append(acks=all)
//	                      ▲            │                             │ high watermark passed
//	            timer ────┘            └─► answers held by ticket ◄──┘ (queued as a message)
//
// A shard's states:
//
//	absent ── leadership gained ──► loading ── log read to its end ──► active ── leadership lost ──► absent
//
// While a shard is loading its requests are answered COORDINATOR_LOAD_IN_PROGRESS, while it is absent NOT_COORDINATOR.
package coordinator

import (
	"context"
	"log/slog"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/broker/internal/group"
	"github.com/tidemark/tidemark/core/kafka"
)

// OffsetsTopic is the internal topic that holds groups and committed offsets.
const OffsetsTopic = "__consumer_offsets"

// Log is what a shard needs of its partition of __consumer_offsets.
type Log interface {
	// Append writes one record batch (base offset 0) with acks=all. done is called exactly once, from any goroutine and
	// possibly before Append returns, when the high watermark has passed the batch or the append has failed. The batch is
	// the Log's until then.
	Append(batch []byte, done func(kafka.ErrorCode))
	// Read appends to dst whole record batches from the one that holds offset from, at least one, about maxBytes in all.
	// It reads up to the log end offset. No batch at the log end: dst as it came.
	Read(dst []byte, from kafka.Offset, maxBytes int) ([]byte, error)
	// LogStart and LogEnd bound what is to be read.
	LogStart() kafka.Offset
	LogEnd() kafka.Offset
	// MaxBatchBytes is the topic's max.message.bytes.
	MaxBatchBytes() int
}

// Options is what the coordinator is made of.
type Options struct {
	// Config holds the group settings.
	Config group.Config
	// Compression is offsets.topic.compression.codec as an attribute of record batches, 0 for none.
	Compression int8
	// NumPartitions is offsets.topic.num.partitions; it counts until the topic exists.
	NumPartitions int32
	// Open gives the log of a partition of __consumer_offsets that this broker leads.
	Open func(kafka.Partition) (Log, kafka.ErrorCode)
	// CreateOffsetsTopic creates __consumer_offsets; nil when it exists already. It may block.
	CreateOffsetsTopic func(ctx context.Context) error
	// NowMS is the wall clock, in milliseconds of the Unix epoch.
	NowMS func() int64
	// Logger takes what an operator should know: loads, failures, rebalances.
	Logger *slog.Logger
}

// Client is who sent a request.
type Client struct {
	// ID is the client id of the request header.
	ID string
	// Host is the peer's address as Kafka shows it, "/127.0.0.1".
	Host string
}

// Groups is the group coordinator of one broker. Every request method takes the decoded request, which it may keep until
// it answers, and calls reply exactly once, from any goroutine, possibly before it returns.
type Groups struct {
	o Options
}

// NewGroups makes a coordinator that leads no partition yet: Lead gives it some.
func NewGroups(o Options) *Groups { return &Groups{o: o} }

// PartitionFor gives the partition of __consumer_offsets that holds a group: the absolute value of Java's hash of its
// name, modulo the number of partitions.
func (g *Groups) PartitionFor(groupID string) kafka.Partition { return 0 }

// EnsureTopic creates __consumer_offsets when it does not exist. Callers that arrive together share one creation.
func (g *Groups) EnsureTopic(ctx context.Context) error { return nil }

// SetNumPartitions tells how many partitions __consumer_offsets has, as soon as it exists.
func (g *Groups) SetNumPartitions(n int32) {}

// Lead makes this broker the coordinator of the groups of one partition, loading it in the background. A repeated call
// with an epoch that is not newer does nothing.
func (g *Groups) Lead(p kafka.Partition, epoch kafka.LeaderEpoch) {}

// Resign ends the leadership of one partition: waiting requests are answered NOT_COORDINATOR and its state is dropped.
func (g *Groups) Resign(p kafka.Partition) {}

// TopicsDeleted removes the committed offsets of topics that no longer exist.
func (g *Groups) TopicsDeleted(topics []string) {}

// Close resigns everything and waits until every loop has ended.
func (g *Groups) Close(ctx context.Context) error { return nil }

// JoinGroup serves API key 11.
func (g *Groups) JoinGroup(c Client, req *kmsg.JoinGroupRequest, reply func(*kmsg.JoinGroupResponse)) {}

// SyncGroup serves API key 14.
func (g *Groups) SyncGroup(req *kmsg.SyncGroupRequest, reply func(*kmsg.SyncGroupResponse)) {}

// Heartbeat serves API key 12.
func (g *Groups) Heartbeat(req *kmsg.HeartbeatRequest, reply func(*kmsg.HeartbeatResponse)) {}

// LeaveGroup serves API key 13.
func (g *Groups) LeaveGroup(req *kmsg.LeaveGroupRequest, reply func(*kmsg.LeaveGroupResponse)) {}

// OffsetCommit serves API key 8 for topics that the caller knows to exist, named even in versions that carry ids.
func (g *Groups) OffsetCommit(req *kmsg.OffsetCommitRequest, reply func(*kmsg.OffsetCommitResponse)) {
}

// OffsetFetch serves API key 9, with topics named even in versions that carry ids.
func (g *Groups) OffsetFetch(req *kmsg.OffsetFetchRequest, reply func(*kmsg.OffsetFetchResponse)) {}

// DescribeGroups serves API key 15.
func (g *Groups) DescribeGroups(req *kmsg.DescribeGroupsRequest, reply func(*kmsg.DescribeGroupsResponse)) {
}

// ListGroups serves API key 16.
func (g *Groups) ListGroups(req *kmsg.ListGroupsRequest, reply func(*kmsg.ListGroupsResponse)) {}
