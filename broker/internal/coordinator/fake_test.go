package coordinator

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/broker/config"
	"github.com/tidemark/tidemark/broker/internal/metadata"
	"github.com/tidemark/tidemark/core/kafka"
	"github.com/tidemark/tidemark/core/record"
)

// fakeLog is a partition whose high watermark passes at once, unless it is held.
type fakeLog struct {
	mu       sync.Mutex
	batches  []record.Batch
	end      kafka.Offset
	held     []func()
	hold     bool
	refuse   kafka.ErrorCode
	maxBatch int
	forget   bool  // keep nothing: for benchmarks
	broken   error // what Read gives
}

func (l *fakeLog) Append(batch []byte, done func(kafka.ErrorCode)) {
	l.mu.Lock()
	code := l.refuse
	if code == kafka.None {
		b := record.Batch(batch)
		b.SetBaseOffset(l.end)
		l.end = b.LastOffset() + 1
		if !l.forget {
			l.batches = append(l.batches, slices.Clone(b))
		}
	}
	if l.hold {
		l.held = append(l.held, func() { done(code) })
		l.mu.Unlock()
		return
	}
	l.mu.Unlock()
	done(code)
}

func (l *fakeLog) release() {
	l.mu.Lock()
	held := l.held
	l.held, l.hold = nil, false
	l.mu.Unlock()
	for _, f := range held {
		f()
	}
}

func (l *fakeLog) Read(dst []byte, from kafka.Offset, maxBytes int) ([]byte, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.broken != nil {
		return dst, l.broken
	}
	for _, b := range l.batches {
		if b.LastOffset() < from || len(dst) > 0 && len(dst)+len(b) > maxBytes {
			continue
		}
		dst = append(dst, b...)
	}
	return dst, nil
}

func (l *fakeLog) LogStart() kafka.Offset { return 0 }
func (l *fakeLog) LogEnd() kafka.Offset   { l.mu.Lock(); defer l.mu.Unlock(); return l.end }
func (l *fakeLog) MaxBatchBytes() int     { return l.maxBatch }

func (l *fakeLog) count() int { l.mu.Lock(); defer l.mu.Unlock(); return len(l.batches) }

// fakeBroker is a Groups with its logs and its image.
type fakeBroker struct {
	*Groups
	t     testing.TB
	logs  map[kafka.Partition]*fakeLog
	image *metadata.Image
	open  chan struct{}                     // Open waits for it, when set
	stuck map[kafka.Partition]chan struct{} // Open of one waits for its own
	opens atomic.Int32
	empty bool // what is known to be empty is told
	offs  int64
}

const (
	nodeID     = 1
	offsetsID  = 9
	partitions = 5
)

func newFakeBroker(t testing.TB, logs map[kafka.Partition]*fakeLog) *fakeBroker {
	t.Helper()
	b := &fakeBroker{t: t, logs: logs, image: metadata.Empty()}
	if b.logs == nil {
		b.logs = map[kafka.Partition]*fakeLog{}
		for p := range kafka.Partition(partitions) {
			b.logs[p] = &fakeLog{maxBatch: 1 << 20}
		}
	}
	b.Groups = NewGroups(Options{
		NodeID: nodeID,
		Config: &config.Broker{
			GroupMinSessionTimeoutMS: 6000, GroupMaxSessionTimeoutMS: 1800000, GroupMaxSize: 1 << 30, OffsetsCommitTimeoutMS: 5000,
			OffsetMetadataMaxBytes: 4096, OffsetsRetentionMinutes: 60, OffsetsRetentionCheckIntervalMS: 600000,
			OffsetsTopicNumPartitions: partitions,
		},
		Open: func(p kafka.Partition) (Log, kafka.ErrorCode) {
			b.opens.Add(1)
			if b.open != nil {
				<-b.open
			}
			if c := b.stuck[p]; c != nil {
				<-c
			}
			if b.logs[p] == nil {
				return nil, kafka.KafkaStorageError
			}
			return b.logs[p], kafka.None
		},
		Empty:              func(p kafka.Partition) bool { return b.empty && b.logs[p] != nil && b.logs[p].LogEnd() == 0 },
		Folder:             func(p kafka.Partition) int { return int(p) % 2 },
		CreateOffsetsTopic: func(context.Context) error { b.createOffsetsTopic(0); return nil },
		NowMS:              func() int64 { return 1_700_000_000_000 },
		Logger:             slog.New(slog.DiscardHandler),
	})
	return b
}

func (b *fakeBroker) apply(records ...metadata.Record) {
	b.t.Helper()
	b.offs++
	img, d, err := b.image.Apply(records, b.offs)
	if err != nil {
		b.t.Fatal(err)
	}
	b.image = img
	b.Apply(img, d)
}

