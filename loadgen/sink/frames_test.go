package sink

import (
	"encoding/binary"
	"io"
	"net"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/core/clock"
	"github.com/tidemark/tidemark/core/compress"
	"github.com/tidemark/tidemark/core/record"
)

// frame is a request with its header and length, by kmsg.
func frame(req kmsg.Request, correlation int32) []byte {
	return kmsg.NewRequestFormatter(kmsg.FormatterClientID("test")).AppendRequest(nil, req, correlation)
}

// batch is records of so many bytes each.
func batch(tb testing.TB, records, bytes int) []byte {
	tb.Helper()
	b := record.NewBuilder(nil, compress.None, 0)
	b.Reset(1700000000000, -1, -1, -1, 0)
	for range records {
		b.Append(1700000000000, nil, make([]byte, bytes))
	}
	out, err := b.Finish(nil)
	if err != nil {
		tb.Fatal(err)
	}
	return out
}

func produceRequestFor(tb testing.TB, version int16, partitions int, records, bytes int) *kmsg.ProduceRequest {
	req := kmsg.NewPtrProduceRequest()
	req.SetVersion(version)
	req.Acks, req.TimeoutMillis = -1, 1000
	row := kmsg.NewProduceRequestTopic()
	row.Topic = "t"
	var all topics
	all.init()
	t, _ := all.create("t", 1)
	row.TopicID = t.id
	for i := range partitions {
		p := kmsg.NewProduceRequestTopicPartition()
		p.Partition, p.Records = int32(i), batch(tb, records, bytes)
		row.Partitions = append(row.Partitions, p)
	}
	req.Topics = append(req.Topics, row)
	return req
}

// TestProduceAnswersReadAsKmsgReadsThem holds the hand-written pass against the generated codec in every version.
func TestProduceAnswersReadAsKmsgReadsThem(t *testing.T) {
	k, err := New(Script{Throttle: 7 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = k.Close() }()
	k.Create("t", 3)
	c, err := net.Dial("tcp", k.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	for version := int16(produceMin); version <= produceMax; version++ {
		req := produceRequestFor(t, version, 4, 10, 100) // partition 3 is not there
		if _, err := c.Write(frame(req, int32(version))); err != nil {
			t.Fatal(err)
		}
		resp := kmsg.NewPtrProduceResponse()
		resp.SetVersion(version)
		body := readAnswer(t, c, int32(version), resp.IsFlexible())
		if err := resp.ReadFrom(body); err != nil {
			t.Fatalf("version %d: %v", version, err)
		}
		if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 4 || resp.ThrottleMillis != 7 {
			t.Fatalf("version %d: %+v", version, resp)
		}
		if version < produceIDs && resp.Topics[0].Topic != "t" || version >= produceIDs && resp.Topics[0].TopicID != req.Topics[0].TopicID {
			t.Errorf("version %d: topic %+v", version, resp.Topics[0])
		}
		for i, p := range resp.Topics[0].Partitions {
			want, code := int64(version-produceMin)*10, int16(0)
			if i == 3 {
				want, code = -1, 3
			}
			if p.Partition != int32(i) || p.BaseOffset != want || p.ErrorCode != code {
				t.Errorf("version %d: partition %+v, want offset %d, code %d", version, p, want, code)
			}
		}
		again := resp.AppendTo(nil) // nothing behind the message
		if string(again) != string(body) {
			t.Errorf("version %d: %d bytes, kmsg writes %d", version, len(body), len(again))
		}
	}
}

func readAnswer(tb testing.TB, c net.Conn, correlation int32, flexible bool) []byte {
	tb.Helper()
	var head [4]byte
	if _, err := io.ReadFull(c, head[:]); err != nil {
		tb.Fatal(err)
	}
	b := make([]byte, binary.BigEndian.Uint32(head[:]))
	if _, err := io.ReadFull(c, b); err != nil {
		tb.Fatal(err)
	}
	if got := int32(binary.BigEndian.Uint32(b)); got != correlation {
		tb.Fatalf("answer to %d, want %d", got, correlation)
	}
	if flexible {
		return b[5:]
	}
	return b[4:]
}

// deaf is a connection that takes everything and has nothing to say.
type deaf struct{ net.Conn }

func (deaf) Write(b []byte) (int, error) { return len(b), nil }
func (deaf) Close() error                { return nil }

// FuzzRequest hands any bytes to the request handler. The sink is closed, so whatever would wait returns.
func FuzzRequest(f *testing.F) {
	for version := int16(produceMin); version <= produceMax; version++ {
		f.Add(frame(produceRequestFor(f, version, 2, 2, 10), 1)[4:])
	}
	for _, s := range served {
		req := kmsg.RequestForKey(s.key)
		req.SetVersion(s.high)
		f.Add(frame(req, 1)[4:])
	}
	k, err := New(Script{Partitions: 2, KeepBytes: 1 << 10, LogArrivals: true, Faults: []Fault{{Kind: Flip, Batch: 1, Every: 2}}})
	if err != nil {
		f.Fatal(err)
	}
	if err := k.Close(); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		k.topics.init()
		k.groups.init(k)
		k.Create("t", 2)
		c := &conn{sink: k, net: deaf{}}
		c.handle(k.script.Load(), clock.Nanos(), b)
	})
}

// BenchmarkProduce is the ceiling: one connection that keeps five requests in flight and does nothing else.
func BenchmarkProduce(b *testing.B) {
	for _, c := range []struct {
		name           string
		records, bytes int
	}{{"batch=1x1KiB", 1, 1024}, {"batch=16KiB", 15, 1024}, {"batch=1MiB", 1000, 1024}} {
		b.Run(c.name, func(b *testing.B) {
			k, err := New(Script{})
			if err != nil {
				b.Fatal(err)
			}
			defer func() { _ = k.Close() }()
			k.Create("t", 1)
			nc, err := net.Dial("tcp", k.Addr())
			if err != nil {
				b.Fatal(err)
			}
			defer func() { _ = nc.Close() }()
			request := frame(produceRequestFor(b, 9, 1, c.records, c.bytes), 1)
			tickets := make(chan struct{}, 5)
			done := make(chan struct{})
			go func() {
				defer close(done)
				for range b.N {
					readAnswer(b, nc, 1, true)
					<-tickets
				}
			}()
			b.SetBytes(int64(len(request)))
			b.ReportAllocs()
			b.ResetTimer()
			for range b.N {
				tickets <- struct{}{}
				if _, err := nc.Write(request); err != nil {
					b.Fatal(err)
				}
			}
			<-done
		})
	}
}
