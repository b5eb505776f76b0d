package servertest

import (
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/broker/config"
	"github.com/tidemark/tidemark/core/kafka"
	"github.com/tidemark/tidemark/core/vfs"
	"github.com/tidemark/tidemark/core/vfs/vfstest"
)

// faultyNode is a node whose segment writes answer what the test sets, and block while it says so.
func faultyNode(t *testing.T, hang chan struct{}) (*node, *atomic.Pointer[error]) {
	t.Helper()
	cfg, _, err := config.Load("", []string{"log.dirs=" + t.TempDir(), "node.id=0"})
	must(t, err)
	var fault atomic.Pointer[error]
	fs := &vfstest.Faulty{FS: vfs.OS{}, Hook: func(op vfstest.Op) error {
		if op.Kind != "write" || !strings.HasSuffix(op.Name, ".log") {
			return nil
		}
		if hang != nil && strings.Contains(op.Name, "stuck-0") {
			<-hang
		}
		if f := fault.Load(); f != nil {
			return *f
		}
		return nil
	}}
	return startWith(t, cfg, fs), &fault
}

func TestAFullDiskIsAnErrorUntilThereIsRoom(t *testing.T) {
	n, fault := faultyNode(t, nil)
	id := n.topic("t", 1)
	c := n.dial()
	put := func() kmsg.ProduceResponseTopicPartition {
		return produced(t, c.do(produceRequest(9, -1, "t", id, map[int32][]byte{0: batch(t, 1, []byte("x"))})), 0)
	}
	if p := put(); p.ErrorCode != 0 {
		t.Fatalf("%+v", p)
	}
	var full error = syscall.ENOSPC
	fault.Store(&full)
	if p := put(); kafka.ErrorCode(p.ErrorCode) != kafka.KafkaStorageError {
		t.Fatalf("%+v", p)
	}
	if p := fetched(t, c.do(fetchRequest(12, "t", id, map[int32]int64{0: 0})), 0); p.ErrorCode != 0 || p.HighWatermark != 1 {
		t.Fatalf("reads go on: %+v", p)
	}
	fault.Store(nil)
	if p := put(); p.ErrorCode != 0 || p.BaseOffset != 1 {
		t.Fatalf("there is room again: %+v", p)
	}
}

func TestAFailedDiskTakesItsFolderOffline(t *testing.T) {
	n, fault := faultyNode(t, nil)
	id := n.topic("t", 2)
	c := n.dial()
	both := func() *kmsg.ProduceRequest {
		return produceRequest(9, 1, "t", id, map[int32][]byte{0: batch(t, 1, []byte("x")), 1: batch(t, 1, []byte("x"))})
	}
	c.do(both())
	var eio error = syscall.EIO
	fault.Store(&eio)
	c.do(both())
	fault.Store(nil)
	resp := c.do(both())
	for i := range 2 {
		if p := produced(t, resp, i); kafka.ErrorCode(p.ErrorCode) != kafka.KafkaStorageError {
			t.Errorf("partition %d after the failure: %+v", i, p)
		}
	}
}

func TestAStuckPartitionHoldsUpNoOther(t *testing.T) {
	hang := make(chan struct{})
	n, _ := faultyNode(t, hang)
	stuck, id := n.topic("stuck", 1), n.topic("t", 1)
	waiting := n.dial()
	r := produceRequest(9, 1, "stuck", stuck, map[int32][]byte{0: batch(t, 1, []byte("x"))})
	waiting.send(r)
	queued := n.dial()
	queued.send(r)
	queued.send(kmsg.NewPtrApiVersionsRequest())
	c := n.dial()
	for range 5 {
		if p := produced(t, c.do(produceRequest(9, 1, "t", id, map[int32][]byte{0: batch(t, 1, []byte("x"))})), 0); p.ErrorCode != 0 {
			t.Fatalf("%+v", p)
		}
	}
	close(hang)
	for _, cl := range []*client{waiting, queued} {
		resp, _ := cl.receive(r)
		if p := produced(t, resp, 0); p.ErrorCode != 0 {
			t.Fatalf("%+v", p)
		}
	}
}
