package kafka

import (
	"errors"
	"fmt"
	"strconv"
	"unicode/utf8"
)

// Error is a code of Kafka's protocol, from -1 (UNKNOWN_SERVER_ERROR) to 136. It is the error that a client is told:
// code that refuses a request returns one, alone or with a message through [Refuse].
type Error int16

// The codes of Apache Kafka 4.4, by Kafka's names.
const (
	UnknownServerError                     Error = -1  // UNKNOWN_SERVER_ERROR
	None                                   Error = 0   // NONE
	OffsetOutOfRange                       Error = 1   // OFFSET_OUT_OF_RANGE
	CorruptMessage                         Error = 2   // CORRUPT_MESSAGE
	UnknownTopicOrPartition                Error = 3   // UNKNOWN_TOPIC_OR_PARTITION
	InvalidFetchSize                       Error = 4   // INVALID_FETCH_SIZE
	LeaderNotAvailable                     Error = 5   // LEADER_NOT_AVAILABLE
	NotLeaderOrFollower                    Error = 6   // NOT_LEADER_OR_FOLLOWER
	RequestTimedOut                        Error = 7   // REQUEST_TIMED_OUT
	BrokerNotAvailable                     Error = 8   // BROKER_NOT_AVAILABLE
	ReplicaNotAvailable                    Error = 9   // REPLICA_NOT_AVAILABLE
	MessageTooLarge                        Error = 10  // MESSAGE_TOO_LARGE
	StaleControllerEpoch                   Error = 11  // STALE_CONTROLLER_EPOCH
	OffsetMetadataTooLarge                 Error = 12  // OFFSET_METADATA_TOO_LARGE
	NetworkException                       Error = 13  // NETWORK_EXCEPTION
	CoordinatorLoadInProgress              Error = 14  // COORDINATOR_LOAD_IN_PROGRESS
	CoordinatorNotAvailable                Error = 15  // COORDINATOR_NOT_AVAILABLE
	NotCoordinator                         Error = 16  // NOT_COORDINATOR
	InvalidTopicException                  Error = 17  // INVALID_TOPIC_EXCEPTION
	RecordListTooLarge                     Error = 18  // RECORD_LIST_TOO_LARGE
	NotEnoughReplicas                      Error = 19  // NOT_ENOUGH_REPLICAS
	NotEnoughReplicasAfterAppend           Error = 20  // NOT_ENOUGH_REPLICAS_AFTER_APPEND
	InvalidRequiredAcks                    Error = 21  // INVALID_REQUIRED_ACKS
	IllegalGeneration                      Error = 22  // ILLEGAL_GENERATION
	InconsistentGroupProtocol              Error = 23  // INCONSISTENT_GROUP_PROTOCOL
	InvalidGroupId                         Error = 24  // INVALID_GROUP_ID
	UnknownMemberId                        Error = 25  // UNKNOWN_MEMBER_ID
	InvalidSessionTimeout                  Error = 26  // INVALID_SESSION_TIMEOUT
	RebalanceInProgress                    Error = 27  // REBALANCE_IN_PROGRESS
	InvalidCommitOffsetSize                Error = 28  // INVALID_COMMIT_OFFSET_SIZE
	TopicAuthorizationFailed               Error = 29  // TOPIC_AUTHORIZATION_FAILED
	GroupAuthorizationFailed               Error = 30  // GROUP_AUTHORIZATION_FAILED
	ClusterAuthorizationFailed             Error = 31  // CLUSTER_AUTHORIZATION_FAILED
	InvalidTimestamp                       Error = 32  // INVALID_TIMESTAMP
	UnsupportedSaslMechanism               Error = 33  // UNSUPPORTED_SASL_MECHANISM
	IllegalSaslState                       Error = 34  // ILLEGAL_SASL_STATE
	UnsupportedVersion                     Error = 35  // UNSUPPORTED_VERSION
	TopicAlreadyExists                     Error = 36  // TOPIC_ALREADY_EXISTS
	InvalidPartitions                      Error = 37  // INVALID_PARTITIONS
	InvalidReplicationFactor               Error = 38  // INVALID_REPLICATION_FACTOR
	InvalidReplicaAssignment               Error = 39  // INVALID_REPLICA_ASSIGNMENT
	InvalidConfig                          Error = 40  // INVALID_CONFIG
	NotController                          Error = 41  // NOT_CONTROLLER
	InvalidRequest                         Error = 42  // INVALID_REQUEST
	UnsupportedForMessageFormat            Error = 43  // UNSUPPORTED_FOR_MESSAGE_FORMAT
	PolicyViolation                        Error = 44  // POLICY_VIOLATION
	OutOfOrderSequenceNumber               Error = 45  // OUT_OF_ORDER_SEQUENCE_NUMBER
	DuplicateSequenceNumber                Error = 46  // DUPLICATE_SEQUENCE_NUMBER
	InvalidProducerEpoch                   Error = 47  // INVALID_PRODUCER_EPOCH
	InvalidTxnState                        Error = 48  // INVALID_TXN_STATE
	InvalidProducerIdMapping               Error = 49  // INVALID_PRODUCER_ID_MAPPING
	InvalidTransactionTimeout              Error = 50  // INVALID_TRANSACTION_TIMEOUT
	ConcurrentTransactions                 Error = 51  // CONCURRENT_TRANSACTIONS
	TransactionCoordinatorFenced           Error = 52  // TRANSACTION_COORDINATOR_FENCED
	TransactionalIdAuthorizationFailed     Error = 53  // TRANSACTIONAL_ID_AUTHORIZATION_FAILED
	SecurityDisabled                       Error = 54  // SECURITY_DISABLED
	OperationNotAttempted                  Error = 55  // OPERATION_NOT_ATTEMPTED
	KafkaStorageError                      Error = 56  // KAFKA_STORAGE_ERROR
	LogDirNotFound                         Error = 57  // LOG_DIR_NOT_FOUND
	SaslAuthenticationFailed               Error = 58  // SASL_AUTHENTICATION_FAILED
	UnknownProducerId                      Error = 59  // UNKNOWN_PRODUCER_ID
	ReassignmentInProgress                 Error = 60  // REASSIGNMENT_IN_PROGRESS
	DelegationTokenAuthDisabled            Error = 61  // DELEGATION_TOKEN_AUTH_DISABLED
	DelegationTokenNotFound                Error = 62  // DELEGATION_TOKEN_NOT_FOUND
	DelegationTokenOwnerMismatch           Error = 63  // DELEGATION_TOKEN_OWNER_MISMATCH
	DelegationTokenRequestNotAllowed       Error = 64  // DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
	DelegationTokenAuthorizationFailed     Error = 65  // DELEGATION_TOKEN_AUTHORIZATION_FAILED
	DelegationTokenExpired                 Error = 66  // DELEGATION_TOKEN_EXPIRED
	InvalidPrincipalType                   Error = 67  // INVALID_PRINCIPAL_TYPE
	NonEmptyGroup                          Error = 68  // NON_EMPTY_GROUP
	GroupIdNotFound                        Error = 69  // GROUP_ID_NOT_FOUND
	FetchSessionIdNotFound                 Error = 70  // FETCH_SESSION_ID_NOT_FOUND
	InvalidFetchSessionEpoch               Error = 71  // INVALID_FETCH_SESSION_EPOCH
	ListenerNotFound                       Error = 72  // LISTENER_NOT_FOUND
	TopicDeletionDisabled                  Error = 73  // TOPIC_DELETION_DISABLED
	FencedLeaderEpoch                      Error = 74  // FENCED_LEADER_EPOCH
	UnknownLeaderEpoch                     Error = 75  // UNKNOWN_LEADER_EPOCH
	UnsupportedCompressionType             Error = 76  // UNSUPPORTED_COMPRESSION_TYPE
	StaleBrokerEpoch                       Error = 77  // STALE_BROKER_EPOCH
	OffsetNotAvailable                     Error = 78  // OFFSET_NOT_AVAILABLE
	MemberIdRequired                       Error = 79  // MEMBER_ID_REQUIRED
	PreferredLeaderNotAvailable            Error = 80  // PREFERRED_LEADER_NOT_AVAILABLE
	GroupMaxSizeReached                    Error = 81  // GROUP_MAX_SIZE_REACHED
	FencedInstanceId                       Error = 82  // FENCED_INSTANCE_ID
	EligibleLeadersNotAvailable            Error = 83  // ELIGIBLE_LEADERS_NOT_AVAILABLE
	ElectionNotNeeded                      Error = 84  // ELECTION_NOT_NEEDED
	NoReassignmentInProgress               Error = 85  // NO_REASSIGNMENT_IN_PROGRESS
	GroupSubscribedToTopic                 Error = 86  // GROUP_SUBSCRIBED_TO_TOPIC
	InvalidRecord                          Error = 87  // INVALID_RECORD
	UnstableOffsetCommit                   Error = 88  // UNSTABLE_OFFSET_COMMIT
	ThrottlingQuotaExceeded                Error = 89  // THROTTLING_QUOTA_EXCEEDED
	ProducerFenced                         Error = 90  // PRODUCER_FENCED
	ResourceNotFound                       Error = 91  // RESOURCE_NOT_FOUND
	DuplicateResource                      Error = 92  // DUPLICATE_RESOURCE
	UnacceptableCredential                 Error = 93  // UNACCEPTABLE_CREDENTIAL
	InconsistentVoterSet                   Error = 94  // INCONSISTENT_VOTER_SET
	InvalidUpdateVersion                   Error = 95  // INVALID_UPDATE_VERSION
	FeatureUpdateFailed                    Error = 96  // FEATURE_UPDATE_FAILED
	PrincipalDeserializationFailure        Error = 97  // PRINCIPAL_DESERIALIZATION_FAILURE
	SnapshotNotFound                       Error = 98  // SNAPSHOT_NOT_FOUND
	PositionOutOfRange                     Error = 99  // POSITION_OUT_OF_RANGE
	UnknownTopicId                         Error = 100 // UNKNOWN_TOPIC_ID
	DuplicateBrokerRegistration            Error = 101 // DUPLICATE_BROKER_REGISTRATION
	BrokerIdNotRegistered                  Error = 102 // BROKER_ID_NOT_REGISTERED
	InconsistentTopicId                    Error = 103 // INCONSISTENT_TOPIC_ID
	InconsistentClusterId                  Error = 104 // INCONSISTENT_CLUSTER_ID
	TransactionalIdNotFound                Error = 105 // TRANSACTIONAL_ID_NOT_FOUND
	FetchSessionTopicIdError               Error = 106 // FETCH_SESSION_TOPIC_ID_ERROR
	IneligibleReplica                      Error = 107 // INELIGIBLE_REPLICA
	NewLeaderElected                       Error = 108 // NEW_LEADER_ELECTED
	OffsetMovedToTieredStorage             Error = 109 // OFFSET_MOVED_TO_TIERED_STORAGE
	FencedMemberEpoch                      Error = 110 // FENCED_MEMBER_EPOCH
	UnreleasedInstanceId                   Error = 111 // UNRELEASED_INSTANCE_ID
	UnsupportedAssignor                    Error = 112 // UNSUPPORTED_ASSIGNOR
	StaleMemberEpoch                       Error = 113 // STALE_MEMBER_EPOCH
	MismatchedEndpointType                 Error = 114 // MISMATCHED_ENDPOINT_TYPE
	UnsupportedEndpointType                Error = 115 // UNSUPPORTED_ENDPOINT_TYPE
	UnknownControllerId                    Error = 116 // UNKNOWN_CONTROLLER_ID
	UnknownSubscriptionId                  Error = 117 // UNKNOWN_SUBSCRIPTION_ID
	TelemetryTooLarge                      Error = 118 // TELEMETRY_TOO_LARGE
	InvalidRegistration                    Error = 119 // INVALID_REGISTRATION
	TransactionAbortable                   Error = 120 // TRANSACTION_ABORTABLE
	InvalidRecordState                     Error = 121 // INVALID_RECORD_STATE
	ShareSessionNotFound                   Error = 122 // SHARE_SESSION_NOT_FOUND
	InvalidShareSessionEpoch               Error = 123 // INVALID_SHARE_SESSION_EPOCH
	FencedStateEpoch                       Error = 124 // FENCED_STATE_EPOCH
	InvalidVoterKey                        Error = 125 // INVALID_VOTER_KEY
	DuplicateVoter                         Error = 126 // DUPLICATE_VOTER
	VoterNotFound                          Error = 127 // VOTER_NOT_FOUND
	InvalidRegularExpression               Error = 128 // INVALID_REGULAR_EXPRESSION
	RebootstrapRequired                    Error = 129 // REBOOTSTRAP_REQUIRED
	StreamsInvalidTopology                 Error = 130 // STREAMS_INVALID_TOPOLOGY
	StreamsInvalidTopologyEpoch            Error = 131 // STREAMS_INVALID_TOPOLOGY_EPOCH
	StreamsTopologyFenced                  Error = 132 // STREAMS_TOPOLOGY_FENCED
	ShareSessionLimitReached               Error = 133 // SHARE_SESSION_LIMIT_REACHED
	GroupDeletionFailed                    Error = 134 // GROUP_DELETION_FAILED
	StreamsTopologyDescriptionUpdateFailed Error = 135 // STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED
	ControllerIdNotRegistered              Error = 136 // CONTROLLER_ID_NOT_REGISTERED
)

