package api

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/broker/config"
	"github.com/tidemark/tidemark/broker/internal/controller"
	"github.com/tidemark/tidemark/broker/internal/metadata"
	"github.com/tidemark/tidemark/core/buf"
	"github.com/tidemark/tidemark/core/kafka"
	"github.com/tidemark/tidemark/core/vfs"
)

// newTopicNode is the handlers of a node with a real controller in memory.
func newTopicNode(t *testing.T, settings ...string) (*groupNode, *controller.Controller) {
	t.Helper()
	cfg, _, err := config.Parse("", nil, append([]string{"node.id=3", "broker.rack=r1"}, settings...))
	if err != nil {
		t.Fatal(err)
	}
	now := func() int64 { return 1_700_000_000_000 }
	logger := slog.New(slog.DiscardHandler)
	ctl, err := controller.Open(controller.Options{Config: cfg, FS: vfs.NewMem(nil), Dir: "/data", NowMS: now, Logger: logger})
	if err != nil {
		t.Fatal(err)
	}
	if err := ctl.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, err = ctl.RegisterBroker(t.Context(), metadata.Broker{ID: testNode, Rack: "r1", Endpoints: []metadata.Endpoint{{Listener: "PLAINTEXT", Host: "h", Port: 9}}})
	if err != nil {
		t.Fatal(err)
	}
	n := &groupNode{t: t, handlers: New(Deps{NodeID: testNode, Config: cfg, Meta: ctl, Controller: ctl, Pool: buf.NewPool(), NowMS: now, Logger: logger,
		Advertised: func(listener string) (string, int32) { return "host-of-" + listener, 9092 }})}
	t.Cleanup(func() {
		if err := ctl.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
		n.handlers.Close()
	})
	return n, ctl
}

func topicRequest(name string, partitions int32, settings ...string) kmsg.CreateTopicsRequestTopic {
	r := kmsg.NewCreateTopicsRequestTopic()
	r.Topic, r.NumPartitions, r.ReplicationFactor = name, partitions, -1
	for _, s := range settings {
		c := kmsg.NewCreateTopicsRequestTopicConfig()
		key, value, ok := strings.Cut(s, "=")
		if c.Name = key; ok {
			c.Value = &value
		}
		r.Configs = append(r.Configs, c)
	}
	return r
}

func (n *groupNode) create(version int16, topics ...kmsg.CreateTopicsRequestTopic) *kmsg.CreateTopicsResponse {
	n.t.Helper()
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Topics, req.TimeoutMillis = topics, 10_000
	return n.do(req, version).(*kmsg.CreateTopicsResponse)
}

// metadataOf asks for topics; no names at all asks for every topic.
func (n *groupNode) metadataOf(version int16, create bool, names ...string) *kmsg.MetadataResponse {
	n.t.Helper()
	req := kmsg.NewPtrMetadataRequest()
	req.AllowAutoTopicCreation = create
	for _, name := range names {
		topic := kmsg.NewMetadataRequestTopic()
		topic.Topic = &name
		req.Topics = append(req.Topics, topic)
	}
	return n.do(req, version).(*kmsg.MetadataResponse)
}

func codes(resp *kmsg.MetadataResponse) map[string]kafka.ErrorCode {
	out := map[string]kafka.ErrorCode{}
	for _, t := range resp.Topics {
		name := ""
		if t.Topic != nil {
			name = *t.Topic
		}
		out[name] = kafka.ErrorCode(t.ErrorCode)
	}
	return out
}

