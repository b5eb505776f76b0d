package group

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/core/kafka"
)

// JoinGroup handles API key 11. clientID and host describe the sender. Bytes of req are copied.
func (m *Machine) JoinGroup(now Now, to Caller, clientID, host string, req *kmsg.JoinGroupRequest) {
	refuse := func(code kafka.ErrorCode, memberID string) {
		r := errorJoin(code, memberID)
		r.Version = req.Version
		m.answer(to, &r)
	}
	if req.Group == "" || len(req.Group) > maxTextBytes {
		refuse(kafka.InvalidGroupId, req.MemberID)
		return
	}
	if unwritable(clientID, req) {
		refuse(kafka.InvalidRequest, req.MemberID)
		return
	}
	if req.SessionTimeoutMillis < m.config.MinSessionTimeoutMS || req.SessionTimeoutMillis > m.config.MaxSessionTimeoutMS {
		refuse(kafka.InvalidSessionTimeout, req.MemberID)
		return
	}
	if once := unique(req.Protocols); len(once) < len(req.Protocols) {
		r := *req
		r.Protocols = once
		req = &r
	}
	g := m.groups[req.Group]
	if g == nil {
		if req.MemberID != "" {
			refuse(kafka.UnknownMemberId, req.MemberID)
			return
		}
		if req.ProtocolType == "" || len(req.Protocols) == 0 {
			refuse(kafka.InconsistentGroupProtocol, "")
			return
		}
		g = m.create(now, req.Group)
	}
	switch {
	case g.state == dead:
		refuse(kafka.CoordinatorNotAvailable, req.MemberID)
	case !m.hasRoom(g, req.MemberID):
		if mb := g.byID[req.MemberID]; mb != nil {
			m.remove(g, mb)
		}
		m.forgetPending(g, req.MemberID)
		refuse(kafka.GroupMaxSizeReached, "")
		m.completeIfJoined(now, g)
	case !g.hasMemory(req): // who is a member stays one, for as long as its session lasts
		refuse(kafka.GroupMaxSizeReached, "")
	case !g.supportsProtocols(req.ProtocolType, req.Protocols):
		refuse(kafka.InconsistentGroupProtocol, req.MemberID)
	case req.MemberID == "" && req.InstanceID != nil:
		m.joinStatic(now, to, clientID, host, g, req)
	case req.MemberID == "" && req.Version >= 4:
		// A client that never comes back with its id costs one entry until its session is over.
		id := clientID + "-" + m.newID()
		m.addPending(now, g, id, req.SessionTimeoutMillis)
		refuse(kafka.MemberIdRequired, id)
	case req.MemberID == "":
		m.joinNew(now, to, clientID, host, g, req, clientID+"-"+m.newID())
	case g.pending[req.MemberID] != nil && req.InstanceID == nil:
		m.joinNew(now, to, clientID, host, g, req, req.MemberID)
	default:
		if code := g.check(req.MemberID, req.InstanceID); code != kafka.None {
			refuse(code, req.MemberID)
			return
		}
		m.joinAgain(now, to, g, g.byID[req.MemberID], req)
	}
}

// What clients may have a group keep of them: it is in no other account once their requests have been taken.
const (
	// maxMemberBytes bounds one member's protocols, each with its metadata: what its topics' names take, and with sticky
	// assignors what it was assigned.
	maxMemberBytes = 1 << 20
	// maxGroupBytes bounds those of all members of a group: five thousand with 50 KB each fit.
	maxGroupBytes = 320 << 20
	protocolBytes = 48 // for each protocol, beside its texts
)

// memberBytes is what a member's protocols take.
func memberBytes(protocols []kmsg.JoinGroupRequestProtocol) int {
	n := 0
	for i := range protocols {
		n += protocolBytes + len(protocols[i].Name) + len(protocols[i].Metadata)
	}
	return n
}

// hasMemory reports whether a group may keep a member's protocols, in place of what it keeps of the same member.
func (g *classic) hasMemory(req *kmsg.JoinGroupRequest) bool {
	id := req.MemberID
	if id == "" && req.InstanceID != nil {
		id = g.static[*req.InstanceID]
	}
	n := g.supported.bytes + memberBytes(req.Protocols)
	if mb := g.byID[id]; mb != nil {
		n -= memberBytes(mb.protocols)
	}
	return n <= maxGroupBytes
}

