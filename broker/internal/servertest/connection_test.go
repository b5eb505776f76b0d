package servertest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"net"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/core/kafka"
)

func TestBadClientsLoseTheirConnectionAndNothingElse(t *testing.T) {
	n := startNode(t, t.TempDir())
	n.topic("t", 1)
	good := n.dial()
	size := func(n uint32, rest ...byte) []byte { return append(binary.BigEndian.AppendUint32(nil, n), rest...) }
	unsupported := kmsg.NewPtrListOffsetsRequest()
	unsupported.Version = 0
	old := produceRequest(3, 1, "t", kafka.TopicID{}, nil)
	old.Version = 2
	for name, b := range map[string][]byte{
		"negative size":            size(0xffffffff),
		"zero size":                size(0),
		"huge size":                size(1<<30, make([]byte, 100)...),
		"unknown key":              size(12, 0x7f, 0, 0, 0, 0, 0, 0, 1, 0xff, 0xff, 0, 0),
		"unsupported version":      frame(1, unsupported),
		"Produce 2":                frame(1, old),
		"header cut":               size(8, 0, 0, 0, 9, 0, 0, 0, 1),
		"garbage":                  []byte("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"),
		"large control":            append(size(5<<20), append([]byte{0, 3, 0, 9, 0, 0, 0, 1}, make([]byte, 1000)...)...),
		"list of a million topics": size(20, 0, 0, 0, 9, 0, 0, 0, 1, 0xff, 0xff, 0, 0, 0, 1, 0, 0, 0, 1, 0xff, 0xff),
	} {
		t.Run(name, func(t *testing.T) {
			c := n.dial()
			_, err := c.c.Write(b)
			must(t, err)
			_ = c.c.SetReadDeadline(time.Now().Add(patience))
			_, err = c.c.Read(make([]byte, 1))
			var timeout net.Error
			if err == nil || errors.As(err, &timeout) && timeout.Timeout() {
				t.Fatalf("connection stays open: %v", err)
			}
		})
	}
	good.do(kmsg.NewPtrApiVersionsRequest())
}

func TestApiVersionsOfTheFutureIsAnsweredInVersionZero(t *testing.T) {
	n := startNode(t, t.TempDir())
	c := n.dial()
	r := kmsg.NewPtrApiVersionsRequest()
	b := frame(7, r)
	binary.BigEndian.PutUint16(b[6:], 99)
	_, err := c.c.Write(b)
	must(t, err)
	resp, corr := c.receive(kmsg.NewPtrApiVersionsRequest())
	v := resp.(*kmsg.ApiVersionsResponse)
	if corr != 7 || kafka.ErrorCode(v.ErrorCode) != kafka.UnsupportedVersion || len(v.ApiKeys) != 1 || v.ApiKeys[0].ApiKey != 18 {
		t.Fatalf("%d: %+v", corr, v)
	}
	for version := int16(0); version <= 4; version++ {
		r.Version, r.ClientSoftwareName, r.ClientSoftwareVersion = version, "test", "1.0"
		if v := c.do(r).(*kmsg.ApiVersionsResponse); v.ErrorCode != 0 || len(v.ApiKeys) < 5 || v.ApiKeys[0].MinVersion != 0 {
			t.Fatalf("version %d: %+v", version, v)
		}
	}
}

// Requests are cut and joined in every way that a network may: the answers must be those of the requests, in order.
func TestRequestsArriveInAnyPieces(t *testing.T) {
	n := startNode(t, t.TempDir())
	id := n.topic("t", 1)
	r := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 1))
	c := n.dial()
	var stream []byte
	var sizes []int
	for i := range 300 {
		size := []int{1, 100, 3000, 16000, 70000, 200000}[r.IntN(6)]
		sizes = append(sizes, size)
		stream = append(stream, frame(int32(i), produceRequest(9, 1, "t", id, map[int32][]byte{0: batch(t, 1, make([]byte, size))}))...)
	}
	go func() {
		for len(stream) > 0 {
			k := min(len(stream), 1+r.IntN([]int{1, 20, 5000, 300000}[r.IntN(4)]))
			if _, err := c.c.Write(stream[:k]); err != nil {
				return
			}
			stream = stream[k:]
		}
	}()
	want := produceRequest(9, 1, "t", id, nil)
	for i := range sizes {
		resp, corr := c.receive(want)
		if p := produced(t, resp, 0); corr != int32(i) || p.ErrorCode != 0 || p.BaseOffset != int64(i) {
			t.Fatalf("answer %d: correlation id %d, %+v", i, corr, p)
		}
	}
}

func TestManyRequestsInFlightAreBoundedAndAnswered(t *testing.T) {
	n := startNode(t, t.TempDir())
	id := n.topic("t", 1)
	c := n.dial()
	f := fetchRequest(12, "t", id, map[int32]int64{0: 0})
	f.MaxWaitMillis = 300
	const requests = 500 // more than a connection may have open
	go func() {
		b := frame(1, f)
		for range requests {
			if _, err := c.c.Write(b); err != nil {
				return
			}
		}
	}()
	for range requests {
		c.receive(f)
	}
}

func TestAClosedConnectionLeavesNothingWaiting(t *testing.T) {
	n := startNode(t, t.TempDir())
	id := n.topic("t", 1)
	for range 5 {
		c := n.dial()
		f := fetchRequest(12, "t", id, map[int32]int64{0: 0})
		f.MaxWaitMillis = 600_000
		c.send(f)
		c.send(kmsg.NewPtrApiVersionsRequest())
		_ = c.c.Close() // the end comes together with the requests, or behind them
	}
	probe := n.dial()
	for deadline := time.Now().Add(patience); n.server.Connections() > 1; {
		if time.Now().After(deadline) {
			t.Fatalf("%d connections still live", n.server.Connections())
		}
		probe.do(kmsg.NewPtrApiVersionsRequest())
	}
}

// A client that reads nothing must not hold up others, and gets everything once it reads.
func TestASlowReaderGetsItsAnswersWhole(t *testing.T) {
	n := startNode(t, t.TempDir())
	id := n.topic("t", 1)
	c, other := n.dial(), n.dial()
	value := bytes.Repeat([]byte("0123456789"), 90_000)
	other.do(produceRequest(9, 1, "t", id, map[int32][]byte{0: batch(t, 1, value)}))
	f := fetchRequest(12, "t", id, map[int32]int64{0: 0})
	const requests = 40 // 36 MB: more than any socket takes
	for range requests {
		c.send(f)
	}
	for range 20 {
		other.do(kmsg.NewPtrApiVersionsRequest())
	}
	for range requests {
		resp, _ := c.receive(f)
		if p := fetched(t, resp, 0); !bytes.Contains(p.RecordBatches, value) {
			t.Fatalf("%d bytes without the value", len(p.RecordBatches))
		}
	}
}
