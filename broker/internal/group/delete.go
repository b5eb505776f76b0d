package group

import (
	"fmt"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/core/kafka"
)

// DeleteGroup handles one group of API key 42: a group without members goes, with all its offsets. The answer is a
// response that holds this group alone.
func (m *Machine) DeleteGroup(now Now, to Caller, id string) {
	w := &deletion{to: to, id: id}
	g := m.groups[id]
	switch {
	case g == nil || g.state == dead:
		w.answer(m, kafka.GroupIdNotFound, "Group "+id+" not found.")
		return
	case g.state != empty:
		w.answer(m, kafka.NonEmptyGroup, "Group "+id+" has members.")
		return
	}
	for memberID := range maps.Clone(g.pending) { // ids that were given out; their owners are told to begin anew
		m.forgetPending(g, memberID)
	}
	keys := m.offsetKeys(g)
	if len(keys) == 0 && !g.persisted {
		delete(m.groups, id)
		w.answer(m, kafka.None, "")
		return
	}
	m.note(id, "is deleted")
	m.removeOffsets(now, g, keys, true, w)
}

// offsetKeys is every offset that a group has, or will have once its commits under way are written.
func (m *Machine) offsetKeys(g *classic) []offsetKey {
	set := map[offsetKey]bool{}
	if of := m.offsets[g.id]; of != nil {
		for k := range of.at {
			set[k] = true
		}
	}
	for k := range g.writing {
		set[k] = true
	}
	return slices.Collect(maps.Keys(set))
}

// deletion answers DeleteGroups for one group.
type deletion struct {
	to       Caller
	id       string
	answered bool
}

func (w *deletion) answer(m *Machine, code kafka.ErrorCode, text string) {
	if w.answered {
		return
	}
	w.answered = true
	r := kmsg.NewPtrDeleteGroupsResponse()
	rg := kmsg.NewDeleteGroupsResponseGroup()
	rg.Group, rg.ErrorCode = w.id, int16(code)
	if code != kafka.None {
		rg.ErrorMessage = kmsg.StringPtr(text)
	}
	r.Groups = append(r.Groups, rg)
	m.answer(w.to, r)
}

func (w *deletion) removed(m *Machine, code kafka.ErrorCode) {
	code = groupError(code)
	w.answer(m, code, fmt.Sprintf("Group %s could not be deleted: %v.", w.id, code))
}

// OffsetDelete handles API key 47 for topics that the caller knows to exist. Offsets of topics that a member subscribes to
// stay.
func (m *Machine) OffsetDelete(now Now, to Caller, req *kmsg.OffsetDeleteRequest) {
	r := kmsg.NewPtrOffsetDeleteResponse()
	r.Version = req.Version
	g := m.groups[req.Group]
	switch {
	case g == nil || g.state == dead:
		r.ErrorCode = int16(kafka.GroupIdNotFound)
	case g.state != empty && g.protocolType != "consumer":
		r.ErrorCode = int16(kafka.NonEmptyGroup) // what its members use cannot be known
	}
	if r.ErrorCode != 0 {
		m.answer(to, r)
		return
	}
	var subscribed map[string]bool
	unknown := false
	if g.state != empty {
		subscribed = g.subscribedTopics()
		unknown = subscribed == nil
	}
	have := map[offsetKey]bool{}
	for _, k := range m.offsetKeys(g) {
		have[k] = true
	}
	var gone []offsetKey
	for i := range req.Topics {
		t := &req.Topics[i]
		rt := kmsg.NewOffsetDeleteResponseTopic()
		rt.Topic = t.Topic
		for _, p := range t.Partitions {
			rp := kmsg.NewOffsetDeleteResponseTopicPartition()
			rp.Partition = p.Partition
			k := offsetKey{t.Topic, p.Partition}
			switch {
			case unknown || subscribed[t.Topic]:
				rp.ErrorCode = int16(kafka.GroupSubscribedToTopic)
			case have[k]:
				delete(have, k) // asked for twice, removed once
				gone = append(gone, k)
			}
			rt.Partitions = append(rt.Partitions, rp)
		}
		r.Topics = append(r.Topics, rt)
	}
	if len(gone) == 0 {
		m.answer(to, r)
		return
	}
	m.removeOffsets(now, g, gone, false, &offsetDeletion{to: to, response: r})
}

// offsetDeletion answers OffsetDelete.
type offsetDeletion struct {
	to       Caller
	response *kmsg.OffsetDeleteResponse
	answered bool
}

func (w *offsetDeletion) removed(m *Machine, code kafka.ErrorCode) {
	if w.answered {
		return
	}
	w.answered = true
	if code != kafka.None {
		w.response.ErrorCode, w.response.Topics = int16(groupError(code)), nil
	}
	m.answer(w.to, w.response)
}
