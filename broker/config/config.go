// Package config holds the broker's settings: Kafka's own property names, defaults and units, read from a
// server.properties file and from overrides, and the per-topic settings that fall back to them.
//
// One literal table (definitions.go) describes every property that the broker honours; the parser, validation,
// DescribeConfigs and the struct fields of Broker and Topic all follow it. A second table names Kafka's remaining
// broker properties, which are accepted with a warning because nothing here depends on them. Anything else is refused
// with file, line and the nearest known name.
//
// A field's name follows from the property's: log.segment.bytes is LogSegmentBytes, and ms and id become MS and ID.
// Broker and Topic are plain values without goroutines or locks: whoever holds one treats it as read-only. What is set
// while the broker runs (dynamic.go) makes a new Broker, which Now gives.
package config

import "slices"

// Warning is something that the broker accepts and that its owner should know.
type Warning struct {
	Where    string // file:line, or the override it came from
	Property string
	Text     string
}

// String gives the warning as one line.
func (w Warning) String() string { return w.Where + ": " + w.Property + ": " + w.Text }

// Broker is one node's settings, one field for each supported Kafka property. Times in ...MS are milliseconds.
type Broker struct {
	NodeID       int32    `property:"node.id"`
	ProcessRoles []string `property:"process.roles"`
	BrokerRack   string   `property:"broker.rack"`

	Listeners                   []string `property:"listeners"`
	AdvertisedListeners         []string `property:"advertised.listeners"`
	ListenerSecurityProtocolMap string   `property:"listener.security.protocol.map"`
	InterBrokerListenerName     string   `property:"inter.broker.listener.name"`
	ControllerListenerNames     []string `property:"controller.listener.names"`
	ControllerQuorumVoters      []string `property:"controller.quorum.voters"`

	LogDirs        []string `property:"log.dirs"`
	MetadataLogDir string   `property:"metadata.log.dir"`

	NumPartitions               int32 `property:"num.partitions"`
	DefaultReplicationFactor    int32 `property:"default.replication.factor"`
	MinInsyncReplicas           int32 `property:"min.insync.replicas"`
	AutoCreateTopicsEnable      bool  `property:"auto.create.topics.enable"`
	DeleteTopicEnable           bool  `property:"delete.topic.enable"`
	UncleanLeaderElectionEnable bool  `property:"unclean.leader.election.enable"`

	MessageMaxBytes                int32    `property:"message.max.bytes"`
	MaxDecompressedMessageBytes    int32    `property:"max.decompressed.message.bytes"`
	CompressionType                string   `property:"compression.type"`
	CompressionGzipLevel           int32    `property:"compression.gzip.level"`
	CompressionLz4Level            int32    `property:"compression.lz4.level"`
	CompressionZstdLevel           int32    `property:"compression.zstd.level"`
	LogSegmentBytes                int32    `property:"log.segment.bytes"`
	LogRollMS                      int64    `property:"log.roll.ms"`
	LogRollJitterMS                int64    `property:"log.roll.jitter.ms"`
	LogIndexIntervalBytes          int32    `property:"log.index.interval.bytes"`
	LogIndexSizeMaxBytes           int32    `property:"log.index.size.max.bytes"`
	LogRetentionBytes              int64    `property:"log.retention.bytes"`
	LogRetentionMS                 int64    `property:"log.retention.ms"`
	LogRetentionCheckIntervalMS    int64    `property:"log.retention.check.interval.ms"`
	LogSegmentDeleteDelayMS        int64    `property:"log.segment.delete.delay.ms"`
	LogCleanupPolicy               []string `property:"log.cleanup.policy"`
	LogCleanerDeleteRetentionMS    int64    `property:"log.cleaner.delete.retention.ms"`
	LogCleanerMinCompactionLagMS   int64    `property:"log.cleaner.min.compaction.lag.ms"`
	LogCleanerMaxCompactionLagMS   int64    `property:"log.cleaner.max.compaction.lag.ms"`
	LogCleanerMinCleanableRatio    float64  `property:"log.cleaner.min.cleanable.ratio"`
	LogCleanerEnable               bool     `property:"log.cleaner.enable"`
	LogCleanerThreads              int32    `property:"log.cleaner.threads"`
	LogCleanerBackoffMS            int64    `property:"log.cleaner.backoff.ms"`
	LogCleanerDedupeBufferSize     int64    `property:"log.cleaner.dedupe.buffer.size"`
	LogCleanerIoBufferLoadFactor   float64  `property:"log.cleaner.io.buffer.load.factor"`
	LogCleanerIoMaxBytesPerSecond  float64  `property:"log.cleaner.io.max.bytes.per.second"`
	LogFlushIntervalMessages       int64    `property:"log.flush.interval.messages"`
	LogFlushIntervalMS             int64    `property:"log.flush.interval.ms"`
	LogFlushSchedulerIntervalMS    int64    `property:"log.flush.scheduler.interval.ms"`
	LogMessageTimestampType        string   `property:"log.message.timestamp.type"`
	LogMessageTimestampBeforeMaxMS int64    `property:"log.message.timestamp.before.max.ms"`
	LogMessageTimestampAfterMaxMS  int64    `property:"log.message.timestamp.after.max.ms"`
	LogPreallocate                 bool     `property:"log.preallocate"`

	LogFlushOffsetCheckpointIntervalMS int32 `property:"log.flush.offset.checkpoint.interval.ms"`
	NumRecoveryThreadsPerDataDir       int32 `property:"num.recovery.threads.per.data.dir"`
	ProducerIDExpirationMS             int32 `property:"producer.id.expiration.ms"`

	QueuedMaxRequestBytes                int64 `property:"queued.max.request.bytes"`
	SocketSendBufferBytes                int32 `property:"socket.send.buffer.bytes"`
	SocketReceiveBufferBytes             int32 `property:"socket.receive.buffer.bytes"`
	SocketRequestMaxBytes                int32 `property:"socket.request.max.bytes"`
	ConnectionsMaxIdleMS                 int64 `property:"connections.max.idle.ms"`
	MaxConnections                       int32 `property:"max.connections"`
	MaxConnectionsPerIP                  int32 `property:"max.connections.per.ip"`
	FetchMaxBytes                        int32 `property:"fetch.max.bytes"`
	MaxIncrementalFetchSessionCacheSlots int32 `property:"max.incremental.fetch.session.cache.slots"`
	MaxRequestPartitionSizeLimit         int32 `property:"max.request.partition.size.limit"`

	GroupInitialRebalanceDelayMS    int32 `property:"group.initial.rebalance.delay.ms"`
	GroupMinSessionTimeoutMS        int32 `property:"group.min.session.timeout.ms"`
	GroupMaxSessionTimeoutMS        int32 `property:"group.max.session.timeout.ms"`
	GroupMaxSize                    int32 `property:"group.max.size"`
	OffsetMetadataMaxBytes          int32 `property:"offset.metadata.max.bytes"`
	OffsetsCommitTimeoutMS          int32 `property:"offsets.commit.timeout.ms"`
	OffsetsRetentionMinutes         int32 `property:"offsets.retention.minutes"`
	OffsetsRetentionCheckIntervalMS int64 `property:"offsets.retention.check.interval.ms"`
	OffsetsTopicNumPartitions       int32 `property:"offsets.topic.num.partitions"`
	OffsetsTopicReplicationFactor   int16 `property:"offsets.topic.replication.factor"`
	OffsetsTopicSegmentBytes        int32 `property:"offsets.topic.segment.bytes"`
	OffsetsTopicCompressionCodec    int32 `property:"offsets.topic.compression.codec"`

	MetadataLogMaxRecordBytesBetweenSnapshots int64 `property:"metadata.log.max.record.bytes.between.snapshots"`
	MetadataLogSegmentBytes                   int32 `property:"metadata.log.segment.bytes"`

	SocketTransfer                 string `property:"socket.transfer"`                    // auto, sendfile, splice or copy
	TidemarkFsync                  string `property:"tidemark.fsync"`                     // kafka or batch, BROKER 6
	TidemarkMaxControlRequestBytes int32  `property:"tidemark.max.control.request.bytes"` // BROKER 4
	TidemarkRoomBytes              int32  `property:"tidemark.room.bytes"`                // behind the last batch of a busy segment
	TidemarkTailBytes              int64  `property:"tidemark.tail.bytes"`                // all tail rings together

	set        map[string]string // every property given that is honoured, as written
	from       layers            // what set was made of
	live       *live
	defaults   Topic // of a topic without settings of its own
	listeners  []Listener
	advertised []Listener
}

