package config

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

func wrong(name, format string, a ...any) error {
	return &propertyError{name: name, text: fmt.Sprintf(format, a...)}
}

// validate checks values against each other, and makes the listeners.
func (b *Broker) validate() error {
	if id, ok := b.set["broker.id"]; ok && b.set["node.id"] != "" && strings.TrimSpace(id) != strings.TrimSpace(b.set["node.id"]) {
		return wrong("broker.id", "%s differs from node.id %d: give one of them", id, b.NodeID)
	}
	if b.NodeID < 0 {
		return wrong("broker.id", "%d is too small: at least 0", b.NodeID)
	}
	if !slices.Contains(b.ProcessRoles, "broker") || !slices.Contains(b.ProcessRoles, "controller") {
		return wrong("process.roles", "%q: a single node is both: broker,controller", strings.Join(b.ProcessRoles, ","))
	}
	if len(b.LogDirs) == 0 {
		return wrong("log.dirs", "is empty: give at least one folder")
	}
	for i, dir := range b.LogDirs {
		if dir == "" || slices.Contains(b.LogDirs[:i], dir) {
			return wrong("log.dirs", "%q is empty or names a folder twice", strings.Join(b.LogDirs, ","))
		}
	}
	if err := b.validateQuorum(); err != nil {
		return err
	}
	if err := b.validateTimes(); err != nil {
		return err
	}
	if err := b.validateBounds(); err != nil {
		return err
	}
	return b.bindListeners()
}

// validateQuorum holds the voters to this node alone.
func (b *Broker) validateQuorum() error {
	for _, v := range b.ControllerQuorumVoters {
		id, _, ok := strings.Cut(v, "@")
		n, err := strconv.ParseInt(id, 10, 32)
		if !ok || err != nil {
			return wrong("controller.quorum.voters", "%q: want id@host:port", v)
		}
		if int32(n) != b.NodeID || len(b.ControllerQuorumVoters) > 1 {
			return wrong("controller.quorum.voters", "%q: a quorum of more than this node (node.id %d) is not served",
				strings.Join(b.ControllerQuorumVoters, ","), b.NodeID)
		}
	}
	return nil
}

func (b *Broker) validateTimes() error {
	if b.LogRetentionMS == 0 {
		return wrong("log.retention.ms", "0: want -1 (for ever) or at least 1")
	}
	b.LogRetentionMS = max(b.LogRetentionMS, -1)
	if b.LogRollMS < 1 {
		return wrong("log.roll.ms", "%d is too small: at least 1", b.LogRollMS)
	}
	if b.LogRollJitterMS < 0 {
		return wrong("log.roll.jitter.ms", "%d is too small: at least 0", b.LogRollJitterMS)
	}
	if b.LogCleanerMinCompactionLagMS > b.LogCleanerMaxCompactionLagMS {
		return wrong("log.cleaner.min.compaction.lag.ms", "%d is more than log.cleaner.max.compaction.lag.ms, %d",
			b.LogCleanerMinCompactionLagMS, b.LogCleanerMaxCompactionLagMS)
	}
	if b.GroupMinSessionTimeoutMS > b.GroupMaxSessionTimeoutMS {
		return wrong("group.min.session.timeout.ms", "%d is more than group.max.session.timeout.ms, %d",
			b.GroupMinSessionTimeoutMS, b.GroupMaxSessionTimeoutMS)
	}
	return nil
}

func (b *Broker) validateBounds() error {
	switch {
	case b.QueuedMaxRequestBytes == -1:
		b.QueuedMaxRequestBytes = math.MaxInt64
	case b.set[queuedMax] == "" && b.QueuedMaxRequestBytes < int64(b.SocketRequestMaxBytes):
		b.QueuedMaxRequestBytes = int64(b.SocketRequestMaxBytes)
		b.set[queuedMax] = strconv.FormatInt(b.QueuedMaxRequestBytes, 10) // for Describe
	case b.QueuedMaxRequestBytes < int64(b.SocketRequestMaxBytes):
		return wrong(queuedMax, "%d is less than socket.request.max.bytes, %d: no such request could "+
			"ever be read (-1 sets no bound)", b.QueuedMaxRequestBytes, b.SocketRequestMaxBytes)
	}
	if b.OffsetsTopicCompressionCodec < 0 || b.OffsetsTopicCompressionCodec > 4 {
		return wrong("offsets.topic.compression.codec", "%d: want 0 (none), 1 (gzip), 2 (snappy), 3 (lz4) or 4 (zstd)",
			b.OffsetsTopicCompressionCodec)
	}
	if b.OffsetsTopicSegmentBytes < minSegmentBytes {
		return wrong("offsets.topic.segment.bytes", "%d is too small: at least %d", b.OffsetsTopicSegmentBytes, minSegmentBytes)
	}
	if b.DefaultReplicationFactor < 1 || b.DefaultReplicationFactor > math.MaxInt16 {
		return wrong("default.replication.factor", "%d: want 1 to %d", b.DefaultReplicationFactor, math.MaxInt16)
	}
	return nil
}

// queuedMax is the property whose default is raised where socket.request.max.bytes is larger.
const queuedMax = "queued.max.request.bytes"

const minSegmentBytes = 1 << 20
