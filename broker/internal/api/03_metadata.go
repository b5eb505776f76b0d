package api

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/broker/internal/controller"
	"github.com/tidemark/tidemark/broker/internal/metadata"
	"github.com/tidemark/tidemark/core/kafka"
)

// Authorized operations as Kafka tells them where no authorizer is configured: every operation that the kind of
// resource knows, as bits by AclOperation's numbers; and the value for "not asked".
const (
	topicOperations   = 1<<3 | 1<<4 | 1<<5 | 1<<6 | 1<<7 | 1<<8 | 1<<10 | 1<<11
	clusterOperations = 1<<5 | 1<<7 | 1<<8 | 1<<9 | 1<<10 | 1<<11 | 1<<12
	operationsUnasked = -1 << 31
)

// autoCreateTimeout bounds how long a Metadata request waits for the topics that it creates; the client asks again.
const autoCreateTimeout = 5 * time.Second

// metadataQuery is what an answer to Metadata depends on, beside the image and the topics.
type metadataQuery struct {
	version                    int16
	listener                   string
	topicsAllowed, clusterOnce bool // include authorized operations of topics, of the cluster
}

// metadata serves API key 3, versions 0 to 13. Topics that are missing are created when the request and
// auto.create.topics.enable allow it; the answer then waits until they can be used.
func (h *Handlers) metadata(c *Call, req kmsg.Request) kmsg.Response {
	r := req.(*kmsg.MetadataRequest)
	q := metadataQuery{version: c.Version, listener: c.Listener,
		topicsAllowed: c.Version >= 8 && r.IncludeTopicAuthorizedOperations,
		clusterOnce:   c.Version >= 8 && c.Version <= 10 && r.IncludeClusterAuthorizedOperations}
	img := h.Image()
	if r.Topics == nil || c.Version == 0 && len(r.Topics) == 0 {
		return h.allTopics.answer(h, img, q)
	}
	names, ids, ok := metadataTopics(r)
	if !ok {
		return h.metadataRefusal(img, q, r)
	}
	if len(ids) > 0 { // names beside ids are not looked at, as in Kafka
		resp := h.metadataHead(img, q)
		for _, id := range ids {
			resp.Topics = append(resp.Topics, h.metadataByID(img, q, id))
		}
		return resp
	}
	if c.Version < 4 || r.AllowAutoTopicCreation {
		if missing := h.toCreate(img, names); len(missing) > 0 {
			reply, ctx := c.Later(), c.Context()
			go func() { reply(h.metadataCreating(ctx, q, names, missing)) }()
			return nil
		}
	}
	return h.metadataByNames(img, q, names, nil)
}

// metadataTopics gives the names and the ids asked for, each once. Versions below 12 may not name topics by id.
func metadataTopics(r *kmsg.MetadataRequest) (names []string, ids []kafka.TopicID, ok bool) {
	seen := make(map[string]bool, len(r.Topics))
	seenID := map[kafka.TopicID]bool{}
	for _, t := range r.Topics {
		id := kafka.TopicID(t.TopicID)
		if r.Version < 12 && (t.Topic == nil || !id.IsZero()) {
			return nil, nil, false
		}
		if !id.IsZero() && !seenID[id] {
			seenID[id] = true
			ids = append(ids, id)
		}
		if t.Topic != nil && !seen[*t.Topic] {
			seen[*t.Topic] = true
			names = append(names, *t.Topic)
		}
	}
	return names, ids, true
}

// metadataRefusal answers a request that its version does not allow: INVALID_REQUEST for every topic.
func (h *Handlers) metadataRefusal(img *metadata.Image, q metadataQuery, r *kmsg.MetadataRequest) kmsg.Response {
	resp := h.metadataHead(img, q)
	for _, asked := range r.Topics {
		t := kmsg.NewMetadataResponseTopic()
		t.ErrorCode, t.Topic, t.TopicID = int16(kafka.InvalidRequest), asked.Topic, asked.TopicID
		if t.Topic == nil {
			t.Topic = new(string)
		}
		resp.Topics = append(resp.Topics, t)
	}
	return resp
}

// toCreate is which of the names are missing and may be created by asking for them.
func (h *Handlers) toCreate(img *metadata.Image, names []string) (missing []string) {
	if !h.Config.AutoCreateTopicsEnable {
		return nil
	}
	for _, name := range names {
		// Of the internal topics only the offsets topic has its settings here.
		special := controller.InternalTopic(name) && name != kafka.OffsetsTopic || name == kafka.MetadataTopic
		if img.Topic(name) == nil && !special && kafka.ValidateTopicName(name) == nil {
			missing = append(missing, name)
		}
	}
	return missing
}

