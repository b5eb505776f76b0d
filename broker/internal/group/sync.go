package group

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/core/kafka"
)

// SyncGroup handles API key 14. Bytes of req are copied.
func (m *Machine) SyncGroup(now Now, to Caller, req *kmsg.SyncGroupRequest) {
	refuse := func(code kafka.ErrorCode) {
		r := kmsg.NewPtrSyncGroupResponse()
		r.Version, r.ErrorCode, r.MemberAssignment = req.Version, int16(code), []byte{}
		m.answer(to, r)
	}
	g := m.groups[req.Group]
	switch {
	case req.Version >= 5 && (req.ProtocolType == nil || req.Protocol == nil): // null is of the versions before
		refuse(kafka.InconsistentGroupProtocol)
		return
	case req.Group == "":
		refuse(kafka.InvalidGroupId)
		return
	case g == nil:
		refuse(kafka.UnknownMemberId)
		return
	case g.state == dead:
		refuse(kafka.CoordinatorNotAvailable)
		return
	}
	if code := g.check(req.MemberID, req.InstanceID); code != kafka.None {
		refuse(code)
		return
	}
	mb := g.byID[req.MemberID]
	switch {
	case req.Generation != g.generation:
		refuse(kafka.IllegalGeneration)
	case req.ProtocolType != nil && *req.ProtocolType != g.protocolType,
		req.Protocol != nil && g.protocol != nil && *req.Protocol != *g.protocol:
		refuse(kafka.InconsistentGroupProtocol)
	case g.state == preparingRebalance:
		refuse(kafka.RebalanceInProgress)
	case g.state == stable:
		m.synced(g, mb)
		m.answer(to, g.syncResponse(mb, req.Version, kafka.None))
	case g.state == completingRebalance:
		m.answerSync(g, mb, kafka.RebalanceInProgress) // an earlier SyncGroup that its client has given up on
		mb.sync, mb.syncV = to, req.Version
		m.synced(g, mb)
		if g.isLeader(mb.id) {
			m.assign(now, g, req)
		}
	default:
		refuse(kafka.UnknownMemberId)
	}
}

// synced notes a member's SyncGroup; when all have come nobody is left to be removed for missing it.
func (m *Machine) synced(g *classic, mb *member) {
	mb.synced = true
	for _, o := range g.members {
		if !o.synced {
			return
		}
	}
	m.timers.stop(&g.syncTimer)
}

// assign writes the leader's assignment; it takes effect once it is written. A leader that sends SyncGroup again
// meanwhile waits for the first: two different assignments of one generation in the log would be two truths, one before
// and one after a reload.
func (m *Machine) assign(now Now, g *classic, req *kmsg.SyncGroupRequest) {
	if g.assigning == g.generation {
		return
	}
	g.assigning = g.generation
	assignment := make(map[string][]byte, len(req.GroupAssignment))
	for i := range req.GroupAssignment {
		assignment[req.GroupAssignment[i].MemberID] = bytes.Clone(req.GroupAssignment[i].MemberAssignment)
	}
	m.writeGroup(now, g, assignment, &assignmentWrite{g: g, generation: g.generation, assignment: assignment})
}

// syncTimeout removes the members that have not sent SyncGroup within the rebalance timeout.
func (m *Machine) syncTimeout(now Now, g *classic) {
	if g.state != completingRebalance && g.state != stable {
		return
	}
	var late []string
	for _, mb := range append([]*member(nil), g.members...) {
		if !mb.synced {
			late = append(late, mb.id)
			m.remove(g, mb)
		}
	}
	if len(late) > 0 {
		m.prepare(now, g, "no SyncGroup came from "+strings.Join(late, ", "))
	}
}

// assignmentWrite waits for the record that holds the leader's assignment.
type assignmentWrite struct {
	g          *classic
	generation int32
	assignment map[string][]byte
}

func (w *assignmentWrite) written(m *Machine, now Now, code kafka.ErrorCode) {
	g := w.g
	if g.assigning == w.generation {
		g.assigning = 0
	}
	if g.state != completingRebalance || g.generation != w.generation {
		return // the next rebalance has begun and answered who waited
	}
	if code != kafka.None {
		w.fail(m, now, code)
		return
	}
	g.enter(now, stable)
	for _, mb := range g.members {
		mb.assignment = w.assignment[mb.id]
		if m.answerSync(g, mb, kafka.None) {
			m.heard(now, mb)
		}
	}
}

func (w *assignmentWrite) fail(m *Machine, now Now, code kafka.ErrorCode) {
	for _, mb := range w.g.members {
		mb.assignment = nil
		if m.answerSync(w.g, mb, groupError(code)) {
			m.heard(now, mb)
		}
	}
	m.prepare(now, w.g, fmt.Sprintf("its assignment could not be written: %v", code))
}

// late begins the next round; should the record be written after all, it is of a generation that is over.
func (w *assignmentWrite) late(m *Machine, now Now) {
	if w.g.state == completingRebalance && w.g.generation == w.generation {
		w.fail(m, now, kafka.RequestTimedOut)
	}
}

func (w *assignmentWrite) abandon(*Machine) {} // Resign answers the members
