package servertest

import (
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/core/kafka"
)

// A name that no topic can have is unknown at all its partitions, and costs what it is long: it is not copied, nor looked up, for each.
func TestALongNameCostsWhatItIsLong(t *testing.T) {
	const name, partitions = 100_000, 1500
	n := startNode(t, t.TempDir())
	c, long := n.dial(), strings.Repeat("n", name)
	list, epoch := kmsg.NewPtrListOffsetsRequest(), kmsg.NewPtrOffsetForLeaderEpochRequest()
	list.Version, epoch.Version = 7, 4
	list.Topics, epoch.Topics = []kmsg.ListOffsetsRequestTopic{{Topic: long}}, []kmsg.OffsetForLeaderEpochRequestTopic{{Topic: long}}
	remove, producers := kmsg.NewPtrDeleteRecordsRequest(), kmsg.NewPtrDescribeProducersRequest()
	remove.Version = 2
	remove.Topics, producers.Topics = []kmsg.DeleteRecordsRequestTopic{{Topic: long}}, []kmsg.DescribeProducersRequestTopic{{Topic: long}}
	dirs := kmsg.NewPtrDescribeLogDirsRequest()
	dirs.Version, dirs.Topics = 4, []kmsg.DescribeLogDirsRequestTopic{{Topic: long}}
	put := produceRequest(12, 1, strings.Repeat("n", 30_000), kafka.TopicID{}, nil)
	for i := range int32(partitions) {
		list.Topics[0].Partitions = append(list.Topics[0].Partitions, kmsg.ListOffsetsRequestTopicPartition{Partition: i, Timestamp: -1})
		epoch.Topics[0].Partitions = append(epoch.Topics[0].Partitions, kmsg.OffsetForLeaderEpochRequestTopicPartition{Partition: i})
		remove.Topics[0].Partitions = append(remove.Topics[0].Partitions, kmsg.DeleteRecordsRequestTopicPartition{Partition: i})
		producers.Topics[0].Partitions = append(producers.Topics[0].Partitions, i)
		dirs.Topics[0].Partitions = append(dirs.Topics[0].Partitions, i)
		put.Topics[0].Partitions = append(put.Topics[0].Partitions, kmsg.ProduceRequestTopicPartition{Partition: i, Records: batch(t, 1, nil)})
	}
	for _, r := range []kmsg.Request{list, epoch, put} { // the others are answered by another goroutine
		f := frame(1, r)
		if took, most := weighed(n, &loop{}, f), uint64(8*len(f)+partitions*1000); took > most {
			t.Errorf("%s: a request of %d bytes allocates %d", kmsg.NameForKey(r.Key()), len(f), took)
		}
	}
	var codes []int16
	for _, p := range c.do(list).(*kmsg.ListOffsetsResponse).Topics[0].Partitions {
		codes = append(codes, p.ErrorCode)
	}
	for _, p := range c.do(epoch).(*kmsg.OffsetForLeaderEpochResponse).Topics[0].Partitions {
		codes = append(codes, p.ErrorCode)
	}
	for _, p := range c.do(remove).(*kmsg.DeleteRecordsResponse).Topics[0].Partitions {
		codes = append(codes, p.ErrorCode)
	}
	for _, p := range c.do(producers).(*kmsg.DescribeProducersResponse).Topics[0].Partitions {
		codes = append(codes, p.ErrorCode)
	}
	for _, p := range c.do(put).(*kmsg.ProduceResponse).Topics[0].Partitions {
		codes = append(codes, p.ErrorCode)
	}
	for i, code := range codes {
		if kafka.ErrorCode(code) != kafka.UnknownTopicOrPartition {
			t.Fatalf("answer %d: %v", i, kafka.ErrorCode(code))
		}
	}
	if len(codes) != 5*partitions {
		t.Errorf("%d partitions are answered", len(codes))
	}
	if d := c.do(dirs).(*kmsg.DescribeLogDirsResponse).Dirs; len(d) != 1 || len(d[0].Topics) != 0 {
		t.Errorf("%+v", d)
	}
}

// A partition that is named twice is refused, also when its topic is.
func TestOffsetsAreNotListedTwice(t *testing.T) {
	n := startNode(t, t.TempDir())
	n.topic("t", 3)
	n.topic("u", 3)
	r := kmsg.NewPtrListOffsetsRequest()
	r.Version = 7
	for _, asked := range []struct {
		topic string
		parts []int32
	}{{"t", []int32{0, 1, 1}}, {"u", []int32{0, 1}}, {"t", []int32{2, 0}}, {"none", []int32{0}}} {
		in := kmsg.NewListOffsetsRequestTopic()
		in.Topic = asked.topic
		for _, p := range asked.parts {
			in.Partitions = append(in.Partitions, kmsg.ListOffsetsRequestTopicPartition{Partition: p, Timestamp: -1, CurrentLeaderEpoch: -1})
		}
		r.Topics = append(r.Topics, in)
	}
	want := [][]kafka.ErrorCode{{kafka.InvalidRequest, kafka.InvalidRequest, kafka.InvalidRequest}, {0, 0}, {0, kafka.InvalidRequest}, {kafka.UnknownTopicOrPartition}}
	resp := n.dial().do(r).(*kmsg.ListOffsetsResponse)
	for i, topic := range resp.Topics {
		for j, p := range topic.Partitions {
			if kafka.ErrorCode(p.ErrorCode) != want[i][j] {
				t.Errorf("%s-%d: %v, want %v", topic.Topic, p.Partition, kafka.ErrorCode(p.ErrorCode), want[i][j])
			}
		}
	}
}
