package servertest

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/core/kafka"
)

// large is a request of about a megabyte for a topic of the folder that hangs, whose producer waits timeoutMS for its answer.
func (h *hungTest) large(n named, value []byte, timeoutMS int32) *kmsg.ProduceRequest {
	r := produceRequest(13, 1, n.name, n.id, map[int32][]byte{0: value})
	r.TimeoutMillis = timeoutMS
	return r
}

// Producers of a log folder that hangs send large frames, give up, and send them again on new connections: more than there is memory for
// requests. The other folder's clients are served all the same once the folder is known to be stalled, and those who are still there are
// told. When the disk comes back nothing is appended but what was being written, and what has waited for its log no longer than its producer.
func TestAFolderThatHangsLeavesTheOtherItsMemory(t *testing.T) {
	const frames = 24
	h := newHungTest(t, "queued.max.request.bytes=16777216", "socket.request.max.bytes=4194304")
	c, used, unused := h.dial(), h.stuck[0], h.stuck[1]
	h.put(c, used)
	h.put(c, h.healthy)
	value := batch(t, 1, make([]byte, 1_000_000))
	h.disk.hang(h.folder)
	writing := h.sendAndHang(h.produce(used, 0))
	opening := h.sendAndHang(h.large(unused, value, 3_600_000))
	var patient, gone []*client
	for i := range frames {
		c, n := h.dial(), used
		if i%4 == 3 { // they wait for the log to be opened, and hold their connections' goroutines
			n = unused
		}
		r := frame(1, h.large(n, value, 1))
		go func() { _, _ = c.c.Write(r) }() // it may wait for memory
		if n == used {
			patient = append(patient, c)
		} else {
			gone = append(gone, c)
		}
	}
	refused := func(what string, resp kmsg.Response) {
		t.Helper()
		if p := produced(t, resp, 0); kafka.ErrorCode(p.ErrorCode) != kafka.KafkaStorageError {
			t.Errorf("%s: %+v", what, p)
		}
	}
	answered := 0
	for _, c := range patient {
		if resp, _, err := c.tryReceive(h.produce(used, 0)); err == nil { // the others have waited for memory for too long
			refused("an append that waited", resp)
			answered++
		}
	}
	if answered == 0 {
		t.Error("nobody who waited was told")
	}
	h.put(c, h.healthy)
	for _, c := range gone {
		_ = c.c.Close()
	}
	for range frames {
		for _, n := range []named{used, unused} {
			refused("sent again", h.dial().do(h.large(n, value, 1)))
		}
	}
	h.put(c, h.healthy)

	h.disk.goOn()
	for _, c := range []*client{writing, opening} {
		resp, _ := c.receive(h.produce(used, 0))
		if p := produced(t, resp, 0); p.ErrorCode != 0 {
			t.Errorf("what was being written: %+v", p)
		}
	}
	for n, want := range map[named]kafka.Offset{used: 3, unused: 2} {
		p, code := h.set.Get(n.id, 0)
		if code != kafka.None {
			t.Fatal(code)
		}
		defer func() {
			if p.LogEnd() != want {
				t.Errorf("%s ends at %d, want %d", n.name, p.LogEnd(), want)
			}
		}()
	}
	h.stop()
}
