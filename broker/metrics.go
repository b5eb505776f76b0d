package broker

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// metrics registers what is about the process and the whole broker; rooms register their own. Figures are read when a page
// is scraped, so that they cost nothing in between.
func (b *Broker) metrics() {
	b.registry.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "tidemark_connections", Help: "Open client connections."},
			func() float64 { return float64(b.server.Connections()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "tidemark_partitions", Help: "Partitions in the cluster's image."},
			func() float64 { return float64(b.controller.Image().NumPartitions()) }),
	)
	if err := errors.Join(b.server.Register(b.registry), b.replicas.Register(b.registry)); err != nil {
		b.o.Logger.Error("some figures are missing from /metrics", "error", err)
	}
}
