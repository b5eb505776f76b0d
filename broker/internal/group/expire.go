package group

import (
	"fmt"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/core/clock"
	"github.com/tidemark/tidemark/core/kafka"
)

// What one write of tombstones may hold. A low bound costs little, since those that fit go into one batch.
const (
	maxTombstones     = 1000
	maxTombstoneBytes = 64 << 10 // of their keys, unless there is only one
)

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
			m.removeOffsets(now, g, gone, drop, nil)
		}
	}
	if len(m.groups) > 0 {
		m.timers.set(&m.retention, now.in(m.config.RetentionCheckMS))
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
		due := clock.Later(base(&o), m.config.OffsetsRetentionMS)
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
// unless an old record lacks it, carries the topic's id; without one it is zero. Where a commit is being written, what it sets
// counts: the tombstone comes behind it.
func (m *Machine) RemoveOffsets(now Now, gone func(topic string, topicID [16]byte) bool) {
	for _, id := range slices.Sorted(maps.Keys(m.groups)) {
		g := m.groups[id]
		var keys []offsetKey
		if of := m.offsets[id]; of != nil {
			for k, o := range of.at {
				if _, changes := g.writing[k]; !changes && gone(k.topic, o.topicID) {
					keys = append(keys, k)
				}
			}
		}
		for k, p := range g.writing {
			if gone(k.topic, p.topicID) {
				keys = append(keys, k)
			}
		}
		if len(keys) > 0 {
			m.removeOffsets(now, g, keys, false, nil)
		}
	}
}

// removals is who waits for tombstones: a client's request. It is told once or more; the first time counts, and that is
// success only for the last of several writes.
type removals interface {
	removed(m *Machine, code kafka.ErrorCode)
}

// removeOffsets writes tombstones, and with drop the group's too. then may be nil.
func (m *Machine) removeOffsets(now Now, g *classic, gone []offsetKey, drop bool, then removals) {
	slices.SortFunc(gone, compareKeys)
	if len(gone) > 0 {
		m.note(g.id, fmt.Sprintf("removes %d committed offsets", len(gone)))
	}
	if drop {
		g.state = dead // nobody joins or commits any more
	}
	if len(gone) == 0 && !g.persisted { // there is nothing to write; without drop there is always something
		g.state = empty
		m.dropIfUnused(g)
		return
	}
	for {
		n, bytes := tombstones(g.id, gone)
		w := &removal{g: g, gone: gone[:n], more: n < len(gone), then: then, drop: drop}
		if w.group = drop && !w.more && g.persisted; w.group {
			bytes += groupKeyBytes(g.id)
		}
		m.write(now, Write{Bytes: bytes, Records: w}, w)
		if !w.more {
			return
		}
		gone = gone[n:]
	}
}

// tombstones is how many of a group's offsets one write removes, and what their keys take.
func tombstones(group string, gone []offsetKey) (n, bytes int) {
	for n < min(len(gone), maxTombstones) {
		more := offsetKeyBytes(group, gone[n])
		if n > 0 && bytes+more > maxTombstoneBytes {
			break
		}
		n, bytes = n+1, bytes+more
	}
	return n, bytes
}

// removal waits for one write of tombstones.
type removal struct {
	g     *classic
	gone  []offsetKey
	drop  bool     // the group goes with the last write
	group bool     // it is the last one, and holds the group's tombstone
	more  bool     // another write follows
	then  removals // may be nil
}

// Count implements Records.
func (w *removal) Count() int {
	if w.group {
		return len(w.gone) + 1
	}
	return len(w.gone)
}

// Record implements Records.
func (w *removal) Record(i int) Record {
	if i == len(w.gone) {
		return Record{Key: groupRecordKey(w.g.id)}
	}
	return Record{Key: offsetRecordKey(w.g.id, w.gone[i])}
}

func (w *removal) written(m *Machine, _ Now, code kafka.ErrorCode) {
	if code != kafka.None {
		m.note(w.g.id, fmt.Sprintf("could not remove committed offsets: %v; expired ones are tried again later", code))
		if w.drop {
			w.g.state = empty
		}
		w.tell(m, code)
		return
	}
	for _, k := range w.gone {
		m.removeOffset(w.g.id, k)
	}
	if w.more {
		return
	}
	switch {
	case !w.drop:
	case w.g.state != dead: // a write before this one has failed
		return
	case m.offsets[w.g.id] != nil: // ... and left offsets behind
		w.g.state = empty
	default:
		delete(m.groups, w.g.id)
	}
	w.tell(m, kafka.None)
}

func (w *removal) tell(m *Machine, code kafka.ErrorCode) {
	if w.then != nil {
		w.then.removed(m, code)
	}
}

func (w *removal) late(m *Machine, _ Now) { w.tell(m, kafka.RequestTimedOut) }

func (w *removal) abandon(m *Machine) { w.tell(m, kafka.NotCoordinator) }
