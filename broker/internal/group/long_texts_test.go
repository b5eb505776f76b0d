package group

import (
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/core/kafka"
)

// What a flexible request may name and a record of __consumer_offsets may not is refused, so that all that is written is read
// again as it was.
func TestTextsTooLongForARecordAreRefused(t *testing.T) {
	long := strings.Repeat("x", 1<<15)
	now := Now{MonoMS: 1000, WallMS: 1_700_000_000_000}
	c := scenarioConfig()
	c.OffsetMetadataMaxBytes = 1 << 30
	join := func(change func(r *kmsg.JoinGroupRequest)) *kmsg.JoinGroupRequest {
		r := kmsg.NewPtrJoinGroupRequest()
		r.Version, r.Group, r.SessionTimeoutMillis, r.ProtocolType = 9, "g", 10_000, "consumer"
		r.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range"}}
		change(r)
		return r
	}
	for _, tc := range []struct {
		what, client string
		req          *kmsg.JoinGroupRequest
		want         kafka.ErrorCode
	}{
		{"group", "c", join(func(r *kmsg.JoinGroupRequest) { r.Group = long }), kafka.InvalidGroupId},
		{"client", long[1:], join(func(*kmsg.JoinGroupRequest) {}), kafka.InvalidRequest},
		{"instance", "c", join(func(r *kmsg.JoinGroupRequest) { r.InstanceID = &long }), kafka.InvalidRequest},
		{"protocol type", "c", join(func(r *kmsg.JoinGroupRequest) { r.ProtocolType = long }), kafka.InvalidRequest},
		{"protocol", "c", join(func(r *kmsg.JoinGroupRequest) { r.Protocols[0].Name = long }), kafka.InvalidRequest},
		{"metadata", "c", join(func(r *kmsg.JoinGroupRequest) { r.Protocols[0].Metadata = make([]byte, 1<<20) }), kafka.InvalidRequest},
		{"metadata of all protocols", "c", join(func(r *kmsg.JoinGroupRequest) {
			for range 1 << 15 {
				r.Protocols = append(r.Protocols, kmsg.JoinGroupRequestProtocol{Name: "x"})
			}
		}), kafka.InvalidRequest},
		{"nothing", "c", join(func(*kmsg.JoinGroupRequest) {}), kafka.MemberIdRequired},
	} {
		m := New(c, func() string { return "id" })
		m.JoinGroup(now, "join", tc.client, "/10.0.0.1", tc.req)
		answers := m.Take().Answers
		if len(answers) != 1 {
			t.Fatalf("%s too long: %d answers", tc.what, len(answers))
		}
		if got := kafka.ErrorCode(answers[0].Response.(*kmsg.JoinGroupResponse).ErrorCode); got != tc.want {
			t.Errorf("%s too long: %v, want %v", tc.what, got, tc.want)
		}
	}

	for _, tc := range []struct {
		group, metadata string
		want            kafka.ErrorCode
	}{{long, "", kafka.InvalidGroupId}, {"g", long, kafka.OffsetMetadataTooLarge}} {
		r := kmsg.NewPtrOffsetCommitRequest()
		r.Version, r.Group, r.Generation = 9, tc.group, -1
		p := kmsg.NewOffsetCommitRequestTopicPartition()
		p.Metadata = &tc.metadata
		r.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: "t", Partitions: []kmsg.OffsetCommitRequestTopicPartition{p}}}
		m := New(c, func() string { return "id" })
		m.OffsetCommit(now, "commit", r)
		fx := m.Take()
		if len(fx.Answers) != 1 || len(fx.Writes) != 0 {
			t.Fatalf("commit: %d answers, %d writes", len(fx.Answers), len(fx.Writes))
		}
		if got := kafka.ErrorCode(fx.Answers[0].Response.(*kmsg.OffsetCommitResponse).Topics[0].Partitions[0].ErrorCode); got != tc.want {
			t.Errorf("commit: %v, want %v", got, tc.want)
		}
	}
}

// TestATopicsNameIsLookedUpOnlyWhereItMayBeOne: every look-up goes through all of a name, and a request may repeat it for hundreds of
// thousands of partitions. No topic has a name of more than 249 bytes, so nothing is committed for one.
func TestATopicsNameIsLookedUpOnlyWhereItMayBeOne(t *testing.T) {
	now := Now{MonoMS: 1000, WallMS: 1_700_000_000_000}
	for length, want := range map[int]int64{kafka.MaxTopicNameLength: 7, kafka.MaxTopicNameLength + 1: -1} {
		name := strings.Repeat("t", length)
		m := New(scenarioConfig(), func() string { return "id" })
		r := offsetRecord("g", offsetKey{name, 0}, &committed{offset: 7, expireMS: -1})
		if err := m.Replay(r.Key, r.Value); err != nil {
			t.Fatal(err)
		}
		m.Loaded(now)
		commit := kmsg.NewPtrOffsetCommitRequest()
		commit.Version, commit.Group, commit.Generation = 9, "g", -1
		commit.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: name, Partitions: []kmsg.OffsetCommitRequestTopicPartition{{Partition: 1}}}}
		m.OffsetCommit(now, "commit", commit) // it is being written
		fetch := &kmsg.OffsetFetchRequestGroup{Group: "g", Topics: []kmsg.OffsetFetchRequestGroupTopic{{Topic: name, Partitions: []int32{0, 1, 2}}}}
		for _, stable := range []bool{false, true} {
			got := m.fetch(fetch, stable).Topics[0].Partitions
			if len(got) != 3 || got[0].Offset != want || got[2].Offset != -1 || (got[1].ErrorCode != 0) != (stable && want > 0) {
				t.Errorf("a name of %d bytes, stable %v: %+v", length, stable, got)
			}
		}
		if waits := m.groups["g"].lastCommit(fetch.Topics) != nil; waits != (want > 0) {
			t.Errorf("a name of %d bytes: the fetch waits for the commit: %v", length, waits)
		}
	}
}
