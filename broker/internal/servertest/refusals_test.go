package servertest

import (
	"testing"

	"github.com/tidemark/tidemark/core/compress"
	"github.com/tidemark/tidemark/core/kafka"
)

// A topic with max.message.bytes=0 takes nothing: 0 is a bound as any other, with a codec of the topic's own too.
func TestATopicOfNoBytesTakesNothing(t *testing.T) {
	n := startNode(t, t.TempDir())
	c := n.dial()
	for _, codec := range []string{"producer", "gzip"} {
		id := n.topic(codec, 1, "max.message.bytes", "0", "compression.type", codec)
		r := c.do(produceRequest(9, 1, codec, id, map[int32][]byte{0: keyedBatch(t, compress.None, []byte("v"))}))
		if p := produced(t, r, 0); kafka.ErrorCode(p.ErrorCode) != kafka.MessageTooLarge {
			t.Errorf("compression.type=%s: %v", codec, kafka.ErrorCode(p.ErrorCode))
		}
	}
}
