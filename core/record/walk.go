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
	checkTime     bool // off for LogAppendTime
	requireKeys   bool

	maxTimestamp   int64
	maxTimestampAt int32
}

// newWalk takes the policy's limits. A bound that would overflow is no bound.
func newWalk(b Batch, p *Policy) walk {
	w := walk{
		baseTimestamp: b.BaseTimestamp(), requireKeys: p.RequireKeys, checkTime: p.TimestampType == CreateTime,
		minTimestamp: math.MinInt64, maxAllowed: math.MaxInt64, maxTimestamp: NoTimestamp,
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
	if w.checkTime && (ts < w.minTimestamp || ts > w.maxAllowed) && ts != NoTimestamp {
		return errTimestamp(k, ts, w.minTimestamp, w.maxAllowed)
	}
	if ts > w.maxTimestamp {
		w.maxTimestamp, w.maxTimestampAt = ts, k
	}
	return nil
}

// plain walks n records that lie uncompressed in b, in one pass and without allocating. They must fill b exactly.
//
//tidy:long one pass over a record's fields in their order; a call for each field costs a third of the speed
func (w *walk) plain(b []byte, n int32) error {
	i := 0
	for k := range n {
		size, at := varint32(b, i)
		if at < 0 || size < 1 || int(size) > len(b)-at {
			return errFraming(k, "length")
		}
		rec := b[at : at+int(size)]
		i = at + int(size)

		timestampDelta, j := varint64(rec, 1) // behind the attributes
		offsetDelta, j := varint32(rec, j)
		keyLen, j := varint32(rec, j)
		if j < 0 || keyLen < -1 || int(keyLen) > len(rec)-j {
			return errFraming(k, "key")
		}
		if keyLen > 0 {
			j += int(keyLen)
		}
		valueLen, j := varint32(rec, j)
		if j < 0 || valueLen < -1 || int(valueLen) > len(rec)-j {
			return errFraming(k, "value")
		}
		if valueLen > 0 {
			j += int(valueLen)
		}
		headers, j := varint32(rec, j)
		if j < 0 || headers < 0 {
			return errFraming(k, "headers")
		}
		for ; headers > 0; headers-- {
			if j = skipHeader(rec, j); j < 0 {
				return errFraming(k, "headers")
			}
		}
		if j != len(rec) {
			return errFraming(k, "length")
		}
		if offsetDelta != k {
			return errDelta(k, offsetDelta)
		}
		if w.requireKeys && keyLen < 0 {
			return errNoKey(k)
		}
		if err := w.observe(k, timestampDelta); err != nil {
			return err
		}
	}
	if i != len(b) {
		return errTrailing(len(b) - i)
	}
	return nil
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
	return invalid("record %d has no key: a compacted topic needs one in every record", k)
}

func errTrailing(n int) error { return invalid("%d bytes are left over behind the last record", n) }

func errTimestamp(k int32, ts, low, high int64) error {
	return fmt.Errorf("%w: record %d has timestamp %d: the topic takes %d to %d (message.timestamp.before.max.ms and after.max.ms)",
		kafka.InvalidTimestamp, k, ts, low, high)
}
