package api

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/tidemark/tidemark/broker/internal/controller"
	"github.com/tidemark/tidemark/broker/internal/partition"
	"github.com/tidemark/tidemark/core/clock"
	"github.com/tidemark/tidemark/core/kafka"
	"github.com/tidemark/tidemark/core/record"
	"github.com/tidemark/tidemark/core/wire"
)

// zstdSince is the first version of Produce that may carry zstd (KIP-110).
const zstdSince = 7

// adminClientID is the client id under which Kafka's own tools may write to internal topics. Anybody else's records there would
// be read as the broker's: as a group's offsets, its members, its end.
const adminClientID = "__admin_client"

// produceCall is a Produce request being served. It is pooled: a steady state allocates nothing.
type produceCall struct {
	h       *Handlers
	call    *Call
	req     wire.ProduceRequest
	results []wire.ProduceResult
	parts   []producePart
	left    atomic.Int32 // appends not done, and one for the handler itself
}

// producePart is one partition's append; it stands still while the append waits.
type producePart struct {
	partition.Append
	pc *produceCall
	i  int
}

// AppendDone takes the result of an append that had to wait.
func (p *producePart) AppendDone(*partition.Append) {
	pc := p.pc
	pc.result(p)
	pc.done()
}

// produce serves API key 0, versions 3 to 13 (KIP-516 topic ids in 13).
func (h *Handlers) produce(c *Call) {
	pc, _ := h.produces.Get().(*produceCall)
	if pc == nil {
		pc = &produceCall{h: h}
	}
	pc.call = c
	if err := pc.req.Parse(c.Body, c.Version); err != nil {
		h.recycleProduce(pc)
		c.Abort(fmt.Sprintf("Produce version %d: %v", c.Version, err))
		return
	}
	if !c.afford(len(pc.req.Topics) + len(pc.req.Partitions)) {
		h.recycleProduce(pc)
		return
	}
	pc.prepare(len(pc.req.Partitions))
	policy := record.Policy{Codecs: h.codecs, AllowZstd: c.Version >= zstdSince, NowMS: h.NowMS()}
	for t := range pc.req.Topics {
		topic := &pc.req.Topics[t]
		for i := topic.First; i < topic.End; i++ {
			pc.append(topic, i, &policy)
		}
	}
	pc.done()
}

// prepare makes room for n partitions.
func (pc *produceCall) prepare(n int) {
	pc.left.Store(1)
	if cap(pc.results) < n {
		pc.results = make([]wire.ProduceResult, n)
		pc.parts = make([]producePart, n)
	}
	pc.results, pc.parts = pc.results[:n], pc.parts[:n]
}

// append validates and appends what goes to one partition.
func (pc *produceCall) append(topic *wire.ProduceTopic, i int, policy *record.Policy) {
	h, c := pc.h, pc.call
	in := &pc.req.Partitions[i]
	if pc.req.Acks < -1 || pc.req.Acks > 1 {
		pc.fail(i, kafka.InvalidRequiredAcks, "acks must be -1, 0 or 1")
		return
	}
	p, code := pc.partition(topic, in.Partition)
	if code != kafka.None {
		pc.fail(i, code, "")
		return
	}
	if controller.InternalTopic(p.Topic()) && c.ClientID != adminClientID {
		pc.fail(i, kafka.InvalidTopicException, "Cannot append to internal topic "+p.Topic())
		return
	}
	cfg := p.Config()
	policy.MaxBatchBytes, policy.MaxRecordBytes, policy.RequireKeys = cfg.MaxMessageBytes, cfg.MaxDecompressed, cfg.Compacted
	policy.MaxDecompressedBytes = mostOpened(cfg)
	policy.BeforeMaxMS, policy.AfterMaxMS, policy.TimestampType = cfg.BeforeMaxMS, cfg.AfterMaxMS, record.CreateTime
	if cfg.LogAppendTime {
		policy.TimestampType = record.LogAppendTime
	}
	info, err := record.Validate(in.Records, *policy)
	if err != nil {
		pc.refuse(i, err)
		return
	}
	if info.Transactional { // nobody would ever end it, and read_committed would wait behind it for good
		pc.fail(i, kafka.TransactionalIdAuthorizationFailed, noTransactions)
		return
	}
	a := &pc.parts[i]
	a.pc, a.i = pc, i
	a.Batch, a.Buf, a.Info, a.Acks, a.Done = record.Batch(in.Records), c.Frame, info, pc.req.Acks, a
	if cfg.Codec >= 0 && cfg.Codec != int8(info.Codec) {
		if a.Batch, err = h.recode(c, a.Batch, cfg); err != nil {
			pc.fail(i, codeOf(err), err.Error())
			return
		}
		a.Buf = nil
	}
	if most := cfg.Log.SegmentBytes; int64(len(a.Batch)) > most {
		pc.fail(i, kafka.RecordListTooLarge, fmt.Sprintf("the record batch has %d bytes, a segment of the topic %d (segment.bytes)", len(a.Batch), most))
		return
	}
	pc.left.Add(1)
	if c.More && len(pc.parts) == 1 {
		p.Enqueue(&a.Append)
		c.leave(p)
		return
	}
	h.settleBut(c.Client, p)
	if !p.Append(&a.Append) {
		pc.result(a)
		pc.left.Add(-1)
	}
}

