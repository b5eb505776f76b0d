package api

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/core/kafka"
)

// Kinds of endpoints that DescribeCluster may ask for.
const (
	brokerEndpoints     = 1
	controllerEndpoints = 2
)

// describeCluster serves API key 60, versions 0 to 2.
func (h *Handlers) describeCluster(c *Call, req kmsg.Request) kmsg.Response {
	r := req.(*kmsg.DescribeClusterRequest)
	resp := kmsg.NewPtrDescribeClusterResponse()
	resp.EndpointType, resp.ControllerID = brokerEndpoints, -1
	if c.Version >= 1 && r.EndpointType != brokerEndpoints {
		code, text := kafka.UnsupportedEndpointType, fmt.Sprintf("Unsupported endpoint type %d", r.EndpointType)
		if r.EndpointType == controllerEndpoints {
			code, text = kafka.MismatchedEndpointType, "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER"
		}
		resp.ErrorCode, resp.ErrorMessage = int16(code), &text
		return resp
	}
	img := h.Image()
	resp.ClusterID, resp.ControllerID = img.ClusterID, int32(img.ControllerID)
	if r.IncludeClusterAuthorizedOperations {
		resp.ClusterAuthorizedOperations = clusterOperations
	}
	for b := range img.Brokers() {
		host, port, ok := h.endpoint(b, c.Listener)
		if !ok || b.Fenced && (c.Version < 2 || !r.IncludeFencedBrokers) {
			continue
		}
		rb := kmsg.NewDescribeClusterResponseBroker()
		rb.NodeID, rb.Host, rb.Port, rb.Rack, rb.IsFenced = int32(b.ID), host, port, rack(b), b.Fenced
		resp.Brokers = append(resp.Brokers, rb)
	}
	return resp
}
