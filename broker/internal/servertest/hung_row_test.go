package servertest

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/tidemark/tidemark/broker/config"
	"github.com/tidemark/tidemark/broker/internal/api"
	"github.com/tidemark/tidemark/core/buf"
	"github.com/tidemark/tidemark/core/vfs"
	"github.com/tidemark/tidemark/core/vfs/vfstest"
)

// A row of requests comes with one read, and one of them waits for a disk that hangs: in an append, or because it opens its log. Those
// before it are written and answered meanwhile.
func TestARowDoesNotWaitForADiskThatHangs(t *testing.T) {
	h := newHungTest(t)
	used, unused := h.stuck[0], h.stuck[1]
	h.put(h.dial(), used)
	h.put(h.dial(), h.healthy)
	h.disk.hang(h.folder)
	for i, stuck := range []named{used, unused} {
		c := h.dial()
		row := frame(1, h.produce(h.healthy, 0))
		row = append(row, frame(2, h.produce(h.healthy, 0))...)
		row = append(row, frame(3, h.produce(stuck, 0))...)
		_, err := c.c.Write(row)
		must(t, err)
		for corr := range int32(2) {
			resp, got := c.receive(h.produce(h.healthy, 0))
			if p := produced(t, resp, 0); p.ErrorCode != 0 || got != corr+1 || p.BaseOffset != int64(2+2*i)+int64(corr) {
				t.Errorf("before %s: answer %d: %+v", stuck.name, got, p)
			}
		}
	}
}

// A row for several partitions in turn is one write for each of them.
func TestARowForPartitionsInTurnIsOneWriteForEach(t *testing.T) {
	cfg, _, err := config.Load("", []string{"log.dirs=" + t.TempDir(), "node.id=0"})
	must(t, err)
	var writes atomic.Int32
	n := startWith(t, cfg, &vfstest.Faulty{FS: vfs.OS{}, Hook: func(op vfstest.Op) error {
		if op.Kind == "write" && strings.HasSuffix(op.Name, ".log") {
			writes.Add(1)
		}
		return nil
	}})
	const partitions, rounds = 3, 4
	id := n.topic("t", partitions)
	pool, cl, l := buf.NewPool(), &api.Client{Ctx: context.Background()}, &loop{}
	row := func() {
		var calls []*api.Call
		for i := range int32(partitions * rounds) {
			call := &api.Call{}
			calls = append(calls, call)
			f := frame(i, produceRequest(9, -1, "t", id, map[int32][]byte{i % partitions: batch(t, 1, []byte("v"))}))[4:]
			l.take(n.handlers, pool, cl, call, f, i < partitions*rounds-1)
		}
		if l.done != len(calls) {
			t.Errorf("%d of %d requests are answered", l.done, len(calls))
		}
		for _, call := range calls {
			l.release(call)
		}
		l.done = 0
	}
	row() // opens the logs
	writes.Store(0)
	row()
	if got := writes.Load(); got != partitions {
		t.Errorf("%d requests for %d partitions in turn were %d writes", partitions*rounds, partitions, got)
	}
}
