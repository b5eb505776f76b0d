package controller

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/tidemark/tidemark/broker/config"
	"github.com/tidemark/tidemark/broker/internal/metadata"
	"github.com/tidemark/tidemark/core/kafka"
	"github.com/tidemark/tidemark/core/vfs"
	"github.com/tidemark/tidemark/core/vfs/vfstest"
)

const dir = "/data"

func options(fs vfs.FS, settings ...string) Options {
	c, _, err := config.Parse("", nil, settings)
	if err != nil {
		panic(err)
	}
	return Options{Config: c, FS: fs, Dir: dir, NowMS: func() int64 { return 1_700_000_000_000 },
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil))}
}

// start opens and starts a controller and registers its broker.
func start(t testing.TB, o Options, subscribers ...func(*metadata.Image, metadata.Delta)) *Controller {
	t.Helper()
	c, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range subscribers {
		c.Subscribe(f)
	}
	if err := c.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := c.RegisterBroker(t.Context(), metadata.Broker{ID: 0}); err != nil {
		t.Fatal(err)
	}
	return c
}

func stop(t testing.TB, c *Controller) {
	t.Helper()
	if err := c.Shutdown(context.Background()); err != nil {
		t.Fatal(err)
	}
}

func create(t testing.TB, c *Controller, name string) TopicResult {
	t.Helper()
	return c.CreateTopics(t.Context(), []NewTopic{{Name: name, NumPartitions: 2, ReplicationFactor: 1}}, false)[0]
}

func TestWhatWasAnsweredSurvivesARestart(t *testing.T) {
	fs := vfs.NewMem(nil)
	c := start(t, options(fs))
	cluster := c.Image().ClusterID
	made := create(t, c, "a")
	if made.Err != kafka.None || c.Image().Topic("a") != nil && c.Image().Topic("a").ID != made.ID {
		t.Fatalf("created %+v", made)
	}
	first, n, err := c.AllocateProducerIDs(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	stop(t, c)

	c = start(t, options(fs))
	defer stop(t, c)
	topic := c.Image().Topic("a")
	if topic == nil || topic.ID != made.ID || len(topic.Partitions) != 2 {
		t.Fatalf("after the restart: %+v", topic)
	}
	if topic.Partitions[1].LeaderEpoch != 1 {
		t.Errorf("leader epoch %d after one restart, want 1", topic.Partitions[1].LeaderEpoch)
	}
	if got := c.Image().ClusterID; got != cluster || len(got) != 22 {
		t.Errorf("cluster %q, was %q", got, cluster)
	}
	if next, _, err := c.AllocateProducerIDs(t.Context()); err != nil || next < first+kafka.ProducerID(n) {
		t.Errorf("producer ids from %d, %v; up to %d were given out", next, err, first+kafka.ProducerID(n))
	}
}

func TestSubscribersSeeEveryImageInOrderBeforeTheAnswer(t *testing.T) {
	fs := vfs.NewMem(nil)
	c := start(t, options(fs))
	create(t, c, "old")
	stop(t, c)

	var told []string
	var last *metadata.Image
	c = start(t, options(fs), func(m *metadata.Image, d metadata.Delta) {
		if last != nil && m.Offset <= last.Offset {
			t.Errorf("image at %d after %d", m.Offset, last.Offset)
		}
		last = m
		for _, change := range d.Topics {
			if change.New == nil {
				told = append(told, "-"+change.Old.Name)
			} else {
				told = append(told, fmt.Sprint("+", change.New.Name, ":", change.New.Partitions[0].LeaderEpoch))
			}
		}
	})
	defer stop(t, c)
	create(t, c, "new")
	if c.Image().Topic("new") == nil || last != c.Image() {
		t.Error("the answer came before the image")
	}
	c.DeleteTopics(t.Context(), []TopicRef{{Name: "old"}})
	if got := strings.Join(told, " "); got != "+old:1 +new:0 -old" {
		t.Errorf("subscribers were told %q", got)
	}
}

func TestRequestsThatWaitShareAnFsync(t *testing.T) {
	syncs := 0
	fs := &vfstest.Faulty{FS: vfs.NewMem(nil), Hook: func(op vfstest.Op) error {
		if op.Kind == "sync" {
			syncs++
		}
		return nil
	}}
	c, err := Open(options(fs))
	if err != nil {
		t.Fatal(err)
	}
	// All requests wait before the goroutine begins.
	const n = 500
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			if r := create(t, c, fmt.Sprint("t", i)); r.Err != kafka.InvalidReplicationFactor && r.Err != kafka.None {
				t.Errorf("%+v", r)
			}
		})
	}
	for deadline := time.Now().Add(2 * time.Minute); len(c.requests) < n; {
		if time.Now().After(deadline) {
			t.Fatal("the requests did not arrive")
		}
	}
	if err := c.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	all.Wait()
	if syncs > 20 {
		t.Errorf("%d requests took %d fsyncs", n, syncs)
	}
	stop(t, c)
}

