package api

import "github.com/twmb/franz-go/pkg/kmsg"

func (h *Handlers) listOffsets(c *Call, req kmsg.Request) kmsg.Response          { return nil }
func (h *Handlers) offsetForLeaderEpoch(c *Call, req kmsg.Request) kmsg.Response { return nil }
