package group

import (
	"bytes"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/core/kafka"
)

// state is where a classic group stands; the package comment draws the transitions.
type state int8

const (
	empty state = iota
	preparingRebalance
	completingRebalance
	stable
	dead
)

// String gives the name that DescribeGroups and ListGroups show.
func (s state) String() string {
	return [...]string{"Empty", "PreparingRebalance", "CompletingRebalance", "Stable", "Dead"}[s]
}

// member is one member of a classic group.
type member struct {
	id                 string
	instance           *string // group.instance.id of a static member
	clientID, host     string
	sessionTimeoutMS   int32
	rebalanceTimeoutMS int32
	protocols          []kmsg.JoinGroupRequestProtocol // each name once; changed by setProtocols
	assignment         []byte

	join     Caller // JoinGroup that waits for the rebalance's end, nil for none
	joinV    int16
	sync     Caller // SyncGroup that waits for the leader's assignment, nil for none
	syncV    int16
	fresh    bool // has not had the answer to its first JoinGroup, so cannot send heartbeats
	synced   bool // has sent SyncGroup in this generation
	deadline timer
}

// metadata is the member's subscription in a protocol, nil when it does not support it.
func (mb *member) metadata(protocol string) []byte {
	for i := range mb.protocols {
		if mb.protocols[i].Name == protocol {
			return mb.protocols[i].Metadata
		}
	}
	return nil
}

// sameProtocols reports whether a JoinGroup repeats what the member said before.
func (mb *member) sameProtocols(p []kmsg.JoinGroupRequestProtocol) bool {
	return slices.EqualFunc(mb.protocols, p, func(a, b kmsg.JoinGroupRequestProtocol) bool {
		return a.Name == b.Name && bytes.Equal(a.Metadata, b.Metadata)
	})
}

// classic is a group of the classic protocol.
type classic struct {
	id           string
	state        state
	sinceMS      int64 // wall clock of the last change of state, -1 unknown
	generation   int32
	protocolType string
	protocol     *string
	leader       string
	members      []*member // in the order of joining
	byID         map[string]*member
	static       map[string]string     // instance id to member id
	supported    supported             // the members' protocols
	pending      map[string]*timer     // ids given out with MEMBER_ID_REQUIRED, not yet joined
	joined       int                   // members whose JoinGroup waits
	persisted    bool                  // the log may hold a record of it: one was to be written
	commits      int                   // commits being written
	writing      map[offsetKey]pending // by which of them an offset is set
	assigning    int32                 // generation whose assignment is being written, 0 for none

	// While the first rebalance of an empty group waits for more members:
	initial          bool
	initialAdded     bool
	initialDelayMS   int64
	initialRemainsMS int64

	joinTimer timer // ends PreparingRebalance
	syncTimer timer // removes members that do not send SyncGroup
}

func (m *Machine) newClassic(id string) *classic {
	g := &classic{id: id, sinceMS: -1, byID: map[string]*member{}, static: map[string]string{}, pending: map[string]*timer{},
		supported: supported{members: map[string]int{}}, writing: map[offsetKey]pending{}}
	g.joinTimer = newTimer(func(now Now) { m.joinTimeout(now, g) })
	g.syncTimer = newTimer(func(now Now) { m.syncTimeout(now, g) })
	m.groups[id] = g
	return g
}

// create makes a group because a client asked for it.
func (m *Machine) create(now Now, id string) *classic {
	if m.retention.index == notQueued {
		m.timers.set(&m.retention, now.in(m.config.RetentionCheckMS))
	}
	return m.newClassic(id)
}

// dropIfUnused forgets a group that holds nothing and of which the log knows nothing.
func (m *Machine) dropIfUnused(g *classic) {
	if g.state == empty && !g.persisted && g.commits == 0 && len(g.pending) == 0 && m.offsets[g.id] == nil && m.groups[g.id] == g {
		delete(m.groups, g.id)
	}
}

func (g *classic) enter(now Now, s state) {
	g.state = s
	g.sinceMS = now.WallMS
}

func (g *classic) isLeader(memberID string) bool { return g.leader == memberID && memberID != "" }

