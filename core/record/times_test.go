package record_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/tidemark/tidemark/core/compress"
	"github.com/tidemark/tidemark/core/record"
)

// recordTime is what EachTime tells of a record.
type recordTime struct {
	delta int32
	ts    int64
}

func timesOf(b record.Batch) (out []recordTime, err error) {
	err = b.EachTime(nil, func(delta int32, ts int64) bool {
		out = append(out, recordTime{delta, ts})
		return true
	})
	return out, err
}

// iterated is the same by way of whole records.
func iterated(b record.Batch) (out []recordTime, err error) {
	it, err := b.Records(nil, 1<<20)
	if err != nil {
		return nil, err
	}
	for it.Next() {
		out = append(out, recordTime{it.Record().OffsetDelta, b.BaseTimestamp() + it.Record().TimestampDelta})
	}
	return out, it.Err()
}

func TestTimesAreThoseOfTheRecords(t *testing.T) {
	for codec := compress.None; codec <= compress.Zstd; codec++ {
		b := record.Batch(batchOf(t, codec, 40, 20))
		want, err := iterated(b)
		if err != nil || len(want) != 40 {
			t.Fatalf("%s: %d records, %v", codec, len(want), err)
		}
		if got, err := timesOf(b); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %v, %v, want %v", codec, got, err, want)
		}
		seen := 0
		if err := b.EachTime(nil, func(int32, int64) bool { seen++; return seen < 3 }); err != nil || seen != 3 {
			t.Errorf("%s: went on to record %d, %v", codec, seen, err)
		}
		for cut := range len(b) {
			if got, err := timesOf(b[:cut]); err == nil && len(got) != 40 {
				t.Errorf("%s cut at %d: %d records and no error", codec, cut, len(got))
			} else if codec == compress.None && err != nil && !errors.Is(err, record.ErrCorrupt) && !errors.Is(err, record.ErrShort) {
				t.Errorf("cut at %d: %v", cut, err)
			}
		}
	}
}
