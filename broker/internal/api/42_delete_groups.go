package api

import "github.com/twmb/franz-go/pkg/kmsg"

// deleteGroups serves DeleteGroups 0 to 3: 2 is flexible, 3 adds a message. A group with members stays.
func (h *Handlers) deleteGroups(c *Call, r kmsg.Request) kmsg.Response {
	reply := c.Later()
	h.Groups.DeleteGroups(r.(*kmsg.DeleteGroupsRequest), func(resp *kmsg.DeleteGroupsResponse) { reply(resp) })
	return nil
}
