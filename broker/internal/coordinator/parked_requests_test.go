package coordinator

import (
	"runtime"
	"testing"
	"testing/synctest"
	"weak"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/broker/internal/group"
	"github.com/tidemark/tidemark/core/kafka"
)

// gone tells whether nobody holds what p points to, in a bubble where nothing else runs.
func gone[T any](p weak.Pointer[T]) bool {
	synctest.Wait()
	runtime.GC()
	return p.Value() == nil
}

// TestARequestThatWaitsIsNotKept: its memory counts as free from when the group has taken what it keeps of it, which is before the
// answer by as much as a rebalance takes.
func TestARequestThatWaitsIsNotKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newFakeBroker(t, nil).ready()
		first := b.join("g", "")
		b.sync("g", first.MemberID, first.Generation)

		taken := 0
		client := Client{ID: "c", Host: "/h", Taken: func() { taken++ }}
		joined := make(chan *kmsg.JoinGroupResponse, 1)
		join := func() weak.Pointer[kmsg.JoinGroupRequest] {
			req := kmsg.NewPtrJoinGroupRequest()
			req.Version, req.Group, req.ProtocolType = 3, "g", "consumer"
			req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = 10_000, 60_000
			req.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: []byte("m")}}
			b.JoinGroup(client, req, func(r *kmsg.JoinGroupResponse) { joined <- r })
			return weak.Make(req)
		}()
		if !gone(join) || taken != 1 {
			t.Errorf("a JoinGroup is kept while it waits; %d are taken", taken)
		}
		b.join("g", first.MemberID)
		second := <-joined

		synced := make(chan *kmsg.SyncGroupResponse, 1)
		sync := func() weak.Pointer[kmsg.SyncGroupRequest] {
			req := kmsg.NewPtrSyncGroupRequest()
			req.Version, req.Group, req.MemberID, req.Generation = 3, "g", second.MemberID, second.Generation
			b.SyncGroup(client, req, func(r *kmsg.SyncGroupResponse) { synced <- r })
			return weak.Make(req)
		}()
		if !gone(sync) || taken != 2 {
			t.Errorf("a SyncGroup is kept while it waits; %d are taken", taken)
		}
		b.sync("g", first.MemberID, second.Generation)
		if r := <-synced; r.ErrorCode != 0 {
			t.Errorf("sync: %v", kafka.ErrorCode(r.ErrorCode))
		}
		closeGroups(t, b)
	})
}

// TestARoundDoesNotKeepWhatItHasHandled: what a request has given back is not held until those behind it are done.
func TestARoundDoesNotKeepWhatItHasHandled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newFakeBroker(t, nil).ready()
		s := (*b.shards.Load())[0]
		var kept weak.Pointer[[1 << 10]byte]
		wasGone := false
		func() {
			large := new([1 << 10]byte)
			kept = weak.Make(large)
			s.mu.Lock() // so that both are of one round
			defer s.mu.Unlock()
			s.queueLocked(message{run: func(*shard, group.Now) { large[0]++ }})
			s.queueLocked(message{run: func(*shard, group.Now) {
				runtime.GC()
				wasGone = kept.Value() == nil
			}})
		}()
		synctest.Wait()
		if !wasGone {
			t.Error("a round keeps what it has handled")
		}
		closeGroups(t, b)
	})
}
