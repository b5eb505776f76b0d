package api

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/core/kafka"
)

// Kinds of keys of FindCoordinator.
const (
	groupKeyType       = 0
	transactionKeyType = 1
)

// noTransactions is what goes with TRANSACTIONAL_ID_AUTHORIZATION_FAILED.
const noTransactions = "transactions are not served by this broker"

// findCoordinator serves FindCoordinator 0 to 6.
//
//   - 1 adds the kind of key
//   - 3 is flexible
//   - 4 asks for several keys
//   - 6 adds a kind for share groups, which are not served
//
// The first request for a group creates __consumer_offsets.
func (h *Handlers) findCoordinator(c *Call, r kmsg.Request) kmsg.Response {
	req := r.(*kmsg.FindCoordinatorRequest)
	cost := &answerCost{c: c}
	if req.CoordinatorType != groupKeyType || h.Image().Topic(kafka.OffsetsTopic) != nil {
		return h.foundCoordinators(req, c.Listener, nil, cost)
	}
	reply := c.Later()
	ctx, listener := c.Context(), c.Listener
	go func() { // creating a topic waits for the controller
		if resp := h.foundCoordinators(req, listener, h.Groups.EnsureTopic(ctx), cost); resp != nil {
			reply(resp)
		}
	}()
	return nil
}

const (
	foundCoordinatorBytes = 128 // what a coordinator takes decoded
	toldCoordinatorBytes  = 32  // what it takes encoded, beside its strings
)

// foundCoordinators answers; ensured is why there is no __consumer_offsets. It is nil when there is no memory for the answer and the
// call has been aborted.
func (h *Handlers) foundCoordinators(req *kmsg.FindCoordinatorRequest, listener string, ensured error, cost *answerCost) kmsg.Response {
	resp := kmsg.NewPtrFindCoordinatorResponse()
	if req.Version >= 4 {
		n := 0
		for _, key := range req.CoordinatorKeys {
			found := h.coordinatorOf(req.CoordinatorType, key, listener, ensured)
			told := toldCoordinatorBytes + len(found.Key) + len(found.Host)
			if found.ErrorMessage != nil {
				told += len(*found.ErrorMessage)
			}
			if !cost.take(int64(told + foundCoordinatorBytes)) {
				return nil
			}
			n += told
			resp.Coordinators = append(resp.Coordinators, found)
		}
		return &paidResponse{resp, n}
	}
	one := h.coordinatorOf(req.CoordinatorType, req.CoordinatorKey, listener, ensured)
	resp.NodeID, resp.Host, resp.Port = one.NodeID, one.Host, one.Port
	resp.ErrorCode, resp.ErrorMessage = one.ErrorCode, one.ErrorMessage
	return resp
}

func (h *Handlers) coordinatorOf(keyType int8, key, listener string, ensured error) kmsg.FindCoordinatorResponseCoordinator {
	found := kmsg.NewFindCoordinatorResponseCoordinator()
	found.Key, found.NodeID, found.Port = key, int32(kafka.NoBroker), -1
	fail := func(code kafka.ErrorCode, text string) kmsg.FindCoordinatorResponseCoordinator {
		found.ErrorCode, found.ErrorMessage = int16(code), &text
		return found
	}
	if keyType == transactionKeyType { // in a way that no client tries again
		return fail(kafka.TransactionalIdAuthorizationFailed, noTransactions)
	}
	if keyType != groupKeyType {
		return fail(kafka.InvalidRequest, "only coordinators of groups (key type 0) are served here")
	}
	if ensured != nil {
		return fail(kafka.CoordinatorNotAvailable, ensured.Error())
	}
	img := h.Image()
	topic := img.Topic(kafka.OffsetsTopic)
	p := h.Groups.PartitionFor(key)
	if topic == nil || int(p) >= len(topic.Partitions) {
		return fail(kafka.CoordinatorNotAvailable, kafka.OffsetsTopic+" does not exist yet")
	}
	leader := topic.Partitions[p].Leader
	if leader == h.NodeID {
		found.NodeID = int32(leader)
		found.Host, found.Port = h.Advertised(listener)
		return found
	}
	if b := img.Broker(leader); b != nil {
		for _, e := range b.Endpoints {
			if e.Listener == listener {
				found.NodeID, found.Host, found.Port = int32(leader), e.Host, e.Port
				return found
			}
		}
	}
	return fail(kafka.CoordinatorNotAvailable, "the coordinator's partition has no leader that this listener reaches")
}
