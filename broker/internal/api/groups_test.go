package api

import (
	"context"
	"encoding/binary"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/broker/config"
	"github.com/tidemark/tidemark/broker/internal/coordinator"
	"github.com/tidemark/tidemark/broker/internal/metadata"
	"github.com/tidemark/tidemark/core/buf"
	"github.com/tidemark/tidemark/core/kafka"
	"github.com/tidemark/tidemark/core/record"
)

// groupLog is one partition of __consumer_offsets in memory.
type groupLog struct {
	mu      sync.Mutex
	batches []record.Batch
	end     kafka.Offset
}

func (l *groupLog) Append(batch []byte, done func(kafka.ErrorCode)) {
	l.mu.Lock()
	b := record.Batch(slices.Clone(batch))
	b.SetBaseOffset(l.end)
	l.end = b.LastOffset() + 1
	l.batches = append(l.batches, b)
	l.mu.Unlock()
	done(kafka.None)
}

func (l *groupLog) Read(dst []byte, from kafka.Offset, _ int) ([]byte, error) {
	for _, b := range l.batches {
		if b.LastOffset() >= from {
			dst = append(dst, b...)
		}
	}
	return dst, nil
}
func (l *groupLog) LogStart() kafka.Offset { return 0 }
func (l *groupLog) LogEnd() kafka.Offset   { l.mu.Lock(); defer l.mu.Unlock(); return l.end }
func (l *groupLog) MaxBatchBytes() int     { return 1 << 20 }

// groupNode is the handlers of a node that has topics in its image only, and a group coordinator.
type groupNode struct {
	t        *testing.T
	handlers *Handlers
	image    atomic.Pointer[metadata.Image]
	groups   *coordinator.Groups
	logs     map[kafka.Partition]*groupLog
	correl   int32
}

func (n *groupNode) Image() *metadata.Image { return n.image.Load() }

const testNode = 3

func newGroupNode(t *testing.T) *groupNode {
	t.Helper()
	cfg, _, err := config.Load("", []string{"offsets.topic.num.partitions=2", "group.initial.rebalance.delay.ms=0"})
	if err != nil {
		t.Fatal(err)
	}
	n := &groupNode{t: t, logs: map[kafka.Partition]*groupLog{0: {}, 1: {}}}
	n.image.Store(metadata.Empty())
	now := func() int64 { return time.Now().UnixMilli() }
	n.groups = coordinator.NewGroups(coordinator.Options{
		NodeID: testNode, Config: cfg, NowMS: now, Logger: slog.New(slog.DiscardHandler),
		Open:               func(p kafka.Partition) (coordinator.Log, kafka.ErrorCode) { return n.logs[p], kafka.None },
		CreateOffsetsTopic: func(context.Context) error { n.topic(kafka.OffsetsTopic, 9, 2); return nil },
	})
	n.handlers = New(Deps{NodeID: testNode, Config: cfg, Meta: n, Groups: n.groups, Pool: buf.NewPool(), NowMS: now,
		Logger: slog.New(slog.DiscardHandler), Advertised: func(listener string) (string, int32) { return "host-of-" + listener, 9092 }})
	t.Cleanup(func() {
		if err := n.groups.Close(context.Background()); err != nil {
			t.Error(err)
		}
		n.handlers.Close()
	})
	return n
}

func (n *groupNode) topic(name string, id byte, partitions int) {
	parts := make([]metadata.Partition, partitions)
	for i := range parts {
		parts[i] = metadata.Partition{Leader: testNode, Replicas: []kafka.BrokerID{testNode}, ISR: []kafka.BrokerID{testNode}}
	}
	n.change(&metadata.TopicRecord{Name: name, ID: kafka.TopicID{15: id}}, &metadata.PartitionsRecord{TopicID: kafka.TopicID{15: id}, Partitions: parts})
}

func (n *groupNode) change(records ...metadata.Record) {
	img, d, err := n.Image().Apply(records, n.Image().Offset+1)
	if err != nil {
		n.t.Error(err)
		return
	}
	n.image.Store(img)
	n.groups.Apply(img, d)
}

// answered is a connection that takes one answer.
type answered chan []byte

