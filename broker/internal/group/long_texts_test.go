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