// Error returns the name and the number, as NOT_LEADER_OR_FOLLOWER(6).
func (e Error) Error() string {
	return e.Name() + "(" + strconv.Itoa(int(e)) + ")"
}

// Name returns Kafka's name of the code, or UNKNOWN for a number that Kafka 4.4 does not have.
func (e Error) Name() string {
	if i := int(e) + 1; i >= 0 && i < len(errorTable) {
		return errorTable[i].name
	}
	return "UNKNOWN"
}

// Retriable tells whether Kafka's clients send the same request again after this code.
func (e Error) Retriable() bool {
	i := int(e) + 1
	return i >= 0 && i < len(errorTable) && errorTable[i].retriable
}

// Refusal is a code with a sentence for the client: what is wrong and what to do.
type Refusal struct {
	Code    Error
	Message string
}

// Refuse returns a [Refusal]; the message is formatted as by fmt.Sprintf.
func Refuse(code Error, format string, args ...any) *Refusal {
	return &Refusal{Code: code, Message: fmt.Sprintf(format, args...)}
}

func (r *Refusal) Error() string { return r.Code.Error() + ": " + r.Message }

// Unwrap makes errors.Is(err, kafka.InvalidRequest) true for a Refusal with that code.
func (r *Refusal) Unwrap() error { return r.Code }

