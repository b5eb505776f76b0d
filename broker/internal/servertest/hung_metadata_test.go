package servertest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/broker/config"
	"github.com/tidemark/tidemark/broker/internal/metadata"
	"github.com/tidemark/tidemark/core/kafka"
	"github.com/tidemark/tidemark/core/vfs"
	"github.com/tidemark/tidemark/core/vfs/vfstest"
)

// hangs is a file system of which one folder does not answer while the test says so.
type hangs struct {
	*vfstest.Faulty
	waiting atomic.Int32
	mu      struct {
		sync.Mutex
		prefix string
		until  chan struct{}
	}
}

func newHangs() *hangs {
	d := &hangs{}
	d.Faulty = &vfstest.Faulty{FS: vfs.OS{}, Hook: func(op vfstest.Op) error {
		d.mu.Lock()
		until := d.mu.until
		if !strings.HasPrefix(op.Name+"/", d.mu.prefix+"/") {
			until = nil
		}
		d.mu.Unlock()
		if until != nil {
			d.waiting.Add(1)
			<-until
		}
		return nil
	}}
	return d
}

func (d *hangs) hang(folder string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.mu.prefix, d.mu.until = folder, make(chan struct{})
}

func (d *hangs) goOn() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.mu.until != nil {
		close(d.mu.until)
		d.mu.until = nil
	}
}

type named struct {
	name string
	id   kafka.TopicID
}

// hungTest is a node of two log folders that has been stopped cleanly and started again, so that no log is open. Four topics of
// one record lie in the folder that is going to hang, one in the other, where new logs go because it holds fewer.
type hungTest struct {
	*node
	disk    *hangs
	folder  string // the one that is going to hang
	stuck   []named
	healthy named
}

func newHungTest(t *testing.T, settings ...string) *hungTest {
	t.Helper()
	dir := t.TempDir()
	h := &hungTest{disk: newHangs(), folder: filepath.Join(dir, "a")}
	cfg, _, err := config.Load("", append([]string{"log.dirs=" + h.folder + "," + filepath.Join(dir, "b"), "node.id=0", "tidemark.tail.bytes=0"}, settings...))
	must(t, err)
	h.node = startWith(t, cfg, h.disk)
	c := h.dial()
	var others []named
	for i := range 8 { // they go to both folders in turn
		n := named{name: fmt.Sprintf("t%d", i)}
		n.id = h.topic(n.name, 1)
		h.put(c, n)
		if _, err := os.Stat(filepath.Join(h.folder, n.name+"-0")); err == nil {
			h.stuck = append(h.stuck, n)
		} else {
			others = append(others, n)
		}
	}
	h.healthy = others[0]
	for _, n := range others[1:] {
		h.change(&metadata.RemoveTopicRecord{ID: n.id})
		h.set.AwaitDeleted(context.Background(), n.id)
	}
	h.stop()
	h.node = startWith(t, cfg, h.disk)
	var all []metadata.Record // in one change: the first one tells which logs have a topic
	for _, n := range append(h.stuck, h.healthy) {
		all = append(all, &metadata.TopicRecord{Name: n.name, ID: n.id},
			&metadata.PartitionsRecord{TopicID: n.id, Partitions: []metadata.Partition{led(1)}})
	}
	h.change(all...)
	t.Cleanup(h.disk.goOn)
	return h
}

func led(epoch kafka.LeaderEpoch) metadata.Partition {
	return metadata.Partition{Leader: 0, LeaderEpoch: epoch, Replicas: []kafka.BrokerID{0}, ISR: []kafka.BrokerID{0}}
}

func (h *hungTest) produce(n named, part int32) *kmsg.ProduceRequest {
	return produceRequest(13, 1, n.name, n.id, map[int32][]byte{part: batch(h.t, 1, []byte("x"))})
}

// put produces to a partition that must take it.
func (h *hungTest) put(c *client, n named) {
	h.t.Helper()
	if p := produced(h.t, c.do(h.produce(n, 0)), 0); p.ErrorCode != 0 {
		h.t.Fatalf("produce to %s: %+v", n.name, p)
	}
}

// sendAndHang sends a request and returns when one more call waits for the disk.
func (h *hungTest) sendAndHang(r kmsg.Request) *client {
	h.t.Helper()
	c, before := h.dial(), h.disk.waiting.Load()
	c.send(r)
	eventually(h.t, "the request waits for the disk", func() bool { return h.disk.waiting.Load() > before })
	return c
}

// within runs f, which must not wait for the disk.
func (h *hungTest) within(what string, f func()) {
	h.t.Helper()
	done := make(chan struct{})
	go func() { defer close(done); f() }()
	select {
	case <-done:
	case <-time.After(patience):
		h.t.Fatalf("%s waits for the disk that hangs", what)
	}
}

