package e2e

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark/tidemark/broker/proc"
)

// ledger knows what was sent to and acknowledged by a broker, and holds the partitions against it. A record's value is
//
//	sender u32 | sequence within sender and partition u64 | filling | CRC-32 of all before it u32
type ledger struct {
	mu      sync.Mutex
	acked   map[place]origin
	nAcked  int
	sent    int
	failure error // the first record that was given up

	keys    map[string]uint64 // of each compacted topic: how many keys each sender has in a partition
	repeats map[uint32]bool   // senders that are not idempotent
}

type place struct {
	topic     string
	partition int32
	offset    int64
}

type origin struct {
	sender   uint32
	sequence uint64
}

func newLedger() *ledger {
	return &ledger{acked: map[place]origin{}, keys: map[string]uint64{}, repeats: map[uint32]bool{}}
}

// compacts tells that a topic is compacted and that each sender has n keys in each of its partitions.
func (l *ledger) compacts(topic string, n uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.keys[topic] = n
}

// key is the key of a record, nil in a topic that is not compacted.
func (l *ledger) key(topic string, o origin) []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := l.keys[topic]; n > 0 {
		return fmt.Appendf(nil, "%d-%d", o.sender, o.sequence%n)
	}
	return nil
}

func (l *ledger) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.nAcked
}

// err is the first record that a client gave up.
func (l *ledger) err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failure
}

// sender is one producing client. Its records carry its number.
type sender struct {
	l        *ledger
	c        *kgo.Client
	number   uint32
	next     map[place]uint64
	r        *rand.Rand
	maxBytes int
	strict   bool // a record that is given up is a failure
}

func encodeValue(o origin, size int) []byte {
	v := make([]byte, 12, 16+size)
	binary.BigEndian.PutUint32(v, o.sender)
	binary.BigEndian.PutUint64(v[4:], o.sequence)
	for i := range size {
		v = append(v, byte(i*7)^byte(o.sequence))
	}
	return binary.BigEndian.AppendUint32(v, crc32.ChecksumIEEE(v))
}

func decodeValue(v []byte) (origin, error) {
	if len(v) < 16 || crc32.ChecksumIEEE(v[:len(v)-4]) != binary.BigEndian.Uint32(v[len(v)-4:]) {
		return origin{}, fmt.Errorf("a value of %d bytes is damaged", len(v))
	}
	return origin{binary.BigEndian.Uint32(v), binary.BigEndian.Uint64(v[4:])}, nil
}

// sendOne produces the next record to a partition; it blocks while the client's buffer is full.
func (s *sender) sendOne(ctx context.Context, topic string, partition int32) {
	p := place{topic: topic, partition: partition}
	o := origin{s.number, s.next[p]}
	s.next[p]++
	size := s.r.IntN(s.maxBytes)
	if s.r.IntN(20) > 0 {
		size = min(size, 200)
	}
	s.l.mu.Lock()
	s.l.sent++
	s.l.mu.Unlock()
	s.c.Produce(ctx, &kgo.Record{Topic: topic, Partition: partition, Key: s.l.key(topic, o), Value: encodeValue(o, size)}, func(r *kgo.Record, err error) {
		s.l.mu.Lock()
		defer s.l.mu.Unlock()
		if err != nil {
			if s.strict && s.l.failure == nil && !errors.Is(err, context.Canceled) && !errors.Is(err, kgo.ErrClientClosed) {
				s.l.failure = fmt.Errorf("sender %d record %d for %s/%d: %w", o.sender, o.sequence, topic, partition, err)
			}
			return
		}
		s.l.nAcked++
		s.l.acked[place{topic, partition, r.Offset}] = o
	})
}

// finding is what a partition's records showed.
type finding struct {
	start, end int64
	last       map[uint32]uint64           // the sequence that is due of each sender
	keys       map[uint32]map[uint64]int64 // of a compacted topic: the offset of each key's last record
}

// check reads every partition of a topic from its start to its end, with the given fetch settings, and fails the test
// unless the offsets follow each other, every acknowledged record at or behind the start is at the offset it was
// acknowledged at, and each sender's records stand there without gap, once and in their order. Where the topic is compacted
// a record may be missing if a later one of its key is there; a sender that is not idempotent may have repeated itself.
func (l *ledger) check(t *testing.T, b *proc.Broker, topic string, o ...kgo.Opt) {
	t.Helper()
	admin := adminOf(t, b)
	defer admin.Close()
	var starts, ends kadm.ListedOffsets
	until(t, "the ends of "+topic+" are told", func() bool { // OFFSET_NOT_AVAILABLE while the high watermark has not passed the epoch's start
		var err error
		if starts, err = admin.ListStartOffsets(t.Context(), topic); err == nil {
			ends, err = admin.ListEndOffsets(t.Context(), topic)
		}
		return err == nil && starts.Error() == nil && ends.Error() == nil
	})
	todo := map[int32]*finding{}
	assigned := map[int32]kgo.Offset{}
	for partition, end := range ends[topic] {
		start, _ := starts.Lookup(topic, partition)
		if start.Offset < end.Offset {
			todo[partition] = &finding{start: start.Offset, end: end.Offset, last: map[uint32]uint64{}, keys: map[uint32]map[uint64]int64{}}
			assigned[partition] = kgo.NewOffset().At(start.Offset)
		}
		l.forgetBefore(topic, partition, start.Offset)
	}
	if len(todo) > 0 {
		c := newClient(t, b, append([]kgo.Opt{kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: assigned})}, o...)...)
		l.read(t, c, topic, todo)
		c.Close()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	missing := 0
	for p, o := range l.acked {
		if p.topic == topic {
			if n := l.keys[topic]; n > 0 && todo[p.partition] != nil && todo[p.partition].keys[o.sender][o.sequence%n] > p.offset {
				delete(l.acked, p)
				continue // compacted away
			}
			if missing++; missing <= 5 {
				t.Errorf("record %d of sender %d was acknowledged at %s/%d offset %d and is not there", o.sequence, o.sender, p.topic, p.partition, p.offset)
			}
		}
	}
	if missing > 5 {
		t.Errorf("%d acknowledged records of %s are lost", missing, topic)
	}
}

