package group

import (
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/core/kafka"
)

// rebalanceOrComplete starts a rebalance, or, when one is on its way, ends its joining phase if nobody is missing.
func (m *Machine) rebalanceOrComplete(now Now, g *classic, why string) {
	if g.state != preparingRebalance {
		m.prepare(now, g, why)
		return
	}
	m.completeIfJoined(now, g)
}

// completeIfJoined ends PreparingRebalance when nobody is missing, but not the first one of an empty group, which waits
// for its delay.
func (m *Machine) completeIfJoined(now Now, g *classic) {
	if g.state == preparingRebalance && !g.initial && g.everybodyJoined() {
		m.completeJoin(now, g)
	}
}

// prepare enters PreparingRebalance. Members learn of it by REBALANCE_IN_PROGRESS and have the longest rebalance timeout
// of the group to join again.
func (m *Machine) prepare(now Now, g *classic, why string) {
	if g.state == completingRebalance {
		for _, mb := range g.members {
			mb.assignment = nil
			if m.answerSync(g, mb, kafka.RebalanceInProgress) {
				m.heard(now, mb)
			}
		}
	}
	m.timers.stop(&g.syncTimer)
	m.note(g.id, fmt.Sprintf("rebalances after generation %d: %s", g.generation, why))
	first := g.state == empty
	g.enter(now, preparingRebalance)
	delay := int64(m.config.InitialRebalanceDelayMS)
	switch {
	case first && delay > 0:
		g.initial, g.initialAdded = true, false
		g.initialDelayMS = delay
		g.initialRemainsMS = max(g.rebalanceTimeoutMS()-delay, 0)
		m.timers.set(&g.joinTimer, now.MonoMS+delay)
	case first || g.everybodyJoined():
		m.completeJoin(now, g)
	default:
		m.timers.set(&g.joinTimer, now.MonoMS+g.rebalanceTimeoutMS())
	}
}

// joinTimeout fires when the time for joining is up.
func (m *Machine) joinTimeout(now Now, g *classic) {
	if g.state != preparingRebalance {
		return
	}
	if g.initial && g.initialAdded && g.initialRemainsMS > 0 {
		// Somebody came: wait once more, but in all no longer than the rebalance timeout.
		g.initialAdded = false
		delay := min(int64(m.config.InitialRebalanceDelayMS), g.initialRemainsMS)
		g.initialRemainsMS = max(g.initialRemainsMS-g.initialDelayMS, 0)
		g.initialDelayMS = delay
		m.timers.set(&g.joinTimer, now.MonoMS+delay)
		return
	}
	m.completeJoin(now, g)
}

// silentWaitMS is how long a group waits at least for static members that do not join again: 0 is a rebalance timeout too.
const silentWaitMS = 1000

// completeJoin ends PreparingRebalance: dynamic members that have not joined again are out, static ones stay until their
// session is over; the next generation begins.
func (m *Machine) completeJoin(now Now, g *classic) {
	m.timers.stop(&g.joinTimer)
	var late []string
	for _, mb := range append([]*member(nil), g.members...) {
		if mb.join == nil && mb.instance == nil {
			late = append(late, mb.id)
			m.remove(g, mb)
		}
	}
	if len(late) > 0 {
		m.note(g.id, "removes members that did not join again: "+strings.Join(late, ", "))
	}
	g.initial = false
	if len(g.members) > 0 && !g.electJoined() {
		// Only silent static members are left; their sessions will end.
		m.timers.set(&g.joinTimer, now.MonoMS+max(g.rebalanceTimeoutMS(), silentWaitMS))
		return
	}
	g.generation++
	m.fx.Rebalances++
	if len(g.members) == 0 {
		g.protocol, g.leader = nil, ""
		g.enter(now, empty)
		m.note(g.id, fmt.Sprintf("is empty at generation %d", g.generation))
		m.writeGroup(now, g, nil, &emptyWrite{g: g})
		return
	}
	g.protocol = kmsg.StringPtr(g.selectProtocol())
	g.enter(now, completingRebalance)
	m.note(g.id, fmt.Sprintf("generation %d has %d members, protocol %s, leader %s", g.generation, len(g.members), *g.protocol, g.leader))
	for _, mb := range g.members {
		mb.fresh, mb.synced = false, false
		m.answerJoin(g, mb, *g.joinResponse(mb, mb.joinV))
		m.heard(now, mb)
	}
	m.timers.set(&g.syncTimer, now.MonoMS+g.rebalanceTimeoutMS())
}

// electJoined keeps the leader if it has joined, else takes the longest member that has; false when nobody has.
func (g *classic) electJoined() bool {
	if mb := g.byID[g.leader]; mb != nil && mb.join != nil {
		return true
	}
	for _, mb := range g.members {
		if mb.join != nil {
			g.leader = mb.id
			return true
		}
	}
	return false
}

// joinResponse tells a member of the current generation; the leader gets the members and their subscriptions too.
func (g *classic) joinResponse(mb *member, version int16) *kmsg.JoinGroupResponse {
	r := kmsg.NewPtrJoinGroupResponse()
	r.Version = version
	r.Generation = g.generation
	r.ProtocolType = kmsg.StringPtr(g.protocolType)
	r.Protocol = g.protocol
	r.LeaderID = g.leader
	r.MemberID = mb.id
	r.Members = []kmsg.JoinGroupResponseMember{}
	if !g.isLeader(mb.id) {
		return r
	}
	for _, o := range g.members {
		jm := kmsg.NewJoinGroupResponseMember()
		jm.MemberID, jm.InstanceID = o.id, o.instance
		jm.ProtocolMetadata = o.metadata(*g.protocol)
		r.Members = append(r.Members, jm)
	}
	return r
}

// sessionTimeout fires when a member has been silent for its session timeout, or, before its first answer, for
// newMemberJoinTimeoutMS. Who waits for an answer cannot send heartbeats and stays; its session is set again with the
// answer.
func (m *Machine) sessionTimeout(now Now, g *classic, mb *member) {
	if !mb.fresh && (mb.join != nil || mb.sync != nil) {
		return
	}
	m.answerJoin(g, mb, errorJoin(kafka.UnknownMemberId, ""))
	m.remove(g, mb)
	m.afterRemoval(now, g, fmt.Sprintf("member %s was silent for its session timeout of %d ms", mb.id, mb.sessionTimeoutMS))
}

// afterRemoval goes on after members have gone without having been asked for.
func (m *Machine) afterRemoval(now Now, g *classic, why string) {
	switch g.state {
	case stable, completingRebalance:
		m.prepare(now, g, why)
	case preparingRebalance:
		m.note(g.id, why)
		m.completeIfJoined(now, g)
	}
}

// emptyWrite waits for the record of a group that has become empty. A failure is harmless: the generation before comes
// back after a crash, and its members' sessions end.
type emptyWrite struct{ g *classic }

func (w *emptyWrite) written(m *Machine, _ Now, code kafka.ErrorCode) {
	if code != kafka.None {
		m.note(w.g.id, fmt.Sprintf("could not write that it is empty: %v", code))
	}
}

func (w *emptyWrite) late(*Machine, Now) {}

func (w *emptyWrite) abandon(*Machine) {}
