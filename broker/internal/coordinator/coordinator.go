// Package coordinator runs the consumer groups: it keeps one shard for each partition of __consumer_offsets that this
// broker leads, feeds requests and ticks to the shard's group.Machine, appends the records the machine wants written, and
// answers once the high watermark has passed them. What a group does is decided in package group; which topic
// partitions exist and where they live is replica's and metadata's.
//
// # Concurrency
//
// A shard has a queue and no goroutine of its own. Whoever puts a message into an empty queue starts the shard's loop;
// the loop takes all that is queued, hands it to the machine message by message, writes the records of the whole round as
// one batch, and ends when the queue is empty. The machine's earliest deadline is one time.Timer that queues a tick. So
// 50 idle partitions cost 50 small structs, no goroutine and no timer, and commits that arrive together share a batch.
//
//	request ──► queue ─► loop ─► group.Machine ─► records ─► partition.Append(acks=all)
//	                      ▲            │                             │ high watermark passed
//	            timer ────┘            └─► answers held by ticket ◄──┘ (queued as a message)
//
// A shard's states:
//
//	absent ── leadership gained ──► loading ── log read to its end ──► active ── leadership lost ──► absent
//
// While a shard is loading its requests are answered COORDINATOR_LOAD_IN_PROGRESS, while it is absent NOT_COORDINATOR. So they
// are when the load has failed, which is tried again; what cannot be understood in a log that can be read is passed over.
package coordinator

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf16"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidemark/tidemark/broker/config"
	"github.com/tidemark/tidemark/broker/internal/group"
	"github.com/tidemark/tidemark/broker/internal/metadata"
	"github.com/tidemark/tidemark/broker/internal/replica"
	"github.com/tidemark/tidemark/core/kafka"
)

// maxLoads is how many partitions of one log folder are read at the same time after leadership has come.
const maxLoads = 2

// Log is what a shard needs of its partition of __consumer_offsets; partition.Direct is one.
type Log interface {
	// Append writes one record batch (base offset 0) with acks=all. done is called exactly once, from any goroutine and
	// possibly before Append returns, when the high watermark has passed the batch or the append has failed. The batch is
	// the Log's until then.
	Append(batch []byte, done func(kafka.ErrorCode))
	// Read appends to dst whole record batches from the one that holds offset from, at least one, about maxBytes in all.
	// It reads up to the log end offset. No batch at the log end: dst as it came.
	Read(dst []byte, from kafka.Offset, maxBytes int) ([]byte, error)
	// LogStart and LogEnd bound what is to be read.
	LogStart() kafka.Offset
	LogEnd() kafka.Offset
	// MaxBatchBytes is the topic's max.message.bytes.
	MaxBatchBytes() int
}

// Options is what the coordinator is made of.
type Options struct {
	NodeID kafka.BrokerID
	// Config gives the group and offset settings.
	Config *config.Broker
	// Open gives the log of a partition of __consumer_offsets that this broker leads; LogsOf makes one.
	Open func(kafka.Partition) (Log, kafka.ErrorCode)
	// Empty says whether a partition is known to hold no record without being opened; it must not wait for a disk. Such a
	// partition is not loaded, and opened with its first record. May be nil.
	Empty func(kafka.Partition) bool
	// Folder is the number of the log folder that a partition lies in: a folder that hangs holds up the loads of its own
	// partitions. nil: all lie in one.
	Folder func(kafka.Partition) int
	// CreateOffsetsTopic creates __consumer_offsets, unless it exists. It may block. Before it returns without error,
	// Apply has been told of the topic.
	CreateOffsetsTopic func(ctx context.Context) error
	// Image is the newest image, which clients may see before Apply is told of it. nil: what Apply was told last.
	Image func() *metadata.Image
	// NowMS is the wall clock, in milliseconds of the Unix epoch.
	NowMS func() int64
	// Registerer is where metrics go; nil keeps none.
	Registerer prometheus.Registerer
	// Logger takes what an operator should know: loads, failures, rebalances.
	Logger *slog.Logger
}

