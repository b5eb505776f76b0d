package partition

import (
	"errors"
	"testing"

	"github.com/tidemark/tidemark/core/compress"
	"github.com/tidemark/tidemark/core/kafka"
	"github.com/tidemark/tidemark/core/record"
)

// sequenced is a batch of an idempotent producer.
func sequenced(t *testing.T, seq int32) record.Batch {
	t.Helper()
	b := record.NewBuilder(compress.New(), compress.None, 0)
	b.Reset(1000, 7, 0, seq, 0)
	b.Append(1000, nil, []byte("value"))
	out, err := b.Finish(nil)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// A batch and the same again in one write: when the write fails, neither is there.
func TestACopyDoesNotOutliveItsOriginalsFailedWrite(t *testing.T) {
	for _, acks := range []int16{0, 1, -1} {
		p, l := failing(t, 0)
		kept, _ := leave(p, sequenced(t, 0), acks)
		p.Settle()
		if kept.Result.Err != 0 {
			t.Fatalf("%+v", kept.Result)
		}

		l.write = errors.New("input/output error")
		original, _ := leave(p, sequenced(t, 1), acks)
		again, done := leave(p, sequenced(t, 1), acks)
		old, answered := leave(p, sequenced(t, 0), acks)
		p.Settle()
		if original.Result.Err != kafka.KafkaStorageError || again.Result.Err != kafka.KafkaStorageError || *done != 1 {
			t.Errorf("acks=%d: original %+v, copy %+v answered %d times", acks, original.Result, again.Result, *done)
		}
		if old.Result.Err != 0 || old.Result.Base != 0 || *answered != 1 {
			t.Errorf("acks=%d: what was written before is there still: %+v", acks, old.Result)
		}

		l.write = nil
		retried, _ := leave(p, sequenced(t, 1), acks)
		p.Settle()
		if retried.Result.Err != 0 || retried.Result.Base != 1 {
			t.Errorf("acks=%d: sent once more: %+v", acks, retried.Result)
		}
	}
}

// A copy of what waits for the high watermark is answered when the folder fails during its write, as the original is.
func TestACopyIsAnsweredWhenTheFolderFails(t *testing.T) {
	p, l := failing(t, 0, 1)
	original, _ := leave(p, sequenced(t, 0), -1)
	p.Settle()
	l.write, l.broken = errors.New("input/output error"), p.Fail
	again, done := leave(p, sequenced(t, 0), -1)
	other, _ := leave(p, sequenced(t, 1), -1)
	p.Settle()
	for _, a := range []*Append{original, again, other} {
		if a.Result.Err != kafka.KafkaStorageError {
			t.Errorf("%+v", a.Result)
		}
	}
	if *done != 1 {
		t.Errorf("the copy was answered %d times", *done)
	}
}
