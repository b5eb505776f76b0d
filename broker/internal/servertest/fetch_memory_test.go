package servertest

import (
	"context"
	"math"
	"runtime"
	"strings"
	"sync/atomic"
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
	left     int64
	aborted  string
	answered atomic.Int32 // by any goroutine
}

func (p *paying) Completed(*api.Call) { p.answered.Add(1) }

func (p *paying) Share(c *api.Call, n int64) bool {
	if n > p.left {
		return false
	}
	p.left -= n
	c.Slot.Share += n
	return true
}

func (p *paying) Park(c *api.Call, n int64) bool { return p.Share(c, max(n-c.Slot.Share, 0)) }

// Abort completes the call without an answer, as a connection does that closes.
func (p *paying) Abort(_ *api.Call, reason string) { p.aborted = reason }

func (p *paying) send(n *node, cl *api.Client, call *api.Call, r *kmsg.FetchRequest) {
	r.MaxWaitMillis = math.MaxInt32
	f := frame(1, r)[4:]
	p.Share(call, int64(len(f)))
	call.Client, call.Conn, call.Frame = cl, p, n.handlers.Pool.Get(len(f))
	copy(call.Frame.B, f)
	n.handlers.Serve(call, call.Frame.B)
}

// park sends a fetch that is to wait, and gives what its call holds then.
func (p *paying) park(t *testing.T, n *node, cl *api.Client, call *api.Call, r *kmsg.FetchRequest) int64 {
	t.Helper()
	waiting := n.waits.Len()
	p.send(n, cl, call, r)
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

// incremental is the next fetch of a session, which names nothing.
func incremental(session, epoch int32) *kmsg.FetchRequest {
	r := fetchRequest(12, "", kafka.TopicID{}, nil)
	r.Topics, r.SessionID, r.SessionEpoch = nil, session, epoch
	return r
}

// A fetch of a session names nothing and waits at all its partitions: it pays for them. Where there is no memory for that it waits a
// moment without them, unless it is a small one.
func TestAFetchThatWaitsPaysForItsPartitions(t *testing.T) {
	const partitions, least, most = 100, 376, 600
	n := startNode(t, t.TempDir())
	n.topic("t", partitions)
	r := manyParts(12, "t", partitions)
	r.SessionEpoch, r.MaxWaitMillis = 0, 0
	session := n.dial().do(r).(*kmsg.FetchResponse).SessionID
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	cl, p, epoch := &api.Client{Ctx: ctx}, &paying{left: 1 << 20}, int32(0)
	calls := []*api.Call{{}, {}, {}}
	for i, r := range []func() *kmsg.FetchRequest{
		func() *kmsg.FetchRequest { epoch++; return incremental(session, epoch) },
		func() *kmsg.FetchRequest { return manyParts(12, "t", partitions) },
	} {
		before := p.left
		held := p.park(t, n, cl, calls[i], r())
		if held < partitions*least || held > partitions*most || before-p.left != held {
			t.Errorf("fetch %d of %d partitions holds %d bytes while it waits, %d were taken", i, partitions, held, before-p.left)
		}
	}
	begin := manyParts(12, "t", partitions)
	begin.SessionEpoch = 0
	for i, r := range []*kmsg.FetchRequest{incremental(session, 2), manyParts(12, "t", partitions), begin} {
		p.left = 10_000
		p.send(n, cl, calls[2], r)
		if p.left < 5000 || int(p.answered.Load()) != i {
			t.Errorf("fetch %d without memory for it: %d bytes were taken, %d are answered", i, 10_000-p.left, p.answered.Load())
		}
		eventually(t, "an answer", func() bool { return int(p.answered.Load()) == i+1 })
		if told := len(calls[2].Answer.Head) / 30; n.waits.Len() != 2 || p.aborted != "" || (told >= partitions) != (i > 0) {
			t.Errorf("fetch %d without memory for it is answered with %d bytes %s", i, len(calls[2].Answer.Head), p.aborted)
		}
		new(loop).release(calls[2])
	}
	p.left = 100
	p.park(t, n, cl, calls[2], fetchRequest(12, "t", kafka.TopicID{}, map[int32]int64{0: 0}))
	cancel()
	for _, call := range calls {
		call.Cancel()
	}
	eventually(t, "they end", func() bool { return n.waits.Len() == 0 })
}

// The partitions of a session are paid for as those of a request are, before there is room for them. Without memory for all of them a
// fetch is of some, the next one of the others: the session goes on.
func TestAFetchOfALargeSessionPaysForIt(t *testing.T) {
	const partitions = 3000
	n := startNode(t, t.TempDir())
	r := manyParts(12, "missing", partitions)
	r.SessionEpoch = 0
	session := n.dial().do(r).(*kmsg.FetchResponse).SessionID
	cl, p, told := &api.Client{Ctx: context.Background()}, &paying{left: 100_000}, map[int32]bool{}
	fetch := func(epoch int32) (partitions int) {
		call := &api.Call{}
		p.send(n, cl, call, incremental(session, epoch))
		if p.aborted != "" || int(p.answered.Load()) != int(epoch) {
			t.Fatalf("fetch %d: %d are answered %s", epoch, p.answered.Load(), p.aborted)
		}
		resp := kmsg.NewPtrFetchResponse()
		resp.Version = 12
		if err := resp.ReadFrom(call.Answer.Head[9:]); err != nil || resp.SessionID != session || resp.ErrorCode != 0 {
			t.Fatalf("fetch %d: %+v %v", epoch, resp, err)
		}
		for _, topic := range resp.Topics {
			for _, part := range topic.Partitions {
				told[part.Partition] = true
				partitions++
			}
		}
		new(loop).release(call)
		return partitions
	}
	for epoch := int32(1); epoch <= 2; epoch++ {
		if got := fetch(epoch); got == 0 || got >= 2000 || p.left < 90_000 {
			t.Errorf("fetch %d without memory: %d partitions, %d bytes are left", epoch, got, p.left)
		}
	}
	if len(told) != partitions {
		t.Errorf("two fetches tell of %d partitions", len(told))
	}
	p.left = 2 << 20
	if got := fetch(3); got != partitions || p.left > 1<<20 {
		t.Errorf("with memory: %d partitions, %d bytes are left", got, p.left)
	}
}

// A large session of which there is no memory for all partitions waits a moment only: the next fetch is of others.
func TestALargeSessionWithoutMemoryWaitsAMoment(t *testing.T) {
	if testing.Short() {
		t.Skip("opens many partitions")
	}
	const partitions = 2100
	n := startNode(t, t.TempDir())
	n.topic("t", partitions)
	r := manyParts(12, "t", partitions)
	r.SessionEpoch, r.MaxWaitMillis = 0, 0
	session := n.dial().do(r).(*kmsg.FetchResponse).SessionID
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	cl, call, p := &api.Client{Ctx: ctx}, &api.Call{}, &paying{left: 10_000}
	for epoch := int32(1); epoch <= 2; epoch++ {
		p.park(t, n, cl, call, incremental(session, epoch))
		eventually(t, "an answer", func() bool { return p.answered.Load() == epoch })
		if p.aborted != "" || p.left < 9_000 {
			t.Errorf("fetch %d: %d bytes are left %s", epoch, p.left, p.aborted)
		}
		new(loop).release(call)
	}
	p.left = 2 << 20
	if held := p.park(t, n, cl, call, incremental(session, 3)); held < 400*partitions || held > 410*partitions {
		t.Errorf("with memory: it holds %d bytes", held)
	}
	cancel()
	call.Cancel()
	eventually(t, "it ends", func() bool { return n.waits.Len() == 0 })
}

// Fetches of idle consumers hold a quarter of the memory at most. Others wait a moment, and large sessions are served.
func TestIdleFetchesHoldAQuarterOfTheMemory(t *testing.T) {
	const partitions, budget = 200, 8 << 20
	n := startNode(t, t.TempDir(), "queued.max.request.bytes=8388608", "socket.request.max.bytes=4194304")
	n.topic("t", partitions)
	r := manyParts(12, "missing", 3000)
	r.SessionEpoch = 0
	large := n.dial()
	session := large.do(r).(*kmsg.FetchResponse).SessionID
	idle := manyParts(12, "t", partitions)
	idle.MaxWaitMillis = math.MaxInt32
	for i := range budget / 4 / (400 * partitions) {
		n.dial().send(idle)
		eventually(t, "it waits", func() bool { return n.waits.Len() == i+1 })
	}
	c := n.dial()
	for range 2 {
		if resp := c.do(idle).(*kmsg.FetchResponse); len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != partitions {
			t.Fatalf("%d topics", len(resp.Topics))
		}
	}
	if resp := large.do(incremental(session, 1)).(*kmsg.FetchResponse); len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 3000 {
		t.Errorf("%d topics of the large session", len(resp.Topics))
	}
}

// A partition that is named twice is answered once, with what was asked of it last, as in Kafka: it would else wait twice.
func TestAFetchAnswersAPartitionOnce(t *testing.T) {
	n := startNode(t, t.TempDir())
	other := n.topic("other", 1)
	id := n.topic("t", 3)
	c := n.dial()
	c.do(produceRequest(9, 1, "t", id, map[int32][]byte{1: batch(t, 1, make([]byte, 100))}))
	for _, version := range []int16{4, 12, 13, 18} {
		for _, epoch := range []int32{-1, 0} {
			r := fetchRequest(version, "t", id, map[int32]int64{0: 0, 1: 1, 2: 0})
			again := fetchRequest(version, "t", id, map[int32]int64{1: 0, 0: 0})
			r.SessionEpoch, r.MaxWaitMillis = epoch, 0
			r.Topics[0].Partitions = append(r.Topics[0].Partitions, again.Topics[0].Partitions[1])
			r.Topics = append(r.Topics, fetchRequest(version, "other", other, map[int32]int64{0: 0}).Topics[0], again.Topics[0], kmsg.NewFetchRequestTopic())
			r.Topics[3].Topic, r.Topics[3].TopicID = "t", id
			resp := c.do(r).(*kmsg.FetchResponse)
			if len(resp.Topics) != 2 || len(resp.Topics[0].Partitions) != 3 || len(resp.Topics[1].Partitions) != 1 {
				t.Fatalf("version %d, epoch %d: %+v", version, epoch, resp.Topics)
			}
			for i, p := range resp.Topics[0].Partitions {
				if p.Partition != int32(i) || p.ErrorCode != 0 || (len(p.RecordBatches) > 0) != (i == 1) {
					t.Errorf("version %d, epoch %d: partition %d: %v with %d bytes", version, epoch, p.Partition, kafka.ErrorCode(p.ErrorCode), len(p.RecordBatches))
				}
			}
		}
	}
}
