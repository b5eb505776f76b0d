package metadata

import (
	"iter"

	"github.com/tidemark/tidemark/core/kafka"
)

// Partition is the committed state of one partition (KIP-966 for the last two).
type Partition struct {
	Leader         kafka.BrokerID // kafka.NoBroker while there is none
	LeaderEpoch    kafka.LeaderEpoch
	PartitionEpoch int32
	Replicas       []kafka.BrokerID
	ISR            []kafka.BrokerID
	ELR            []kafka.BrokerID
	LastKnownELR   []kafka.BrokerID
}

// Topic is one topic. It is shared between images: nobody writes to it or to its slices.
type Topic struct {
	Name       string
	ID         kafka.TopicID
	Partitions []Partition
	Internal   bool
}

// Endpoint is where a broker can be reached on one listener.
type Endpoint struct {
	Listener string
	Host     string
	Port     int32
	Protocol int16 // Kafka's SecurityProtocol id: 0 PLAINTEXT
}

// Broker is one registered broker.
type Broker struct {
	ID          kafka.BrokerID
	Epoch       int64 // of this registration
	Incarnation [16]byte
	Rack        string
	Endpoints   []Endpoint
	Fenced      bool
	Shutdown    bool // in controlled shutdown
}

// ResourceType is the kind of thing that a config belongs to, by Kafka's numbers.
type ResourceType int8

// Kinds of config resources.
const (
	TopicResource  ResourceType = 2
	BrokerResource ResourceType = 4
)

// Image is the cluster at one offset of the metadata log. It never changes: Apply makes the next one.
type Image struct {
	ClusterID    string
	Offset       int64          // of the last applied record in the metadata log
	Epoch        int32          // the controller's, Raft's term
	ControllerID kafka.BrokerID // kafka.NoBroker while there is none
}

// Topic finds a topic by name; nil when there is none.
func (m *Image) Topic(name string) *Topic { return nil }

// TopicByID finds a topic by id; nil when there is none.
func (m *Image) TopicByID(id kafka.TopicID) *Topic { return nil }

// Topics goes through all topics sorted by name.
func (m *Image) Topics() iter.Seq[*Topic] { return func(func(*Topic) bool) {} }

// NumTopics counts the topics.
func (m *Image) NumTopics() int { return 0 }

// NumPartitions counts the partitions of all topics.
func (m *Image) NumPartitions() int { return 0 }

// Brokers goes through the registered brokers by id.
func (m *Image) Brokers() iter.Seq[*Broker] { return func(func(*Broker) bool) {} }

// Broker finds a registered broker; nil when there is none.
func (m *Image) Broker(id kafka.BrokerID) *Broker { return nil }

// Config is what was set on a resource itself, by property name; nil when nothing was. For a topic the name is its
// name. Read only.
func (m *Image) Config(kind ResourceType, name string) map[string]string { return nil }

// Features is the finalised feature levels by name (metadata.version and its like). Read only.
func (m *Image) Features() map[string]int16 { return nil }

// FeaturesEpoch grows with each change of a finalised level.
func (m *Image) FeaturesEpoch() int64 { return 0 }

// TopicChange is one topic before and after; Old is nil for a new one, New for one that is gone.
type TopicChange struct{ Old, New *Topic }

// ConfigChange names a resource whose own settings changed.
type ConfigChange struct {
	Kind ResourceType
	Name string
}

// Delta is what Apply changed.
type Delta struct {
	Topics  []TopicChange // each topic once; a deleted and created-again name comes twice, the old one first
	Configs []ConfigChange
	Brokers bool // some registration changed
}

// Apply makes the image that follows this one. Unknown names and ids in the records are an error: a broken log.
// offset is that of the last record.
func (m *Image) Apply(records []Record, offset int64) (*Image, Delta, error) { return nil, Delta{}, nil }

// Empty is the image before the first record.
func Empty() *Image { return &Image{ControllerID: kafka.NoBroker, Offset: -1} }
