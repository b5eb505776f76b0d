package group

import (
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// classicType is what ListGroups 5+ calls groups of the classic protocol.
const classicType = "classic"

// Describe answers for one group of DescribeGroups; false when the machine does not know it.
func (m *Machine) Describe(id string) (kmsg.DescribeGroupsResponseGroup, bool) {
	r := kmsg.NewDescribeGroupsResponseGroup()
	r.Group = id
	g := m.groups[id]
	if g == nil {
		return r, false
	}
	r.State = g.state.String()
	r.ProtocolType = g.protocolType
	for _, mb := range g.members {
		rm := kmsg.NewDescribeGroupsResponseGroupMember()
		rm.MemberID, rm.InstanceID, rm.ClientID, rm.ClientHost = mb.id, mb.instance, mb.clientID, mb.host
		if g.state == stable {
			rm.ProtocolMetadata, rm.MemberAssignment = mb.metadata(*g.protocol), mb.assignment
		}
		r.Members = append(r.Members, rm)
	}
	if g.state == stable {
		r.Protocol = *g.protocol
	}
	return r, true
}

// Filter is which groups ListGroups asks for. One is made for a request and serves all machines: a request may name as many
// states as there are groups.
type Filter struct {
	states [dead + 1]bool
	types  bool // groups of the classic protocol are asked for
}

// NewFilter makes the filter of certain states and types, in upper or lower case; no states or types stands for all.
func NewFilter(states, types []string) Filter {
	f := Filter{types: len(types) == 0}
	for s := range f.states {
		f.states[s] = len(states) == 0
	}
	for _, name := range states {
		for s := range f.states {
			f.states[s] = f.states[s] || strings.EqualFold(name, state(s).String())
		}
	}
	for _, name := range types {
		f.types = f.types || strings.EqualFold(name, classicType)
	}
	return f
}

// List gives the groups that a filter lets through, sorted by id.
func (m *Machine) List(f Filter) []kmsg.ListGroupsResponseGroup {
	if !f.types {
		return nil
	}
	var out []kmsg.ListGroupsResponseGroup
	for id, g := range m.groups {
		if !f.states[g.state] {
			continue
		}
		r := kmsg.NewListGroupsResponseGroup()
		r.Group, r.ProtocolType, r.GroupState, r.GroupType = id, g.protocolType, g.state.String(), classicType
		out = append(out, r)
	}
	slices.SortFunc(out, func(a, b kmsg.ListGroupsResponseGroup) int { return strings.Compare(a.Group, b.Group) })
	return out
}
