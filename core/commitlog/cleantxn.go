package commitlog

import (
	"slices"

	"github.com/tidemark/tidemark/core/kafka"
	"github.com/tidemark/tidemark/core/record"
)

// cleanTxns follows the transactions while a log is read from some offset on in order: which batches belong to aborted
// ones, and which markers end nothing that is still there. The rules are those of Kafka's CleanedTransactionMetadata.
type cleanTxns struct {
	coming    []AbortedTxn                     // not begun yet, by first offset
	aborted   map[kafka.ProducerID]*abortedTxn // begun
	committed map[kafka.ProducerID]bool        // with a batch seen
}

type abortedTxn struct {
	AbortedTxn
	seen bool // one of its batches has been read
}

func newCleanTxns(aborted []AbortedTxn) *cleanTxns {
	t := &cleanTxns{coming: slices.Clone(aborted), aborted: map[kafka.ProducerID]*abortedTxn{}, committed: map[kafka.ProducerID]bool{}}
	slices.SortFunc(t.coming, func(a, b AbortedTxn) int { return int(min(max(a.First-b.First, -1), 1)) })
	return t
}

func (t *cleanTxns) begin(off kafka.Offset) {
	for len(t.coming) > 0 && t.coming[0].First <= off {
		a := t.coming[0]
		t.coming = t.coming[1:]
		if have := t.aborted[a.ProducerID]; have == nil {
			t.aborted[a.ProducerID] = &abortedTxn{AbortedTxn: a}
		}
	}
}

// batch takes a batch of data; true when its transaction was aborted, so that its records are nobody's.
func (t *cleanTxns) batch(b record.Batch) bool {
	t.begin(b.LastOffset())
	if !b.IsTransactional() {
		return false
	}
	if a := t.aborted[b.ProducerID()]; a != nil {
		a.seen = true
		return true
	}
	t.committed[b.ProducerID()] = true
	return false
}

// marker takes a control batch. spent when nothing is left of the transaction that it ends; entry is what the new
// transaction index must say of an aborted one of which something is left.
func (t *cleanTxns) marker(b record.Batch) (spent bool, entry *AbortedTxn, err error) {
	t.begin(b.LastOffset())
	if b.NumRecords() == 0 {
		return true, nil, nil
	}
	c, ok, err := record.ParseControl(b)
	if err != nil || !ok {
		return false, nil, err // a kind of a later version stays
	}
	id := b.ProducerID()
	if c.Kind == record.Commit {
		spent = !t.committed[id]
		delete(t.committed, id)
		return spent, nil, nil
	}
	a := t.aborted[id]
	delete(t.aborted, id)
	delete(t.committed, id)
	if a == nil || !a.seen {
		return true, nil, nil
	}
	return false, &a.AbortedTxn, nil
}
