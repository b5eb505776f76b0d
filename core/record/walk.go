package record

import (
	"fmt"
	"math"

	"github.com/tidemark/tidemark/core/kafka"
)

// walk is the state of one pass over a batch's records: what is asked of each, and the largest time seen.
type walk struct {
	baseTimestamp int64
	minTimestamp  int64 // the first and the last time that the topic takes
	maxAllowed    int64
	requireKeys   bool
	maxRecord     int64 // bytes of a record that is decompressed

	maxTimestamp   int64
	maxTimestampAt int32
}

// newWalk takes the policy's limits. A bound that would overflow is no bound, and LogAppendTime asks nothing of times.
func newWalk(b Batch, p *Policy) walk {
	w := walk{
		baseTimestamp: b.BaseTimestamp(), requireKeys: p.RequireKeys,
		minTimestamp: math.MinInt64, maxAllowed: math.MaxInt64, maxTimestamp: NoTimestamp, maxRecord: math.MaxInt32,
	}
	if p.MaxRecordBytes > 0 {
		w.maxRecord = min(w.maxRecord, int64(p.MaxRecordBytes))
	}
	if p.TimestampType == LogAppendTime {
		return w
	}
	if lowest := p.NowMS - p.BeforeMaxMS; lowest <= p.NowMS {
		w.minTimestamp = lowest
	}
	if highest := p.NowMS + p.AfterMaxMS; highest >= p.NowMS {
		w.maxAllowed = highest
	}
	return w
}

// observe checks a record's time and remembers the largest.
func (w *walk) observe(k int32, delta int64) error {
	ts := w.baseTimestamp + delta
	if (ts < w.minTimestamp || ts > w.maxAllowed) && ts != NoTimestamp {
		return errTimestamp(k, ts, w.minTimestamp, w.maxAllowed)
	}
	if ts > w.maxTimestamp {
		w.maxTimestamp, w.maxTimestampAt = ts, k
	}
	return nil
}

// any checks record k at i, whatever its shape, and returns the position behind it.
func (w *walk) any(b []byte, i int, k int32) (end int, err error) {
	size, i := varint32(b, i)
	if i < 0 || size < 1 || int(size) > len(b)-i {
		return 0, errFraming(k, "length")
	}
	end = i + int(size)
	rec := b[i:end]
	timestampDelta, j := varint64(rec, 1) // behind the attributes
	offsetDelta, j := varint32(rec, j)
	keyLen, j := varint32(rec, j)
	if j < 0 || keyLen < -1 || int(keyLen) > len(rec)-j {
		return 0, errFraming(k, "key")
	}
	valueLen, j := varint32(rec, j+max(int(keyLen), 0))
	if j < 0 || valueLen < -1 || int(valueLen) > len(rec)-j {
		return 0, errFraming(k, "value")
	}
	headers, j := varint32(rec, j+max(int(valueLen), 0))
	if j < 0 || headers < 0 {
		return 0, errFraming(k, "headers")
	}
	for ; headers > 0; headers-- {
		if j = skipHeader(rec, j); j < 0 {
			return 0, errFraming(k, "headers")
		}
	}
	if j != len(rec) {
		return 0, errFraming(k, "length")
	}
	if offsetDelta != k {
		return 0, errDelta(k, offsetDelta)
	}
	if w.requireKeys && keyLen < 0 {
		return 0, errNoKey(k)
	}
	return end, w.observe(k, timestampDelta)
}

// skipHeader returns the position behind the record header at j, or -1.
func skipHeader(rec []byte, j int) int {
	n, j := varint32(rec, j)
	if j < 0 || n < 0 || int(n) > len(rec)-j {
		return -1
	}
	n, j = varint32(rec, j+int(n))
	if j < 0 || n < -1 || int(n) > len(rec)-j {
		return -1
	}
	return j + max(int(n), 0)
}

// RecordError is an error of Validate that one record is to blame for, the first such of its batch.
type RecordError struct {
	Index int32 // of the record in its batch
	err   error
}

// Error says what is wrong with the record.
func (e *RecordError) Error() string { return e.err.Error() }

// Unwrap is an error that wraps the protocol's code.
func (e *RecordError) Unwrap() error { return e.err }

func invalid(format string, a ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{kafka.InvalidRecord}, a...)...)
}

func errFraming(k int32, field string) error {
	return invalid("record %d: its %s does not fit the bytes that are there", k, field)
}

func errDelta(k, delta int32) error {
	return invalid("record %d has offset delta %d: deltas must count up from 0", k, delta)
}

func errNoKey(k int32) error {
	return &RecordError{k, invalid("record %d has no key: a compacted topic needs one in every record", k)}
}

func errLarge(k int32, size, most int64) error {
	return &RecordError{k, invalid("record %d has %d bytes once decompressed, the topic takes %d (max.decompressed.message.bytes)", k, size, most)}
}

func errTrailing(n int) error { return invalid("%d bytes are left over behind the last record", n) }

func errTimestamp(k int32, ts, low, high int64) error {
	return &RecordError{k, fmt.Errorf("%w: record %d has timestamp %d: the topic takes %d to %d (message.timestamp.before.max.ms and after.max.ms)",
		kafka.InvalidTimestamp, k, ts, low, high)}
}
