package coordinator

import (
	"testing"
	"testing/synctest"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/core/kafka"
)

// A client that commits and then asks, without waiting for the answer in between, is told what it has committed. A fetch waits for
// commits of what it asks for, and for no others.
func TestAFetchWaitsForTheCommitsBeforeIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newFakeBroker(t, nil).ready()
		b.createTopic("t", 1, nodeID, 0, 1)
		b.createTopic("u", 2, nodeID, 0, 1)
		b.commit("g", "t", 1, 7)
		log := b.logs[b.PartitionFor("g")]
		type told struct {
			offset int64
			code   kafka.ErrorCode
		}
		ask := func(stable bool, topics ...kmsg.OffsetFetchRequestGroupTopic) chan told {
			c := make(chan told, 2)
			b.OffsetFetch([]kmsg.OffsetFetchRequestGroup{{Group: "g", Topics: topics}}, stable, rich, func(r []kmsg.OffsetFetchResponseGroup) {
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
		t0 := kmsg.OffsetFetchRequestGroupTopic{Topic: "t", TopicID: [16]byte{15: 1}, Partitions: []int32{0}}
		u0 := kmsg.OffsetFetchRequestGroupTopic{Topic: "u", TopicID: [16]byte{15: 2}, Partitions: []int32{0}}
		commit := func(offset int64) {
			log.mu.Lock()
			log.hold = true
			log.mu.Unlock()
			b.OffsetCommit(commitRequest("g", "t", 1, offset, ""), func(*kmsg.OffsetCommitResponse) {})
			synctest.Wait()
		}
		expect := func(what string, c chan told, want told) {
			t.Helper()
			select {
			case got := <-c:
				if got != want {
					t.Errorf("%s: %+v, want %+v", what, got, want)
				}
			default:
				t.Errorf("%s waits", what)
			}
		}
		waits := func(what string, c chan told) {
			t.Helper()
			if len(c) > 0 {
				t.Errorf("%s is told %+v", what, <-c)
			}
		}

		commit(8)
		commit(9)
		named, all := ask(false, t0), ask(false)
		waits("a fetch of what is being committed", named)
		waits("a fetch of everything", all)
		expect("a fetch of something else", ask(false, u0), told{-1, kafka.None})
		expect("a stable fetch", ask(true, t0), told{-1, kafka.UnstableOffsetCommit})
		log.release()
		synctest.Wait()
		expect("a fetch of what was committed", named, told{9, kafka.None})
		expect("a fetch of everything", all, told{9, kafka.None})

		log.refuse = kafka.NotEnoughReplicas
		commit(10)
		named = ask(false, t0)
		waits("a fetch of what is being refused", named)
		log.release()
		synctest.Wait()
		log.refuse = kafka.None
		expect("a fetch of what was refused", named, told{9, kafka.None})

		commit(11)
		named = ask(false, t0)
		b.moveLeader(nodeID+1, 1)
		synctest.Wait()
		expect("a fetch at another's coordinator", named, told{0, kafka.NotCoordinator})
		log.release()
		closeGroups(t, b)
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
