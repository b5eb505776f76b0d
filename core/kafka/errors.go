package kafka

import "strconv"

// ErrorCode is an error as the Kafka protocol carries it. The zero value, None, is success; every other value is an
// error that errors.Is and errors.As tell apart by its number. Names and numbers are those of Kafka's class Errors.
type ErrorCode int16

// Error gives Kafka's name of the code, NOT_LEADER_OR_FOLLOWER and so on.
func (c ErrorCode) Error() string {
	if name, ok := errorNames[c]; ok {
		return name
	}
	return "ERROR_" + strconv.Itoa(int(c))
}

// Retriable reports whether Kafka's clients try again after this error.
func (c ErrorCode) Retriable() bool { return retriable[c] }

// The protocol's error codes.
const (
	None                                   ErrorCode = 0
	UnknownServerError                     ErrorCode = -1
	OffsetOutOfRange                       ErrorCode = 1
	CorruptMessage                         ErrorCode = 2
	UnknownTopicOrPartition                ErrorCode = 3
	InvalidFetchSize                       ErrorCode = 4
	LeaderNotAvailable                     ErrorCode = 5
	NotLeaderForPartition                  ErrorCode = 6
	RequestTimedOut                        ErrorCode = 7
	BrokerNotAvailable                     ErrorCode = 8
	ReplicaNotAvailable                    ErrorCode = 9
	MessageTooLarge                        ErrorCode = 10
	StaleControllerEpoch                   ErrorCode = 11
	OffsetMetadataTooLarge                 ErrorCode = 12
	NetworkException                       ErrorCode = 13
	CoordinatorLoadInProgress              ErrorCode = 14
	CoordinatorNotAvailable                ErrorCode = 15
	NotCoordinator                         ErrorCode = 16
	InvalidTopicException                  ErrorCode = 17
	RecordListTooLarge                     ErrorCode = 18
	NotEnoughReplicas                      ErrorCode = 19
	NotEnoughReplicasAfterAppend           ErrorCode = 20
	InvalidRequiredAcks                    ErrorCode = 21
	IllegalGeneration                      ErrorCode = 22
	InconsistentGroupProtocol              ErrorCode = 23
	InvalidGroupId                         ErrorCode = 24
	UnknownMemberId                        ErrorCode = 25
	InvalidSessionTimeout                  ErrorCode = 26
	RebalanceInProgress                    ErrorCode = 27
	InvalidCommitOffsetSize                ErrorCode = 28
	TopicAuthorizationFailed               ErrorCode = 29
	GroupAuthorizationFailed               ErrorCode = 30
	ClusterAuthorizationFailed             ErrorCode = 31
	InvalidTimestamp                       ErrorCode = 32
	UnsupportedSaslMechanism               ErrorCode = 33
	IllegalSaslState                       ErrorCode = 34
	UnsupportedVersion                     ErrorCode = 35
	TopicAlreadyExists                     ErrorCode = 36
	InvalidPartitions                      ErrorCode = 37
	InvalidReplicationFactor               ErrorCode = 38
	InvalidReplicaAssignment               ErrorCode = 39
	InvalidConfig                          ErrorCode = 40
	NotController                          ErrorCode = 41
	InvalidRequest                         ErrorCode = 42
	UnsupportedForMessageFormat            ErrorCode = 43
	PolicyViolation                        ErrorCode = 44
	OutOfOrderSequenceNumber               ErrorCode = 45
	DuplicateSequenceNumber                ErrorCode = 46
	InvalidProducerEpoch                   ErrorCode = 47
	InvalidTxnState                        ErrorCode = 48
	InvalidProducerIdMapping               ErrorCode = 49
	InvalidTransactionTimeout              ErrorCode = 50
	ConcurrentTransactions                 ErrorCode = 51
	TransactionCoordinatorFenced           ErrorCode = 52
	TransactionalIdAuthorizationFailed     ErrorCode = 53
	SecurityDisabled                       ErrorCode = 54
	OperationNotAttempted                  ErrorCode = 55
	KafkaStorageError                      ErrorCode = 56
	LogDirNotFound                         ErrorCode = 57
	SaslAuthenticationFailed               ErrorCode = 58
	UnknownProducerId                      ErrorCode = 59
	ReassignmentInProgress                 ErrorCode = 60
	DelegationTokenAuthDisabled            ErrorCode = 61
	DelegationTokenNotFound                ErrorCode = 62
	DelegationTokenOwnerMismatch           ErrorCode = 63
	DelegationTokenRequestNotAllowed       ErrorCode = 64
	DelegationTokenAuthorizationFailed     ErrorCode = 65
	DelegationTokenExpired                 ErrorCode = 66
	InvalidPrincipalType                   ErrorCode = 67
	NonEmptyGroup                          ErrorCode = 68
	GroupIdNotFound                        ErrorCode = 69
	FetchSessionIdNotFound                 ErrorCode = 70
	InvalidFetchSessionEpoch               ErrorCode = 71
	ListenerNotFound                       ErrorCode = 72
	TopicDeletionDisabled                  ErrorCode = 73
	FencedLeaderEpoch                      ErrorCode = 74
	UnknownLeaderEpoch                     ErrorCode = 75
	UnsupportedCompressionType             ErrorCode = 76
	StaleBrokerEpoch                       ErrorCode = 77
	OffsetNotAvailable                     ErrorCode = 78
	MemberIdRequired                       ErrorCode = 79
	PreferredLeaderNotAvailable            ErrorCode = 80
	GroupMaxSizeReached                    ErrorCode = 81
	FencedInstanceId                       ErrorCode = 82
	EligibleLeadersNotAvailable            ErrorCode = 83
	ElectionNotNeeded                      ErrorCode = 84
	NoReassignmentInProgress               ErrorCode = 85
	GroupSubscribedToTopic                 ErrorCode = 86
	InvalidRecord                          ErrorCode = 87
	UnstableOffsetCommit                   ErrorCode = 88
	ThrottlingQuotaExceeded                ErrorCode = 89
	ProducerFenced                         ErrorCode = 90
	ResourceNotFound                       ErrorCode = 91
	DuplicateResource                      ErrorCode = 92
	UnacceptableCredential                 ErrorCode = 93
	InconsistentVoterSet                   ErrorCode = 94
	InvalidUpdateVersion                   ErrorCode = 95
	FeatureUpdateFailed                    ErrorCode = 96
	PrincipalDeserializationFailure        ErrorCode = 97
	SnapshotNotFound                       ErrorCode = 98
	PositionOutOfRange                     ErrorCode = 99
	UnknownTopicId                         ErrorCode = 100
	DuplicateBrokerRegistration            ErrorCode = 101
	BrokerIdNotRegistered                  ErrorCode = 102
	InconsistentTopicId                    ErrorCode = 103
	InconsistentClusterId                  ErrorCode = 104
	TransactionalIdNotFound                ErrorCode = 105
	FetchSessionTopicIdError               ErrorCode = 106
	IneligibleReplica                      ErrorCode = 107
	NewLeaderElected                       ErrorCode = 108
	OffsetMovedToTieredStorage             ErrorCode = 109
	FencedMemberEpoch                      ErrorCode = 110
	UnreleasedInstanceId                   ErrorCode = 111
	UnsupportedAssignor                    ErrorCode = 112
	StaleMemberEpoch                       ErrorCode = 113
	MismatchedEndpointType                 ErrorCode = 114
	UnsupportedEndpointType                ErrorCode = 115
	UnknownControllerId                    ErrorCode = 116
	UnknownSubscriptionId                  ErrorCode = 117
	TelemetryTooLarge                      ErrorCode = 118
	InvalidRegistration                    ErrorCode = 119
	TransactionAbortable                   ErrorCode = 120
	InvalidRecordState                     ErrorCode = 121
	ShareSessionNotFound                   ErrorCode = 122
	InvalidShareSessionEpoch               ErrorCode = 123
	FencedStateEpoch                       ErrorCode = 124
	InvalidVoterKey                        ErrorCode = 125
	DuplicateVoter                         ErrorCode = 126
	VoterNotFound                          ErrorCode = 127
	InvalidRegularExpression               ErrorCode = 128
	RebootstrapRequired                    ErrorCode = 129
	StreamsInvalidTopology                 ErrorCode = 130
	StreamsInvalidTopologyEpoch            ErrorCode = 131
	StreamsTopologyFenced                  ErrorCode = 132
	ShareSessionLimitReached               ErrorCode = 133
	GroupDeletionFailed                    ErrorCode = 134
	StreamsTopologyDescriptionUpdateFailed ErrorCode = 135
	ControllerIdNotRegistered              ErrorCode = 136
)

