package group

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"

	"github.com/tidemark/tidemark/core/kafka"
)

// client is a member as its own process sees itself.
type client struct {
	name       string
	instance   *string
	memberID   string
	generation int32
	leads      bool
	protocol   *string
	members    []string // as told to the leader
	epoch      int      // the coordinator that gave it its generation
}

// world drives one group with clients that behave and a network that does not: requests come in any order, clients die
// and come back, writes fail, the coordinator is loaded anew.
type world struct {
	t       *rapid.T
	s       *scenario
	clients []*client
	held    []Write
	// owner of a partition in a generation, as answered by SyncGroup
	owners    map[string]string
	answered  map[string]int // by request
	requests  int
	committed int64 // the newest offset in the log
	epoch     int   // counts coordinators: a generation that was not written is given out again by the next
}

// TestRandomGroups checks, whatever happens: each request is answered once at most; a generation never goes back; a
// partition is handed to one member of a generation only; the offset that is fetched is the one that was written last, which
// is the one acknowledged last, or later; and a machine loaded from the log agrees with the one that wrote it.
func TestRandomGroups(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := scenarioConfig()
		c.InitialRebalanceDelayMS = int32(rapid.SampledFrom([]int{0, 3000}).Draw(t, "delay"))
		c.MaxSize = int32(rapid.SampledFrom([]int{2, 100}).Draw(t, "max size"))
		w := &world{t: t, s: newScenario(c), owners: map[string]string{}, answered: map[string]int{}, committed: -1}
		for i := range 4 {
			cl := &client{name: fmt.Sprintf("c%d", i), generation: -1}
			if i >= 2 {
				cl.instance = kmsg.StringPtr(fmt.Sprintf("i%d", i))
			}
			w.clients = append(w.clients, cl)
		}
		t.Repeat(map[string]func(*rapid.T){
			"join":      w.join,
			"sync":      w.sync,
			"heartbeat": w.heartbeat,
			"leave":     w.leave,
			"die":       w.die,
			"commit":    w.commit,
			"delete":    w.delete,
			"forget":    w.forget,
			"write":     w.write,
			"time":      w.time,
			"reload":    w.reload,
			"":          w.check,
		})
	})
}

func (w *world) pick(t *rapid.T) *client { return rapid.SampledFrom(w.clients).Draw(t, "client") }

// caller names a request and who sent it.
type caller struct {
	id string
	c  *client
	// what the client was when it asked
	memberID   string
	generation int32
	offset     int64
}

func (w *world) ask(c *client) *caller {
	w.requests++
	return &caller{id: fmt.Sprint(w.requests), c: c, memberID: c.memberID, generation: c.generation}
}

func (w *world) join(t *rapid.T) {
	c := w.pick(t)
	r := kmsg.NewPtrJoinGroupRequest()
	r.Version = int16(rapid.SampledFrom([]int{3, 4, 9}).Draw(t, "version"))
	r.Group, r.MemberID, r.InstanceID, r.ProtocolType = "g", c.memberID, c.instance, "consumer"
	r.SessionTimeoutMillis, r.RebalanceTimeoutMillis = 10000, 30000
	r.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: []byte(rapid.SampledFrom([]string{"a", "b"}).Draw(t, "metadata"))}}
	for _, name := range rapid.SampledFrom([][]string{nil, nil, {"range"}, {"sticky"}, {"sticky", "other", "sticky"}}).Draw(t, "others") {
		r.Protocols = append(r.Protocols, kmsg.JoinGroupRequestProtocol{Name: name})
	}
	if rapid.Bool().Draw(t, "backwards") {
		slices.Reverse(r.Protocols)
	}
	w.s.m.JoinGroup(w.s.now, w.ask(c), c.name, "/h", r)
}

func (w *world) sync(t *rapid.T) {
	c := w.pick(t)
	r := kmsg.NewPtrSyncGroupRequest()
	r.Version, r.Group, r.MemberID, r.InstanceID, r.Generation = 5, "g", c.memberID, c.instance, c.generation
	if r.ProtocolType, r.Protocol = kmsg.StringPtr("consumer"), c.protocol; c.protocol == nil {
		r.Version = 4
	}
	if c.leads {
		for i, m := range c.members { // one partition each
			r.GroupAssignment = append(r.GroupAssignment, kmsg.SyncGroupRequestGroupAssignment{MemberID: m, MemberAssignment: fmt.Append(nil, "p", i)})
		}
	}
	w.s.m.SyncGroup(w.s.now, w.ask(c), r)
}

