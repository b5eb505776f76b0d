package api

import (
	"fmt"

	"github.com/tidemark/tidemark/broker/internal/partition"
	"github.com/tidemark/tidemark/core/compress"
	"github.com/tidemark/tidemark/core/kafka"
	"github.com/tidemark/tidemark/core/record"
)

// recode builds a validated batch anew with the codec that its topic wants (compression.type other than producer).
func (h *Handlers) recode(b record.Batch, cfg *partition.Config) (record.Batch, error) {
	it, err := b.Records(h.codecs, cfg.MaxDecompressed)
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
