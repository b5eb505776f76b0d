// Package kgo drives a cluster with franz-go, as an application would use it: one client for each producer and
// consumer, records handed over one by one, a promise for each. It exists to be compared with, so nothing is tuned
// behind the user's back and nothing is left to the library: every setting that changes what is measured is given, and
// Effective lists it.
//
// The client's defaults that this package overrides: one request in flight without idempotence, snappy, 10 ms linger,
// sticky partitioning, 10,000 buffered records.
//
// Concurrency is franz-go's; a Producer's promises come from one goroutine of its client.
package kgo

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark/tidemark/core/compress"
	"github.com/tidemark/tidemark/loadgen/driver"
)

// metadataMinAge is how soon after one metadata answer the next may be asked for.
const metadataMinAge = 100 * time.Millisecond

// idempotentInFlight is what franz-go has in flight for each broker with idempotence; it refuses to be told.
const idempotentInFlight = 5

// Driver makes franz-go clients.
type Driver struct {
	cfg driver.Config
}

// New checks that franz-go can do what cfg asks; nothing is connected yet.
func New(cfg driver.Config) (*Driver, error) {
	if cfg.Idempotence && cfg.Acks != -1 {
		return nil, fmt.Errorf("driver kgo: idempotence needs acks=all, not acks=%d", cfg.Acks)
	}
	if cfg.Idempotence && cfg.InFlight != idempotentInFlight {
		return nil, fmt.Errorf("driver kgo: with idempotence franz-go always has %d requests in flight, not %d: say --in-flight %d, or use driver raw",
			idempotentInFlight, cfg.InFlight, idempotentInFlight)
	}
	d := &Driver{cfg: cfg}
	for _, opts := range [][]kgo.Opt{append(d.common("check"), d.producing()...), append(d.common("check"), d.fetching()...)} {
		if err := kgo.ValidateOpts(opts...); err != nil {
			return nil, fmt.Errorf("driver kgo: %w", err)
		}
	}
	return d, nil
}

// common are the settings of every client.
func (d *Driver) common(clientID string) []kgo.Opt {
	c := &d.cfg
	opts := []kgo.Opt{
		kgo.SeedBrokers(c.Bootstrap...), kgo.ClientID(clientID), kgo.DisableClientMetrics(),
		kgo.RetryBackoffFn(func(int) time.Duration { return c.RetryBackoff }), kgo.RequestRetries(c.Retries),
		kgo.RequestTimeoutOverhead(max(c.RequestTimeout, 100*time.Millisecond)), kgo.DialTimeout(10 * time.Second),
		kgo.MetadataMinAge(metadataMinAge), kgo.MetadataMaxAge(5 * time.Minute), kgo.BrokerMaxReadBytes(math.MaxInt32 / 2),
	}
	if c.Dial != nil {
		opts = append(opts, kgo.Dialer(c.Dial))
	}
	if c.SASL != nil {
		opts = append(opts, kgo.SASL(c.SASL))
	}
	return opts
}

// producing are a producer's settings.
func (d *Driver) producing() []kgo.Opt {
	c := &d.cfg
	acks := kgo.AllISRAcks()
	switch c.Acks {
	case 0:
		acks = kgo.NoAck()
	case 1:
		acks = kgo.LeaderAck()
	}
	opts := []kgo.Opt{
		kgo.RequiredAcks(acks), kgo.ProducerLinger(c.Linger),
		kgo.ProducerBatchMaxBytes(int32(c.BatchBytes)), kgo.BrokerMaxWriteBytes(int32(max(c.MaxRequestBytes, c.BatchBytes+1<<10))),
		kgo.ProducerBatchCompression(codec(c.Codec, c.CodecLevel)), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.MaxBufferedBytes(int(c.BufferBytes)), kgo.MaxBufferedRecords(d.bufferRecords()),
		kgo.RecordDeliveryTimeout(max(c.DeliveryTimeout, time.Second)), kgo.ProduceRequestTimeout(max(c.RequestTimeout, 100*time.Millisecond)),
		kgo.RecordRetries(c.Retries), kgo.UnknownTopicRetries(c.Retries),
	}
	if !c.Idempotence {
		opts = append(opts, kgo.DisableIdempotentWrite(), kgo.MaxProduceRequestsInflightPerBroker(c.InFlight))
	}
	return opts
}

