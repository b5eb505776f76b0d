package servertest

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/broker/config"
	"github.com/tidemark/tidemark/broker/internal/logdir"
	"github.com/tidemark/tidemark/broker/internal/metadata"
	"github.com/tidemark/tidemark/core/compress"
	"github.com/tidemark/tidemark/core/kafka"
	"github.com/tidemark/tidemark/core/record"
	"github.com/tidemark/tidemark/core/vfs"
)

func sequenced(t testing.TB, id kafka.ProducerID, seq int32, n int) []byte {
	t.Helper()
	b := record.NewBuilder(compress.New(), compress.None, 0)
	ts := time.Now().UnixMilli()
	b.Reset(ts, id, 0, seq, 0)
	for range n {
		b.Append(ts, nil, []byte("v"))
	}
	out, err := b.Finish(nil)
	must(t, err)
	return out
}

func TestDuplicatesAreAnsweredWithTheirFirstOffset(t *testing.T) {
	n := startNode(t, t.TempDir())
	id := n.topic("t", 1)
	c := n.dial()
	put := func(seq int32, records int) kmsg.ProduceResponseTopicPartition {
		return produced(t, c.do(produceRequest(9, -1, "t", id, map[int32][]byte{0: sequenced(t, 5, seq, records)})), 0)
	}
	for i := int32(0); i < 6; i++ {
		if p := put(2*i, 2); p.ErrorCode != 0 || p.BaseOffset != int64(2*i) {
			t.Fatalf("batch %d: %+v", i, p)
		}
	}
	for i := int32(1); i < 6; i++ {
		if p := put(2*i, 2); p.ErrorCode != 0 || p.BaseOffset != int64(2*i) {
			t.Fatalf("duplicate of batch %d: %+v", i, p)
		}
	}
	if p := put(20, 1); kafka.ErrorCode(p.ErrorCode) != kafka.OutOfOrderSequenceNumber {
		t.Fatalf("a gap: %+v", p)
	}
	if p := put(12, 1); p.ErrorCode != 0 || p.BaseOffset != 12 {
		t.Fatalf("the next batch: %+v", p)
	}
}

// Many connections write one partition: their appends are combined, and every record has its own offset.
func TestCombinedAppendsKeepEveryRecord(t *testing.T) {
	n := startNode(t, t.TempDir())
	id := n.topic("t", 1)
	const conns, each, window = 8, 200, 10
	var mu sync.Mutex
	seen := map[int64]bool{}
	var wg sync.WaitGroup
	for range conns {
		c := n.dial()
		wg.Add(1)
		go func() {
			defer wg.Done()
			r := produceRequest(9, -1, "t", id, map[int32][]byte{0: batch(t, 1, []byte("v"))})
			last := int64(-1)
			for range each / window {
				for range window {
					c.send(r)
				}
				for range window {
					resp, _ := c.receive(r)
					p := produced(t, resp, 0)
					mu.Lock()
					if p.ErrorCode != 0 || seen[p.BaseOffset] || p.BaseOffset <= last {
						t.Errorf("%+v after %d", p, last)
					}
					seen[p.BaseOffset] = true
					mu.Unlock()
					last = p.BaseOffset
				}
			}
		}()
	}
	wg.Wait()
	if len(seen) != conns*each || !seen[conns*each-1] {
		t.Fatalf("%d offsets, want %d", len(seen), conns*each)
	}
}

func listOffset(t testing.TB, c *client, topic string, ts int64) kmsg.ListOffsetsResponseTopicPartition {
	t.Helper()
	r := kmsg.NewPtrListOffsetsRequest()
	r.Version, r.ReplicaID = 8, -1
	rt := kmsg.NewListOffsetsRequestTopic()
	rt.Topic = topic
	rp := kmsg.NewListOffsetsRequestTopicPartition()
	rp.Timestamp, rp.CurrentLeaderEpoch = ts, -1
	rt.Partitions = append(rt.Partitions, rp)
	r.Topics = append(r.Topics, rt)
	return c.do(r).(*kmsg.ListOffsetsResponse).Topics[0].Partitions[0]
}