func (g *classic) rebalanceTimeoutMS() int64 {
	var longest int32
	for _, mb := range g.members {
		longest = max(longest, mb.rebalanceTimeoutMS)
	}
	return int64(longest)
}

// everybodyJoined: each member's JoinGroup waits and nobody who was given a member id is still expected.
func (g *classic) everybodyJoined() bool { return g.joined == len(g.members) && len(g.pending) == 0 }

// check tells whether a request may speak for a member: a static member's instance id must belong to that member id.
func (g *classic) check(memberID string, instance *string) kafka.ErrorCode {
	if instance != nil {
		owner, ok := g.static[*instance]
		if !ok {
			return kafka.UnknownMemberId
		}
		if owner != memberID {
			return kafka.FencedInstanceId
		}
	}
	if g.byID[memberID] == nil {
		return kafka.UnknownMemberId
	}
	return kafka.None
}

// add puts a member in; the first gives the group its protocol type and, where there is none, its leader.
func (m *Machine) add(g *classic, mb *member, protocolType string) {
	if len(g.members) == 0 {
		g.protocolType = protocolType
	}
	if g.leader == "" {
		g.leader = mb.id
	}
	if mb.instance != nil {
		g.static[*mb.instance] = mb.id
	}
	g.members = append(g.members, mb)
	g.byID[mb.id] = mb
	g.supported.add(mb.protocols, 1)
	mb.deadline = newTimer(func(now Now) { m.sessionTimeout(now, g, mb) })
	m.forgetPending(g, mb.id)
}

// remove takes a member out. Its waiting requests must have been answered.
func (m *Machine) remove(g *classic, mb *member) {
	m.timers.stop(&mb.deadline)
	g.members = slices.DeleteFunc(g.members, func(o *member) bool { return o == mb })
	delete(g.byID, mb.id)
	g.supported.add(mb.protocols, -1)
	if mb.instance != nil && g.static[*mb.instance] == mb.id {
		delete(g.static, *mb.instance)
	}
	if g.leader == mb.id {
		g.leader = ""
		if len(g.members) > 0 {
			g.leader = g.members[0].id
		}
	}
}

func (m *Machine) forgetPending(g *classic, memberID string) bool {
	t, ok := g.pending[memberID]
	if ok {
		m.timers.stop(t)
		delete(g.pending, memberID)
	}
	return ok
}

// heard pushes a member's session back by its session timeout.
func (m *Machine) heard(now Now, mb *member) {
	m.timers.set(&mb.deadline, now.MonoMS+int64(mb.sessionTimeoutMS))
}

// answerJoin answers a member's waiting JoinGroup, if there is one, and tells whether there was.
func (m *Machine) answerJoin(g *classic, mb *member, r kmsg.JoinGroupResponse) bool {
	if mb.join == nil {
		return false
	}
	r.Version = mb.joinV
	m.answer(mb.join, &r)
	mb.join = nil
	g.joined--
	return true
}

// answerSync answers a member's waiting SyncGroup with its assignment or an error, and tells whether there was one.
func (m *Machine) answerSync(g *classic, mb *member, code kafka.ErrorCode) bool {
	if mb.sync == nil {
		return false
	}
	m.answer(mb.sync, g.syncResponse(mb, mb.syncV, code))
	mb.sync = nil
	return true
}

func (g *classic) syncResponse(mb *member, version int16, code kafka.ErrorCode) *kmsg.SyncGroupResponse {
	r := kmsg.NewPtrSyncGroupResponse()
	r.Version = version
	r.ErrorCode = int16(code)
	r.MemberAssignment = []byte{}
	if code == kafka.None {
		r.ProtocolType, r.Protocol = kmsg.StringPtr(g.protocolType), g.protocol
		if mb.assignment != nil {
			r.MemberAssignment = mb.assignment
		}
	}
	return r
}

func errorJoin(code kafka.ErrorCode, memberID string) kmsg.JoinGroupResponse {
	r := kmsg.NewJoinGroupResponse()
	r.ErrorCode = int16(code)
	r.Generation = -1
	r.MemberID = memberID
	r.Members = []kmsg.JoinGroupResponseMember{}
	return r
}