// minOpenNanos is how long a log may always take to be opened.
const minOpenNanos = int64(time.Second)

// partition finds a partition. Its first use opens its log, which takes as long as its disk does not answer: by then the producer may
// have given up and sent the same again, so what has waited for longer than the request's timeout.ms is not appended.
func (pc *produceCall) partition(topic *wire.ProduceTopic, n kafka.Partition) (p *partition.Partition, code kafka.ErrorCode) {
	set, byID := pc.h.Replicas, pc.call.Version >= 13
	if len(topic.Name) > kafka.MaxTopicNameLength {
		return nil, kafka.UnknownTopicOrPartition // not to be looked up for each partition
	}
	if byID {
		p, code = set.Opened(topic.ID, n)
	} else {
		p, code = set.OpenedByName(topic.Name, n)
	}
	if p != nil || code != kafka.None {
		return p, code
	}
	pc.h.Settle(pc.call.Client)
	began := clock.Nanos()
	if byID {
		p, code = set.Get(topic.ID, n)
	} else {
		p, code = set.ByName(topic.Name, n)
	}
	if code == kafka.None && clock.Nanos()-began > max(int64(pc.req.TimeoutMS)*int64(time.Millisecond), minOpenNanos) {
		return nil, kafka.KafkaStorageError
	}
	return p, code
}

// leave notes that a partition holds an append which the connection has to see written. A partition may be noted twice.
func (c *Client) leave(p *partition.Partition) {
	if n := len(c.left); n == 0 || c.left[n-1] != p {
		c.left = append(c.left, p)
	}
}

// result notes how one append ended.
func (pc *produceCall) result(a *producePart) {
	r := &a.Result
	pc.results[a.i] = wire.ProduceResult{Err: r.Err, Base: r.Base, LogAppendTime: r.LogAppendTime, LogStart: r.LogStart, Text: r.Text}
}

func (pc *produceCall) fail(i int, code kafka.ErrorCode, text string) {
	pc.results[i] = wire.ProduceResult{Err: code, Base: kafka.NoOffset, LogAppendTime: -1, LogStart: kafka.NoOffset, Text: text}
}

// refuse fails what record.Validate has found wrong, with the record that is to blame.
func (pc *produceCall) refuse(i int, err error) {
	pc.fail(i, codeOf(err), err.Error())
	if bad, ok := errors.AsType[*record.RecordError](err); ok {
		pc.results[i].HasBadRecord, pc.results[i].BadRecord = true, bad.Index
	}
}

// done answers when nothing is left to wait for.
func (pc *produceCall) done() {
	if pc.left.Add(-1) > 0 {
		return
	}
	h, c := pc.h, pc.call
	if pc.req.Acks == 0 {
		pc.acksZero(c)
		h.recycleProduce(pc)
		return
	}
	b := h.Pool.Get(replyBytes)
	out := wire.AppendResponseHeader(b.B[:0], c.CorrelationID, c.Version >= wire.ProduceFlexible)
	out = wire.AppendProduceResponse(out, c.Version, &pc.req, pc.results, 0)
	h.recycleProduce(pc)
	c.send(b, out)
}

// acksZero ends a request that expects no answer. Closing the connection is the only way to tell its producer of an
// error.
func (pc *produceCall) acksZero(c *Call) {
	for i := range pc.results {
		if err := pc.results[i].Err; err != kafka.None {
			text := fmt.Sprintf("Produce with acks=0 failed: %s", err.Error())
			c.Abort(text)
			return
		}
	}
	c.NoAnswer()
}

func (h *Handlers) recycleProduce(pc *produceCall) {
	pc.req.Reset()
	pc.call = nil
	for i := range pc.parts {
		a := &pc.parts[i]
		a.Batch, a.Buf = nil, nil
	}
	if cap(pc.parts) <= maxPooledParts {
		h.produces.Put(pc)
	}
}

// maxPooledParts bounds what a pooled request keeps: a rare one with many partitions is left to the collector.
const maxPooledParts = 8192

// codeOf finds the protocol's code in an error.
func codeOf(err error) kafka.ErrorCode {
	var code kafka.ErrorCode
	if errors.As(err, &code) {
		return code
	}
	return kafka.UnknownServerError
}