// Topic is a topic's effective settings: its own where given, the broker's synonyms elsewhere.
type Topic struct {
	CleanupPolicy               []string `property:"cleanup.policy"`
	CompressionType             string   `property:"compression.type"`
	CompressionGzipLevel        int32    `property:"compression.gzip.level"`
	CompressionLz4Level         int32    `property:"compression.lz4.level"`
	CompressionZstdLevel        int32    `property:"compression.zstd.level"`
	DeleteRetentionMS           int64    `property:"delete.retention.ms"`
	FileDeleteDelayMS           int64    `property:"file.delete.delay.ms"`
	FlushMessages               int64    `property:"flush.messages"`
	FlushMS                     int64    `property:"flush.ms"`
	IndexIntervalBytes          int32    `property:"index.interval.bytes"`
	MaxCompactionLagMS          int64    `property:"max.compaction.lag.ms"`
	MaxDecompressedMessageBytes int32    `property:"max.decompressed.message.bytes"`
	MaxMessageBytes             int32    `property:"max.message.bytes"`
	MessageTimestampAfterMaxMS  int64    `property:"message.timestamp.after.max.ms"`
	MessageTimestampBeforeMaxMS int64    `property:"message.timestamp.before.max.ms"`
	MessageTimestampType        string   `property:"message.timestamp.type"` // CreateTime or LogAppendTime
	MinCleanableDirtyRatio      float64  `property:"min.cleanable.dirty.ratio"`
	MinCompactionLagMS          int64    `property:"min.compaction.lag.ms"`
	MinInsyncReplicas           int32    `property:"min.insync.replicas"`
	Preallocate                 bool     `property:"preallocate"`
	RetentionBytes              int64    `property:"retention.bytes"`
	RetentionMS                 int64    `property:"retention.ms"`
	SegmentBytes                int32    `property:"segment.bytes"`
	SegmentIndexBytes           int32    `property:"segment.index.bytes"`
	SegmentJitterMS             int64    `property:"segment.jitter.ms"`
	SegmentMS                   int64    `property:"segment.ms"`
	TidemarkFsync               string   `property:"tidemark.fsync"` // kafka or batch
	UncleanLeaderElectionEnable bool     `property:"unclean.leader.election.enable"`
}

// Compacts reports whether cleanup.policy contains compact: every record then needs a key.
func (t *Topic) Compacts() bool { return slices.Contains(t.CleanupPolicy, "compact") }

// Deletes reports whether cleanup.policy contains delete: retention by time and size applies.
func (t *Topic) Deletes() bool { return slices.Contains(t.CleanupPolicy, "delete") }

// TopicDefaults is the settings of a topic that sets nothing itself.
func (b *Broker) TopicDefaults() Topic { return b.defaults }

// MetadataDir is the folder that holds __cluster_metadata-0: metadata.log.dir, or the first of log.dirs.
func (b *Broker) MetadataDir() string {
	if b.MetadataLogDir != "" {
		return b.MetadataLogDir
	}
	return b.LogDirs[0]
}
