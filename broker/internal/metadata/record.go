// Package metadata is the cluster as its committed metadata records describe it: topics, partitions, brokers, settings
// and features, as an immutable image that is swapped whole.
//
// It leaves to others how records come to be decided (package controller) and what follows from a change (replica,
// coordinator). It holds no lock but the one behind which an image sorts its topics once, and starts no goroutine that outlives
// a call: any number of goroutines may read an Image. Apply shares all that did not change with the image before it.
//
// A record is encoded as
//
//	kind     1 byte
//	version  1 byte
//	fields   varints (zigzag), strings and lists with a uvarint length before them, ids as 16 bytes
package metadata

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/tidemark/tidemark/core/kafka"
)

// Record is one committed change: one of the structs of this file.
type Record interface {
	kind() byte
	append(dst []byte) []byte
}

// ClusterRecord is the first record of all: the cluster's id.
type ClusterRecord struct{ ClusterID string }

// BrokerRecord registers a broker, or registers it anew.
type BrokerRecord struct{ Broker Broker }

// TopicRecord makes a topic without partitions; PartitionsRecord follows.
type TopicRecord struct {
	Name     string
	ID       kafka.TopicID
	Internal bool
}

// PartitionsRecord sets partitions First, First+1, ... of a topic: new ones, which must follow the last one that there
// is, or existing ones in their new state.
type PartitionsRecord struct {
	TopicID    kafka.TopicID
	First      kafka.Partition
	Partitions []Partition
}

// RemoveTopicRecord removes a topic and its settings.
type RemoveTopicRecord struct{ ID kafka.TopicID }

// ConfigRecord sets a property of a resource, or, with Remove, takes the setting away.
type ConfigRecord struct {
	Kind   ResourceType
	Name   string
	Key    string
	Value  string
	Remove bool
}

// ProducerIDsRecord says which producer id nobody was given yet.
type ProducerIDsRecord struct {
	Broker kafka.BrokerID // whose block ends there
	Next   kafka.ProducerID
}

// LeaderEpochsRecord gives each partition that a broker leads a new leader epoch and partition epoch, by one: a start
// of that broker (BROKER 7). One record does for 100,000 partitions.
type LeaderEpochsRecord struct{ Leader kafka.BrokerID }

// FeatureRecord finalises a feature's level; level 0 takes the feature away.
type FeatureRecord struct {
	Name  string
	Level int16
}

const (
	kindCluster      = 1
	kindBroker       = 2
	kindTopic        = 3
	kindPartitions   = 4
	kindRemoveTopic  = 5
	kindConfig       = 6
	kindProducerIDs  = 7
	kindLeaderEpochs = 8
	kindFeature      = 9
)

func (*ClusterRecord) kind() byte      { return kindCluster }
func (*BrokerRecord) kind() byte       { return kindBroker }
func (*TopicRecord) kind() byte        { return kindTopic }
func (*PartitionsRecord) kind() byte   { return kindPartitions }
func (*RemoveTopicRecord) kind() byte  { return kindRemoveTopic }
func (*ConfigRecord) kind() byte       { return kindConfig }
func (*ProducerIDsRecord) kind() byte  { return kindProducerIDs }
func (*LeaderEpochsRecord) kind() byte { return kindLeaderEpochs }
func (*FeatureRecord) kind() byte      { return kindFeature }

// recordVersion is the version of all kinds' fields. The kind that changes first gets one of its own; what an older
// program wrote stays readable.
const recordVersion = 0

// AppendRecord encodes a record: its kind, its version, its fields. DecodeRecord reads it back.
func AppendRecord(dst []byte, r Record) []byte {
	return r.append(append(dst, r.kind(), recordVersion))
}

func appendString(dst []byte, s string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

func appendBool(dst []byte, v bool) []byte {
	if v {
		return append(dst, 1)
	}
	return append(dst, 0)
}

func appendBrokers(dst []byte, ids []kafka.BrokerID) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(ids)))
	for _, id := range ids {
		dst = binary.AppendVarint(dst, int64(id))
	}
	return dst
}

