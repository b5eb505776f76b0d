package servertest

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Requests that arrive with one read share a write to the log and a write to the socket. More of them than the
// connection's ring holds, for several partitions and with other requests between them, are all answered in order, and
// what a request looks at holds what the ones before it have written.
func TestALongRowOfRequestsInOneWriteIsAnsweredInOrder(t *testing.T) {
	n := startNode(t, t.TempDir())
	id := n.topic("t", 3)
	c := n.dial()
	var row []byte
	var requests []kmsg.Request
	add := func(r kmsg.Request) {
		requests = append(requests, r)
		row = append(row, frame(int32(len(requests)), r)...)
	}
	const rounds = 200
	for i := range int32(rounds) {
		add(produceRequest(9, 1, "t", id, map[int32][]byte{i % 3: batch(t, 1, []byte("v"))}))
		add(produceRequest(9, -1, "t", id, map[int32][]byte{i % 3: batch(t, 1, []byte("v"))}))
		v := kmsg.NewPtrApiVersionsRequest()
		v.Version = 0
		add(v)
		if i%10 == 9 {
			l := kmsg.NewPtrListOffsetsRequest()
			l.Version, l.ReplicaID = 4, -1
			lt := kmsg.NewListOffsetsRequestTopic()
			lt.Topic = "t"
			for p := range int32(3) {
				lp := kmsg.NewListOffsetsRequestTopicPartition()
				lp.Partition, lp.Timestamp = p, -1
				lt.Partitions = append(lt.Partitions, lp)
			}
			l.Topics = append(l.Topics, lt)
			add(l)
		}
	}
	go func() { _, _ = c.c.Write(row) }()
	var ends [3]int64
	for i, r := range requests {
		resp, corr := c.receive(r)
		if corr != int32(i+1) {
			t.Fatalf("answer %d has correlation id %d", i+1, corr)
		}
		switch resp := resp.(type) {
		case *kmsg.ProduceResponse:
			p := resp.Topics[0].Partitions[0]
			if p.ErrorCode != 0 || p.BaseOffset != ends[p.Partition] {
				t.Fatalf("answer %d: %+v, want offset %d", i+1, p, ends[p.Partition])
			}
			ends[p.Partition]++
		case *kmsg.ListOffsetsResponse:
			for _, p := range resp.Topics[0].Partitions {
				if p.Offset != ends[p.Partition] {
					t.Errorf("answer %d: partition %d ends at %d, %d were written before", i+1, p.Partition, p.Offset, ends[p.Partition])
				}
			}
		}
	}
}

// A row that ends in a broken request closes the connection; what came before it is written all the same.
func TestARowThatEndsInABrokenRequestIsWrittenUpToIt(t *testing.T) {
	n := startNode(t, t.TempDir())
	id := n.topic("t", 1)
	c := n.dial()
	var row []byte
	for i := range int32(5) {
		row = append(row, frame(i, produceRequest(9, 1, "t", id, map[int32][]byte{0: batch(t, 1, []byte("v"))}))...)
	}
	row = append(row, 0, 0, 0, 8, 0, 99, 0, 0, 0, 0, 0, 0) // no such API
	_, err := c.c.Write(row)
	must(t, err)
	for {
		if _, _, err := c.tryReceive(produceRequest(9, 1, "t", id, nil)); err != nil {
			break
		}
	}
	p, code := n.set.Get(id, 0)
	if code != 0 || p.LogEnd() != 5 {
		t.Errorf("%v: the log ends at %d, 5 requests came before the broken one", code, p.LogEnd())
	}
}
