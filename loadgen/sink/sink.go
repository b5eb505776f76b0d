// Package sink is a scripted Kafka target on loopback that stores nothing: the generator's ceiling, the calibration, and
// the truth that measuring tests are held to (METHOD 3). Clients take it for a broker of one node; what it does to them
// is written in its Script: delays, freezes, a capacity, acks dropped or repeated, batches lost, repeated, swapped or
// damaged, errors, throttling. It keeps its own log of what arrived when.
//
// What it is not: a broker. Batches are not validated, sequences of idempotent producers are not checked, offsets come
// from counting, and consumers are served from a bounded ring of the last batches of each partition (Script.KeepBytes;
// 0 keeps nothing, and then a fetch waits for ever).
//
//	socket -> frame in place -> handler -> answer, due now      -> written with its neighbours once the input is used up
//	                                    -> answer, due later    -> the connection's queue -> Sleeper -> socket
//
// Concurrency: each connection has one goroutine that reads and handles, started and ended by the sink, and a second one
// that writes from the first late answer on. A handler may wait (a fetch for records, a join for its group); Close ends all.
// Locks, outer first: topics, group or partition; no lock is held across a socket.
package sink

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidemark/tidemark/core/clock"
	"github.com/tidemark/tidemark/core/kafka"
)

// Script says how the sink behaves. The zero Script acks at once and keeps nothing.
type Script struct {
	// AckDelay passes between a produce request's arrival and its answer.
	AckDelay time.Duration
	// StoreDelay passes between a produce request's arrival and the moment at which its batches are stored: both the answer
	// and the delivery are later by it.
	StoreDelay time.Duration
	// FetchDelay passes between a batch's arrival and the moment at which consumers can have it, exactly.
	FetchDelay time.Duration
	// Freezes are stretches in which nothing is read, handled or answered.
	Freezes []Freeze
	// Capacity above 0 serves that many records each second through one queue; an ack leaves when its records were
	// served, AckDelay later.
	Capacity float64
	// Throttle is the throttle_time_ms in every produce and fetch answer.
	Throttle time.Duration
	// Faults harm single batches.
	Faults []Fault

	// Partitions of topics that come by auto-creation; 0 refuses them.
	Partitions int
	// KeepBytes bounds the batches that each partition keeps for consumers.
	KeepBytes int
	// LogArrivals keeps an Arrival for each batch. It costs a walk over the records of uncompressed batches.
	LogArrivals bool
	// RebalanceDelay is how long an empty group waits for more members.
	RebalanceDelay time.Duration
	// RefuseTopics answers CreateTopics with this code, where it is not None.
	RefuseTopics kafka.ErrorCode
	// RefuseDeletes answers DeleteTopics with this code, where it is not None; the topics stay.
	RefuseDeletes kafka.ErrorCode
	// TopicsDelay passes between the making of topics and the answer to CreateTopics. Below 0 the connection is closed
	// instead of an answer.
	TopicsDelay time.Duration
}

// Freeze stops the sink from At until At+For, counted from New, or from the last Restart. With AfterBatch it begins with
// the arrival of the batch of that number, counted as Fault.Batch is, and with AfterRecords with that of the batch that
// holds the record of that number, however many batches the client makes of them; At is not used then.
type Freeze struct {
	At, For                  time.Duration
	AfterBatch, AfterRecords int64
}

// Kind is what a Fault does.
type Kind string

// The kinds of fault.
const (
	Lose      Kind = "lose"      // acked, its offsets are used up, never delivered
	Repeat    Kind = "repeat"    // delivered twice, the second time behind itself
	Swap      Kind = "swap"      // delivered behind the next batch of its partition
	Flip      Kind = "flip"      // one bit of its last record's value is flipped and the CRC mended: only a checksum of the payload's shows it
	Break     Kind = "break"     // the same without mending the CRC: clients must refuse the batch
	Refuse    Kind = "refuse"    // answered with Code and not stored
	StoreFail Kind = "storefail" // stored and answered with Code all the same
	DropAck   Kind = "dropack"   // stored, the whole request is never answered
	RepeatAck Kind = "repeatack" // stored, the whole request is answered twice
	Hangup    Kind = "hangup"    // stored, the connection is closed instead of an answer
)