func (w *world) heartbeat(t *rapid.T) {
	c := w.pick(t)
	r := kmsg.NewPtrHeartbeatRequest()
	r.Group, r.MemberID, r.InstanceID, r.Generation = "g", c.memberID, c.instance, c.generation
	w.s.m.Heartbeat(w.s.now, w.ask(c), r)
}

func (w *world) leave(t *rapid.T) {
	c := w.pick(t)
	r := kmsg.NewPtrLeaveGroupRequest()
	r.Version, r.Group = 5, "g"
	r.Members = []kmsg.LeaveGroupRequestMember{{MemberID: c.memberID, InstanceID: c.instance}}
	w.s.m.LeaveGroup(w.s.now, w.ask(c), r)
	c.memberID, c.generation, c.leads = "", -1, false
}

// die makes a client forget everything: its process is started again.
func (w *world) die(t *rapid.T) {
	c := w.pick(t)
	c.memberID, c.generation, c.leads = "", -1, false
}

func (w *world) commit(t *rapid.T) {
	c := w.pick(t)
	to := w.ask(c)
	to.offset = int64(w.requests)
	r := kmsg.NewPtrOffsetCommitRequest()
	r.Version, r.Group, r.MemberID, r.InstanceID, r.Generation = 9, "g", c.memberID, c.instance, c.generation
	r.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: "t", Partitions: []kmsg.OffsetCommitRequestTopicPartition{{Offset: to.offset}}}}
	w.s.m.OffsetCommit(w.s.now, to, r)
}

// delete asks for the group to go, forget for its one offset.
func (w *world) delete(t *rapid.T) { w.s.m.DeleteGroup(w.s.now, w.ask(w.pick(t)), "g") }

func (w *world) forget(t *rapid.T) {
	r := kmsg.NewPtrOffsetDeleteRequest()
	r.Group = "g"
	r.Topics = []kmsg.OffsetDeleteRequestTopic{{Topic: "t", Partitions: []kmsg.OffsetDeleteRequestTopicPartition{{}}}}
	w.s.m.OffsetDelete(w.s.now, w.ask(w.pick(t)), r)
}

// write lets the oldest write succeed or fail.
func (w *world) write(t *rapid.T) {
	if len(w.held) == 0 {
		t.Skip("nothing to write")
	}
	next := w.held[0]
	w.held = w.held[1:]
	code := rapid.SampledFrom([]kafka.ErrorCode{kafka.None, kafka.None, kafka.None, kafka.NotEnoughReplicas}).Draw(t, "outcome")
	var k kmsg.OffsetCommitKey
	var v kmsg.OffsetCommitValue
	w.s.fatal = t.Fatal
	records := w.s.collect(next)
	if r := records[0]; code == kafka.None && r.Key[1] == 1 && k.ReadFrom(r.Key) == nil {
		w.committed = -1 // a tombstone
		if r.Value != nil && v.ReadFrom(r.Value) == nil {
			w.committed = v.Offset
		}
	}
	w.s.written(next.Ticket, records, code)
}

func (w *world) time(t *rapid.T) {
	ms := int64(rapid.SampledFrom([]int{100, 3000, 11000, 40000}).Draw(t, "ms"))
	w.s.now.MonoMS += ms
	w.s.now.WallMS += ms
	w.s.m.Tick(w.s.now)
}

// reload moves the groups to a new coordinator, which knows what was written.
func (w *world) reload(t *rapid.T) {
	w.take()
	w.held = nil
	w.s.m.Resign(w.s.now)
	w.take()
	w.s.fresh()
	w.epoch++
	for _, r := range w.s.log {
		if err := w.s.m.Replay(r.Key, r.Value); err != nil {
			t.Fatal(err)
		}
	}
	w.s.m.Loaded(w.s.now)
}

// take carries answers to their clients and keeps the writes.
func (w *world) take() {
	fx := w.s.m.Take()
	w.held = append(w.held, fx.Writes...)
	for _, a := range fx.Answers {
		to := a.To.(*caller)
		if w.answered[to.id]++; w.answered[to.id] > 1 {
			w.t.Fatalf("request %s of %s was answered twice", to.id, to.c.name)
		}
		w.hear(to, a.Response)
	}
}

