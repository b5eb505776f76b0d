package api

import (
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/broker/internal/controller"
	"github.com/tidemark/tidemark/core/kafka"
)

// apiVersions serves API key 18, versions 0 to 5.
func (h *Handlers) apiVersions(c *Call, req kmsg.Request) kmsg.Response {
	r := req.(*kmsg.ApiVersionsRequest)
	resp := kmsg.NewPtrApiVersionsResponse()
	if c.Version >= 3 && (!softwareName(r.ClientSoftwareName) || !softwareName(r.ClientSoftwareVersion)) {
		resp.ErrorCode = int16(kafka.InvalidRequest)
		return resp
	}
	if c.Version >= 5 && r.ClusterID != nil && *r.ClusterID != h.Image().ClusterID || c.Version >= 5 && r.NodeID != -1 && r.NodeID != int32(h.NodeID) {
		resp.ErrorCode = int16(kafka.RebootstrapRequired) // KIP-1242: the client meant another node
		return resp
	}
	resp.ApiKeys = h.apiKeys
	if resp.Version = c.Version; c.Version >= 3 {
		h.features(resp)
	}
	return resp
}

// features lists what this broker supports, and what the cluster has finalised.
func (h *Handlers) features(resp *kmsg.ApiVersionsResponse) {
	img := h.Image()
	for _, f := range controller.Features() {
		if f.Min == 0 && resp.Version < 4 {
			continue // clients before version 4 take a lowest level of 0 for an error (KIP-1022)
		}
		s := kmsg.NewApiVersionsResponseSupportedFeature()
		s.Name, s.MinVersion, s.MaxVersion = f.Name, f.Min, f.Max
		resp.SupportedFeatures = append(resp.SupportedFeatures, s)
	}
	for _, name := range slices.Sorted(maps.Keys(img.Features())) {
		f := kmsg.NewApiVersionsResponseFinalizedFeature()
		level := img.Features()[name]
		f.Name, f.MinVersionLevel, f.MaxVersionLevel = name, level, level
		resp.FinalizedFeatures = append(resp.FinalizedFeatures, f)
	}
	resp.FinalizedFeaturesEpoch = img.FeaturesEpoch()
}

// advertisedKeys lists the table's rows. Produce begins at 0 for librdkafka's sake, which else takes the broker for one
// without Produce; versions 0 to 2 are not served.
func advertisedKeys(rows []row) []kmsg.ApiVersionsResponseApiKey {
	keys := make([]kmsg.ApiVersionsResponseApiKey, 0, len(rows))
	for _, r := range rows {
		k := kmsg.NewApiVersionsResponseApiKey()
		k.ApiKey, k.MinVersion, k.MaxVersion = r.key, r.min, r.max
		if r.key == 0 {
			k.MinVersion = 0
		}
		keys = append(keys, k)
	}
	return keys
}

// unsupportedApiVersions answers a version that this broker does not know, by KIP-511: error 35 in a body of version 0
// that lists this key. The connection stays open.
func (h *Handlers) unsupportedApiVersions(c *Call) {
	resp := kmsg.NewPtrApiVersionsResponse()
	resp.ErrorCode = int16(kafka.UnsupportedVersion)
	for _, k := range h.apiKeys {
		if k.ApiKey == apiVersionsKey {
			resp.ApiKeys = append(resp.ApiKeys, k)
		}
	}
	c.Version = 0
	c.reply(resp)
}

// softwareName is KIP-511's pattern [a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?
func softwareName(s string) bool {
	for i := 0; i < len(s); i++ {
		b := s[i]
		letter := b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= '0' && b <= '9'
		if !letter && (b != '-' && b != '.' || i == 0 || i == len(s)-1) {
			return false
		}
	}
	return s != ""
}
