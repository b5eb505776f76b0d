package api

import (
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/core/kafka"
)

// listConfigResources serves API key 74: version 0 lists client metrics, of which there are none here; version 1 any kind
// of resource, all of them when none is named.
func (h *Handlers) listConfigResources(_ *Call, req kmsg.Request) kmsg.Response {
	r := req.(*kmsg.ListConfigResourcesRequest)
	resp := kmsg.NewPtrListConfigResourcesResponse()
	resp.ConfigResources = []kmsg.ListConfigResourcesResponseConfigResource{}
	if r.Version == 0 {
		return resp
	}
	served := []int8{int8(kmsg.ConfigResourceTypeTopic), int8(kmsg.ConfigResourceTypeBroker), int8(kmsg.ConfigResourceTypeBrokerLogger),
		int8(kmsg.ConfigResourceTypeClientMetrics), int8(kmsg.ConfigResourceTypeGroupConfig)}
	asked := r.ResourceTypes
	if len(asked) == 0 {
		asked = served
	}
	for _, kind := range asked {
		if !slices.Contains(served, kind) {
			resp.ErrorCode = int16(kafka.UnsupportedVersion)
			return resp
		}
	}
	img := h.Image()
	add := func(kind kmsg.ConfigResourceType, name string) {
		c := kmsg.NewListConfigResourcesResponseConfigResource()
		c.Type, c.Name = int8(kind), name
		resp.ConfigResources = append(resp.ConfigResources, c)
	}
	for _, kind := range served {
		if !slices.Contains(asked, kind) {
			continue
		}
		switch kind := kmsg.ConfigResourceType(kind); kind {
		case kmsg.ConfigResourceTypeTopic:
			for t := range img.Topics() {
				add(kind, t.Name)
			}
		case kmsg.ConfigResourceTypeBroker, kmsg.ConfigResourceTypeBrokerLogger:
			for b := range img.Brokers() {
				add(kind, strconv.Itoa(int(b.ID)))
			}
		}
	}
	return resp
}
