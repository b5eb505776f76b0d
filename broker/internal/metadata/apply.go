package metadata

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tidemark/tidemark/core/kafka"
)

// TopicChange is one topic before and after; Old is nil for a new one, New for one that is gone.
type TopicChange struct{ Old, New *Topic }

// ConfigChange names a resource whose own settings changed.
type ConfigChange struct {
	Kind ResourceType
	Name string
}

// Delta is what Apply changed.
type Delta struct {
	Topics  []TopicChange  // each topic id once, in the order of their first change
	Configs []ConfigChange // each resource once; not those of topics that went
	Brokers bool           // some registration changed
}

// builder is one Apply under way. Nodes and topics that it made itself are changed in place: those of the trie carry its
// edit, those of the topics stand as New in the delta.
type builder struct {
	*Image
	edit    *edit
	changed map[kafka.TopicID]int // place in delta.Topics
	configs map[resource]bool
	delta   Delta

	load loading // of a Load alone
}

// Apply makes the image that follows this one; offset is that of the entry that holds the records. Records that do not
// fit, such as partitions of a topic that is not there, are an error marked ErrCorrupt: the log is broken, or the
// program is.
func (m *Image) Apply(records []Record, offset int64) (*Image, Delta, error) {
	return m.ApplyIn(NewEdit(), records, offset)
}

// Edit is a run of changes, each on the image that the one before made.
type Edit struct{ edit }

// NewEdit begins a run.
func NewEdit() *Edit { return &Edit{} }

// ApplyIn is Apply as a part of a run, which costs less, since what the run has made itself is changed in place: an image that an
// earlier call of the same run gave must not be used any more. (The topics that it held may be.)
func (m *Image) ApplyIn(e *Edit, records []Record, offset int64) (*Image, Delta, error) {
	next := *m
	next.Offset = offset
	b := &builder{Image: &next, edit: &e.edit}
	for _, r := range records {
		if err := b.apply(r); err != nil {
			return nil, Delta{}, fmt.Errorf("%w at offset %d: %w", ErrCorrupt, offset, err)
		}
	}
	b.delta.Topics = slices.DeleteFunc(b.delta.Topics, func(c TopicChange) bool { return c.Old == nil && c.New == nil })
	if len(b.delta.Topics) > 0 {
		next.sorted = &sortedTopics{}
	}
	return &next, b.delta, nil
}

func (b *builder) apply(r Record) error {
	switch r := r.(type) {
	case *ClusterRecord:
		if b.ClusterID != "" && b.ClusterID != r.ClusterID {
			return fmt.Errorf("cluster %s turns into %s", b.ClusterID, r.ClusterID)
		}
		b.ClusterID = r.ClusterID
	case *BrokerRecord:
		b.applyBroker(r)
	case *TopicRecord:
		return b.applyTopic(r)
	case *PartitionsRecord:
		return b.applyPartitions(r)
	case *RemoveTopicRecord:
		return b.removeTopic(r.ID)
	case *ConfigRecord:
		b.applyConfig(r)
	case *ProducerIDsRecord:
		if r.Next < b.nextProducerID {
			return fmt.Errorf("producer ids go back from %d to %d", b.nextProducerID, r.Next)
		}
		b.nextProducerID = r.Next
	case *LeaderEpochsRecord:
		b.bumpLeaderEpochs(r.Leader)
	case *FeatureRecord:
		b.features = maps.Clone(b.features)
		if b.features == nil {
			b.features = map[string]int16{}
		}
		if b.features[r.Name] = r.Level; r.Level == 0 {
			delete(b.features, r.Name)
		}
		b.featuresEpoch = b.Offset
	default:
		return fmt.Errorf("unknown record %T", r)
	}
	return nil
}

func (b *builder) applyBroker(r *BrokerRecord) {
	broker := r.Broker
	b.brokers = slices.Clone(b.brokers)
	i, found := slices.BinarySearchFunc(b.brokers, broker.ID, func(o *Broker, id kafka.BrokerID) int { return int(o.ID) - int(id) })
	if found {
		b.brokers[i] = &broker
	} else {
		b.brokers = slices.Insert(b.brokers, i, &broker)
	}
	b.delta.Brokers = true
}