// Fault harms the batches that it names. A batch meets one fault at most, and the one that changes places with a swapped
// batch meets none: Stats and the arrival log have what was done.
type Fault struct {
	Kind Kind
	// Batch is the number of the batch, counted from 1 over all partitions since New or Restart. With Every it is the first
	// one, and every Every-th after it follows.
	Batch, Every int64
	// Topic limits the fault, and its counting, to one topic.
	Topic string
	Code  kafka.ErrorCode
}

// Arrival is one batch as it arrived.
type Arrival struct {
	Nanos     int64 // CLOCK_MONOTONIC when its request had been read whole
	Topic     string
	Partition int32
	Offset    kafka.Offset // given to its first record; -1 when it was refused
	Records   int32
	Bytes     int // of the batch on the wire
	// Producer, FirstSequence and LastSequence come from the envelopes (loadgen/verify) of an uncompressed batch; Producer
	// is -1 elsewhere.
	Producer                    int32
	FirstSequence, LastSequence uint64
	Harm                        Kind  // the fault it met, "" for none
	AckNanos                    int64 // when its ack was due; 0 for none
	// WrittenNanos is the moment right before its ack was handed to the socket: what a client reads is later. 0 is not yet.
	WrittenNanos int64
}

// Stats counts what the sink saw.
type Stats struct {
	Connections, Requests, ProduceRequests, Batches, Records, Bytes int64
	Fetches, Joins, Commits                                         int64
	Dropped                                                         int64 // batches that left their ring, read or not
	Harmed                                                          map[Kind]int64
}

// Sink is a running target. It owns a listener and its connections until Close.
type Sink struct {
	listener net.Listener
	host     string
	port     int32
	script   atomic.Pointer[scripted]
	topics   topics
	groups   groups
	stats    counters
	nextPID  atomic.Int64
	done     chan struct{}
	wg       sync.WaitGroup
	conns    struct {
		sync.Mutex
		open map[net.Conn]bool
	}
}

// scripted is a Script with the moment from which its times count, and its faults' counters.
type scripted struct {
	Script
	start   int64
	faults  []*armed
	batches atomic.Int64   // since the start, where a freeze counts them
	records atomic.Int64   // the same
	frozen  []atomic.Int64 // when the freeze of the same index began; 0 is not yet
}

type armed struct {
	Fault
	seen atomic.Int64
}

type counters struct {
	connections, requests, produces, batches, records, bytes atomic.Int64
	fetches, joins, commits, dropped                         atomic.Int64
	harmed                                                   struct {
		sync.Mutex
		byKind map[Kind]int64
	}
	capacity struct {
		sync.Mutex
		free int64 // when the queue will be empty
	}
}

// New starts a sink on a free port of 127.0.0.1.
func New(s Script) (*Sink, error) { return Listen("127.0.0.1:0", s) }

// Listen starts a sink on the address, which must be loopback.
func Listen(address string, s Script) (*Sink, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("start sink: %w", err)
	}
	tcp, ok := l.Addr().(*net.TCPAddr)
	if !ok || !tcp.IP.IsLoopback() {
		_ = l.Close()
		return nil, fmt.Errorf("start sink on %s: only loopback addresses are served", address)
	}
	k := &Sink{listener: l, host: tcp.IP.String(), port: int32(tcp.Port), done: make(chan struct{})}
	k.conns.open = map[net.Conn]bool{}
	k.topics.init()
	k.groups.init(k)
	k.stats.harmed.byKind = map[Kind]int64{}
	k.nextPID.Store(1000)
	k.Restart(s)
	k.wg.Add(1)
	go k.accept()
	return k, nil
}

// Addr is host:port for --bootstrap.
func (k *Sink) Addr() string { return k.listener.Addr().String() }

// Restart swaps the script: its times and fault counts begin now. Topics, offsets, groups and the arrival log stay.
func (k *Sink) Restart(s Script) {
	next := &scripted{Script: s, start: clock.Nanos(), frozen: make([]atomic.Int64, len(s.Freezes))}
	for i, f := range s.Freezes {
		if f.AfterBatch == 0 && f.AfterRecords == 0 {
			next.frozen[i].Store(next.start + int64(f.At))
		}
	}
	for _, f := range s.Faults {
		next.faults = append(next.faults, &armed{Fault: f})
	}
	k.stats.capacity.Lock()
	k.stats.capacity.free = 0
	k.stats.capacity.Unlock()
	k.script.Store(next)
}

