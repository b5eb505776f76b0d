package e2e

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark/tidemark/broker/proc"
)

// compacting are the broker's settings under which compaction shows within seconds.
func compacting(data string, more ...string) proc.Options {
	return proc.Options{NoAdmin: true, Data: data, Properties: append([]string{"log.cleaner.backoff.ms=1", "log.retention.check.interval.ms=100"}, more...)}
}

// readTable reads a partition from its beginning to its end, as a consumer does that keeps the last value of each key. It
// returns the table, how many records there were and the log end offset.
func readTable(t *testing.T, b *proc.Broker, topic string) (table map[string]string, records int, end int64) {
	t.Helper()
	ends, err := adminOf(t, b).ListEndOffsets(t.Context(), topic)
	if err != nil {
		t.Fatal(err)
	}
	o, _ := ends.Lookup(topic, 0)
	end = o.Offset
	table = map[string]string{}
	c := newClient(t, b, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().AtStart()}}), kgo.FetchMaxWait(100_000_000))
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for last := int64(-1); last < end-1; {
		f := c.PollFetches(ctx)
		if err := f.Err0(); err != nil {
			t.Fatalf("after offset %d of %d: %v", last, end, err)
		}
		f.EachRecord(func(r *kgo.Record) {
			if r.Offset <= last {
				t.Fatalf("offset %d comes after %d", r.Offset, last)
			}
			last = r.Offset
			records++
			if r.Value == nil {
				delete(table, string(r.Key))
			} else {
				table[string(r.Key)] = string(r.Value)
			}
		})
	}
	return table, records, end
}

func sameTable(t *testing.T, when string, got, want map[string]string) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d keys, want %d", when, len(got), len(want))
	}
	for k, v := range want {
		if got[k] != v {
			t.Fatalf("%s: key %s has %q, want %q", when, k, got[k], v)
		}
	}
}

// TestCompaction: a compacted topic keeps the last value of each key, forgets what was deleted, goes on serving readers and
// an idempotent writer all the while, and is the same after a kill and after a stop.
func TestCompaction(t *testing.T) {
	data := t.TempDir()
	b := start(t, compacting(data))
	create(t, b, "t", 1, "cleanup.policy=compact", "segment.ms=200", "min.cleanable.dirty.ratio=0.01", "delete.retention.ms=0", "file.delete.delay.ms=0")
	want := map[string]string{}
	produced := 0
	round := func(c *kgo.Client, n int) {
		var rs []*kgo.Record
		for i := range n {
			key := fmt.Sprint("key-", i%20)
			r := &kgo.Record{Topic: "t", Key: []byte(key), Value: fmt.Appendf(nil, "value-%d", produced)}
			if i%20 == 7 && produced%3 == 0 {
				r.Value = nil
				delete(want, key)
			} else {
				want[key] = string(r.Value)
			}
			produced++
			if rs = append(rs, r); len(rs) == 20 {
				if err := c.ProduceSync(t.Context(), rs...).FirstErr(); err != nil {
					t.Fatal(err)
				}
				rs = nil
			}
		}
	}
	shrinks := func(c *kgo.Client) {
		t.Helper()
		until(t, "most of what was superseded is gone", func() bool {
			round(c, 20)
			got, records, end := readTable(t, b, "t")
			sameTable(t, fmt.Sprintf("with %d of %d records", records, produced), got, want)
			return int64(records) < end/4
		})
	}
	c := newClient(t, b, kgo.ProducerBatchCompression(kgo.ZstdCompression()))
	round(c, 300)
	shrinks(c)
	b.Kill()
	b = start(t, compacting(data))
	got, _, _ := readTable(t, b, "t")
	sameTable(t, "after a kill", got, want)
	c = newClient(t, b)
	round(c, 300)
	shrinks(c)
	if err := b.Stop(); err != nil {
		t.Fatal(err)
	}
	left, err := filepath.Glob(filepath.Join(data, "*", "t-0", "*"))
	if err != nil || len(left) == 0 {
		left, err = filepath.Glob(filepath.Join(data, "t-0", "*"))
	}
	for _, name := range left {
		if strings.HasSuffix(name, ".cleaned") || strings.HasSuffix(name, ".swap") {
			t.Errorf("%s is left over", name)
		}
	}
	if err != nil || len(left) == 0 {
		t.Fatalf("no files of the topic in %s: %v", data, err)
	}
	b = start(t, compacting(data))
	got, _, _ = readTable(t, b, "t")
	sameTable(t, "after a stop", got, want)
}

// TestNoCompactionWithoutCleaner: log.cleaner.enable=false leaves every record.
func TestNoCompactionWithoutCleaner(t *testing.T) {
	b := start(t, compacting(t.TempDir(), "log.cleaner.enable=false"))
	create(t, b, "t", 1, "cleanup.policy=compact", "segment.ms=1", "min.cleanable.dirty.ratio=0.01")
	create(t, b, "other", 1, "cleanup.policy=delete", "segment.ms=1", "retention.bytes=1", "file.delete.delay.ms=0")
	c := newClient(t, b)
	n := 0
	adm := adminOf(t, b)
	until(t, "retention has run several times", func() bool {
		for _, topic := range []string{"t", "other"} {
			if err := c.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Key: []byte("k"), Value: []byte("v")}).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
		n++
		starts, err := adm.ListStartOffsets(t.Context(), "other")
		if err != nil {
			t.Fatal(err)
		}
		o, _ := starts.Lookup("other", 0)
		return o.Offset > 5
	})
	if _, records, _ := readTable(t, b, "t"); records != n {
		t.Fatalf("%d records of %d are left", records, n)
	}
}

// TestOffsetsTopicIsCompacted: commits of one group over and over do not pile up in __consumer_offsets, and the last one is
// what a new coordinator answers.
func TestOffsetsTopicIsCompacted(t *testing.T) {
	data := t.TempDir()
	props := []string{"offsets.topic.num.partitions=1", "log.cleaner.min.cleanable.ratio=0.01", "log.roll.ms=300", "log.segment.delete.delay.ms=0"}
	b := start(t, compacting(data, props...))
	create(t, b, "t", 1)
	adm := adminOf(t, b)
	commits := int64(0)
	commit := func() {
		commits++
		o := kadm.Offsets{}
		o.AddOffset("t", 0, commits, -1)
		if err := adm.CommitAllOffsets(t.Context(), "group", o); err != nil {
			t.Fatal(err)
		}
	}
	until(t, "__consumer_offsets holds fewer records than were written", func() bool {
		for range 50 {
			commit()
		}
		_, records, end := readTable(t, b, "__consumer_offsets")
		return int64(records) < end/4
	})
	b.Kill()
	b = start(t, compacting(data, props...))
	adm = adminOf(t, b)
	o, err := adm.FetchOffsets(t.Context(), "group")
	if err != nil {
		t.Fatal(err)
	}
	if got, ok := o.Lookup("t", 0); !ok || got.At != commits {
		t.Fatalf("the group is at %+v, its last commit was %d", got, commits)
	}
}
