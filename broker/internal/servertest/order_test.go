package servertest

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestRequestsSeeWhatThoseBeforeThemDid: a client that deletes records and asks for the log's start, without waiting in between, is
// told the new one.
func TestRequestsSeeWhatThoseBeforeThemDid(t *testing.T) {
	n := startNode(t, t.TempDir())
	id := n.topic("t", 1)
	c := n.dial()
	remove, list := kmsg.NewPtrDeleteRecordsRequest(), kmsg.NewPtrListOffsetsRequest()
	remove.Topics = []kmsg.DeleteRecordsRequestTopic{{Topic: "t", Partitions: []kmsg.DeleteRecordsRequestTopicPartition{{Offset: -1}}}}
	list.Version = 1
	list.Topics = []kmsg.ListOffsetsRequestTopic{{Topic: "t", Partitions: []kmsg.ListOffsetsRequestTopicPartition{{Timestamp: -2}}}}
	for i := range int64(100) {
		if p := produced(t, c.do(produceRequest(9, -1, "t", id, map[int32][]byte{0: batch(t, 1, []byte("v"))})), 0); p.ErrorCode != 0 {
			t.Fatalf("%+v", p)
		}
		c.corr += 2
		_, err := c.c.Write(append(frame(c.corr-1, remove), frame(c.corr, list)...))
		must(t, err)
		r, _ := c.receive(remove)
		removed := r.(*kmsg.DeleteRecordsResponse).Topics[0].Partitions[0]
		r, _ = c.receive(list)
		start := r.(*kmsg.ListOffsetsResponse).Topics[0].Partitions[0]
		if removed.ErrorCode != 0 || start.ErrorCode != 0 || removed.LowWatermark != i+1 || start.Offset != i+1 {
			t.Fatalf("round %d: deleted up to %d (%d), the start is %d (%d)", i, removed.LowWatermark, removed.ErrorCode, start.Offset, start.ErrorCode)
		}
	}
}
