package coordinator

import (
	"runtime"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/core/kafka"
)

// longGroup is a group's name that each of its records repeats.
var longGroup = strings.Repeat("g", 30_000)

// commitMany commits so many partitions of a topic, each of them so many times.
func commitMany(b *fakeBroker, first, partitions, times int) *kmsg.OffsetCommitResponse {
	req := commitRequest(longGroup, "t", 1, 0, "")
	one := req.Topics[0].Partitions[0]
	req.Topics[0].Partitions = nil
	for n := range times {
		for p := range partitions {
			one.Partition, one.Offset = int32(first+p), int64(100*n+p)
			req.Topics[0].Partitions = append(req.Topics[0].Partitions, one)
		}
	}
	return wait(func(reply func(*kmsg.OffsetCommitResponse)) { b.OffsetCommit(req, reply) })
}

// allocated is how much memory f asks for, given back or not.
func allocated(f func()) int64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return int64(after.TotalAlloc - before.TotalAlloc)
}

// TestAGroupsLongNameIsNotMultiplied: each record of a commit repeats the group's name. A partition that is named again and again is
// one record, of which the last counts, and what is more than one write may hold is refused before it is made.
func TestAGroupsLongNameIsNotMultiplied(t *testing.T) {
	const named, most = 1000, 10 << 20 // together their keys would have 30 MB
	for _, c := range []struct {
		what              string
		codec             int32
		partitions, times int
		want              kafka.ErrorCode
	}{
		{"one partition, again and again", 0, 1, named, kafka.None},
		{"many partitions", 0, named, 1, kafka.InvalidCommitOffsetSize},
		{"more than a load unpacks", 3, 100 * named, 1, kafka.InvalidCommitOffsetSize},
	} {
		synctest.Test(t, func(t *testing.T) {
			b := newFakeBroker(t, nil)
			b.o.Config.OffsetsTopicCompressionCodec = c.codec
			b.ready()
			b.createTopic("t", 1, nodeID, 0, c.partitions)
			var r *kmsg.OffsetCommitResponse
			if n := allocated(func() { r = commitMany(b, 0, c.partitions, c.times) }); n > most+int64(1000*c.partitions) {
				t.Errorf("%s: %d bytes are allocated", c.what, n)
			}
			if got := len(r.Topics[0].Partitions); got != c.partitions*c.times {
				t.Errorf("%s: %d answers", c.what, got)
			}
			for _, p := range r.Topics[0].Partitions {
				if code := kafka.ErrorCode(p.ErrorCode); code != c.want {
					t.Fatalf("%s: %v, want %v", c.what, code, c.want)
				}
			}
			want := int64(-1)
			if c.want == kafka.None {
				want = 100 * int64(c.times-1)
			}
			if got, code := b.committed(longGroup, "t", 1); got != want || code != kafka.None {
				t.Errorf("%s: %d is committed, want %d (%v)", c.what, got, want, code)
			}
			closeGroups(t, b)
		})
	}
}

// TestManyOffsetsAreRemovedInPieces: the tombstones of a group repeat its name too. They fit what the log takes, and while they are
// not written no more are made than fill some batches.
func TestManyOffsetsAreRemovedInPieces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const offsets, atOnce, limit = 1000, 25, 1 << 20
		b := newFakeBroker(t, nil).ready()
		b.createTopic("t", 1, nodeID, 0, offsets)
		for p := 0; p < offsets; p += atOnce {
			if code := kafka.ErrorCode(commitMany(b, p, atOnce, 1).Topics[0].Partitions[0].ErrorCode); code != kafka.None {
				t.Fatal(code)
			}
		}
		log := b.logs[b.PartitionFor(longGroup)]
		before := log.count()
		log.mu.Lock()
		log.hold = true
		log.mu.Unlock()
		req := kmsg.NewPtrDeleteGroupsRequest()
		req.Groups = []string{longGroup}
		answer := make(chan *kmsg.DeleteGroupsResponse, 1)
		b.DeleteGroups(req, func(r *kmsg.DeleteGroupsResponse) { answer <- r })
		synctest.Wait()
		if n := log.count() - before; n == 0 || n > 2*maxUnwritten/limit {
			t.Errorf("%d batches are made while nothing is written", n)
		}
		log.release()
		if r := <-answer; r.Groups[0].ErrorCode != 0 {
			t.Errorf("the group is deleted with %v", kafka.ErrorCode(r.Groups[0].ErrorCode))
		}
		for _, batch := range log.batches {
			if len(batch) > limit {
				t.Errorf("a batch of %d bytes", len(batch))
			}
		}
		again := newFakeBroker(t, b.logs)
		again.createTopic("t", 1, nodeID, 0, offsets)
		again.createOffsetsTopic(1)
		again.ready()
		if l := again.list(); len(l.Groups) != 0 {
			t.Errorf("%d groups are left", len(l.Groups))
		}
		closeGroups(t, b, again)
	})
}
