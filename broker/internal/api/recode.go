package api

import (
	"errors"
	"fmt"
	"math"

	"github.com/tidemark/tidemark/broker/internal/partition"
	"github.com/tidemark/tidemark/core/commitlog"
	"github.com/tidemark/tidemark/core/compress"
	"github.com/tidemark/tidemark/core/kafka"
	"github.com/tidemark/tidemark/core/record"
)

const (
	// usualRatio is by how much a codec makes records smaller, usually and at most. A batch that holds more is begun again, with
	// twice the memory.
	usualRatio = 8
	// recodeCopies is how often a recode holds the records: decompressed, in the builder, and compressed anew.
	recodeCopies = 3
)

// densest is by how much a codec can make records smaller, rounded up: more than that times max.message.bytes will surely not
// fit. Zstandard has no such bound.
func densest(c compress.Codec) int {
	switch c {
	case compress.None:
		return 1
	case compress.Snappy:
		return 32
	case compress.Lz4:
		return 256
	case compress.Gzip:
		return 1040
	}
	return math.MaxInt32
}

// mostOpened is how many bytes a topic's batches may have once decompressed: what compaction cannot open would stop it for good.
func mostOpened(cfg *partition.Config) int {
	if cfg.Compacted {
		return commitlog.MaxOpenedBatch
	}
	return math.MaxInt32
}

// recode builds a validated batch anew with the codec that its topic wants (compression.type other than producer). What that
// takes while it lasts comes from queued.max.request.bytes. When memory is scarce batches of the usual ratio are recoded all the
// same, one at a time. One that takes more than half of all memory is refused.
func (h *Handlers) recode(c *Call, b record.Batch, cfg *partition.Config) (record.Batch, error) {
	most := mostOpened(cfg)
	sure := most // above it the batch is too large for the topic whatever the codec does
	if cfg.MaxMessageBytes >= 0 {
		sure = int(min(int64(most), int64(cfg.MaxMessageBytes)*int64(densest(compress.Codec(cfg.Codec)))))
	}
	limit := len(b)
	if b.Codec() != compress.None {
		limit = min(usualRatio*len(b), sure)
	}
	for first := true; ; first = false {
		held := int64(limit) * recodeCopies
		if !first && held > h.Config.QueuedMaxRequestBytes/2 {
			return nil, fmt.Errorf("%w: to compress its records anew with %s takes %d bytes, more than half of queued.max.request.bytes, %d",
				kafka.MessageTooLarge, compress.Codec(cfg.Codec), held, h.Config.QueuedMaxRequestBytes)
		}
		shared := c.Conn.Share(c, held)
		if !shared && !first {
			return nil, fmt.Errorf("%w: no memory now to compress the records anew with %s (queued.max.request.bytes)",
				kafka.RequestTimedOut, compress.Codec(cfg.Codec))
		}
		out, err := h.recodeWithin(b, cfg, limit, !shared)
		if shared {
			c.Conn.Share(c, int64(len(out))-held) // what comes out stays until the answer
		}
		switch {
		case errors.Is(err, compress.ErrTooLarge) && limit < sure:
			limit = int(min(int64(limit)*2, int64(sure)))
			continue
		case errors.Is(err, compress.ErrTooLarge), err == nil && cfg.MaxMessageBytes >= 0 && len(out) > cfg.MaxMessageBytes:
			return nil, fmt.Errorf("%w: the record batch has more than the %d bytes that the topic takes (max.message.bytes) once it is compressed with %s",
				kafka.MessageTooLarge, cfg.MaxMessageBytes, compress.Codec(cfg.Codec))
		}
		return out, err
	}
}

// recodeWithin is recode for records of limit bytes at most, else compress.ErrTooLarge. alone makes others that are alone wait.
func (h *Handlers) recodeWithin(b record.Batch, cfg *partition.Config, limit int, alone bool) (record.Batch, error) {
	if alone {
		h.oneRecode.Lock()
		defer h.oneRecode.Unlock()
	}
	it, err := b.Records(h.codecs, limit)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", kafka.CorruptMessage, err)
	}
	keep := b.Attributes() & (record.LogAppendTimeBit | record.TransactionalBit)
	nb := record.NewBuilder(h.codecs, compress.Codec(cfg.Codec), cfg.Level)
	nb.Reset(b.BaseTimestamp(), b.ProducerID(), b.ProducerEpoch(), b.BaseSequence(), keep)
	for it.Next() {
		r := it.Record()
		nb.Append(b.BaseTimestamp()+r.TimestampDelta, r.Key, r.Value, r.Headers...)
	}
	if err := it.Err(); err != nil {
		return nil, fmt.Errorf("%w: %w", kafka.CorruptMessage, err)
	}
	out, err := nb.Finish(nil)
	if err != nil {
		return nil, fmt.Errorf("%w: compress with %s: %w", kafka.UnknownServerError, compress.Codec(cfg.Codec), err)
	}
	if keep&record.LogAppendTimeBit != 0 {
		record.Batch(out).SetMaxTimestamp(record.LogAppendTime, b.MaxTimestamp())
	}
	return out, nil
}