func TestListOffsetsKnowsEverySpecialTime(t *testing.T) {
	n := startNode(t, t.TempDir())
	id := n.topic("t", 1)
	c := n.dial()
	before := time.Now().UnixMilli()
	c.do(produceRequest(9, 1, "t", id, map[int32][]byte{0: batch(t, 3, []byte("x"))}))
	for ts, want := range map[int64]int64{-1: 3, -2: 0, -3: 0, -4: 0, before: 0, before + 1e7: -1} {
		if p := listOffset(t, c, "t", ts); p.ErrorCode != 0 || p.Offset != want {
			t.Errorf("time %d: %+v, want offset %d", ts, p, want)
		}
	}
	if p := listOffset(t, c, "t", -9); kafka.ErrorCode(p.ErrorCode) != kafka.UnsupportedVersion {
		t.Errorf("an unknown time: %+v", p)
	}
}

func TestACleanStopIsReadFromTheManifest(t *testing.T) {
	dir := t.TempDir()
	n := startNode(t, dir)
	id := n.topic("t", 3)
	c := n.dial()
	for i := int32(0); i < 2; i++ {
		c.do(produceRequest(9, 1, "t", id, map[int32][]byte{i: batch(t, 5, []byte("x"))}))
	}
	n.stop()
	for _, f := range []string{"meta.properties", ".kafka_cleanshutdown", "tidemark-manifest", "recovery-point-offset-checkpoint", "replication-offset-checkpoint", "t-0/partition.metadata"} {
		if _, err := os.Stat(filepath.Join(dir, f)); err != nil {
			t.Errorf("after a clean stop: %v", err)
		}
	}
	n = startNode(t, dir)
	n.topicWithID("t", id, 3)
	if _, err := os.Stat(filepath.Join(dir, ".kafka_cleanshutdown")); err == nil {
		t.Error("the clean mark stays while the broker runs")
	}
	for i, empty := range []bool{false, false, true} {
		if got := n.set.Empty("t", kafka.Partition(i)); got != empty {
			t.Errorf("partition %d is empty: %v", i, got)
		}
	}
	if open := n.set.Open(); open != 0 {
		t.Errorf("%d partitions are open before their first use", open)
	}
	c = n.dial()
	if p := listOffset(t, c, "t", -1); p.Offset != 5 {
		t.Errorf("log end %+v, want 5", p)
	}
}

func TestAnUncleanStopLosesNothingWritten(t *testing.T) {
	dir := t.TempDir()
	n := startNode(t, dir)
	id := n.topic("t", 1)
	n.dial().do(produceRequest(9, 1, "t", id, map[int32][]byte{0: batch(t, 7, []byte("x"))}))
	// A kill leaves the folder as it is now; the copy has no clean mark.
	other := t.TempDir()
	must(t, os.CopyFS(other, os.DirFS(dir)))
	n2 := startNode(t, other)
	n2.topicWithID("t", id, 1)
	if p := listOffset(t, n2.dial(), "t", -1); p.Offset != 7 {
		t.Fatalf("log end %+v, want 7", p)
	}
}

func TestADeletedTopicAnswersAndItsFolderGoes(t *testing.T) {
	dir := t.TempDir()
	n := startNode(t, dir)
	id := n.topic("t", 1, "file.delete.delay.ms", "0")
	c := n.dial()
	c.do(produceRequest(9, 1, "t", id, map[int32][]byte{0: batch(t, 7, []byte("x"))}))
	f := fetchRequest(12, "t", id, map[int32]int64{0: 7})
	f.MaxWaitMillis = 60_000
	c.send(f)
	n.change(&metadata.RemoveTopicRecord{ID: id})
	resp, _ := c.receive(f)
	if p := fetched(t, resp, 0); kafka.ErrorCode(p.ErrorCode) != kafka.UnknownTopicOrPartition {
		t.Fatalf("a fetch that waited: %+v", p)
	}
	deadline := time.Now().Add(15 * time.Second)
	n.set.AwaitDeleted(context.Background(), id)
	for {
		left, err := filepath.Glob(filepath.Join(dir, "t-0*"))
		must(t, err)
		if len(left) == 0 {
			break
		}
		if time.Now().After(deadline) || !strings.HasSuffix(left[0], "-delete") {
			t.Fatalf("still there: %v", left)
		}
		c.do(kmsg.NewPtrApiVersionsRequest())
	}
	id2 := n.topic("t", 1)
	if p := produced(t, c.do(produceRequest(9, 1, "t", id2, map[int32][]byte{0: batch(t, 1, []byte("x"))})), 0); p.ErrorCode != 0 || p.BaseOffset != 0 {
		t.Fatalf("the topic made again: %+v", p)
	}
}

