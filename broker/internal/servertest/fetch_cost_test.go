package servertest

import (
	"bufio"
	"encoding/binary"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// ceilingBytes is what one turn of a fetch takes.
const ceilingBytes = 1 << 20

// bareSend answers every request of 4 bytes or more with one sendfile of ceilingBytes of a file, and nothing else.
func bareSend(c net.Conn) {
	f, err := c.(*net.TCPConn).File()
	if err != nil {
		return
	}
	defer func() { _, _ = f.Close(), c.Close() }()
	fd := int(f.Fd())
	_ = unix.SetNonblock(fd, false)
	log, err := os.Open(os.Getenv("HELPER_DIR") + "/file")
	if err != nil {
		return
	}
	defer func() { _ = log.Close() }()
	request := make([]byte, 4096)
	size := binary.BigEndian.AppendUint32(nil, ceilingBytes)
	for {
		if n, err := unix.Read(fd, request); n <= 0 || err != nil {
			return
		}
		if _, err := unix.SendmsgN(fd, size, nil, nil, unix.MSG_MORE); err != nil {
			return
		}
		for at := int64(0); at < ceilingBytes; {
			if _, err := unix.Sendfile(fd, int(log.Fd()), &at, int(ceilingBytes-at)); err != nil {
				return
			}
		}
	}
}

func helperBareSend() {
	f, err := os.Create(os.Getenv("HELPER_DIR") + "/file")
	must(&helperT{}, err)
	_, err = f.Write(make([]byte, ceilingBytes))
	must(&helperT{}, err)
	serveBare(func(c net.Conn, _ int) { bareSend(c) })
}

// pull asks one request after the other for a while and gives how many bytes came.
func pull(b *testing.B, addr string, request []byte, d time.Duration) int {
	b.Helper()
	c, err := net.Dial("tcp", addr)
	must(b, err)
	defer func() { _ = c.Close() }()
	r := bufio.NewReaderSize(c, 256<<10)
	var size [4]byte
	got := 0
	for end := time.Now().Add(d); time.Now().Before(end); {
		_, err := c.Write(request)
		must(b, err)
		_, err = io.ReadFull(r, size[:])
		must(b, err)
		n, err := r.Discard(int(binary.BigEndian.Uint32(size[:])))
		must(b, err)
		got += n
	}
	return got
}

// fill writes batches of 16 KiB into partition 0 until there is a megabyte to fetch.
func fill(b *testing.B, addr string) {
	b.Helper()
	f := frame(1, produceRequest(9, 1, "t", costTopicID, map[int32][]byte{0: batch(b, 16, make([]byte, 1000))}))
	drive(b, addr, f, 80, time.Nanosecond)
}

// BenchmarkFetchCost gives megabytes of answers for each CPU-second: of a fetch by each socket.transfer, of one from the
// tail ring, and of a bare loop of sendfile.
func BenchmarkFetchCost(b *testing.B) {
	kinds := []string{"broker:socket.transfer=sendfile:tidemark.tail.bytes=0", "broker:socket.transfer=splice:tidemark.tail.bytes=0",
		"broker:socket.transfer=copy:tidemark.tail.bytes=0", "broker:socket.transfer=sendfile", "baresend"}
	names := []string{"sendfile", "splice", "copy", "tail", "bare"}
	request := frame(1, fetchRequest(12, "t", costTopicID, map[int32]int64{0: 0}))
	filled := map[*helper]bool{}
	cost := interleave(b, kinds, max(time.Duration(b.N)*time.Microsecond, 4*time.Second), func(h *helper, d time.Duration) int {
		if !filled[h] && h.kind != "baresend" {
			pull(b, h.addr, request, time.Millisecond) // a reader at the end: or the tail ring would keep nothing
			fill(b, h.addr)
		}
		filled[h] = true
		return pull(b, h.addr, request, d)
	})
	for i, kind := range kinds {
		b.ReportMetric(cost[kind]/1e6, names[i]+"-MB/cpu-s")
		if kind != "baresend" {
			b.ReportMetric(cost[kind]/cost["baresend"], names[i]+"-share")
		}
	}
	b.ReportMetric(0, "ns/op")
}