// The worst power loss, and random ones, at every moment between two file operations: what was answered is there.
func TestPowerLossKeepsWhatWasAnswered(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	for _, keepPercent := range []int{0, 50, 100} {
		mem := vfs.NewCrashable(nil)
		var mu sync.Mutex // snapshots are written beside the controller's goroutine
		var clones []*vfs.Mem
		var answered []int // topics answered when each clone was made
		done := 0
		fs := &vfstest.Faulty{FS: mem, Hook: func(op vfstest.Op) error {
			mu.Lock()
			defer mu.Unlock()
			if op.Mutates() {
				clones = append(clones, mem.CrashClone(func() bool { return rng.IntN(100) < keepPercent }))
				answered = append(answered, done)
			}
			return nil
		}}
		// A snapshot after every few entries, so that crashes in the middle of one are among the clones.
		c := start(t, options(fs, "metadata.log.max.record.bytes.between.snapshots=300"))
		for i := range 25 {
			if r := create(t, c, fmt.Sprint("t", i)); r.Err != kafka.None {
				t.Fatal(r)
			}
			mu.Lock()
			done = i + 1
			mu.Unlock()
		}
		stop(t, c)
		for i, clone := range clones {
			c, err := Open(options(clone))
			if err == nil {
				err = c.Start(t.Context())
			}
			if err != nil {
				t.Fatalf("keep %d%%, clone %d of %d: %v", keepPercent, i, len(clones), err)
			}
			for k := range answered[i] {
				if c.Image().Topic(fmt.Sprint("t", k)) == nil {
					t.Fatalf("keep %d%%, clone %d of %d: topic %d of %d answered ones is lost", keepPercent, i, len(clones), k, answered[i])
				}
			}
			stop(t, c)
		}
	}
}

func TestSnapshotsShortenTheStart(t *testing.T) {
	fs := vfs.NewMem(nil)
	o := options(fs, "metadata.log.max.record.bytes.between.snapshots=2000")
	c := start(t, o)
	for i := range 200 {
		create(t, c, fmt.Sprint("t", i))
	}
	stop(t, c)
	names, err := listSnapshots(fs, dir+"/__cluster_metadata-0")
	if err != nil || len(names) != 1 {
		t.Fatalf("snapshots %v, %v", names, err)
	}
	again, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	if n := again.Image().NumTopics(); n < 100 {
		t.Errorf("the snapshot holds %d of 200 topics", n)
	}
	if n := len(again.storage.entries); n > 100 {
		t.Errorf("%d entries were read behind the snapshot", n)
	}
	if err := again.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := again.Image().NumTopics(); n != 200 {
		t.Errorf("%d topics after the restart", n)
	}
	stop(t, again)
}

func TestAFailedLogRefusesEverythingAfter(t *testing.T) {
	broken := false
	fs := &vfstest.Faulty{FS: vfs.NewMem(nil), Hook: func(op vfstest.Op) error {
		if broken && op.Mutates() {
			return syscall.EIO
		}
		return nil
	}}
	o := options(fs)
	failures := 0
	o.Failed = func(error) { failures++ }
	c := start(t, o)
	create(t, c, "before")
	// The goroutine is idle: nothing else touches the flag.
	broken = true
	for range 2 {
		if r := create(t, c, "after"); r.Err != kafka.KafkaStorageError {
			t.Errorf("created on a failed disk: %+v", r)
		}
	}
	if c.Image().Topic("after") != nil || c.Image().Topic("before") == nil || failures != 1 {
		t.Errorf("image after the failure, told %d times", failures)
	}
	stop(t, c)
}

func TestRequestsAfterTheEndAreRefused(t *testing.T) {
	c := start(t, options(vfs.NewMem(nil)))
	stop(t, c)
	if r := create(t, c, "late"); r.Err != kafka.NotController {
		t.Errorf("after Shutdown: %+v", r)
	}
}