func (w *world) hear(to *caller, resp kmsg.Response) {
	c := to.c
	switch r := resp.(type) {
	case *kmsg.JoinGroupResponse:
		switch code := kafka.ErrorCode(r.ErrorCode); code {
		case kafka.None:
			if c.memberID != "" && c.memberID == r.MemberID && c.epoch == w.epoch && r.Generation < c.generation {
				w.t.Fatalf("%s was in generation %d and is now in %d", c.name, c.generation, r.Generation)
			}
			c.memberID, c.generation, c.epoch = r.MemberID, r.Generation, w.epoch
			c.leads = r.LeaderID == r.MemberID && !r.SkipAssignment
			c.members, c.protocol = nil, r.Protocol
			for _, m := range r.Members {
				if slices.Contains(c.members, m.MemberID) {
					w.t.Fatalf("%s is told twice of %s", c.name, m.MemberID)
				}
				c.members = append(c.members, m.MemberID)
			}
		case kafka.MemberIdRequired:
			c.memberID = r.MemberID
		case kafka.UnknownMemberId, kafka.FencedInstanceId, kafka.GroupMaxSizeReached:
			c.memberID, c.generation, c.leads = "", -1, false
		}
	case *kmsg.SyncGroupResponse:
		if r.ErrorCode != 0 || len(r.MemberAssignment) == 0 {
			return
		}
		// A static member may have been renamed: the place in the group is what owns.
		place := to.memberID
		if c.instance != nil {
			place = *c.instance
		}
		at := fmt.Sprintf("coordinator %d generation %d partition %s", w.epoch, to.generation, r.MemberAssignment)
		if owner, ok := w.owners[at]; ok && owner != place {
			w.t.Fatalf("%s: owned by %s and by %s", at, owner, place)
		}
		w.owners[at] = place
	case *kmsg.OffsetCommitResponse:
		if r.Topics[0].Partitions[0].ErrorCode == 0 && w.committed != to.offset {
			w.t.Fatalf("offset %d is acknowledged, %d is written", to.offset, w.committed)
		}
	}
}

func (w *world) check(t *rapid.T) {
	w.take()
	if next, ok := w.s.m.Next(); ok && len(w.s.m.groups) == 0 && w.s.m.retention.index == notQueued {
		t.Fatalf("no group and a deadline at %d", next)
	}
	r := w.s.m.fetch(&kmsg.OffsetFetchRequestGroup{Group: "g",
		Topics: []kmsg.OffsetFetchRequestGroupTopic{{Topic: "t", Partitions: []int32{0}}}}, false)
	if got := r.Topics[0].Partitions[0].Offset; got != w.committed {
		t.Fatalf("fetched %d, written %d", got, w.committed)
	}
	w.checkGroup(t)
}

// checkGroup looks at what must hold inside.
func (w *world) checkGroup(t *rapid.T) {
	g := w.s.m.groups["g"]
	if g == nil {
		return
	}
	if (g.commits == 0) != (len(g.writing) == 0) {
		t.Fatalf("%d commits are being written, and %v", g.commits, g.writing)
	}
	waiting := 0
	counted := map[string]int{}
	for _, mb := range g.members {
		for i := range mb.protocols {
			counted[mb.protocols[i].Name]++
		}
		if mb.join != nil {
			waiting++
		}
		if g.byID[mb.id] != mb {
			t.Fatalf("member %s is not found by its id", mb.id)
		}
		if mb.instance != nil && g.static[*mb.instance] != mb.id {
			t.Fatalf("instance %s is not that of %s", *mb.instance, mb.id)
		}
		if mb.deadline.index == notQueued && mb.join == nil && mb.sync == nil {
			t.Fatalf("member %s never expires", mb.id)
		}
	}
	switch {
	case !maps.Equal(counted, g.supported.members):
		t.Fatalf("the members support %v, counted were %v", counted, g.supported.members)
	case waiting != g.joined:
		t.Fatalf("%d wait, %d counted", waiting, g.joined)
	case len(g.byID) != len(g.members):
		t.Fatalf("%d by id, %d members", len(g.byID), len(g.members))
	case (len(g.members) == 0) != (g.leader == ""):
		t.Fatalf("%d members, leader %q", len(g.members), g.leader)
	case g.state == empty && len(g.members) > 0, (g.state == stable || g.state == completingRebalance) && len(g.members) == 0:
		t.Fatalf("%v with %d members", g.state, len(g.members))
	case g.state == preparingRebalance && g.joinTimer.index == notQueued:
		t.Fatal("a rebalance that never ends")
	}
}
