package api

import "github.com/twmb/franz-go/pkg/kmsg"

func (h *Handlers) apiVersions(c *Call, req kmsg.Request) kmsg.Response { return nil }
func (h *Handlers) unsupportedApiVersions(c *Call)                      {}
