package api

type produceCall struct{}

func (h *Handlers) produce(c *Call) {}
