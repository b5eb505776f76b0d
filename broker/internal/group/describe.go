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

// List gives the groups in certain states and of certain types, sorted by id; no states or types stands for all.
func (m *Machine) List(states, types []string) []kmsg.ListGroupsResponseGroup {
	matches := func(filter []string, s string) bool {
		return len(filter) == 0 || slices.ContainsFunc(filter, func(f string) bool { return strings.EqualFold(f, s) })
	}
	var out []kmsg.ListGroupsResponseGroup
	if !matches(types, classicType) {
		return nil
	}
	for id, g := range m.groups {
		if !matches(states, g.state.String()) {
			continue
		}
		r := kmsg.NewListGroupsResponseGroup()
		r.Group, r.ProtocolType, r.GroupState, r.GroupType = id, g.protocolType, g.state.String(), classicType
		out = append(out, r)
	}
	slices.SortFunc(out, func(a, b kmsg.ListGroupsResponseGroup) int { return strings.Compare(a.Group, b.Group) })
	return out
}