// Start is the CLOCK_MONOTONIC moment from which the script's times count.
func (k *Sink) Start() int64 { return k.script.Load().start }

// Create makes a topic, as CreateTopics would.
func (k *Sink) Create(name string, partitions int) { k.topics.create(name, partitions) }

// Stats returns the counts so far.
func (k *Sink) Stats() Stats {
	c := &k.stats
	s := Stats{
		Connections: c.connections.Load(), Requests: c.requests.Load(), ProduceRequests: c.produces.Load(),
		Batches: c.batches.Load(), Records: c.records.Load(), Bytes: c.bytes.Load(), Fetches: c.fetches.Load(),
		Joins: c.joins.Load(), Commits: c.commits.Load(), Dropped: c.dropped.Load(), Harmed: map[Kind]int64{},
	}
	c.harmed.Lock()
	defer c.harmed.Unlock()
	for kind, n := range c.harmed.byKind {
		s.Harmed[kind] = n
	}
	return s
}

// Arrivals is the log of batches in the order of their arrival, where the script keeps one.
func (k *Sink) Arrivals() []Arrival { return k.topics.arrivals() }

// Close ends listener, connections and goroutines, and waits for them.
func (k *Sink) Close() error {
	select {
	case <-k.done:
		return nil
	default:
	}
	close(k.done)
	err := k.listener.Close()
	k.conns.Lock()
	for c := range k.conns.open {
		_ = c.Close() // the reader sees it
	}
	k.conns.Unlock()
	k.wg.Wait()
	return err
}

func (k *Sink) accept() {
	defer k.wg.Done()
	for {
		c, err := k.listener.Accept()
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return
			}
			continue // a connection that died in the queue
		}
		k.conns.Lock()
		select {
		case <-k.done:
			k.conns.Unlock()
			_ = c.Close()
			return
		default:
		}
		k.conns.open[c] = true
		k.conns.Unlock()
		k.stats.connections.Add(1)
		k.wg.Add(1)
		go k.serve(c)
	}
}

// frozenUntil is the end of the freeze in which now lies, or now.
func (s *scripted) frozenUntil(now int64) int64 {
	for i, f := range s.Freezes {
		if at := s.frozen[i].Load(); at > 0 && now >= at && now < at+int64(f.For) {
			return at + int64(f.For)
		}
	}
	return now
}

// count notes the arrival of a batch of so many records, with which a freeze may begin.
func (s *scripted) count(now, records int64) {
	if len(s.Freezes) == 0 {
		return
	}
	n, upTo := s.batches.Add(1), s.records.Add(records)
	for i, f := range s.Freezes {
		if f.AfterBatch == n || f.AfterRecords > upTo-records && f.AfterRecords <= upTo {
			s.frozen[i].Store(now)
		}
	}
}

// due is when the answer to a request of so many records leaves.
func (k *Sink) due(s *scripted, now int64, records int) int64 {
	at := now
	if s.Capacity > 0 {
		c := &k.stats.capacity
		c.Lock()
		c.free = max(c.free, now) + int64(float64(records)*1e9/s.Capacity)
		at = c.free
		c.Unlock()
	}
	return s.frozenUntil(at + int64(s.StoreDelay+s.AckDelay))
}

// harm is the fault that this batch of the topic meets, if any: each fault counts for itself. An exempt batch is counted
// and spared.
func (k *Sink) harm(s *scripted, topic string, exempt bool) (*armed, bool) {
	var hit *armed
	for _, f := range s.faults {
		if f.Topic != "" && f.Topic != topic {
			continue
		}
		n := f.seen.Add(1) - f.Batch
		if hit == nil && (n == 0 || n > 0 && f.Every > 0 && n%f.Every == 0) {
			hit = f
		}
	}
	if hit == nil || exempt {
		return nil, false
	}
	k.stats.harmed.Lock()
	k.stats.harmed.byKind[hit.Kind]++
	k.stats.harmed.Unlock()
	return hit, true
}
