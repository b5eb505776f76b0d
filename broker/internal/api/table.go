package api

import "github.com/twmb/franz-go/pkg/kmsg"

// row describes one API key. Exactly one of raw and handle is set.
type row struct {
	key      int16
	name     string
	min, max int16 // versions served, without gaps
	flexible int16 // first version with flexible headers
	disk     bool  // it may wait for a log folder's disk
	raw      func(*Handlers, *Call)
	handle   func(*Handlers, *Call, kmsg.Request) kmsg.Response
}

// table has a row for each API that is served, by key. Produce 0-2 is advertised for librdkafka's sake and not served
// (advertisedMin in 18_api_versions.go).
//
//tidy:long one row for each API
func table() []row {
	return []row{
		{key: 0, name: "Produce", min: 3, max: 13, flexible: 9, raw: (*Handlers).produce},
		{key: 1, name: "Fetch", min: 4, max: 18, flexible: 12, raw: (*Handlers).fetch},
		{key: 2, name: "ListOffsets", min: 1, max: 11, flexible: 6, disk: true, handle: (*Handlers).listOffsets},
		{key: 3, name: "Metadata", min: 0, max: 13, flexible: 9, handle: (*Handlers).metadata},
		{key: 8, name: "OffsetCommit", min: 2, max: 10, flexible: 8, handle: (*Handlers).offsetCommit},
		{key: 9, name: "OffsetFetch", min: 1, max: 10, flexible: 6, handle: (*Handlers).offsetFetch},
		{key: 10, name: "FindCoordinator", min: 0, max: 6, flexible: 3, handle: (*Handlers).findCoordinator},
		{key: 11, name: "JoinGroup", min: 0, max: 9, flexible: 6, handle: (*Handlers).joinGroup},
		{key: 12, name: "Heartbeat", min: 0, max: 4, flexible: 4, handle: (*Handlers).heartbeat},
		{key: 13, name: "LeaveGroup", min: 0, max: 5, flexible: 4, handle: (*Handlers).leaveGroup},
		{key: 14, name: "SyncGroup", min: 0, max: 5, flexible: 4, handle: (*Handlers).syncGroup},
		{key: 15, name: "DescribeGroups", min: 0, max: 6, flexible: 5, handle: (*Handlers).describeGroups},
		{key: 16, name: "ListGroups", min: 0, max: 5, flexible: 3, handle: (*Handlers).listGroups},
		{key: 18, name: "ApiVersions", min: 0, max: 5, flexible: 3, handle: (*Handlers).apiVersions},
		{key: 19, name: "CreateTopics", min: 2, max: 7, flexible: 5, handle: (*Handlers).createTopics},
		{key: 20, name: "DeleteTopics", min: 1, max: 6, flexible: 4, handle: (*Handlers).deleteTopics},
		{key: 21, name: "DeleteRecords", min: 0, max: 2, flexible: 2, disk: true, handle: (*Handlers).deleteRecords},
		{key: 22, name: "InitProducerId", min: 0, max: 5, flexible: 2, handle: (*Handlers).initProducerID},
		{key: 23, name: "OffsetForLeaderEpoch", min: 2, max: 4, flexible: 4, disk: true, handle: (*Handlers).offsetForLeaderEpoch},
		{key: 32, name: "DescribeConfigs", min: 1, max: 4, flexible: 4, handle: (*Handlers).describeConfigs},
		{key: 33, name: "AlterConfigs", min: 0, max: 2, flexible: 2, handle: (*Handlers).alterConfigs},
		{key: 35, name: "DescribeLogDirs", min: 1, max: 5, flexible: 2, disk: true, handle: (*Handlers).describeLogDirs},
		{key: 37, name: "CreatePartitions", min: 0, max: 3, flexible: 2, handle: (*Handlers).createPartitions},
		{key: 42, name: "DeleteGroups", min: 0, max: 3, flexible: 2, handle: (*Handlers).deleteGroups},
		{key: 44, name: "IncrementalAlterConfigs", min: 0, max: 1, flexible: 1, handle: (*Handlers).incrementalAlterConfigs},
		{key: 47, name: "OffsetDelete", min: 0, max: 0, flexible: 1, handle: (*Handlers).offsetDelete},
		{key: 55, name: "DescribeQuorum", min: 0, max: 2, flexible: 0, handle: (*Handlers).describeQuorum},
		{key: 57, name: "UpdateFeatures", min: 0, max: 2, flexible: 0, handle: (*Handlers).updateFeatures},
		{key: 60, name: "DescribeCluster", min: 0, max: 2, flexible: 0, handle: (*Handlers).describeCluster},
		{key: 61, name: "DescribeProducers", min: 0, max: 0, flexible: 0, disk: true, handle: (*Handlers).describeProducers},
		{key: 74, name: "ListConfigResources", min: 0, max: 1, flexible: 0, handle: (*Handlers).listConfigResources},
		{key: 75, name: "DescribeTopicPartitions", min: 0, max: 0, flexible: 0, handle: (*Handlers).describeTopicPartitions},
	}
}