// note enters a topic's change into the delta.
func (b *builder) note(id kafka.TopicID, before, after *Topic) {
	if b.edit.load {
		return
	}
	i, ok := b.changed[id]
	if !ok {
		if b.changed == nil {
			b.changed = map[kafka.TopicID]int{}
		}
		b.changed[id] = len(b.delta.Topics)
		b.delta.Topics = append(b.delta.Topics, TopicChange{before, after})
		return
	}
	b.delta.Topics[i].New = after
}

// put stores a topic's new state.
func (b *builder) put(before, after *Topic) {
	b.topics = b.topics.with(b.edit, after.Name, after)
	b.ids = b.ids.with(b.edit, after.ID, after)
	b.note(after.ID, before, after)
}

func (b *builder) applyTopic(r *TopicRecord) error {
	names, ids := b.topics.len, b.ids.len
	taken := r.ID.IsZero() || !b.edit.load && (b.Topic(r.Name) != nil || b.TopicByID(r.ID) != nil)
	if !taken {
		t := &Topic{Name: r.Name, ID: r.ID, Internal: r.Internal}
		b.put(nil, t)
		b.load.newest, b.load.sorted = t, nil
		taken = b.topics.len == names || b.ids.len == ids // found out behind in a Load, which ends with the error
	}
	if taken {
		return fmt.Errorf("topic %s with id %s exists already", r.Name, r.ID)
	}
	if strings.ContainsAny(r.Name, "._") {
		b.folded = b.folded.with(b.edit, fold(r.Name), r.Name)
	}
	return nil
}

// own is a topic that this builder may change: one that it made, or a copy that it stores.
func (b *builder) own(t *Topic) *Topic {
	if b.edit.load {
		return t
	}
	if i, ok := b.changed[t.ID]; ok {
		return b.delta.Topics[i].New
	}
	c := t.clone()
	b.put(t, c)
	return c
}

// clone copies what bumpLeaderEpochs and applyPartitions write to.
func (t *Topic) clone() *Topic {
	c := *t
	c.Partitions = slices.Clone(t.Partitions)
	return &c
}

func (b *builder) applyPartitions(r *PartitionsRecord) error {
	b.giveEpochs()
	t := b.load.newest
	if t == nil || t.ID != r.TopicID {
		t = b.TopicByID(r.TopicID)
	}
	if t == nil {
		return fmt.Errorf("partitions of topic id %s, which does not exist", r.TopicID)
	}
	if r.First < 0 || int(r.First) > len(t.Partitions) {
		return fmt.Errorf("partition %d of topic %s, which has %d", r.First, t.Name, len(t.Partitions))
	}
	t = b.own(t)
	n := copy(t.Partitions[r.First:], r.Partitions)
	if more := r.Partitions[n:]; len(more) > 0 {
		switch {
		case t.Partitions != nil:
			t.Partitions = append(t.Partitions, more...)
		case b.edit.load:
			t.Partitions = more
		default:
			t.Partitions = append(make([]Partition, 0, len(more)), more...) // usually all there will be
		}
		b.partitions += len(more)
	}
	return nil
}

func (b *builder) removeTopic(id kafka.TopicID) error {
	t := b.TopicByID(id)
	if t == nil {
		return fmt.Errorf("topic id %s goes, which does not exist", id)
	}
	b.load.sorted, b.load.newest = nil, nil
	b.topics = b.topics.without(b.edit, t.Name)
	b.ids = b.ids.without(b.edit, id)
	b.folded = b.folded.without(b.edit, fold(t.Name))
	of := resource{TopicResource, t.Name}
	b.Image.configs = b.Image.configs.without(b.edit, of)
	b.delta.Configs = slices.DeleteFunc(b.delta.Configs, func(c ConfigChange) bool { return c == ConfigChange{of.kind, of.name} })
	delete(b.configs, of)
	b.partitions -= len(t.Partitions)
	b.note(id, t, nil)
	return nil
}

func (b *builder) applyConfig(r *ConfigRecord) {
	of := resource{r.Kind, r.Name}
	before, _ := b.Image.configs.get(of)
	after := before
	if !b.edit.load {
		after = maps.Clone(before)
	}
	if after == nil {
		after = map[string]string{}
	}
	if after[r.Key] = r.Value; r.Remove {
		delete(after, r.Key)
	}
	if len(after) == 0 {
		b.Image.configs = b.Image.configs.without(b.edit, of)
	} else {
		b.Image.configs = b.Image.configs.with(b.edit, of, after)
	}
	if !b.edit.load && !b.configs[of] {
		if b.configs == nil {
			b.configs = map[resource]bool{}
		}
		b.configs[of] = true
		b.delta.Configs = append(b.delta.Configs, ConfigChange{of.kind, of.name})
	}
}

