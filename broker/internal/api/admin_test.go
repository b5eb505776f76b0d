package api

import (
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/broker/internal/metadata"
	"github.com/tidemark/tidemark/core/kafka"
)

// TestTableAgreesWithSchemas: where headers begin to be flexible, and that no version is served that has no schema.
func TestTableAgreesWithSchemas(t *testing.T) {
	for _, r := range table() {
		req := kmsg.RequestForKey(r.key)
		if req.MaxVersion() < r.max {
			t.Errorf("%s: the schema ends at %d, the table at %d", r.name, req.MaxVersion(), r.max)
		}
		for v := r.min; v <= r.max; v++ {
			if req.SetVersion(v); req.IsFlexible() != (v >= r.flexible) {
				t.Errorf("%s %d: flexible %v, the table says from %d", r.name, v, req.IsFlexible(), r.flexible)
			}
		}
	}
}

// alterations turns "name=value", "-name", "name+=value", "name-=value" into IncrementalAlterConfigs' entries.
func alterations(settings ...string) []kmsg.IncrementalAlterConfigsRequestResourceConfig {
	var out []kmsg.IncrementalAlterConfigsRequestResourceConfig
	for _, s := range settings {
		c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		name, value, set := strings.Cut(s, "=")
		switch {
		case strings.HasPrefix(s, "-"):
			c.Name, c.Op = s[1:], kmsg.IncrementalAlterConfigOpDelete
		case strings.HasSuffix(name, "+"):
			c.Name, c.Op, c.Value = name[:len(name)-1], kmsg.IncrementalAlterConfigOpAppend, &value
		case strings.HasSuffix(name, "-"):
			c.Name, c.Op, c.Value = name[:len(name)-1], kmsg.IncrementalAlterConfigOpSubtract, &value
		case set:
			c.Name, c.Value = name, &value
		default:
			c.Name = name // null
		}
		out = append(out, c)
	}
	return out
}

// alter answers error and message for one resource.
func (n *groupNode) alter(version int16, kind kmsg.ConfigResourceType, name string, settings ...string) (kafka.ErrorCode, string) {
	n.t.Helper()
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	r := kmsg.NewIncrementalAlterConfigsRequestResource()
	r.ResourceType, r.ResourceName, r.Configs = kind, name, alterations(settings...)
	req.Resources = append(req.Resources, r)
	resp := n.do(req, version).(*kmsg.IncrementalAlterConfigsResponse).Resources
	if len(resp) != 1 || resp[0].ResourceType != kind || resp[0].ResourceName != name {
		n.t.Fatalf("%+v", resp)
	}
	text := ""
	if resp[0].ErrorMessage != nil {
		text = *resp[0].ErrorMessage
	}
	return kafka.ErrorCode(resp[0].ErrorCode), text
}

const (
	ofTopic  = kmsg.ConfigResourceTypeTopic
	ofBroker = kmsg.ConfigResourceTypeBroker
)

func TestSettingsAreAlteredOneByOne(t *testing.T) {
	n, ctl := newTopicNode(t)
	n.create(7, topicRequest("t", 1, "retention.ms=5"))
	for _, step := range []struct {
		settings []string
		want     map[string]string
	}{
		{[]string{"segment.ms=60000", "retention.ms=7"}, map[string]string{"segment.ms": "60000", "retention.ms": "7"}},
		{[]string{"-retention.ms", "-retention.bytes"}, map[string]string{"segment.ms": "60000"}},
		{[]string{"cleanup.policy+=compact"}, map[string]string{"segment.ms": "60000", "cleanup.policy": "delete,compact"}},
		{[]string{"cleanup.policy-=delete", "-segment.ms"}, map[string]string{"cleanup.policy": "compact"}},
	} {
		for v := int16(0); v <= 1; v++ {
			if code, text := n.alter(v, ofTopic, "t", step.settings...); code != kafka.None || text != "" {
				t.Fatalf("version %d, %v: %v %s", v, step.settings, code, text)
			}
			if got := ctl.Image().Config(metadata.TopicResource, "t"); fmt.Sprint(got) != fmt.Sprint(step.want) {
				t.Errorf("version %d, %v: %v", v, step.settings, got)
			}
		}
	}
}

