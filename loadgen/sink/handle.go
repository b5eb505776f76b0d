package sink

import (
	"encoding/binary"
	"math/rand/v2"
	"time"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/core/clock"
	"github.com/tidemark/tidemark/core/kafka"
)

// served are the APIs and the versions that ApiVersions lists.
var served = []struct{ key, low, high int16 }{
	{0, produceMin, produceMax},
	{1, 4, 16}, // Fetch
	{2, 1, 7},  // ListOffsets
	{3, 0, 12}, // Metadata
	{8, 2, 8},  // OffsetCommit
	{9, 1, 8},  // OffsetFetch
	{10, 0, 4}, // FindCoordinator
	{11, 0, 9}, // JoinGroup
	{12, 0, 4}, // Heartbeat
	{13, 0, 5}, // LeaveGroup
	{14, 0, 5}, // SyncGroup
	{18, 0, 3}, // ApiVersions
	{19, 2, 7}, // CreateTopics
	{20, 1, 6}, // DeleteTopics
	{22, 0, 4}, // InitProducerId
	{32, 1, 4}, // DescribeConfigs
	{60, 0, 0}, // DescribeCluster
}

func serves(key, version int16) bool {
	for _, s := range served {
		if s.key == key {
			return version >= s.low && version <= s.high
		}
	}
	return false
}

// handle answers one request and reports whether the connection goes on.
func (c *conn) handle(s *scripted, now int64, frame []byte) bool {
	b := &kbin.Reader{Src: frame}
	key, version, correlation := b.Int16(), b.Int16(), b.Int32()
	if n := b.Int16(); n > 0 { // client id
		b.Span(int(n))
	}
	if key == 0 {
		if !serves(key, version) {
			return false
		}
		if version >= produceFlexible {
			skipTags(b)
		}
		return c.handleProduce(s, now, version, correlation, b)
	}
	req := kmsg.RequestForKey(key)
	if req == nil {
		return false
	}
	if !serves(key, version) {
		if key != 18 {
			return false
		}
		answer := c.apiVersions(0)
		answer.ErrorCode = int16(kafka.UnsupportedVersion)
		c.reply(correlation, answer, now, now)
		return true
	}
	req.SetVersion(version)
	if req.IsFlexible() {
		skipTags(b)
	}
	if !b.Ok() || req.ReadFrom(b.Src) != nil {
		return false
	}
	due := now
	var resp kmsg.Response
	if fetch, ok := req.(*kmsg.FetchRequest); ok {
		resp, due = c.fetch(s, now, fetch)
	} else {
		resp = c.answer(s, req)
	}
	if req.Key() == 19 {
		if s.TopicsDelay < 0 {
			return false
		}
		due += int64(s.TopicsDelay)
	}
	if resp == nil {
		return false
	}
	resp.SetVersion(version)
	c.reply(correlation, resp, due, clock.Nanos())
	return true
}

func (c *conn) reply(correlation int32, resp kmsg.Response, due, now int64) {
	at := c.begin()
	c.out = binary.BigEndian.AppendUint32(c.out, uint32(correlation))
	if resp.IsFlexible() && resp.Key() != 18 {
		c.out = append(c.out, 0)
	}
	c.out = resp.AppendTo(c.out)
	c.end(at, due, now)
}

// answer handles everything but Produce and Fetch; nil closes the connection.
//
//tidy:long one case for each message
func (c *conn) answer(s *scripted, req kmsg.Request) kmsg.Response {
	k := c.sink
	switch r := req.(type) {
	case *kmsg.ApiVersionsRequest:
		return c.apiVersions(r.Version)
	case *kmsg.MetadataRequest:
		return k.metadata(s, r)
	case *kmsg.CreateTopicsRequest:
		return k.createTopics(s, r)
	case *kmsg.DeleteTopicsRequest:
		return k.deleteTopics(s, r)
	case *kmsg.InitProducerIDRequest:
		resp := kmsg.NewPtrInitProducerIDResponse()
		resp.ProducerID = k.nextPID.Add(1)
		return resp
	case *kmsg.ListOffsetsRequest:
		return k.listOffsets(r)
	case *kmsg.DescribeConfigsRequest:
		return describeConfigs(r)
	case *kmsg.DescribeClusterRequest:
		resp := kmsg.NewPtrDescribeClusterResponse()
		resp.ClusterID = clusterID
		node := kmsg.NewDescribeClusterResponseBroker()
		node.Host, node.Port = k.host, k.port
		resp.Brokers = append(resp.Brokers, node)
		return resp
	case *kmsg.FindCoordinatorRequest:
		return k.findCoordinator(r)
	case *kmsg.JoinGroupRequest:
		k.stats.joins.Add(1)
		return k.groups.join(r)
	case *kmsg.SyncGroupRequest:
		return k.groups.sync(r)
	case *kmsg.HeartbeatRequest:
		return k.groups.heartbeat(r)
	case *kmsg.LeaveGroupRequest:
		return k.groups.leave(r)
	case *kmsg.OffsetCommitRequest:
		k.stats.commits.Add(1)
		return k.groups.commit(r)
	case *kmsg.OffsetFetchRequest:
		return k.groups.committed(r)
	}
	return nil
}

