package servertest

import (
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/broker/internal/metadata"
	"github.com/tidemark/tidemark/core/kafka"
	"github.com/tidemark/tidemark/core/vfs/vfstest"
)

// TestAFetchOfAnOldClientIsNotToldOfStorage: a client that does not know KAFKA_STORAGE_ERROR gives up on it, and looks for another
// leader after the other.
func TestAFetchOfAnOldClientIsNotToldOfStorage(t *testing.T) {
	n, fault := faultyNode(t, nil)
	id := n.topic("t", 1)
	c := n.dial()
	put := func() { c.do(produceRequest(9, 1, "t", id, map[int32][]byte{0: batch(t, 1, []byte("x"))})) }
	put()
	var eio error = syscall.EIO
	fault.Store(&eio)
	put()
	fault.Store(nil)
	for version := int16(4); version <= 18; version++ {
		want := kafka.KafkaStorageError
		if version <= 5 {
			want = kafka.NotLeaderForPartition
		}
		p := fetched(t, c.do(fetchRequest(version, "t", id, map[int32]int64{0: 0})), 0)
		if code := kafka.ErrorCode(p.ErrorCode); code != want {
			t.Errorf("Fetch %d: %v, want %v", version, code, want)
		}
	}
}

// TestOffsetsThatMayNotBeToldYet: after a new leader epoch the end is told once the high watermark has reached its start. Clients from
// before OFFSET_NOT_AVAILABLE are told that there is no leader.
func TestOffsetsThatMayNotBeToldYet(t *testing.T) {
	d := newDisk()
	n := diskNode(t, d, "tidemark.fsync=batch")
	id := n.topic("t", 1)
	c, other := n.dial(), n.dial()
	var waiting atomic.Int32
	goOn := make(chan struct{})
	release := sync.OnceFunc(func() { close(goOn) })
	t.Cleanup(release)
	d.fail(func(op vfstest.Op) error {
		if op.Kind == "sync" && strings.HasSuffix(op.Name, ".log") {
			waiting.Add(1)
			<-goOn
		}
		return nil
	})
	put := produceRequest(9, 1, "t", id, map[int32][]byte{0: batch(t, 1, []byte("x"))})
	c.send(put)
	eventually(t, "the batch waits to be flushed", func() bool { return waiting.Load() > 0 })
	n.change(&metadata.PartitionsRecord{TopicID: id, Partitions: []metadata.Partition{led(2)}})
	ask := func(version int16) kmsg.ListOffsetsResponseTopicPartition {
		r := kmsg.NewPtrListOffsetsRequest()
		r.Version, r.ReplicaID = version, -1
		rp := kmsg.NewListOffsetsRequestTopicPartition()
		rp.Timestamp, rp.CurrentLeaderEpoch = -1, -1
		r.Topics = []kmsg.ListOffsetsRequestTopic{{Topic: "t", Partitions: []kmsg.ListOffsetsRequestTopicPartition{rp}}}
		return other.do(r).(*kmsg.ListOffsetsResponse).Topics[0].Partitions[0]
	}
	for version := int16(1); version <= 11; version++ {
		want := kafka.OffsetNotAvailable
		if version < 5 {
			want = kafka.LeaderNotAvailable
		}
		if p := ask(version); kafka.ErrorCode(p.ErrorCode) != want || p.Offset != -1 {
			t.Errorf("ListOffsets %d: %+v, want %v", version, p, want)
		}
	}
	release()
	c.receive(put)
	eventually(t, "the end is told", func() bool { p := ask(11); return p.ErrorCode == 0 && p.Offset == 1 })
}