func TestAlterationsThatAreRefused(t *testing.T) {
	n, ctl := newTopicNode(t)
	n.create(7, topicRequest("t", 1, "retention.ms=5"))
	for _, c := range []struct {
		kind     kmsg.ConfigResourceType
		name     string
		settings []string
		code     kafka.ErrorCode
		text     string
	}{
		{ofTopic, "missing", []string{"retention.ms=7"}, kafka.UnknownTopicOrPartition, "does not exist"},
		{ofTopic, "", []string{"retention.ms=7"}, kafka.InvalidRequest, "Default topic"},
		{ofTopic, "a b", []string{"retention.ms=7"}, kafka.InvalidTopicException, ""},
		{ofTopic, "t", []string{"retention.msec=7"}, kafka.InvalidConfig, `did you mean "retention.ms"?`},
		{ofTopic, "t", []string{"segment.ms=1", "retention.ms=soon"}, kafka.InvalidConfig, `retention.ms: invalid value: "soon"`},
		{ofTopic, "t", []string{"retention.ms=1", "retention.ms=2"}, kafka.InvalidRequest, "duplicate"},
		{ofTopic, "t", []string{"retention.ms"}, kafka.InvalidRequest, "Null value not supported"},
		{ofTopic, "t", []string{"retention.ms+=2"}, kafka.InvalidConfig, "type is not list"},
		{ofTopic, "t", []string{"remote.storage.enable=true"}, kafka.InvalidConfig, "tiered storage is not served"},
		{ofTopic, "t", []string{"min.compaction.lag.ms=9", "max.compaction.lag.ms=5"}, kafka.InvalidConfig, "more than"},
		{ofBroker, "3", []string{"log.retention.mss=7"}, kafka.InvalidRequest, `did you mean "log.retention.ms"?`},
		{ofBroker, "3", []string{"log.dirs=/elsewhere"}, kafka.InvalidRequest, "cannot be changed while the broker runs"},
		{ofBroker, "", []string{"listeners=PLAINTEXT://:1"}, kafka.InvalidRequest, "cannot be changed while the broker runs"},
		{ofBroker, "3", []string{"broker.heartbeat.interval.ms=9"}, kafka.InvalidRequest, "cannot be changed while the broker runs"},
		{ofBroker, "3", []string{"log.retention.ms=0"}, kafka.InvalidRequest, "at least 1"},
		{ofBroker, "4", []string{"log.retention.ms=7"}, kafka.InvalidRequest, "Unexpected broker id"},
		{ofBroker, "x", []string{"log.retention.ms=7"}, kafka.InvalidRequest, "must be an integer"},
		{kmsg.ConfigResourceTypeBrokerLogger, "3", []string{"root=DEBUG"}, kafka.InvalidRequest, ""},
		{kmsg.ConfigResourceTypeGroupConfig, "g", []string{"x=1"}, kafka.InvalidRequest, ""},
	} {
		code, text := n.alter(1, c.kind, c.name, c.settings...)
		if code != c.code || !strings.Contains(text, c.text) || text == "" {
			t.Errorf("%s %q %v: %v %q, want %v %q", c.kind, c.name, c.settings, code, text, c.code, c.text)
		}
	}
	if got := ctl.Image().Config(metadata.TopicResource, "t"); fmt.Sprint(got) != "map[retention.ms:5]" {
		t.Errorf("settings are now %v", got)
	}
	// Without effect, and taken all the same.
	for _, c := range []struct {
		kind kmsg.ConfigResourceType
		name string
		set  string
	}{{ofTopic, "t", "leader.replication.throttled.replicas=*"}, {ofTopic, "t", "local.retention.ms=-2"}, {ofBroker, "", "num.io.threads=9"}} {
		if code, text := n.alter(1, c.kind, c.name, c.set); code != kafka.None {
			t.Errorf("%s: %v %s", c.set, code, text)
		}
	}
}

func TestAlterConfigsReplacesAll(t *testing.T) {
	n, ctl := newTopicNode(t)
	n.create(7, topicRequest("t", 1, "retention.ms=5", "segment.ms=60000"))
	for v := int16(0); v <= 2; v++ {
		req := kmsg.NewPtrAlterConfigsRequest()
		value := fmt.Sprint(100 + v)
		req.Resources = []kmsg.AlterConfigsRequestResource{
			{ResourceType: ofTopic, ResourceName: "t", Configs: []kmsg.AlterConfigsRequestResourceConfig{{Name: "retention.ms", Value: &value}}},
			{ResourceType: ofTopic, ResourceName: "missing"},
		}
		req.ValidateOnly = true
		before := fmt.Sprint(ctl.Image().Config(metadata.TopicResource, "t"))
		n.do(req, v)
		if after := fmt.Sprint(ctl.Image().Config(metadata.TopicResource, "t")); after != before {
			t.Errorf("version %d: validation alone changed %s to %s", v, before, after)
		}
		req.ValidateOnly = false
		r := n.do(req, v).(*kmsg.AlterConfigsResponse).Resources
		if len(r) != 2 || r[0].ErrorCode != 0 || kafka.ErrorCode(r[1].ErrorCode) != kafka.UnknownTopicOrPartition {
			t.Errorf("version %d: %+v", v, r)
		}
		if got, want := fmt.Sprint(ctl.Image().Config(metadata.TopicResource, "t")), "map[retention.ms:"+value+"]"; got != want {
			t.Errorf("version %d: %s, want %s", v, got, want)
		}
		req.Resources[1] = req.Resources[0]
		for _, twice := range n.do(req, v).(*kmsg.AlterConfigsResponse).Resources {
			if kafka.ErrorCode(twice.ErrorCode) != kafka.InvalidRequest {
				t.Errorf("version %d: the same resource twice: %v", v, kafka.ErrorCode(twice.ErrorCode))
			}
		}
	}
}