func (c *conn) apiVersions(version int16) *kmsg.ApiVersionsResponse {
	resp := kmsg.NewPtrApiVersionsResponse()
	resp.SetVersion(version)
	for _, s := range served {
		row := kmsg.NewApiVersionsResponseApiKey()
		row.ApiKey, row.MinVersion, row.MaxVersion = s.key, s.low, s.high
		resp.ApiKeys = append(resp.ApiKeys, row)
	}
	return resp
}

const clusterID = "tidemark-sink"

func (k *Sink) metadata(s *scripted, r *kmsg.MetadataRequest) kmsg.Response {
	resp := kmsg.NewPtrMetadataResponse()
	node := kmsg.NewMetadataResponseBroker()
	node.Host, node.Port = k.host, k.port
	resp.Brokers = append(resp.Brokers, node)
	id := clusterID
	resp.ClusterID = &id
	if r.Topics == nil || r.Version == 0 && len(r.Topics) == 0 {
		for _, t := range k.topics.all() {
			resp.Topics = append(resp.Topics, metadataTopic(t))
		}
		return resp
	}
	for _, asked := range r.Topics {
		var t *topic
		if asked.Topic != nil {
			t = k.topics.find([]byte(*asked.Topic), kafka.TopicID{})
			if auto := r.Version < 4 || r.AllowAutoTopicCreation; t == nil && auto && s.Partitions > 0 && *asked.Topic != "" {
				t, _ = k.topics.create(*asked.Topic, s.Partitions)
			}
		} else {
			t = k.topics.find(nil, asked.TopicID)
		}
		if t != nil {
			resp.Topics = append(resp.Topics, metadataTopic(t))
			continue
		}
		missing := kmsg.NewMetadataResponseTopic()
		missing.Topic, missing.TopicID = asked.Topic, asked.TopicID
		if missing.ErrorCode = int16(kafka.UnknownTopicOrPartition); asked.Topic == nil {
			missing.ErrorCode = int16(kafka.UnknownTopicId)
		}
		resp.Topics = append(resp.Topics, missing)
	}
	return resp
}

func metadataTopic(t *topic) kmsg.MetadataResponseTopic {
	row := kmsg.NewMetadataResponseTopic()
	row.Topic, row.TopicID = &t.name, t.id
	for i := range t.parts {
		p := kmsg.NewMetadataResponseTopicPartition()
		p.Partition, p.Replicas, p.ISR = int32(i), []int32{0}, []int32{0}
		p.LeaderEpoch = 0
		row.Partitions = append(row.Partitions, p)
	}
	return row
}

func (k *Sink) createTopics(s *scripted, r *kmsg.CreateTopicsRequest) kmsg.Response {
	resp := kmsg.NewPtrCreateTopicsResponse()
	for _, asked := range r.Topics {
		row := kmsg.NewCreateTopicsResponseTopic()
		row.Topic = asked.Topic
		n := int(asked.NumPartitions)
		if n == -1 {
			n = max(1, s.Partitions)
		}
		switch {
		case s.RefuseTopics != kafka.None:
			row.ErrorCode = int16(s.RefuseTopics)
		case n < 1 || n > 100000:
			row.ErrorCode = int16(kafka.InvalidPartitions)
		case asked.ReplicationFactor > 1:
			row.ErrorCode = int16(kafka.InvalidReplicationFactor)
		case k.topics.find([]byte(asked.Topic), kafka.TopicID{}) != nil:
			row.ErrorCode = int16(kafka.TopicAlreadyExists)
		case !r.ValidateOnly:
			t, _ := k.topics.create(asked.Topic, n)
			row.TopicID, row.NumPartitions, row.ReplicationFactor = t.id, int32(n), 1
		}
		resp.Topics = append(resp.Topics, row)
	}
	return resp
}