func (a answered) Share(*Call, int64) bool { return true }
func (a answered) Park(*Call, int64) bool  { return true }
func (a answered) Completed(c *Call) {
	if len(c.Answer.Pieces) == 0 {
		a <- slices.Clone(c.Answer.Head)
		return
	}
	var b []byte
	for _, p := range c.Answer.Pieces {
		b = append(append(b, c.Answer.Head[p.From:p.To]...), p.B...)
	}
	a <- b
}

func (a answered) Abort(_ *Call, reason string) { a <- []byte("abort: " + reason) }

// do sends a request at a version through the table, as bytes, and decodes the answer.
func (n *groupNode) do(req kmsg.Request, version int16) kmsg.Response {
	n.t.Helper()
	return n.started(req, version)()
}

// started sends a request and gives what waits for its answer.
func (n *groupNode) started(req kmsg.Request, version int16) func() kmsg.Response {
	n.t.Helper()
	req.SetVersion(version)
	n.correl++
	frame := kmsg.NewRequestFormatter(kmsg.FormatterClientID("client")).AppendRequest(nil, req, n.correl)
	conn := make(answered, 1)
	c := &Call{Client: &Client{Listener: "PLAINTEXT", ClientHost: "10.1.1.1", Ctx: n.t.Context()}, Conn: conn}
	c.Frame = n.handlers.Pool.Get(len(frame) - 4)
	copy(c.Frame.B, frame[4:])
	n.handlers.Serve(c, c.Frame.B)
	if c.Frame != nil || c.Body != nil {
		n.t.Errorf("%T keeps the buffer that it was read into until it is answered", req)
	}
	return func() kmsg.Response {
		n.t.Helper()
		select {
		case b := <-conn:
			resp := req.ResponseKind()
			if len(b) < 8 || binary.BigEndian.Uint32(b) != uint32(len(b)-4) {
				n.t.Fatalf("key %d version %d: %q", req.Key(), version, b)
			}
			b = b[8:]
			if resp.IsFlexible() && resp.Key() != apiVersionsKey {
				b = b[1:]
			}
			if err := resp.ReadFrom(b); err != nil {
				n.t.Fatalf("key %d version %d: %v", req.Key(), version, err)
			}
			return resp
		case <-time.After(3 * time.Minute):
			n.t.Fatalf("key %d version %d: no answer", req.Key(), version)
			return nil
		}
	}
}

func joinRequest(group, memberID string) *kmsg.JoinGroupRequest {
	req := kmsg.NewPtrJoinGroupRequest()
	req.Group, req.MemberID, req.ProtocolType = group, memberID, "consumer"
	req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = 120_000, 120_000
	req.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: []byte("subscription")}}
	return req
}

// member joins a new group and assigns everything to itself, at the versions asked for.
func (n *groupNode) member(group string, joinV, syncV int16) (memberID string, generation int32) {
	n.t.Helper()
	j := n.do(joinRequest(group, ""), joinV).(*kmsg.JoinGroupResponse)
	if joinV >= 4 {
		if kafka.ErrorCode(j.ErrorCode) != kafka.MemberIdRequired || j.MemberID == "" {
			n.t.Fatalf("JoinGroup %d: %+v", joinV, j)
		}
		j = n.do(joinRequest(group, j.MemberID), joinV).(*kmsg.JoinGroupResponse)
	}
	if j.ErrorCode != 0 || j.Generation != 1 || j.LeaderID != j.MemberID || len(j.Members) != 1 || *j.Protocol != "range" {
		n.t.Fatalf("JoinGroup %d: %+v", joinV, j)
	}
	if joinV >= 7 && (j.ProtocolType == nil || *j.ProtocolType != "consumer") {
		n.t.Fatalf("JoinGroup %d: protocol type %v", joinV, j.ProtocolType)
	}
	sync := kmsg.NewPtrSyncGroupRequest()
	sync.Group, sync.MemberID, sync.Generation = group, j.MemberID, j.Generation
	sync.ProtocolType, sync.Protocol = kmsg.StringPtr("consumer"), kmsg.StringPtr("range")
	sync.GroupAssignment = []kmsg.SyncGroupRequestGroupAssignment{{MemberID: j.MemberID, MemberAssignment: []byte("everything")}}
	if s := n.do(sync, syncV).(*kmsg.SyncGroupResponse); s.ErrorCode != 0 || string(s.MemberAssignment) != "everything" {
		n.t.Fatalf("SyncGroup %d: %+v", syncV, s)
	}
	return j.MemberID, j.Generation
}

