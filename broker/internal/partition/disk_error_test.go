package partition

import (
	"errors"
	"testing"

	"github.com/tidemark/tidemark/core/commitlog"
	"github.com/tidemark/tidemark/core/kafka"
	"github.com/tidemark/tidemark/core/record"
)

// badLog is a log whose disk fails as a test tells it to.
type badLog struct {
	Log
	write, flush error
	broken       func() // called before a write fails
}

func (l *badLog) Append(b []commitlog.AppendBatch) error {
	if l.write == nil {
		return l.Log.Append(b)
	}
	producers, err := l.Log.Producers()
	if err != nil {
		return err
	}
	producers.Unstage() // as the log does when its write fails
	if l.broken != nil {
		l.broken()
	}
	return l.write
}

func (l *badLog) Flush() (kafka.Offset, error) {
	if l.flush != nil {
		return 0, l.flush
	}
	return l.Log.Flush()
}

// failing is a partition over such a log.
func failing(t *testing.T, isr ...kafka.BrokerID) (*Partition, *badLog) {
	t.Helper()
	p := leader(t, 1, isr...)
	l := &badLog{Log: p.o.Log}
	p.o.Log, p.o.Failed = l, func(error) {}
	return p, l
}

// leave puts an append of a batch into the queue and gives it with the count of its Done.
func leave(p *Partition, b record.Batch, acks int16) (*Append, *int) {
	done := 0
	a := &Append{Batch: b, Acks: acks, Done: Func(func(*Append) { done++ })}
	p.Enqueue(a)
	return a, &done
}

// What flush.messages could not force to disk is refused, whoever wrote it: the append's own caller or another one.
func TestAFailedFlushIsNotAcknowledged(t *testing.T) {
	for _, acks := range []int16{0, 1, -1} {
		p, l := failing(t, 0)
		cfg := *p.Config()
		cfg.FlushMessages = 1
		p.SetConfig(&cfg)
		flushes := 0
		p.o.Failed = func(error) { flushes++; p.Fail() }
		if a, _ := put(t, p, acks); a.Result.Err != 0 {
			t.Fatalf("%+v", a.Result)
		}
		l.flush = errors.New("input/output error")
		first, done := leave(p, one(t), acks)
		second, last := leave(p, one(t), acks)
		p.Settle()
		for _, a := range []*Append{first, second} {
			if a.Result.Err != kafka.KafkaStorageError || a.Result.Base != kafka.NoOffset || a.Result.LogStart != 0 {
				t.Errorf("acks=%d: %+v", acks, a.Result)
			}
		}
		if *done != 1 || *last != 1 || flushes != 1 {
			t.Errorf("acks=%d: answered %d and %d times, %d failures told", acks, *done, *last, flushes)
		}

		p, l = failing(t, 0)
		p.SetConfig(&cfg)
		p.o.Failed = func(error) { p.Fail() }
		l.flush = errors.New("input/output error")
		if a, done := put(t, p, acks); done.Load() != 1 || a.Result.Err != kafka.KafkaStorageError {
			t.Errorf("acks=%d, alone: %+v", acks, a.Result)
		}
	}
}

// A flush that has not come about, without a failed disk (no descriptor was free), is refused too: no other replica's word makes
// it an acknowledgement. The partition goes on.
func TestAFlushThatDoesNotComeAboutIsNotAcknowledged(t *testing.T) {
	for _, acks := range []int16{0, 1, -1} {
		p, l := failing(t, 0, 1)
		cfg := *p.Config()
		cfg.FlushMessages = 1
		p.SetConfig(&cfg)
		l.flush = errors.New("too many open files")
		a, done := leave(p, sequenced(t, 0), acks)
		p.Settle()
		p.Follower(1, p.LogEnd())
		if *done != 1 || a.Result.Err != kafka.KafkaStorageError {
			t.Errorf("acks=%d: answered %d times, %+v", acks, *done, a.Result)
		}
		l.flush = nil
		again, _ := leave(p, sequenced(t, 0), acks)
		next, _ := leave(p, sequenced(t, 1), acks)
		p.Settle()
		p.Follower(1, p.LogEnd())
		if again.Result.Err != 0 || again.Result.Base != 0 || next.Result.Err != 0 || next.Result.Base != 1 {
			t.Errorf("acks=%d: later %+v and %+v", acks, again.Result, next.Result)
		}
	}
}

// With tidemark.fsync=batch, who waits for a flush that has not come about is told, and who sends the same again waits for the next.
func TestNobodyWaitsForAFlushThatDidNotComeAbout(t *testing.T) {
	for _, acks := range []int16{1, -1} {
		p, l := failing(t, 0)
		p.o.FlushSoon = func() {}
		cfg := *p.Config()
		cfg.FsyncBatch = true
		p.SetConfig(&cfg)
		first, done := leave(p, sequenced(t, 0), acks)
		p.Settle()
		if _, err := l.Flush(); err != nil {
			t.Fatal(err)
		}
		p.Flushed()
		second, last := leave(p, sequenced(t, 1), acks)
		p.Settle()
		p.Unflushed()
		if *done != 1 || first.Result.Err != 0 || *last != 1 || second.Result.Err != kafka.KafkaStorageError || p.HighWatermark() != 1 {
			t.Errorf("acks=%d: answered %d and %d times, %+v, %+v, high watermark %d", acks, *done, *last, first.Result, second.Result, p.HighWatermark())
		}
		again, answered := leave(p, sequenced(t, 1), acks)
		p.Settle()
		if *answered != 0 {
			t.Errorf("acks=%d: answered before it is flushed: %+v", acks, again.Result)
		}
		if _, err := l.Flush(); err != nil {
			t.Fatal(err)
		}
		p.Flushed()
		if *answered != 1 || again.Result.Err != 0 || again.Result.Base != 1 || p.HighWatermark() != 2 {
			t.Errorf("acks=%d: answered %d times, %+v, high watermark %d", acks, *answered, again.Result, p.HighWatermark())
		}
	}
}