func TestTopicLifeInEveryVersion(t *testing.T) {
	n, ctl := newTopicNode(t)
	for v := int16(2); v <= 7; v++ {
		name := fmt.Sprint("topic-", v)
		r := n.create(v, topicRequest(name, 2, "retention.ms=5"))
		topic := r.Topics[0]
		if len(r.Topics) != 1 || topic.ErrorCode != 0 || topic.Topic != name || ctl.Image().Topic(name) == nil {
			t.Fatalf("CreateTopics %d: %+v", v, r)
		}
		if v >= 5 && (topic.NumPartitions != 2 || topic.ReplicationFactor != 1 || len(topic.Configs) != len(config.TopicDefinitions())) {
			t.Errorf("CreateTopics %d: %d partitions, factor %d, %d configs", v, topic.NumPartitions, topic.ReplicationFactor, len(topic.Configs))
		}
		if v >= 7 && topic.TopicID != ctl.Image().Topic(name).ID {
			t.Errorf("CreateTopics %d: id %v", v, topic.TopicID)
		}
	}
	for v := int16(0); v <= 3; v++ {
		req := kmsg.NewPtrCreatePartitionsRequest()
		req.Topics, req.TimeoutMillis = []kmsg.CreatePartitionsRequestTopic{{Topic: "topic-2", Count: int32(3 + v)}}, 10_000
		if r := n.do(req, v).(*kmsg.CreatePartitionsResponse); len(r.Topics) != 1 || r.Topics[0].ErrorCode != 0 {
			t.Errorf("CreatePartitions %d: %+v", v, r)
		}
		req.Topics[0].Count = 1
		if r := n.do(req, v).(*kmsg.CreatePartitionsResponse); kafka.ErrorCode(r.Topics[0].ErrorCode) != kafka.InvalidPartitions || r.Topics[0].ErrorMessage == nil {
			t.Errorf("CreatePartitions %d, fewer: %+v", v, r)
		}
	}
	if got := len(ctl.Image().Topic("topic-2").Partitions); got != 6 {
		t.Errorf("%d partitions", got)
	}
	for v := int16(1); v <= 6; v++ {
		name := fmt.Sprint("topic-", v+1)
		req := kmsg.NewPtrDeleteTopicsRequest()
		req.TopicNames, req.TimeoutMillis = []string{name, "missing"}, 10_000
		for _, s := range req.TopicNames {
			req.Topics = append(req.Topics, kmsg.DeleteTopicsRequestTopic{Topic: &s})
		}
		if v == 6 {
			req.Topics[0] = kmsg.DeleteTopicsRequestTopic{TopicID: ctl.Image().Topic(name).ID}
		}
		r := n.do(req, v).(*kmsg.DeleteTopicsResponse)
		if len(r.Topics) != 2 || r.Topics[0].ErrorCode != 0 || *r.Topics[0].Topic != name || kafka.ErrorCode(r.Topics[1].ErrorCode) != kafka.UnknownTopicOrPartition {
			t.Errorf("DeleteTopics %d: %+v", v, r)
		}
		if ctl.Image().Topic(name) != nil {
			t.Errorf("DeleteTopics %d: %s is still there", v, name)
		}
	}
}