func TestAnotherClustersFolderIsRefused(t *testing.T) {
	fs := vfs.NewMem(nil)
	stop(t, start(t, options(fs)))
	o := options(fs)
	o.ClusterID = "AAAAAAAAAAAAAAAAAAAAAA"
	c, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(t.Context()); err == nil || !strings.Contains(err.Error(), "different clusters") {
		t.Errorf("another cluster's log: %v", err)
	}
	stop(t, c)
}

func TestProducerIDsAreUnique(t *testing.T) {
	c := start(t, options(vfs.NewMem(nil)))
	defer stop(t, c)
	var mu sync.Mutex
	seen := map[kafka.ProducerID]bool{}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 400 {
				id, err := c.NextProducerID(t.Context())
				mu.Lock()
				if err != nil || seen[id] {
					t.Errorf("id %d, %v, seen before: %v", id, err, seen[id])
				}
				seen[id] = true
				mu.Unlock()
			}
		})
	}
	all.Wait()
}

func TestDamageIsNamed(t *testing.T) {
	fs := vfs.NewMem(nil)
	stop(t, start(t, options(fs)))
	folder := dir + "/__cluster_metadata-0/"
	if err := vfs.ReplaceFile(fs, folder+quorumStateFile, []byte("version 0\n"), false); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(options(fs)); !errors.Is(err, errQuorumState) || !strings.Contains(err.Error(), folder+quorumStateFile) {
		t.Errorf("a damaged quorum-state: %v", err)
	}
	if err := vfs.ReplaceFile(fs, folder+quorumStateFile, quorumState{RaftID: 1}.encode(), false); err != nil {
		t.Fatal(err)
	}
	name := snapshot{index: 3, term: 1}.name()
	if err := vfs.ReplaceFile(fs, folder+name, []byte("tidemetaXXXXXXXX"), false); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(options(fs)); !errors.Is(err, errSnapshot) || !strings.Contains(err.Error(), name) {
		t.Errorf("a damaged snapshot: %v", err)
	}
}

// FuzzDecodeSnapshot reads any bytes as each of the two files beside the metadata log; sealed, they have the checksum that the file
// wants, else no input would get past it.
func FuzzDecodeSnapshot(f *testing.F) {
	m, _, err := metadata.Empty().Apply([]metadata.Record{&metadata.ClusterRecord{ClusterID: "c"}, &metadata.TopicRecord{Name: "a", ID: kafka.TopicID{1}}}, 3)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(snapshot{index: 4, term: 2, image: m}.encode(), true)
	f.Add(quorumState{1, 2, 3}.encode(), true)
	f.Fuzz(func(t *testing.T, b []byte, seal bool) {
		state := b
		if seal {
			state = quorumStateSealed(b)
		}
		if q, err := decodeQuorumState(state); err == nil {
			if again, err := decodeQuorumState(q.encode()); err != nil || again != q {
				t.Fatalf("%q is %+v, and came back as %+v, %v", state, q, again, err)
			}
		}
		if seal && len(b) > 4 {
			b = snapshotSealed(b)
		}
		s, err := decodeSnapshot(b)
		if err != nil {
			return
		}
		again, err := decodeSnapshot(s.encode())
		if err != nil || again.index != s.index || again.image.NumTopics() != s.image.NumTopics() {
			t.Fatalf("came back as %+v, %v", again, err)
		}
	})
}

// quorumStateSealed puts a right checksum in the place of the last line.
func quorumStateSealed(b []byte) []byte {
	text, _, _ := bytes.Cut(b, []byte("crc32c "))
	return fmt.Appendf(nil, "%scrc32c %08x\n", text, castagnoli(text))
}

func snapshotSealed(b []byte) []byte {
	body := b[:len(b)-4]
	sum := castagnoli(body)
	return append(append([]byte(nil), body...), byte(sum>>24), byte(sum>>16), byte(sum>>8), byte(sum))
}

func FuzzDecodeEntry(f *testing.F) {
	f.Add(encodeEntry([]metadata.Record{&metadata.ClusterRecord{ClusterID: "c"}, &metadata.LeaderEpochsRecord{Leader: 2}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		records, err := decodeEntry(nil, b)
		if err != nil || len(b) == 0 {
			return
		}
		if again, err := decodeEntry(nil, encodeEntry(records)); err != nil || len(again) != len(records) {
			t.Fatalf("%d records came back as %d, %v", len(records), len(again), err)
		}
	})
}
