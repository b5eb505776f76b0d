package server

import (
	"math/bits"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/core/clock"
)

// metrics is what the server counts. A request costs two atomic additions; the clock is read once for each burst that is
// read and once for each that is written.
type metrics struct {
	requests [maxAPIKey + 1]atomic.Int64
	read     atomic.Int64 // bytes
	written  atomic.Int64
	produce  latencies
	fetch    latencies
	accepted atomic.Int64
	refused  atomic.Int64
}

// maxAPIKey is the highest key that is counted by itself.
const maxAPIKey = 127

// latencies is a histogram with buckets that double from 16 µs on.
type latencies struct {
	buckets [latencyBuckets + 1]atomic.Int64 // the last one is everything longer
	nanos   atomic.Int64
}

const (
	latencyBuckets   = 20 // up to 8.6 s
	firstBucketShift = 14 // 2^14 ns
	nanosInASecond   = 1e9
	produceKey       = 0
	fetchKey         = 1
)

func (l *latencies) observe(nanos int64) {
	i := bits.Len64(uint64(max(nanos, 0)) >> firstBucketShift)
	l.buckets[min(i, latencyBuckets)].Add(1)
	l.nanos.Add(nanos)
}

// took notes how long a request took, from its bytes' arrival to its answer's way into the socket.
func (m *metrics) took(key int16, nanos int64) {
	switch key {
	case produceKey:
		m.produce.observe(nanos)
	case fetchKey:
		m.fetch.observe(nanos)
	}
}

// served counts a request that is over.
func (m *metrics) served(key int16) {
	if key >= 0 && key <= maxAPIKey {
		m.requests[key].Add(1)
	}
}

// Register gives the server's figures to a registry. They are computed when a page is scraped.
func (s *Server) Register(r prometheus.Registerer) error { return r.Register(newMetricsView(s)) }

// metricsView is the figures as Prometheus sees them.
type metricsView struct {
	s                         *Server
	requests, read, written   *prometheus.Desc
	produce, fetch            *prometheus.Desc
	accepted, refused, memory *prometheus.Desc
}

func newMetricsView(s *Server) *metricsView {
	d := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, labels, nil)
	}
	return &metricsView{
		s:        s,
		requests: d("tidemark_requests_total", "Requests that are over, by API.", "api"),
		read:     d("tidemark_network_read_bytes_total", "Bytes read from client connections."),
		written:  d("tidemark_network_written_bytes_total", "Bytes written to client connections."),
		produce:  d("tidemark_produce_seconds", "Time from a Produce request's arrival to its answer's way into the socket."),
		fetch:    d("tidemark_fetch_seconds", "Time from a Fetch request's arrival to its answer's way into the socket, waiting for bytes included."),
		accepted: d("tidemark_connections_accepted_total", "Connections that were accepted."),
		refused:  d("tidemark_connections_refused_total", "Connections that were closed at once: max.connections or max.connections.per.ip."),
		memory:   d("tidemark_request_memory_bytes", "What requests and copied answers hold of queued.max.request.bytes."),
	}
}

// Describe implements prometheus.Collector.
func (v *metricsView) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{v.requests, v.read, v.written, v.produce, v.fetch, v.accepted, v.refused, v.memory} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (v *metricsView) Collect(ch chan<- prometheus.Metric) {
	m := &v.s.met
	counter := func(d *prometheus.Desc, n int64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), labels...)
	}
	for key := range m.requests {
		if n := m.requests[key].Load(); n > 0 {
			counter(v.requests, n, kmsg.NameForKey(int16(key)))
		}
	}
	counter(v.read, m.read.Load())
	counter(v.written, m.written.Load())
	counter(v.accepted, m.accepted.Load())
	counter(v.refused, m.refused.Load())
	b := v.s.budget
	ch <- prometheus.MustNewConstMetric(v.memory, prometheus.GaugeValue, float64(b.total-b.free.Load()))
	ch <- m.produce.metric(v.produce)
	ch <- m.fetch.metric(v.fetch)
}

func (l *latencies) metric(d *prometheus.Desc) prometheus.Metric {
	buckets := make(map[float64]uint64, latencyBuckets)
	var count uint64
	for i := range latencyBuckets {
		count += uint64(l.buckets[i].Load())
		buckets[float64(int64(1)<<(firstBucketShift+i))/nanosInASecond] = count
	}
	count += uint64(l.buckets[latencyBuckets].Load())
	return prometheus.MustNewConstHistogram(d, count, float64(l.nanos.Load())/nanosInASecond, buckets)
}

// leaving notes the latencies of calls that leave the ring.
func (m *metrics) leaving(c *conn) {
	now := clock.Nanos()
	for call := c.send.calls; call != nil; call = call.Slot.Next {
		m.took(call.Key, now-call.Slot.Began)
	}
}
