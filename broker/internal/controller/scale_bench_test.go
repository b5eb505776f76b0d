package controller

import (
	"fmt"
	"sync"
	"testing"

	"github.com/tidemark/tidemark/core/kafka"
	"github.com/tidemark/tidemark/core/vfs"
)

// fill creates topics, a thousand to a request.
func fill(b *testing.B, c *Controller, topics int, partitions int32) {
	b.Helper()
	var request []NewTopic
	for i := range topics {
		request = append(request, NewTopic{Name: fmt.Sprint("topic-", i), NumPartitions: partitions, ReplicationFactor: 1})
		if len(request) < 1000 && i+1 < topics {
			continue
		}
		for _, r := range c.CreateTopics(b.Context(), request, false) {
			if r.Err != kafka.None {
				b.Fatal(r)
			}
		}
		request = request[:0]
	}
}

// A start reads the snapshot, applies what lies behind it, and takes a new leader epoch for every partition.
func BenchmarkStart(b *testing.B) {
	for _, shape := range []struct{ topics, partitions int }{{10, 10}, {100_000, 1}, {1000, 100}} {
		b.Run(fmt.Sprintf("topics=%d/partitions=%d", shape.topics, shape.partitions), func(b *testing.B) {
			fs := vfs.NewMem(nil)
			c := start(b, options(fs))
			if shape.partitions > 9 {
				for i := range shape.topics {
					r := c.CreateTopics(b.Context(), []NewTopic{{Name: fmt.Sprint("topic-", i), NumPartitions: int32(shape.partitions), ReplicationFactor: 1}}, false)
					if r[0].Err != kafka.None {
						b.Fatal(r)
					}
				}
			} else {
				fill(b, c, shape.topics, int32(shape.partitions))
			}
			stop(b, c)
			b.ReportAllocs()
			for b.Loop() {
				stop(b, start(b, options(fs)))
			}
		})
	}
}

// What one CreateTopics costs the controller with others waiting beside it, and beside the topics that exist.
func BenchmarkCreateTopics(b *testing.B) {
	for _, existing := range []int{0, 100_000} {
		b.Run(fmt.Sprintf("existing=%d", existing), func(b *testing.B) {
			c := start(b, options(vfs.NewMem(nil)))
			defer stop(b, c)
			fill(b, c, existing, 1)
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				var all sync.WaitGroup
				for i := range 100 {
					all.Go(func() {
						c.CreateTopics(b.Context(), []NewTopic{{Name: fmt.Sprint("new-", n, "-", i), NumPartitions: 1, ReplicationFactor: 1}}, false)
					})
				}
				all.Wait()
				n++
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(100*n), "ns/topic")
		})
	}
}
