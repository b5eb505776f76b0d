package e2e

import (
	"context"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark/tidemark/broker/proc"
)

// killRun is one life of a data folder under kills.
type killRun struct {
	r      *rand.Rand
	data   string
	addr   string
	b      *proc.Broker
	l      *ledger
	topics []string
	parts  map[string]int32
	next   uint32 // sender
	starts int
}

// TestKillLosesNothingAcked kills the broker in the middle of traffic, again and again on the same folder and with other
// settings of broker, topic and producer each time (acks all and 1, codecs, fsync, segments, compaction). Producers outlive
// the kill and go on. Everything that was acknowledged must be there, at its offset, in order, and once where the producer
// is idempotent; of a compacted topic the last value of each key. So must the offsets that a group has committed.
// TIDEMARK_CRASH_ROUNDS says how often.
func TestKillLosesNothingAcked(t *testing.T) {
	rounds := 3
	if s := os.Getenv("TIDEMARK_CRASH_ROUNDS"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 {
			t.Fatalf("TIDEMARK_CRASH_ROUNDS=%q: want a number of rounds", s)
		}
		rounds = n
	}
	k := &killRun{r: seeded(t), data: t.TempDir(), l: newLedger(), parts: map[string]int32{}}
	k.restart(t)
	began := time.Now()
	for round := range rounds {
		k.round(t, round)
		if t.Failed() {
			t.Fatalf("round %d of %d failed", round+1, rounds)
		}
		if rounds > 3 {
			t.Logf("round %d of %d: %d records acknowledged so far, %d starts, %.0f s", round+1, rounds, k.l.count(), k.starts, time.Since(began).Seconds())
		}
	}
	if err := k.b.Stop(); err != nil {
		t.Errorf("stop: %v", err)
	}
	checkFiles(t, k.data)
	k.restart(t)
	for _, topic := range k.topics {
		k.l.check(t, k.b, topic)
	}
	t.Logf("%d rounds, %d starts, %d records acknowledged and found", rounds, k.starts, k.l.count())
}

// restart starts the broker with settings drawn anew, at the address that it had; now and then it is killed in the middle
// of its start before.
func (k *killRun) restart(t *testing.T) {
	t.Helper()
	r := k.r
	segmentBytes := pick(r, 1<<20, 2<<20, 1<<30)
	preallocate := r.IntN(3) == 0 && segmentBytes < 1<<30 // a hundred partitions would take a hundred GiB
	o := proc.Options{Data: k.data, Listen: k.addr, Properties: []string{
		fmt.Sprint("log.segment.bytes=", segmentBytes),
		fmt.Sprint("log.index.interval.bytes=", pick(r, 0, 1, 300, 4096, 1<<20)),
		fmt.Sprint("log.index.size.max.bytes=", pick(r, 64, 1000, 10<<20)),
		fmt.Sprint("log.roll.ms=", pick(r, 200, 5000, 604800000)),
		fmt.Sprint("log.flush.offset.checkpoint.interval.ms=", pick(r, 20, 200, 60000)),
		fmt.Sprint("log.flush.interval.messages=", pick(r, 1, 100, 1<<40)),
		fmt.Sprint("log.preallocate=", preallocate),
		fmt.Sprint("socket.transfer=", pick(r, "auto", "sendfile", "splice", "copy")),
		fmt.Sprint("tidemark.tail.bytes=", pick(r, 0, 64<<10, 64<<20)),
		fmt.Sprint("compression.type=", pick(r, "producer", "producer", "lz4", "uncompressed")),
		fmt.Sprint("tidemark.fsync=", pick(r, "kafka", "kafka", "batch")),
		fmt.Sprint("log.cleaner.backoff.ms=", pick(r, 20, 500)),
		fmt.Sprint("log.segment.delete.delay.ms=", pick(r, 0, 1000)),
	}}
	for k.addr != "" && r.IntN(4) == 0 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(1+r.IntN(80))*time.Millisecond)
		b, err := tryStart(t, ctx, o)
		cancel()
		k.starts++
		if err == nil {
			b.Kill()
		}
	}
	k.b = start(t, o)
	k.addr = k.b.Addr
	k.starts++
}

// topicSettings draws a topic's own settings. A compacted topic is told to the ledger.
func (k *killRun) topicSettings(topic string) []string {
	r := k.r
	set := []string{
		"compression.type=" + pick(r, "producer", "producer", "gzip", "snappy", "lz4", "zstd", "uncompressed"),
		"tidemark.fsync=" + pick(r, "kafka", "batch"),
	}
	if r.IntN(3) == 0 {
		k.l.compacts(topic, pick(r, uint64(1), 7, 1000, 1<<62))
		set = append(set, "cleanup.policy=compact", fmt.Sprint("segment.ms=", pick(r, 50, 500)),
			"min.cleanable.dirty.ratio="+pick(r, "0", "0.3"))
	}
	return set
}

// keptTopics is how many topics a folder holds: the oldest is read a last time and deleted for a new one.
const keptTopics = 40