func (d *Driver) bufferRecords() int {
	if d.cfg.BufferRecords > 0 {
		return d.cfg.BufferRecords
	}
	return math.MaxInt32
}

func codec(c compress.Codec, level int) kgo.CompressionCodec {
	k := kgo.NoCompression()
	switch c {
	case compress.Gzip:
		k = kgo.GzipCompression()
	case compress.Snappy:
		k = kgo.SnappyCompression()
	case compress.Lz4:
		k = kgo.Lz4Compression()
	case compress.Zstd:
		k = kgo.ZstdCompression()
	}
	if level != 0 {
		k = k.WithLevel(level)
	}
	return k
}

// fetching are a consumer's settings beside its group's.
func (d *Driver) fetching() []kgo.Opt {
	c := &d.cfg
	level := kgo.ReadUncommitted()
	if c.ReadCommitted {
		level = kgo.ReadCommitted()
	}
	return []kgo.Opt{
		kgo.FetchMinBytes(c.FetchMinBytes), kgo.FetchMaxBytes(c.FetchMaxBytes), kgo.FetchMaxPartitionBytes(c.FetchMaxPartitionBytes),
		kgo.FetchMaxWait(max(c.FetchMaxWait, 10*time.Millisecond)), kgo.FetchIsolationLevel(level), kgo.MaxConcurrentFetches(0),
		// A flipped bit is to be found, and named by offset, by the run's own check.
		kgo.DisableFetchCRCValidation(),
	}
}

// Effective lists the settings by Kafka's names.
func (d *Driver) Effective() map[string]string {
	c := &d.cfg
	return map[string]string{
		"acks": strconv.Itoa(int(c.Acks)), "enable.idempotence": strconv.FormatBool(c.Idempotence),
		"max.in.flight.requests.per.connection": strconv.Itoa(c.InFlight), "linger.ms": c.Linger.String(),
		"batch.size": strconv.Itoa(c.BatchBytes), "max.request.size": strconv.Itoa(max(c.MaxRequestBytes, c.BatchBytes+1<<10)),
		"compression.type": c.Codec.String(), "compression.level": strconv.Itoa(c.CodecLevel),
		"buffer.memory": strconv.FormatInt(c.BufferBytes, 10), "buffered records": strconv.Itoa(d.bufferRecords()),
		"delivery.timeout.ms": max(c.DeliveryTimeout, time.Second).String(), "request.timeout.ms": max(c.RequestTimeout, 100*time.Millisecond).String(),
		"retry.backoff.ms": c.RetryBackoff.String(), "retries": strconv.Itoa(c.Retries), "partitioner": "the workload's",
		"fetch.min.bytes": strconv.Itoa(int(c.FetchMinBytes)), "fetch.max.bytes": strconv.Itoa(int(c.FetchMaxBytes)),
		"max.partition.fetch.bytes": strconv.Itoa(int(c.FetchMaxPartitionBytes)), "fetch.max.wait.ms": max(c.FetchMaxWait, 10*time.Millisecond).String(),
		"fetch sessions": "on", "check.crcs": "false",
	}
}

// Close does nothing: the clients hold everything.
func (d *Driver) Close() error { return nil }

// client makes one client and reaches the cluster.
func client(ctx context.Context, opts []kgo.Opt) (*kgo.Client, error) {
	cl, err := kgo.NewClient(opts...)
	if err != nil {
		return nil, fmt.Errorf("driver kgo: %w", err)
	}
	if err := cl.Ping(ctx); err != nil {
		cl.Close()
		return nil, fmt.Errorf("driver kgo: %w", err)
	}
	return cl, nil
}
