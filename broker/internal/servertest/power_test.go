package servertest

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/broker/config"
	"github.com/tidemark/tidemark/core/compress"
	"github.com/tidemark/tidemark/core/kafka"
	"github.com/tidemark/tidemark/core/record"
	"github.com/tidemark/tidemark/core/vfs"
)

// place is where a record was acknowledged, or seen by a consumer.
type place struct {
	partition int32
	offset    int64
}

// promises is what a broker has told its clients: the number of the record that lies at each place.
type promises struct {
	sync.Mutex
	acked, seen map[place]uint64
}

// powerLoss runs producers (acks 1 and all) and consumers against a node on a file system that remembers what was synced,
// lets the power fail at some moments, with a share of what was not synced surviving, and counts the places that a node
// started on what is left does not have as promised.
func powerLoss(t *testing.T, mode string, survival int, seed uint64) (promised, lost int) {
	t.Helper()
	settings := []string{"log.dirs=/data/a,/data/b", "node.id=0", "tidemark.fsync=" + mode, "log.segment.bytes=1048576"}
	load := func() *config.Broker {
		cfg, _, err := config.Load("", settings)
		must(t, err)
		return cfg
	}
	mem := vfs.NewCrashable(nil)
	n := startWith(t, load(), mem)
	const partitions = 4
	id := n.topic("t", partitions)
	told := &promises{acked: map[place]uint64{}, seen: map[place]uint64{}}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for i := range 4 {
		c := n.dial()
		wg.Go(func() { produceUntil(t, c, id, uint64(i), told, stop) })
	}
	for p := range int32(partitions) {
		c := n.dial()
		wg.Go(func() { consumeUntil(t, c, id, p, told, stop) })
	}
	rnd := rand.New(rand.NewPCG(seed, 1))
	var clones []*vfs.Mem
	var then []map[place]uint64
	for i := range 3 {
		told.reach(t, 60*(i+1))
		told.Lock()
		all := maps.Clone(told.acked)
		maps.Copy(all, told.seen)
		told.Unlock()
		then = append(then, all)
		clones = append(clones, mem.CrashClone(func() bool { return rnd.IntN(100) < survival }))
	}
	close(stop)
	wg.Wait()
	n.stop()
	for i, clone := range clones {
		n := startAt(t, load(), clone, func() string { return fmt.Sprintf("boot-%d", i) })
		n.topicWithID("t", id, partitions)
		have := readEverything(t, n.dial(), id, partitions)
		n.stop()
		promised += len(then[i])
		for at, number := range then[i] {
			if got, ok := have[at]; !ok || got != number {
				lost++
			}
		}
	}
	return promised, lost
}

// reach waits until n records are acknowledged.
func (p *promises) reach(t *testing.T, n int) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; {
		p.Lock()
		got := len(p.acked)
		p.Unlock()
		if got >= n {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d records are acknowledged, want %d", got, n)
		}
	}
}

func produceUntil(t *testing.T, c *client, id kafka.TopicID, producer uint64, told *promises, stop chan struct{}) {
	value := make([]byte, 40_000) // segments roll every 25 records
	for seq := uint64(0); ; seq++ {
		select {
		case <-stop:
			return
		default:
		}
		number := producer<<32 | seq
		binary.BigEndian.PutUint64(value, number)
		p := int32(seq) % 4
		r := produceRequest(9, int16(1-2*(seq/4%2)), "t", id, map[int32][]byte{p: batch(t, 1, value)})
		if _, err := c.c.Write(frame(1, r)); err != nil {
			t.Error(err)
			return
		}
		resp, _, err := c.tryReceive(r)
		if err != nil {
			t.Error(err)
			return
		}
		if a := produced(t, resp, 0); a.ErrorCode == 0 {
			told.Lock()
			told.acked[place{p, a.BaseOffset}] = number
			told.Unlock()
		} else {
			t.Errorf("%+v", a)
		}
	}
}

