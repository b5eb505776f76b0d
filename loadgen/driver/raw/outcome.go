package raw

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tidemark/tidemark/core/clock"
	"github.com/tidemark/tidemark/core/kafka"
	"github.com/tidemark/tidemark/loadgen/driver"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// ended takes a request's outcome: batches succeed, fail or are sent again; then in-flight has room for the next, the
// records' owner is told, and their memory is free.
func (p *Producer) ended(r *produceRequest, nanos int64, err error, throttleNanos int64) {
	now := clock.Nanos()
	p.mu.Lock()
	r.node.inflight--
	if err == nil {
		p.mu.stats.Request(int64(len(r.batches)), r.frame)
		p.mu.stats.ThrottleNanos += throttleNanos
	}
	r.done = r.done[:0]
	refresh := err != nil
	for _, b := range r.batches {
		p.landedLocked(b)
		cause := p.d.cause(b, err)
		switch {
		case cause == nil:
			p.mu.stats.Batch(int64(b.n), int64(b.long()), int64(b.wireBytes()))
			b.err = nil
			b.part.known = true
			r.done = append(r.done, b)
		case p.retriesLocked(b, cause, now):
			refresh = true
			p.mu.stats.Retries++
		default:
			p.gaveUpLocked(b, cause)
			r.done = append(r.done, b)
		}
		if b.part.next(p.d.cfg.Linger == 0 || p.mu.flushing) != nil {
			p.readyLocked(b.part)
		}
	}
	c := p.pumpLocked(r.node)
	renumber := p.startRenumberLocked()
	p.mu.Unlock()
	if c != nil {
		c.flushElsewhere()
	}
	if refresh {
		p.d.refresh()
	}
	if renumber {
		go p.renumber()
	}
	p.tell(r, nanos)
}

// tell calls back for the batches that have ended and frees them and the request.
func (p *Producer) tell(r *produceRequest, nanos int64) {
	if nanos == 0 {
		nanos = clock.Nanos()
	}
	for _, b := range r.done {
		r.ack = driver.Ack{Producer: p.id, Topic: b.part.topic, Partition: int32(b.part.index), BaseOffset: b.base, AckedNanos: nanos,
			Err: b.err, Bytes: b.bytes, Seqs: b.seqs, IntendedNanos: b.intended}
		p.acked(&r.ack)
	}
	p.mu.Lock()
	for _, b := range r.done {
		p.freeBatchLocked(b)
	}
	r.batches = r.batches[:0]
	p.mu.freeReqs = append(p.mu.freeReqs, r)
	p.mu.room.Broadcast()
	if p.mu.records == 0 || p.mu.flushing {
		p.mu.idle.Broadcast()
	}
	p.mu.Unlock()
}

// cause is why a batch did not succeed, nil when it did.
func (d *Driver) cause(b *batch, err error) error {
	switch {
	case b.err != nil:
		return b.err
	case err != nil:
		return err
	case !b.seen:
		return errNoAnswer
	case b.code == kafka.None:
		return nil
	case b.code == kafka.DuplicateSequenceNumber:
		b.base = -1 // written by an earlier attempt, whose answer was lost
		return nil
	case b.text != "":
		return fmt.Errorf("%w: %s", b.code, b.text)
	}
	return b.code
}

// retriesLocked puts a batch back to be sent again, where Kafka's producer would.
func (p *Producer) retriesLocked(b *batch, cause error, now int64) bool {
	cfg := &p.d.cfg
	if p.mu.closed || b.err != nil || b.attempts >= cfg.Retries || now-b.started > int64(cfg.DeliveryTimeout) || errors.Is(cause, errNoAnswer) || !p.againLocked(b) {
		return false
	}
	b.attempts++
	pt := b.part
	pt.putBack(b)
	pt.muted = now + int64(cfg.RetryBackoff)
	p.mu.scanAt = min(p.mu.scanAt, pt.muted)
	return true
}

// againLocked reports whether the answer's error is one that another attempt may mend. An out-of-order sequence is one
// while an earlier batch of the partition waits to be sent again.
func (p *Producer) againLocked(b *batch) bool {
	switch {
	case !b.seen || b.code == kafka.None:
		return true // no answer: the connection broke
	case b.code == kafka.OutOfOrderSequenceNumber && p.d.cfg.Idempotence:
		pt := b.part
		return pt.flying > 0 || pt.queue.len() > 0 && pt.queue.peek().order < b.order
	}
	return b.code.Retriable()
}

// gaveUpLocked marks a batch as failed for good. The numbers of an idempotent producer then have a gap.
func (p *Producer) gaveUpLocked(b *batch, cause error) {
	b.err, b.base = cause, -1
	if p.d.cfg.Idempotence && b.seq >= 0 && !p.mu.closed {
		p.mu.renumber = true
	}
}

func (p *Producer) startRenumberLocked() bool {
	if !p.mu.renumber || p.mu.inflight > 0 || p.mu.renumbers {
		return false
	}
	p.mu.renumbers = true
	return true
}

