package e2e

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/tidemark/tidemark/broker/proc"
)

// TestScaleRetention produces as fast as it can while retention by size deletes what is older: small records, a thousand to a
// batch. The long form runs ten minutes and prints records a second. Held: memory in the last third is no more than in the
// first by half, the log stays near its bound, and no deleted file stays open.
func TestScaleRetention(t *testing.T) {
	f := newFigures(t, "retention under load")
	data := t.TempDir()
	b := scaleStart(t, f, "", proc.Options{Data: data, Properties: []string{"log.retention.check.interval.ms=50", "log.segment.delete.delay.ms=100"}})
	const partitions, segment, keep = 4, 4 << 20, 16 << 20
	create(t, b, "t", partitions, fmt.Sprint("segment.bytes=", segment), fmt.Sprint("retention.bytes=", keep))
	times := make([]int64, 1000)
	for i := range times {
		times[i] = time.Now().UnixMilli()
	}
	one := batch(nobody(), make([]byte, 20), times...)
	total := scaled(1<<50, 400<<20) / len(one) // batches
	limit := time.Now().Add(10 * time.Minute)
	perPartition := total / partitions
	var senders sync.WaitGroup
	sent := make([]int, partitions)
	errs := make([]error, partitions)
	began := time.Now()
	for p := range partitions {
		nc, err := net.Dial("tcp", b.Addr)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = nc.Close() }()
		request := frame(produceRequest("t", int32(p), 1, one), 1)
		senders.Go(func() { sent[p], errs[p] = pump(nc, request, perPartition, limit) })
	}
	ended := make(chan struct{})
	go func() { senders.Wait(); close(ended) }()
	var rss, files []int
	tick := time.NewTicker(time.Duration(scaled(1000, 50)) * time.Millisecond)
	defer tick.Stop()
	for running := true; running; {
		select {
		case <-ended:
			running = false
		case <-tick.C:
			rss, files = append(rss, residentKiB(t, b.PID, "VmRSS")), append(files, openFiles(t, b.PID))
		}
	}
	records := 0
	for p := range sent {
		if errs[p] != nil {
			t.Fatalf("partition %d: %v", p, errs[p])
		}
		records += sent[p] * len(times)
	}
	f.add("records", "%.1f million in %v, %.2f million a second", float64(records)/1e6, time.Since(began).Round(time.Millisecond),
		float64(records)/1e6/time.Since(began).Seconds())
	f.process("produced", b.PID)
	if n := len(rss) / 3; n >= 3 {
		first, last := slices.Max(rss[n/2:n]), slices.Max(rss[len(rss)-n:])
		f.add("resident, peak of the first and of the last third", "%d and %d KiB", first, last)
		f.add("open files, peak", "%d", slices.Max(files))
		if last > first*3/2+(64<<10) {
			t.Errorf("memory grows from %d to %d KiB", first, last)
		}
		if slices.Max(files) > 400 {
			t.Errorf("%d open files", slices.Max(files))
		}
	}
	until(t, "the log is back at its bound", func() bool {
		all := int64(0)
		for p := range partitions {
			n, _ := logBytes(t, data, fmt.Sprintf("t-%d", p))
			all += n
		}
		return all <= partitions*(keep+2*segment)
	})
}

// pump sends the same request up to n times, five in flight, and reads as many answers.
func pump(nc net.Conn, request []byte, n int, until time.Time) (answered int, err error) {
	const inFlight = 5
	head := make([]byte, 4)
	sent := 0
	for answered < n && (sent > answered || time.Now().Before(until)) {
		for sent < n && sent-answered < inFlight && time.Now().Before(until) {
			if _, err := nc.Write(request); err != nil {
				return answered, err
			}
			sent++
		}
		if sent == answered {
			break
		}
		if head, err = readFrame(nc, head); err != nil {
			return answered, err
		}
		answered++
	}
	return answered, nil
}

// readFrame reads one answer into b, which grows as needed.
func readFrame(nc net.Conn, b []byte) ([]byte, error) {
	b = b[:4]
	if _, err := io.ReadFull(nc, b); err != nil {
		return b, err
	}
	n := int(binary.BigEndian.Uint32(b))
	b = slices.Grow(b[:0], n)[:n]
	_, err := io.ReadFull(nc, b)
	return b, err
}