func consumeUntil(t *testing.T, c *client, id kafka.TopicID, p int32, told *promises, stop chan struct{}) {
	for from := int64(0); ; {
		select {
		case <-stop:
			return
		default:
		}
		got, err := readOnce(c, id, p, from)
		if err != nil {
			t.Error(err)
			return
		}
		told.Lock()
		maps.Copy(told.seen, got)
		told.Unlock()
		for at := range got {
			from = max(from, at.offset+1)
		}
	}
}

// readOnce fetches from an offset: the number of each record.
func readOnce(c *client, id kafka.TopicID, p int32, from int64) (map[place]uint64, error) {
	r := fetchRequest(12, "t", id, map[int32]int64{p: from})
	r.MaxWaitMillis = 20
	if _, err := c.c.Write(frame(1, r)); err != nil {
		return nil, err
	}
	resp, _, err := c.tryReceive(r)
	if err != nil {
		return nil, err
	}
	part := resp.(*kmsg.FetchResponse).Topics[0].Partitions[0]
	if part.ErrorCode != 0 {
		return nil, fmt.Errorf("fetch from %d: %w", from, kafka.ErrorCode(part.ErrorCode))
	}
	got := map[place]uint64{}
	codecs := compress.New()
	for rest := part.RecordBatches; len(rest) > 0; {
		b, after, err := record.Next(rest)
		if err != nil {
			break // the last one is cut
		}
		it, err := b.Records(codecs, 1<<20)
		if err != nil {
			return nil, err
		}
		for it.Next() {
			rec := it.Record()
			got[place{p, int64(b.BaseOffset()) + int64(rec.OffsetDelta)}] = binary.BigEndian.Uint64(rec.Value)
		}
		rest = after
	}
	return got, nil
}

func readEverything(t *testing.T, c *client, id kafka.TopicID, partitions int32) map[place]uint64 {
	t.Helper()
	have := map[place]uint64{}
	for p := range partitions {
		end := int64(-1)
		// After a start the end is known once what was found has been flushed.
		for deadline := time.Now().Add(patience); end < 0; {
			r := kmsg.NewPtrListOffsetsRequest()
			r.Version, r.ReplicaID = 5, -1
			rt := kmsg.NewListOffsetsRequestTopic()
			rp := kmsg.NewListOffsetsRequestTopicPartition()
			rp.Partition, rp.Timestamp = p, -1
			rt.Topic, rt.Partitions = "t", append(rt.Partitions, rp)
			r.Topics = append(r.Topics, rt)
			got := c.do(r).(*kmsg.ListOffsetsResponse).Topics[0].Partitions[0]
			if end = got.Offset; time.Now().After(deadline) {
				t.Fatalf("partition %d: %+v", p, got)
			}
		}
		for from := int64(0); from < end; {
			got, err := readOnce(c, id, p, from)
			must(t, err)
			if len(got) == 0 {
				t.Fatalf("partition %d: nothing at %d, the end is %d", p, from, end)
			}
			maps.Copy(have, got)
			offsets := slices.Collect(maps.Keys(got))
			from = slices.MaxFunc(offsets, func(a, b place) int { return int(a.offset - b.offset) }).offset + 1
		}
	}
	return have
}

// With tidemark.fsync=batch a power loss takes back nothing that was acknowledged and nothing that a consumer has seen,
// however much or little of the unsynced rest survives.
func TestPowerLossTakesNothingBackWithFsyncBatch(t *testing.T) {
	for i, survival := range []int{0, 50, 90} {
		seed := uint64(time.Now().UnixNano()) + uint64(i)
		promised, lost := powerLoss(t, "batch", survival, seed)
		if lost > 0 || promised == 0 {
			t.Fatalf("survival %d%%, seed %d: %d of %d records that were acknowledged or seen are lost", survival, seed, lost, promised)
		}
	}
}

// The same test with tidemark.fsync=kafka loses records: else the one above would prove nothing.
func TestPowerLossLosesRecordsWithFsyncKafka(t *testing.T) {
	if promised, lost := powerLoss(t, "kafka", 0, 1); lost == 0 {
		t.Fatalf("all of %d records survive without an fsync: the test cannot see a loss", promised)
	}
}
