package servertest

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/broker/config"
	"github.com/tidemark/tidemark/core/kafka"
	"github.com/tidemark/tidemark/core/vfs"
	"github.com/tidemark/tidemark/core/vfs/vfstest"
)

// faultyNode is a node whose segment writes answer what the test sets. Those of the topic "stuck" take two values from
// hang: the first tells the test that a write has begun, the second lets it go on.
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
			<-hang
		}
		if f := fault.Load(); f != nil {
			return *f
		}
		return nil
	}}
	return startWith(t, cfg, fs), &fault
}

// disk is a file system whose free room and faults a test sets.
type disk struct {
	*vfstest.Faulty
	free  atomic.Int64
	fault atomic.Pointer[func(vfstest.Op) error]
}

func newDisk() *disk {
	d := &disk{}
	d.free.Store(1 << 40)
	d.Faulty = &vfstest.Faulty{FS: vfs.OS{}, Hook: func(op vfstest.Op) error {
		if f := d.fault.Load(); f != nil {
			return (*f)(op)
		}
		return nil
	}}
	return d
}

func (d *disk) FreeBytes(string) (int64, error) { return d.free.Load(), nil }

func (d *disk) fail(f func(op vfstest.Op) error) { d.fault.Store(&f) }

func diskNode(t *testing.T, d *disk, settings ...string) *node {
	t.Helper()
	cfg, _, err := config.Load("", append([]string{"log.dirs=" + t.TempDir(), "node.id=0"}, settings...))
	must(t, err)
	return startWith(t, cfg, d)
}

func TestAFullDiskTakesNothingUntilThereIsRoom(t *testing.T) {
	d := newDisk()
	n := diskNode(t, d)
	id := n.topic("t", 1)
	c := n.dial()
	put := func() kmsg.ProduceResponseTopicPartition {
		return produced(t, c.do(produceRequest(9, -1, "t", id, map[int32][]byte{0: batch(t, 1, []byte("x"))})), 0)
	}
	if p := put(); p.ErrorCode != 0 {
		t.Fatalf("%+v", p)
	}
	reserve := filepath.Join(n.cfg.LogDirs[0], ".tidemark-reserve")
	if _, err := os.Stat(reserve); err != nil {
		t.Error(err)
	}
	d.free.Store(30 << 20)
	d.fail(func(op vfstest.Op) error {
		if op.Kind == "write" && strings.HasSuffix(op.Name, ".log") {
			return vfstest.ShortWrite{N: 10, Err: syscall.ENOSPC}
		}
		return nil
	})
	if p := put(); kafka.ErrorCode(p.ErrorCode) != kafka.KafkaStorageError {
		t.Fatalf("%+v", p)
	}
	d.fault.Store(nil)
	// A little room is none: it would be gone at once, and the next start needs some.
	eventually(t, "the room kept back is given up", func() bool {
		_, err := os.Stat(reserve)
		return errors.Is(err, os.ErrNotExist)
	})
	if p := put(); kafka.ErrorCode(p.ErrorCode) != kafka.KafkaStorageError {
		t.Fatalf("%+v", p)
	}
	if p := fetched(t, c.do(fetchRequest(12, "t", id, map[int32]int64{0: 0})), 0); p.ErrorCode != 0 || p.HighWatermark != 1 {
		t.Fatalf("reads go on: %+v", p)
	}
	d.free.Store(100 << 20)
	var p kmsg.ProduceResponseTopicPartition
	eventually(t, "it takes records again", func() bool { p = put(); return p.ErrorCode == 0 })
	if p.BaseOffset != 1 {
		t.Fatalf("part of what was refused is there: %+v", p)
	}
	if _, err := os.Stat(reserve); err != nil {
		t.Error(err)
	}
}

func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !ok(); {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
	}
}

// A failed fsync is never repeated, whatever its cause: the folder goes offline, and what waits for it is refused.
func TestAFailedFsyncTakesItsFolderOffline(t *testing.T) {
	for _, on := range []struct {
		cause   syscall.Errno
		setting string
	}{
		{syscall.EIO, "tidemark.fsync=batch"}, {syscall.ENOSPC, "tidemark.fsync=batch"},
		{syscall.EIO, "log.flush.interval.messages=1"},
	} {
		cause := on.cause
		d := newDisk()
		n := diskNode(t, d, on.setting)
		id := n.topic("t", 2)
		c := n.dial()
		put := func(part int32, acks int16) kafka.ErrorCode {
			p := produced(t, c.do(produceRequest(9, acks, "t", id, map[int32][]byte{part: batch(t, 1, []byte("x"))})), 0)
			return kafka.ErrorCode(p.ErrorCode)
		}
		if code := put(0, 1); code != kafka.None {
			t.Fatal(code)
		}
		if code := put(1, -1); code != kafka.None {
			t.Fatal(code)
		}
		var after atomic.Int64
		d.fail(func(op vfstest.Op) error {
			if op.Kind != "sync" || !strings.HasSuffix(op.Name, ".log") {
				return nil
			}
			after.Add(1)
			return cause
		})
		if code := put(0, 1); code != kafka.KafkaStorageError {
			t.Errorf("%s, %v: acks=1 whose fsync failed: %v", on.setting, cause, code)
		}
		d.fault.Store(nil)
		if code := put(1, -1); code != kafka.KafkaStorageError {
			t.Errorf("%v: the folder's other partition: %v", cause, code)
		}
		select {
		case <-n.failed:
		case <-time.After(patience):
			t.Errorf("%v: nobody is told that the last folder is lost", cause)
		}
		n.stop()
		if after.Load() != 1 {
			t.Errorf("%v: %d fsyncs of .log files after one had failed", cause, after.Load()-1)
		}
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
	hang <- struct{}{}
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
		if p := produced(t, resp, 0); p.ErrorCode != 0 && (cl == waiting || !stalls(p.ErrorCode)) {
			t.Fatalf("%+v", p)
		}
	}
}
