package replica

import (
	"fmt"
	"io"
	"log/slog"
	"maps"
	"testing"

	"github.com/tidemark/tidemark/broker/config"
	"github.com/tidemark/tidemark/broker/internal/logdir"
	"github.com/tidemark/tidemark/broker/internal/metadata"
	"github.com/tidemark/tidemark/core/kafka"
	"github.com/tidemark/tidemark/core/vfs"
)

// newBenchSet is a set with so many topics of one partition, and the image that they stand in.
func newBenchSet(tb testing.TB, n int) (*Set, *metadata.Image) {
	tb.Helper()
	cfg, _, err := config.Load("", []string{"log.dirs=d", "node.id=0"})
	if err != nil {
		tb.Fatal(err)
	}
	logger := slog.New(slog.NewTextHandler(io.Discard, nil))
	now := func() int64 { return 0 }
	dirs, err := logdir.Open(logdir.Options{FS: vfs.NewMem(nil), Dirs: cfg.LogDirs, Config: cfg, Logger: logger, NowMS: now})
	if err != nil {
		tb.Fatal(err)
	}
	s := NewSet(Options{Config: cfg, Dirs: dirs, Logger: logger, NowMS: now})
	img := metadata.Empty()
	for i := range n {
		img, _ = change(tb, img, made(i)...)
	}
	s.Apply(img, metadata.Delta{})
	return s, img
}

func made(i int) []metadata.Record {
	id := kafka.TopicID{byte(i), byte(i >> 8), byte(i >> 16), 1}
	return []metadata.Record{&metadata.TopicRecord{Name: fmt.Sprint("topic-", i), ID: id},
		&metadata.PartitionsRecord{TopicID: id, Partitions: []metadata.Partition{{Replicas: []kafka.BrokerID{0}, ISR: []kafka.BrokerID{0}}}}}
}

func change(tb testing.TB, img *metadata.Image, records ...metadata.Record) (*metadata.Image, metadata.Delta) {
	tb.Helper()
	next, d, err := img.Apply(records, img.Offset+1)
	if err != nil {
		tb.Fatal(err)
	}
	return next, d
}

// What one more topic costs beside those that there are.
func BenchmarkApplyOneTopic(b *testing.B) {
	for _, existing := range []int{10, 100_000} {
		b.Run(fmt.Sprintf("topics=%d", existing), func(b *testing.B) {
			s, img := newBenchSet(b, existing)
			b.ReportAllocs()
			for i := existing; b.Loop(); i++ {
				var d metadata.Delta
				img, d = change(b, img, made(i)...)
				s.Apply(img, d)
			}
		})
	}
	// What it was before the map had shards, to compare.
	b.Run("whole/topics=100000", func(b *testing.B) {
		s, _ := newBenchSet(b, 100_000)
		names, ids := map[string]*topic{}, map[kafka.TopicID]*topic{}
		for t := range s.topics.all {
			names[t.name], ids[t.id] = t, t
		}
		b.ReportAllocs()
		for b.Loop() {
			names, ids = maps.Clone(names), maps.Clone(ids)
		}
	})
}

// Look-ups take no memory.
func TestLookUpsAllocateNothing(t *testing.T) {
	s, _ := newBenchSet(t, 1000)
	name, id := []byte("topic-7"), kafka.TopicID{7, 0, 0, 1}
	if s.topics.namedBytes(name) == nil || s.topics.named("topic-7") != s.topics.withID(id) {
		t.Fatal("a topic is not found")
	}
	if n := testing.AllocsPerRun(100, func() { s.topics.namedBytes(name); s.topics.withID(id) }); n > 0 {
		t.Errorf("a look-up takes %v allocations", n)
	}
}

func BenchmarkLookUp(b *testing.B) {
	s, _ := newBenchSet(b, 1000)
	name, id := []byte("topic-7"), kafka.TopicID{7, 0, 0, 1}
	whole := map[string]*topic{}
	for t := range s.topics.all {
		whole[t.name] = t
	}
	b.Run("by=name", func(b *testing.B) {
		for b.Loop() {
			s.topics.namedBytes(name)
		}
	})
	b.Run("by=id", func(b *testing.B) {
		for b.Loop() {
			s.topics.withID(id)
		}
	})
	b.Run("by=name/whole", func(b *testing.B) {
		for b.Loop() {
			_ = whole[string(name)]
		}
	})
}
