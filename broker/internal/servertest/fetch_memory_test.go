package servertest

import (
	"context"
	"runtime"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/broker/internal/api"
	"github.com/tidemark/tidemark/core/buf"
	"github.com/tidemark/tidemark/core/kafka"
)

// weighed sends a frame through the handlers as serveOnce does, and gives what that allocated.
func weighed(n *node, l *loop, frame []byte) uint64 {
	pool, cl, call := buf.NewPool(), &api.Client{Ctx: context.Background()}, &api.Call{}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	l.serveOnce(n.handlers, pool, cl, call, frame[4:])
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// manyParts is a fetch of so many partitions of one topic, without a session.
func manyParts(version int16, topic string, partitions int) *kmsg.FetchRequest {
	r := fetchRequest(version, topic, kafka.TopicID{}, nil)
	for i := range partitions {
		p := kmsg.NewFetchRequestTopicPartition()
		p.Partition, p.PartitionMaxBytes = int32(i), 1<<20
		r.Topics[0].Partitions = append(r.Topics[0].Partitions, p)
	}
	return r
}

// A fetch takes its topics' names once, however many partitions it names of each. What is longer than any name is an unknown
// topic, and what is longer than a string may be no request.
func TestAFetchTakesEachTopicsNameOnce(t *testing.T) {
	n := startNode(t, t.TempDir())
	const name, partitions = 30_000, 1000
	for version := int16(4); version <= 12; version++ {
		for _, epoch := range []int32{-1, 0} {
			r := manyParts(version, strings.Repeat("n", name), partitions)
			r.SessionEpoch = epoch
			f := frame(1, r)
			l := &loop{}
			if took, most := weighed(n, l, f), uint64(3*len(f)+partitions*1000+4*name); took > most || l.aborted != "" {
				t.Errorf("version %d, epoch %d: a request of %d bytes allocates %d (at most %d may be) %s", version, epoch, len(f), took, most, l.aborted)
			}
			resp := n.dial().do(r).(*kmsg.FetchResponse)
			if len(resp.Topics) != 1 || len(resp.Topics[0].Topic) != name || len(resp.Topics[0].Partitions) != partitions || resp.SessionID != 0 {
				t.Fatalf("version %d: %d topics, session %d", version, len(resp.Topics), resp.SessionID)
			}
			for _, p := range resp.Topics[0].Partitions {
				if kafka.ErrorCode(p.ErrorCode) != kafka.UnknownTopicOrPartition {
					t.Fatalf("version %d: %v", version, kafka.ErrorCode(p.ErrorCode))
				}
			}
		}
	}
	l := &loop{}
	weighed(n, l, frame(1, manyParts(12, strings.Repeat("n", 1<<15), 1)))
	if l.aborted == "" {
		t.Error("a string of 32 KiB was taken")
	}
}

// A session holds no names that no topic can have: each of its fetches would ask for them.
func TestASessionTakesNoNameThatIsTooLong(t *testing.T) {
	n := startNode(t, t.TempDir())
	n.topic("t", 2)
	c := n.dial()
	r := fetchRequest(12, "t", kafka.TopicID{}, map[int32]int64{0: 0})
	r.SessionEpoch, r.MaxWaitMillis = 0, 0
	begun := c.do(r).(*kmsg.FetchResponse)
	if begun.SessionID == 0 {
		t.Fatal("no session")
	}
	r = fetchRequest(12, strings.Repeat("n", kafka.MaxTopicNameLength+1), kafka.TopicID{}, map[int32]int64{0: 0})
	r.SessionID, r.SessionEpoch = begun.SessionID, 1
	if resp := c.do(r).(*kmsg.FetchResponse); kafka.ErrorCode(resp.ErrorCode) != kafka.InvalidTopicException || len(resp.Topics) != 0 {
		t.Errorf("%v with %d topics", kafka.ErrorCode(resp.ErrorCode), len(resp.Topics))
	}
}
