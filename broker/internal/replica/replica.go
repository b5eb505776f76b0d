// Package replica holds this broker's partitions by topic and number: it follows the cluster's image, creates, opens and
// deletes their logs, and gives each its role and leader epoch. What a partition does is partition's, where its log lies
// logdir's.
//
// # Concurrency
//
// Look-ups take no lock: the map of topics is made of immutable shards that are replaced whole (topics.go), and each topic has a
// slice of pointers that are filled at first use. An unused partition costs that pointer and a lock: no object, no file, no goroutine. Apply runs on
// one goroutine at a time (the controller's) and waits for no disk but at its first call; opening a partition holds its own
// lock, so that a slow disk delays only those that open the same partition. Deleted topics: retire.go.
package replica

import (
	"context"
	"log/slog"

	"github.com/tidemark/tidemark/broker/config"
	"github.com/tidemark/tidemark/broker/internal/logdir"
	"github.com/tidemark/tidemark/broker/internal/metadata"
	"github.com/tidemark/tidemark/broker/internal/partition"
	"github.com/tidemark/tidemark/core/kafka"
)

// Options is what a Set is made of.
type Options struct {
	NodeID kafka.BrokerID
	Config *config.Broker
	Dirs   *logdir.Dirs
	Logger *slog.Logger
	NowMS  func() int64
}

// NewSet makes a Set without partitions: Apply gives it some.
func NewSet(o Options) *Set { return newSet(o) }

// Apply follows the image: img is the newest one, d what changed since the last call. The first call takes the whole
// image, whatever d says; it alone touches the disk. Folders of deleted topics are renamed beside, and before a partition of a
// topic made anew under the same name is opened.
func (s *Set) Apply(img *metadata.Image, d metadata.Delta) { s.apply(img, d) }

// Get gives a partition by topic id, opening its log at first use. kafka.UnknownTopicId without such a topic,
// kafka.UnknownTopicOrPartition without such a number, kafka.NotLeaderForPartition for one that lives elsewhere,
// kafka.KafkaStorageError when its log cannot be opened.
func (s *Set) Get(id kafka.TopicID, p kafka.Partition) (*partition.Partition, kafka.ErrorCode) {
	t := s.topics.withID(id)
	if t == nil {
		return nil, kafka.UnknownTopicId
	}
	return s.partition(t, p)
}

// ByName is Get for a topic's name, given as bytes so that a look-up out of a request costs no string;
// kafka.UnknownTopicOrPartition without such a topic.
func (s *Set) ByName(topic []byte, p kafka.Partition) (*partition.Partition, kafka.ErrorCode) {
	t := s.topics.namedBytes(topic)
	if t == nil {
		return nil, kafka.UnknownTopicOrPartition
	}
	return s.partition(t, p)
}

// Opened is Get for one who must not wait for a disk: nil with kafka.None says that the partition has not been opened yet.
func (s *Set) Opened(id kafka.TopicID, p kafka.Partition) (*partition.Partition, kafka.ErrorCode) {
	t := s.topics.withID(id)
	if t == nil {
		return nil, kafka.UnknownTopicId
	}
	return s.opened(t, p)
}

// OpenedByName is ByName as Opened is Get.
func (s *Set) OpenedByName(topic []byte, p kafka.Partition) (*partition.Partition, kafka.ErrorCode) {
	t := s.topics.namedBytes(topic)
	if t == nil {
		return nil, kafka.UnknownTopicOrPartition
	}
	return s.opened(t, p)
}

// AwaitDeleted waits until the folders of a deleted topic's logs have been renamed, or ctx ends: a process that is killed
// before would find them in the way of a topic made anew under the same name.
func (s *Set) AwaitDeleted(ctx context.Context, id kafka.TopicID) { s.awaitRetired(ctx, id) }

// Empty says, without opening anything, whether a partition that lives here holds no record; false also when that is not
// known. A coordinator need not load it then.
func (s *Set) Empty(topic string, p kafka.Partition) bool {
	t := s.topics.named(topic)
	return t != nil && p >= 0 && int(p) < len(t.parts) && s.o.Dirs.Empty(kafka.TopicPartition{Topic: topic, Partition: p})
}

// Folder is the number of the log folder that holds a partition's log, 0 when there is none yet. It waits for no disk.
func (s *Set) Folder(topic string, p kafka.Partition) int {
	number, _ := s.o.Dirs.FolderOf(kafka.TopicPartition{Topic: topic, Partition: p})
	return number
}

// Close closes every partition: waiting requests are answered with kafka.NotLeaderForPartition. The logs are closed by
// logdir.
func (s *Set) Close(ctx context.Context) error { return s.close(ctx) }
