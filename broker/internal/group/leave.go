package group

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/core/kafka"
)

// Heartbeat handles API key 12.
func (m *Machine) Heartbeat(now Now, to Caller, req *kmsg.HeartbeatRequest) {
	r := kmsg.NewPtrHeartbeatResponse()
	r.Version = req.Version
	r.ErrorCode = int16(m.heartbeat(now, req))
	m.answer(to, r)
}

func (m *Machine) heartbeat(now Now, req *kmsg.HeartbeatRequest) kafka.ErrorCode {
	if req.Group == "" {
		return kafka.InvalidGroupId
	}
	g := m.groups[req.Group]
	if g == nil {
		return kafka.UnknownMemberId
	}
	if g.state == dead {
		return kafka.CoordinatorNotAvailable
	}
	if code := g.check(req.MemberID, req.InstanceID); code != kafka.None {
		return code
	}
	if req.Generation != g.generation {
		return kafka.IllegalGeneration
	}
	m.heardUnlessFresh(now, g.byID[req.MemberID])
	if g.state == preparingRebalance {
		return kafka.RebalanceInProgress
	}
	return kafka.None
}

// heardUnlessFresh does not shorten the time that a member has for its first answer.
func (m *Machine) heardUnlessFresh(now Now, mb *member) {
	if !mb.fresh {
		m.heard(now, mb)
	}
}

// LeaveGroup handles API key 13: members leave, or an administrator removes static ones by instance id.
func (m *Machine) LeaveGroup(now Now, to Caller, req *kmsg.LeaveGroupRequest) {
	r := kmsg.NewPtrLeaveGroupResponse()
	r.Version = req.Version
	defer func() { m.answer(to, r) }()
	if req.Group == "" {
		r.ErrorCode = int16(kafka.InvalidGroupId)
		return
	}
	g := m.groups[req.Group]
	if g != nil && g.state == dead {
		r.ErrorCode = int16(kafka.CoordinatorNotAvailable)
		return
	}
	members := req.Members
	if req.Version < 3 {
		one := kmsg.NewLeaveGroupRequestMember()
		one.MemberID = req.MemberID
		members = []kmsg.LeaveGroupRequestMember{one}
	}
	gone := 0
	for i := range members {
		code := kafka.UnknownMemberId
		if g != nil {
			code = m.leave(g, &members[i])
		}
		if code == kafka.None {
			gone++
		}
		if req.Version < 3 {
			r.ErrorCode = int16(code)
			continue
		}
		lm := kmsg.NewLeaveGroupResponseMember()
		lm.MemberID, lm.InstanceID, lm.ErrorCode = members[i].MemberID, members[i].InstanceID, int16(code)
		r.Members = append(r.Members, lm)
	}
	if gone > 0 {
		m.afterRemoval(now, g, fmt.Sprintf("%d of %d leave", gone, gone+len(g.members)))
		m.dropIfUnused(g)
	}
}

func (m *Machine) leave(g *classic, who *kmsg.LeaveGroupRequestMember) kafka.ErrorCode {
	id := who.MemberID
	if id == "" {
		if who.InstanceID == nil || g.static[*who.InstanceID] == "" {
			return kafka.UnknownMemberId
		}
		id = g.static[*who.InstanceID]
	} else {
		if m.forgetPending(g, id) {
			return kafka.None
		}
		if code := g.check(id, who.InstanceID); code != kafka.None {
			return code
		}
	}
	mb := g.byID[id]
	m.answerJoin(g, mb, errorJoin(kafka.UnknownMemberId, ""))
	m.answerSync(g, mb, kafka.UnknownMemberId)
	m.remove(g, mb)
	return kafka.None
}
