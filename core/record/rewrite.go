package record

import (
	"encoding/binary"
	"fmt"

	"github.com/tidemark/tidemark/core/compress"
)

// Rewriter takes records out of batches, as compaction does. What identifies a batch stays: base and last offset, leader
// epoch, producer, sequence, flags and codec; so offsets and sequences of what is kept mean what they meant. It belongs
// to one goroutine and reuses its buffers.
type Rewriter struct {
	codecs *compress.Codecs
	batch  Batch
	it     Iterator
	start  int // of the current record in it.b
	spans  []span
	maxTS  int64
	plain  []byte // records that are kept, before compression
}

// span is a run of bytes that are kept.
type span struct{ from, to int }

// NewRewriter makes a Rewriter; codecs may be nil.
func NewRewriter(codecs *compress.Codecs) *Rewriter { return &Rewriter{codecs: codecs} }

// Open begins with a batch, decompressing at most maxBytes. The batch must stay as it is until the Rewriter has done
// with it.
func (w *Rewriter) Open(b Batch, maxBytes int) error {
	w.batch, w.start, w.spans, w.maxTS = b, 0, w.spans[:0], NoTimestamp
	return w.it.Reset(b, w.codecs, maxBytes)
}

// Next moves to the next record and reports whether there is one.
func (w *Rewriter) Next() bool {
	w.start = w.it.pos
	return w.it.Next()
}

// Record is the current record, valid until the next call of Next.
func (w *Rewriter) Record() *Record { return w.it.Record() }

// Err is why Next stopped early, or nil at the batch's end.
func (w *Rewriter) Err() error { return w.it.Err() }

// Keep marks the current record to be kept.
func (w *Rewriter) Keep() {
	w.spans = append(w.spans, span{w.start, w.it.pos})
	w.maxTS = max(w.maxTS, w.batch.BaseTimestamp()+w.it.rec.TimestampDelta)
}

// Kept is how many records have been marked.
func (w *Rewriter) Kept() int { return len(w.spans) }

// Append appends the batch with the marked records alone to dst. With a horizon (not NoTimestamp) the batch gets that
// delete horizon: bit 6 is set and the horizon stands in place of the base timestamp, from which the records' timestamps
// count then (KIP-534).
func (w *Rewriter) Append(dst []byte, horizonMS int64) ([]byte, error) {
	b := w.batch
	attrs, base := b.Attributes(), b.BaseTimestamp()
	w.plain = w.plain[:0]
	if horizonMS == NoTimestamp {
		for _, s := range w.spans {
			w.plain = append(w.plain, w.it.b[s.from:s.to]...)
		}
	} else {
		var r Record
		for _, s := range w.spans {
			if _, ok := r.parse(w.it.b, s.from); !ok {
				return dst, fmt.Errorf("%w: record at %d", ErrCorrupt, s.from)
			}
			w.plain = appendRecord(w.plain, base+r.TimestampDelta-horizonMS, r.OffsetDelta, r.Key, r.Value, r.Headers)
		}
		attrs, base = attrs|DeleteHorizonBit, horizonMS
	}
	start := len(dst)
	dst = append(dst, b[:HeaderBytes]...)
	var err error
	if b.Codec() == compress.None {
		dst = append(dst, w.plain...)
	} else if dst, err = w.codecs.Append(dst, b.Codec(), 0, w.plain); err != nil {
		return dst[:start], err
	}
	maxTS := w.maxTS
	if b.TimestampType() == LogAppendTime {
		maxTS = b.MaxTimestamp()
	}
	Batch(dst[start:]).refit(attrs, base, maxTS, int32(len(w.spans)))
	return dst, nil
}

// AppendEmpty appends a batch's header without any record to dst: it goes on telling of its producer's last sequence
// number and of the offsets that it had. Its codec is none, and it has no delete horizon.
func AppendEmpty(dst []byte, b Batch) []byte {
	start := len(dst)
	dst = append(dst, b[:HeaderBytes]...)
	base := b.BaseTimestamp()
	if b.HasDeleteHorizon() {
		base = b.MaxTimestamp()
	}
	Batch(dst[start:]).refit(b.Attributes()&^(codecMask|DeleteHorizonBit), base, b.MaxTimestamp(), 0)
	return dst
}

// refit writes what changes in a header when records have gone, the CRC last.
func (b Batch) refit(attrs Attributes, baseTimestamp, maxTimestamp int64, n int32) {
	binary.BigEndian.PutUint32(b[posLength:], uint32(len(b)-prefixBytes))
	binary.BigEndian.PutUint16(b[posAttributes:], uint16(attrs))
	binary.BigEndian.PutUint64(b[posBaseTimestamp:], uint64(baseTimestamp))
	binary.BigEndian.PutUint64(b[posMaxTimestamp:], uint64(maxTimestamp))
	binary.BigEndian.PutUint32(b[posNumRecords:], uint32(n))
	b.SealCRC()
}
