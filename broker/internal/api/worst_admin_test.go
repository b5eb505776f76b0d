package api

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/core/kafka"
)

// TestLargestAdministrativeRequests: requests of nearly tidemark.max.control.request.bytes, made so that careless code
// would take the square of their length, or answer with their multiple, are answered like any other (do gives up after ten
// seconds).
func TestLargestAdministrativeRequests(t *testing.T) {
	n, _ := newTopicNode(t)
	n.create(7, topicRequest("t", 1))
	long := strings.Repeat("x", 3<<20)
	var list, keys []string
	for i := range 100_000 {
		list = append(list, fmt.Sprint(i, ":0"))
		keys = append(keys, fmt.Sprintf("k%d=1", i))
	}
	numbers, few := strings.Join(list, ","), strings.Join(list[:25_000], ",")
	for _, c := range []struct {
		what     string
		settings []string
		code     kafka.ErrorCode
	}{
		{"a long name", []string{long + "=1"}, kafka.InvalidConfig},
		{"a long value", []string{"retention.ms=" + long}, kafka.InvalidConfig},
		{"many names", keys, kafka.InvalidConfig},
		{"a list that is too long", []string{"leader.replication.throttled.replicas=" + numbers}, kafka.InvalidConfig},
		{"a long list", []string{"leader.replication.throttled.replicas=" + few}, kafka.None},
		{"appending too much to a list", []string{"leader.replication.throttled.replicas+=" + numbers}, kafka.InvalidConfig},
		{"appending to a list what it holds", []string{"leader.replication.throttled.replicas+=" + few}, kafka.None},
		{"subtracting from a long list", []string{"leader.replication.throttled.replicas-=" + numbers}, kafka.None},
	} {
		code, text := n.alter(1, ofTopic, "t", c.settings...)
		if code != c.code || len(text) > maxErrorText+10 {
			t.Errorf("%s: %v with %d bytes of text", c.what, code, len(text))
		}
	}
	describe := kmsg.NewPtrDescribeConfigsRequest()
	for i := range 100_000 {
		r := kmsg.NewDescribeConfigsRequestResource()
		r.ResourceType, r.ResourceName = ofBroker, strings.Repeat("0", i%8)+"3"
		describe.Resources = append(describe.Resources, r)
	}
	whole := 0
	for _, r := range n.do(describe, 4).(*kmsg.DescribeConfigsResponse).Resources {
		if len(r.Configs) > 0 {
			whole++
		}
	}
	if whole != 1 {
		t.Errorf("one broker was described %d times in one answer", whole)
	}
}

// TestManyUnknownTopicsOfAGroup: what does not exist is answered beside what does, in time that grows with the request alone.
func TestManyUnknownTopicsOfAGroup(t *testing.T) {
	n := newGroupNode(t)
	n.topic("t", 1, 1)
	n.do(kmsg.NewPtrFindCoordinatorRequest(), 0)
	commit, remove := kmsg.NewPtrOffsetCommitRequest(), kmsg.NewPtrOffsetDeleteRequest()
	commit.Group, commit.Generation, remove.Group = "g", -1, "g"
	for i := range 60_000 {
		topic := fmt.Sprint("missing-", i)
		if i == 0 {
			topic = "t"
		}
		commit.Topics = append(commit.Topics, kmsg.OffsetCommitRequestTopic{Topic: topic, Partitions: []kmsg.OffsetCommitRequestTopicPartition{{}}})
		remove.Topics = append(remove.Topics, kmsg.OffsetDeleteRequestTopic{Topic: topic, Partitions: []kmsg.OffsetDeleteRequestTopicPartition{{}}})
	}
	began := time.Now()
	committed := n.do(commit, 9).(*kmsg.OffsetCommitResponse).Topics
	removed := n.do(remove, 0).(*kmsg.OffsetDeleteResponse).Topics
	t.Log(time.Since(began))
	if len(committed) != len(commit.Topics) || committed[0].Partitions[0].ErrorCode != 0 || len(removed) != len(commit.Topics) || removed[0].Partitions[0].ErrorCode != 0 {
		t.Errorf("%d topics answered for the commit, %d for the removal", len(committed), len(removed))
	}
}

// TestAGroupThatIsNamedOftenIsToldOnce: a small request does not get a gigabyte.
func TestAGroupThatIsNamedOftenIsToldOnce(t *testing.T) {
	n := newGroupNode(t)
	n.topic("t", 1, 1)
	n.do(kmsg.NewPtrFindCoordinatorRequest(), 0)
	join := joinRequest("g", "")
	join.Protocols[0].Metadata = make([]byte, 100_000)
	joined := n.do(join, 3).(*kmsg.JoinGroupResponse)
	sync := kmsg.NewPtrSyncGroupRequest()
	sync.Group, sync.MemberID, sync.Generation = "g", joined.MemberID, joined.Generation
	if code := n.do(sync, 3).(*kmsg.SyncGroupResponse).ErrorCode; code != 0 {
		t.Fatal(kafka.ErrorCode(code))
	}
	long := strings.Repeat("m", 4000)
	commit := commitOf("h", "t", 1, 0, 5)
	commit.Topics[0].Partitions[0].Metadata = &long
	n.do(commit, 9)

	describe, fetch := kmsg.NewPtrDescribeGroupsRequest(), kmsg.NewPtrOffsetFetchRequest()
	for range 30_000 {
		describe.Groups = append(describe.Groups, "g")
		fetch.Groups = append(fetch.Groups, kmsg.OffsetFetchRequestGroup{Group: "h", MemberEpoch: -1})
	}
	whole := 0
	for _, g := range n.do(describe, 5).(*kmsg.DescribeGroupsResponse).Groups {
		whole += len(g.Members)
	}
	for _, g := range n.do(fetch, 8).(*kmsg.OffsetFetchResponse).Groups {
		whole += len(g.Topics)
	}
	if whole != 2 {
		t.Errorf("two groups were told %d times", whole)
	}
}
