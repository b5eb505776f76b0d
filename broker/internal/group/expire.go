package group

import (
	"fmt"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/core/kafka"
)

// maxTombstones is how many offsets one batch removes.
const maxTombstones = 1000

// expireOffsets removes what offsets.retention.minutes has passed for, every offsets.retention.check.interval.ms while
// there are groups (KIP-211):
//
//   - a group without members: its offsets expire the retention after it became empty, and no earlier than the
//     retention after their commit (an administrator may set offsets of a group that has long been empty);
//   - a simple consumer's offset (no protocol type): the retention after its commit;
//   - a stable consumer group: offsets of topics that no member subscribes to, the retention after their commit;
//   - an offset that came with a retention of its own: by that, in the cases above.
//
// A group that is empty and has no offsets left goes too.
func (m *Machine) expireOffsets(now Now) {
	for _, id := range slices.Sorted(maps.Keys(m.groups)) {
		g := m.groups[id]
		if g.state == dead || g.commits > 0 {
			continue
		}
		var gone []offsetKey
		of := m.offsets[id]
		if of != nil {
			gone = m.expired(now, g, of)
		}
		left := of != nil && len(gone) < len(of.at)
		drop := !left && g.state == empty && len(g.pending) == 0
		if len(gone) > 0 || drop {
			m.removeOffsets(now, g, gone, drop)
		}
	}
	if len(m.groups) > 0 {
		m.timers.set(&m.retention, now.MonoMS+m.config.RetentionCheckMS)
	}
}

func (m *Machine) expired(now Now, g *classic, of *groupOffsets) []offsetKey {
	base := func(o *committed) int64 { return o.commitMS }
	var subscribed map[string]bool
	switch {
	case g.protocolType == "":
	case g.state == empty:
		if g.sinceMS >= 0 {
			base = func(o *committed) int64 { return max(g.sinceMS, o.commitMS) }
		}
	case g.state == stable && g.protocolType == "consumer":
		if subscribed = g.subscribedTopics(); subscribed == nil {
			return nil
		}
	default:
		return nil
	}
	var gone []offsetKey
	for k, o := range of.at {
		if subscribed[k.topic] {
			continue
		}
		due := base(&o) + m.config.OffsetsRetentionMS
		if o.expireMS >= 0 {
			due = o.expireMS
		}
		if now.WallMS >= due {
			gone = append(gone, k)
		}
	}
	return gone
}

// subscribedTopics is what the members of a consumer group subscribe to; nil when a subscription cannot be read, and then
// nothing may be taken for unused.
func (g *classic) subscribedTopics() map[string]bool {
	topics := map[string]bool{}
	for _, mb := range g.members {
		var s kmsg.ConsumerMemberMetadata
		if g.protocol == nil || s.ReadFrom(mb.metadata(*g.protocol)) != nil {
			return nil
		}
		for _, t := range s.Topics {
			topics[t] = true
		}
	}
	return topics
}

// RemoveOffsets removes, in all groups, the committed offsets of topics that are gone. An offset names its topic and,
// unless an old record lacks it, carries the topic's id; without one it is zero.
func (m *Machine) RemoveOffsets(now Now, gone func(topic string, topicID [16]byte) bool) {
	for _, id := range slices.Sorted(maps.Keys(m.offsets)) {
		var keys []offsetKey
		for k, o := range m.offsets[id].at {
			if gone(k.topic, o.topicID) {
				keys = append(keys, k)
			}
		}
		if g := m.groups[id]; g != nil && len(keys) > 0 {
			m.removeOffsets(now, g, keys, false)
		}
	}
}

// removeOffsets writes tombstones, and with drop the group's too.
func (m *Machine) removeOffsets(now Now, g *classic, gone []offsetKey, drop bool) {
	slices.SortFunc(gone, compareKeys)
	m.note(g.id, fmt.Sprintf("removes %d committed offsets", len(gone)))
	for len(gone) > maxTombstones {
		m.writeTombstones(now, g, gone[:maxTombstones], false)
		gone = gone[maxTombstones:]
	}
	m.writeTombstones(now, g, gone, drop)
}

func (m *Machine) writeTombstones(now Now, g *classic, gone []offsetKey, drop bool) {
	var records []Record
	for _, k := range gone {
		records = append(records, Record{Key: offsetRecordKey(g.id, k)})
	}
	if drop && g.persisted {
		records = append(records, Record{Key: groupRecordKey(g.id)})
	}
	if len(records) == 0 {
		m.dropIfUnused(g)
		return
	}
	if drop {
		g.state = dead
	}
	m.write(now, records, &removal{g: g, gone: gone, drop: drop})
}

// removal waits for tombstones.
type removal struct {
	g    *classic
	gone []offsetKey
	drop bool
}

func (w *removal) written(m *Machine, _ Now, code kafka.ErrorCode) {
	if code != kafka.None {
		m.note(w.g.id, fmt.Sprintf("could not remove expired offsets: %v; tries again later", code))
		if w.drop {
			w.g.state = empty
		}
		return
	}
	for _, k := range w.gone {
		m.removeOffset(w.g.id, k)
	}
	if w.drop {
		delete(m.groups, w.g.id)
	}
}

func (w *removal) late(*Machine, Now) {}

func (w *removal) abandon(*Machine) {}