// renumber gets a new producer id and numbers everything that waits from 0.
func (p *Producer) renumber() {
	for {
		ctx, cancel := context.WithTimeout(context.Background(), p.d.cfg.RequestTimeout)
		pid, epoch, err := p.d.initProducer(ctx)
		cancel()
		p.mu.Lock()
		if p.mu.closed {
			p.mu.Unlock()
			return
		}
		if err == nil {
			p.mu.pid, p.mu.epoch = pid, epoch
			p.mu.renumber, p.mu.renumbers = false, false
			for _, ps := range p.mu.parts {
				for _, pt := range ps {
					pt.nextSeq, pt.known = 0, false
					for _, b := range pt.queue.q[pt.queue.head:] {
						b.seq = -1
					}
					if pt.queue.len() > 0 {
						p.readyLocked(pt)
					}
				}
			}
			p.hurryLocked()
			p.mu.Unlock()
			return
		}
		p.mu.Unlock()
		p.d.event("producer id", err.Error())
		_ = pause(context.Background(), max(p.d.cfg.RetryBackoff, 10*time.Millisecond))
	}
}

// initProducer asks for a producer id.
func (d *Driver) initProducer(ctx context.Context) (kafka.ProducerID, kafka.ProducerEpoch, error) {
	for {
		req := kmsg.NewPtrInitProducerIDRequest()
		req.TransactionTimeoutMillis = 60000
		kresp, err := d.cluster.Ask(ctx, req)
		if err != nil {
			return -1, -1, fmt.Errorf("get a producer id: %w", err)
		}
		resp := kresp.(*kmsg.InitProducerIDResponse)
		code := kafka.ErrorCode(resp.ErrorCode)
		if code == kafka.None {
			return kafka.ProducerID(resp.ProducerID), kafka.ProducerEpoch(resp.ProducerEpoch), nil
		}
		if !code.Retriable() {
			return -1, -1, fmt.Errorf("get a producer id: %w", code)
		}
		if err := pause(ctx, 20*time.Millisecond); err != nil {
			return -1, -1, fmt.Errorf("get a producer id: %w: %w", code, err)
		}
	}
}

// tick does what has no moment of its own: reconnects, expires requests and batches, ends back-offs.
func (p *Producer) tick(now int64) {
	cfg := &p.d.cfg
	var expired []*conn
	lost := false
	p.mu.Lock()
	for _, nd := range p.mu.nodes {
		if nd.conn != nil {
			if nd.conn.failure() != nil {
				nd.conn, lost = nil, true
			} else if nd.conn.expired(now, cfg.RequestTimeout) {
				expired = append(expired, nd.conn)
			}
		}
		if nd.conn == nil && !nd.connecting && now >= nd.retryAt && !p.mu.closed && !p.mu.starting {
			nd.connecting = true
			go p.connect(nd, nd.addr)
		}
	}
	r := &produceRequest{p: p}
	if now >= p.mu.scanAt {
		p.mu.scanAt = now + int64(10*tickEvery)
		for _, ps := range p.mu.parts {
			for _, pt := range ps {
				p.tickPartLocked(pt, now, r)
			}
		}
		for _, nd := range p.mu.nodes {
			if c := p.pumpLocked(nd); c != nil {
				c.flushElsewhere()
			}
		}
	}
	renumber := p.startRenumberLocked()
	p.mu.Unlock()
	for _, c := range expired {
		c.fail(fmt.Errorf("broker %s: no answer within %v: %w", c.addr, cfg.RequestTimeout, kafka.RequestTimedOut))
	}
	if lost || len(expired) > 0 {
		p.d.refresh()
	}
	if renumber {
		go p.renumber()
	}
	if len(r.done) > 0 {
		p.tell(r, now)
	}
}

// tickPartLocked fails the batches that are past the delivery timeout, and wakes a partition whose back-off is over.
func (p *Producer) tickPartLocked(pt *part, now int64, r *produceRequest) {
	late := func(b *batch) bool { return now-b.started > int64(p.d.cfg.DeliveryTimeout) }
	giveUp := func(b *batch) {
		p.gaveUpLocked(b, fmt.Errorf("not acknowledged within the delivery timeout of %v: %w", p.d.cfg.DeliveryTimeout, kafka.RequestTimedOut))
		r.done = append(r.done, b)
	}
	for pt.queue.len() > 0 && late(pt.queue.peek()) {
		giveUp(pt.queue.pop())
	}
	if pt.open != nil && late(pt.open) {
		giveUp(pt.open)
		pt.open = nil
	}
	if pt.queue.len() > 0 && pt.muted <= now {
		p.readyLocked(pt)
	}
	if pt.open != nil && (pt.open.due || p.d.cfg.Linger == 0) {
		p.readyLocked(pt)
	}
}

// connect dials a node; the tick tries again after a failure.
func (p *Producer) connect(nd *node, addr string) {
	ctx, cancel := context.WithTimeout(context.Background(), min(p.d.cfg.RequestTimeout, 10*time.Second))
	c, err := dial(ctx, addr, p.clientID, p.d.cfg.Access)
	cancel()
	p.mu.Lock()
	nd.connecting = false
	if err != nil || p.mu.closed {
		nd.retryAt = clock.Nanos() + int64(max(p.d.cfg.RetryBackoff, 10*time.Millisecond))
		p.mu.Unlock()
		if c != nil {
			c.fail(errClosed)
		}
		return
	}
	nd.conn = c
	if f := p.pumpLocked(nd); f != nil {
		f.flushElsewhere()
	}
	p.mu.Unlock()
	p.d.event("connected", "producer to broker "+addr)
}