func TestATopicGrowsAndIsMadeAgainInOneChange(t *testing.T) {
	n := startNode(t, t.TempDir())
	id := n.topic("t", 1)
	c := n.dial()
	put := func(id kafka.TopicID, part int32) kmsg.ProduceResponseTopicPartition {
		return produced(t, c.do(produceRequest(13, 1, "", id, map[int32][]byte{part: batch(t, 1, []byte("x"))})), 0)
	}
	if p := put(id, 0); p.ErrorCode != 0 {
		t.Fatalf("%+v", p)
	}
	part := metadata.Partition{Leader: 0, LeaderEpoch: 7, Replicas: []kafka.BrokerID{0}, ISR: []kafka.BrokerID{0}}
	n.change(&metadata.PartitionsRecord{TopicID: id, First: 1, Partitions: []metadata.Partition{part, part}})
	for i, want := range []int64{1, 0, 0} {
		if p := put(id, int32(i)); p.ErrorCode != 0 || p.BaseOffset != want {
			t.Fatalf("partition %d: %+v", i, p)
		}
	}
	again := kafka.TopicID{9}
	n.change(&metadata.RemoveTopicRecord{ID: id}, &metadata.TopicRecord{Name: "t", ID: again},
		&metadata.PartitionsRecord{TopicID: again, Partitions: []metadata.Partition{part}})
	if p := put(again, 0); p.ErrorCode != 0 || p.BaseOffset != 0 {
		t.Fatalf("%+v", p)
	}
	if p := put(id, 0); kafka.ErrorCode(p.ErrorCode) != kafka.UnknownTopicId {
		t.Fatalf("%+v", p)
	}
}

func TestANewLeaderEpochIsInTheBatchesBehindIt(t *testing.T) {
	n := startNode(t, t.TempDir())
	id := n.topic("t", 1)
	c := n.dial()
	for epoch := kafka.LeaderEpoch(1); epoch <= 3; epoch++ {
		if epoch > 1 {
			n.change(&metadata.LeaderEpochsRecord{Leader: 0})
		}
		c.do(produceRequest(9, 1, "t", id, map[int32][]byte{0: batch(t, 1, []byte("x"))}))
		p := fetched(t, c.do(fetchRequest(12, "t", id, map[int32]int64{0: int64(epoch) - 1})), 0)
		if b, _, err := record.Next(p.RecordBatches); err != nil || b.PartitionLeaderEpoch() != epoch {
			t.Fatalf("epoch %d: %v %v", epoch, b.PartitionLeaderEpoch(), err)
		}
	}
	f := fetchRequest(12, "t", id, map[int32]int64{0: 0})
	for epoch, want := range map[int32]kafka.ErrorCode{2: kafka.FencedLeaderEpoch, 3: kafka.None, 4: kafka.UnknownLeaderEpoch, -1: kafka.None} {
		f.Topics[0].Partitions[0].CurrentLeaderEpoch = epoch
		if p := fetched(t, c.do(f), 0); kafka.ErrorCode(p.ErrorCode) != want {
			t.Errorf("epoch %d: %v, want %v", epoch, kafka.ErrorCode(p.ErrorCode), want)
		}
	}
}

func TestAFolderOfAnotherNodeIsRefused(t *testing.T) {
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "meta.properties"), []byte("version=1\nnode.id=9\ncluster.id=x\n"), 0o600))
	cfg, _, err := config.Load("", []string{"log.dirs=" + dir, "node.id=0"})
	must(t, err)
	_, err = logdir.Open(logdir.Options{FS: vfs.OS{}, Dirs: cfg.LogDirs, NodeID: 0, Config: cfg})
	if err == nil || !strings.Contains(err.Error(), "node.id 9") {
		t.Fatalf("a folder of node 9: %v", err)
	}
}