func groupOf(key string, version int16) string { return key + string(rune('a'+version)) }

// TestGroupLifeInEveryVersion runs a member's life with each version of each API.
func TestGroupLifeInEveryVersion(t *testing.T) {
	n := newGroupNode(t)
	for v := int16(0); v <= 6; v++ {
		req := kmsg.NewPtrFindCoordinatorRequest()
		req.CoordinatorKey, req.CoordinatorKeys = "g", []string{"g", "h"}
		r := n.do(req, v).(*kmsg.FindCoordinatorResponse)
		if v >= 4 {
			if len(r.Coordinators) != 2 {
				t.Fatalf("FindCoordinator %d: %+v", v, r)
			}
			r.ErrorCode, r.NodeID, r.Host = r.Coordinators[1].ErrorCode, r.Coordinators[1].NodeID, r.Coordinators[1].Host
		}
		if r.ErrorCode != 0 || r.NodeID != testNode || r.Host != "host-of-PLAINTEXT" {
			t.Errorf("FindCoordinator %d: %+v", v, r)
		}
	}
	for v := int16(0); v <= 9; v++ {
		n.member(groupOf("join", v), v, 5)
	}
	for v := int16(0); v <= 5; v++ {
		n.member(groupOf("sync", v), 3, v)
	}
	memberID, generation := n.member("heartbeat", 9, 5)
	for v := int16(0); v <= 4; v++ {
		req := kmsg.NewPtrHeartbeatRequest()
		req.Group, req.MemberID, req.Generation = "heartbeat", memberID, generation
		if r := n.do(req, v).(*kmsg.HeartbeatResponse); r.ErrorCode != 0 {
			t.Errorf("Heartbeat %d: %+v", v, r)
		}
	}
	for v := int16(0); v <= 5; v++ {
		memberID, _ := n.member(groupOf("leave", v), 9, 5)
		req := kmsg.NewPtrLeaveGroupRequest()
		req.Group, req.MemberID = groupOf("leave", v), memberID
		req.Members = []kmsg.LeaveGroupRequestMember{{MemberID: memberID}}
		r := n.do(req, v).(*kmsg.LeaveGroupResponse)
		if r.ErrorCode != 0 || v >= 3 && (len(r.Members) != 1 || r.Members[0].ErrorCode != 0) {
			t.Errorf("LeaveGroup %d: %+v", v, r)
		}
	}
	for v := int16(0); v <= 6; v++ {
		req := kmsg.NewPtrDescribeGroupsRequest()
		req.Groups, req.IncludeAuthorizedOperations = []string{"heartbeat", "none"}, true
		r := n.do(req, v).(*kmsg.DescribeGroupsResponse)
		g, none := r.Groups[0], r.Groups[1]
		if g.State != "Stable" || len(g.Members) != 1 || string(g.Members[0].MemberAssignment) != "everything" || g.Members[0].ClientHost != "/10.1.1.1" {
			t.Errorf("DescribeGroups %d: %+v", v, g)
		}
		if v >= 3 && g.AuthorizedOperations != groupOperations {
			t.Errorf("DescribeGroups %d: authorized operations %b", v, g.AuthorizedOperations)
		}
		if code := kafka.ErrorCode(none.ErrorCode); none.State != "Dead" || (code == kafka.GroupIdNotFound) != (v >= 6) {
			t.Errorf("DescribeGroups %d: %+v", v, none)
		}
	}
	for v := int16(0); v <= 5; v++ {
		req := kmsg.NewPtrListGroupsRequest()
		req.StatesFilter, req.TypesFilter = []string{"stable"}, []string{"Classic"}
		r := n.do(req, v).(*kmsg.ListGroupsResponse)
		states := map[string]int{}
		for _, g := range r.Groups {
			states[g.GroupState]++
		}
		if r.ErrorCode != 0 || v < 4 && len(r.Groups) != 23 || v >= 4 && (states["Stable"] != 17 || len(r.Groups) != 17) {
			t.Errorf("ListGroups %d: %d groups, %v", v, len(r.Groups), states)
		}
	}
}

