package coordinator

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/broker/internal/group"
	"github.com/tidemark/tidemark/broker/internal/metadata"
	"github.com/tidemark/tidemark/core/kafka"
)

func TestJavaHash(t *testing.T) {
	// Java's own: "hello".hashCode() and so on.
	for s, want := range map[string]int32{"": 0, "a": 97, "hello": 99162322, "Aa": 2112, "BB": 2112,
		"polygenelubricants": -2147483648, "\U0001F600": 1772899} {
		if got := javaHash(s); got != want {
			t.Errorf("javaHash(%q) = %d, want %d", s, got, want)
		}
	}
}

func TestPartitionForSmallestHash(t *testing.T) {
	b := newFakeBroker(t, nil)
	if p := b.PartitionFor("polygenelubricants"); p != 0 {
		t.Errorf("partition %d, want 0 as Kafka's Utils.abs has it", p)
	}
}

func TestGroupSurvivesANewCoordinator(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newFakeBroker(t, nil).ready()
		b.createTopic("t", 1, nodeID, 0, 1)
		j := b.join("g", "")
		if j.ErrorCode != 0 || j.LeaderID != j.MemberID {
			t.Fatalf("join: %+v", j)
		}
		if s := b.sync("g", j.MemberID, j.Generation); string(s.MemberAssignment) != "all" {
			t.Fatalf("sync: %+v", s)
		}
		for i := range 3 {
			if code := b.commit("simple", "t", 1, int64(i)); code != kafka.None {
				t.Fatal(code)
			}
		}

		// The same logs, a new process that first sees the image: everything is there.
		again := newFakeBroker(t, b.logs)
		again.createTopic("t", 1, nodeID, 0, 1)
		again.createOffsetsTopic(1)
		again.ready()
		if off, code := again.committed("simple", "t", 1); off != 2 || code != kafka.None {
			t.Errorf("committed offset %d, %v", off, code)
		}
		if code := again.heartbeat("g", j.MemberID, j.Generation); code != kafka.None {
			t.Errorf("heartbeat: %v", code)
		}
		if l := again.list(); len(l.Groups) != 2 || l.Groups[0].Group != "g" || l.Groups[1].Group != "simple" {
			t.Errorf("list: %+v", l)
		}
		closeGroups(t, b, again)
	})
}

func closeGroups(t testing.TB, brokers ...*fakeBroker) {
	t.Helper()
	for _, b := range brokers {
		if err := b.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}
}

func TestAnswersWhileLoadingAndElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newFakeBroker(t, nil)
		if code := b.commit("g", "t", 1, 1); code != kafka.NotCoordinator {
			t.Errorf("without a topic: %v", code)
		}
		b.open = make(chan struct{})
		b.createTopic("t", 1, nodeID, 0, 1)
		b.createOffsetsTopic(0)
		if code := b.commit("g", "t", 1, 1); code != kafka.CoordinatorLoadInProgress {
			t.Errorf("while loading: %v", code)
		}
		if code := b.heartbeat("g", "m", 1); code != kafka.None {
			t.Errorf("heartbeat while loading: %v; a member must not be made to join again", code)
		}
		if l := b.list(); kafka.ErrorCode(l.ErrorCode) != kafka.CoordinatorLoadInProgress {
			t.Errorf("list while loading: %+v", l)
		}
		close(b.open)
		synctest.Wait()
		if code := b.commit("g", "t", 1, 1); code != kafka.None {
			t.Errorf("loaded: %v", code)
		}
		b.moveLeader(2, 1)
		if code := b.commit("g", "t", 1, 1); code != kafka.NotCoordinator {
			t.Errorf("led by another: %v", code)
		}
		b.apply(&metadata.RemoveTopicRecord{ID: kafka.TopicID{15: 1}})
		if l := b.list(); l.ErrorCode != 0 || len(l.Groups) != 0 {
			t.Errorf("list: %+v", l)
		}
		b.moveLeader(nodeID, 2)
		synctest.Wait()
		if off, code := b.committed("g", "t", 1); off != -1 || code != kafka.None {
			// Topic t is not in the image any more: its offset was removed on loading.
			t.Errorf("committed offset %d, %v", off, code)
		}
		closeGroups(t, b)
	})
}

func TestUnreadableLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newFakeBroker(t, map[kafka.Partition]*fakeLog{})
		b.createOffsetsTopic(1)
		b.ready()
		if code := b.commit("g", "t", 1, 1); code != kafka.NotCoordinator {
			t.Error(code)
		}
		if _, code := b.committed("g", "t", 1); code != kafka.NotCoordinator {
			t.Error(code)
		}
		fresh := newFakeBroker(t, map[kafka.Partition]*fakeLog{}).ready()
		fresh.createTopic("t", 1, nodeID, 0, 1)
		if code := fresh.commit("g", "t", 1, 1); code != kafka.NotCoordinator {
			t.Error(code)
		}
		closeGroups(t, b, fresh)
	})
}

// One partition that cannot be loaded hides its own groups, and no other's.
func TestListLeavesOutWhatCannotBeLoaded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newFakeBroker(t, nil).ready()
		b.createTopic("t", 1, nodeID, 0, 1)
		var names []string
		for i := range 20 {
			names = append(names, fmt.Sprint("g", i))
			b.commit(names[i], "t", 1, 1)
		}
		again := newFakeBroker(t, b.logs)
		lost := again.PartitionFor(names[0])
		again.logs[lost].broken = errors.New("input/output error")
		again.createTopic("t", 1, nodeID, 0, 1)
		again.createOffsetsTopic(1)
		again.ready()
		left := 0
		for _, name := range names {
			if again.PartitionFor(name) != lost {
				left++
			}
		}
		if l := again.list(); l.ErrorCode != 0 || len(l.Groups) != left || left == 0 {
			t.Errorf("list: %v with %d of %d groups", kafka.ErrorCode(l.ErrorCode), len(l.Groups), left)
		}
		closeGroups(t, b, again)
	})
}

// Java consumers before Kafka 3.9 do not try again on COORDINATOR_NOT_AVAILABLE when they fetch offsets.
func TestOverfullShardSendsFetchesAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newFakeBroker(t, nil).ready()
		s := (*b.shards.Load())[b.PartitionFor("g")]
		busy := make(chan struct{})
		s.post(message{run: func(*shard, group.Now) { <-busy }})
		synctest.Wait() // the loop has taken it
		for range maxQueued {
			s.post(message{run: func(*shard, group.Now) {}, refuse: func(code kafka.ErrorCode) { t.Error(code) }})
		}
		if _, code := b.committed("g", "t", 1); code != kafka.NotCoordinator {
			t.Errorf("OffsetFetch: %v", code)
		}
		if code := b.commit("g", "t", 1, 1); code != kafka.CoordinatorNotAvailable {
			t.Errorf("OffsetCommit: %v", code)
		}
		if l := b.list(); kafka.ErrorCode(l.ErrorCode) != kafka.CoordinatorNotAvailable {
			t.Errorf("ListGroups: %v", kafka.ErrorCode(l.ErrorCode))
		}
		close(busy)
		closeGroups(t, b)
	})
}

func TestLeadershipLossAnswersWhoWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newFakeBroker(t, nil).ready()
		b.createTopic("t", 1, nodeID, 0, 1)
		j := b.join("g", "")
		b.sync("g", j.MemberID, j.Generation)
		joined := make(chan int16, 1)
		go func() { joined <- b.join("g", "").ErrorCode }()
		log := b.logs[b.PartitionFor("g")]
		log.hold = true
		committed := make(chan kafka.ErrorCode, 1)
		neighbour := "g" // another group of the same partition
		for neighbour == "g" || b.PartitionFor(neighbour) != b.PartitionFor("g") {
			neighbour += "x"
		}
		go func() { committed <- b.commit(neighbour, "t", 1, 7) }()
		synctest.Wait()
		b.moveLeader(2, 1)
		if code := kafka.ErrorCode(<-joined); code != kafka.NotCoordinator {
			t.Errorf("parked JoinGroup: %v", code)
		}
		if code := <-committed; code != kafka.NotCoordinator {
			t.Errorf("commit whose append waits: %v", code)
		}
		log.release() // the outcome comes too late, and harms nobody
		synctest.Wait()
		closeGroups(t, b)
	})
}

func TestCommitsThatArriveTogetherShareABatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newFakeBroker(t, nil).ready()
		b.createTopic("t", 1, nodeID, 0, 1)
		s := (*b.shards.Load())[b.PartitionFor("g")]
		log := b.logs[s.p]
		// The loop is busy with one message while commits arrive.
		busy := make(chan struct{})
		s.post(message{run: func(*shard, group.Now) { <-busy }})
		const n = 200
		answers := make(chan kafka.ErrorCode, n)
		for i := range n {
			b.OffsetCommit(commitRequest("g", "t", 1, int64(i), ""), func(r *kmsg.OffsetCommitResponse) {
				answers <- kafka.ErrorCode(r.Topics[0].Partitions[0].ErrorCode)
			})
		}
		close(busy)
		for range n {
			if code := <-answers; code != kafka.None {
				t.Fatal(code)
			}
		}
		if got := log.count(); got > 2 {
			t.Errorf("%d commits took %d batches", n, got)
		}
		if off, _ := b.committed("g", "t", 1); off != n-1 {
			t.Errorf("committed %d: not the last one", off)
		}
		closeGroups(t, b)
	})
}

func TestBatchesStayBelowTheTopicsLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newFakeBroker(t, nil).ready()
		b.createTopic("t", 1, nodeID, 0, 1)
		log := b.logs[b.PartitionFor("g")]
		log.maxBatch = 2000
		s := (*b.shards.Load())[b.PartitionFor("g")]
		busy := make(chan struct{})
		s.post(message{run: func(*shard, group.Now) { <-busy }})
		answers := make(chan kafka.ErrorCode, 20)
		ask := func(metadata string) {
			b.OffsetCommit(commitRequest("g", "t", 1, 1, metadata), func(r *kmsg.OffsetCommitResponse) {
				answers <- kafka.ErrorCode(r.Topics[0].Partitions[0].ErrorCode)
			})
		}
		for range 19 {
			ask(strings.Repeat("x", 300))
		}
		ask(strings.Repeat("x", 3000)) // alone it is too large
		close(busy)
		refused := 0
		for range 20 {
			if <-answers == kafka.InvalidCommitOffsetSize {
				refused++
			}
		}
		if refused != 1 {
			t.Errorf("%d refused, want 1", refused)
		}
		for _, batch := range log.batches {
			if len(batch) > 2000 {
				t.Errorf("a batch of %d bytes", len(batch))
			}
		}
		closeGroups(t, b)
	})
}

func TestOffsetsOfDeletedTopicsGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newFakeBroker(t, nil).ready()
		b.createTopic("t", 1, nodeID, 0, 1)
		b.createTopic("u", 2, nodeID, 0, 1)
		b.commit("g", "t", 1, 5)
		b.commit("g", "u", 2, 6)
		b.apply(&metadata.RemoveTopicRecord{ID: kafka.TopicID{15: 1}})
		synctest.Wait()
		if off, _ := b.committed("g", "t", 0); off != -1 {
			t.Errorf("offset %d of a deleted topic", off)
		}
		if off, _ := b.committed("g", "u", 2); off != 6 {
			t.Errorf("offset of u: %d", off)
		}
		closeGroups(t, b)
	})
}

