package group

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/core/kafka"
)

// joinOf is a JoinGroup of a static member with n protocols of its own and the ones named.
func joinOf(instance string, n int, named ...string) *kmsg.JoinGroupRequest {
	r := kmsg.NewPtrJoinGroupRequest()
	r.Version, r.Group, r.InstanceID, r.ProtocolType = 9, "g", &instance, "consumer"
	r.SessionTimeoutMillis, r.RebalanceTimeoutMillis = 10_000, 60_000
	r.Protocols = make([]kmsg.JoinGroupRequestProtocol, 0, n+len(named))
	for i := range n {
		r.Protocols = append(r.Protocols, kmsg.JoinGroupRequestProtocol{Name: instance + strconv.Itoa(i)})
	}
	for _, name := range named {
		r.Protocols = append(r.Protocols, kmsg.JoinGroupRequestProtocol{Name: name})
	}
	return r
}

// joinCode joins and gives the error of the last answer, kafka.None when there is none.
func joinCode(m *Machine, r *kmsg.JoinGroupRequest) kafka.ErrorCode {
	m.JoinGroup(Now{MonoMS: 1000, WallMS: 1_700_000_000_000}, "join", "c", "/10.0.0.1", r)
	code := kafka.None
	for _, a := range m.Take().Answers {
		code = kafka.ErrorCode(a.Response.(*kmsg.JoinGroupResponse).ErrorCode)
	}
	return code
}

// machineOf has ids that are all different.
func machineOf(delayMS int32) *Machine {
	c := scenarioConfig()
	c.InitialRebalanceDelayMS = delayMS
	ids := 0
	return New(c, func() string { ids++; return strconv.Itoa(ids) })
}

// What members have in common is found in as many steps as they name protocols, not in the product of two members'.
func TestManyProtocolsCostTheirSum(t *testing.T) {
	const protocols = 10_000
	m := machineOf(3000)
	for i, c := range []struct {
		join *kmsg.JoinGroupRequest
		want kafka.ErrorCode
	}{
		{joinOf("a", protocols, "last"), kafka.None},
		{joinOf("b", protocols), kafka.InconsistentGroupProtocol},
		{joinOf("c", protocols, "last"), kafka.None},
		{joinOf("a", protocols, "last"), kafka.FencedInstanceId}, // the one before, which this takes over from
	} {
		if code := joinCode(m, c.join); code != c.want {
			t.Fatalf("member %d: %v, want %v", i, code, c.want)
		}
	}
	g := m.groups["g"]
	if got := g.selectProtocol(); got != "last" {
		t.Errorf("protocol %q", got)
	}
	if most := 8 * (protocols + 1); g.supported.lookups > most {
		t.Errorf("%d names were looked up, %d at most were to be", g.supported.lookups, most)
	}
	if n := len(g.supported.members); n != 2*protocols+1 {
		t.Errorf("%d protocols are counted", n)
	}
}

// A static member's process that is started again costs its group one walk over the members.
func TestATakeoverCostsOneWalkOverTheMembers(t *testing.T) {
	const members = 1000
	now := Now{MonoMS: 1000, WallMS: 1_700_000_000_000}
	m := machineOf(3000)
	for i := range members {
		if code := joinCode(m, joinOf(fmt.Sprint("i", i), 0, "range", "sticky")); code != kafka.None {
			t.Fatal(code)
		}
	}
	for m.groups["g"].state == preparingRebalance {
		next, _ := m.Next()
		now.MonoMS = next
		m.Tick(now)
	}
	m.Take()
	g := m.groups["g"]
	sync := kmsg.NewPtrSyncGroupRequest()
	sync.Version, sync.Group, sync.MemberID, sync.Generation = 4, "g", g.leader, g.generation
	m.SyncGroup(now, "sync", sync)
	for _, w := range m.Take().Writes {
		m.Written(now, w.Ticket, kafka.None)
	}
	if g.state != stable || len(g.members) != members {
		t.Fatalf("%v with %d members", g.state, len(g.members))
	}
	before := g.supported.lookups
	m.JoinGroup(now, "takeover", "c", "/10.0.0.1", joinOf("i7", 0, "range", "sticky"))
	if writes := len(m.Take().Writes); writes != 1 {
		t.Fatalf("%d writes: no takeover", writes)
	}
	if n := g.supported.lookups - before; n > 2*members {
		t.Errorf("a takeover looks up %d names in a group of %d", n, members)
	}
}

// BenchmarkJoinWithManyProtocols has two members that name many protocols, of which all but the last differ.
func BenchmarkJoinWithManyProtocols(b *testing.B) {
	for _, n := range []int{2, 1000, 10_000} {
		b.Run(fmt.Sprintf("protocols=%d", n), func(b *testing.B) {
			m := machineOf(3000)
			if code := joinCode(m, joinOf("a", n, "last")); code != kafka.None {
				b.Fatal(code)
			}
			r := joinOf("b", n, "last")
			b.ReportAllocs()
			for b.Loop() {
				joinCode(m, r)
			}
		})
	}
}

// BenchmarkTakeover is one static member whose process is started again.
func BenchmarkTakeover(b *testing.B) {
	for _, members := range []int{10, 1000} {
		b.Run(fmt.Sprintf("members=%d", members), func(b *testing.B) {
			m := machineOf(3000)
			for i := range members {
				joinCode(m, joinOf(fmt.Sprint("i", i), 0, "range", "sticky"))
			}
			r := joinOf("i7", 0, "range", "sticky")
			b.ReportAllocs()
			for b.Loop() {
				joinCode(m, r)
				m.groups["g"].selectProtocol()
			}
		})
	}
}
