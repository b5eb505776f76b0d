package api

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/broker/internal/controller"
	"github.com/tidemark/tidemark/core/kafka"
)

// updateFeatures serves API key 57, versions 0 to 2: levels are finalised all together or not at all.
//
//   - 1 says in which direction a level may go, and may only validate; before it there is allow-downgrade
//   - 2 has no results for single features
func (h *Handlers) updateFeatures(c *Call, req kmsg.Request) kmsg.Response {
	r := req.(*kmsg.UpdateFeaturesRequest)
	reply, ctx := c.Later(), c.Context()
	go func() { reply(h.updateFeaturesNow(ctx, r)) }()
	return nil
}

// updateFeaturesNow blocks until the levels are committed.
func (h *Handlers) updateFeaturesNow(ctx context.Context, r *kmsg.UpdateFeaturesRequest) kmsg.Response {
	resp := kmsg.NewPtrUpdateFeaturesResponse()
	updates := make([]controller.FeatureUpdate, len(r.FeatureUpdates))
	for i := range r.FeatureUpdates {
		u := &r.FeatureUpdates[i]
		updates[i] = controller.FeatureUpdate{Name: u.Feature, Level: u.MaxVersionLevel, Type: controller.UpgradeType(u.UpgradeType)}
		if r.Version == 0 {
			if updates[i].Type = controller.Upgrade; u.AllowDowngrade {
				updates[i].Type = controller.SafeDowngrade
			}
		}
	}
	ctx, cancel := within(ctx, r.TimeoutMillis)
	defer cancel()
	failed, code, text := h.Controller.UpdateFeatures(ctx, updates, r.ValidateOnly && r.Version >= 1)
	if failed != "" {
		text = "The update failed for all features since the following feature had an error: " + text
	}
	if r.Version >= 2 || failed == "" && code != kafka.None {
		resp.ErrorCode, resp.ErrorMessage = int16(code), errText(code, text)
		return resp
	}
	for _, u := range updates {
		result := kmsg.NewUpdateFeaturesResponseResult()
		result.Feature, result.ErrorCode, result.ErrorMessage = u.Name, int16(code), errText(code, text)
		resp.Results = append(resp.Results, result)
	}
	return resp
}