func commitOf(group, topic string, id byte, partition int32, offset int64) *kmsg.OffsetCommitRequest {
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group, req.Generation = group, -1
	metadata := "m"
	req.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: topic, TopicID: [16]byte{15: id}, Partitions: []kmsg.OffsetCommitRequestTopicPartition{
		{Partition: partition, Offset: offset, LeaderEpoch: 4, Metadata: &metadata}}}}
	return req
}

// fetched asks for partition 0 of a topic, or for all, and gives offset, epoch, error.
func (n *groupNode) fetched(version int16, group, topic string, id byte, all bool) (offset int64, epoch int32, code kafka.ErrorCode, topics int) {
	n.t.Helper()
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Group = group
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group = group
	if !all {
		req.Topics = []kmsg.OffsetFetchRequestTopic{{Topic: topic, Partitions: []int32{0}}}
		g.Topics = []kmsg.OffsetFetchRequestGroupTopic{{Topic: topic, TopicID: [16]byte{15: id}, Partitions: []int32{0}}}
	}
	req.Groups = []kmsg.OffsetFetchRequestGroup{g}
	r := n.do(req, version).(*kmsg.OffsetFetchResponse)
	if version < 8 {
		if len(r.Topics) == 0 {
			return -1, -1, kafka.ErrorCode(r.ErrorCode), 0
		}
		p := r.Topics[0].Partitions[0]
		return p.Offset, p.LeaderEpoch, kafka.ErrorCode(p.ErrorCode), len(r.Topics)
	}
	if len(r.Groups) != 1 || r.Groups[0].Group != group {
		n.t.Fatalf("OffsetFetch %d: %+v", version, r)
	}
	if len(r.Groups[0].Topics) == 0 {
		return -1, -1, kafka.ErrorCode(r.Groups[0].ErrorCode), 0
	}
	p := r.Groups[0].Topics[0].Partitions[0]
	return p.Offset, p.LeaderEpoch, kafka.ErrorCode(p.ErrorCode), len(r.Groups[0].Topics)
}

func TestOffsetsInEveryVersion(t *testing.T) {
	n := newGroupNode(t)
	n.topic("t", 1, 2)
	n.do(kmsg.NewPtrFindCoordinatorRequest(), 0)
	for commitV := int16(2); commitV <= 10; commitV++ {
		group := groupOf("commit", commitV)
		r := n.do(commitOf(group, "t", 1, 0, int64(commitV)), commitV).(*kmsg.OffsetCommitResponse)
		if len(r.Topics) != 1 || r.Topics[0].Partitions[0].ErrorCode != 0 {
			t.Fatalf("OffsetCommit %d: %+v", commitV, r)
		}
		for fetchV := int16(1); fetchV <= 10; fetchV++ {
			offset, epoch, code, _ := n.fetched(fetchV, group, "t", 1, false)
			wantEpoch := int32(-1)
			if commitV >= 6 && fetchV >= 5 {
				wantEpoch = 4
			}
			if fetchV < 5 {
				epoch = -1
			}
			if offset != int64(commitV) || epoch != wantEpoch || code != kafka.None {
				t.Errorf("OffsetCommit %d, OffsetFetch %d: offset %d, epoch %d, %v", commitV, fetchV, offset, epoch, code)
			}
			if fetchV >= 2 {
				if offset, _, code, topics := n.fetched(fetchV, group, "", 0, true); offset != int64(commitV) || code != kafka.None || topics != 1 {
					t.Errorf("OffsetFetch %d of all: offset %d, %v, %d topics", fetchV, offset, code, topics)
				}
			}
		}
	}
}