// bumpLeaderEpochs replaces every topic of which the broker leads a part, in both tries at once: at the start of a broker
// that is all of them, and looking each one up would cost ten times as much.
func (b *builder) bumpLeaderEpochs(leader kafka.BrokerID) {
	if b.edit.load {
		b.load.starts[leader]++
		return
	}
	leads := func(p Partition) bool { return p.Leader == leader }
	next := map[*Topic]*Topic{}
	b.topics = b.topics.replaced(b.edit, func(t *Topic) *Topic {
		if !slices.ContainsFunc(t.Partitions, leads) {
			return t
		}
		c := t
		if i, ok := b.changed[t.ID]; ok {
			c = b.delta.Topics[i].New
		} else {
			c = t.clone()
			b.note(t.ID, t, c)
		}
		for i := range c.Partitions {
			if p := &c.Partitions[i]; leads(*p) {
				p.LeaderEpoch++
				p.PartitionEpoch++
			}
		}
		next[t] = c
		return c
	})
	b.ids = b.ids.replaced(b.edit, func(t *Topic) *Topic {
		if c := next[t]; c != nil {
			return c
		}
		return t
	})
}

// Records describes the whole image: applied to Empty they make it again, but for Offset, Epoch and ControllerID, which
// whoever keeps the records keeps beside them. yield gets each record once and may stop by answering false.
func (m *Image) Records(yield func(Record) bool) {
	_ = m.clusterRecords(yield) && m.topicRecords(yield) && m.configRecords(yield)
}

func (m *Image) clusterRecords(yield func(Record) bool) bool {
	if m.ClusterID != "" && !yield(&ClusterRecord{m.ClusterID}) {
		return false
	}
	for _, b := range m.brokers {
		if !yield(&BrokerRecord{*b}) {
			return false
		}
	}
	for _, name := range slices.Sorted(maps.Keys(m.features)) {
		if !yield(&FeatureRecord{name, m.features[name]}) {
			return false
		}
	}
	return m.nextProducerID == 0 || yield(&ProducerIDsRecord{Broker: kafka.NoBroker, Next: m.nextProducerID})
}

// snapshotPartitions is how many partitions one record of a snapshot holds at most.
const snapshotPartitions = 1000

func (m *Image) topicRecords(yield func(Record) bool) bool {
	for t := range m.Topics() {
		if !yield(&TopicRecord{t.Name, t.ID, t.Internal}) {
			return false
		}
		first := 0
		for some := range slices.Chunk(t.Partitions, snapshotPartitions) {
			if !yield(&PartitionsRecord{t.ID, kafka.Partition(first), some}) {
				return false
			}
			first += len(some)
		}
	}
	return true
}

func (m *Image) configRecords(yield func(Record) bool) bool {
	var all []resource
	m.configs.all(func(r resource, _ map[string]string) bool {
		all = append(all, r)
		return true
	})
	slices.SortFunc(all, func(a, b resource) int {
		if a.kind != b.kind {
			return int(a.kind) - int(b.kind)
		}
		return strings.Compare(a.name, b.name)
	})
	for _, r := range all {
		c := m.Config(r.kind, r.name)
		for _, key := range slices.Sorted(maps.Keys(c)) {
			if !yield(&ConfigRecord{Kind: r.kind, Name: r.name, Key: key, Value: c[key]}) {
				return false
			}
		}
	}
	return true
}

// Everything is the delta from nothing to this image: every topic as new, in no order, every setting as changed.
func (m *Image) Everything() Delta {
	d := Delta{Brokers: len(m.brokers) > 0}
	d.Topics = make([]TopicChange, 0, m.topics.len)
	if m.sorted.given { // faster, as they lie in memory
		for _, t := range m.sorted.list {
			d.Topics = append(d.Topics, TopicChange{New: t})
		}
	} else {
		m.topics.all(func(_ string, t *Topic) bool {
			d.Topics = append(d.Topics, TopicChange{New: t})
			return true
		})
	}
	m.configs.all(func(r resource, _ map[string]string) bool {
		d.Configs = append(d.Configs, ConfigChange{r.kind, r.name})
		return true
	})
	return d
}
