package metadata

import (
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/tidemark/tidemark/core/kafka"
)

// Load makes an image out of the records that a start reads, and out of what that start itself commits until somebody is told of
// the image. Nobody keeps what it has made on the way, so everything is changed in place and nothing is noted for a Delta. The
// topics of a snapshot are gathered first and put into the maps together; the new leader epochs of many starts on end are counted
// and given out once. A Load belongs to one goroutine.
type Load struct {
	b       builder
	decoder decoder
	// What is decoded into, one record after the other.
	topic TopicRecord
	parts PartitionsRecord
	// Room for topics and for the partitions of small ones.
	topics     []Topic
	partitions []Partition
}

// loading is what a builder knows when it belongs to a Load.
type loading struct {
	newest   *Topic                   // its partitions come next
	gathered []*Topic                 // topics that are in no map yet: the first ones, as long as nobody looks for any; nil afterwards
	sorted   []*Topic                 // all topics, if they have come in the order of their names; else nil
	starts   map[kafka.BrokerID]int32 // how many new leader epochs a broker's partitions are still to be given
}

// blockTopics and blockPartitions are how many topics, and partitions of small topics, are allocated together. The one that stays
// longest keeps the block.
const (
	blockTopics     = 32
	blockPartitions = 32
)

// NewLoad begins with the empty image.
func NewLoad() *Load {
	l := &Load{b: builder{Image: Empty(), edit: &edit{load: true}}}
	l.b.load = loading{gathered: []*Topic{}, starts: map[kafka.BrokerID]int32{}}
	l.decoder.room = l.room
	return l
}

// Decode applies one encoded record of the entry at an offset. It keeps no part of the bytes. After an error the Load is of no use.
func (l *Load) Decode(b []byte, offset int64) error {
	if len(b) < 2 || b[1] != recordVersion || b[0] != kindTopic && b[0] != kindPartitions {
		r, err := DecodeRecord(b)
		if err != nil {
			return err
		}
		return l.apply(r, offset)
	}
	d := &l.decoder
	d.b, d.bad = b[2:], false
	var r Record = &l.topic
	if b[0] == kindTopic {
		l.topic = TopicRecord{Name: d.string(), ID: d.id(), Internal: d.bool()}
	} else {
		l.parts = PartitionsRecord{TopicID: d.id(), First: kafka.Partition(d.int32()), Partitions: d.partitions()}
		r = &l.parts
	}
	if err := d.end(b); err != nil {
		return err
	}
	return l.apply(r, offset)
}

// room is memory for the partitions of a topic.
func (l *Load) room(n int) []Partition {
	if n > blockPartitions/4 {
		return make([]Partition, 0, n)
	}
	if n > cap(l.partitions)-len(l.partitions) {
		l.partitions = make([]Partition, 0, blockPartitions)
	}
	at := len(l.partitions)
	l.partitions = l.partitions[:at+n]
	return l.partitions[at : at : at+n]
}

// Apply applies the records of the entry at an offset. Their partitions are the Load's afterwards. After an error the Load is of no
// use.
func (l *Load) Apply(records []Record, offset int64) error {
	for _, r := range records {
		if err := l.apply(r, offset); err != nil {
			return err
		}
	}
	return nil
}

func (l *Load) apply(r Record, offset int64) (err error) {
	l.b.Offset = offset
	switch r := r.(type) {
	case *TopicRecord:
		if l.b.load.gathered != nil && !r.ID.IsZero() {
			l.gather(r)
			return nil
		}
		err = l.b.settle()
	case *PartitionsRecord:
		if t := l.b.load.newest; t == nil || t.ID != r.TopicID {
			err = l.b.settle()
		}
	case *RemoveTopicRecord, *LeaderEpochsRecord:
		err = l.b.settle()
	}
	if err == nil {
		err = l.b.apply(r)
	}
	if err != nil {
		err = fmt.Errorf("%w at offset %d: %w", ErrCorrupt, offset, err)
	}
	return err
}

// gather takes in a topic that settle puts into the maps.
func (l *Load) gather(r *TopicRecord) {
	if len(l.topics) == cap(l.topics) {
		l.topics = make([]Topic, 0, blockTopics)
	}
	l.topics = append(l.topics, Topic{Name: r.Name, ID: r.ID, Internal: r.Internal})
	t := &l.topics[len(l.topics)-1]
	l.b.load.newest = t
	l.b.load.gathered = append(l.b.load.gathered, t)
}

var errTwice = errors.New("two topics have one name or id")

// settle puts the topics that have been gathered into the maps.
func (b *builder) settle() error {
	list := b.load.gathered
	if list == nil {
		return nil
	}
	b.load.gathered = nil
	var unique [2]bool
	var both sync.WaitGroup
	both.Go(func() { b.topics, unique[0] = trieOf(b.edit, list, func(t *Topic) string { return t.Name }) })
	b.ids, unique[1] = trieOf(b.edit, list, func(t *Topic) kafka.TopicID { return t.ID })
	both.Wait()
	if !unique[0] || !unique[1] {
		return errTwice
	}
	b.load.sorted = list
	for i, t := range list {
		if i > 0 && list[i-1].Name > t.Name {
			b.load.sorted = nil
		}
		if strings.ContainsAny(t.Name, "._") {
			b.folded = b.folded.with(b.edit, fold(t.Name), t.Name)
		}
	}
	return nil
}

// Image is what has been made so far, as of an offset. The next call of Decode or Apply changes its topics: whoever wants them to
// stay as they are uses the Load no more.
func (l *Load) Image(offset int64) (*Image, error) {
	if err := l.b.settle(); err != nil {
		return nil, fmt.Errorf("%w at offset %d: %w", ErrCorrupt, offset, err)
	}
	l.b.giveEpochs()
	img := *l.b.Image
	img.Offset, img.sorted = offset, &sortedTopics{}
	if list := l.b.load.sorted; list != nil {
		img.sorted = &sortedTopics{list: list[:len(list):len(list)], given: true}
	}
	return &img, nil
}

// giveEpochs gives out the leader epochs that a Load has counted, before anything that changes partitions.
func (b *builder) giveEpochs() {
	if len(b.load.starts) == 0 {
		return
	}
	give := func(t *Topic) bool {
		for i := range t.Partitions {
			p := &t.Partitions[i]
			n := b.load.starts[p.Leader]
			p.LeaderEpoch += kafka.LeaderEpoch(n)
			p.PartitionEpoch += n
		}
		return true
	}
	if b.load.sorted != nil { // as they lie in memory
		for _, t := range b.load.sorted {
			give(t)
		}
	} else {
		b.topics.all(func(_ string, t *Topic) bool { return give(t) })
	}
	clear(b.load.starts)
}