// unwritable reports whether a member has a text that is too long for its group's record, or more than is kept of one. Its id is
// to be its client's or instance's name and a UUID.
func unwritable(clientID string, req *kmsg.JoinGroupRequest) bool {
	if memberBytes(req.Protocols) > maxMemberBytes || len(clientID) > maxNameBytes || len(req.ProtocolType) > maxTextBytes ||
		req.InstanceID != nil && len(*req.InstanceID) > maxNameBytes {
		return true
	}
	return slices.ContainsFunc(req.Protocols, func(p kmsg.JoinGroupRequestProtocol) bool { return len(p.Name) > maxTextBytes })
}

// hasRoom applies group.max.size. During PreparingRebalance those are counted who have joined, so that a group that is
// over a lowered limit sheds the last to rejoin.
func (m *Machine) hasRoom(g *classic, memberID string) bool {
	switch g.state {
	case preparingRebalance:
		mb := g.byID[memberID]
		return mb != nil && mb.join != nil || g.joined < int(m.config.MaxSize)
	case completingRebalance, stable:
		return g.byID[memberID] != nil || len(g.members) < int(m.config.MaxSize)
	}
	return true
}

func (m *Machine) addPending(now Now, g *classic, id string, sessionTimeoutMS int32) {
	t := newTimer(func(now Now) {
		delete(g.pending, id)
		m.note(g.id, "member "+id+" did not join with the id that it was given")
		m.completeIfJoined(now, g)
		m.dropIfUnused(g)
	})
	g.pending[id] = &t
	m.timers.set(&t, now.MonoMS+int64(sessionTimeoutMS))
}

// joinNew adds a member that has just got its id, or comes back with the id it got.
func (m *Machine) joinNew(now Now, to Caller, clientID, host string, g *classic, req *kmsg.JoinGroupRequest, id string) {
	mb := &member{id: id, instance: req.InstanceID, clientID: clientID, host: host, fresh: true}
	if g.state == preparingRebalance && g.initial {
		g.initialAdded = true
	}
	m.add(g, mb, req.ProtocolType)
	m.park(g, mb, to, req)
	m.timers.set(&mb.deadline, now.MonoMS+newMemberJoinTimeoutMS)
	m.rebalanceOrComplete(now, g, fmt.Sprintf("member %s joins%s", id, reasonOf(req)))
}

// joinAgain handles a JoinGroup of a member that the group knows.
func (m *Machine) joinAgain(now Now, to Caller, g *classic, mb *member, req *kmsg.JoinGroupRequest) {
	changed := !mb.sameProtocols(req.Protocols)
	switch {
	case g.state == preparingRebalance:
	case g.state == completingRebalance && !changed:
		// It may have missed the answer of the round that has just ended.
		m.answer(to, g.joinResponse(mb, req.Version))
		return
	case g.state == stable && !changed && !g.isLeader(mb.id):
		m.answer(to, g.joinResponse(mb, req.Version))
		return
	case g.state == completingRebalance || g.state == stable:
		// The leader joins again to have partitions assigned anew, when a topic has grown for example.
	default:
		r := errorJoin(kafka.UnknownMemberId, mb.id)
		r.Version = req.Version
		m.answer(to, &r)
		return
	}
	m.park(g, mb, to, req)
	m.rebalanceOrComplete(now, g, fmt.Sprintf("member %s joins again%s", mb.id, reasonOf(req)))
}

// joinStatic handles a JoinGroup with an instance id and no member id: a new static member, or one whose process was
// started again. The latter takes over its predecessor's place under a new member id, which fences the predecessor.
func (m *Machine) joinStatic(now Now, to Caller, clientID, host string, g *classic, req *kmsg.JoinGroupRequest) {
	newID := *req.InstanceID + "-" + m.newID()
	oldID, known := g.static[*req.InstanceID]
	if !known {
		m.joinNew(now, to, clientID, host, g, req, newID)
		return
	}
	mb := g.byID[oldID]
	previous := replaced{oldID: oldID, clientID: mb.clientID, host: mb.host, protocols: mb.protocols,
		sessionTimeoutMS: mb.sessionTimeoutMS, rebalanceTimeoutMS: mb.rebalanceTimeoutMS, leader: g.leader}
	m.answerJoin(g, mb, errorJoin(kafka.FencedInstanceId, oldID))
	m.answerSync(g, mb, kafka.FencedInstanceId)
	g.rename(mb, newID)
	mb.clientID, mb.host = clientID, host
	g.update(mb, req)
	if mb.fresh {
		m.timers.set(&mb.deadline, now.MonoMS+newMemberJoinTimeoutMS)
	} else {
		m.heard(now, mb)
	}
	if g.state == stable && g.protocol != nil && g.selectProtocol() == *g.protocol {
		// Nobody else needs to know: the new id is written and the assignment stays.
		m.writeGroup(now, g, nil, &staticWrite{to: to, version: req.Version, g: g, mb: mb, newID: newID, previous: previous})
		return
	}
	// In CompletingRebalance the leader may be assigning to the old id, so that a new round is needed.
	mb.join, mb.joinV = to, req.Version
	g.joined++
	m.rebalanceOrComplete(now, g, fmt.Sprintf("static member %s takes over from %s%s", newID, oldID, reasonOf(req)))
}

