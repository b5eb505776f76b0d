package api

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/broker/internal/coordinator"
)

// joinGroup serves JoinGroup 0 to 9.
//
//   - 1 adds the rebalance timeout, which in 0 is the session timeout
//   - 4 answers MEMBER_ID_REQUIRED to who comes without a member id
//   - 5 adds group.instance.id
//   - 6 is flexible
//   - 7 adds the protocol type to the response
//   - 8 adds a reason
//   - 9 lets a static leader that was started again skip the assignment
func (h *Handlers) joinGroup(c *Call, r kmsg.Request) kmsg.Response {
	reply := c.Later()
	client := coordinator.Client{ID: c.ClientID, Host: "/" + c.ClientHost, Taken: c.taken, Afford: c.answerMemory()}
	h.Groups.JoinGroup(client, r.(*kmsg.JoinGroupRequest), func(resp *kmsg.JoinGroupResponse) { reply(resp) })
	return nil
}
