package servertest

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"io"
	"log/slog"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/broker/config"
	"github.com/tidemark/tidemark/broker/internal/api"
	"github.com/tidemark/tidemark/broker/internal/fetchsession"
	"github.com/tidemark/tidemark/broker/internal/logdir"
	"github.com/tidemark/tidemark/broker/internal/metadata"
	"github.com/tidemark/tidemark/broker/internal/purgatory"
	"github.com/tidemark/tidemark/broker/internal/replica"
	"github.com/tidemark/tidemark/broker/internal/server"
	"github.com/tidemark/tidemark/core/buf"
	"github.com/tidemark/tidemark/core/commitlog"
	"github.com/tidemark/tidemark/core/compress"
	"github.com/tidemark/tidemark/core/kafka"
	"github.com/tidemark/tidemark/core/record"
	"github.com/tidemark/tidemark/core/vfs"
)

// patience bounds every wait of these tests. It is no promise of the broker: a loaded host needs more than an idle one.
const patience = 3 * time.Minute

// images is a cluster of one whose image the tests make.
type images struct {
	img atomic.Pointer[metadata.Image]
}

func (i *images) Image() *metadata.Image { return i.img.Load() }

// node is a broker without controller and coordinator, on real files and real sockets.
type node struct {
	t        testing.TB
	cfg      *config.Broker
	images   *images
	offset   int64
	dirs     *logdir.Dirs
	set      *replica.Set
	handlers *api.Handlers
	server   *server.Server
	waits    *purgatory.Timeouts
	addr     string
	failed   chan struct{} // the last log folder is offline
}

func startNode(t testing.TB, dir string, overrides ...string) *node {
	t.Helper()
	cfg, _, err := config.Load("", append([]string{"log.dirs=" + dir, "node.id=0"}, overrides...))
	if err != nil {
		t.Fatal(err)
	}
	return startWith(t, cfg, vfs.OS{})
}

func startWith(t testing.TB, cfg *config.Broker, fs vfs.FS) *node {
	t.Helper()
	return startAt(t, cfg, fs, nil)
}

// startAt starts a node under the boot that bootID names: a file system that has lost what was not synced belongs to
// another boot than the one that wrote it.
func startAt(t testing.TB, cfg *config.Broker, fs vfs.FS, bootID func() string) *node {
	t.Helper()
	n := &node{t: t, cfg: cfg, images: &images{}, failed: make(chan struct{}), waits: purgatory.New()}
	n.images.img.Store(metadata.Empty())
	logger := slog.New(slog.NewTextHandler(io.Discard, nil))
	pool := buf.NewPool()
	now := func() int64 { return time.Now().UnixMilli() }
	var err error
	n.dirs, err = logdir.Open(logdir.Options{FS: fs, Dirs: cfg.LogDirs, NodeID: 0, Config: cfg, Pool: pool,
		Tail: commitlog.NewTailBudget(cfg.TidemarkTailBytes), Logger: logger, NowMS: now, BootID: bootID,
		Failed: func(_ string, _ error, all bool) {
			if all {
				close(n.failed)
			}
		}})
	if err != nil {
		t.Fatal(err)
	}
	must(t, n.dirs.Adopt("test-cluster"))
	must(t, n.dirs.Recover(context.Background()))
	n.set = replica.NewSet(replica.Options{NodeID: 0, Config: cfg, Dirs: n.dirs, Logger: logger, NowMS: now})
	n.dirs.Start()
	n.handlers = api.New(api.Deps{NodeID: 0, Config: cfg, Meta: n.images, Replicas: n.set, Pool: pool, Logger: logger, NowMS: now,
		Sessions: fetchsession.New(1000, now), Purgatory: n.waits})
	n.server, err = server.New(server.Options{Handlers: n.handlers, Config: cfg, Pool: pool, Logger: logger})
	must(t, err)
	a, err := n.server.Listen("PLAINTEXT", "127.0.0.1:0")
	must(t, err)
	n.server.Start()
	n.addr = a.String()
	t.Cleanup(n.stop)
	return n
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (n *node) stop() {
	if n.server == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	must(n.t, n.server.Shutdown(ctx))
	n.handlers.Close()
	must(n.t, n.set.Close(ctx))
	must(n.t, n.dirs.Close())
	n.server = nil
}

// change commits metadata records.
func (n *node) change(records ...metadata.Record) {
	n.t.Helper()
	n.offset++
	img, d, err := n.images.Image().Apply(records, n.offset)
	must(n.t, err)
	n.images.img.Store(img)
	n.set.Apply(img, d)
}

// topic creates a topic; settings are name, value, name, value...
func (n *node) topic(name string, partitions int, settings ...string) kafka.TopicID {
	n.t.Helper()
	var id kafka.TopicID
	_, _ = rand.Read(id[:])
	n.topicWithID(name, id, partitions, settings...)
	return id
}

func (n *node) topicWithID(name string, id kafka.TopicID, partitions int, settings ...string) {
	n.t.Helper()
	parts := make([]metadata.Partition, partitions)
	for i := range parts {
		parts[i] = metadata.Partition{Leader: 0, LeaderEpoch: 1, Replicas: []kafka.BrokerID{0}, ISR: []kafka.BrokerID{0}}
	}
	records := []metadata.Record{&metadata.TopicRecord{Name: name, ID: id}, &metadata.PartitionsRecord{TopicID: id, Partitions: parts}}
	for i := 0; i+1 < len(settings); i += 2 {
		records = append(records, &metadata.ConfigRecord{Kind: metadata.TopicResource, Name: name, Key: settings[i], Value: settings[i+1]})
	}
	n.change(records...)
}

// client is one connection that speaks kmsg.
type client struct {
	t    testing.TB
	c    net.Conn
	corr int32
}

func (n *node) dial() *client {
	n.t.Helper()
	c, err := net.Dial("tcp", n.addr)
	must(n.t, err)
	n.t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(patience))
	return &client{t: n.t, c: c}
}

