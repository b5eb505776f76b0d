package servertest

import (
	"context"
	"math"
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

// paying is a connection of requests that hold memory, of which there is so much.
type paying struct {
	loop
	left int64
}

func (p *paying) Share(c *api.Call, n int64) bool {
	if n > p.left {
		return false
	}
	p.left -= n
	c.Slot.Share += n
	return true
}

// Abort completes the call without an answer, as a connection does that closes.
func (p *paying) Abort(_ *api.Call, reason string) { p.aborted = reason }

// park sends a fetch that is to wait, and gives what its call holds then.
func (p *paying) park(t *testing.T, n *node, cl *api.Client, call *api.Call, r *kmsg.FetchRequest) int64 {
	t.Helper()
	r.MaxWaitMillis = math.MaxInt32
	f := frame(1, r)[4:]
	waiting := n.waits.Len()
	p.Share(call, int64(len(f)))
	call.Client, call.Conn, call.Frame = cl, p, n.handlers.Pool.Get(len(f))
	copy(call.Frame.B, f)
	n.handlers.Serve(call, call.Frame.B)
	if n.waits.Len() != waiting+1 || p.aborted != "" {
		t.Fatalf("%d wait, %d did before; %s", n.waits.Len(), waiting, p.aborted)
	}
	return call.Slot.Share
}

// tagged adds so many bytes that nobody reads.
func tagged(r *kmsg.FetchRequest, bytes int) *kmsg.FetchRequest {
	r.UnknownTags.Set(77, make([]byte, bytes))
	return r
}

// A fetch that waits holds the memory of its partitions, not of its frame.
func TestAFetchThatWaitsHoldsNoFrame(t *testing.T) {
	n := startNode(t, t.TempDir())
	n.topic("t", 2)
	p := &paying{left: 64 << 20}
	call := &api.Call{}
	ctx, cancel := context.WithCancel(context.Background())
	held := p.park(t, n, &api.Client{Ctx: ctx}, call, tagged(fetchRequest(12, "t", kafka.TopicID{}, map[int32]int64{0: 0, 1: 0}), 1<<20))
	if held > 4000 {
		t.Errorf("a fetch of two partitions holds %d bytes while it waits", held)
	}
	cancel()
	call.Cancel()
	eventually(t, "it ends", func() bool { return n.waits.Len() == 0 })
}

// Consumers at the end of their logs that have sent large frames leave the memory to others.
func TestIdleFetchesLeaveTheMemoryToOthers(t *testing.T) {
	n := startNode(t, t.TempDir(), "queued.max.request.bytes=8388608", "socket.request.max.bytes=4194304")
	id := n.topic("t", 1)
	for i := range 4 {
		r := tagged(fetchRequest(12, "t", id, map[int32]int64{0: 0}), 4<<20-1000)
		r.MaxWaitMillis = math.MaxInt32
		n.dial().send(r)
		eventually(t, "it waits", func() bool { return n.waits.Len() == i+1 })
	}
	resp := n.dial().do(produceRequest(9, 1, "t", id, map[int32][]byte{0: batch(t, 1, make([]byte, 1_000_000))}))
	if p := produced(t, resp, 0); p.ErrorCode != 0 {
		t.Errorf("%+v", p)
	}
}