// TestACommitThatComesBehindItsTopicsEndIsRefused: whoever took it from its client saw the topic still. Its other topics are committed.
func TestACommitThatComesBehindItsTopicsEndIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newFakeBroker(t, nil).ready()
		b.createTopic("t", 1, nodeID, 0, 1)
		b.createTopic("u", 2, nodeID, 0, 1)
		late := commitRequest("g", "t", 1, 5, "")
		late.Topics = append(late.Topics, commitRequest("g", "u", 2, 6, "").Topics...)
		b.apply(&metadata.RemoveTopicRecord{ID: kafka.TopicID{15: 1}})
		b.createTopic("t", 3, nodeID, 0, 1) // its name is taken again
		for version, want := range map[int16]kafka.ErrorCode{9: kafka.UnknownTopicOrPartition, 10: kafka.UnknownTopicId} {
			req := *late
			req.Version, req.Topics = version, slices.Clone(late.Topics)
			r := wait(func(reply func(*kmsg.OffsetCommitResponse)) { b.OffsetCommit(&req, reply) })
			got := map[string]kafka.ErrorCode{}
			for _, topic := range r.Topics {
				got[topic.Topic] = kafka.ErrorCode(topic.Partitions[0].ErrorCode)
			}
			if len(r.Topics) != 2 || got["t"] != want || got["u"] != kafka.None || r.Version != version {
				t.Errorf("version %d: %v", r.Version, got)
			}
		}
		if code := b.commit("g", "t", 1, 5); code != kafka.UnknownTopicOrPartition {
			t.Errorf("of that topic alone: %v", code)
		}
		newer, _, err := b.image.Apply([]metadata.Record{&metadata.TopicRecord{Name: "v", ID: kafka.TopicID{15: 4}}}, b.offs+1)
		if err != nil {
			t.Fatal(err)
		}
		b.o.Image = func() *metadata.Image { return newer } // as Apply will tell
		if code := b.commit("h", "v", 4, 5); code != kafka.None {
			t.Errorf("of a topic that clients see already: %v", code)
		}
		all := wait(func(reply func([]kmsg.OffsetFetchResponseGroup)) {
			b.OffsetFetch([]kmsg.OffsetFetchRequestGroup{{Group: "g"}}, false, rich, reply)
		})
		if topics := all[0].Topics; len(topics) != 1 || topics[0].Topic != "u" || topics[0].Partitions[0].Offset != 6 {
			t.Errorf("committed: %+v", topics)
		}
		closeGroups(t, b)
	})
}

func TestDescribeOfManyGroupsKeepsTheirOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newFakeBroker(t, nil).ready()
		b.join("g1", "")
		req := kmsg.NewPtrDescribeGroupsRequest()
		req.Version, req.Groups = 6, []string{"x", "g1", "", "y", "g1"}
		r := wait(func(reply func(*kmsg.DescribeGroupsResponse)) { b.DescribeGroups(req, rich, reply) })
		var got []string
		for _, g := range r.Groups {
			got = append(got, fmt.Sprintf("%s %s %v", g.Group, g.State, kafka.ErrorCode(g.ErrorCode)))
		}
		want := "x Dead GROUP_ID_NOT_FOUND|g1 CompletingRebalance NONE| Dead GROUP_ID_NOT_FOUND|y Dead GROUP_ID_NOT_FOUND|g1  INVALID_REQUEST"
		if s := strings.Join(got, "|"); s != want {
			t.Errorf("got  %s\nwant %s", s, want)
		}
		closeGroups(t, b)
	})
}

// Old consumers commit for the group "", which nobody can join.
func TestTheGroupWithoutANameIsDescribed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newFakeBroker(t, nil).ready()
		b.createTopic("t", 1, nodeID, 0, 1)
		if code := b.commit("", "t", 1, 7); code != kafka.None {
			t.Fatal(code)
		}
		req := kmsg.NewPtrDescribeGroupsRequest()
		req.Version, req.Groups = 6, []string{""}
		r := wait(func(reply func(*kmsg.DescribeGroupsResponse)) { b.DescribeGroups(req, rich, reply) })
		if g := r.Groups[0]; g.ErrorCode != 0 || g.State != "Empty" {
			t.Errorf("%s, %v", g.State, kafka.ErrorCode(g.ErrorCode))
		}
		closeGroups(t, b)
	})
}

func TestIdleShardsHaveNoGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before := runtime.NumGoroutine()
		b := newFakeBroker(t, nil).ready()
		synctest.Wait()
		for _, s := range *b.shards.Load() {
			if s.mu.timer != nil {
				t.Errorf("partition %d has a timer without having a group", s.p)
			}
		}
		j := b.join("g", "")
		b.sync("g", j.MemberID, j.Generation)
		synctest.Wait()
		// One of an earlier test may end meanwhile, and the runtime has its own for moments.
		after := runtime.NumGoroutine()
		for i := 0; i < 100_000 && after > before; i++ {
			runtime.Gosched()
			after = runtime.NumGoroutine()
		}
		if after > before {
			t.Errorf("%d goroutines, %d before: a group at rest needs none", after, before)
		}
		// Deadlines fire all the same.
		<-time.After(11 * time.Second)
		synctest.Wait()
		if code := b.heartbeat("g", j.MemberID, j.Generation); code != kafka.UnknownMemberId {
			t.Errorf("heartbeat after the session timeout: %v", code)
		}
		closeGroups(t, b)
	})
}

func TestFailedAppendIsToldAsKafkaTellsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newFakeBroker(t, nil).ready()
		b.createTopic("t", 1, nodeID, 0, 1)
		log := b.logs[b.PartitionFor("g")]
		for append, answer := range map[kafka.ErrorCode]kafka.ErrorCode{
			kafka.NotEnoughReplicas:     kafka.CoordinatorNotAvailable,
			kafka.NotLeaderForPartition: kafka.NotCoordinator,
			kafka.KafkaStorageError:     kafka.NotCoordinator,
			kafka.MessageTooLarge:       kafka.InvalidCommitOffsetSize,
		} {
			log.refuse = append
			if code := b.commit("g", "t", 1, 1); code != answer {
				t.Errorf("append %v: answered %v, want %v", append, code, answer)
			}
		}
		log.refuse = kafka.None
		if off, _ := b.committed("g", "t", 1); off != -1 {
			t.Errorf("a failed commit counts: %d", off)
		}
		closeGroups(t, b)
	})
}

// TestNextEpochOfTheSameLeaderKeepsWhatIsLoaded: a broker's start gives its partitions the next leader epoch.
func TestNextEpochOfTheSameLeaderKeepsWhatIsLoaded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newFakeBroker(t, nil)
		opens := 0
		open := b.o.Open
		b.o.Open = func(p kafka.Partition) (Log, kafka.ErrorCode) {
			if p == 0 {
				opens++
			}
			return open(p)
		}
		b.createOffsetsTopic(4)
		b.moveLeader(nodeID, 5)
		synctest.Wait()
		b.moveLeader(nodeID, 6)
		synctest.Wait()
		if opens != 1 {
			t.Errorf("%d loads, want 1", opens)
		}
		b.moveLeader(nodeID, 8) // somebody else may have led with epoch 7
		synctest.Wait()
		if opens != 2 {
			t.Errorf("%d loads, want 2", opens)
		}
		closeGroups(t, b)
	})
}

// TestCompressedOffsetsTopic: offsets.topic.compression.codec packs what is written, and what is packed is loaded.
func TestCompressedOffsetsTopic(t *testing.T) {
	for codec := int32(1); codec <= 4; codec++ {
		synctest.Test(t, func(t *testing.T) {
			b := newFakeBroker(t, nil)
			b.o.Config.OffsetsTopicCompressionCodec = codec
			b.ready()
			b.createTopic("t", 1, nodeID, 0, 1)
			if code := b.commit("g", "t", 1, 42); code != kafka.None {
				t.Fatal(code)
			}
			if got := b.logs[b.PartitionFor("g")].batches[0].Codec(); int32(got) != codec {
				t.Errorf("codec %v, want number %d", got, codec)
			}
			again := newFakeBroker(t, b.logs)
			again.createTopic("t", 1, nodeID, 0, 1)
			again.createOffsetsTopic(1)
			again.ready()
			if off, code := again.committed("g", "t", 1); off != 42 || code != kafka.None {
				t.Errorf("codec %d: committed offset %d, %v", codec, off, code)
			}
			closeGroups(t, b, again)
		})
	}
}

