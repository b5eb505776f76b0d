package servertest

import (
	"math"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// answered sends a fetch that would wait for ever, and gives the answer; it fails the test as soon as the broker lets it wait.
func answered(t *testing.T, n *node, c *client, r *kmsg.FetchRequest) kmsg.FetchResponseTopicPartition {
	t.Helper()
	r.MaxWaitMillis = math.MaxInt32
	type result struct {
		resp kmsg.Response
		err  error
	}
	got := make(chan result, 1)
	c.send(r)
	go func() {
		resp, _, err := c.tryReceive(r)
		got <- result{resp, err}
	}()
	var a *result
	eventually(t, "an answer", func() bool {
		select {
		case r := <-got:
			a = &r
			return true
		default:
		}
		if n.waits.Len() > 0 {
			t.Fatalf("the fetch from offset %d waits, and more than it may hold is there", r.Topics[0].Partitions[0].FetchOffset)
		}
		return false
	})
	must(t, a.err)
	return fetched(t, a.resp, 0)
}

// A reader of a backlog never waits: not when whole batches leave an answer below fetch.min.bytes, not at a segment's end, not
// when fetch.min.bytes is more than an answer may hold.
func TestAFetchWithABacklogBehindItDoesNotWait(t *testing.T) {
	const batches, size = 12, 300_000
	for _, setting := range []string{"tidemark.tail.bytes=0", "tidemark.tail.bytes=8388608"} {
		n := startNode(t, t.TempDir(), setting)
		id := n.topic("t", 1, "segment.bytes", "1048576", "max.message.bytes", "2000000")
		c := n.dial()
		for range batches {
			resp := c.do(produceRequest(9, 1, "t", id, map[int32][]byte{0: batch(t, 1, make([]byte, size))}))
			if p := produced(t, resp, 0); p.ErrorCode != 0 {
				t.Fatalf("%+v", p)
			}
		}
		for _, bound := range []struct{ min, max, partition int32 }{
			{1 << 20, 50 << 20, 1 << 20}, // as a consumer asks
			{2 << 20, 1 << 20, 50 << 20}, // more than the answer may hold
			{50 << 20, 50 << 20, 1000},   // a partition's bound
		} {
			for off, left := int64(0), int64(batches); left > 4; left = batches - off {
				r := fetchRequest(12, "t", id, map[int32]int64{0: off})
				r.MinBytes, r.MaxBytes, r.Topics[0].Partitions[0].PartitionMaxBytes = bound.min, bound.max, bound.partition
				p := answered(t, n, c, r)
				got := int64(len(p.RecordBatches) / size)
				if p.ErrorCode != 0 || got == 0 {
					t.Fatalf("%+v at %d: error %d, %d bytes", bound, off, p.ErrorCode, len(p.RecordBatches))
				}
				off += got
			}
		}
		n.stop()
	}
}

// A reader at the end waits still.
func TestAFetchAtTheEndWaitsForItsMinimum(t *testing.T) {
	n := startNode(t, t.TempDir())
	id := n.topic("t", 1)
	c, producer := n.dial(), n.dial()
	put := func() {
		producer.do(produceRequest(9, 1, "t", id, map[int32][]byte{0: batch(t, 1, make([]byte, 1000))}))
	}
	put()
	r := fetchRequest(12, "t", id, map[int32]int64{0: 0})
	r.MinBytes, r.MaxBytes, r.MaxWaitMillis = 5000, 1<<20, math.MaxInt32
	c.send(r)
	eventually(t, "it waits", func() bool { return n.waits.Len() == 1 })
	for range 4 {
		put()
	}
	resp, _ := c.receive(r)
	if p := fetched(t, resp, 0); len(p.RecordBatches) < 5000 {
		t.Errorf("%d bytes", len(p.RecordBatches))
	}
}