func TestDescribeQuorumOfOneVoter(t *testing.T) {
	n, ctl := newTopicNode(t)
	for v := int16(0); v <= 2; v++ {
		req := kmsg.NewPtrDescribeQuorumRequest()
		req.Topics = []kmsg.DescribeQuorumRequestTopic{{Topic: kafka.MetadataTopic, Partitions: []kmsg.DescribeQuorumRequestTopicPartition{{}}}}
		r := n.do(req, v).(*kmsg.DescribeQuorumResponse)
		p := r.Topics[0].Partitions[0]
		if p.ErrorCode != 0 || p.LeaderID != testNode || p.LeaderEpoch != ctl.Image().Epoch || p.HighWatermark != ctl.Image().Offset+1 ||
			len(p.CurrentVoters) != 1 || p.CurrentVoters[0].ReplicaID != testNode || p.CurrentVoters[0].LogEndOffset != p.HighWatermark || len(p.Observers) != 0 {
			t.Errorf("version %d: %+v", v, p)
		}
		if v >= 2 && (len(r.Nodes) != 1 || r.Nodes[0].NodeID != testNode) {
			t.Errorf("version %d: nodes %+v", v, r.Nodes)
		}
		req.Topics[0].Topic = "t"
		if code := kafka.ErrorCode(n.do(req, v).(*kmsg.DescribeQuorumResponse).Topics[0].Partitions[0].ErrorCode); code != kafka.UnknownTopicOrPartition {
			t.Errorf("version %d: another topic: %v", v, code)
		}
	}
}

func TestListConfigResources(t *testing.T) {
	n, _ := newTopicNode(t)
	n.create(7, topicRequest("a", 1), topicRequest("b", 1))
	list := func(v int16, kinds ...int8) (string, kafka.ErrorCode) {
		req := kmsg.NewPtrListConfigResourcesRequest()
		req.ResourceTypes = kinds
		r := n.do(req, v).(*kmsg.ListConfigResourcesResponse)
		var out []string
		for _, c := range r.ConfigResources {
			out = append(out, fmt.Sprintf("%d:%s", c.Type, c.Name))
		}
		return strings.Join(out, " "), kafka.ErrorCode(r.ErrorCode)
	}
	for _, c := range []struct {
		v     int16
		kinds []int8
		want  string
		code  kafka.ErrorCode
	}{
		{0, nil, "", kafka.None},
		{1, nil, "2:a 2:b 4:3 8:3", kafka.None},
		{1, []int8{2}, "2:a 2:b", kafka.None},
		{1, []int8{4, 16, 32}, "4:3", kafka.None},
		{1, []int8{2, 5}, "", kafka.UnsupportedVersion},
	} {
		if got, code := list(c.v, c.kinds...); got != c.want || code != c.code {
			t.Errorf("version %d, kinds %v: %q %v, want %q %v", c.v, c.kinds, got, code, c.want, c.code)
		}
	}
}