// metadataCreating creates the missing topics and answers for all names. It may block; it runs on a goroutine of its own.
func (h *Handlers) metadataCreating(ctx context.Context, q metadataQuery, names, missing []string) kmsg.Response {
	ctx, cancel := context.WithTimeout(ctx, autoCreateTimeout)
	defer cancel()
	var topics []controller.NewTopic
	var results []controller.TopicResult
	for _, name := range missing {
		if name == kafka.OffsetsTopic {
			results = append(results, h.Controller.CreateOffsetsTopic(ctx))
			continue
		}
		topics = append(topics, controller.NewTopic{Name: name, NumPartitions: -1, ReplicationFactor: -1})
	}
	if len(topics) > 0 {
		results = append(results, h.Controller.CreateTopics(ctx, topics, false)...)
	}
	failed := map[string]kafka.ErrorCode{}
	for _, r := range results {
		switch r.Err {
		case kafka.None, kafka.TopicAlreadyExists: // another request was faster
		case kafka.InvalidTopicException, kafka.InvalidReplicationFactor, kafka.PolicyViolation, kafka.InvalidPartitions, kafka.InvalidConfig:
			failed[r.Name] = r.Err
		default:
			failed[r.Name] = kafka.LeaderNotAvailable
		}
	}
	return h.metadataByNames(h.Image(), q, names, failed)
}

// metadataByNames answers for named topics; failed tells why some could not be created.
func (h *Handlers) metadataByNames(img *metadata.Image, q metadataQuery, names []string, failed map[string]kafka.ErrorCode) kmsg.Response {
	resp := h.metadataHead(img, q)
	b := h.newTopicBuilder(img, q)
	for _, name := range names {
		if topic := img.Topic(name); topic != nil {
			resp.Topics = append(resp.Topics, b.topic(topic))
			continue
		}
		code := kafka.UnknownTopicOrPartition
		if kafka.ValidateTopicName(name) != nil {
			code = kafka.InvalidTopicException
		} else if f, ok := failed[name]; ok {
			code = f
		}
		t := kmsg.NewMetadataResponseTopic()
		t.ErrorCode, t.Topic, t.IsInternal = int16(code), kmsg.StringPtr(name), controller.InternalTopic(name)
		t.AuthorizedOperations = b.operations()
		resp.Topics = append(resp.Topics, t)
	}
	return resp
}

func (h *Handlers) metadataByID(img *metadata.Image, q metadataQuery, id kafka.TopicID) kmsg.MetadataResponseTopic {
	if topic := img.TopicByID(id); topic != nil {
		return h.newTopicBuilder(img, q).topic(topic)
	}
	t := kmsg.NewMetadataResponseTopic()
	t.ErrorCode, t.TopicID = int16(kafka.UnknownTopicId), id
	return t
}

// metadataHead is an answer without topics.
func (h *Handlers) metadataHead(img *metadata.Image, q metadataQuery) *kmsg.MetadataResponse {
	resp := kmsg.NewPtrMetadataResponse()
	resp.Version = q.version
	resp.ClusterID = kmsg.StringPtr(img.ClusterID)
	resp.ControllerID = int32(img.ControllerID)
	for b := range img.Brokers() {
		host, port, ok := h.endpoint(b, q.listener)
		if !ok || b.Fenced {
			continue
		}
		mb := kmsg.NewMetadataResponseBroker()
		mb.NodeID, mb.Host, mb.Port, mb.Rack = int32(b.ID), host, port, rack(b)
		resp.Brokers = append(resp.Brokers, mb)
	}
	if q.clusterOnce {
		resp.AuthorizedOperations = clusterOperations
	}
	return resp
}

// endpoint is where clients of a listener reach a broker.
func (h *Handlers) endpoint(b *metadata.Broker, listener string) (host string, port int32, ok bool) {
	if b.ID == h.NodeID && h.Advertised != nil {
		host, port = h.Advertised(listener)
		return host, port, host != ""
	}
	for _, e := range b.Endpoints {
		if e.Listener == listener {
			return e.Host, e.Port, true
		}
	}
	return "", 0, false
}

func rack(b *metadata.Broker) *string {
	if b.Rack == "" {
		return nil
	}
	return &b.Rack
}

// topicBuilder describes topics. Neighbours with equal replicas share the lists of them: 100,000 partitions would else
// take 300,000 small allocations.
type topicBuilder struct {
	img       *metadata.Image
	q         metadataQuery
	reachable map[kafka.BrokerID]bool // by the query's listener
	from      []kafka.BrokerID
	list      []int32
}

