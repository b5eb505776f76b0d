package servertest

import (
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// writebackBytes is how much the loop with early writeback writes before it asks for a piece to be written out.
const writebackBytes = 8 << 20

// writeback starts the writing out of what lies behind a file's end, on a goroutine of its own: sync_file_range blocks
// when the device's queue is full.
type writeback struct {
	pieces chan int64
	next   int64
}

// newWriteback gives nil, which does nothing, unless the helper was asked for it.
func newWriteback(f *os.File) *writeback {
	if !strings.HasSuffix(os.Getenv(helperEnv), ":writeback") {
		return nil
	}
	w := &writeback{pieces: make(chan int64, 64), next: writebackBytes}
	go func() {
		for at := range w.pieces {
			_ = unix.SyncFileRange(int(f.Fd()), at, writebackBytes, unix.SYNC_FILE_RANGE_WRITE)
		}
	}()
	return w
}

func (w *writeback) reach(at int64) {
	for w != nil && at >= w.next {
		select {
		case w.pieces <- w.next - writebackBytes:
		default: // the device does not keep up
		}
		w.next += writebackBytes
	}
}

// BenchmarkEarlyWriteback tells what it would cost, and bring, to have the kernel write a log out from the first bytes on,
// 8 MiB at a time (sync_file_range), rather than when it sees fit: on the bare loop, where nothing hides it.
func BenchmarkEarlyWriteback(b *testing.B) {
	f := frame(1, produceRequest(9, 1, "t", costTopicID, map[int32][]byte{0: batch(b, 1000, make([]byte, 1000))}))
	longest := map[string]time.Duration{}
	kinds := []string{"bare", "bare:writeback"}
	cost := interleave(b, kinds, max(time.Duration(b.N)*time.Microsecond, 4*time.Second), func(h *helper, d time.Duration) int {
		n := 0
		for end := time.Now().Add(d); time.Now().Before(end); {
			began := time.Now()
			n += drive(b, h.addr, f, 16, time.Nanosecond)
			longest[h.kind] = max(longest[h.kind], time.Since(began))
		}
		return n * len(f)
	})
	for i, name := range []string{"kernel", "early"} {
		b.ReportMetric(cost[kinds[i]]/1e6, name+"-MB/cpu-s")
		b.ReportMetric(float64(longest[kinds[i]].Microseconds())/1e3, name+"-longest-16MB-ms")
	}
	b.ReportMetric(0, "ns/op")
}
