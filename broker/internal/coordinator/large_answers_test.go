package coordinator

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/core/kafka"
)

// Answers are given as far as there is memory for them; who gets none is told to ask again. Small answers need none.
func TestLargeAnswersTakeMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newFakeBroker(t, nil).ready()
		b.createTopic("t", 1, nodeID, 0, 1)
		const groups, metadataBytes = 200, 4000
		long := strings.Repeat("m", metadataBytes)
		var names []string
		var asked []kmsg.OffsetFetchRequestGroup
		for i := range groups {
			name := fmt.Sprintf("%s%d", strings.Repeat("g", 1000), i)
			names = append(names, name)
			asked = append(asked, kmsg.OffsetFetchRequestGroup{Group: name})
			r := wait(func(reply func(*kmsg.OffsetCommitResponse)) {
				b.OffsetCommit(commitRequest(name, "t", 1, 7, long), reply)
			})
			if code := kafka.ErrorCode(r.Topics[0].Partitions[0].ErrorCode); code != kafka.None {
				t.Fatal(code)
			}
		}
		taken := int64(0)
		upTo := func(most int64) Afford {
			taken = 0
			return func(n int64) bool {
				if taken+n > most {
					return false
				}
				taken += n
				return true
			}
		}
		for _, most := range []int64{0, 400_000, 1 << 40} {
			out := wait(func(reply func([]kmsg.OffsetFetchResponseGroup)) { b.OffsetFetch(asked, false, upTo(most), reply) })
			told, bytes := 0, int64(0)
			for _, g := range out {
				switch code := kafka.ErrorCode(g.ErrorCode); {
				case code == kafka.None && len(g.Topics) == 1:
					told++
					bytes += int64(len(g.Group) + len(*g.Topics[0].Partitions[0].Metadata))
				case code != kafka.NotCoordinator || len(g.Topics) != 0:
					t.Fatalf("%d bytes: %v with %d topics", most, code, len(g.Topics))
				}
			}
			if told == 0 || (told == groups) != (most > 1<<30) || bytes > taken+freeAnswerBytes {
				t.Errorf("%d bytes: %d groups are told, in %d bytes for %d", most, told, bytes, taken)
			}
		}
		for most, want := range map[int64]kafka.ErrorCode{1000: kafka.CoordinatorNotAvailable, 1 << 40: kafka.None} {
			r := wait(func(reply func(*kmsg.ListGroupsResponse)) {
				b.ListGroups(kmsg.NewPtrListGroupsRequest(), upTo(most), reply)
			})
			if code := kafka.ErrorCode(r.ErrorCode); code != want || len(r.Groups) != 0 && code != kafka.None {
				t.Errorf("list with %d bytes: %v, %d groups", most, code, len(r.Groups))
			}
		}
		for _, name := range names {
			j := b.join(name, "")
			b.sync(name, j.MemberID, j.Generation)
		}
		req := kmsg.NewPtrDescribeGroupsRequest()
		req.Version, req.Groups = 5, names
		r := wait(func(reply func(*kmsg.DescribeGroupsResponse)) { b.DescribeGroups(req, upTo(0), reply) })
		told := 0
		for _, g := range r.Groups {
			if g.ErrorCode == 0 {
				told += len(g.Members)
			} else if code := kafka.ErrorCode(g.ErrorCode); code != kafka.CoordinatorNotAvailable || len(g.Members) > 0 {
				t.Fatalf("%v with %d members", code, len(g.Members))
			}
		}
		if told == 0 || told == groups {
			t.Errorf("%d of %d groups are described for nothing", told, groups)
		}
		closeGroups(t, b)
	})
}