func TestRefusedTopics(t *testing.T) {
	n, _ := newTopicNode(t)
	byHand := topicRequest("hand", -1)
	byHand.ReplicaAssignment = []kmsg.CreateTopicsRequestTopicReplicaAssignment{{Partition: 1, Replicas: []int32{3}}}
	r := n.create(7, topicRequest("good", 1), topicRequest("twice", 1), topicRequest("twice", 2), topicRequest("__cluster_metadata", 1),
		topicRequest("null", 1, "retention.ms"), topicRequest("bad", 1, "no.such=1"), byHand, topicRequest("a/b", 1))
	got := map[string]kafka.ErrorCode{}
	for _, topic := range r.Topics {
		if topic.ErrorCode != 0 && (topic.ErrorMessage == nil || *topic.ErrorMessage == "") {
			t.Errorf("%s: no words for its error", topic.Topic)
		}
		if _, twice := got[topic.Topic]; twice {
			t.Errorf("%s is told twice", topic.Topic)
		}
		got[topic.Topic] = kafka.ErrorCode(topic.ErrorCode)
	}
	want := map[string]kafka.ErrorCode{"good": kafka.None, "twice": kafka.InvalidRequest, "__cluster_metadata": kafka.InvalidRequest,
		"null": kafka.InvalidConfig, "bad": kafka.InvalidConfig, "hand": kafka.InvalidReplicaAssignment, "a/b": kafka.InvalidTopicException}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

func TestValidatingCreatesNothing(t *testing.T) {
	n, ctl := newTopicNode(t)
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Topics, req.ValidateOnly, req.TimeoutMillis = []kmsg.CreateTopicsRequestTopic{topicRequest("v", 4)}, true, 10_000
	r := n.do(req, 7).(*kmsg.CreateTopicsResponse)
	if r.Topics[0].ErrorCode != 0 || r.Topics[0].NumPartitions != 4 || ctl.Image().Topic("v") != nil {
		t.Errorf("%+v", r)
	}
}

func TestDeletionsThatContradictThemselves(t *testing.T) {
	n, ctl := newTopicNode(t)
	n.create(7, topicRequest("a", 1), topicRequest("b", 1))
	name := func(s string) *string { return &s }
	id := ctl.Image().Topic("b").ID
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.TimeoutMillis = 10_000
	req.Topics = []kmsg.DeleteTopicsRequestTopic{{Topic: name("a")}, {Topic: name("a")}, {}, {Topic: name("b"), TopicID: id}, {TopicID: [16]byte{9}}}
	r := n.do(req, 6).(*kmsg.DeleteTopicsResponse)
	var got []kafka.ErrorCode
	for _, topic := range r.Topics {
		got = append(got, kafka.ErrorCode(topic.ErrorCode))
	}
	if !slices.Equal(got, []kafka.ErrorCode{kafka.InvalidRequest, kafka.InvalidRequest, kafka.InvalidRequest, kafka.UnknownTopicId}) || ctl.Image().NumTopics() != 2 {
		t.Errorf("%v", got)
	}
	off, _ := newTopicNode(t, "delete.topic.enable=false")
	req = kmsg.NewPtrDeleteTopicsRequest()
	req.TopicNames = []string{"a"}
	for v, want := range map[int16]kafka.ErrorCode{1: kafka.InvalidRequest, 3: kafka.TopicDeletionDisabled} {
		if r := off.do(req, v).(*kmsg.DeleteTopicsResponse); kafka.ErrorCode(r.Topics[0].ErrorCode) != want {
			t.Errorf("disabled, version %d: %+v", v, r)
		}
	}
}

func TestMetadataInEveryVersion(t *testing.T) {
	n, ctl := newTopicNode(t)
	n.create(7, topicRequest("a", 2), topicRequest("b", 1))
	for v := int16(0); v <= 13; v++ {
		all := n.metadataOf(v, false) // null, or, in version 0, empty
		again := n.metadataOf(v, false)
		if fmt.Sprintf("%+v", *all.Topics[0].Topic) != "a" || len(all.Topics) != 2 || fmt.Sprint(codes(all)) != fmt.Sprint(codes(again)) {
			t.Fatalf("version %d, all topics: %+v", v, all)
		}
		r := n.metadataOf(v, false, "a", "a/b", "a")
		if len(r.Brokers) != 1 || r.Brokers[0].Host != "host-of-PLAINTEXT" || r.Brokers[0].NodeID != testNode {
			t.Fatalf("version %d: brokers %+v", v, r.Brokers)
		}
		if v >= 1 && (*r.Brokers[0].Rack != "r1" || r.ControllerID != testNode) || v >= 2 && *r.ClusterID != ctl.Image().ClusterID {
			t.Errorf("version %d: %+v", v, r)
		}
		if got := codes(r); len(r.Topics) != 2 || got["a"] != kafka.None || got["a/b"] != kafka.InvalidTopicException {
			t.Errorf("version %d: topics %v", v, got)
		}
		p := r.Topics[0].Partitions
		if len(p) != 2 || p[1].Partition != 1 || p[1].Leader != testNode || !slices.Equal(p[1].Replicas, []int32{testNode}) || v >= 7 && p[1].LeaderEpoch != 0 {
			t.Errorf("version %d: partitions %+v", v, p)
		}
		if v >= 10 && r.Topics[0].TopicID != ctl.Image().Topic("a").ID {
			t.Errorf("version %d: id %v", v, r.Topics[0].TopicID)
		}
		if v >= 1 {
			req := kmsg.NewPtrMetadataRequest()
			req.Topics = []kmsg.MetadataRequestTopic{}
			if none := n.do(req, v).(*kmsg.MetadataResponse); len(none.Topics) != 0 || len(none.Brokers) != 1 {
				t.Errorf("version %d, no topics: %+v", v, none)
			}
		}
	}
}

func TestTheCachedAnswerFollowsTheImage(t *testing.T) {
	n, _ := newTopicNode(t)
	for i := range 20 {
		n.create(7, topicRequest(fmt.Sprint("t", i), 1))
		for _, v := range []int16{1, 9, 12} {
			if r := n.metadataOf(v, false); len(r.Topics) != i+1 {
				t.Fatalf("version %d: %d topics of %d", v, len(r.Topics), i+1)
			}
		}
	}
}

func TestMetadataByTopicID(t *testing.T) {
	n, ctl := newTopicNode(t)
	n.create(7, topicRequest("a", 1))
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = []kmsg.MetadataRequestTopic{{TopicID: ctl.Image().Topic("a").ID}, {TopicID: [16]byte{7}}}
	r := n.do(req, 12).(*kmsg.MetadataResponse)
	if len(r.Topics) != 2 || *r.Topics[0].Topic != "a" || kafka.ErrorCode(r.Topics[1].ErrorCode) != kafka.UnknownTopicId || r.Topics[1].Topic != nil {
		t.Errorf("%+v", r.Topics)
	}
	// Below version 12 ids are not allowed.
	if r = n.do(req, 10).(*kmsg.MetadataResponse); len(r.Topics) != 2 || kafka.ErrorCode(r.Topics[0].ErrorCode) != kafka.InvalidRequest {
		t.Errorf("version 10: %+v", r.Topics)
	}
}

func TestAskingCreatesTopics(t *testing.T) {
	n, ctl := newTopicNode(t, "num.partitions=3", "offsets.topic.num.partitions=7")
	for v := int16(0); v <= 13; v++ {
		name := fmt.Sprint("auto-", v)
		r := n.metadataOf(v, true, name, "bad/name")
		if got := codes(r); got[name] != kafka.None || got["bad/name"] != kafka.InvalidTopicException || len(r.Topics[0].Partitions) != 3 {
			t.Errorf("version %d: %+v", v, r.Topics)
		}
		if v >= 4 {
			if r := n.metadataOf(v, false, "not"+name); codes(r)["not"+name] != kafka.UnknownTopicOrPartition {
				t.Errorf("version %d creates although it may not: %+v", v, r.Topics)
			}
		}
	}
	r := n.metadataOf(9, true, kafka.OffsetsTopic, kafka.TxnTopic, "auto.1", "auto_1")
	got := codes(r)
	if got[kafka.OffsetsTopic] != kafka.None || got[kafka.TxnTopic] != kafka.UnknownTopicOrPartition || got["auto.1"] != kafka.None || got["auto_1"] != kafka.InvalidTopicException {
		t.Errorf("%v", got)
	}
	offsets := ctl.Image().Topic(kafka.OffsetsTopic)
	if len(offsets.Partitions) != 7 || !offsets.Internal || ctl.Image().Config(metadata.TopicResource, kafka.OffsetsTopic)["cleanup.policy"] != "compact" {
		t.Errorf("offsets topic %+v", offsets)
	}
	off, _ := newTopicNode(t, "auto.create.topics.enable=false")
	if r := off.metadataOf(9, true, "a"); codes(r)["a"] != kafka.UnknownTopicOrPartition {
		t.Errorf("%+v", r.Topics)
	}
}

func TestProducerIDsInEveryVersion(t *testing.T) {
	n, _ := newTopicNode(t)
	seen := map[int64]bool{}
	for v := int16(0); v <= 5; v++ {
		req := kmsg.NewPtrInitProducerIDRequest()
		r := n.do(req, v).(*kmsg.InitProducerIDResponse)
		if r.ErrorCode != 0 || r.ProducerEpoch != 0 || seen[r.ProducerID] {
			t.Errorf("version %d: %+v", v, r)
		}
		seen[r.ProducerID] = true
		for id, want := range map[string]kafka.ErrorCode{"tx": kafka.TransactionalIdAuthorizationFailed, "": kafka.InvalidRequest} {
			req.TransactionalID = &id
			if r := n.do(req, v).(*kmsg.InitProducerIDResponse); kafka.ErrorCode(r.ErrorCode) != want || r.ProducerID != -1 {
				t.Errorf("version %d, transactional id %q: %+v", v, id, r)
			}
		}
	}
}

func describe(kind kmsg.ConfigResourceType, name string, keys ...string) *kmsg.DescribeConfigsRequest {
	req := kmsg.NewPtrDescribeConfigsRequest()
	req.IncludeSynonyms, req.IncludeDocumentation = true, true
	req.Resources = []kmsg.DescribeConfigsRequestResource{{ResourceType: kind, ResourceName: name, ConfigNames: keys}}
	return req
}

func TestConfigsInEveryVersion(t *testing.T) {
	n, _ := newTopicNode(t, "log.retention.hours=2")
	n.create(7, topicRequest("a", 1, "segment.bytes=2000000"))
	for v := int16(1); v <= 4; v++ {
		r := n.do(describe(kmsg.ConfigResourceTypeTopic, "a", "segment.bytes", "retention.ms"), v).(*kmsg.DescribeConfigsResponse).Resources[0]
		if r.ErrorCode != 0 || len(r.Configs) != 2 {
			t.Fatalf("version %d: %+v", v, r)
		}
		for _, c := range r.Configs {
			want := map[string]string{"segment.bytes": "2000000 DYNAMIC_TOPIC_CONFIG", "retention.ms": "7200000 STATIC_BROKER_CONFIG"}[c.Name]
			if got := *c.Value + " " + c.Source.String(); got != want || c.ReadOnly || len(c.ConfigSynonyms) != 2 {
				t.Errorf("version %d: %s is %s, want %s; synonyms %+v", v, c.Name, got, want, c.ConfigSynonyms)
			}
			if v >= 3 && (c.Documentation == nil || *c.Documentation == "" || c.ConfigType == 0) {
				t.Errorf("version %d: %s has no documentation or type", v, c.Name)
			}
		}
		if r := n.do(describe(kmsg.ConfigResourceTypeTopic, "a"), v).(*kmsg.DescribeConfigsResponse).Resources[0]; len(r.Configs) != len(config.TopicDefinitions()) {
			t.Errorf("version %d: %d configs of a topic", v, len(r.Configs))
		}
		b := n.do(describe(kmsg.ConfigResourceTypeBroker, "3"), v).(*kmsg.DescribeConfigsResponse).Resources[0]
		if b.ErrorCode != 0 || len(b.Configs) != len(config.BrokerDefinitions()) {
			t.Errorf("version %d: broker %d, %d configs", v, b.ErrorCode, len(b.Configs))
		}
	}
	for _, c := range []struct {
		kind kmsg.ConfigResourceType
		name string
		want kafka.ErrorCode
	}{
		{kmsg.ConfigResourceTypeTopic, "missing", kafka.UnknownTopicOrPartition},
		{kmsg.ConfigResourceTypeTopic, "a/b", kafka.InvalidTopicException},
		{kmsg.ConfigResourceTypeBroker, "", kafka.None},
		{kmsg.ConfigResourceTypeBroker, "4", kafka.InvalidRequest},
		{kmsg.ConfigResourceTypeBroker, "x", kafka.InvalidRequest},
		{kmsg.ConfigResourceTypeBrokerLogger, "3", kafka.None},
		{kmsg.ConfigResourceTypeBrokerLogger, "", kafka.InvalidRequest},
		{kmsg.ConfigResourceTypeGroupConfig, "g", kafka.InvalidRequest},
		{77, "g", kafka.InvalidRequest},
	} {
		if r := n.do(describe(c.kind, c.name), 4).(*kmsg.DescribeConfigsResponse).Resources[0]; kafka.ErrorCode(r.ErrorCode) != c.want || len(r.Configs) != 0 {
			t.Errorf("%s %q: %d, %d configs", c.kind, c.name, r.ErrorCode, len(r.Configs))
		}
	}
}

func TestClusterInEveryVersion(t *testing.T) {
	n, ctl := newTopicNode(t)
	for v := int16(0); v <= 2; v++ {
		req := kmsg.NewPtrDescribeClusterRequest()
		req.IncludeClusterAuthorizedOperations, req.EndpointType = true, 1
		r := n.do(req, v).(*kmsg.DescribeClusterResponse)
		if r.ErrorCode != 0 || r.ClusterID != ctl.Image().ClusterID || r.ControllerID != testNode || len(r.Brokers) != 1 || r.Brokers[0].Port != 9092 ||
			r.ClusterAuthorizedOperations != 8096 { // as Kafka 4.4 answers without an authorizer
			t.Errorf("version %d: %+v", v, r)
		}
		if v >= 1 {
			req.EndpointType = 2
			if r := n.do(req, v).(*kmsg.DescribeClusterResponse); kafka.ErrorCode(r.ErrorCode) != kafka.MismatchedEndpointType {
				t.Errorf("version %d, controllers: %+v", v, r)
			}
		}
	}
}

// What Kafka 4.4 answers to the same requests, but for the ids.
func TestPagesOfPartitions(t *testing.T) {
	n, _ := newTopicNode(t)
	n.create(7, topicRequest("q1", 3), topicRequest("q2", 2))
	type cursor = kmsg.DescribeTopicPartitionsRequestCursor
	page := func(limit int32, at *cursor, names ...string) string {
		req := kmsg.NewPtrDescribeTopicPartitionsRequest()
		req.ResponsePartitionLimit, req.Cursor = limit, at
		for _, name := range names {
			req.Topics = append(req.Topics, kmsg.DescribeTopicPartitionsRequestTopic{Topic: name})
		}
		r := n.do(req, 0).(*kmsg.DescribeTopicPartitionsResponse)
		var b strings.Builder
		for _, topic := range r.Topics {
			fmt.Fprintf(&b, "%s", *topic.Topic)
			if topic.ErrorCode != 0 {
				fmt.Fprintf(&b, "!%d", topic.ErrorCode)
			}
			for _, p := range topic.Partitions {
				fmt.Fprintf(&b, ":%d", p.Partition)
			}
			b.WriteString(" ")
		}
		if r.NextCursor != nil {
			fmt.Fprintf(&b, "next %s:%d", r.NextCursor.Topic, r.NextCursor.Partition)
		}
		return strings.TrimSpace(b.String())
	}
	for _, c := range [][2]string{
		{page(4, nil, "q2", "q1", "zz", "a/b"), "a/b!17 q1:0:1:2 q2:0 next q2:1"},
		{page(4, &cursor{Topic: "q2", Partition: 1}, "q1", "q2"), "q2:1"},
		{page(4, &cursor{Topic: "q15", Partition: 1}, "q1", "q2"), "q1!42 q2!42"},
		{page(4, &cursor{Topic: "q2", Partition: -1}, "q1", "q2"), "q1!42 q2!42"},
		{page(4, &cursor{Topic: "q2", Partition: 7}, "q2", "q3"), "q2 q3!3"},
		{page(0, nil), "q1:0 next q1:1"},
		{page(4, &cursor{Topic: "q1", Partition: 2}), "q1:2 q2:0:1"},
		{page(3, nil, "q1", "q2"), "q1:0:1:2 next q2:0"},
		{page(3, nil, "q1"), "q1:0:1:2"},
	} {
		if c[0] != c[1] {
			t.Errorf("got  %s\nwant %s", c[0], c[1])
		}
	}
}

func BenchmarkMetadataOfAllTopics(b *testing.B) {
	img := metadata.Empty()
	for i := range 10_000 {
		id := kafka.TopicID{byte(i >> 8), byte(i), 1}
		parts := make([]metadata.Partition, 10)
		for k := range parts {
			parts[k] = metadata.Partition{Leader: testNode, Replicas: []kafka.BrokerID{testNode}, ISR: []kafka.BrokerID{testNode}}
		}
		var err error
		img, _, err = img.Apply([]metadata.Record{&metadata.TopicRecord{Name: fmt.Sprint("topic-", i), ID: id},
			&metadata.PartitionsRecord{TopicID: id, Partitions: parts}}, int64(i))
		if err != nil {
			b.Fatal(err)
		}
	}
	h := &Handlers{Deps: Deps{NodeID: testNode, Config: config.Default()}}
	q := metadataQuery{version: 12, listener: "PLAINTEXT"}
	b.Run("cached=false", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			b.SetBytes(int64(len(h.encodeAllTopics(img, q))))
		}
	})
	b.Run("cached=true", func(b *testing.B) {
		b.ReportAllocs()
		var dst []byte
		for b.Loop() {
			dst = h.allTopics.answer(h, img, q).AppendTo(dst[:0])
			b.SetBytes(int64(len(dst)))
		}
	})
}
