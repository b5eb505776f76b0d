package group

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// The records are Kafka's (kmsg has their layouts). A key begins with its version, which tells the kind of record:
//
//	version 0, 1  OffsetCommitKey   group, topic, partition      value v4 (topic id in tag 0), v1 with an expiry of its own
//	version 2     GroupMetadataKey  group                        value v3
//	version 3...  KIP-848 and others
const (
	offsetKeyVersion        = 1
	groupKeyVersion         = 2
	groupValueVersion       = 3
	groupValueNewest        = 4
	offsetValueVersion      = 4
	offsetValueExpiresAtMax = 1
)

// Requests may have longer texts than the records, where two bytes tell a text's length.
const (
	maxTextBytes = math.MaxInt16
	maxNameBytes = maxTextBytes - 64 // of what an id is made of
)

// offsetKey names one committed offset of a group.
type offsetKey struct {
	topic     string
	partition int32
}

func offsetRecordKey(group string, k offsetKey) []byte {
	key := kmsg.OffsetCommitKey{Version: offsetKeyVersion, Group: group, Topic: k.topic, Partition: k.partition}
	return key.AppendTo(nil)
}

// offsetKeyBytes is the length of offsetRecordKey.
func offsetKeyBytes(group string, k offsetKey) int {
	return 2 + 2 + len(group) + 2 + len(k.topic) + 4
}

// offsetRecordBytes is the length of offsetRecord's key and value.
func offsetRecordBytes(group string, k offsetKey, o *committed) int {
	n := offsetKeyBytes(group, k) + 2 + 8 + len(o.metadata) + 8
	if o.expireMS >= 0 {
		return n + 2 + 8 // the length of the metadata, the expiry
	}
	n += 4 + 1 + 1 // the leader epoch, the length of the metadata, the number of tags
	for more := (len(o.metadata) + 1) >> 7; more > 0; more >>= 7 {
		n++
	}
	if o.topicID != [16]byte{} {
		n += 2 + len(o.topicID)
	}
	return n
}

func offsetRecord(group string, k offsetKey, o *committed) Record {
	v := kmsg.OffsetCommitValue{
		Version:         offsetValueVersion,
		Offset:          o.offset,
		LeaderEpoch:     o.leaderEpoch,
		Metadata:        o.metadata,
		CommitTimestamp: o.commitMS,
		TopicID:         o.topicID,
	}
	if o.expireMS >= 0 {
		// Only version 1 can say when an offset expires (OffsetCommit 2 to 4 may ask for it); it has no leader epoch.
		v.Version, v.ExpireTimestamp = offsetValueExpiresAtMax, o.expireMS
	}
	return Record{Key: offsetRecordKey(group, k), Value: v.AppendTo(nil)}
}

// groupKeyBytes is the length of groupRecordKey.
func groupKeyBytes(group string) int { return 2 + 2 + len(group) }

func groupRecordKey(group string) []byte {
	key := kmsg.GroupMetadataKey{Version: groupKeyVersion, Group: group}
	return key.AppendTo(nil)
}

// groupRecord is a group with the assignment of each member id; nil takes what the members have.
func groupRecord(g *classic, assignment map[string][]byte) Record {
	v := kmsg.NewGroupMetadataValue()
	v.Version = groupValueVersion
	v.ProtocolType = g.protocolType
	v.Generation = g.generation
	v.Protocol = g.protocol
	v.CurrentStateTimestamp = g.sinceMS
	if g.leader != "" {
		v.Leader = kmsg.StringPtr(g.leader)
	}
	for _, mb := range g.members {
		vm := kmsg.NewGroupMetadataValueMember()
		vm.MemberID, vm.InstanceID, vm.ClientID, vm.ClientHost = mb.id, mb.instance, mb.clientID, mb.host
		vm.RebalanceTimeoutMillis, vm.SessionTimeoutMillis = mb.rebalanceTimeoutMS, mb.sessionTimeoutMS
		if g.protocol != nil {
			vm.Subscription = mb.metadata(*g.protocol)
		}
		vm.Assignment = mb.assignment
		if assignment != nil {
			vm.Assignment = assignment[mb.id]
		}
		v.Members = append(v.Members, vm)
	}
	return Record{Key: groupRecordKey(g.id), Value: v.AppendTo(nil)}
}

// Replay takes one record of the log into a machine that is being loaded, in log order; a nil value is a tombstone.
// Nothing of key and value is kept. Records of other kinds are passed over. After the last one comes Loaded.
func (m *Machine) Replay(key, value []byte) error {
	if len(key) < 2 {
		return fmt.Errorf("record key of %d bytes has no version", len(key))
	}
	if m.names == nil {
		m.names = map[string]string{}
	}
	switch version := binary.BigEndian.Uint16(key); version {
	case 0, offsetKeyVersion:
		return m.replayOffset(key, value)
	case groupKeyVersion:
		return m.replayGroup(key, value)
	}
	return nil
}

