package coordinator

import (
	"slices"
	"strings"
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/broker/internal/group"
	"github.com/tidemark/tidemark/core/kafka"
)

// ask hands a request to the shard of a group.
func (g *Groups) ask(groupID string, run func(*group.Machine, group.Now), refuse func(kafka.ErrorCode)) {
	shards := *g.shards.Load()
	if len(shards) == 0 {
		refuse(kafka.NotCoordinator)
		return
	}
	shards[int(g.PartitionFor(groupID))%len(shards)].post(message{
		// Leadership that went after the request was queued has left no machine.
		run: func(s *shard, now group.Now) {
			if s.machine == nil {
				refuse(kafka.NotCoordinator)
				return
			}
			run(s.machine, now)
		},
		refuse: refuse,
	})
}

// JoinGroup serves API key 11. A leader for whose answer there is no memory is told to come again: the generation waits for
// it, and a JoinGroup that repeats what it said before gets that answer.
func (g *Groups) JoinGroup(c Client, req *kmsg.JoinGroupRequest, reply func(*kmsg.JoinGroupResponse)) {
	version := req.Version
	refuse := func(code kafka.ErrorCode, memberID string) {
		r := kmsg.NewPtrJoinGroupResponse()
		r.Version, r.ErrorCode, r.MemberID = version, int16(code), memberID
		reply(r)
	}
	to := func(r kmsg.Response) { // a member that waits keeps it, and must not keep the request by it
		join := r.(*kmsg.JoinGroupResponse)
		if !c.affords(JoinedBytes(join)) {
			refuse(kafka.CoordinatorNotAvailable, join.MemberID)
			return
		}
		reply(join)
	}
	g.ask(req.Group, func(m *group.Machine, now group.Now) { m.JoinGroup(now, to, c.ID, c.Host, req); c.taken() },
		func(code kafka.ErrorCode) { refuse(code, req.MemberID) })
}

// SyncGroup serves API key 14. A member for whose assignment there is no memory is told to come again.
func (g *Groups) SyncGroup(c Client, req *kmsg.SyncGroupRequest, reply func(*kmsg.SyncGroupResponse)) {
	version := req.Version
	refuse := func(code kafka.ErrorCode) {
		r := kmsg.NewPtrSyncGroupResponse()
		r.Version, r.ErrorCode = version, int16(code)
		reply(r)
	}
	to := func(r kmsg.Response) { // as a JoinGroup's
		sync := r.(*kmsg.SyncGroupResponse)
		if !c.affords(SyncedBytes(sync)) {
			refuse(kafka.CoordinatorNotAvailable)
			return
		}
		reply(sync)
	}
	g.ask(req.Group, func(m *group.Machine, now group.Now) { m.SyncGroup(now, to, req); c.taken() }, refuse)
}

// Heartbeat serves API key 12. While the group is being loaded the answer is success, as Kafka's: nobody's session runs
// out meanwhile, and a member need not join again.
func (g *Groups) Heartbeat(req *kmsg.HeartbeatRequest, reply func(*kmsg.HeartbeatResponse)) {
	to := func(r kmsg.Response) { reply(r.(*kmsg.HeartbeatResponse)) }
	g.ask(req.Group, func(m *group.Machine, now group.Now) { m.Heartbeat(now, to, req) },
		func(code kafka.ErrorCode) {
			r := kmsg.NewPtrHeartbeatResponse()
			r.Version = req.Version
			if code != kafka.CoordinatorLoadInProgress {
				r.ErrorCode = int16(code)
			}
			reply(r)
		})
}

// LeaveGroup serves API key 13.
func (g *Groups) LeaveGroup(req *kmsg.LeaveGroupRequest, reply func(*kmsg.LeaveGroupResponse)) {
	to := func(r kmsg.Response) { reply(r.(*kmsg.LeaveGroupResponse)) }
	g.ask(req.Group, func(m *group.Machine, now group.Now) { m.LeaveGroup(now, to, req) },
		func(code kafka.ErrorCode) {
			r := kmsg.NewPtrLeaveGroupResponse()
			r.Version, r.ErrorCode = req.Version, int16(code)
			reply(r)
		})
}