// update takes over what a JoinGroup says of its member.
func (g *classic) update(mb *member, req *kmsg.JoinGroupRequest) {
	protocols := make([]kmsg.JoinGroupRequestProtocol, len(req.Protocols))
	for i := range req.Protocols {
		protocols[i].Name, protocols[i].Metadata = req.Protocols[i].Name, bytes.Clone(req.Protocols[i].Metadata)
	}
	g.setProtocols(mb, protocols)
	mb.sessionTimeoutMS = req.SessionTimeoutMillis
	mb.rebalanceTimeoutMS = req.RebalanceTimeoutMillis
	if req.Version < 1 || mb.rebalanceTimeoutMS < 0 {
		mb.rebalanceTimeoutMS = req.SessionTimeoutMillis
	}
}

// park lets a JoinGroup wait for the end of the rebalance. An earlier one of the same member, whose client has given up
// on it, is answered to free its connection's slot.
func (m *Machine) park(g *classic, mb *member, to Caller, req *kmsg.JoinGroupRequest) {
	m.answerJoin(g, mb, errorJoin(kafka.RebalanceInProgress, mb.id))
	g.update(mb, req)
	mb.join, mb.joinV = to, req.Version
	g.joined++
}

// rename gives a static member a new member id.
func (g *classic) rename(mb *member, id string) {
	delete(g.byID, mb.id)
	if g.leader == mb.id {
		g.leader = id
	}
	mb.id = id
	g.byID[id] = mb
	g.static[*mb.instance] = id
}

func reasonOf(req *kmsg.JoinGroupRequest) string {
	if req.Reason == nil || *req.Reason == "" {
		return ""
	}
	return fmt.Sprintf(" (%.255q)", *req.Reason)
}

// replaced is what a static member was before another process took over its place.
type replaced struct {
	oldID, clientID, host string
	protocols             []kmsg.JoinGroupRequestProtocol
	sessionTimeoutMS      int32
	rebalanceTimeoutMS    int32
	leader                string
}

// staticWrite waits for a group's record with the new id of a static member.
type staticWrite struct {
	to       Caller
	version  int16
	g        *classic
	mb       *member
	newID    string
	previous replaced
	answered bool
}

func (w *staticWrite) answer(m *Machine, r *kmsg.JoinGroupResponse) {
	if !w.answered {
		w.answered = true
		r.Version = w.version
		m.answer(w.to, r)
	}
}

func (w *staticWrite) refuse(m *Machine, code kafka.ErrorCode) {
	r := errorJoin(code, "")
	w.answer(m, &r)
}

func (w *staticWrite) written(m *Machine, now Now, code kafka.ErrorCode) {
	g, mb := w.g, w.mb
	if g.byID[w.newID] != mb {
		// Expired, or taken over once more, while the write was under way.
		w.refuse(m, kafka.UnknownMemberId)
		return
	}
	if code != kafka.None {
		g.rename(mb, w.previous.oldID)
		mb.clientID, mb.host = w.previous.clientID, w.previous.host
		g.setProtocols(mb, w.previous.protocols)
		mb.sessionTimeoutMS, mb.rebalanceTimeoutMS = w.previous.sessionTimeoutMS, w.previous.rebalanceTimeoutMS
		m.heard(now, mb)
		m.note(g.id, fmt.Sprintf("could not write the new member id %s: %v; %s stays", w.newID, code, w.previous.oldID))
		w.refuse(m, groupError(code))
		return
	}
	r := g.joinResponse(mb, w.version)
	if g.isLeader(mb.id) {
		if w.version >= 9 {
			r.SkipAssignment = true
		} else {
			// A client that knows nothing of SkipAssignment must not believe that it leads, or it would assign anew a group
			// whose members will not ask for it. It is shown its own old id as the leader's.
			r.LeaderID = w.previous.leader
			r.Members = []kmsg.JoinGroupResponseMember{}
		}
	}
	w.answer(m, r)
}

// late leaves the new id in place: the client comes again with its instance id and takes over once more.
func (w *staticWrite) late(m *Machine, _ Now) { w.refuse(m, groupError(kafka.RequestTimedOut)) }

func (w *staticWrite) abandon(m *Machine) { w.refuse(m, kafka.NotCoordinator) }
