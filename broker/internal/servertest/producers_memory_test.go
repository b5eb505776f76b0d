package servertest

import (
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/core/kafka"
)

// TestTheProducersOfAPartitionTakeMemory: a small question for all producers of a partition is answered as far as there is memory
// for requests and answers; beyond, its connection ends.
func TestTheProducersOfAPartitionTakeMemory(t *testing.T) {
	const producers, memory = 2000, 128 << 10
	for _, scarce := range []bool{false, true} {
		var settings []string
		if scarce {
			settings = []string{fmt.Sprint("queued.max.request.bytes=", memory), fmt.Sprint("socket.request.max.bytes=", memory)}
		}
		n := startNode(t, t.TempDir(), settings...)
		id := n.topic("t", 2)
		c := n.dial()
		put := kmsg.NewPtrProduceRequest()
		for i := range producers {
			put = produceRequest(9, -1, "t", id, map[int32][]byte{0: sequenced(t, kafka.ProducerID(i), 0, 1)})
			c.send(put)
		}
		for i := range producers {
			r, _ := c.receive(put)
			if p := produced(t, r, 0); p.ErrorCode != 0 {
				t.Fatalf("producer %d: %+v", i, p)
			}
		}
		ask := func(partition int32) (int, error) {
			req := kmsg.NewPtrDescribeProducersRequest()
			req.Topics = []kmsg.DescribeProducersRequestTopic{{Topic: "t", Partitions: []int32{partition}}}
			c := n.dial()
			c.send(req)
			r, _, err := c.tryReceive(req)
			if err != nil {
				return 0, err
			}
			return len(r.(*kmsg.DescribeProducersResponse).Topics[0].Partitions[0].ActiveProducers), nil
		}
		if got, err := ask(0); (err != nil) != scarce || got != producers && !scarce {
			t.Errorf("scarce memory %v: %d producers, %v", scarce, got, err)
		}
		if got, err := ask(1); err != nil || got != 0 {
			t.Errorf("scarce memory %v, a partition without producers: %d, %v", scarce, got, err)
		}
	}
}