func (b *fakeBroker) createTopic(name string, id byte, leader kafka.BrokerID, epoch kafka.LeaderEpoch, n int) {
	topicID := kafka.TopicID{15: id}
	parts := make([]metadata.Partition, n)
	for i := range parts {
		parts[i] = metadata.Partition{Leader: leader, LeaderEpoch: epoch, Replicas: []kafka.BrokerID{nodeID}, ISR: []kafka.BrokerID{nodeID}}
	}
	b.apply(&metadata.TopicRecord{Name: name, ID: topicID}, &metadata.PartitionsRecord{TopicID: topicID, Partitions: parts})
}

func (b *fakeBroker) createOffsetsTopic(epoch kafka.LeaderEpoch) {
	b.createTopic(kafka.OffsetsTopic, offsetsID, nodeID, epoch, partitions)
}

// moveLeader makes another broker, or this one, the leader of all partitions of the topic.
func (b *fakeBroker) moveLeader(leader kafka.BrokerID, epoch kafka.LeaderEpoch) {
	parts := make([]metadata.Partition, partitions)
	for i := range parts {
		parts[i] = metadata.Partition{Leader: leader, LeaderEpoch: epoch, Replicas: []kafka.BrokerID{nodeID}, ISR: []kafka.BrokerID{nodeID}}
	}
	b.apply(&metadata.PartitionsRecord{TopicID: kafka.TopicID{15: offsetsID}, Partitions: parts})
}

// ready creates __consumer_offsets and waits until it is loaded.
func (b *fakeBroker) ready() *fakeBroker {
	b.t.Helper()
	if err := b.EnsureTopic(context.Background()); err != nil {
		b.t.Fatal(err)
	}
	for _, s := range *b.shards.Load() {
		<-s.loading()
	}
	return b
}

// rich can afford everything.
func rich(int64) bool { return true }

// wait makes an asynchronous call a synchronous one.
func wait[R any](call func(reply func(R))) R {
	c := make(chan R, 2)
	call(func(r R) { c <- r })
	return <-c
}

func (b *fakeBroker) join(groupID, memberID string) *kmsg.JoinGroupResponse {
	req := kmsg.NewPtrJoinGroupRequest()
	req.Version, req.Group, req.MemberID, req.ProtocolType = 3, groupID, memberID, "consumer"
	req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = 10000, 60000
	req.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: []byte("m")}}
	return wait(func(reply func(*kmsg.JoinGroupResponse)) { b.JoinGroup(Client{ID: "c", Host: "/h"}, req, reply) })
}

func (b *fakeBroker) sync(groupID, memberID string, generation int32) *kmsg.SyncGroupResponse {
	req := kmsg.NewPtrSyncGroupRequest()
	req.Version, req.Group, req.MemberID, req.Generation = 3, groupID, memberID, generation
	req.GroupAssignment = []kmsg.SyncGroupRequestGroupAssignment{{MemberID: memberID, MemberAssignment: []byte("all")}}
	return wait(func(reply func(*kmsg.SyncGroupResponse)) { b.SyncGroup(Client{}, req, reply) })
}

func (b *fakeBroker) heartbeat(groupID, memberID string, generation int32) kafka.ErrorCode {
	req := kmsg.NewPtrHeartbeatRequest()
	req.Group, req.MemberID, req.Generation = groupID, memberID, generation
	return kafka.ErrorCode(wait(func(reply func(*kmsg.HeartbeatResponse)) { b.Heartbeat(req, reply) }).ErrorCode)
}

func commitRequest(groupID, topic string, id byte, offset int64, metadata string) *kmsg.OffsetCommitRequest {
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Version, req.Group, req.Generation = 9, groupID, -1
	req.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: topic, TopicID: [16]byte{15: id},
		Partitions: []kmsg.OffsetCommitRequestTopicPartition{{Offset: offset, LeaderEpoch: -1, Metadata: &metadata}}}}
	return req
}

func (b *fakeBroker) commit(groupID, topic string, id byte, offset int64) kafka.ErrorCode {
	r := wait(func(reply func(*kmsg.OffsetCommitResponse)) {
		b.OffsetCommit(commitRequest(groupID, topic, id, offset, ""), reply)
	})
	return kafka.ErrorCode(r.Topics[0].Partitions[0].ErrorCode)
}

// committed fetches partition 0 of a topic: its offset, or minus the error.
func (b *fakeBroker) committed(groupID, topic string, id byte) (int64, kafka.ErrorCode) {
	req := kmsg.OffsetFetchRequestGroup{Group: groupID,
		Topics: []kmsg.OffsetFetchRequestGroupTopic{{Topic: topic, TopicID: [16]byte{15: id}, Partitions: []int32{0}}}}
	r := wait(func(reply func([]kmsg.OffsetFetchResponseGroup)) {
		b.OffsetFetch([]kmsg.OffsetFetchRequestGroup{req}, false, rich, reply)
	})
	if r[0].ErrorCode != 0 {
		return 0, kafka.ErrorCode(r[0].ErrorCode)
	}
	return r[0].Topics[0].Partitions[0].Offset, kafka.None
}

func (b *fakeBroker) list() *kmsg.ListGroupsResponse {
	return wait(func(reply func(*kmsg.ListGroupsResponse)) { b.ListGroups(kmsg.NewPtrListGroupsRequest(), rich, reply) })
}
