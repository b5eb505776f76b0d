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
		p.o.FlushFailed = func(error) { flushes++; p.Fail() }
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
		p.o.FlushFailed = func(error) { p.Fail() }
		l.flush = errors.New("input/output error")
		if a, done := put(t, p, acks); done.Load() != 1 || a.Result.Err != kafka.KafkaStorageError {
			t.Errorf("acks=%d, alone: %+v", acks, a.Result)
		}
	}
}
