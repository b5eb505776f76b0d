package api

import "github.com/twmb/franz-go/pkg/kmsg"

// heartbeat serves Heartbeat 0 to 4: 3 adds group.instance.id, 4 is flexible.
func (h *Handlers) heartbeat(c *Call, r kmsg.Request) kmsg.Response {
	reply := c.Later()
	h.Groups.Heartbeat(r.(*kmsg.HeartbeatRequest), func(resp *kmsg.HeartbeatResponse) { reply(resp) })
	return nil
}
