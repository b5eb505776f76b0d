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

func newLedger() *ledger { return &ledger{acked: map[place]origin{}} }

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
	s.c.Produce(ctx, &kgo.Record{Topic: topic, Partition: partition, Value: encodeValue(o, size)}, func(r *kgo.Record, err error) {
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
type finding struct{ start, end int64 }

// check reads every partition of a topic from its start to its end, with the given fetch settings, and fails the test
// unless the offsets follow each other, every acknowledged record at or behind the start is at the offset it was
// acknowledged at, and each sender's records stand there without gap, once and in their order.
func (l *ledger) check(t *testing.T, b *proc.Broker, topic string, o ...kgo.Opt) {
	t.Helper()
	admin := adminOf(t, b)
	defer admin.Close()
	starts, err := admin.ListStartOffsets(t.Context(), topic)
	if err != nil {
		t.Fatal(err)
	}
	ends, err := admin.ListEndOffsets(t.Context(), topic)
	if err != nil || ends.Error() != nil {
		t.Fatal(err, ends.Error())
	}
	todo := map[int32]finding{}
	assigned := map[int32]kgo.Offset{}
	for partition, end := range ends[topic] {
		start, _ := starts.Lookup(topic, partition)
		if start.Offset < end.Offset {
			todo[partition] = finding{start.Offset, end.Offset}
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
func (l *ledger) read(t *testing.T, c *kgo.Client, topic string, todo map[int32]finding) {
	t.Helper()
	at := map[int32]int64{}
	for partition, f := range todo {
		at[partition] = f.start
	}
	last := map[int32]map[uint32]uint64{} // the sequence that is due of each sender
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for left := len(todo); left > 0; {
		fetches := c.PollFetches(ctx)
		if ctx.Err() != nil {
			t.Fatalf("%s is read to %v; the ends are %v", topic, at, todo)
		}
		fetches.EachError(func(topic string, partition int32, err error) { t.Errorf("fetch %s/%d: %v", topic, partition, err) })
		fetches.EachRecord(func(r *kgo.Record) {
			if r.Offset != at[r.Partition] {
				t.Fatalf("%s/%d: offset %d comes where %d was due", topic, r.Partition, r.Offset, at[r.Partition])
			}
			at[r.Partition]++
			if at[r.Partition] == todo[r.Partition].end {
				left--
			}
			o, err := decodeValue(r.Value)
			if err != nil {
				t.Fatalf("%s/%d offset %d: %v", topic, r.Partition, r.Offset, err)
			}
			if last[r.Partition] == nil {
				last[r.Partition] = map[uint32]uint64{}
			}
			due, seen := last[r.Partition][o.sender]
			if o.sequence != due && (seen || todo[r.Partition].start == 0) {
				t.Fatalf("%s/%d offset %d: record %d of sender %d comes where its record %d was due", topic, r.Partition, r.Offset, o.sequence, o.sender, due)
			}
			last[r.Partition][o.sender] = o.sequence + 1
			l.found(t, place{topic, r.Partition, r.Offset}, o)
		})
	}
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
	c, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.ProducerBatchCompression(pick(r, codecs...)), kgo.ProducerLinger(pick(r, 0, time.Millisecond, 5*time.Millisecond)),
		kgo.ProducerBatchMaxBytes(pick[int32](r, 2<<10, 16<<10, 1_000_012)), kgo.MaxBufferedRecords(pick(r, 50, 500)),
		kgo.RetryBackoffFn(func(int) time.Duration { return 20 * time.Millisecond }), kgo.MetadataMinAge(20*time.Millisecond),
		kgo.DialTimeout(5*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return &sender{l: l, c: c, number: number, next: map[place]uint64{}, r: rand.New(rand.NewPCG(r.Uint64(), 1)),
		maxBytes: pick(r, 1, 100, 1800), strict: true}
}
