package broker

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/tidemark/tidemark/broker/internal/fetchsession"
)

// metrics registers what is about the process and the whole broker; rooms register their own. Figures are read when a page
// is scraped, so that they cost nothing in between.
func (b *Broker) metrics() {
	b.registry.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewBuildInfoCollector(),
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

// sessionMetrics are the figures of incremental fetch sessions.
func sessionMetrics(c *fetchsession.Cache) []prometheus.Collector {
	gauge := func(name, help string, of func(fetchsession.Figures) float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 { return of(c.Figures()) })
	}
	counter := func(name, help string, of func(fetchsession.Figures) float64) prometheus.Collector {
		return prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help}, func() float64 { return of(c.Figures()) })
	}
	return []prometheus.Collector{
		gauge("tidemark_fetch_sessions", "Sessions of incremental fetches.", func(f fetchsession.Figures) float64 { return float64(f.Sessions) }),
		gauge("tidemark_fetch_session_partitions", "Partitions that those sessions follow.", func(f fetchsession.Figures) float64 { return float64(f.Partitions) }),
		gauge("tidemark_fetch_session_bytes", "Memory that those sessions hold, as counted.", func(f fetchsession.Figures) float64 { return float64(f.Bytes) }),
		counter("tidemark_fetch_sessions_evicted_total", "Sessions that gave way to another.", func(f fetchsession.Figures) float64 { return float64(f.Evicted) }),
		counter("tidemark_fetch_sessions_refused_total", "Sessions not given, or ended, for want of a slot or memory.", func(f fetchsession.Figures) float64 { return float64(f.Refused) }),
	}
}
