package sink

import (
	"slices"
	"sort"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/core/clock"
	"github.com/tidemark/tidemark/core/kafka"
)

// fetch answers from the rings. Batches that consumers may have only later (Script.FetchDelay) decide when the answer is
// due, so that they arrive then and not at the next poll: delivery is late by exactly the delay.
func (c *conn) fetch(s *scripted, now int64, r *kmsg.FetchRequest) (kmsg.Response, int64) {
	k := c.sink
	k.stats.fetches.Add(1)
	if c.flush() != nil { // it may wait
		return nil, now
	}
	deadline := now + int64(min(time.Duration(r.MaxWaitMillis)*time.Millisecond, maxFetchWait))
	wake := make(chan struct{}, 1)
	defer k.forget(r, wake)
	for {
		horizon := clock.Nanos()
		resp, got, next := k.collect(s, r, horizon, wake)
		due := int64(0)
		if got == 0 && next > 0 && next < deadline {
			horizon, due = next, next
			resp, got, _ = k.collect(s, r, horizon, wake)
		}
		now = clock.Nanos()
		if end := s.frozenUntil(now); end > now {
			k.sleepUntil(end)
			continue
		}
		if got >= int(r.MinBytes) && got > 0 || r.MinBytes <= 0 || got < 0 || now >= deadline {
			resp.ThrottleMillis = int32(s.Throttle.Milliseconds())
			return resp, s.frozenUntil(max(due, now))
		}
		timer := time.NewTimer(time.Duration(deadline - now))
		select {
		case <-wake:
		case <-timer.C:
		case <-k.done:
			timer.Stop()
			return nil, now
		}
		timer.Stop()
		s = k.script.Load()
	}
}

// forget takes a fetch's wake off the partitions on which it waited.
func (k *Sink) forget(r *kmsg.FetchRequest, wake chan struct{}) {
	for _, asked := range r.Topics {
		t := k.topics.find([]byte(asked.Topic), asked.TopicID)
		for _, ap := range asked.Partitions {
			if part := t.part(ap.Partition); part != nil {
				part.mu.Lock()
				part.mu.waiting = slices.DeleteFunc(part.mu.waiting, func(w chan struct{}) bool { return w == wake })
				part.mu.Unlock()
			}
		}
	}
}

// collect gathers what is visible at the horizon. got is its bytes, or -1 where a partition answers with an error at once;
// next is when the first batch beyond the horizon becomes visible, 0 for none. wake is signalled by the next batch of any
// partition that had nothing.
func (k *Sink) collect(s *scripted, r *kmsg.FetchRequest, horizon int64, wake chan struct{}) (resp *kmsg.FetchResponse, got int, next int64) {
	resp = kmsg.NewPtrFetchResponse()
	failed := false
	for _, asked := range r.Topics {
		row := kmsg.NewFetchResponseTopic()
		row.Topic, row.TopicID = asked.Topic, asked.TopicID
		t := k.topics.find([]byte(asked.Topic), asked.TopicID)
		for _, ap := range asked.Partitions {
			p := kmsg.NewFetchResponseTopicPartition()
			p.Partition = ap.Partition
			p.PreferredReadReplica = -1
			part := t.part(ap.Partition)
			if part == nil {
				failed = true
				if p.ErrorCode = int16(kafka.UnknownTopicOrPartition); asked.Topic == "" {
					p.ErrorCode = int16(kafka.UnknownTopicId)
				}
				row.Partitions = append(row.Partitions, p)
				continue
			}
			limit := min(int(ap.PartitionMaxBytes), int(r.MaxBytes)-got)
			code, later := part.read(kafka.Offset(ap.FetchOffset), limit, got == 0, horizon, &p, wake)
			if code != kafka.None {
				p.ErrorCode, failed = int16(code), true
			}
			if later > 0 && (next == 0 || later < next) {
				next = later
			}
			got += len(p.RecordBatches)
			row.Partitions = append(row.Partitions, p)
		}
		resp.Topics = append(resp.Topics, row)
	}
	if failed {
		got = -1
	}
	return resp, got, next
}

// read takes batches from the one that holds an offset on, as far as they are visible at the horizon, and leaves wake where
// there is none. later is when the next one becomes visible, 0 for none.
func (p *part) read(from kafka.Offset, limit int, atLeastOne bool, horizon int64,
	into *kmsg.FetchResponseTopicPartition, wake chan struct{}) (code kafka.ErrorCode, later int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	start, end := p.startLocked(), p.mu.end
	into.HighWatermark, into.LastStableOffset, into.LogStartOffset = int64(end), int64(end), int64(start)
	if from < start || from > end {
		return kafka.OffsetOutOfRange, 0
	}
	ring := p.mu.ring
	low := sort.Search(len(ring), func(i int) bool { return ring[i].end > from })
	total, high := 0, low
	for ; high < len(ring); high++ {
		b := &ring[high]
		if b.visible > horizon {
			later = b.visible
			break
		}
		if total+len(b.batch) > limit && (total > 0 || !atLeastOne) {
			break
		}
		total += len(b.batch)
	}
	switch high - low {
	case 0:
		into.RecordBatches = []byte{}
	case 1:
		into.RecordBatches = ring[low].batch // never changed once it is in the ring
	default:
		into.RecordBatches = make([]byte, 0, total)
		for _, b := range ring[low:high] {
			into.RecordBatches = append(into.RecordBatches, b.batch...)
		}
	}
	if len(into.RecordBatches) == 0 && len(p.mu.waiting) < maxWaiting {
		p.mu.waiting = append(p.mu.waiting, wake)
	}
	return kafka.None, later
}

// maxWaiting bounds the fetches that wait for one partition; a fetch beyond it waits for its deadline.
const maxWaiting = 1 << 12
