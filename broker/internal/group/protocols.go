package group

import (
	"github.com/twmb/franz-go/pkg/kmsg"
)

// supported counts how many members of a group support each protocol, so that what all have in common is found in time
// that grows with the members' lists, and not with the product of their lengths: one JoinGroup may name 200,000.
type supported struct {
	members map[string]int
	bytes   int // memberBytes of all members
	lookups int // names that were looked up, which a test bounds
}

// add counts a member's protocols, with by -1 it takes them back. No name may come twice in a list.
func (s *supported) add(protocols []kmsg.JoinGroupRequestProtocol, by int) {
	s.bytes += by * memberBytes(protocols)
	for i := range protocols {
		name := protocols[i].Name
		if s.members[name] += by; s.members[name] == 0 {
			delete(s.members, name)
		}
	}
}

// first gives the first protocol of a list that n members support.
func (s *supported) first(protocols []kmsg.JoinGroupRequestProtocol, n int) (name string, ok bool) {
	for i := range protocols {
		s.lookups++
		if s.members[protocols[i].Name] == n {
			return protocols[i].Name, true
		}
	}
	return "", false
}

// setProtocols gives a member of the group other protocols.
func (g *classic) setProtocols(mb *member, protocols []kmsg.JoinGroupRequestProtocol) {
	g.supported.add(mb.protocols, -1)
	mb.protocols = protocols
	g.supported.add(protocols, 1)
}

// supportsProtocols reports whether a member with these protocols can live in the group.
func (g *classic) supportsProtocols(protocolType string, protocols []kmsg.JoinGroupRequestProtocol) bool {
	if g.state == empty {
		return protocolType != "" && len(protocols) > 0
	}
	if protocolType != g.protocolType {
		return false
	}
	_, ok := g.supported.first(protocols, len(g.members))
	return ok
}

// selectProtocol: each member votes for the first protocol in its list that all members support; most votes win, a tie
// goes to the one voted for first.
func (g *classic) selectProtocol() string {
	votes := map[string]int{}
	var order []string
	for _, mb := range g.members {
		name, ok := g.supported.first(mb.protocols, len(g.members))
		if !ok {
			continue
		}
		if votes[name] == 0 {
			order = append(order, name)
		}
		votes[name]++
	}
	best := ""
	for _, name := range order {
		if votes[name] > votes[best] {
			best = name
		}
	}
	return best
}

// unique gives each protocol once: the first of those that have one name.
func unique(protocols []kmsg.JoinGroupRequestProtocol) []kmsg.JoinGroupRequestProtocol {
	if len(protocols) < 2 {
		return protocols
	}
	seen := make(map[string]bool, len(protocols))
	var out []kmsg.JoinGroupRequestProtocol
	for i := range protocols {
		if name := protocols[i].Name; !seen[name] {
			seen[name] = true
			out = append(out, protocols[i])
		}
	}
	return out
}
