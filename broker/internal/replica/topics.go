package replica

import (
	"encoding/binary"
	"hash/maphash"
	"maps"
	"sync"
	"sync/atomic"

	"github.com/tidemark/tidemark/core/kafka"
)

// shards is how many parts the map of topics has. A change copies the parts that it touches. Copying maps of 100,000 topics whole,
// by name and by id, for each topic created took 39 ms and 7 MB.
const shards = 1024

// topics is the map of topics by name and by id. Each shard is an immutable map, nil while it is empty. Any number of goroutines
// look topics up; one at a time edits.
type topics struct {
	seed   maphash.Seed // random, so that names chosen by clients do not all fall into one shard
	byName [shards]atomic.Pointer[map[string]*topic]
	byID   [shards]atomic.Pointer[map[kafka.TopicID]*topic]
}

func (m *topics) named(name string) *topic {
	if s := m.byName[maphash.String(m.seed, name)%shards].Load(); s != nil {
		return (*s)[name]
	}
	return nil
}

// namedBytes is named without a string.
func (m *topics) namedBytes(name []byte) *topic {
	if s := m.byName[maphash.Bytes(m.seed, name)%shards].Load(); s != nil {
		return (*s)[string(name)]
	}
	return nil
}

func (m *topics) withID(id kafka.TopicID) *topic {
	if s := m.byID[shardOf(id)].Load(); s != nil {
		return (*s)[id]
	}
	return nil
}

// shardOf goes by the id itself, which is random.
func shardOf(id kafka.TopicID) int { return int(binary.BigEndian.Uint16(id[:]) % shards) }

// all goes through the topics, in no order.
func (m *topics) all(yield func(*topic) bool) {
	for i := range m.byName {
		s := m.byName[i].Load()
		if s == nil {
			continue
		}
		for _, t := range *s {
			if !yield(t) {
				return
			}
		}
	}
}

// fill makes the first version of the map, each shard once and with the room that it needs. Names and ids are done beside each other.
func (m *topics) fill(list []*topic) {
	var both sync.WaitGroup
	both.Go(func() {
		fillShards(&m.byName, list, func(t *topic) string { return t.name }, func(name string) int { return int(maphash.String(m.seed, name) % shards) })
	})
	fillShards(&m.byID, list, func(t *topic) kafka.TopicID { return t.id }, shardOf)
	both.Wait()
}

func fillShards[K comparable](to *[shards]atomic.Pointer[map[K]*topic], list []*topic, key func(*topic) K, shard func(K) int) {
	var ends [shards]int // of the shard's topics, once they are sorted
	of := make([]uint16, len(list))
	for i, t := range list {
		of[i] = uint16(shard(key(t)))
		ends[of[i]]++
	}
	sum := 0
	for i, n := range ends {
		ends[i] = sum
		sum += n
	}
	sorted := make([]*topic, len(list))
	for i, t := range list {
		sorted[ends[of[i]]] = t
		ends[of[i]]++
	}
	from := 0
	for i, end := range ends {
		if from == end {
			continue
		}
		m := make(map[K]*topic, end-from)
		for _, t := range sorted[from:end] {
			m[key(t)] = t
		}
		to[i].Store(&m)
		from = end
	}
}

// edit is the next version of the map, of which nobody sees anything before publish.
type edit struct {
	m      *topics
	byName map[int]map[string]*topic
	byID   map[int]map[kafka.TopicID]*topic
}

func (m *topics) edit() *edit {
	return &edit{m: m, byName: map[int]map[string]*topic{}, byID: map[int]map[kafka.TopicID]*topic{}}
}

func (e *edit) names(name string) map[string]*topic {
	i := int(maphash.String(e.m.seed, name) % shards)
	if e.byName[i] == nil {
		e.byName[i] = map[string]*topic{}
		if s := e.m.byName[i].Load(); s != nil {
			e.byName[i] = maps.Clone(*s)
		}
	}
	return e.byName[i]
}

func (e *edit) ids(id kafka.TopicID) map[kafka.TopicID]*topic {
	i := shardOf(id)
	if e.byID[i] == nil {
		e.byID[i] = map[kafka.TopicID]*topic{}
		if s := e.m.byID[i].Load(); s != nil {
			e.byID[i] = maps.Clone(*s)
		}
	}
	return e.byID[i]
}

func (e *edit) withID(id kafka.TopicID) *topic { return e.ids(id)[id] }

func (e *edit) put(t *topic) { e.names(t.name)[t.name], e.ids(t.id)[t.id] = t, t }

func (e *edit) remove(t *topic) {
	delete(e.ids(t.id), t.id)
	if names := e.names(t.name); names[t.name] == t {
		delete(names, t.name)
	}
}

// publish shows the version. A reader may see a part of it, topic by topic; what a request has caused is whole before it is
// answered.
func (e *edit) publish() {
	for i, s := range e.byName {
		e.m.byName[i].Store(&s)
	}
	for i, s := range e.byID {
		e.m.byID[i].Store(&s)
	}
}
