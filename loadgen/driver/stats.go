package driver

import (
	"github.com/HdrHistogram/hdrhistogram-go"
)

// Stats is what a client counted about its own doings. The zero value is ready.
type Stats struct {
	Records           int64 // sent in batches, or fetched
	Batches           int64
	BatchBytes        int64 // record bytes in batches, before compression
	WireBytes         int64 // the same as they went over the wire, batch headers included
	Requests          int64 // produce or fetch requests
	RequestBytes      int64 // whole frames
	Retries           int64 // batches sent again (kgo: requests that had no answer; what it sends again after one it does not tell)
	EmptyFetches      int64 // fetch answers without records
	Commits           int64
	CommitErrors      int64
	Reconnections     int64
	Rebalances        int64
	RebalanceNanos    int64 // time without an assignment because of them
	ThrottleNanos     int64 // throttle_time_ms as the answers told it
	RecordsPerBatch   Dist
	BytesPerBatch     Dist // wire bytes
	BatchesPerRequest Dist
	BytesPerRequest   Dist
}

// Add adds o's counts to s.
func (s *Stats) Add(o *Stats) {
	s.Records += o.Records
	s.Batches += o.Batches
	s.BatchBytes += o.BatchBytes
	s.WireBytes += o.WireBytes
	s.Requests += o.Requests
	s.RequestBytes += o.RequestBytes
	s.Retries += o.Retries
	s.EmptyFetches += o.EmptyFetches
	s.Commits += o.Commits
	s.CommitErrors += o.CommitErrors
	s.Reconnections += o.Reconnections
	s.Rebalances += o.Rebalances
	s.RebalanceNanos += o.RebalanceNanos
	s.ThrottleNanos += o.ThrottleNanos
	s.RecordsPerBatch.Add(&o.RecordsPerBatch)
	s.BytesPerBatch.Add(&o.BytesPerBatch)
	s.BatchesPerRequest.Add(&o.BatchesPerRequest)
	s.BytesPerRequest.Add(&o.BytesPerRequest)
}

// Batch counts one batch that was sent or received.
func (s *Stats) Batch(records, bytes, wireBytes int64) {
	s.Batches++
	s.Records += records
	s.BatchBytes += bytes
	s.WireBytes += wireBytes
	s.RecordsPerBatch.Record(records)
	s.BytesPerBatch.Record(wireBytes)
}

// Request counts one request.
func (s *Stats) Request(batches, frameBytes int64) {
	s.Requests++
	s.RequestBytes += frameBytes
	s.BatchesPerRequest.Record(batches)
	s.BytesPerRequest.Record(frameBytes)
}

// Dist is a distribution of counts with two digits of precision. The zero value is ready and costs no memory.
type Dist struct {
	h *hdrhistogram.Histogram
}

const distMax = 1 << 40

// Record counts one observation.
func (d *Dist) Record(v int64) {
	if d.h == nil {
		d.h = hdrhistogram.New(1, distMax, 2)
	}
	_ = d.h.RecordValue(min(max(v, 0), distMax))
}

// Add adds o's observations.
func (d *Dist) Add(o *Dist) {
	if o.h == nil {
		return
	}
	if d.h == nil {
		d.h = hdrhistogram.New(1, distMax, 2)
	}
	d.h.Merge(o.h)
}

// Median is the middle observation, 0 where there is none.
func (d *Dist) Median() int64 {
	if d.h == nil {
		return 0
	}
	return d.h.ValueAtQuantile(50)
}

// Max is the largest observation, 0 where there is none.
func (d *Dist) Max() int64 {
	if d.h == nil {
		return 0
	}
	return d.h.Max()
}
