package sink

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/core/kafka"
)

// groups are consumer groups by the classic protocol, as far as clients that behave need it: members join behind one
// barrier, the first of them leads, its assignments are handed out, offsets are kept in memory. A member that falls
// silent is thrown out at its session time-out, looked at when somebody else speaks.
type groups struct {
	sink *Sink
	mu   struct {
		sync.Mutex
		byName map[string]*group
	}
}

// group is one group's state; its own mutex guards it and changed is closed, and replaced, whenever it moves.
type group struct {
	mu struct {
		sync.Mutex
		generation int32
		state      groupState
		protocol   string
		kind       string
		leader     string
		members    map[string]*member
		offsets    map[string]map[int32]kmsg.OffsetCommitRequestTopicPartition
		changed    chan struct{}
		opened     time.Time // of the present join barrier
		notBefore  time.Time // an empty group waits so long for more members
	}
}

type groupState uint8

const (
	groupEmpty groupState = iota
	groupJoining
	groupSyncing
	groupStable
)

type member struct {
	id         string
	instance   *string
	protocols  []kmsg.JoinGroupRequestProtocol
	joined     bool // waits at the present barrier
	assignment []byte
	seen       time.Time
	session    time.Duration
	rebalance  time.Duration
}

func (g *groups) init(k *Sink) {
	g.sink = k
	g.mu.byName = map[string]*group{}
}

func (g *groups) get(name string) *group {
	g.mu.Lock()
	defer g.mu.Unlock()
	one := g.mu.byName[name]
	if one == nil {
		one = &group{}
		one.mu.members = map[string]*member{}
		one.mu.offsets = map[string]map[int32]kmsg.OffsetCommitRequestTopicPartition{}
		one.mu.changed = make(chan struct{})
		g.mu.byName[name] = one
	}
	return one
}

func (g *group) changedLocked() {
	close(g.mu.changed)
	g.mu.changed = make(chan struct{})
}

// openLocked begins a join barrier.
func (g *group) openLocked() {
	if g.mu.state == groupJoining {
		return
	}
	g.mu.state = groupJoining
	g.mu.opened = time.Now()
	for _, m := range g.mu.members {
		m.joined = false
	}
	g.changedLocked()
}

// expireLocked throws out members whose session is over.
func (g *group) expireLocked(now time.Time) {
	for id, m := range g.mu.members {
		if !m.joined && now.Sub(m.seen) > m.session {
			delete(g.mu.members, id)
			g.openLocked()
		}
	}
	if len(g.mu.members) == 0 {
		g.mu.state = groupEmpty
	}
}

// join blocks until the barrier is complete.
func (gs *groups) join(r *kmsg.JoinGroupRequest) kmsg.Response {
	g := gs.get(r.Group)
	resp := kmsg.NewPtrJoinGroupResponse()
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	g.expireLocked(now)
	id := r.MemberID
	if id == "" && r.InstanceID != nil {
		for _, m := range g.mu.members { // a static member that comes back replaces itself
			if m.instance != nil && *m.instance == *r.InstanceID {
				id = m.id
			}
		}
	}
	switch {
	case id == "" && r.Version >= 4 && r.InstanceID == nil:
		resp.ErrorCode, resp.MemberID = int16(kafka.MemberIdRequired), memberID("sink")
		return resp
	case id == "":
		id = memberID("sink")
	}
	first := len(g.mu.members) == 0
	m := g.mu.members[id]
	if m == nil {
		m = &member{id: id}
		g.mu.members[id] = m
	}
	g.openLocked()
	m.instance, m.protocols, m.joined, m.seen = r.InstanceID, r.Protocols, true, now
	m.session = time.Duration(r.SessionTimeoutMillis) * time.Millisecond
	if m.rebalance = time.Duration(r.RebalanceTimeoutMillis) * time.Millisecond; m.rebalance <= 0 {
		m.rebalance = m.session
	}
	g.mu.kind = r.ProtocolType
	g.changedLocked()
	if first {
		g.mu.notBefore = now.Add(gs.sink.script.Load().RebalanceDelay)
	}
	if !gs.barrierLocked(g, m) {
		return nil
	}
	resp.MemberID, resp.Generation, resp.LeaderID = m.id, g.mu.generation, g.mu.leader
	resp.Protocol, resp.ProtocolType = &g.mu.protocol, &g.mu.kind
	if g.mu.leader == m.id {
		for _, other := range g.sortedLocked() {
			row := kmsg.NewJoinGroupResponseMember()
			row.MemberID, row.InstanceID = other.id, other.instance
			row.ProtocolMetadata = other.metadata(g.mu.protocol)
			resp.Members = append(resp.Members, row)
		}
	}
	return resp
}

