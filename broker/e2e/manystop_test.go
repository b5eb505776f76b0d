package e2e

import (
	"fmt"
	"testing"
	"time"

	"github.com/tidemark/tidemark/broker/proc"
)

// TestStopsOfManyPartitionsLeaveThemWhole stops a broker with more partitions in use than a stop syncs one by one, again and
// again, and kills it in between: records, producers' sequences and times are known after each start, and a batch that is
// sent again is not written twice.
func TestStopsOfManyPartitionsLeaveThemWhole(t *testing.T) {
	const partitions = 100
	o := proc.Options{Data: t.TempDir()}
	b := start(t, o)
	create(t, b, "t", partitions)
	w := dial(t, b.Addr)
	from := w.initProducer()
	from.seq = 0
	ts := time.Now().UnixMilli()
	put := func(round int32) {
		t.Helper()
		for p := range int32(partitions) {
			sender := from
			sender.seq = round
			got := w.produce("t", p, batch(sender, fmt.Appendf(nil, "%d of %d", round, p), ts+int64(round)))
			if got.ErrorCode != 0 || got.BaseOffset != int64(round) {
				t.Fatalf("round %d, partition %d: error %d, offset %d", round, p, got.ErrorCode, got.BaseOffset)
			}
		}
	}
	put(0)
	for round := int32(1); round <= 4; round++ {
		if round == 2 { // what the first stop has left is only in memory
			b.Kill()
		} else if err := b.Stop(); err != nil {
			t.Fatal(err)
		}
		if round == 4 { // two stops with a start in between that uses nothing
			b = start(t, o)
			if err := b.Stop(); err != nil {
				t.Fatal(err)
			}
		}
		b = start(t, o)
		w = dial(t, b.Addr)
		put(round - 1) // sent again: answered with its first offset
		put(round)
		if got := w.listOffset("t", ts+int64(round)); got.Offset != int64(round) {
			t.Errorf("round %d: by its time the last record is found at %d", round, got.Offset)
		}
		got := batches(t, w.fetchOne("t", 0).RecordBatches)
		if len(got) != int(round)+1 {
			t.Fatalf("round %d: partition 0 has %d batches", round, len(got))
		}
		for i := range got {
			if got[i].FirstOffset != int64(i) || got[i].FirstSequence != int32(i) {
				t.Errorf("round %d: batch %d has offset %d, sequence %d", round, i, got[i].FirstOffset, got[i].FirstSequence)
			}
		}
	}
}