// OffsetFetch gives the committed offsets of one or more groups, in the order asked. Topics are named and, where they
// exist, carry their id; nil Topics asks for all. A group that is named again is INVALID_REQUEST: an answer may be much
// larger than its question, so each is given once. With requireStable an offset whose commit is being written is
// UNSTABLE_OFFSET_COMMIT.
func (g *Groups) OffsetFetch(groups []kmsg.OffsetFetchRequestGroup, requireStable bool, afford Afford, reply func([]kmsg.OffsetFetchResponseGroup)) {
	out := make([]kmsg.OffsetFetchResponseGroup, len(groups))
	all := gather(len(groups), func() { reply(out) })
	cost := &bill{afford: afford}
	told := make(map[string]bool, len(groups))
	for i := range groups {
		refuse := func(code kafka.ErrorCode) {
			if code == kafka.CoordinatorNotAvailable {
				code = kafka.NotCoordinator // consumers before Kafka 3.9 give up on the other
			}
			out[i] = kmsg.NewOffsetFetchResponseGroup()
			out[i].Group, out[i].ErrorCode = groups[i].Group, int16(code)
			all()
		}
		if told[groups[i].Group] {
			refuse(kafka.InvalidRequest)
			continue
		}
		told[groups[i].Group] = true
		to := func(r kmsg.Response) {
			one := &r.(*kmsg.OffsetFetchResponse).Groups[0]
			if !cost.take(fetchedBytes(one)) {
				refuse(kafka.CoordinatorNotAvailable)
				return
			}
			out[i] = *one
			all()
		}
		g.ask(groups[i].Group, func(m *group.Machine, _ group.Now) { m.OffsetFetch(to, &groups[i], requireStable) }, refuse)
	}
}

// DescribeGroups describes groups, in the order asked. A group that does not exist is Dead, from version 6 on with
// GROUP_ID_NOT_FOUND. One that is named again is INVALID_REQUEST, as in OffsetFetch. The group "" may have offsets, so it
// is one like others.
func (g *Groups) DescribeGroups(req *kmsg.DescribeGroupsRequest, afford Afford, reply func(*kmsg.DescribeGroupsResponse)) {
	r := kmsg.NewPtrDescribeGroupsResponse()
	r.Version = req.Version
	r.Groups = make([]kmsg.DescribeGroupsResponseGroup, len(req.Groups))
	all := gather(len(req.Groups), func() { reply(r) })
	cost := &bill{afford: afford}
	told := make(map[string]bool, len(req.Groups))
	for i, id := range req.Groups {
		refuse := func(code kafka.ErrorCode) {
			r.Groups[i] = kmsg.NewDescribeGroupsResponseGroup()
			r.Groups[i].Group, r.Groups[i].ErrorCode = id, int16(code)
			all()
		}
		if told[id] {
			refuse(kafka.InvalidRequest)
			continue
		}
		told[id] = true
		g.ask(id, func(m *group.Machine, _ group.Now) {
			d, known := m.Describe(id)
			if !known {
				d.State = "Dead"
				if req.Version >= 6 {
					d.ErrorCode = int16(kafka.GroupIdNotFound)
					d.ErrorMessage = kmsg.StringPtr("Group " + id + " not found.")
				}
			}
			if !cost.take(describedBytes(&d)) {
				refuse(kafka.CoordinatorNotAvailable) // clients try again
				return
			}
			r.Groups[i] = d
			all()
		}, refuse)
	}
}

// ListGroups lists the groups that this broker coordinates. A shard that is loading makes the whole answer
// COORDINATOR_LOAD_IN_PROGRESS: a list that silently lacks groups would be believed. One that could not be loaded is left
// out, since it may stay so for long and the other groups must be seen.
func (g *Groups) ListGroups(req *kmsg.ListGroupsRequest, afford Afford, reply func(*kmsg.ListGroupsResponse)) {
	r := kmsg.NewPtrListGroupsResponse()
	r.Version = req.Version
	shards := *g.shards.Load()
	filter := group.NewFilter(req.StatesFilter, req.TypesFilter)
	cost := &bill{afford: afford}
	var mu sync.Mutex
	all := gather(len(shards), func() {
		if r.ErrorCode != 0 {
			r.Groups = nil
		}
		slices.SortFunc(r.Groups, func(a, b kmsg.ListGroupsResponseGroup) int { return strings.Compare(a.Group, b.Group) })
		reply(r)
	})
	for _, s := range shards {
		refuse := func(code kafka.ErrorCode) {
			if code != kafka.NotCoordinator { // led by another broker, which lists it, or not to be had
				mu.Lock()
				r.ErrorCode = int16(code)
				mu.Unlock()
			}
			all()
		}
		s.post(message{run: func(s *shard, _ group.Now) {
			if s.machine == nil {
				refuse(kafka.NotCoordinator)
				return
			}
			list := s.machine.List(filter)
			if !cost.take(listedBytes(list)) {
				refuse(kafka.CoordinatorNotAvailable) // clients try again
				return
			}
			mu.Lock()
			r.Groups = append(r.Groups, list...)
			mu.Unlock()
			all()
		}, refuse: refuse})
	}
}

// gather gives a function that calls done at its nth call; at once for none.
func gather(n int, done func()) func() {
	if n == 0 {
		done()
		return func() {}
	}
	var mu sync.Mutex
	return func() {
		mu.Lock()
		n--
		last := n == 0
		mu.Unlock()
		if last {
			done()
		}
	}
}