func (r *ClusterRecord) append(dst []byte) []byte { return appendString(dst, r.ClusterID) }

func (r *BrokerRecord) append(dst []byte) []byte {
	b := &r.Broker
	dst = binary.AppendVarint(dst, int64(b.ID))
	dst = binary.AppendVarint(dst, b.Epoch)
	dst = append(dst, b.Incarnation[:]...)
	dst = appendString(dst, b.Rack)
	dst = binary.AppendUvarint(dst, uint64(len(b.Endpoints)))
	for _, e := range b.Endpoints {
		dst = appendString(dst, e.Listener)
		dst = appendString(dst, e.Host)
		dst = binary.AppendVarint(dst, int64(e.Port))
		dst = binary.AppendVarint(dst, int64(e.Protocol))
	}
	return appendBool(appendBool(dst, b.Fenced), b.Shutdown)
}

func (r *TopicRecord) append(dst []byte) []byte {
	return appendBool(append(appendString(dst, r.Name), r.ID[:]...), r.Internal)
}

func (r *PartitionsRecord) append(dst []byte) []byte {
	dst = append(dst, r.TopicID[:]...)
	dst = binary.AppendVarint(dst, int64(r.First))
	dst = binary.AppendUvarint(dst, uint64(len(r.Partitions)))
	for i := range r.Partitions {
		p := &r.Partitions[i]
		dst = binary.AppendVarint(dst, int64(p.Leader))
		dst = binary.AppendVarint(dst, int64(p.LeaderEpoch))
		dst = binary.AppendVarint(dst, int64(p.PartitionEpoch))
		for _, ids := range [][]kafka.BrokerID{p.Replicas, p.ISR, p.ELR, p.LastKnownELR} {
			dst = appendBrokers(dst, ids)
		}
	}
	return dst
}

func (r *RemoveTopicRecord) append(dst []byte) []byte { return append(dst, r.ID[:]...) }

func (r *ConfigRecord) append(dst []byte) []byte {
	dst = append(dst, byte(r.Kind))
	dst = appendString(appendString(dst, r.Name), r.Key)
	return appendString(appendBool(dst, r.Remove), r.Value)
}

func (r *ProducerIDsRecord) append(dst []byte) []byte {
	return binary.AppendVarint(binary.AppendVarint(dst, int64(r.Broker)), int64(r.Next))
}

func (r *LeaderEpochsRecord) append(dst []byte) []byte {
	return binary.AppendVarint(dst, int64(r.Leader))
}

func (r *FeatureRecord) append(dst []byte) []byte {
	return binary.AppendVarint(appendString(dst, r.Name), int64(r.Level))
}

// ErrCorrupt marks records that cannot be read or that do not fit the image.
var ErrCorrupt = errors.New("corrupt metadata record")

// DecodeRecord reads one record that fills b. The record shares no memory with b.
func DecodeRecord(b []byte) (Record, error) {
	if len(b) < 2 {
		return nil, fmt.Errorf("%w: %d bytes", ErrCorrupt, len(b))
	}
	if b[1] != recordVersion {
		return nil, fmt.Errorf("%w: kind %d has version %d, this program knows %d: a newer one wrote it",
			ErrCorrupt, b[0], b[1], recordVersion)
	}
	d := &decoder{b: b[2:]}
	var r Record
	switch b[0] {
	case kindCluster:
		r = &ClusterRecord{ClusterID: d.string()}
	case kindBroker:
		r = &BrokerRecord{Broker: d.broker()}
	case kindTopic:
		r = &TopicRecord{Name: d.string(), ID: d.id(), Internal: d.bool()}
	case kindPartitions:
		r = &PartitionsRecord{TopicID: d.id(), First: kafka.Partition(d.int32()), Partitions: d.partitions()}
	case kindRemoveTopic:
		r = &RemoveTopicRecord{ID: d.id()}
	case kindConfig:
		r = &ConfigRecord{Kind: ResourceType(d.byte()), Name: d.string(), Key: d.string(), Remove: d.bool(), Value: d.string()}
	case kindProducerIDs:
		r = &ProducerIDsRecord{Broker: kafka.BrokerID(d.int32()), Next: kafka.ProducerID(d.varint())}
	case kindLeaderEpochs:
		r = &LeaderEpochsRecord{Leader: kafka.BrokerID(d.int32())}
	case kindFeature:
		r = &FeatureRecord{Name: d.string(), Level: int16(d.int32())}
	default:
		return nil, fmt.Errorf("%w: unknown kind %d: a newer program wrote it", ErrCorrupt, b[0])
	}
	if err := d.end(b); err != nil {
		return nil, err
	}
	return r, nil
}