func (k *Sink) deleteTopics(s *scripted, r *kmsg.DeleteTopicsRequest) kmsg.Response {
	resp := kmsg.NewPtrDeleteTopicsResponse()
	remove := func(name string, id kafka.TopicID) {
		row := kmsg.NewDeleteTopicsResponseTopic()
		if name == "" {
			if t := k.topics.find(nil, id); t != nil {
				name = t.name
			}
		}
		row.Topic, row.TopicID = &name, id
		switch {
		case s.RefuseDeletes != kafka.None:
			row.ErrorCode = int16(s.RefuseDeletes)
		case !k.topics.remove(name):
			row.ErrorCode = int16(kafka.UnknownTopicOrPartition)
		}
		resp.Topics = append(resp.Topics, row)
	}
	for _, name := range r.TopicNames {
		remove(name, kafka.TopicID{})
	}
	for _, t := range r.Topics {
		if t.Topic != nil {
			remove(*t.Topic, t.TopicID)
		} else {
			remove("", t.TopicID)
		}
	}
	return resp
}

func (k *Sink) listOffsets(r *kmsg.ListOffsetsRequest) kmsg.Response {
	resp := kmsg.NewPtrListOffsetsResponse()
	for _, asked := range r.Topics {
		row := kmsg.NewListOffsetsResponseTopic()
		row.Topic = asked.Topic
		t := k.topics.find([]byte(asked.Topic), kafka.TopicID{})
		for _, ap := range asked.Partitions {
			p := kmsg.NewListOffsetsResponseTopicPartition()
			p.Partition = ap.Partition
			part := t.part(ap.Partition)
			if part == nil {
				p.ErrorCode = int16(kafka.UnknownTopicOrPartition)
			} else {
				start, end := part.bounds()
				p.LeaderEpoch, p.Timestamp, p.Offset = 0, -1, int64(end)
				if ap.Timestamp != -1 { // earliest, and any time: what is kept is recent
					p.Offset = int64(start)
				}
			}
			row.Partitions = append(row.Partitions, p)
		}
		resp.Topics = append(resp.Topics, row)
	}
	return resp
}

func describeConfigs(r *kmsg.DescribeConfigsRequest) kmsg.Response {
	resp := kmsg.NewPtrDescribeConfigsResponse()
	for _, asked := range r.Resources {
		row := kmsg.NewDescribeConfigsResponseResource()
		row.ResourceType, row.ResourceName = asked.ResourceType, asked.ResourceName
		entry := kmsg.NewDescribeConfigsResponseResourceConfig()
		value := "1"
		entry.Name, entry.Value, entry.IsDefault = "min.insync.replicas", &value, true
		entry.Source = kmsg.ConfigSourceDefaultConfig
		row.Configs = append(row.Configs, entry)
		resp.Resources = append(resp.Resources, row)
	}
	return resp
}

func (k *Sink) findCoordinator(r *kmsg.FindCoordinatorRequest) kmsg.Response {
	resp := kmsg.NewPtrFindCoordinatorResponse()
	resp.Host, resp.Port = k.host, k.port
	for _, key := range r.CoordinatorKeys {
		row := kmsg.NewFindCoordinatorResponseCoordinator()
		row.Key, row.Host, row.Port = key, k.host, k.port
		resp.Coordinators = append(resp.Coordinators, row)
	}
	return resp
}

// memberID is a fresh name for a member.
func memberID(client string) string {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], rand.Uint64())
	const digits = "0123456789abcdef"
	name := []byte(client + "-")
	for _, x := range b {
		name = append(name, digits[x>>4], digits[x&15])
	}
	return string(name)
}

// maxFetchWait bounds what a client may ask a fetch to wait.
const maxFetchWait = time.Minute
