package api

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/core/kafka"
)

// initProducerID serves API key 22, versions 0 to 5, for idempotent producers. Each gets an id that nobody had before,
// in epoch 0; an id that the producer brings along is not looked at, as in Kafka. Transactions are not served: a
// transactional id is refused in a way that no client tries again.
func (h *Handlers) initProducerID(c *Call, req kmsg.Request) kmsg.Response {
	r := req.(*kmsg.InitProducerIDRequest)
	resp := kmsg.NewPtrInitProducerIDResponse()
	resp.ProducerID, resp.ProducerEpoch = -1, -1
	switch {
	case r.TransactionalID != nil && *r.TransactionalID == "", (r.ProducerID == -1) != (r.ProducerEpoch == -1) && r.Version >= 3:
		resp.ErrorCode = int16(kafka.InvalidRequest)
		return resp
	case r.TransactionalID != nil:
		resp.ErrorCode = int16(kafka.TransactionalIdAuthorizationFailed)
		return resp
	}
	if id, ok := h.Controller.TryProducerID(); ok { // the usual case: the broker's block has one left
		resp.ProducerID, resp.ProducerEpoch = int64(id), 0
		return resp
	}
	reply, ctx := c.Later(), c.Context()
	go func() {
		ctx, cancel := context.WithTimeout(ctx, autoCreateTimeout)
		defer cancel()
		id, err := h.Controller.NextProducerID(ctx)
		if err != nil {
			code := kafka.CoordinatorLoadInProgress // the client asks again
			if errors.Is(err, kafka.KafkaStorageError) {
				code = kafka.UnknownServerError
			}
			resp.ErrorCode = int16(code)
		} else {
			resp.ProducerID, resp.ProducerEpoch = int64(id), 0
		}
		reply(resp)
	}()
	return nil
}