func (g *group) sortedLocked() []*member {
	var list []*member
	for _, m := range g.mu.members {
		list = append(list, m)
	}
	slices.SortFunc(list, func(a, b *member) int { return strings.Compare(a.id, b.id) })
	return list
}

func (m *member) metadata(protocol string) []byte {
	for _, p := range m.protocols {
		if p.Name == protocol {
			return p.Metadata
		}
	}
	return nil
}

// barrierLocked waits until every known member has joined or the slowest's rebalance time-out is over; whoever finds the
// barrier complete forms the generation. It reports false when the sink closes.
func (gs *groups) barrierLocked(g *group, m *member) bool {
	entered := g.mu.generation
	for g.mu.generation == entered || !m.joined {
		if g.mu.state == groupJoining && g.completeLocked() {
			g.formLocked()
			return true
		}
		until := g.mu.opened.Add(g.patienceLocked())
		if time.Now().Before(g.mu.notBefore) {
			until = g.mu.notBefore
		}
		if !gs.waitLocked(g, until) {
			return false
		}
	}
	return true
}

func (g *group) patienceLocked() time.Duration {
	longest := time.Duration(0)
	for _, m := range g.mu.members {
		longest = max(longest, m.rebalance)
	}
	return longest
}

// completeLocked reports whether the barrier can open; members that did not come in time are dropped.
func (g *group) completeLocked() bool {
	if time.Now().Before(g.mu.notBefore) {
		return false
	}
	late := time.Since(g.mu.opened) >= g.patienceLocked()
	for id, m := range g.mu.members {
		if m.joined {
			continue
		}
		if !late {
			return false
		}
		delete(g.mu.members, id)
	}
	return len(g.mu.members) > 0
}

// formLocked makes the next generation of the members at the barrier.
func (g *group) formLocked() {
	g.mu.generation++
	g.mu.state = groupSyncing
	list := g.sortedLocked()
	if g.mu.members[g.mu.leader] == nil {
		g.mu.leader = list[0].id
	}
	g.mu.protocol = ""
	for _, p := range list[0].protocols { // the first that all know
		if !slices.ContainsFunc(list, func(m *member) bool {
			return !slices.ContainsFunc(m.protocols, func(q kmsg.JoinGroupRequestProtocol) bool { return q.Name == p.Name })
		}) {
			g.mu.protocol = p.Name
			break
		}
	}
	for _, m := range list {
		m.assignment = nil
	}
	g.changedLocked()
}

// waitLocked waits, with the lock released, for a change or the deadline; false when the sink closes.
func (gs *groups) waitLocked(g *group, deadline time.Time) bool {
	changed := g.mu.changed
	g.mu.Unlock()
	defer g.mu.Lock()
	timer := time.NewTimer(max(time.Until(deadline), time.Millisecond))
	defer timer.Stop()
	select {
	case <-changed:
	case <-timer.C:
	case <-gs.sink.done:
		return false
	}
	return true
}

// checkLocked finds the member that speaks; an error code says what is wrong.
func (g *group) checkLocked(id string, generation int32) (*member, kafka.ErrorCode) {
	m := g.mu.members[id]
	switch {
	case m == nil:
		return nil, kafka.UnknownMemberId
	case generation != g.mu.generation:
		return nil, kafka.IllegalGeneration
	}
	m.seen = time.Now()
	return m, kafka.None
}

// sync hands out the leader's assignments.
func (gs *groups) sync(r *kmsg.SyncGroupRequest) kmsg.Response {
	g := gs.get(r.Group)
	resp := kmsg.NewPtrSyncGroupResponse()
	g.mu.Lock()
	defer g.mu.Unlock()
	m, code := g.checkLocked(r.MemberID, r.Generation)
	if code == kafka.None && g.mu.state == groupJoining {
		code = kafka.RebalanceInProgress
	}
	if code != kafka.None {
		resp.ErrorCode = int16(code)
		return resp
	}
	if g.mu.leader == m.id && g.mu.state == groupSyncing {
		for _, a := range r.GroupAssignment {
			if other := g.mu.members[a.MemberID]; other != nil {
				other.assignment = a.MemberAssignment
			}
		}
		g.mu.state = groupStable
		g.changedLocked()
	}
	for g.mu.state == groupSyncing && g.mu.generation == r.Generation {
		if !gs.waitLocked(g, time.Now().Add(m.session)) {
			return nil
		}
		m.seen = time.Now()
	}
	if g.mu.generation != r.Generation || g.mu.state != groupStable {
		resp.ErrorCode = int16(kafka.RebalanceInProgress)
		return resp
	}
	resp.ProtocolType, resp.Protocol = &g.mu.kind, &g.mu.protocol
	resp.MemberAssignment = m.assignment
	return resp
}

