package api

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/core/kafka"
)

// sharing is a connection that counts what of its requests' memory is taken.
type sharing struct {
	answered
	held atomic.Int64
}

func (s *sharing) Share(c *Call, n int64) bool {
	c.Slot.Share += n
	s.held.Add(n)
	return true
}

// share sends a request that holds memory, and waits until that is given back.
func (n *groupNode) share(req kmsg.Request, version int16) *sharing {
	n.t.Helper()
	req.SetVersion(version)
	frame := kmsg.NewRequestFormatter(kmsg.FormatterClientID("client")).AppendRequest(nil, req, 1)
	s := &sharing{answered: make(answered, 1)}
	c := &Call{Client: &Client{Listener: "PLAINTEXT", ClientHost: "10.1.1.1", Ctx: n.t.Context()}, Conn: s}
	s.Share(c, int64(len(frame)))
	c.Frame = n.handlers.Pool.Get(len(frame) - 4)
	copy(c.Frame.B, frame[4:])
	n.handlers.Serve(c, c.Frame.B)
	for deadline := time.Now().Add(3 * time.Minute); s.held.Load() != 0; {
		if time.Now().After(deadline) {
			n.t.Fatalf("%T keeps %d bytes of queued.max.request.bytes while it waits for others", req, s.held.Load())
		}
	}
	return s
}

func (s *sharing) waits(t *testing.T, what string) {
	t.Helper()
	select {
	case <-s.answered:
		t.Fatal(what + " does not wait, so that this test says nothing")
	default:
	}
}

// TestARequestThatWaitsForAGroupHoldsNoMemoryOfOthers: a rebalance may take minutes.
func TestARequestThatWaitsForAGroupHoldsNoMemoryOfOthers(t *testing.T) {
	n := newGroupNode(t)
	n.do(kmsg.NewPtrFindCoordinatorRequest(), 0)
	leader, _ := n.member("g", 3, 3)
	large := joinRequest("g", "")
	large.Protocols[0].Metadata = make([]byte, 200_000)
	parked := n.share(large, 3)
	parked.waits(t, "JoinGroup")
	j := n.do(joinRequest("g", leader), 3).(*kmsg.JoinGroupResponse)
	if j.ErrorCode != 0 || len(j.Members) != 2 {
		t.Fatalf("%v with %d members", kafka.ErrorCode(j.ErrorCode), len(j.Members))
	}
	<-parked.answered
	follower := j.Members[0].MemberID
	if follower == leader {
		follower = j.Members[1].MemberID
	}
	sync := kmsg.NewPtrSyncGroupRequest()
	sync.Group, sync.MemberID, sync.Generation = "g", follower, j.Generation
	sync.GroupAssignment = []kmsg.SyncGroupRequestGroupAssignment{{MemberID: follower, MemberAssignment: make([]byte, 200_000)}}
	parked = n.share(sync, 3)
	parked.waits(t, "SyncGroup")
	sync.MemberID = leader
	if s := n.do(sync, 3).(*kmsg.SyncGroupResponse); s.ErrorCode != 0 {
		t.Fatal(kafka.ErrorCode(s.ErrorCode))
	}
	<-parked.answered
}
