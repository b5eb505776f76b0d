package metadata

import (
	"fmt"

	"github.com/tidemark/tidemark/core/kafka"
)

// Load makes an image out of the records that a start reads, and out of what that start itself commits until somebody is told of
// the image. Nobody keeps what it has made on the way, so everything is changed in place, nothing is noted for a Delta, and the
// new leader epochs of many starts on end are counted and given out once. A Load belongs to one goroutine.
type Load struct {
	b       builder
	decoder decoder
	topic   TopicRecord // the two that nearly all are, to be decoded into
	parts   PartitionsRecord
	block   []Partition // room for the partitions of small topics
}

// loading is what a builder knows when it belongs to a Load.
type loading struct {
	newest *Topic                   // its partitions come next
	sorted []*Topic                 // all topics, while they have come in the order of their names; else nil
	starts map[kafka.BrokerID]int32 // how many new leader epochs a broker's partitions are still to be given
}

// NewLoad begins with the empty image.
func NewLoad() *Load {
	l := &Load{b: builder{Image: Empty(), edit: &edit{load: true}}}
	l.b.load = loading{sorted: []*Topic{}, starts: map[kafka.BrokerID]int32{}}
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

// blockPartitions is how many partitions of small topics are allocated together. The topic that stays longest keeps the block.
const blockPartitions = 32

// room is memory for the partitions of a topic.
func (l *Load) room(n int) []Partition {
	if n > blockPartitions/4 {
		return make([]Partition, 0, n)
	}
	if n > cap(l.block)-len(l.block) {
		l.block = make([]Partition, 0, blockPartitions)
	}
	at := len(l.block)
	l.block = l.block[:at+n]
	return l.block[at : at : at+n]
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

func (l *Load) apply(r Record, offset int64) error {
	l.b.Offset = offset
	if err := l.b.apply(r); err != nil {
		return fmt.Errorf("%w at offset %d: %w", ErrCorrupt, offset, err)
	}
	return nil
}

// Image is what has been made so far, as of an offset. The next call of Decode or Apply changes its topics: whoever wants them to
// stay as they are uses the Load no more.
func (l *Load) Image(offset int64) *Image {
	l.b.giveEpochs()
	img := *l.b.Image
	img.Offset, img.sorted = offset, &sortedTopics{}
	if list := l.b.load.sorted; list != nil {
		img.sorted.once.Do(func() { img.sorted.list = list[:len(list):len(list)] })
	}
	return &img
}

// added notes a new topic.
func (l *loading) added(t *Topic) {
	l.newest = t
	switch n := len(l.sorted); {
	case l.sorted == nil:
	case n == 0 || l.sorted[n-1].Name < t.Name:
		l.sorted = append(l.sorted, t)
	default:
		l.sorted = nil
	}
}

// giveEpochs gives out the leader epochs that a Load has counted, before anything that changes partitions.
func (b *builder) giveEpochs() {
	if len(b.load.starts) == 0 {
		return
	}
	b.topics.all(func(_ string, t *Topic) bool {
		for i := range t.Partitions {
			p := &t.Partitions[i]
			n := b.load.starts[p.Leader]
			p.LeaderEpoch += kafka.LeaderEpoch(n)
			p.PartitionEpoch += n
		}
		return true
	})
	clear(b.load.starts)
}
