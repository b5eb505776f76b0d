package controller

import "github.com/prometheus/client_golang/prometheus"

// metrics is what the controller counts. Gauges are read from the image when a page is scraped.
type metrics struct {
	requests      prometheus.Counter
	commitSeconds prometheus.Histogram
	snapshots     prometheus.Counter
	full          prometheus.Gauge
}

// newMetrics makes the metrics and registers them; a nil registerer leaves them to themselves.
func newMetrics(r prometheus.Registerer, c *Controller) *metrics {
	m := &metrics{
		requests: prometheus.NewCounter(prometheus.CounterOpts{Name: "tidemark_metadata_requests_total",
			Help: "Requests that the controller has decided on."}),
		commitSeconds: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "tidemark_metadata_commit_seconds",
			Help:    "Time to make the records of a round of requests durable and to apply them.",
			Buckets: prometheus.ExponentialBuckets(0.0001, 4, 9)}),
		snapshots: prometheus.NewCounter(prometheus.CounterOpts{Name: "tidemark_metadata_snapshots_total",
			Help: "Snapshots of the metadata that were written."}),
		full: prometheus.NewGauge(prometheus.GaugeOpts{Name: "tidemark_metadata_disk_full",
			Help: "1 while changes of metadata are refused because the disk of the metadata log is full."}),
	}
	if r == nil {
		return m
	}
	r.MustRegister(m.requests, m.commitSeconds, m.snapshots, m.full,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "tidemark_metadata_offset", Help: "Offset of the last applied entry of the metadata log."},
			func() float64 { return float64(c.Image().Offset) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "tidemark_metadata_epoch", Help: "Epoch of the active controller."},
			func() float64 { return float64(c.Image().Epoch) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "tidemark_topics", Help: "Topics in the cluster's image."},
			func() float64 { return float64(c.Image().NumTopics()) }),
	)
	return m
}
