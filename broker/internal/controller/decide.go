package controller

import (
	"crypto/rand"
	"fmt"

	"github.com/tidemark/tidemark/broker/config"
	"github.com/tidemark/tidemark/broker/internal/metadata"
	"github.com/tidemark/tidemark/core/invariants"
	"github.com/tidemark/tidemark/core/kafka"
)

// decision is one round of requests under way. Functions named decideX read image and config and add records; they know
// no log, no clock and no goroutine.
type decision struct {
	image      *metadata.Image // as the records added so far make it
	edit       *metadata.Edit  // that made it; nil before the first
	config     *config.Broker
	newTopicID func() kafka.TopicID

	bytes int64 // what image may take in a snapshot
	full  bool  // something was refused for what it would add to them
	most  int   // partitions that there may be; 0: maxPartitions

	groups   [][]metadata.Record // those of one group are committed together or not at all
	announce bool                // subscribers are to be told the whole image
	err      error               // a bug: records that do not fit the image that they were decided on
}

// add takes a group of records and moves the image on.
func (d *decision) add(group ...metadata.Record) {
	if d.edit == nil {
		d.edit = metadata.NewEdit()
	}
	next, _, err := d.image.ApplyIn(d.edit, group, d.image.Offset)
	if err != nil {
		d.err = invariants.Bug("decided on records that do not apply: %w", err)
		return
	}
	d.image, d.groups = next, append(d.groups, group)
}

// tooLarge reports whether an image with some more records might be larger than a start would read; if not, they are counted.
func (d *decision) tooLarge(group []metadata.Record) bool {
	n, one := int64(0), []byte(nil)
	for _, r := range group {
		one = metadata.AppendRecord(one[:0], r)
		n += int64(len(one)) + recordHeadBytes
	}
	if d.bytes+n > maxImageBytes {
		d.full = true
		return true
	}
	d.bytes += n
	return false
}

const (
	recordHeadBytes = 4 // a record's length, for most
	// maxImageBytes is what the metadata may take before nothing is added to it: half of what a start reads, since no decision
	// knows its size to the byte.
	maxImageBytes = maxSnapshotBytes / 2
	imageFull     = "The cluster's metadata would be larger than a broker can read at its start: delete topics or settings, wait for some seconds, and try again."
)

// maxPartitions is how many partitions of all topics together a client may ask for. A broker that runs has 145 bytes for each in
// memory, for a topic of its own 400 more, where a snapshot has nine: so maxImageBytes would let in 60 million.
const maxPartitions = 1_500_000

// tooMany says in words why there may not be so many partitions more; "" when there may.
func (d *decision) tooMany(more int) string {
	most := d.most
	if most == 0 {
		most = maxPartitions
	}
	all := d.image.NumPartitions() + more
	if all <= most {
		return ""
	}
	return fmt.Sprintf("The cluster's topics would have %d partitions, %d are the most that a broker keeps: ask for fewer, or delete topics that nobody needs.",
		all, most)
}

// follow adds records to the last group whose effect no decision of this round reads, so that it need not be worked out
// twice: a new leader epoch for 100,000 partitions takes its time.
func (d *decision) follow(records ...metadata.Record) {
	last := len(d.groups) - 1
	d.groups[last] = append(d.groups[last], records...)
}

// entries packs the groups into the data of as few Raft entries as their bound allows.
func (d *decision) entries() [][]byte {
	var out [][]byte
	var entry, one []byte
	for _, group := range d.groups {
		one = appendRecords(one[:0], group)
		if entry != nil && len(entry)+len(one) > maxEntryBytes {
			out, entry = append(out, entry), nil
		}
		if entry == nil {
			entry = []byte{walVersion}
		}
		entry = append(entry, one...)
	}
	if entry != nil {
		out = append(out, entry)
	}
	return out
}

// scratch is the same state for a request that only validates: what is added to it is thrown away.
func (d *decision) scratch() *decision {
	return &decision{image: d.image, config: d.config, newTopicID: d.newTopicID, bytes: d.bytes, most: d.most}
}

// newTopicID draws a topic's id: a random UUID whose text does not begin with a dash (Kafka's Uuid.randomUuid).
func newTopicID() kafka.TopicID {
	for {
		var id kafka.TopicID
		_, _ = rand.Read(id[:])
		id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80
		if id.String()[0] != '-' {
			return id
		}
	}
}

// decideBootstrap gives a new cluster its id, as record one, and its features.
func decideBootstrap(d *decision, clusterID string, draw func() string) {
	if d.image.ClusterID != "" {
		return
	}
	if clusterID == "" {
		clusterID = draw()
	}
	d.add(&metadata.ClusterRecord{ClusterID: clusterID}, &metadata.FeatureRecord{Name: "metadata.version", Level: metadataVersion})
}

// decideRegister registers a broker under a new epoch and gives all partitions that it leads a new leader epoch.
func decideRegister(d *decision, b metadata.Broker) (epoch int64) {
	b.Epoch = d.image.Offset + 1
	if before := d.image.Broker(b.ID); before != nil {
		b.Epoch = max(b.Epoch, before.Epoch+1)
	}
	d.add(&metadata.BrokerRecord{Broker: b})
	if d.err != nil {
		return -1
	}
	d.follow(&metadata.LeaderEpochsRecord{Leader: b.ID})
	d.announce = true
	return b.Epoch
}

// producerIDBlock is how many producer ids one record hands out, as in Kafka.
const producerIDBlock = 1000

func decideProducerIDs(d *decision, broker kafka.BrokerID) (first kafka.ProducerID) {
	first = d.image.NextProducerID()
	d.add(&metadata.ProducerIDsRecord{Broker: broker, Next: first + producerIDBlock})
	return first
}