func (h *Handlers) newTopicBuilder(img *metadata.Image, q metadataQuery) *topicBuilder {
	b := &topicBuilder{img: img, q: q, reachable: map[kafka.BrokerID]bool{}}
	for broker := range img.Brokers() {
		_, _, b.reachable[broker.ID] = h.endpoint(broker, q.listener)
	}
	return b
}

func (b *topicBuilder) operations() int32 {
	if b.q.topicsAllowed {
		return topicOperations
	}
	return operationsUnasked
}

func (b *topicBuilder) topic(t *metadata.Topic) kmsg.MetadataResponseTopic {
	mt := kmsg.NewMetadataResponseTopic()
	mt.Topic, mt.TopicID, mt.IsInternal = &t.Name, t.ID, t.Internal
	mt.AuthorizedOperations = b.operations()
	mt.Partitions = make([]kmsg.MetadataResponseTopicPartition, len(t.Partitions))
	for i := range t.Partitions {
		p := &t.Partitions[i]
		mp := &mt.Partitions[i]
		*mp = kmsg.NewMetadataResponseTopicPartition()
		mp.ErrorCode, mp.Partition, mp.Leader = int16(b.leaderError(p)), int32(i), int32(p.Leader)
		mp.LeaderEpoch = int32(p.LeaderEpoch)
		mp.Replicas, mp.ISR, mp.OfflineReplicas = b.ids(p.Replicas), b.ids(p.ISR), offline(b.img, p.Replicas)
	}
	return mt
}

// leaderError tells clients of a partition whose leader they cannot reach.
func (b *topicBuilder) leaderError(p *metadata.Partition) kafka.ErrorCode {
	reachable, registered := b.reachable[p.Leader]
	switch {
	case reachable:
		return kafka.None
	case registered && b.q.version >= 6:
		return kafka.ListenerNotFound
	}
	return kafka.LeaderNotAvailable
}

func (b *topicBuilder) ids(from []kafka.BrokerID) []int32 {
	if b.list == nil || !slices.Equal(from, b.from) {
		b.from, b.list = from, brokerIDs(from)
	}
	return b.list
}

func brokerIDs(from []kafka.BrokerID) []int32 {
	out := make([]int32, len(from))
	for i, id := range from {
		out[i] = int32(id)
	}
	return out
}

// offline lists the replicas whose brokers are fenced or gone.
func offline(img *metadata.Image, replicas []kafka.BrokerID) (out []int32) {
	for _, id := range replicas {
		if b := img.Broker(id); b == nil || b.Fenced {
			out = append(out, int32(id))
		}
	}
	return out
}

// metadataCache keeps encoded answers for all topics of the newest image: thousands of clients that start at once ask for
// the same megabytes.
type metadataCache struct {
	mu struct {
		sync.Mutex
		img    *metadata.Image
		bodies map[metadataQuery][]byte
	}
}

// maxCachedMetadata bounds the answers kept for one image. Clients in use agree on a handful of versions.
const maxCachedMetadata = 16

// answer gives the answer for all topics. The lock is held while it is built, so that it is built once.
func (m *metadataCache) answer(h *Handlers, img *metadata.Image, q metadataQuery) kmsg.Response {
	head := kmsg.NewPtrMetadataResponse()
	head.Version = q.version
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.mu.img != img || len(m.mu.bodies) >= maxCachedMetadata {
		if m.mu.img != nil && m.mu.img.Offset > img.Offset { // an older image than others have seen: not worth keeping
			return &encodedResponse{head, h.encodeAllTopics(img, q)}
		}
		m.mu.img, m.mu.bodies = img, map[metadataQuery][]byte{}
	}
	body, ok := m.mu.bodies[q]
	if !ok {
		body = h.encodeAllTopics(img, q)
		m.mu.bodies[q] = body
	}
	return &encodedResponse{head, body}
}

func (h *Handlers) encodeAllTopics(img *metadata.Image, q metadataQuery) []byte {
	resp := h.metadataHead(img, q)
	resp.Topics = make([]kmsg.MetadataResponseTopic, 0, img.NumTopics())
	b := h.newTopicBuilder(img, q)
	for t := range img.Topics() {
		resp.Topics = append(resp.Topics, b.topic(t))
	}
	return resp.AppendTo(nil)
}

// encodedResponse is a response whose bytes are known already, and shared.
type encodedResponse struct {
	kmsg.Response
	body []byte
}

// AppendTo implements kmsg.Response.
func (e *encodedResponse) AppendTo(dst []byte) []byte { return append(dst, e.body...) }