// TestNewTopicOpensOnlyWhatIsUsed: of a topic that was created just now no partition is opened before its first record;
// one that was there before is loaded, even if its creation is seen again when the broker starts.
func TestNewTopicOpensOnlyWhatIsUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex // several partitions are loaded at once
		opened := map[kafka.Partition]int{}
		var b *fakeBroker
		count := func() {
			open := b.o.Open
			b.o.Open = func(p kafka.Partition) (Log, kafka.ErrorCode) {
				mu.Lock()
				opened[p]++
				mu.Unlock()
				return open(p)
			}
		}
		b = newFakeBroker(t, nil)
		count()
		b.ready()
		b.createTopic("t", 1, nodeID, 0, 1)
		if off, code := b.committed("g", "t", 1); off != -1 || code != kafka.None || len(opened) != 0 {
			t.Errorf("offset %d, %v, %d opened", off, code, len(opened))
		}
		b.commit("g", "t", 1, 7)
		b.commit("g", "t", 1, 8)
		if len(opened) != 1 || opened[b.PartitionFor("g")] != 1 {
			t.Errorf("opened %v", opened)
		}
		b.moveLeader(2, 1) // gives up the unused ones too
		b.moveLeader(nodeID, 2)
		synctest.Wait()
		if off, _ := b.committed("g", "t", 1); off != 8 || len(opened) != partitions {
			t.Errorf("offset %d, opened %v", off, opened)
		}

		clear(opened)
		again := newFakeBroker(t, b.logs)
		again.createTopic("t", 1, nodeID, 0, 1)
		again.createOffsetsTopic(0) // in the epoch of its creation
		synctest.Wait()
		if off, code := again.committed("g", "t", 1); off != 8 {
			t.Errorf("offset %d, %v after a start", off, code)
		}
		closeGroups(t, b, again)
	})
}

// A start opens no partition that is known to be empty; what is not empty is loaded.
func TestAStartLoadsOnlyWhatHoldsRecords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newFakeBroker(t, nil).ready()
		b.createTopic("t", 1, nodeID, 0, 1)
		if code := b.commit("g", "t", 1, 7); code != kafka.None {
			t.Fatal(code)
		}
		again := newFakeBroker(t, b.logs)
		again.empty = true
		again.createTopic("t", 1, nodeID, 0, 1)
		again.createOffsetsTopic(1)
		synctest.Wait()
		if n := again.opens.Load(); n != 1 {
			t.Errorf("a start opens %d partitions, one holds records", n)
		}
		if off, code := again.committed("g", "t", 1); off != 7 || code != kafka.None {
			t.Errorf("committed offset %d, %v", off, code)
		}
		for i := range 20 {
			group := fmt.Sprint("other-", i)
			if code := again.commit(group, "t", 1, int64(i)); code != kafka.None {
				t.Fatal(code)
			}
			if off, code := again.committed(group, "t", 1); off != int64(i) || code != kafka.None {
				t.Errorf("committed offset %d, %v", off, code)
			}
		}
		again.moveLeader(2, 2)
		again.moveLeader(nodeID, 4)
		synctest.Wait()
		if off, code := again.committed("g", "t", 1); off != 7 || code != kafka.None {
			t.Errorf("committed offset %d, %v after leadership came back", off, code)
		}
		closeGroups(t, b, again)
	})
}

// Partitions in a log folder that hangs keep their own groups waiting, and no other folder's.
func TestLoadsOfAFolderThatHangsHoldUpNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newFakeBroker(t, nil)
		until := make(chan struct{})
		b.stuck = map[kafka.Partition]chan struct{}{0: until, 2: until, 4: until}
		b.createTopic("t", 1, nodeID, 0, 1)
		b.createOffsetsTopic(1)
		synctest.Wait()
		seen := map[kafka.ErrorCode]bool{}
		for i := range 40 {
			group := fmt.Sprint("g", i)
			want := kafka.None
			if b.PartitionFor(group)%2 == 0 {
				want = kafka.CoordinatorLoadInProgress
			}
			if code := b.commit(group, "t", 1, 1); code != want {
				t.Errorf("partition %d: %v, want %v", b.PartitionFor(group), code, want)
			}
			seen[want] = true
		}
		if len(seen) != 2 {
			t.Fatal("the groups are all in one folder")
		}
		close(until)
		synctest.Wait()
		for i := range 40 {
			if code := b.commit(fmt.Sprint("g", i), "t", 1, 1); code != kafka.None {
				t.Errorf("when the disk answers: %v", code)
			}
		}
		closeGroups(t, b)
	})
}
