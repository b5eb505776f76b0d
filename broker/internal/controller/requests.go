package controller

import (
	"context"
	"sync"

	"github.com/tidemark/tidemark/broker/internal/metadata"
	"github.com/tidemark/tidemark/core/kafka"
)

// RegisterBroker registers this node with a new broker epoch and gives every partition that it leads a new leader
// epoch, in one commit (BROKER 7). To be called once at each start, before the first append; with it the subscribers
// get their first image.
func (c *Controller) RegisterBroker(ctx context.Context, b metadata.Broker) (brokerEpoch int64, err error) {
	var epoch int64
	if _, err := c.submitFreeing(ctx, func(d *decision) { epoch = decideRegister(d, b) }); err != nil {
		return -1, err
	}
	return epoch, nil
}

// submitter is submit or submitFreeing.
type submitter func(context.Context, func(*decision)) (*metadata.Image, error)

// topics submits a request about topics. Results are read only when the closure has ended for sure.
func (c *Controller) topics(ctx context.Context, submit submitter, names []string, validateOnly bool, decide func(*decision) []TopicResult) []TopicResult {
	var out []TopicResult
	_, err := submit(ctx, func(d *decision) {
		if validateOnly {
			d = d.scratch()
		}
		out = decide(d)
	})
	if err == nil {
		return out
	}
	failed := make([]TopicResult, len(names))
	for i, name := range names {
		failed[i] = TopicResult{Name: name, Err: codeOf(err), Text: err.Error()}
	}
	return failed
}

// CreateTopics creates topics, each on its own: one's failure leaves the others. validateOnly commits nothing. The
// results stand in the order of the topics.
func (c *Controller) CreateTopics(ctx context.Context, topics []NewTopic, validateOnly bool) []TopicResult {
	names := make([]string, len(topics))
	for i := range topics {
		names[i] = topics[i].Name
	}
	return c.topics(ctx, c.submit, names, validateOnly, func(d *decision) []TopicResult { return decideCreate(d, topics) })
}

// CreateOffsetsTopic creates __consumer_offsets with its own settings, unless it exists.
func (c *Controller) CreateOffsetsTopic(ctx context.Context) TopicResult {
	return c.topics(ctx, c.submit, []string{kafka.OffsetsTopic}, false, func(d *decision) []TopicResult {
		return []TopicResult{decideCreateOffsets(d)}
	})[0]
}

// DeleteTopics deletes topics, each on its own.
func (c *Controller) DeleteTopics(ctx context.Context, topics []TopicRef) []TopicResult {
	names := make([]string, len(topics))
	for i := range topics {
		names[i] = topics[i].Name
	}
	return c.topics(ctx, c.submitFreeing, names, false, func(d *decision) []TopicResult { return decideDelete(d, topics) })
}

// CreatePartitions adds partitions, topic by topic.
func (c *Controller) CreatePartitions(ctx context.Context, topics []MorePartitions, validateOnly bool) []TopicResult {
	names := make([]string, len(topics))
	for i := range topics {
		names[i] = topics[i].Name
	}
	return c.topics(ctx, c.submit, names, validateOnly, func(d *decision) []TopicResult { return decideMorePartitions(d, topics) })
}

// AllocateProducerIDs reserves a block of producer ids that nobody was ever given.
func (c *Controller) AllocateProducerIDs(ctx context.Context) (first kafka.ProducerID, n int, err error) {
	var got kafka.ProducerID
	if _, err := c.submit(ctx, func(d *decision) { got = decideProducerIDs(d, kafka.BrokerID(c.o.Config.NodeID)) }); err != nil {
		return kafka.NoProducerID, 0, err
	}
	return got, producerIDBlock, nil
}

// idBlock is what is left of this broker's block of producer ids.
type idBlock struct {
	mu struct {
		sync.Mutex
		next, end kafka.ProducerID
		refill    chan struct{} // closed when a new block is there or has failed; nil while nobody asks for one
	}
}

// TryProducerID gives one producer id if this broker's block has one left. It never blocks.
func (c *Controller) TryProducerID() (kafka.ProducerID, bool) {
	b := &c.ids.mu
	b.Lock()
	defer b.Unlock()
	if b.next == b.end {
		return kafka.NoProducerID, false
	}
	b.next++
	return b.next - 1, true
}

// NextProducerID gives one producer id out of this broker's block. Who finds it used up takes a new one for all who
// wait; the lock is not held meanwhile.
func (c *Controller) NextProducerID(ctx context.Context) (kafka.ProducerID, error) {
	for {
		if id, ok := c.TryProducerID(); ok {
			return id, nil
		}
		b := &c.ids.mu
		b.Lock()
		if b.next < b.end { // another has filled it meanwhile
			b.Unlock()
			continue
		}
		if wait := b.refill; wait != nil {
			b.Unlock()
			select {
			case <-wait:
			case <-ctx.Done():
				return kafka.NoProducerID, kafka.RequestTimedOut
			}
			continue
		}
		done := make(chan struct{})
		b.refill = done
		b.Unlock()

		first, n, err := c.AllocateProducerIDs(ctx)
		b.Lock()
		if err == nil {
			b.next, b.end = first, first+kafka.ProducerID(n)
		}
		b.refill = nil
		b.Unlock()
		close(done)
		if err != nil {
			return kafka.NoProducerID, err
		}
	}
}
