package api

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/broker/internal/controller"
)

// incrementalAlterConfigs serves API key 44, versions 0 and 1: settings are set, removed, and, where they are lists,
// appended to and subtracted from; others stay.
func (h *Handlers) incrementalAlterConfigs(c *Call, req kmsg.Request) kmsg.Response {
	r := req.(*kmsg.IncrementalAlterConfigsRequest)
	asked := make([]alteration, len(r.Resources))
	for i := range r.Resources {
		in := &r.Resources[i]
		a := &asked[i]
		a.kind, a.Name = in.ResourceType, in.ResourceName
		for _, s := range in.Configs {
			a.change(s.Name, controller.ConfigOp(s.Op), s.Value)
		}
	}
	reply, ctx := c.Later(), c.Context()
	go func() {
		resp := kmsg.NewPtrIncrementalAlterConfigsResponse()
		for i, result := range h.alter(ctx, asked, r.ValidateOnly) {
			out := kmsg.NewIncrementalAlterConfigsResponseResource()
			out.ResourceType, out.ResourceName = asked[i].kind, asked[i].Name
			out.ErrorCode, out.ErrorMessage = int16(result.Err), errText(result.Err, result.Text)
			resp.Resources = append(resp.Resources, out)
		}
		reply(resp)
	}()
	return nil
}
