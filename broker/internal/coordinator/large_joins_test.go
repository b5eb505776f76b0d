package coordinator

import (
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/broker/internal/group"
	"github.com/tidemark/tidemark/core/kafka"
)

// The leader of a group is told what all members subscribe to, and a member what it was assigned, as far as there is memory
// for it. Who gets none is told to ask again, and is told all when there is.
func TestLargeAnswersToMembersTakeMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newFakeBroker(t, nil).ready()
		const members, metadataBytes = 5, 100_000
		const most = members*metadataBytes + 2000
		join := func(id string, afford Afford, reply func(*kmsg.JoinGroupResponse)) {
			req := kmsg.NewPtrJoinGroupRequest()
			req.Version, req.Group, req.MemberID, req.ProtocolType = 3, "g", id, "consumer"
			req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = 10000, 60000
			req.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: make([]byte, metadataBytes)}}
			b.JoinGroup(Client{ID: "c", Host: "/h", Afford: afford}, req, reply)
		}
		taken := int64(0)
		upTo := func(most int64) Afford {
			return func(n int64) bool {
				if taken+n > most {
					return false
				}
				taken += n
				return true
			}
		}
		first := wait(func(reply func(*kmsg.JoinGroupResponse)) { join("", upTo(1<<30), reply) })
		if first.ErrorCode != 0 || taken < metadataBytes-freeAnswerBytes || taken > metadataBytes+1000 {
			t.Fatalf("%v, %d bytes are taken for one member", kafka.ErrorCode(first.ErrorCode), taken)
		}
		answers := make(chan *kmsg.JoinGroupResponse, members)
		for range members - 1 {
			join("", upTo(0), func(r *kmsg.JoinGroupResponse) { answers <- r })
		}
		synctest.Wait()
		if len(answers) > 0 {
			t.Fatal("nobody waits, so that this test says nothing")
		}
		taken = 0
		r := wait(func(reply func(*kmsg.JoinGroupResponse)) { join(first.MemberID, upTo(most/2), reply) })
		if code := kafka.ErrorCode(r.ErrorCode); code != kafka.CoordinatorNotAvailable || len(r.Members) != 0 || r.MemberID != first.MemberID || r.Generation != -1 || taken != 0 {
			t.Fatalf("without memory: %v with %d members, generation %d, for %q; %d bytes are taken", code, len(r.Members), r.Generation, r.MemberID, taken)
		}
		for range members - 1 {
			if r := <-answers; r.ErrorCode != 0 || r.Generation != first.Generation+1 {
				t.Fatalf("a member that asks for little: %v, generation %d", kafka.ErrorCode(r.ErrorCode), r.Generation)
			}
		}
		r = wait(func(reply func(*kmsg.JoinGroupResponse)) { join(first.MemberID, upTo(most), reply) })
		if r.ErrorCode != 0 || r.Generation != first.Generation+1 || len(r.Members) != members || taken < (members-1)*metadataBytes {
			t.Fatalf("with memory: %v, generation %d, %d members; %d bytes are taken", kafka.ErrorCode(r.ErrorCode), r.Generation, len(r.Members), taken)
		}

		sync := kmsg.NewPtrSyncGroupRequest()
		sync.Version, sync.Group, sync.MemberID, sync.Generation = 3, "g", first.MemberID, r.Generation
		sync.GroupAssignment = []kmsg.SyncGroupRequestGroupAssignment{{MemberID: first.MemberID, MemberAssignment: make([]byte, 200_000)}}
		for _, c := range []struct {
			most, bytes int64
			code        kafka.ErrorCode
		}{{0, 0, kafka.CoordinatorNotAvailable}, {1 << 30, 200_000, kafka.None}} {
			taken = 0
			s := wait(func(reply func(*kmsg.SyncGroupResponse)) { b.SyncGroup(Client{Afford: upTo(c.most)}, sync, reply) })
			if code := kafka.ErrorCode(s.ErrorCode); code != c.code || int64(len(s.MemberAssignment)) != c.bytes || taken < c.bytes-freeAnswerBytes {
				t.Errorf("SyncGroup with %d bytes: %v, %d of assignment; %d are taken", c.most, code, len(s.MemberAssignment), taken)
			}
		}
		closeGroups(t, b)
	})
}

// Of a row of requests that are handled in one go, no more than one large answer is made before it is given.
func TestAnswersToMembersAreGivenOneByOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newFakeBroker(t, nil).ready()
		leader := b.join("g", "")
		s := (*b.shards.Load())[b.PartitionFor("g")]
		s.mu.Lock() // the loop sees all of them in one round
		var order []string
		var ask []func()
		for i := range 3 {
			req := kmsg.NewPtrJoinGroupRequest()
			req.Version, req.Group, req.MemberID, req.ProtocolType = 3, "g", leader.MemberID, "consumer"
			req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = 10000, 60000
			req.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: []byte("m")}}
			taken := func() { order = append(order, fmt.Sprint("taken ", i)) }
			ask = append(ask, func() {
				b.JoinGroup(Client{ID: "c", Host: "/h", Taken: taken}, req, func(*kmsg.JoinGroupResponse) { order = append(order, fmt.Sprint("told ", i)) })
			})
		}
		s.queueLocked(message{run: func(*shard, group.Now) {
			for _, f := range ask {
				f()
			}
		}})
		s.mu.Unlock()
		synctest.Wait()
		if got := fmt.Sprint(order); got != "[taken 0 told 0 taken 1 told 1 taken 2 told 2]" {
			t.Error(got)
		}
		closeGroups(t, b)
	})
}
