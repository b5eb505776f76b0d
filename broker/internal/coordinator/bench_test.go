package coordinator

import (
	"fmt"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/core/kafka"
)

// BenchmarkCommit is one OffsetCommit of one partition, by so many clients at once, on a log that costs nothing but its
// copy.
func BenchmarkCommit(b *testing.B) {
	for _, clients := range []int{1, 16} {
		b.Run(fmt.Sprintf("clients=%d", clients), func(b *testing.B) {
			f := newFakeBroker(b, nil).ready()
			f.createTopic("t", 1, nodeID, 0, 1)
			for _, l := range f.logs {
				l.forget = true
			}
			b.ReportAllocs()
			b.ResetTimer()
			var wg sync.WaitGroup
			for c := range clients {
				n := b.N / clients
				wg.Go(func() {
					groupID := fmt.Sprint("g", c)
					answered := make(chan struct{}, 1)
					for i := range n {
						f.OffsetCommit(commitRequest(groupID, "t", 1, int64(i), ""), func(*kmsg.OffsetCommitResponse) { answered <- struct{}{} })
						<-answered
					}
				})
			}
			wg.Wait()
			b.StopTimer()
			closeGroups(b, f)
		})
	}
}

// BenchmarkLoad loads a partition that holds the commits of one group, over and over those of 1,000 partitions.
func BenchmarkLoad(b *testing.B) {
	for _, records := range []int{100_000} {
		b.Run(fmt.Sprintf("records=%d", records), func(b *testing.B) {
			f := newFakeBroker(b, nil).ready()
			f.createTopic("a-topic-with-a-name", 1, nodeID, 0, 1000)
			p := f.PartitionFor("g")
			f.logs[p].maxBatch = 1 << 30
			req := commitRequest("g", "a-topic-with-a-name", 1, 0, "")
			one := req.Topics[0].Partitions[0]
			req.Topics[0].Partitions = nil
			for i := range 1000 {
				one.Partition = int32(i)
				req.Topics[0].Partitions = append(req.Topics[0].Partitions, one)
			}
			for range records / 1000 {
				wait(func(reply func(*kmsg.OffsetCommitResponse)) { f.OffsetCommit(req, reply) })
			}
			bytes := 0
			for _, batch := range f.logs[p].batches {
				bytes += len(batch)
			}
			b.SetBytes(int64(bytes))
			b.ReportAllocs()
			epoch := kafka.LeaderEpoch(2)
			for b.Loop() {
				f.moveLeader(nodeID, epoch)
				epoch += 2
				for _, s := range *f.shards.Load() {
					<-s.loading()
				}
			}
			b.ReportMetric(float64(records)*float64(b.N)/b.Elapsed().Seconds(), "records/s")
			closeGroups(b, f)
		})
	}
}