// read consumes until each partition's end; what it finds it takes off the ledger.
func (l *ledger) read(t *testing.T, c *kgo.Client, topic string, todo map[int32]*finding) {
	t.Helper()
	at := map[int32]int64{}
	for partition, f := range todo {
		at[partition] = f.start
	}
	l.mu.Lock()
	keys := l.keys[topic]
	l.mu.Unlock()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for left := len(todo); left > 0; {
		fetches := c.PollFetches(ctx)
		if ctx.Err() != nil {
			t.Fatalf("%s is read to %v; the ends are %v", topic, at, todo)
		}
		fetches.EachError(func(topic string, partition int32, err error) { t.Errorf("fetch %s/%d: %v", topic, partition, err) })
		fetches.EachRecord(func(r *kgo.Record) {
			f := todo[r.Partition]
			if r.Offset < at[r.Partition] || r.Offset > at[r.Partition] && keys == 0 {
				t.Fatalf("%s/%d: offset %d comes where %d was due", topic, r.Partition, r.Offset, at[r.Partition])
			}
			at[r.Partition] = r.Offset + 1
			if at[r.Partition] == f.end {
				left--
			}
			o, err := decodeValue(r.Value)
			if err != nil {
				t.Fatalf("%s/%d offset %d: %v", topic, r.Partition, r.Offset, err)
			}
			l.inOrder(t, r, o, f, keys)
			l.found(t, place{topic, r.Partition, r.Offset}, o)
		})
	}
}

// inOrder holds a record against those of its sender before it.
func (l *ledger) inOrder(t *testing.T, r *kgo.Record, o origin, f *finding, keys uint64) {
	t.Helper()
	due, seen := f.last[o.sender]
	l.mu.Lock()
	repeats := l.repeats[o.sender]
	l.mu.Unlock()
	early, late := o.sequence > due, o.sequence < due
	if late && !repeats || early && keys == 0 && (seen || f.start == 0) {
		t.Fatalf("%s/%d offset %d: record %d of sender %d comes where its record %d was due", r.Topic, r.Partition, r.Offset, o.sequence, o.sender, due)
	}
	f.last[o.sender] = o.sequence + 1
	if keys == 0 {
		return
	}
	if want := l.key(r.Topic, o); string(r.Key) != string(want) {
		t.Fatalf("%s/%d offset %d has key %q instead of %q", r.Topic, r.Partition, r.Offset, r.Key, want)
	}
	if f.keys[o.sender] == nil {
		f.keys[o.sender] = map[uint64]int64{}
	}
	f.keys[o.sender][o.sequence%keys] = r.Offset
}

func (l *ledger) found(t *testing.T, p place, o origin) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if want, ok := l.acked[p]; ok && want != o {
		t.Fatalf("%s/%d offset %d holds record %d of sender %d; acknowledged there was record %d of sender %d",
			p.topic, p.partition, p.offset, o.sequence, o.sender, want.sequence, want.sender)
	}
	delete(l.acked, p)
}

// forgetBefore drops what retention may have deleted.
func (l *ledger) forgetBefore(topic string, partition int32, start int64) {
	if start == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for p := range l.acked {
		if p.topic == topic && p.partition == partition && p.offset < start {
			delete(l.acked, p)
		}
	}
}

// newSender makes a producing client with settings drawn at random. Its records are retried until the broker is back.
func (l *ledger) newSender(t *testing.T, addr string, number uint32, r *rand.Rand) *sender {
	t.Helper()
	codecs := []kgo.CompressionCodec{kgo.NoCompression(), kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(), kgo.ZstdCompression()}
	acks := []kgo.Opt{kgo.RequiredAcks(kgo.AllISRAcks())}
	if r.IntN(4) == 0 {
		acks = []kgo.Opt{kgo.RequiredAcks(kgo.LeaderAck()), kgo.DisableIdempotentWrite(), kgo.MaxProduceRequestsInflightPerBroker(1)}
		l.mu.Lock()
		l.repeats[number] = true
		l.mu.Unlock()
	}
	c, err := kgo.NewClient(append(acks, kgo.SeedBrokers(addr), kgo.AlwaysRetryEOF(), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchCompression(pick(r, codecs...)), kgo.ProducerLinger(pick(r, 0, time.Millisecond, 5*time.Millisecond)),
		kgo.ProducerBatchMaxBytes(pick[int32](r, 2<<10, 16<<10, 1_000_012)), kgo.MaxBufferedRecords(pick(r, 50, 500)),
		kgo.RetryBackoffFn(func(int) time.Duration { return 20 * time.Millisecond }), kgo.MetadataMinAge(20*time.Millisecond),
		kgo.DialTimeout(30*time.Second))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return &sender{l: l, c: c, number: number, next: map[place]uint64{}, r: rand.New(rand.NewPCG(r.Uint64(), 1)),
		maxBytes: pick(r, 1, 100, 1800), strict: true}
}
