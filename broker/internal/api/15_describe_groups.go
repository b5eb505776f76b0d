package api

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/broker/internal/coordinator"
)

// groupOperations is what may be done with a group when nothing is forbidden, a bit for each of Kafka's ACL operations:
// READ 3, DELETE 6, DESCRIBE 8, DESCRIBE_CONFIGS 10, ALTER_CONFIGS 11.
const groupOperations = 1<<3 | 1<<6 | 1<<8 | 1<<10 | 1<<11

// describeGroups serves DescribeGroups 0 to 6.
//
//   - 3 may ask for authorized operations
//   - 4 adds group.instance.id
//   - 5 is flexible
//   - 6 answers GROUP_ID_NOT_FOUND for what earlier versions call a Dead group
func (h *Handlers) describeGroups(c *Call, r kmsg.Request) kmsg.Response {
	req := r.(*kmsg.DescribeGroupsRequest)
	reply := c.Later()
	h.Groups.DescribeGroups(req, c.answerMemory(), func(resp *kmsg.DescribeGroupsResponse) {
		for i := range resp.Groups {
			if req.IncludeAuthorizedOperations && resp.Groups[i].ErrorCode == 0 {
				resp.Groups[i].AuthorizedOperations = groupOperations
			}
		}
		reply(resp)
	})
	return nil
}

// answerMemory gives what takes memory for the call's answer while others make it.
func (c *Call) answerMemory() coordinator.Afford {
	return func(n int64) bool { return c.Conn.Share(c, n) }
}
