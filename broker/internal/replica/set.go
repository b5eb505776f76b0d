package replica

import (
	"context"
	"sync/atomic"

	"github.com/tidemark/tidemark/broker/internal/metadata"
	"github.com/tidemark/tidemark/broker/internal/partition"
	"github.com/tidemark/tidemark/core/kafka"
)

// Set is this broker's partitions.
type Set struct {
	o      Options
	topics atomic.Pointer[topics]
}

type topics struct {
	byName map[string]*topic
	byID   map[kafka.TopicID]*topic
}

type topic struct {
	parts []slot
}

type slot struct {
	p atomic.Pointer[partition.Partition]
}

func newSet(o Options) *Set {
	s := &Set{o: o}
	s.topics.Store(&topics{})
	return s
}
func (s *Set) apply(img *metadata.Image, d metadata.Delta) {}
func (s *Set) partition(t *topic, n kafka.Partition) (*partition.Partition, kafka.ErrorCode) {
	return nil, kafka.UnknownTopicOrPartition
}
func (s *Set) close(ctx context.Context) error { return nil }
