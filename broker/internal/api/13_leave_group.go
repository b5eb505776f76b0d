package api

import "github.com/twmb/franz-go/pkg/kmsg"

// leaveGroup serves LeaveGroup 0 to 5: 3 takes several members, by member id or group.instance.id, 4 is flexible, 5 adds
// a reason.
func (h *Handlers) leaveGroup(c *Call, r kmsg.Request) kmsg.Response {
	reply := c.Later()
	h.Groups.LeaveGroup(r.(*kmsg.LeaveGroupRequest), func(resp *kmsg.LeaveGroupResponse) { reply(resp) })
	return nil
}
