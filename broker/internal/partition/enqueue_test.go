package partition

import (
	"testing"

	"github.com/tidemark/tidemark/core/commitlog"
	"github.com/tidemark/tidemark/core/kafka"
)

// countingLog counts the writes of a log.
type countingLog struct {
	Log
	writes int
}

func (l *countingLog) Append(b []commitlog.AppendBatch) error {
	l.writes++
	return l.Log.Append(b)
}

// What Enqueue leaves is written by the next Append or Settle, all by one write and before that Append's own batch.
func TestEnqueuedAppendsShareTheNextWrite(t *testing.T) {
	p := leader(t, 1, 0)
	log := &countingLog{Log: p.o.Log}
	p.o.Log = log
	var order []*Append
	leave := func() *Append {
		a := &Append{Batch: one(t), Acks: 1, Done: Func(func(a *Append) { order = append(order, a) })}
		p.Enqueue(a)
		return a
	}
	first, second := leave(), leave()
	if len(order) != 0 || log.writes != 0 {
		t.Fatal("nobody has asked for them to be written")
	}
	third := &Append{Batch: one(t), Acks: -1, Done: Func(func(a *Append) { order = append(order, a) })}
	if !p.Append(third) {
		t.Error("an append behind others is told by Done")
	}
	fourth := leave()
	p.Settle()
	p.Settle()
	if log.writes != 2 || len(order) != 4 {
		t.Fatalf("%d writes, %d appends done; want 2 and 4", log.writes, len(order))
	}
	for i, a := range []*Append{first, second, third, fourth} {
		if order[i] != a || a.Result.Err != 0 || a.Result.Base != kafka.Offset(i) {
			t.Errorf("append %d: %+v", i, a.Result)
		}
	}
	fifth := leave()
	p.Close(kafka.NotLeaderForPartition)
	p.Settle()
	if len(order) != 5 || fifth.Result.Err != kafka.NotLeaderForPartition {
		t.Errorf("an append that was left when the partition closed: %+v", fifth.Result)
	}
}
