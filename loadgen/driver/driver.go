// Package driver says what a load generator's client must do, in types alone: take records without choosing anything
// by itself, tell what became of each, and hand fetched records to a check. How records are sent is the business of
// the packages below: raw (the kit's own pipelined client), kgo (franz-go as an application would use it) and null
// (nothing at all: the generator's own ceiling).
//
// A Driver is made once for a run; each workload producer and consumer gets a client of its own from it, as an
// application's processes would have.
//
//	run ── Produce([]Record) ──> Producer ── batches, requests ──> brokers
//	run <── acked(*Ack), one call for each batch ──┘
//	run ── Poll(fn) ──> Consumer ── fetches ──> brokers
//
// Concurrency: a Producer's Produce is called by one goroutine. The acked function may be called from any goroutine
// of the driver, for one producer several at a time. A Consumer is used by one goroutine.
package driver

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/tidemark/tidemark/core/compress"
	"github.com/tidemark/tidemark/core/kafka"
)

// ErrClosed is returned for a client that has been closed.
var ErrClosed = errors.New("driver is closed")

// Driver makes the clients of one run. All settings were given when it was made; none is left to a default.
type Driver interface {
	// NewProducer connects one producing client. acked is called for each batch (or each record) that has ended, in
	// success or failure, exactly once for every record that Produce accepted unless the client was killed by Close.
	NewProducer(ctx context.Context, id int32, acked func(*Ack)) (Producer, error)
	// NewConsumer connects one consuming client.
	NewConsumer(ctx context.Context, id int32, c ConsumerConfig) (Consumer, error)
	// Effective lists the settings that the driver really runs with, by Kafka's property names, beside those asked.
	Effective() map[string]string
	// Close ends what the driver itself holds; the clients are closed by their owner.
	Close() error
}

// Record is one record to be sent. Its bytes are the caller's again when Produce returns.
type Record struct {
	Seq           uint64 // this producer's number of the record, from 0
	IntendedNanos int64  // when it ought to be sent, CLOCK_MONOTONIC
	Topic         int32  // index into Config.Topics
	Partition     int32  // always chosen by the workload's partitioner
	Key           []byte // nil for no key
	Head          []byte // the value's first bytes; nil for none
	Value         []byte // the value, or what follows Head: payloads need not be copied to put an envelope in front
	// Lasting says that Value's bytes stay as they are as long as the producer lives, and that ValueSum is their CRC-32C:
	// they may be sent from where they are.
	Lasting  bool
	ValueSum uint32
}

// Producer sends the records of one workload producer.
type Producer interface {
	// Produce accepts records in order. It accepts as many as fit, and blocks only while none fits; accepted says how
	// many were taken and waited how long it was kept waiting by the bound of memory or by the socket (the target's
	// doing, not the generator's). An error means that no further record will be accepted.
	Produce(rs []Record) (accepted int, waited time.Duration, err error)
	// Flush sends what is buffered without waiting for linger, and returns when every accepted record has ended or
	// ctx is done.
	Flush(ctx context.Context) error
	// TakeStats returns what was counted since the last call, and starts anew.
	TakeStats() Stats
	// Close drops the connections. Accepted records that have not ended are not reported any more.
	Close() error
}

// Ack tells what became of a run of records of one producer that ended together. It and its slices are valid until
// the function that received it returns.
type Ack struct {
	Producer      int32
	Topic         int32
	Partition     int32
	BaseOffset    kafka.Offset // of the first record, the others follow; -1 where the target does not say (acks=0, errors)
	AckedNanos    int64        // CLOCK_MONOTONIC when the answer was read; with acks=0 when the socket took the bytes
	Err           error        // nil for success; errors.Is finds the kafka.ErrorCode where there is one
	Bytes         int64        // keys and values of all its records
	Seqs          []uint64
	IntendedNanos []int64
}

// Fetched is one record as an application receives it, decompressed. Its bytes are valid until the function that
// received it returns.
type Fetched struct {
	Topic       int32 // index into Config.Topics
	Partition   int32
	Offset      kafka.Offset
	TimestampMS int64
	Key, Value  []byte
	Err         error // the batch at Offset could not be read; Key and Value are nil
}

// Consumer reads the records of one workload consumer. Assigned, Lag and TakeStats may be called from any goroutine.
type Consumer interface {
	// Poll waits for records, at most until ctx is done, and hands each run of them to fn. It returns nil when it was
	// only woken without records.
	Poll(ctx context.Context, fn func([]Fetched)) error
	// Assigned lists the partitions that it reads now, and a number that grows with each change of the assignment; 0
	// while it has none because its group is rebalancing or has not been joined.
	Assigned() (parts []TopicPartition, generation int)
	// Lag is the number of records between its position and the high watermark, over its partitions; -1 not known yet.
	Lag() int64
	// TakeStats returns what was counted since the last call, and starts anew.
	TakeStats() Stats
	// Close commits what the commit mode asks for, leaves the group and disconnects.
	Close() error
}

// TopicPartition names a partition by the index of its topic in Config.Topics.
type TopicPartition struct {
	Topic     int32
	Partition int32
}

// Topic is a topic of the run, which exists when the driver is made.
type Topic struct {
	Name       string
	Partitions int32
}

// Config holds every setting of a driver. A zero is the setting zero, never "the client's default".
type Config struct {
	Access // how connections are made

	Bootstrap []string
	ClientID  string // the clients append -p0, -c0 and so on
	Topics    []Topic
	Logger    *slog.Logger

	Acks            int16 // 0, 1, -1
	Idempotence     bool
	InFlight        int // requests in flight for each broker connection
	Linger          time.Duration
	BatchBytes      int // a partition's batch closes at this many uncompressed bytes, as Kafka's batch.size
	MaxRequestBytes int
	Codec           compress.Codec
	CodecLevel      int   // 0 is the codec's own default
	PayloadPool     int   // raw alone: send this many compressed batches again and again; 0 compresses each
	BufferBytes     int64 // buffer.memory: for each producer
	BufferRecords   int   // the same in records; 0 is no such bound
	DeliveryTimeout time.Duration
	RequestTimeout  time.Duration
	RetryBackoff    time.Duration
	Retries         int

	FetchMinBytes          int32
	FetchMaxBytes          int32
	FetchMaxPartitionBytes int32
	FetchMaxWait           time.Duration
	ReadCommitted          bool
	MaxPollRecords         int
}

// CommitMode says when a group's consumer commits its offsets.
type CommitMode string

// The commit modes.
const (
	CommitNone   CommitMode = "none"   // never
	CommitAuto   CommitMode = "auto"   // each CommitInterval, in the background
	CommitSync   CommitMode = "sync"   // after each poll, and waits for the answer: at least once
	CommitAsync  CommitMode = "async"  // after each poll, and does not wait
	CommitBefore CommitMode = "before" // before the records are handled: at most once
)

// ConsumerConfig is what one consumer is told beside Config.
type ConsumerConfig struct {
	Group             string // "" reads Partitions without a group
	Partitions        []TopicPartition
	Assignor          string // range, roundrobin, sticky, cooperative-sticky
	InstanceID        string // static membership; "" is dynamic
	Commit            CommitMode
	CommitInterval    time.Duration
	SessionTimeout    time.Duration
	RebalanceTimeout  time.Duration
	HeartbeatInterval time.Duration
	FromLatest        bool // where there is no committed offset: the end, instead of the start
}