func (m *Machine) replayOffset(key, value []byte) error {
	var k kmsg.OffsetCommitKey
	if err := k.UnsafeReadFrom(key); err != nil { // its strings are views of key: what is kept is cloned
		return fmt.Errorf("offset commit key: %w", err)
	}
	topic, ok := m.names[k.Topic]
	if !ok {
		topic = strings.Clone(k.Topic)
		m.names[topic] = topic
	}
	at := offsetKey{topic, k.Partition}
	if value == nil {
		m.removeOffset(k.Group, at)
		return nil
	}
	var v kmsg.OffsetCommitValue
	if err := v.ReadFrom(value); err != nil {
		return fmt.Errorf("committed offset of group %q, %s-%d: %w", k.Group, k.Topic, k.Partition, err)
	}
	if v.Version < 0 || v.Version > offsetValueVersion {
		return fmt.Errorf("committed offset of group %q, %s-%d: version %d is newer than this broker", k.Group, k.Topic, k.Partition, v.Version)
	}
	o := committed{offset: v.Offset, leaderEpoch: v.LeaderEpoch, metadata: v.Metadata, commitMS: v.CommitTimestamp, expireMS: -1, topicID: v.TopicID}
	if v.Version < 3 {
		o.leaderEpoch = -1
	}
	if v.Version == offsetValueExpiresAtMax {
		o.expireMS = v.ExpireTimestamp
	}
	if m.offsets[k.Group] == nil {
		k.Group = strings.Clone(k.Group)
	}
	m.setOffset(k.Group, at, o)
	return nil
}

func (m *Machine) replayGroup(key, value []byte) error {
	var k kmsg.GroupMetadataKey
	if err := k.ReadFrom(key); err != nil {
		return fmt.Errorf("group metadata key: %w", err)
	}
	if value == nil {
		delete(m.groups, k.Group)
		return nil
	}
	var v kmsg.GroupMetadataValue
	if err := v.ReadFrom(value); err != nil {
		return fmt.Errorf("metadata of group %q: %w", k.Group, err)
	}
	if v.Version < 0 || v.Version > groupValueNewest {
		return fmt.Errorf("metadata of group %q: version %d is newer than this broker", k.Group, v.Version)
	}
	g := m.newClassic(k.Group)
	g.persisted = true
	g.generation, g.protocolType, g.protocol, g.sinceMS = v.Generation, v.ProtocolType, v.Protocol, v.CurrentStateTimestamp
	if len(v.Members) > 0 && v.Protocol == nil {
		return fmt.Errorf("metadata of group %q: %d members and no protocol", k.Group, len(v.Members))
	}
	for i := range v.Members {
		vm := &v.Members[i]
		mb := &member{id: vm.MemberID, instance: vm.InstanceID, clientID: vm.ClientID, host: vm.ClientHost,
			sessionTimeoutMS: vm.SessionTimeoutMillis, rebalanceTimeoutMS: vm.RebalanceTimeoutMillis,
			assignment: bytes.Clone(vm.Assignment), synced: true}
		if mb.rebalanceTimeoutMS < 0 {
			mb.rebalanceTimeoutMS = mb.sessionTimeoutMS
		}
		p := kmsg.NewJoinGroupRequestProtocol()
		p.Name, p.Metadata = *v.Protocol, bytes.Clone(vm.Subscription)
		mb.protocols = []kmsg.JoinGroupRequestProtocol{p}
		m.add(g, mb, v.ProtocolType)
	}
	if len(g.members) > 0 {
		g.state = stable
	}
	if v.Leader != nil && g.byID[*v.Leader] != nil {
		g.leader = *v.Leader
	}
	return nil
}

// Loaded ends the loading: sessions of the members begin, and groups that have only offsets come to be.
func (m *Machine) Loaded(now Now) {
	m.names = nil
	for id := range m.offsets {
		if m.groups[id] == nil {
			m.newClassic(id)
		}
	}
	if len(m.groups) > 0 {
		m.timers.set(&m.retention, now.in(m.config.RetentionCheckMS))
	}
	for _, id := range slices.Sorted(maps.Keys(m.groups)) {
		g := m.groups[id]
		for _, mb := range g.members {
			m.heard(now, mb)
		}
		if len(g.members) > int(m.config.MaxSize) {
			m.prepare(now, g, fmt.Sprintf("its %d members are more than group.max.size %d allows", len(g.members), m.config.MaxSize))
		}
	}
}
