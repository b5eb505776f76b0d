package api

type fetchCall struct{}

func (h *Handlers) fetch(c *Call) {}

type workers struct{}

func newWorkers(h *Handlers) *workers { return &workers{} }
func (w *workers) close()             {}