// LogsOf opens partitions of __consumer_offsets in a replica set.
func LogsOf(set *replica.Set) func(kafka.Partition) (Log, kafka.ErrorCode) {
	return func(p kafka.Partition) (Log, kafka.ErrorCode) {
		part, code := set.ByName([]byte(kafka.OffsetsTopic), p)
		if code != kafka.None {
			return nil, code
		}
		return part.Direct(), kafka.None
	}
}

// Client is who sent a request.
type Client struct {
	ID   string // client id of the request header
	Host string // the peer's address as Kafka shows it, "/127.0.0.1"
	// Taken is called once the group has taken from the request what it keeps, before the answer, which may be minutes away:
	// the request's memory is free. A request that is refused before is answered without. May be nil.
	Taken func()
	// Afford takes memory for an answer that is large: a leader is told what all members subscribe to. nil: there is enough.
	Afford Afford
}

func (c *Client) taken() {
	if c.Taken != nil {
		c.Taken()
	}
}

// Groups is the group coordinator of one broker. Every request method takes the decoded request, which must stay as it is
// until the answer (strings and bytes that outlive it are copied), and calls reply exactly once, from any goroutine,
// possibly before it returns.
type Groups struct {
	o       Options
	config  group.Config
	met     *metrics
	started time.Time
	loads   places
	shards  atomic.Pointer[[]*shard]

	// apply is held by Apply and Close.
	apply struct {
		sync.Mutex
		topic  *metadata.Topic
		closed bool
		image  atomic.Pointer[metadata.Image] // read by loops too
	}
	// ensure is held while __consumer_offsets is being created.
	ensure  chan struct{}
	creates atomic.Bool    // EnsureTopic is creating the topic, which this broker had not seen
	running sync.WaitGroup // loops and loads
}

// NewGroups makes a coordinator that leads no partition yet: Apply gives it some.
func NewGroups(o Options) *Groups {
	g := &Groups{o: o, started: time.Now(), ensure: make(chan struct{}, 1)}
	g.config = group.Config{
		MinSessionTimeoutMS:     o.Config.GroupMinSessionTimeoutMS,
		MaxSessionTimeoutMS:     o.Config.GroupMaxSessionTimeoutMS,
		InitialRebalanceDelayMS: o.Config.GroupInitialRebalanceDelayMS,
		MaxSize:                 o.Config.GroupMaxSize,
		WriteTimeoutMS:          o.Config.OffsetsCommitTimeoutMS,
		OffsetMetadataMaxBytes:  o.Config.OffsetMetadataMaxBytes,
		OffsetsRetentionMS:      int64(o.Config.OffsetsRetentionMinutes) * 60_000,
		RetentionCheckMS:        o.Config.OffsetsRetentionCheckIntervalMS,
	}
	g.shards.Store(&[]*shard{})
	g.met = newMetrics(o.Registerer, g)
	return g
}

// PartitionFor gives the partition of __consumer_offsets that holds a group: the absolute value of Java's hash of its
// name, modulo the number of partitions.
func (g *Groups) PartitionFor(groupID string) kafka.Partition {
	n := len(*g.shards.Load())
	if n == 0 {
		n = int(g.o.Config.OffsetsTopicNumPartitions)
	}
	hash := javaHash(groupID)
	if hash < 0 {
		hash = max(-hash, 0) // the smallest number has no positive twin
	}
	return kafka.Partition(int(hash) % n)
}

// javaHash is String.hashCode: over UTF-16 units.
func javaHash(s string) int32 {
	var h int32
	for _, r := range s {
		if r > 0xFFFF {
			hi, lo := utf16.EncodeRune(r)
			h = 31*(31*h+int32(hi)) + int32(lo)
			continue
		}
		h = 31*h + int32(r)
	}
	return h
}

