package group

// Config holds the settings of group coordination, each named for Kafka's broker property.
type Config struct {
	MinSessionTimeoutMS     int32 // group.min.session.timeout.ms
	MaxSessionTimeoutMS     int32 // group.max.session.timeout.ms
	InitialRebalanceDelayMS int32 // group.initial.rebalance.delay.ms
	MaxSize                 int32 // group.max.size
	WriteTimeoutMS          int32 // offsets.commit.timeout.ms
	OffsetMetadataMaxBytes  int32 // offset.metadata.max.bytes
	OffsetsRetentionMS      int64 // offsets.retention.minutes, in milliseconds
	RetentionCheckMS        int64 // offsets.retention.check.interval.ms
}

// newMemberJoinTimeoutMS bounds how long a member that has never been answered stays: its client may be gone, and it
// cannot send heartbeats before it knows its id.
const newMemberJoinTimeoutMS = 5 * 60 * 1000
