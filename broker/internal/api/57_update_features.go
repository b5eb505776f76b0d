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
	cost := &answerCost{c: c}
	go func() {
		if resp := h.updateFeaturesNow(ctx, r, cost); resp != nil {
			reply(resp)
		}
	}()
	return nil
}

// featureResultBytes is what a result takes decoded, and encoded beside its strings.
const featureResultBytes = 64

// updateFeaturesNow blocks until the levels are committed; nil when there is no memory for the answer and the call has been aborted.
func (h *Handlers) updateFeaturesNow(ctx context.Context, r *kmsg.UpdateFeaturesRequest, cost *answerCost) kmsg.Response {
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
	message := errText(code, text) // shared: it is told of each
	n := 0
	for i := range updates {
		n += featureResultBytes + len(updates[i].Name)
		if message != nil {
			n += len(*message)
		}
	}
	if !cost.take(int64(n)) {
		return nil
	}
	resp.Results = make([]kmsg.UpdateFeaturesResponseResult, len(updates))
	for i := range updates {
		result := &resp.Results[i]
		result.Default()
		result.Feature, result.ErrorCode, result.ErrorMessage = updates[i].Name, int16(code), message
	}
	return &paidResponse{resp, n}
}
