package api

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/broker/internal/coordinator"
)

// syncGroup serves SyncGroup 0 to 5: 3 adds group.instance.id, 4 is flexible, 5 adds protocol type and name.
func (h *Handlers) syncGroup(c *Call, r kmsg.Request) kmsg.Response {
	reply := c.Later()
	h.Groups.SyncGroup(coordinator.Client{Taken: c.taken, Afford: c.answerMemory()}, r.(*kmsg.SyncGroupRequest), func(resp *kmsg.SyncGroupResponse) { reply(resp) })
	return nil
}