// decoder reads fields off the front of b; the first that does not fit sets bad, and all after it are zero.
type decoder struct {
	b    []byte
	bad  bool
	last []kafka.BrokerID        // shared by equal neighbours: most partitions of a topic have the same replicas
	room func(n int) []Partition // gives an empty slice for so many; nil allocates one
}

// end says whether a record has filled its bytes.
func (d *decoder) end(b []byte) error {
	if d.bad || len(d.b) > 0 {
		return fmt.Errorf("%w: kind %d does not fill its %d bytes", ErrCorrupt, b[0], len(b))
	}
	return nil
}

func (d *decoder) take(n uint64) []byte {
	if d.bad || n > uint64(len(d.b)) {
		d.bad = true
		return nil
	}
	out := d.b[:n]
	d.b = d.b[n:]
	return out
}

func (d *decoder) byte() byte {
	if b := d.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (d *decoder) bool() bool { return d.byte() != 0 }

func (d *decoder) id() (id [16]byte) {
	copy(id[:], d.take(16))
	return id
}

func (d *decoder) varint() int64 {
	v, n := binary.Varint(d.b)
	if n <= 0 {
		d.bad = true
		return 0
	}
	d.take(uint64(n))
	return v
}

func (d *decoder) int32() int32 {
	v := d.varint()
	if v != int64(int32(v)) {
		d.bad = true
	}
	return int32(v)
}

// count reads a number of things that take at least minBytes each.
func (d *decoder) count(minBytes int) int {
	v, n := binary.Uvarint(d.b)
	if n <= 0 || v > uint64(len(d.b)-n)/uint64(minBytes) {
		d.bad = true
		return 0
	}
	d.take(uint64(n))
	return int(v)
}

func (d *decoder) string() string { return string(d.take(uint64(d.count(1)))) }

func (d *decoder) broker() Broker {
	b := Broker{ID: kafka.BrokerID(d.int32()), Epoch: d.varint(), Incarnation: d.id(), Rack: d.string()}
	for range d.count(4) {
		b.Endpoints = append(b.Endpoints, Endpoint{Listener: d.string(), Host: d.string(), Port: d.int32(), Protocol: int16(d.int32())})
	}
	b.Fenced, b.Shutdown = d.bool(), d.bool()
	return b
}

func (d *decoder) partitions() []Partition {
	n := d.count(7)
	var out []Partition
	if d.room != nil {
		out = d.room(min(n, 10_000))
	} else {
		out = make([]Partition, 0, min(n, 10_000))
	}
	for range n {
		p := Partition{Leader: kafka.BrokerID(d.int32()), LeaderEpoch: kafka.LeaderEpoch(d.int32()), PartitionEpoch: d.int32()}
		p.Replicas, p.ISR, p.ELR, p.LastKnownELR = d.brokers(), d.brokers(), d.brokers(), d.brokers()
		if d.bad {
			return nil
		}
		out = append(out, p)
	}
	return out
}

func (d *decoder) brokers() []kafka.BrokerID {
	n := d.count(1)
	if n == 0 {
		return nil
	}
	if rest := d.b; n == len(d.last) {
		same := true
		for _, id := range d.last {
			same = same && d.int32() == int32(id)
		}
		if same {
			return d.last
		}
		d.b = rest
	}
	ids := make([]kafka.BrokerID, n)
	for i := range ids {
		ids[i] = kafka.BrokerID(d.int32())
	}
	d.last = ids
	return ids
}
