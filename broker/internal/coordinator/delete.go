package coordinator

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/broker/internal/group"
	"github.com/tidemark/tidemark/core/kafka"
)

// DeleteGroups serves API key 42: each group on its own, in the order asked.
func (g *Groups) DeleteGroups(req *kmsg.DeleteGroupsRequest, reply func(*kmsg.DeleteGroupsResponse)) {
	r := kmsg.NewPtrDeleteGroupsResponse()
	r.Version = req.Version
	r.Groups = make([]kmsg.DeleteGroupsResponseGroup, len(req.Groups))
	all := gather(len(req.Groups), func() { reply(r) })
	for i, id := range req.Groups {
		to := func(one kmsg.Response) {
			r.Groups[i] = one.(*kmsg.DeleteGroupsResponse).Groups[0]
			all()
		}
		g.ask(id, func(m *group.Machine, now group.Now) { m.DeleteGroup(now, to, id) }, func(code kafka.ErrorCode) {
			r.Groups[i] = kmsg.NewDeleteGroupsResponseGroup()
			r.Groups[i].Group, r.Groups[i].ErrorCode = id, int16(code)
			r.Groups[i].ErrorMessage = kmsg.StringPtr(code.Error())
			all()
		})
	}
}

// OffsetDelete serves API key 47 for topics that the caller knows to exist.
func (g *Groups) OffsetDelete(req *kmsg.OffsetDeleteRequest, reply func(*kmsg.OffsetDeleteResponse)) {
	to := func(r kmsg.Response) { reply(r.(*kmsg.OffsetDeleteResponse)) }
	g.ask(req.Group, func(m *group.Machine, now group.Now) { m.OffsetDelete(now, to, req) },
		func(code kafka.ErrorCode) {
			r := kmsg.NewPtrOffsetDeleteResponse()
			r.Version, r.ErrorCode = req.Version, int16(code)
			reply(r)
		})
}