func TestFeatureLevels(t *testing.T) {
	n, _ := newTopicNode(t)
	features := func() string {
		req := kmsg.NewPtrApiVersionsRequest()
		req.ClientSoftwareName, req.ClientSoftwareVersion = "test", "1"
		r := n.do(req, 3).(*kmsg.ApiVersionsResponse)
		var out []string
		for _, f := range r.SupportedFeatures {
			out = append(out, fmt.Sprintf("%s %d-%d", f.Name, f.MinVersion, f.MaxVersion))
		}
		for _, f := range r.FinalizedFeatures {
			out = append(out, fmt.Sprintf("%s=%d", f.Name, f.MaxVersionLevel))
		}
		return strings.Join(out, ", ")
	}
	if got, want := features(), "metadata.version 7-33, metadata.version=33"; got != want {
		t.Errorf("%s, want %s: nothing else is built", got, want)
	}
	update := func(v int16, name string, level int16, direction int8) kafka.ErrorCode {
		req := kmsg.NewPtrUpdateFeaturesRequest()
		u := kmsg.NewUpdateFeaturesRequestFeatureUpdate()
		u.Feature, u.MaxVersionLevel, u.UpgradeType, u.AllowDowngrade = name, level, direction, direction > 1
		req.FeatureUpdates, req.TimeoutMillis = append(req.FeatureUpdates, u), 10_000
		r := n.do(req, v).(*kmsg.UpdateFeaturesResponse)
		code, text := r.ErrorCode, r.ErrorMessage
		if v < 2 {
			if len(r.Results) != 1 || r.Results[0].Feature != name || r.ErrorCode != 0 {
				t.Fatalf("version %d: %+v", v, r)
			}
			code, text = r.Results[0].ErrorCode, r.Results[0].ErrorMessage
		}
		if (code != 0) != (text != nil) {
			t.Errorf("version %d: error %d without words, or words without one", v, code)
		}
		return kafka.ErrorCode(code)
	}
	for v := int16(0); v <= 2; v++ {
		for _, c := range []struct {
			name      string
			level     int16
			direction int8
			want      kafka.ErrorCode
		}{
			{"metadata.version", 33, 1, kafka.None},
			{"metadata.version", 34, 1, kafka.InvalidUpdateVersion},
			{"metadata.version", 20, 1, kafka.InvalidUpdateVersion},
			{"metadata.version", 20, 2, kafka.InvalidUpdateVersion},
			{"metadata.version", 0, 3, kafka.InvalidUpdateVersion},
			{"transaction.version", 2, 1, kafka.InvalidUpdateVersion},
		} {
			if got := update(v, c.name, c.level, c.direction); got != c.want {
				t.Errorf("version %d: %s to %d: %v, want %v", v, c.name, c.level, got, c.want)
			}
		}
	}
}

// TestGroupsAreDeletedInEveryVersion: DeleteGroups and OffsetDelete.
func TestGroupsAreDeletedInEveryVersion(t *testing.T) {
	n := newGroupNode(t)
	n.topic("t", 1, 2)
	n.do(kmsg.NewPtrFindCoordinatorRequest(), 0)
	commit := func(group string) {
		req := kmsg.NewPtrOffsetCommitRequest()
		req.Group, req.Generation = group, -1
		req.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: "t", Partitions: []kmsg.OffsetCommitRequestTopicPartition{{Partition: 0, Offset: 5}, {Partition: 1, Offset: 6}}}}
		n.do(req, 8)
	}
	n.member("busy", 3, 3)
	for v := int16(0); v <= 3; v++ {
		commit("g")
		req := kmsg.NewPtrDeleteGroupsRequest()
		req.Groups = []string{"g", "busy", "missing"}
		r := n.do(req, v).(*kmsg.DeleteGroupsResponse)
		for i, want := range []kafka.ErrorCode{kafka.None, kafka.NonEmptyGroup, kafka.GroupIdNotFound} {
			if g := r.Groups[i]; g.Group != req.Groups[i] || kafka.ErrorCode(g.ErrorCode) != want || (g.ErrorMessage != nil) != (v >= 3 && want != kafka.None) {
				t.Errorf("version %d: %+v, want %v", v, g, want)
			}
		}
		if offset, _, _, _ := n.fetched(8, "g", "t", 1, false); offset != -1 {
			t.Errorf("version %d: the deleted group still has offset %d", v, offset)
		}
	}
	commit("g")
	req := kmsg.NewPtrOffsetDeleteRequest()
	req.Group = "g"
	req.Topics = []kmsg.OffsetDeleteRequestTopic{
		{Topic: "t", Partitions: []kmsg.OffsetDeleteRequestTopicPartition{{Partition: 1}, {Partition: 9}}},
		{Topic: "missing", Partitions: []kmsg.OffsetDeleteRequestTopicPartition{{Partition: 0}}},
	}
	got := map[string]kafka.ErrorCode{}
	for _, topic := range n.do(req, 0).(*kmsg.OffsetDeleteResponse).Topics {
		for _, p := range topic.Partitions {
			got[fmt.Sprintf("%s-%d", topic.Topic, p.Partition)] = kafka.ErrorCode(p.ErrorCode)
		}
	}
	if len(got) != 3 || got["t-1"] != kafka.None || got["t-9"] != kafka.UnknownTopicOrPartition || got["missing-0"] != kafka.UnknownTopicOrPartition {
		t.Errorf("OffsetDelete: %v", got)
	}
	req.Group = "missing"
	if code := kafka.ErrorCode(n.do(req, 0).(*kmsg.OffsetDeleteResponse).ErrorCode); code != kafka.GroupIdNotFound {
		t.Errorf("OffsetDelete of a group that is not there: %v", code)
	}
}