func TestSessionsAnswerWithNewsOnly(t *testing.T) {
	n := startNode(t, t.TempDir())
	id := n.topic("t", 3)
	c := n.dial()
	for _, v := range []int16{7, 12, 13, 18} {
		end := listOffset(t, c, "t", -1).Offset
		f := fetchRequest(v, "t", id, map[int32]int64{0: end, 1: 0, 2: 0})
		f.SessionEpoch, f.MaxWaitMillis, f.MinBytes = 0, 10, 0
		full := c.do(f).(*kmsg.FetchResponse)
		if full.SessionID == 0 || len(full.Topics[0].Partitions) != 3 {
			t.Fatalf("version %d: a full fetch: %+v", v, full)
		}
		next := kmsg.NewPtrFetchRequest()
		next.Version, next.SessionID, next.SessionEpoch, next.MaxBytes, next.ReplicaID = v, full.SessionID, 1, 1<<20, -1
		if r := c.do(next).(*kmsg.FetchResponse); r.ErrorCode != 0 || len(r.Topics) != 0 || r.SessionID != full.SessionID {
			t.Fatalf("version %d: nothing is new: %+v", v, r)
		}
		c.do(produceRequest(9, 1, "t", id, map[int32][]byte{0: batch(t, 1, []byte("x"))}))
		next.SessionEpoch = 2
		if r := c.do(next).(*kmsg.FetchResponse); len(r.Topics) != 1 || len(r.Topics[0].Partitions) != 1 || r.Topics[0].Partitions[0].HighWatermark != end+1 {
			t.Fatalf("version %d: one has news: %+v", v, r)
		}
		if r := c.do(next).(*kmsg.FetchResponse); kafka.ErrorCode(r.ErrorCode) != kafka.InvalidFetchSessionEpoch {
			t.Fatalf("version %d: an old epoch: %+v", v, r)
		}
		next.SessionID, next.SessionEpoch = full.SessionID, -1
		c.do(next)
		next.SessionEpoch = 3
		if r := c.do(next).(*kmsg.FetchResponse); kafka.ErrorCode(r.ErrorCode) != kafka.FetchSessionIdNotFound {
			t.Fatalf("version %d: an ended session: %+v", v, r)
		}
	}
}

func TestTopicSettingsTakeEffectWhileTheTopicIsUsed(t *testing.T) {
	n := startNode(t, t.TempDir())
	id := n.topic("t", 1)
	c := n.dial()
	big := func() *kmsg.ProduceRequest {
		return produceRequest(9, 1, "t", id, map[int32][]byte{0: batch(t, 1, make([]byte, 3000))})
	}
	if p := produced(t, c.do(big()), 0); p.ErrorCode != 0 {
		t.Fatalf("%+v", p)
	}
	n.change(&metadata.ConfigRecord{Kind: metadata.TopicResource, Name: "t", Key: "max.message.bytes", Value: "1000"},
		&metadata.ConfigRecord{Kind: metadata.TopicResource, Name: "t", Key: "message.timestamp.type", Value: "LogAppendTime"},
		&metadata.ConfigRecord{Kind: metadata.TopicResource, Name: "t", Key: "compression.type", Value: "zstd"})
	if p := produced(t, c.do(big()), 0); kafka.ErrorCode(p.ErrorCode) != kafka.MessageTooLarge {
		t.Fatalf("%+v", p)
	}
	p := produced(t, c.do(produceRequest(9, 1, "t", id, map[int32][]byte{0: batch(t, 3, []byte("x"))})), 0)
	if p.ErrorCode != 0 || p.LogAppendTime <= 0 {
		t.Fatalf("%+v", p)
	}
	f := fetched(t, c.do(fetchRequest(12, "t", id, map[int32]int64{0: 1})), 0)
	b, _, err := record.Next(f.RecordBatches)
	must(t, err)
	if b.Codec() != compress.Zstd || b.TimestampType() != record.LogAppendTime || b.CRC() != b.ComputeCRC() || b.MaxTimestamp() != p.LogAppendTime || b.NumRecords() != 3 {
		t.Fatalf("stored batch: codec %v, time type %v, %d records", b.Codec(), b.TimestampType(), b.NumRecords())
	}
}
