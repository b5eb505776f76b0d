package servertest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tidemark/tidemark/core/compress"
	"github.com/tidemark/tidemark/core/kafka"
	"github.com/tidemark/tidemark/core/record"
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

// A refused batch names the record that is to blame, so that an application learns which of its records it was (KIP-467); what the
// batch as a whole is refused for names none.
func TestARefusedBatchNamesTheRecord(t *testing.T) {
	n := startNode(t, t.TempDir())
	c := n.dial()
	b := record.NewBuilder(nil, compress.None, 0)
	b.Reset(1000, kafka.NoProducerID, kafka.NoEpoch, record.NoSequence, 0)
	b.Append(1000, []byte("k"), nil)
	b.Append(1000, nil, nil)
	b.Append(900, nil, nil)
	out, err := b.Finish(nil)
	must(t, err)
	for _, tc := range []struct {
		topic, setting, value string
		code                  kafka.ErrorCode
		index                 int32
	}{
		{"compacted", "cleanup.policy", "compact", kafka.InvalidRecord, 1},
		{"timed", "message.timestamp.before.max.ms", "1", kafka.InvalidTimestamp, 0},
		{"small", "max.message.bytes", "60", kafka.MessageTooLarge, -1},
	} {
		id := n.topic(tc.topic, 1, tc.setting, tc.value)
		for _, version := range []int16{8, 9, 13} {
			r := c.do(produceRequest(version, 1, tc.topic, id, map[int32][]byte{0: out}))
			p := produced(t, r, 0)
			if kafka.ErrorCode(p.ErrorCode) != tc.code || p.ErrorMessage == nil {
				t.Errorf("%s, version %d: %v, %v", tc.topic, version, kafka.ErrorCode(p.ErrorCode), p.ErrorMessage)
				continue
			}
			switch e := p.ErrorRecords; {
			case tc.index < 0 && len(e) == 0:
			case tc.index < 0 || len(e) != 1 || e[0].RelativeOffset != tc.index || e[0].ErrorMessage == nil || !strings.Contains(*e[0].ErrorMessage, "record "):
				t.Errorf("%s, version %d: errors of records %+v, want one of record %d", tc.topic, version, e, tc.index)
			}
		}
	}
}

// A segment holds at least one batch, and none that is larger than segment.bytes: what counts is the batch as it is stored.
func TestABatchFitsASegment(t *testing.T) {
	n := startNode(t, t.TempDir())
	c := n.dial()
	value := make([]byte, 1<<20)
	for i, tc := range []struct {
		what, codec string
		batch       []byte
		want        kafka.ErrorCode
	}{
		{"a little less than a segment", "producer", keyedBatch(t, compress.None, value[200:]), kafka.None},
		{"a little more than a segment", "producer", keyedBatch(t, compress.None, value), kafka.RecordListTooLarge},
		{"zeros with gzip", "producer", keyedBatch(t, compress.Gzip, value), kafka.None},
		{"zeros with gzip, stored as they are", "uncompressed", keyedBatch(t, compress.Gzip, value), kafka.RecordListTooLarge},
		{"zeros, stored with gzip", "gzip", keyedBatch(t, compress.None, value), kafka.None},
	} {
		name := fmt.Sprint("t", i)
		id := n.topic(name, 1, "segment.bytes", "1048576", "max.message.bytes", "3000000", "compression.type", tc.codec)
		r := c.do(produceRequest(9, 1, name, id, map[int32][]byte{0: tc.batch}))
		if p := produced(t, r, 0); kafka.ErrorCode(p.ErrorCode) != tc.want {
			t.Errorf("%s: %v, want %v", tc.what, kafka.ErrorCode(p.ErrorCode), tc.want)
		}
	}
}