func (gs *groups) heartbeat(r *kmsg.HeartbeatRequest) kmsg.Response {
	g := gs.get(r.Group)
	resp := kmsg.NewPtrHeartbeatResponse()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.expireLocked(time.Now())
	_, code := g.checkLocked(r.MemberID, r.Generation)
	if code == kafka.None && g.mu.state == groupJoining {
		code = kafka.RebalanceInProgress
	}
	resp.ErrorCode = int16(code)
	return resp
}

func (gs *groups) leave(r *kmsg.LeaveGroupRequest) kmsg.Response {
	g := gs.get(r.Group)
	resp := kmsg.NewPtrLeaveGroupResponse()
	g.mu.Lock()
	defer g.mu.Unlock()
	remove := func(id string, instance *string) kafka.ErrorCode {
		for _, m := range g.mu.members {
			if m.id == id || id == "" && instance != nil && m.instance != nil && *m.instance == *instance {
				delete(g.mu.members, m.id)
				return kafka.None
			}
		}
		return kafka.UnknownMemberId
	}
	if r.Version < 3 {
		resp.ErrorCode = int16(remove(r.MemberID, nil))
	}
	for _, m := range r.Members {
		row := kmsg.NewLeaveGroupResponseMember()
		row.MemberID, row.InstanceID = m.MemberID, m.InstanceID
		row.ErrorCode = int16(remove(m.MemberID, m.InstanceID))
		resp.Members = append(resp.Members, row)
	}
	if len(g.mu.members) == 0 {
		g.mu.state = groupEmpty
	} else {
		g.openLocked()
	}
	g.changedLocked()
	return resp
}

// commit keeps offsets. A member's generation must be the present one; generation -1 without members is anybody's.
func (gs *groups) commit(r *kmsg.OffsetCommitRequest) kmsg.Response {
	g := gs.get(r.Group)
	resp := kmsg.NewPtrOffsetCommitResponse()
	g.mu.Lock()
	defer g.mu.Unlock()
	code := kafka.None
	if r.Generation >= 0 || len(g.mu.members) > 0 {
		_, code = g.checkLocked(r.MemberID, r.Generation)
	}
	for _, t := range r.Topics {
		row := kmsg.NewOffsetCommitResponseTopic()
		row.Topic = t.Topic
		for _, p := range t.Partitions {
			part := kmsg.NewOffsetCommitResponseTopicPartition()
			part.Partition, part.ErrorCode = p.Partition, int16(code)
			if code == kafka.None {
				if g.mu.offsets[t.Topic] == nil {
					g.mu.offsets[t.Topic] = map[int32]kmsg.OffsetCommitRequestTopicPartition{}
				}
				g.mu.offsets[t.Topic][p.Partition] = p
			}
			row.Partitions = append(row.Partitions, part)
		}
		resp.Topics = append(resp.Topics, row)
	}
	return resp
}

// committed answers OffsetFetch in both of its shapes: one group up to version 7, several from 8 on.
func (gs *groups) committed(r *kmsg.OffsetFetchRequest) kmsg.Response {
	resp := kmsg.NewPtrOffsetFetchResponse()
	if r.Version < 8 {
		for _, t := range r.Topics {
			row := kmsg.NewOffsetFetchResponseTopic()
			row.Topic = t.Topic
			for _, n := range t.Partitions {
				p := kmsg.NewOffsetFetchResponseTopicPartition()
				p.Partition = n
				p.Offset, p.Metadata = gs.offset(r.Group, t.Topic, n)
				row.Partitions = append(row.Partitions, p)
			}
			resp.Topics = append(resp.Topics, row)
		}
		return resp
	}
	for _, asked := range r.Groups {
		one := kmsg.NewOffsetFetchResponseGroup()
		one.Group = asked.Group
		for _, t := range asked.Topics {
			row := kmsg.NewOffsetFetchResponseGroupTopic()
			row.Topic = t.Topic
			for _, n := range t.Partitions {
				p := kmsg.NewOffsetFetchResponseGroupTopicPartition()
				p.Partition = n
				p.Offset, p.Metadata = gs.offset(asked.Group, t.Topic, n)
				row.Partitions = append(row.Partitions, p)
			}
			one.Topics = append(one.Topics, row)
		}
		resp.Groups = append(resp.Groups, one)
	}
	return resp
}

func (gs *groups) offset(name, topic string, partition int32) (int64, *string) {
	g := gs.get(name)
	g.mu.Lock()
	defer g.mu.Unlock()
	if p, ok := g.mu.offsets[topic][partition]; ok {
		return p.Offset, p.Metadata
	}
	return -1, nil
}
