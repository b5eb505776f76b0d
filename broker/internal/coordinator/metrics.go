package coordinator

import (
	"github.com/prometheus/client_golang/prometheus"
)

// metrics is what the group coordinator counts.
type metrics struct {
	rebalances    prometheus.Counter
	records       prometheus.Counter
	appendSeconds prometheus.Histogram
	loadSeconds   prometheus.Histogram
	failures      prometheus.Counter
}

// newMetrics makes the metrics and registers them; a nil registerer leaves them to themselves.
func newMetrics(r prometheus.Registerer, g *Groups) *metrics {
	m := &metrics{
		rebalances: prometheus.NewCounter(prometheus.CounterOpts{Name: "tidemark_group_rebalances_total",
			Help: "Generations of consumer groups that have begun."}),
		records: prometheus.NewCounter(prometheus.CounterOpts{Name: "tidemark_group_records_total",
			Help: "Records that were appended to __consumer_offsets, tombstones among them."}),
		appendSeconds: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "tidemark_group_append_seconds",
			Help:    "Time from an append to __consumer_offsets until the high watermark has passed it.",
			Buckets: prometheus.ExponentialBuckets(0.0001, 4, 9)}),
		loadSeconds: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "tidemark_group_load_seconds",
			Help:    "Time to load a partition of __consumer_offsets after its leadership has come.",
			Buckets: prometheus.ExponentialBuckets(0.001, 4, 9)}),
		failures: prometheus.NewCounter(prometheus.CounterOpts{Name: "tidemark_group_append_failures_total",
			Help: "Appends to __consumer_offsets that have failed."}),
	}
	if r == nil {
		return m
	}
	r.MustRegister(m.rebalances, m.records, m.appendSeconds, m.loadSeconds, m.failures,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "tidemark_groups", Help: "Groups that this broker coordinates."},
			func() float64 {
				n := int64(0)
				for _, s := range *g.shards.Load() {
					n += s.groups.Load()
				}
				return float64(n)
			}))
	return m
}