// Metadata changes while a log folder hangs, even that of its own partitions: no change waits for a disk, whose partitions are
// being appended to, opened or deleted.
func TestMetadataChangesWhileALogFolderHangs(t *testing.T) {
	h := newHungTest(t)
	c := h.dial()
	appends, opens, other := h.stuck[0], h.stuck[1], h.stuck[2]
	h.put(c, appends)
	h.put(c, other)
	f := fetchRequest(13, "", appends.id, map[int32]int64{0: 2})
	f.MaxWaitMillis = 600_000
	waits := h.dial()
	waits.send(f)
	h.disk.hang(h.folder)

	appending := h.sendAndHang(h.produce(appends, 0))
	opening := h.sendAndHang(h.produce(opens, 0))
	again, fresh := named{appends.name, kafka.TopicID{1}}, named{"fresh", kafka.TopicID{2}}
	for _, step := range []struct {
		what    string
		records []metadata.Record
	}{
		{"a setting", []metadata.Record{&metadata.ConfigRecord{Kind: metadata.TopicResource, Name: appends.name, Key: "retention.ms", Value: "1000000"}}},
		{"a setting of all topics", []metadata.Record{&metadata.ConfigRecord{Kind: metadata.BrokerResource, Key: "log.retention.ms", Value: "1000000"}}},
		{"a new leader epoch", []metadata.Record{&metadata.PartitionsRecord{TopicID: appends.id, Partitions: []metadata.Partition{led(2)}}}},
		{"more partitions", []metadata.Record{&metadata.PartitionsRecord{TopicID: appends.id, First: 1, Partitions: []metadata.Partition{led(1)}}}},
		{"a deletion during an append", []metadata.Record{&metadata.RemoveTopicRecord{ID: appends.id}}},
		{"a deletion while a log is opened", []metadata.Record{&metadata.RemoveTopicRecord{ID: opens.id}}},
		{"a deletion", []metadata.Record{&metadata.RemoveTopicRecord{ID: other.id}}},
		{"the same name again", []metadata.Record{&metadata.TopicRecord{Name: again.name, ID: again.id},
			&metadata.PartitionsRecord{TopicID: again.id, Partitions: []metadata.Partition{led(1)}}}},
		{"a new topic", []metadata.Record{&metadata.TopicRecord{Name: fresh.name, ID: fresh.id},
			&metadata.PartitionsRecord{TopicID: fresh.id, Partitions: []metadata.Partition{led(1)}}}},
	} {
		h.within(step.what, func() { h.change(step.records...) })
	}
	h.within("the other folder", func() {
		h.put(c, h.healthy)
		h.put(c, fresh)
	})
	h.within("a fetch of a deleted topic", func() {
		resp, _ := waits.receive(f)
		if p := fetched(t, resp, 0); kafka.ErrorCode(p.ErrorCode) != kafka.UnknownTopicId {
			t.Errorf("a fetch of a deleted topic: %+v", p)
		}
	})
	recreated := h.dial()
	recreated.send(h.produce(again, 0))

	h.disk.goOn()
	for _, cl := range []*client{appending, opening} {
		cl.receive(h.produce(appends, 0)) // some answer: the topic has gone meanwhile
	}
	resp, _ := recreated.receive(h.produce(again, 0))
	p := produced(t, resp, 0)
	for deadline := time.Now().Add(patience); stalls(p.ErrorCode) && time.Now().Before(deadline); {
		p = produced(t, recreated.do(h.produce(again, 0)), 0)
	}
	if p.ErrorCode != 0 || p.BaseOffset != 0 {
		t.Errorf("the topic made again: %+v", p)
	}
	for _, n := range []named{appends, opens, other} {
		h.set.AwaitDeleted(context.Background(), n.id)
		left, err := filepath.Glob(filepath.Join(h.folder, n.name+"-0"))
		must(t, err)
		if len(left) > 0 && n != appends { // which is there again
			t.Errorf("%v is still in place", left)
		}
	}
}

// Large requests are decoded one at a time. One that waits for a disk must not keep the others waiting.
func TestALargeRequestThatWaitsForADiskHoldsUpNoOther(t *testing.T) {
	h := newHungTest(t)
	large := func(topic string) *kmsg.ListOffsetsRequest {
		r := kmsg.NewPtrListOffsetsRequest()
		r.Version, r.ReplicaID = 7, -1
		rt := kmsg.NewListOffsetsRequestTopic()
		rt.Topic = topic
		for i := range int32(10_000) {
			rp := kmsg.NewListOffsetsRequestTopicPartition()
			rp.Partition, rp.Timestamp = i, -1
			rt.Partitions = append(rt.Partitions, rp)
		}
		r.Topics = append(r.Topics, rt)
		return r
	}
	h.disk.hang(h.folder)
	waits := h.sendAndHang(large(h.stuck[0].name))
	c := h.dial()
	h.within("another large request", func() {
		m := kmsg.NewPtrMetadataRequest()
		m.Version = 9
		for i := range 20_000 {
			mt := kmsg.NewMetadataRequestTopic()
			mt.Topic = kmsg.StringPtr(fmt.Sprint("missing-", i))
			m.Topics = append(m.Topics, mt)
		}
		c.do(m)
		if p := c.do(large(h.healthy.name)).(*kmsg.ListOffsetsResponse).Topics[0].Partitions[0]; p.ErrorCode != 0 || p.Offset != 1 {
			t.Errorf("the other folder: %+v", p)
		}
	})
	h.disk.goOn()
	resp, _ := waits.receive(large(h.stuck[0].name))
	if p := resp.(*kmsg.ListOffsetsResponse).Topics[0].Partitions[0]; p.ErrorCode != 0 || p.Offset != 1 {
		t.Errorf("after the disk came back: %+v", p)
	}
}
