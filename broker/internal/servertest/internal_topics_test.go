package servertest

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/core/kafka"
)

// TestClientsMayNotWriteToInternalTopics: what stands in __consumer_offsets is the broker's own word, so that a client's record
// there could end any group. Each partition is refused by itself, and only Kafka's administrative client is let through.
func TestClientsMayNotWriteToInternalTopics(t *testing.T) {
	n := startNode(t, t.TempDir())
	c := n.dial()
	names := []string{kafka.OffsetsTopic, kafka.TxnTopic, "__share_group_state", "mine"}
	ids := map[string]kafka.TopicID{}
	for _, name := range names {
		ids[name] = n.topic(name, 1)
	}
	good := 0
	for version := int16(3); version <= 13; version++ {
		var r *kmsg.ProduceRequest
		for _, name := range names {
			one := produceRequest(version, -1, name, ids[name], map[int32][]byte{0: batch(t, 1, []byte("v"))})
			if r == nil {
				r = one
			} else {
				r.Topics = append(r.Topics, one.Topics...)
			}
		}
		resp := c.do(r).(*kmsg.ProduceResponse)
		for i, name := range names {
			p := resp.Topics[i].Partitions[0]
			want := kafka.InvalidTopicException
			if name == "mine" {
				want = kafka.None
				good++
			}
			if kafka.ErrorCode(p.ErrorCode) != want {
				t.Errorf("version %d, %s: %v, want %v", version, name, kafka.ErrorCode(p.ErrorCode), want)
			}
		}
	}
	for _, name := range names {
		end := listOffset(t, c, name, -1).Offset
		if want := int64(0); name != "mine" && end != want || name == "mine" && end != int64(good) {
			t.Errorf("%s ends at %d", name, end)
		}
	}

	r := produceRequest(9, -1, kafka.OffsetsTopic, kafka.TopicID{}, map[int32][]byte{0: batch(t, 1, []byte("v"))})
	_, err := c.c.Write(kmsg.NewRequestFormatter(kmsg.FormatterClientID("__admin_client")).AppendRequest(nil, r, 1))
	must(t, err)
	resp, _ := c.receive(r)
	if p := produced(t, resp, 0); p.ErrorCode != 0 {
		t.Errorf("the administrative client: %v", kafka.ErrorCode(p.ErrorCode))
	}
	// Without acknowledgement there is only one way to tell.
	r = produceRequest(9, 0, kafka.OffsetsTopic, kafka.TopicID{}, map[int32][]byte{0: batch(t, 1, []byte("v"))})
	c.send(r)
	if _, _, err := c.tryReceive(r); err == nil {
		t.Error("a refused write without acknowledgement was answered")
	}
	if end := listOffset(t, n.dial(), kafka.OffsetsTopic, -1).Offset; end != 1 {
		t.Errorf("%s ends at %d", kafka.OffsetsTopic, end)
	}
}