var errorNames = map[ErrorCode]string{
	None:                                   "NONE",
	UnknownServerError:                     "UNKNOWN_SERVER_ERROR",
	OffsetOutOfRange:                       "OFFSET_OUT_OF_RANGE",
	CorruptMessage:                         "CORRUPT_MESSAGE",
	UnknownTopicOrPartition:                "UNKNOWN_TOPIC_OR_PARTITION",
	InvalidFetchSize:                       "INVALID_FETCH_SIZE",
	LeaderNotAvailable:                     "LEADER_NOT_AVAILABLE",
	NotLeaderForPartition:                  "NOT_LEADER_FOR_PARTITION",
	RequestTimedOut:                        "REQUEST_TIMED_OUT",
	BrokerNotAvailable:                     "BROKER_NOT_AVAILABLE",
	ReplicaNotAvailable:                    "REPLICA_NOT_AVAILABLE",
	MessageTooLarge:                        "MESSAGE_TOO_LARGE",
	StaleControllerEpoch:                   "STALE_CONTROLLER_EPOCH",
	OffsetMetadataTooLarge:                 "OFFSET_METADATA_TOO_LARGE",
	NetworkException:                       "NETWORK_EXCEPTION",
	CoordinatorLoadInProgress:              "COORDINATOR_LOAD_IN_PROGRESS",
	CoordinatorNotAvailable:                "COORDINATOR_NOT_AVAILABLE",
	NotCoordinator:                         "NOT_COORDINATOR",
	InvalidTopicException:                  "INVALID_TOPIC_EXCEPTION",
	RecordListTooLarge:                     "RECORD_LIST_TOO_LARGE",
	NotEnoughReplicas:                      "NOT_ENOUGH_REPLICAS",
	NotEnoughReplicasAfterAppend:           "NOT_ENOUGH_REPLICAS_AFTER_APPEND",
	InvalidRequiredAcks:                    "INVALID_REQUIRED_ACKS",
	IllegalGeneration:                      "ILLEGAL_GENERATION",
	InconsistentGroupProtocol:              "INCONSISTENT_GROUP_PROTOCOL",
	InvalidGroupId:                         "INVALID_GROUP_ID",
	UnknownMemberId:                        "UNKNOWN_MEMBER_ID",
	InvalidSessionTimeout:                  "INVALID_SESSION_TIMEOUT",
	RebalanceInProgress:                    "REBALANCE_IN_PROGRESS",
	InvalidCommitOffsetSize:                "INVALID_COMMIT_OFFSET_SIZE",
	TopicAuthorizationFailed:               "TOPIC_AUTHORIZATION_FAILED",
	GroupAuthorizationFailed:               "GROUP_AUTHORIZATION_FAILED",
	ClusterAuthorizationFailed:             "CLUSTER_AUTHORIZATION_FAILED",
	InvalidTimestamp:                       "INVALID_TIMESTAMP",
	UnsupportedSaslMechanism:               "UNSUPPORTED_SASL_MECHANISM",
	IllegalSaslState:                       "ILLEGAL_SASL_STATE",
	UnsupportedVersion:                     "UNSUPPORTED_VERSION",
	TopicAlreadyExists:                     "TOPIC_ALREADY_EXISTS",
	InvalidPartitions:                      "INVALID_PARTITIONS",
	InvalidReplicationFactor:               "INVALID_REPLICATION_FACTOR",
	InvalidReplicaAssignment:               "INVALID_REPLICA_ASSIGNMENT",
	InvalidConfig:                          "INVALID_CONFIG",
	NotController:                          "NOT_CONTROLLER",
	InvalidRequest:                         "INVALID_REQUEST",
	UnsupportedForMessageFormat:            "UNSUPPORTED_FOR_MESSAGE_FORMAT",
	PolicyViolation:                        "POLICY_VIOLATION",
	OutOfOrderSequenceNumber:               "OUT_OF_ORDER_SEQUENCE_NUMBER",
	DuplicateSequenceNumber:                "DUPLICATE_SEQUENCE_NUMBER",
	InvalidProducerEpoch:                   "INVALID_PRODUCER_EPOCH",
	InvalidTxnState:                        "INVALID_TXN_STATE",
	InvalidProducerIdMapping:               "INVALID_PRODUCER_ID_MAPPING",
	InvalidTransactionTimeout:              "INVALID_TRANSACTION_TIMEOUT",
	ConcurrentTransactions:                 "CONCURRENT_TRANSACTIONS",
	TransactionCoordinatorFenced:           "TRANSACTION_COORDINATOR_FENCED",
	TransactionalIdAuthorizationFailed:     "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
	SecurityDisabled:                       "SECURITY_DISABLED",
	OperationNotAttempted:                  "OPERATION_NOT_ATTEMPTED",
	KafkaStorageError:                      "KAFKA_STORAGE_ERROR",
	LogDirNotFound:                         "LOG_DIR_NOT_FOUND",
	SaslAuthenticationFailed:               "SASL_AUTHENTICATION_FAILED",
	UnknownProducerId:                      "UNKNOWN_PRODUCER_ID",
	ReassignmentInProgress:                 "REASSIGNMENT_IN_PROGRESS",
	DelegationTokenAuthDisabled:            "DELEGATION_TOKEN_AUTH_DISABLED",
	DelegationTokenNotFound:                "DELEGATION_TOKEN_NOT_FOUND",
	DelegationTokenOwnerMismatch:           "DELEGATION_TOKEN_OWNER_MISMATCH",
	DelegationTokenRequestNotAllowed:       "DELEGATION_TOKEN_REQUEST_NOT_ALLOWED",
	DelegationTokenAuthorizationFailed:     "DELEGATION_TOKEN_AUTHORIZATION_FAILED",
	DelegationTokenExpired:                 "DELEGATION_TOKEN_EXPIRED",
	InvalidPrincipalType:                   "INVALID_PRINCIPAL_TYPE",
	NonEmptyGroup:                          "NON_EMPTY_GROUP",
	GroupIdNotFound:                        "GROUP_ID_NOT_FOUND",
	FetchSessionIdNotFound:                 "FETCH_SESSION_ID_NOT_FOUND",
	InvalidFetchSessionEpoch:               "INVALID_FETCH_SESSION_EPOCH",
	ListenerNotFound:                       "LISTENER_NOT_FOUND",
	TopicDeletionDisabled:                  "TOPIC_DELETION_DISABLED",
	FencedLeaderEpoch:                      "FENCED_LEADER_EPOCH",
	UnknownLeaderEpoch:                     "UNKNOWN_LEADER_EPOCH",
	UnsupportedCompressionType:             "UNSUPPORTED_COMPRESSION_TYPE",
	StaleBrokerEpoch:                       "STALE_BROKER_EPOCH",
	OffsetNotAvailable:                     "OFFSET_NOT_AVAILABLE",
	MemberIdRequired:                       "MEMBER_ID_REQUIRED",
	PreferredLeaderNotAvailable:            "PREFERRED_LEADER_NOT_AVAILABLE",
	GroupMaxSizeReached:                    "GROUP_MAX_SIZE_REACHED",
	FencedInstanceId:                       "FENCED_INSTANCE_ID",
	EligibleLeadersNotAvailable:            "ELIGIBLE_LEADERS_NOT_AVAILABLE",
	ElectionNotNeeded:                      "ELECTION_NOT_NEEDED",
	NoReassignmentInProgress:               "NO_REASSIGNMENT_IN_PROGRESS",
	GroupSubscribedToTopic:                 "GROUP_SUBSCRIBED_TO_TOPIC",
	InvalidRecord:                          "INVALID_RECORD",
	UnstableOffsetCommit:                   "UNSTABLE_OFFSET_COMMIT",
	ThrottlingQuotaExceeded:                "THROTTLING_QUOTA_EXCEEDED",
	ProducerFenced:                         "PRODUCER_FENCED",
	ResourceNotFound:                       "RESOURCE_NOT_FOUND",
	DuplicateResource:                      "DUPLICATE_RESOURCE",
	UnacceptableCredential:                 "UNACCEPTABLE_CREDENTIAL",
	InconsistentVoterSet:                   "INCONSISTENT_VOTER_SET",
	InvalidUpdateVersion:                   "INVALID_UPDATE_VERSION",
	FeatureUpdateFailed:                    "FEATURE_UPDATE_FAILED",
	PrincipalDeserializationFailure:        "PRINCIPAL_DESERIALIZATION_FAILURE",
	SnapshotNotFound:                       "SNAPSHOT_NOT_FOUND",
	PositionOutOfRange:                     "POSITION_OUT_OF_RANGE",
	UnknownTopicId:                         "UNKNOWN_TOPIC_ID",
	DuplicateBrokerRegistration:            "DUPLICATE_BROKER_REGISTRATION",
	BrokerIdNotRegistered:                  "BROKER_ID_NOT_REGISTERED",
	InconsistentTopicId:                    "INCONSISTENT_TOPIC_ID",
	InconsistentClusterId:                  "INCONSISTENT_CLUSTER_ID",
	TransactionalIdNotFound:                "TRANSACTIONAL_ID_NOT_FOUND",
	FetchSessionTopicIdError:               "FETCH_SESSION_TOPIC_ID_ERROR",
	IneligibleReplica:                      "INELIGIBLE_REPLICA",
	NewLeaderElected:                       "NEW_LEADER_ELECTED",
	OffsetMovedToTieredStorage:             "OFFSET_MOVED_TO_TIERED_STORAGE",
	FencedMemberEpoch:                      "FENCED_MEMBER_EPOCH",
	UnreleasedInstanceId:                   "UNRELEASED_INSTANCE_ID",
	UnsupportedAssignor:                    "UNSUPPORTED_ASSIGNOR",
	StaleMemberEpoch:                       "STALE_MEMBER_EPOCH",
	MismatchedEndpointType:                 "MISMATCHED_ENDPOINT_TYPE",
	UnsupportedEndpointType:                "UNSUPPORTED_ENDPOINT_TYPE",
	UnknownControllerId:                    "UNKNOWN_CONTROLLER_ID",
	UnknownSubscriptionId:                  "UNKNOWN_SUBSCRIPTION_ID",
	TelemetryTooLarge:                      "TELEMETRY_TOO_LARGE",
	InvalidRegistration:                    "INVALID_REGISTRATION",
	TransactionAbortable:                   "TRANSACTION_ABORTABLE",
	InvalidRecordState:                     "INVALID_RECORD_STATE",
	ShareSessionNotFound:                   "SHARE_SESSION_NOT_FOUND",
	InvalidShareSessionEpoch:               "INVALID_SHARE_SESSION_EPOCH",
	FencedStateEpoch:                       "FENCED_STATE_EPOCH",
	InvalidVoterKey:                        "INVALID_VOTER_KEY",
	DuplicateVoter:                         "DUPLICATE_VOTER",
	VoterNotFound:                          "VOTER_NOT_FOUND",
	InvalidRegularExpression:               "INVALID_REGULAR_EXPRESSION",
	RebootstrapRequired:                    "REBOOTSTRAP_REQUIRED",
	StreamsInvalidTopology:                 "STREAMS_INVALID_TOPOLOGY",
	StreamsInvalidTopologyEpoch:            "STREAMS_INVALID_TOPOLOGY_EPOCH",
	StreamsTopologyFenced:                  "STREAMS_TOPOLOGY_FENCED",
	ShareSessionLimitReached:               "SHARE_SESSION_LIMIT_REACHED",
	GroupDeletionFailed:                    "GROUP_DELETION_FAILED",
	StreamsTopologyDescriptionUpdateFailed: "STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED",
	ControllerIdNotRegistered:              "CONTROLLER_ID_NOT_REGISTERED",
}

var retriable = map[ErrorCode]bool{
	CorruptMessage:               true,
	UnknownTopicOrPartition:      true,
	LeaderNotAvailable:           true,
	NotLeaderForPartition:        true,
	RequestTimedOut:              true,
	BrokerNotAvailable:           true,
	ReplicaNotAvailable:          true,
	NetworkException:             true,
	CoordinatorLoadInProgress:    true,
	CoordinatorNotAvailable:      true,
	NotCoordinator:               true,
	NotEnoughReplicas:            true,
	NotEnoughReplicasAfterAppend: true,
	NotController:                true,
	KafkaStorageError:            true,
	FetchSessionIdNotFound:       true,
	InvalidFetchSessionEpoch:     true,
	ListenerNotFound:             true,
	FencedLeaderEpoch:            true,
	UnknownLeaderEpoch:           true,
	OffsetNotAvailable:           true,
	PreferredLeaderNotAvailable:  true,
	EligibleLeadersNotAvailable:  true,
	ElectionNotNeeded:            true,
	UnstableOffsetCommit:         true,
	ThrottlingQuotaExceeded:      true,
	UnknownTopicId:               true,
	InconsistentTopicId:          true,
	FetchSessionTopicIdError:     true,
	ShareSessionLimitReached:     true,
}