// round makes traffic, kills, restarts, makes more, and checks.
func (k *killRun) round(t *testing.T, round int) {
	if len(k.topics) == keptTopics { // a folder of thousands would make the test slow and its files many
		old := k.topics[0]
		k.topics = k.topics[1:]
		k.l.check(t, k.b, old)
		if r, err := adminOf(t, k.b).DeleteTopic(t.Context(), old); err != nil || r.Err != nil {
			t.Fatalf("delete %s: %v %v", old, err, r.Err)
		}
	}
	topic := fmt.Sprintf("kill-%d", round)
	k.parts[topic] = 1 + k.r.Int32N(4)
	k.topics = append(k.topics, topic)
	create(t, k.b, topic, k.parts[topic], k.topicSettings(topic)...)
	topics := k.topics[max(0, len(k.topics)-3):]

	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var running sync.WaitGroup
	var senders []*sender
	for range 1 + k.r.IntN(3) {
		s := k.l.newSender(t, k.addr, k.next, k.r)
		k.next++
		senders = append(senders, s)
		running.Go(func() {
			for ctx.Err() == nil {
				topic := pick(s.r, topics...)
				s.sendOne(ctx, topic, s.r.Int32N(k.parts[topic]))
			}
		})
	}
	committed := newCommitter(t, k.addr, fmt.Sprintf("group-%d", round%5), topic)
	running.Go(func() { committed.run(ctx) })

	for range 1 + k.r.IntN(2) {
		k.awaitAcks(t, 200+k.r.IntN(3000))
		if k.r.IntN(6) == 0 {
			if err := k.b.Stop(); err != nil {
				t.Errorf("stop: %v", err)
			}
		} else {
			k.b.Kill()
		}
		k.restart(t)
	}
	k.awaitAcks(t, 200)
	until(t, "a group has committed", func() bool { return committed.acked.Load() > 0 })
	abandoned := k.r.IntN(3) == 0 // the last kill takes the producers with it
	if abandoned {
		k.b.Kill()
	}
	stop()
	running.Wait()
	for _, s := range senders {
		if !abandoned {
			flush, cancel := context.WithTimeout(t.Context(), patience)
			if err := s.c.Flush(flush); err != nil {
				t.Errorf("sender %d cannot flush: %v", s.number, err)
			}
			cancel()
		}
		s.c.Close()
	}
	if abandoned {
		k.restart(t)
	}
	if err := k.l.err(); err != nil {
		t.Errorf("a record was given up: %v", err)
	}
	committed.check(t, k.b)
	for _, topic := range topics {
		k.l.check(t, k.b, topic, kgo.FetchMaxPartitionBytes(pick[int32](k.r, 1000, 50_000, 1<<20)), kgo.FetchMaxBytes(pick[int32](k.r, 2000, 50<<20)))
	}
}

// awaitAcks waits until n more records are acknowledged.
func (k *killRun) awaitAcks(t *testing.T, n int) {
	t.Helper()
	want := k.l.count() + n
	until(t, fmt.Sprintf("%d more records are acknowledged", n), func() bool {
		return k.l.count() >= want || k.l.err() != nil
	})
}

// committer commits the offsets 1, 2, 3... of a partition for a group.
type committer struct {
	admin        *kadm.Client
	group, topic string
	tried        int64
	acked        atomic.Int64
}

func newCommitter(t *testing.T, addr, group, topic string) *committer {
	t.Helper()
	c, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.AlwaysRetryEOF(), kgo.RetryTimeout(patience),
		kgo.RetryBackoffFn(func(int) time.Duration { return 20 * time.Millisecond }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return &committer{admin: kadm.NewClient(c), group: group, topic: topic}
}

func (c *committer) run(ctx context.Context) {
	for ctx.Err() == nil {
		var o kadm.Offsets
		o.AddOffset(c.topic, 0, c.tried+1, -1)
		c.tried++
		if c.admin.CommitAllOffsets(ctx, c.group, o) == nil {
			c.acked.Store(c.tried)
		}
	}
}

func (c *committer) check(t *testing.T, b *proc.Broker) {
	t.Helper()
	c.admin.Close()
	r, err := adminOf(t, b).FetchOffsets(t.Context(), c.group)
	if err != nil {
		t.Fatal(err)
	}
	acked := c.acked.Load()
	if at, _ := r.Lookup(c.topic, 0); at.At < acked || at.At > c.tried {
		t.Errorf("group %s has committed %d of %s (tried %d) and is at %d", c.group, acked, c.topic, c.tried, at.At)
	}
}

// checkFiles lets `tidemark dump` read every file of every partition.
func checkFiles(t *testing.T, data string) {
	t.Helper()
	var files []string
	err := filepath.WalkDir(data, func(path string, d fs.DirEntry, err error) error {
		if strings.HasPrefix(d.Name(), "__cluster_metadata") {
			return fs.SkipDir
		}
		switch filepath.Ext(path) {
		case ".log", ".index", ".timeindex", ".snapshot":
			files = append(files, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		t.Fatal("no files")
	}
	for ; len(files) > 0; files = files[min(len(files), 200):] {
		cmd := exec.Command(proc.Binary(t), append([]string{"dump"}, files[:min(len(files), 200)]...)...)
		var stderr strings.Builder
		cmd.Stderr = &stderr
		if err := cmd.Run(); err != nil {
			t.Errorf("tidemark dump: %v\n%s", err, stderr.String())
		}
	}
}