// EnsureTopic creates __consumer_offsets when it does not exist, and then waits until this broker's share of it is
// loaded. Callers that arrive together share one creation.
func (g *Groups) EnsureTopic(ctx context.Context) error {
	if len(*g.shards.Load()) > 0 {
		return nil
	}
	select {
	case g.ensure <- struct{}{}:
		defer func() { <-g.ensure }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if len(*g.shards.Load()) > 0 {
		return nil
	}
	g.creates.Store(true)
	err := g.o.CreateOffsetsTopic(ctx)
	g.creates.Store(false)
	if err != nil {
		return fmt.Errorf("create %s: %w", kafka.OffsetsTopic, err)
	}
	for _, s := range *g.shards.Load() {
		select {
		case <-s.loading(): // of an empty topic: microseconds
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// Apply follows the image: img is the newest one, d what changed since the last call. It comes after replica.Set.Apply
// and does not wait for the loads that it starts.
func (g *Groups) Apply(img *metadata.Image, d metadata.Delta) {
	g.apply.Lock()
	defer g.apply.Unlock()
	if g.apply.closed {
		return
	}
	g.apply.image.Store(img)
	if t := img.Topic(kafka.OffsetsTopic); t != g.apply.topic {
		g.lead(t)
		g.apply.topic = t
	}
	deleted := map[string][16]byte{}
	for _, c := range d.Topics {
		if c.Old != nil && (c.New == nil || c.New.ID != c.Old.ID) {
			deleted[c.Old.Name] = c.Old.ID
		}
	}
	if len(deleted) == 0 {
		return
	}
	gone := func(topic string, id [16]byte) bool {
		was, ok := deleted[topic]
		return ok && (id == was || id == [16]byte{})
	}
	for _, s := range *g.shards.Load() {
		s.postInternal(func(s *shard, now group.Now) {
			if s.machine != nil { // else it is loading, and looks at the image then
				s.machine.RemoveOffsets(now, gone)
			}
		})
	}
}

// forget removes from a machine that has just been loaded the offsets of topics that went while nobody was there to do
// it. The image is new enough: it made this broker the leader after those commits were accepted.
func (g *Groups) forget(m *group.Machine, now group.Now) {
	img := g.apply.image.Load()
	m.RemoveOffsets(now, func(topic string, id [16]byte) bool {
		if id == [16]byte{} {
			return img.Topic(topic) == nil
		}
		return img.TopicByID(id) == nil
	})
}

// lead takes over and gives up shards as a new state of __consumer_offsets says; nil when it is gone.
func (g *Groups) lead(t *metadata.Topic) {
	shards := *g.shards.Load()
	if t == nil || g.apply.topic != nil && g.apply.topic.ID != t.ID {
		for _, s := range shards {
			s.resign()
		}
		shards = nil
	}
	if t == nil {
		g.shards.Store(&[]*shard{})
		return
	}
	grown := append([]*shard(nil), shards...)
	for p := len(grown); p < len(t.Partitions); p++ {
		grown = append(grown, &shard{g: g, p: kafka.Partition(p)})
	}
	// In its first leader epoch, while this broker creates the topic, a partition is known to be empty. When a broker starts,
	// topics seem to come into being that have long been there: then its log folder may know.
	created := g.apply.topic == nil && g.creates.Load()
	for p := range t.Partitions {
		if leader := &t.Partitions[p]; leader.Leader == g.o.NodeID {
			fresh := created && leader.LeaderEpoch == 0 || g.o.Empty != nil && g.o.Empty(kafka.Partition(p))
			grown[p].lead(leader.LeaderEpoch, fresh)
		} else {
			grown[p].resign()
		}
	}
	g.shards.Store(&grown)
}

// Close resigns everything and waits until every loop has ended.
func (g *Groups) Close(ctx context.Context) error {
	g.apply.Lock()
	g.apply.closed = true
	for _, s := range *g.shards.Load() {
		s.close()
	}
	g.apply.Unlock()
	ended := make(chan struct{})
	go func() { g.running.Wait(); close(ended) }()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("stop the group coordinator: %w", ctx.Err())
	}
}

func (g *Groups) now() group.Now {
	return group.Now{MonoMS: time.Since(g.started).Milliseconds(), WallMS: g.o.NowMS()}
}
