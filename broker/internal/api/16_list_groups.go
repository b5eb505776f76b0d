package api

import "github.com/twmb/franz-go/pkg/kmsg"

// listGroups serves ListGroups 0 to 5: 3 is flexible, 4 filters by state, 5 by type.
func (h *Handlers) listGroups(c *Call, r kmsg.Request) kmsg.Response {
	reply := c.Later()
	h.Groups.ListGroups(r.(*kmsg.ListGroupsRequest), c.answerMemory(), func(resp *kmsg.ListGroupsResponse) { reply(resp) })
	return nil
}