// Answer turns any error into what a client is told: nil is None, an [Error] or a [Refusal] is itself, and anything else
// is UnknownServerError without a message, as its text is for the operator's log.
func Answer(err error) (code Error, message string) {
	if err == nil {
		return None, ""
	}
	if refusal, ok := errors.AsType[*Refusal](err); ok {
		return refusal.Code, cutMessage(refusal.Message)
	}
	if code, ok := errors.AsType[Error](err); ok {
		return code, ""
	}
	return UnknownServerError, ""
}

// messageMax is how many bytes of a message a client is told. A message may quote what the client sent, and a string of the
// protocol ends at 32,767 bytes.
const messageMax = 4096

func cutMessage(message string) string {
	if len(message) <= messageMax {
		return message
	}
	n := messageMax
	for n > 0 && !utf8.RuneStart(message[n]) {
		n--
	}
	return message[:n] + "…"
}

// errorTable is indexed by code + 1.
var errorTable = [...]struct {
	name      string
	retriable bool
}{
	{"UNKNOWN_SERVER_ERROR", false},
	{"NONE", false},
	{"OFFSET_OUT_OF_RANGE", false},
	{"CORRUPT_MESSAGE", true},
	{"UNKNOWN_TOPIC_OR_PARTITION", true},
	{"INVALID_FETCH_SIZE", false},
	{"LEADER_NOT_AVAILABLE", true},
	{"NOT_LEADER_OR_FOLLOWER", true},
	{"REQUEST_TIMED_OUT", true},
	{"BROKER_NOT_AVAILABLE", false},
	{"REPLICA_NOT_AVAILABLE", true},
	{"MESSAGE_TOO_LARGE", false},
	{"STALE_CONTROLLER_EPOCH", false},
	{"OFFSET_METADATA_TOO_LARGE", false},
	{"NETWORK_EXCEPTION", true},
	{"COORDINATOR_LOAD_IN_PROGRESS", true},
	{"COORDINATOR_NOT_AVAILABLE", true},
	{"NOT_COORDINATOR", true},
	{"INVALID_TOPIC_EXCEPTION", false},
	{"RECORD_LIST_TOO_LARGE", false},
	{"NOT_ENOUGH_REPLICAS", true},
	{"NOT_ENOUGH_REPLICAS_AFTER_APPEND", true},
	{"INVALID_REQUIRED_ACKS", false},
	{"ILLEGAL_GENERATION", false},
	{"INCONSISTENT_GROUP_PROTOCOL", false},
	{"INVALID_GROUP_ID", false},
	{"UNKNOWN_MEMBER_ID", false},
	{"INVALID_SESSION_TIMEOUT", false},
	{"REBALANCE_IN_PROGRESS", false},
	{"INVALID_COMMIT_OFFSET_SIZE", false},
	{"TOPIC_AUTHORIZATION_FAILED", false},
	{"GROUP_AUTHORIZATION_FAILED", false},
	{"CLUSTER_AUTHORIZATION_FAILED", false},
	{"INVALID_TIMESTAMP", false},
	{"UNSUPPORTED_SASL_MECHANISM", false},
	{"ILLEGAL_SASL_STATE", false},
	{"UNSUPPORTED_VERSION", false},
	{"TOPIC_ALREADY_EXISTS", false},
	{"INVALID_PARTITIONS", false},
	{"INVALID_REPLICATION_FACTOR", false},
	{"INVALID_REPLICA_ASSIGNMENT", false},
	{"INVALID_CONFIG", false},
	{"NOT_CONTROLLER", true},
	{"INVALID_REQUEST", false},
	{"UNSUPPORTED_FOR_MESSAGE_FORMAT", false},
	{"POLICY_VIOLATION", false},
	{"OUT_OF_ORDER_SEQUENCE_NUMBER", false},
	{"DUPLICATE_SEQUENCE_NUMBER", false},
	{"INVALID_PRODUCER_EPOCH", false},
	{"INVALID_TXN_STATE", false},
	{"INVALID_PRODUCER_ID_MAPPING", false},
	{"INVALID_TRANSACTION_TIMEOUT", false},
	{"CONCURRENT_TRANSACTIONS", true},
	{"TRANSACTION_COORDINATOR_FENCED", false},
	{"TRANSACTIONAL_ID_AUTHORIZATION_FAILED", false},
	{"SECURITY_DISABLED", false},
	{"OPERATION_NOT_ATTEMPTED", false},
	{"KAFKA_STORAGE_ERROR", true},
	{"LOG_DIR_NOT_FOUND", false},
	{"SASL_AUTHENTICATION_FAILED", false},
	{"UNKNOWN_PRODUCER_ID", false},
	{"REASSIGNMENT_IN_PROGRESS", false},
	{"DELEGATION_TOKEN_AUTH_DISABLED", false},
	{"DELEGATION_TOKEN_NOT_FOUND", false},
	{"DELEGATION_TOKEN_OWNER_MISMATCH", false},
	{"DELEGATION_TOKEN_REQUEST_NOT_ALLOWED", false},
	{"DELEGATION_TOKEN_AUTHORIZATION_FAILED", false},
	{"DELEGATION_TOKEN_EXPIRED", false},
	{"INVALID_PRINCIPAL_TYPE", false},
	{"NON_EMPTY_GROUP", false},
	{"GROUP_ID_NOT_FOUND", false},
	{"FETCH_SESSION_ID_NOT_FOUND", true},
	{"INVALID_FETCH_SESSION_EPOCH", true},
	{"LISTENER_NOT_FOUND", true},
	{"TOPIC_DELETION_DISABLED", false},
	{"FENCED_LEADER_EPOCH", true},
	{"UNKNOWN_LEADER_EPOCH", true},
	{"UNSUPPORTED_COMPRESSION_TYPE", false},
	{"STALE_BROKER_EPOCH", false},
	{"OFFSET_NOT_AVAILABLE", true},
	{"MEMBER_ID_REQUIRED", false},
	{"PREFERRED_LEADER_NOT_AVAILABLE", true},
	{"GROUP_MAX_SIZE_REACHED", false},
	{"FENCED_INSTANCE_ID", false},
	{"ELIGIBLE_LEADERS_NOT_AVAILABLE", true},
	{"ELECTION_NOT_NEEDED", true},
	{"NO_REASSIGNMENT_IN_PROGRESS", false},
	{"GROUP_SUBSCRIBED_TO_TOPIC", false},
	{"INVALID_RECORD", false},
	{"UNSTABLE_OFFSET_COMMIT", true},
	{"THROTTLING_QUOTA_EXCEEDED", true},
	{"PRODUCER_FENCED", false},
	{"RESOURCE_NOT_FOUND", false},
	{"DUPLICATE_RESOURCE", false},
	{"UNACCEPTABLE_CREDENTIAL", false},
	{"INCONSISTENT_VOTER_SET", false},
	{"INVALID_UPDATE_VERSION", false},
	{"FEATURE_UPDATE_FAILED", false},
	{"PRINCIPAL_DESERIALIZATION_FAILURE", false},
	{"SNAPSHOT_NOT_FOUND", false},
	{"POSITION_OUT_OF_RANGE", false},
	{"UNKNOWN_TOPIC_ID", true},
	{"DUPLICATE_BROKER_REGISTRATION", false},
	{"BROKER_ID_NOT_REGISTERED", false},
	{"INCONSISTENT_TOPIC_ID", true},
	{"INCONSISTENT_CLUSTER_ID", false},
	{"TRANSACTIONAL_ID_NOT_FOUND", false},
	{"FETCH_SESSION_TOPIC_ID_ERROR", true},
	{"INELIGIBLE_REPLICA", false},
	{"NEW_LEADER_ELECTED", false},
	{"OFFSET_MOVED_TO_TIERED_STORAGE", false},
	{"FENCED_MEMBER_EPOCH", false},
	{"UNRELEASED_INSTANCE_ID", false},
	{"UNSUPPORTED_ASSIGNOR", false},
	{"STALE_MEMBER_EPOCH", false},
	{"MISMATCHED_ENDPOINT_TYPE", false},
	{"UNSUPPORTED_ENDPOINT_TYPE", false},
	{"UNKNOWN_CONTROLLER_ID", false},
	{"UNKNOWN_SUBSCRIPTION_ID", false},
	{"TELEMETRY_TOO_LARGE", false},
	{"INVALID_REGISTRATION", false},
	{"TRANSACTION_ABORTABLE", false},
	{"INVALID_RECORD_STATE", false},
	{"SHARE_SESSION_NOT_FOUND", true},
	{"INVALID_SHARE_SESSION_EPOCH", true},
	{"FENCED_STATE_EPOCH", false},
	{"INVALID_VOTER_KEY", false},
	{"DUPLICATE_VOTER", false},
	{"VOTER_NOT_FOUND", false},
	{"INVALID_REGULAR_EXPRESSION", false},
	{"REBOOTSTRAP_REQUIRED", false},
	{"STREAMS_INVALID_TOPOLOGY", false},
	{"STREAMS_INVALID_TOPOLOGY_EPOCH", false},
	{"STREAMS_TOPOLOGY_FENCED", false},
	{"SHARE_SESSION_LIMIT_REACHED", true},
	{"GROUP_DELETION_FAILED", false},
	{"STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED", false},
	{"CONTROLLER_ID_NOT_REGISTERED", false},
}
