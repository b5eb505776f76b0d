package record

import (
	"errors"

	"github.com/tidemark/tidemark/core/compress"
	"github.com/tidemark/tidemark/core/kafka"
)

// Policy is what a topic and a request ask of a batch.
type Policy struct {
	// Codecs lends the decoders; nil makes new ones.
	Codecs *compress.Codecs
	// MaxBatchBytes is max.message.bytes; 0 means no bound.
	MaxBatchBytes int
	// MaxDecompressedBytes bounds the work that a compressed batch can cause; 0 means DefaultMaxDecompressedBytes.
	MaxDecompressedBytes int
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
	MaxTimestampAt int32 // offset delta of the first record with MaxTimestamp
	ProducerID     kafka.ProducerID
	ProducerEpoch  kafka.ProducerEpoch
	BaseSequence   int32
	LastSequence   int32
	Transactional  bool
	Codec          compress.Codec
}

// Validate checks what a client sent as the records of one partition, by BROKER 1, and patches its max timestamp and
// time type in place.
func Validate(b []byte, p Policy) (Validated, error) { return Validated{}, errors.ErrUnsupported }
