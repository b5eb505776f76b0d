package record

import (
	"errors"
	"fmt"

	"github.com/tidemark/tidemark/core/compress"
	"github.com/tidemark/tidemark/core/kafka"
)

// Policy is what a topic and a request ask of a batch.
type Policy struct {
	// Codecs lends the decoders; nil makes new ones.
	Codecs *compress.Codecs
	// MaxBatchBytes is max.message.bytes; below 0: no bound.
	MaxBatchBytes int
	// MaxDecompressedBytes bounds the work that a compressed batch can cause; 0 means DefaultMaxDecompressedBytes.
	MaxDecompressedBytes int
	// MaxRecordBytes is max.decompressed.message.bytes: the most that one record of a compressed batch may have; 0 means no bound.
	MaxRecordBytes int
	// TimestampType is message.timestamp.type.
	TimestampType TimestampType
	// RequireKeys is set for compacted topics.
	RequireKeys bool
	// AllowZstd is set from Produce version 7 on.
	AllowZstd bool
	// NowMS is the broker's time; BeforeMaxMS and AfterMaxMS are message.timestamp.before.max.ms and .after.max.ms.
	NowMS, BeforeMaxMS, AfterMaxMS int64
}

// DefaultMaxDecompressedBytes bounds the decompressed size of a batch where a policy names none.
const DefaultMaxDecompressedBytes = 256 << 20

// Validated is what Validate learned about a batch, all of it checked.
type Validated struct {
	Records        int32
	MaxTimestamp   int64 // milliseconds, or NoTimestamp
	MaxTimestampAt int32 // offset delta of the first record with MaxTimestamp; 0 without one
	ProducerID     kafka.ProducerID
	ProducerEpoch  kafka.ProducerEpoch
	BaseSequence   int32
	LastSequence   int32
	Transactional  bool
	Codec          compress.Codec
}

// Validate checks what a client sent as the records of one partition, as far as Kafka's LogValidator does (BROKER 1):
// exactly one batch of magic 2 with base offset 0, its CRC, no control bit, records that fill it exactly, count up from
// 0 and are as many as the header says, their keys and times. Compressed records pass through a bounded decoder that
// skips keys and values.
//
// It then sets the max timestamp to the largest that it saw and the time type to the topic's (with LogAppendTime to
// NowMS), in place, and computes a new CRC if either changed. b is otherwise untouched, and wholly so after an error.
// An uncompressed batch costs no allocation.
//
// An error is a kafka.ErrorCode for errors.As, with a text for the response: CORRUPT_MESSAGE for the CRC,
// INVALID_TIMESTAMP, UNSUPPORTED_COMPRESSION_TYPE for zstd where it is not allowed, MESSAGE_TOO_LARGE above
// MaxBatchBytes, INVALID_RECORD for the rest. It is a *RecordError too when a key, a time or a size is wrong.
func Validate(b []byte, p Policy) (Validated, error) {
	batch, err := single(b, p.MaxBatchBytes)
	if err != nil {
		return Validated{}, err
	}
	w := newWalk(batch, &p)
	n, codec := batch.NumRecords(), batch.Codec()
	var crc uint32
	if codec == compress.None {
		crc, err = w.plain(batch, n) // the error waits: what the CRC or the header says goes first
	} else {
		crc = batch.ComputeCRC()
	}
	if err := checkHeader(batch, crc, &p); err != nil {
		return Validated{}, err
	}
	if codec != compress.None {
		err = w.compressed(batch, n, &p)
	}
	if err != nil {
		return Validated{}, err
	}
	if p.TimestampType == LogAppendTime {
		w.maxTimestamp, w.maxTimestampAt = p.NowMS, 0
	}
	if batch.TimestampType() != p.TimestampType || batch.MaxTimestamp() != w.maxTimestamp {
		batch.SetMaxTimestamp(p.TimestampType, w.maxTimestamp)
	}
	return Validated{
		Records: n, MaxTimestamp: w.maxTimestamp, MaxTimestampAt: w.maxTimestampAt,
		ProducerID: batch.ProducerID(), ProducerEpoch: batch.ProducerEpoch(),
		BaseSequence: batch.BaseSequence(), LastSequence: batch.LastSequence(),
		Transactional: batch.IsTransactional(), Codec: codec,
	}, nil
}

// single is the one batch that b must be, of at most maxBytes (below 0: no bound).
func single(b []byte, maxBytes int) (Batch, error) {
	if len(b) > posMagic && b[posMagic] != Magic {
		return nil, invalid("message format %d is not supported: send record batches of format 2", int8(b[posMagic]))
	}
	batch, rest, err := Next(b)
	if err != nil {
		return nil, invalid("%d bytes are no whole record batch: %w", len(b), err)
	}
	if len(rest) > 0 {
		return nil, invalid("%d bytes follow the record batch: send exactly one batch for a partition", len(rest))
	}
	if maxBytes >= 0 && len(b) > maxBytes {
		return nil, fmt.Errorf("%w: the record batch has %d bytes, the topic takes %d (max.message.bytes)",
			kafka.MessageTooLarge, len(b), maxBytes)
	}
	return batch, nil
}

// checkHeader checks all that stands before the records; crc is what the batch's CRC should be.
func checkHeader(b Batch, crc uint32, p *Policy) error {
	if want := b.CRC(); crc != want {
		return fmt.Errorf("%w: the record batch's CRC is %08x, its header says %08x", kafka.CorruptMessage, crc, want)
	}
	n, codec := b.NumRecords(), b.Codec()
	switch {
	case b.BaseOffset() != 0:
		return invalid("base offset is %d: a producer sends 0", b.BaseOffset())
	case b.IsControl():
		return invalid("clients may not write control records")
	case n <= 0 || b.LastOffsetDelta() != n-1:
		return invalid("%d records with last offset delta %d: there must be one for each offset", n, b.LastOffsetDelta())
	case !codec.Valid():
		return invalid("unknown compression codec %d", codec)
	case codec == compress.Zstd && !p.AllowZstd:
		return fmt.Errorf("%w: zstd needs Produce version 7 or later", kafka.UnsupportedCompressionType)
	case b.IsTransactional() && b.ProducerID() < 0:
		return invalid("a transactional batch needs a producer id")
	case b.BaseSequence() < 0 && b.ProducerID() >= 0:
		return invalid("base sequence is %d: a batch with a producer id (%d) counts from 0", b.BaseSequence(), b.ProducerID())
	case p.TimestampType == LogAppendTime && b.TimestampType() == LogAppendTime:
		return fmt.Errorf("%w: the time type LogAppendTime is the broker's to set", kafka.InvalidTimestamp)
	}
	return nil
}

// compressed walks n records behind the batch's codec.
func (w *walk) compressed(b Batch, n int32, p *Policy) error {
	limit := p.MaxDecompressedBytes
	if limit <= 0 {
		limit = DefaultMaxDecompressedBytes
	}
	r, err := p.Codecs.NewReader(b.Codec(), b[HeaderBytes:], limit)
	if err != nil {
		return invalid("the records cannot be decompressed: %w", err)
	}
	defer r.Close()
	s := cursor{r: r}
	for k := range n {
		err := w.streamed(&s, k)
		if errors.Is(s.err, compress.ErrTooLarge) {
			return invalid("record %d: the records have more than %d bytes once decompressed: send fewer in a batch: %w", k, limit, s.err)
		}
		if s.err != nil {
			return errDecompress(k, s.err)
		}
		if err != nil {
			return err
		}
	}
	return s.finish()
}

func errDecompress(k int32, err error) error {
	return invalid("record %d: the records cannot be decompressed: %w", k, err)
}
