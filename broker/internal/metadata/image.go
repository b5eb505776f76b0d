package metadata

import (
	"iter"
	"slices"
	"strings"
	"sync"

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

// resource names what a setting belongs to.
type resource struct {
	kind ResourceType
	name string
}

// Image is the cluster at one offset of the metadata log. It never changes: Apply makes the next one. Any number of
// goroutines may read it, and keep it as long as they like.
type Image struct {
	ClusterID    string
	Offset       int64          // of the last applied entry in the metadata log, -1 before the first
	Epoch        int32          // the controller's, Raft's term
	ControllerID kafka.BrokerID // kafka.NoBroker while there is none

	topics         trie[string, *Topic]
	ids            trie[kafka.TopicID, *Topic]
	folded         trie[string, string] // names with '.' or '_', by their form with '_' alone
	configs        trie[resource, map[string]string]
	brokers        []*Broker // by id
	features       map[string]int16
	featuresEpoch  int64
	nextProducerID kafka.ProducerID
	partitions     int

	sorted *sortedTopics
}

// sortedTopics is the list of topics by name, made when somebody first asks an image for it.
type sortedTopics struct {
	once  sync.Once
	list  []*Topic
	given bool // with the image: nobody need make it
}

// Empty is the image before the first record.
func Empty() *Image {
	return &Image{ControllerID: kafka.NoBroker, Offset: -1, sorted: &sortedTopics{}}
}

// WithController is the same image under another controller, or under the same one in another epoch.
func (m *Image) WithController(id kafka.BrokerID, epoch int32) *Image {
	next := *m // the sorted list is shared: the topics are the same
	next.ControllerID, next.Epoch = id, epoch
	return &next
}

// Topic finds a topic by name; nil when there is none.
func (m *Image) Topic(name string) *Topic {
	t, _ := m.topics.get(name)
	return t
}

// TopicByID finds a topic by id; nil when there is none.
func (m *Image) TopicByID(id kafka.TopicID) *Topic {
	t, _ := m.ids.get(id)
	return t
}

// Colliding is the topic whose name differs from the given one in nothing but '.' and '_', or "": metrics could not tell
// the two apart, so Kafka refuses the second (Topic.hasCollision). The name itself collides too when it exists.
func (m *Image) Colliding(name string) string {
	other, _ := m.folded.get(fold(name))
	return other
}

func fold(name string) string { return strings.ReplaceAll(name, ".", "_") }

// Topics goes through all topics sorted by name.
func (m *Image) Topics() iter.Seq[*Topic] { return slices.Values(m.sortedList()) }

// TopicsFrom goes through the topics whose name is not below the given one, sorted by name.
func (m *Image) TopicsFrom(name string) iter.Seq[*Topic] {
	list := m.sortedList()
	i, _ := slices.BinarySearchFunc(list, name, func(t *Topic, n string) int { return strings.Compare(t.Name, n) })
	return slices.Values(list[i:])
}

func (m *Image) sortedList() []*Topic {
	if m.sorted.given {
		return m.sorted.list
	}
	m.sorted.once.Do(func() {
		list := make([]*Topic, 0, m.topics.len)
		m.topics.all(func(_ string, t *Topic) bool {
			list = append(list, t)
			return true
		})
		slices.SortFunc(list, func(a, b *Topic) int { return strings.Compare(a.Name, b.Name) })
		m.sorted.list = list
	})
	return m.sorted.list
}

// NumTopics counts the topics.
func (m *Image) NumTopics() int { return m.topics.len }

// NumPartitions counts the partitions of all topics.
func (m *Image) NumPartitions() int { return m.partitions }

// Brokers goes through the registered brokers by id.
func (m *Image) Brokers() iter.Seq[*Broker] { return slices.Values(m.brokers) }

// Broker finds a registered broker; nil when there is none.
func (m *Image) Broker(id kafka.BrokerID) *Broker {
	for _, b := range m.brokers {
		if b.ID == id {
			return b
		}
	}
	return nil
}

// Config is what was set on a resource itself, by property name; nil when nothing was. For a topic the name is its
// name. Read only.
func (m *Image) Config(kind ResourceType, name string) map[string]string {
	c, _ := m.configs.get(resource{kind, name})
	return c
}

// Features is the finalised feature levels by name (metadata.version and its like). Read only.
func (m *Image) Features() map[string]int16 { return m.features }

// FeaturesEpoch grows with each change of a finalised level.
func (m *Image) FeaturesEpoch() int64 { return m.featuresEpoch }

// NextProducerID is the first producer id that no block was given out for.
func (m *Image) NextProducerID() kafka.ProducerID { return m.nextProducerID }
