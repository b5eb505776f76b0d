package partition

import (
	"github.com/tidemark/tidemark/core/kafka"
	"github.com/tidemark/tidemark/core/record"
)

// Direct reads and writes a partition from within the broker, without a client's request: a coordinator's way to its
// topic.
type Direct struct{ *Partition }

// Direct gives the partition to a coordinator.
func (p *Partition) Direct() Direct { return Direct{p} }

// Append writes one record batch (base offset 0, trusted) with acks=all. done is called exactly once, from any goroutine
// and possibly before Append returns, when the high watermark has passed the batch or the append has failed. The batch
// is patched in place and belongs to the partition until then.
func (d Direct) Append(batch []byte, done func(kafka.ErrorCode)) {
	b := record.Batch(batch)
	a := &Append{Batch: b, Acks: -1, Info: record.Validated{MaxTimestamp: b.MaxTimestamp()},
		Done: Func(func(a *Append) { done(a.Result.Err) })}
	if !d.Partition.Append(a) {
		done(a.Result.Err)
	}
}

// Read appends to dst whole batches from the one that holds from, up to the log end.
func (d Direct) Read(dst []byte, from kafka.Offset, maxBytes int) ([]byte, error) {
	return d.AppendBatches(dst, from, maxBytes)
}

// MaxBatchBytes is the topic's max.message.bytes.
func (d Direct) MaxBatchBytes() int { return d.Config().MaxMessageBytes }