func TestCommitToWhatDoesNotExist(t *testing.T) {
	n := newGroupNode(t)
	n.topic("t", 1, 2)
	n.do(kmsg.NewPtrFindCoordinatorRequest(), 0)
	req := commitOf("g", "t", 1, 0, 5)
	req.Topics[0].Partitions = append(req.Topics[0].Partitions, kmsg.OffsetCommitRequestTopicPartition{Partition: 7, Offset: 1})
	req.Topics = append(req.Topics, commitOf("g", "nope", 0, 0, 5).Topics...)
	r := n.do(req, 9).(*kmsg.OffsetCommitResponse)
	got := map[string]kafka.ErrorCode{}
	for _, topic := range r.Topics {
		for _, p := range topic.Partitions {
			got[topic.Topic+string(rune('0'+p.Partition))] = kafka.ErrorCode(p.ErrorCode)
		}
	}
	if len(r.Topics) != 2 || got["t0"] != kafka.None || got["t7"] != kafka.UnknownTopicOrPartition || got["nope0"] != kafka.UnknownTopicOrPartition {
		t.Errorf("%v in %d topics", got, len(r.Topics))
	}
	r = n.do(commitOf("g", "", 77, 0, 5), 10).(*kmsg.OffsetCommitResponse)
	if code := kafka.ErrorCode(r.Topics[0].Partitions[0].ErrorCode); code != kafka.UnknownTopicId || r.Topics[0].TopicID != [16]byte{15: 77} {
		t.Errorf("unknown topic id: %+v", r)
	}
	if _, _, code, _ := n.fetched(10, "g", "", 77, false); code != kafka.UnknownTopicId {
		t.Errorf("fetch by an unknown topic id: %v", code)
	}
}

func TestTopicCreatedAgainHasNoOffsets(t *testing.T) {
	n := newGroupNode(t)
	n.topic("t", 1, 1)
	n.do(kmsg.NewPtrFindCoordinatorRequest(), 0)
	n.do(commitOf("g", "t", 1, 0, 5), 9)
	n.change(&metadata.RemoveTopicRecord{ID: kafka.TopicID{15: 1}})
	n.topic("t", 2, 1)
	for _, v := range []int16{1, 7, 9, 10} {
		if offset, _, code, _ := n.fetched(v, "g", "t", 2, false); offset != -1 || code != kafka.None {
			t.Errorf("OffsetFetch %d: offset %d of the topic before, %v", v, offset, code)
		}
	}
}

func TestOffsetFetchErrorsByVersion(t *testing.T) {
	n := newGroupNode(t) // no __consumer_offsets: this broker coordinates nothing
	n.topic("t", 1, 1)
	for v := int16(1); v <= 10; v++ {
		if _, _, code, _ := n.fetched(v, "g", "t", 1, false); code != kafka.NotCoordinator {
			t.Errorf("OffsetFetch %d: %v", v, code)
		}
	}
}

func TestFindCoordinatorOfOtherKinds(t *testing.T) {
	n := newGroupNode(t)
	for kind, want := range map[int8]kafka.ErrorCode{1: kafka.TransactionalIdAuthorizationFailed, 2: kafka.InvalidRequest} {
		req := kmsg.NewPtrFindCoordinatorRequest()
		req.CoordinatorType, req.CoordinatorKeys = kind, []string{"other"}
		r := n.do(req, 6).(*kmsg.FindCoordinatorResponse)
		if c := r.Coordinators[0]; kafka.ErrorCode(c.ErrorCode) != want || c.ErrorMessage == nil || c.NodeID != -1 {
			t.Errorf("kind %d: %+v", kind, c)
		}
	}
	if n.Image().NumTopics() != 0 {
		t.Error("a topic was created for it")
	}
}

// TestRebalanceParksRequests: a JoinGroup that waits is answered when the others have come.
func TestRebalanceParksRequests(t *testing.T) {
	n := newGroupNode(t)
	n.do(kmsg.NewPtrFindCoordinatorRequest(), 0)
	first, generation := n.member("g", 3, 3)
	second := n.started(joinRequest("g", ""), 3)
	beat := kmsg.NewPtrHeartbeatRequest()
	beat.Group, beat.MemberID, beat.Generation = "g", first, generation
	deadline := time.Now().Add(2 * time.Minute)
	for kafka.ErrorCode(n.do(beat, 3).(*kmsg.HeartbeatResponse).ErrorCode) != kafka.RebalanceInProgress {
		if time.Now().After(deadline) {
			t.Fatal("the first member never hears of the rebalance")
		}
	}
	j1 := n.do(joinRequest("g", first), 3).(*kmsg.JoinGroupResponse)
	j2 := second().(*kmsg.JoinGroupResponse)
	if j1.Generation != 2 || j2.Generation != 2 || len(j1.Members) != 2 || len(j2.Members) != 0 || j2.LeaderID != first {
		t.Errorf("leader %+v\nfollower %+v", j1, j2)
	}
}
