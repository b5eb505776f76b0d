package group

import (
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestMembersOfOneGroupShareABound: five thousand members of a sticky group fit, clients who only want to fill the broker's memory
// do not; a member that joins again counts once.
func TestMembersOfOneGroupShareABound(t *testing.T) {
	full := func(members, metadata int) *classic {
		one := []kmsg.JoinGroupRequestProtocol{{Name: "sticky", Metadata: make([]byte, metadata)}}
		g := &classic{static: map[string]string{"i": "m-0"}, byID: map[string]*member{}, supported: supported{members: map[string]int{}}}
		for i := range members {
			mb := &member{id: fmt.Sprint("m-", i), protocols: one}
			g.byID[mb.id] = mb
			g.supported.add(mb.protocols, 1)
		}
		return g
	}
	join := func(id string, instance *string, metadata int) *kmsg.JoinGroupRequest {
		r := kmsg.NewPtrJoinGroupRequest()
		r.MemberID, r.InstanceID = id, instance
		r.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "sticky", Metadata: make([]byte, metadata)}}
		return r
	}
	if !full(5000, 50_000).hasMemory(join("", nil, 50_000)) {
		t.Error("a group of 5,000 members with 50 KB each is refused")
	}
	const large = 1_000_000
	g := full(maxGroupBytes/large, large)
	i := "i"
	if g.hasMemory(join("", nil, large)) {
		t.Error("a group that is full takes another member")
	}
	if !g.hasMemory(join("m-0", nil, large)) || !g.hasMemory(join("", &i, large)) {
		t.Error("a member of a full group cannot join again")
	}
}
