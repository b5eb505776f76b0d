package versus

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark/tidemark/loadgen/verify"
)

// readBack is what a topic holds of one run, record by record. Capacity windows measure producing alone, so that what they
// had acknowledged is read afterwards.
type readBack struct {
	read, distinct, duplicated, outOfOrder, corrupt, foreign int64
}

// offsets are positions by topic and partition.
type offsets map[string]map[int32]int64

// readTimeout bounds the reading of one window's records.
const readTimeout = 3 * time.Minute

// endsOf asks for the ends of a topic's logs.
func endsOf(ctx context.Context, bootstrap, topic string) (offsets, error) {
	return withAdmin(ctx, bootstrap, func(ctx context.Context, admin *kadm.Client) (offsets, error) {
		var listed kadm.ListedOffsets
		for {
			var err error
			if listed, err = admin.ListEndOffsets(ctx, topic); err == nil {
				err = listed.Error()
			}
			if err == nil {
				break
			}
			pause(ctx, 50*time.Millisecond) // a topic that was just made has no leaders everywhere yet
			if ctx.Err() != nil {
				return nil, fmt.Errorf("ends of topic %s: %w", topic, err)
			}
		}
		ends := offsets{topic: {}}
		listed.Each(func(o kadm.ListedOffset) { ends[topic][o.Partition] = o.Offset })
		return ends, nil
	})
}

// firstOffsets is the sum of the first offsets of a topic's logs.
func firstOffsets(ctx context.Context, bootstrap, topic string) (int64, error) {
	return withAdmin(ctx, bootstrap, func(ctx context.Context, admin *kadm.Client) (int64, error) {
		listed, err := admin.ListStartOffsets(ctx, topic)
		if err == nil {
			err = listed.Error()
		}
		if err != nil {
			return 0, fmt.Errorf("first offsets of topic %s: %w", topic, err)
		}
		sum := int64(0)
		listed.Each(func(o kadm.ListedOffset) { sum += o.Offset })
		return sum, nil
	})
}

func withAdmin[T any](ctx context.Context, bootstrap string, f func(context.Context, *kadm.Client) (T, error)) (T, error) {
	var none T
	client, err := kgo.NewClient(kgo.SeedBrokers(bootstrap), kgo.ClientID("tidemark-versus"))
	if err != nil {
		return none, err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	admin := kadm.NewClient(client)
	admin.SetTimeoutMillis(int32(readTimeout.Milliseconds()))
	return f(ctx, admin)
}

// makeTopic makes a topic.
func makeTopic(ctx context.Context, bootstrap, topic string, partitions int, configs map[string]string) error {
	_, err := withAdmin(ctx, bootstrap, func(ctx context.Context, admin *kadm.Client) (struct{}, error) {
		values := map[string]*string{}
		for k, v := range configs {
			values[k] = &v
		}
		r, err := admin.CreateTopic(ctx, int32(partitions), 1, values, topic)
		if err == nil {
			err = r.Err
		}
		if err != nil {
			err = fmt.Errorf("create topic %s: %w", topic, err)
		}
		return struct{}{}, err
	})
	return err
}

// dropTopic deletes a topic; one that is not there is no error.
func dropTopic(ctx context.Context, bootstrap, topic string) error {
	_, err := withAdmin(ctx, bootstrap, func(ctx context.Context, admin *kadm.Client) (struct{}, error) {
		_, err := admin.DeleteTopics(ctx, topic)
		return struct{}{}, err
	})
	return err
}

// readTopic reads a topic from the offsets given (nil: its beginning) to its ends and checks each record of the run.
func readTopic(ctx context.Context, bootstrap, topic, run string, from offsets) (*readBack, error) {
	id, err := strconv.ParseUint(run, 16, 64)
	if err != nil {
		return nil, fmt.Errorf("run id %q: %w", run, err)
	}
	ends, err := endsOf(ctx, bootstrap, topic)
	if err != nil {
		return nil, err
	}
	left := map[int32]int64{}
	start := map[int32]kgo.Offset{}
	for p, end := range ends[topic] {
		if begin := from[topic][p]; begin < end {
			left[p], start[p] = end, kgo.NewOffset().At(begin)
		}
	}
	found := &readBack{}
	if len(left) == 0 {
		return found, nil
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(bootstrap), kgo.ClientID("tidemark-versus"),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: start}), kgo.FetchMaxBytes(50<<20), kgo.FetchMaxPartitionBytes(1<<20))
	if err != nil {
		return nil, err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	books := newBooks(id)
	for len(left) > 0 {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return found, fmt.Errorf("read topic %s back: %w", topic, err)
		}
		fetches.EachPartition(func(p kgo.FetchTopicPartition) {
			for _, r := range p.Records {
				found.check(books, r)
			}
			if n := len(p.Records); n > 0 && p.Records[n-1].Offset+1 >= left[p.Partition] {
				delete(left, p.Partition)
			}
		})
	}
	return found, nil
}

// books remembers which records of a run were seen: one bit each.
type books struct {
	run  uint64
	seen map[int32][]uint64
	next map[int64]uint64 // by producer and partition: one above the highest sequence seen
}

func newBooks(run uint64) *books {
	return &books{run: run, seen: map[int32][]uint64{}, next: map[int64]uint64{}}
}

// maxSequence bounds what a damaged envelope can make us allocate; a window has a few million records.
const maxSequence = 1 << 30

func (f *readBack) check(b *books, r *kgo.Record) {
	f.read++
	e, err := verify.Open(r.Value, r.Key, b.run)
	switch {
	case errors.Is(err, verify.ErrCorrupt) || err == nil && e.Sequence >= maxSequence:
		f.corrupt++
		return
	case err != nil:
		f.foreign++
		return
	}
	bits := b.seen[e.Producer]
	for uint64(len(bits)) <= e.Sequence/64 {
		bits = append(bits, 0)
	}
	b.seen[e.Producer] = bits
	if bits[e.Sequence/64]&(1<<(e.Sequence%64)) != 0 {
		f.duplicated++
		return
	}
	bits[e.Sequence/64] |= 1 << (e.Sequence % 64)
	f.distinct++
	key := int64(e.Producer)<<32 | int64(uint32(r.Partition))
	if next := b.next[key]; e.Sequence < next {
		f.outOfOrder++
	} else {
		b.next[key] = e.Sequence + 1
	}
}
