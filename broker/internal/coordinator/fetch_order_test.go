package coordinator

import (
	"testing"
	"testing/synctest"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/core/kafka"
)

// fetchTest is a group with offset 7 of t-0, and a log that holds back what is committed next.
type fetchTest struct {
	*fakeBroker
	log *fakeLog
}

// told is what a fetch says of the first partition of its answer.
type told struct {
	offset int64
	code   kafka.ErrorCode
}

func newFetchTest(t *testing.T) *fetchTest {
	b := newFakeBroker(t, nil).ready()
	b.createTopic("t", 1, nodeID, 0, 1)
	b.createTopic("u", 2, nodeID, 0, 1)
	b.commit("g", "t", 1, 7)
	return &fetchTest{b, b.logs[b.PartitionFor("g")]}
}

// commit sends a commit of t-0, which is held.
func (f *fetchTest) commit(offset int64) {
	f.log.mu.Lock()
	f.log.hold = true
	f.log.mu.Unlock()
	f.OffsetCommit(commitRequest("g", "t", 1, offset, ""), func(*kmsg.OffsetCommitResponse) {})
	synctest.Wait()
}

func (f *fetchTest) release() {
	f.log.release()
	synctest.Wait()
}

// ask sends a fetch of topics' partitions 0, by id; none asks for all.
func (f *fetchTest) ask(stable bool, topics ...byte) chan told {
	c := make(chan told, 2)
	var asked []kmsg.OffsetFetchRequestGroupTopic
	for _, id := range topics {
		asked = append(asked, kmsg.OffsetFetchRequestGroupTopic{Topic: string('t' + id - 1), TopicID: [16]byte{15: id}, Partitions: []int32{0}})
	}
	f.OffsetFetch([]kmsg.OffsetFetchRequestGroup{{Group: "g", Topics: asked}}, stable, rich, func(r []kmsg.OffsetFetchResponseGroup) {
		if r[0].ErrorCode != 0 {
			c <- told{0, kafka.ErrorCode(r[0].ErrorCode)}
			return
		}
		p := r[0].Topics[0].Partitions[0]
		c <- told{p.Offset, kafka.ErrorCode(p.ErrorCode)}
	})
	synctest.Wait()
	return c
}

func (f *fetchTest) expect(what string, c chan told, want told) {
	f.t.Helper()
	select {
	case got := <-c:
		if got != want {
			f.t.Errorf("%s: %+v, want %+v", what, got, want)
		}
	default:
		f.t.Errorf("%s waits", what)
	}
}

func (f *fetchTest) waits(what string, c chan told) {
	f.t.Helper()
	if len(c) > 0 {
		f.t.Errorf("%s is told %+v", what, <-c)
	}
}

// A client that commits and then asks, without waiting for the answer in between, is told what it has committed. A fetch waits for
// commits of what it asks for, and for no others.
func TestAFetchWaitsForTheCommitsBeforeIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFetchTest(t)
		f.commit(8)
		f.commit(9)
		named, all := f.ask(false, 1), f.ask(false)
		f.waits("a fetch of what is being committed", named)
		f.waits("a fetch of everything", all)
		f.expect("a fetch of something else", f.ask(false, 2), told{-1, kafka.None})
		f.expect("a stable fetch", f.ask(true, 1), told{-1, kafka.UnstableOffsetCommit})
		f.release()
		f.expect("a fetch of what was committed", named, told{9, kafka.None})
		f.expect("a fetch of everything", all, told{9, kafka.None})
		closeGroups(t, f.fakeBroker)
	})
}

// A commit that fails, or whose coordinator goes, lets go who waits for it.
func TestAFetchWaitsForACommitThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFetchTest(t)
		f.log.refuse = kafka.NotEnoughReplicas
		f.commit(10)
		named := f.ask(false, 1)
		f.waits("a fetch of what is being refused", named)
		f.release()
		f.log.refuse = kafka.None
		f.expect("a fetch of what was refused", named, told{7, kafka.None})
		f.commit(11)
		named = f.ask(false, 1)
		f.moveLeader(nodeID+1, 1)
		synctest.Wait()
		f.expect("a fetch at another's coordinator", named, told{0, kafka.NotCoordinator})
		f.release()
		closeGroups(t, f.fakeBroker)
	})
}

// A commit that takes too long is over for its client, and for who waits for it.
func TestAFetchWaitsNoLongerThanTheCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newFakeBroker(t, nil).ready()
		b.createTopic("t", 1, nodeID, 0, 1)
		b.commit("g", "t", 1, 7)
		log := b.logs[b.PartitionFor("g")]
		log.hold = true
		late := wait(func(reply func(*kmsg.OffsetCommitResponse)) {
			b.OffsetCommit(commitRequest("g", "t", 1, 8, ""), reply)
			if offset, code := b.committed("g", "t", 1); offset != 7 || code != kafka.None {
				t.Errorf("%d, %v", offset, code)
			}
		})
		if code := kafka.ErrorCode(late.Topics[0].Partitions[0].ErrorCode); code != kafka.CoordinatorNotAvailable {
			t.Errorf("%v, so that this test says nothing", code)
		}
		if offset, code := b.committed("g", "t", 1); offset != 7 || code != kafka.None {
			t.Errorf("%d, %v", offset, code)
		}
		log.release()
		synctest.Wait()
		if offset, code := b.committed("g", "t", 1); offset != 8 || code != kafka.None {
			t.Errorf("%d, %v", offset, code)
		}
		closeGroups(t, b)
	})
}