func frame(corr int32, r kmsg.Request) []byte {
	return kmsg.NewRequestFormatter(kmsg.FormatterClientID("test")).AppendRequest(nil, r, corr)
}

func (c *client) send(r kmsg.Request) int32 {
	c.t.Helper()
	c.corr++
	_, err := c.c.Write(frame(c.corr, r))
	must(c.t, err)
	return c.corr
}

// receive reads one answer into the kind of the request.
func (c *client) receive(r kmsg.Request) (kmsg.Response, int32) {
	c.t.Helper()
	resp, corr, err := c.tryReceive(r)
	must(c.t, err)
	return resp, corr
}

func (c *client) tryReceive(r kmsg.Request) (kmsg.Response, int32, error) {
	var size [4]byte
	if _, err := io.ReadFull(c.c, size[:]); err != nil {
		return nil, 0, err
	}
	b := make([]byte, binary.BigEndian.Uint32(size[:]))
	if _, err := io.ReadFull(c.c, b); err != nil {
		return nil, 0, err
	}
	corr := int32(binary.BigEndian.Uint32(b))
	b = b[4:]
	if r.IsFlexible() && r.Key() != 18 {
		b = b[1:]
	}
	resp := r.ResponseKind()
	return resp, corr, resp.ReadFrom(b)
}

func (c *client) do(r kmsg.Request) kmsg.Response {
	c.t.Helper()
	want := c.send(r)
	resp, corr := c.receive(r)
	if corr != want {
		c.t.Fatalf("answer has correlation id %d, want %d", corr, want)
	}
	return resp
}

// batch builds a record batch of n records.
func batch(t testing.TB, n int, value []byte) []byte {
	t.Helper()
	b := record.NewBuilder(compress.New(), compress.None, 0)
	ts := time.Now().UnixMilli()
	b.Reset(ts, kafka.NoProducerID, kafka.NoEpoch, record.NoSequence, 0)
	for range n {
		b.Append(ts, nil, value)
	}
	out, err := b.Finish(nil)
	must(t, err)
	return out
}

func produceRequest(version int16, acks int16, topic string, id kafka.TopicID, parts map[int32][]byte) *kmsg.ProduceRequest {
	r := kmsg.NewPtrProduceRequest()
	r.Version, r.Acks, r.TimeoutMillis = version, acks, 10_000
	rt := kmsg.NewProduceRequestTopic()
	rt.Topic, rt.TopicID = topic, id
	for p := int32(0); p < 1000; p++ {
		if b, ok := parts[p]; ok {
			rp := kmsg.NewProduceRequestTopicPartition()
			rp.Partition, rp.Records = p, b
			rt.Partitions = append(rt.Partitions, rp)
		}
	}
	r.Topics = append(r.Topics, rt)
	return r
}

func fetchRequest(version int16, topic string, id kafka.TopicID, offsets map[int32]int64) *kmsg.FetchRequest {
	r := kmsg.NewPtrFetchRequest()
	r.Version, r.MaxBytes, r.MinBytes, r.MaxWaitMillis, r.ReplicaID, r.SessionEpoch = version, 50<<20, 1, 500, -1, -1
	rt := kmsg.NewFetchRequestTopic()
	rt.Topic, rt.TopicID = topic, id
	for p := int32(0); p < 1000; p++ {
		if off, ok := offsets[p]; ok {
			rp := kmsg.NewFetchRequestTopicPartition()
			rp.Partition, rp.FetchOffset, rp.PartitionMaxBytes = p, off, 1<<20
			rt.Partitions = append(rt.Partitions, rp)
		}
	}
	r.Topics = append(r.Topics, rt)
	return r
}
