package e2e

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sys/unix"

	"github.com/tidemark/tidemark/broker/proc"
)

// bystander is a good client that must not notice the bad ones.
type bystander struct {
	c *kgo.Client
	n int64
}

func newBystander(t *testing.T, b *proc.Broker) *bystander {
	t.Helper()
	create(t, b, "good", 1)
	return &bystander{c: newClient(t, b, kgo.ConsumeTopics("good"), kgo.DefaultProduceTopic("good"), kgo.FetchMaxWait(time.Second))}
}

// roundTrip produces a record and reads it.
func (s *bystander) roundTrip(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := s.c.ProduceSync(ctx, kgo.StringRecord("good")).FirstErr(); err != nil {
		t.Fatalf("a good client cannot produce: %v", err)
	}
	for got := false; !got; {
		f := s.c.PollFetches(ctx)
		if err := f.Err0(); err != nil {
			t.Fatalf("a good client cannot fetch: %v", err)
		}
		f.EachRecord(func(r *kgo.Record) { got = got || r.Offset == s.n })
	}
	s.n++
}

// endsInOrder stops the broker and looks for traces of a panic in its log.
func endsInOrder(t *testing.T, b *proc.Broker, log *logText) {
	t.Helper()
	if err := b.Stop(); err != nil {
		t.Errorf("stop: %v", err)
	}
	if text := log.String(); strings.Contains(text, "panic") || strings.Contains(text, "goroutine ") {
		t.Errorf("the log shows a panic:\n%s", text)
	}
}

// TestGarbage: frames that are cut short, oversized, negative, random, other protocols, and single bytes end their own
// connection at most; the log has a few lines of it, not thousands.
func TestGarbage(t *testing.T) {
	r := seeded(t)
	log := &logText{}
	b := start(t, proc.Options{Data: t.TempDir(), Stderr: log})
	good := newBystander(t, b)
	good.roundTrip(t)
	before := residentKiB(t, b.PID, "VmRSS")

	refused := map[string][]byte{
		"size -1":               binary.BigEndian.AppendUint32(nil, 1<<32-1),
		"size -2147483648":      binary.BigEndian.AppendUint32(nil, 1<<31),
		"size 2 GiB - 1":        binary.BigEndian.AppendUint32(nil, 1<<31-1),
		"size 0":                make([]byte, 4),
		"size 3":                {0, 0, 0, 3, 1, 2, 3},
		"a control frame":       append(binary.BigEndian.AppendUint32(nil, 50<<20), 0, 3, 0, 9, 0, 0, 0, 1),
		"HTTP":                  []byte("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"),
		"a TLS hello":           {0x16, 0x03, 0x01, 0x02, 0x00, 0x01, 0x00, 0x01, 0xfc, 0x03, 0x03, 0x11},
		"SSH":                   []byte("SSH-2.0-OpenSSH_9.6\r\n"),
		"a header cut short":    {0, 0, 0, 9, 0, 3, 0, 9, 0, 0, 0, 1, 0},
		"a client id too long":  {0, 0, 0, 10, 0, 3, 0, 9, 0, 0, 0, 1, 0x7f, 0xff},
		"a body cut short":      raw(3, 9, "\x00\x03e2e\x00\x7f"),
		"a huge array":          raw(3, 1, "\x00\x03e2e\x7f\xff\xff\xff"),
		"a produce of nothing":  raw(0, 9, "\x00\x03e2e\x00"),
		"a fetch of huge array": raw(1, 12, "\x00\x03e2e\x00\xff\xff\xff\xff\x00\x00\x00\x00\x00\x00\x00\x01\x7f\xff\xff\xff\x00\x00\x00\x00\x00\xff\xff\xff\xff\xff\xff\xff\xff\x0f"),
	}
	for name, bytes := range refused {
		w := dial(t, b.Addr)
		if _, err := w.Write(bytes); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if w.closes(); t.Failed() {
			t.Fatal(name)
		}
	}
	if _, err := (&http.Client{Timeout: patience}).Get("http://" + b.Addr + "/"); err == nil {
		t.Error("the Kafka port answers HTTP")
	}
	if _, err := tls.DialWithDialer(&net.Dialer{Timeout: patience}, "tcp", b.Addr, &tls.Config{InsecureSkipVerify: true}); err == nil {
		t.Error("the Kafka port answers TLS")
	}
	good.roundTrip(t)

	for range 3000 { // random bytes behind a plausible header
		body := make([]byte, 8+r.IntN(200))
		for i := range body {
			body[i] = byte(r.Uint32())
		}
		if r.IntN(4) > 0 {
			binary.BigEndian.PutUint16(body, uint16(pick(r, 0, 1, 2, 3, 8, 9, 10, 11, 12, 13, 14, 15, 16, 18, 19, 20, 22, 23, 32, 37, 60, 75)))
			binary.BigEndian.PutUint16(body[2:], uint16(r.IntN(14)))
		}
		nc, err := net.Dial("tcp", b.Addr)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = nc.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...))
		_ = nc.Close()
	}
	good.roundTrip(t)
	if after := residentKiB(t, b.PID, "VmRSS"); after > before+128<<10 {
		t.Errorf("%d KiB resident before the garbage, %d behind it", before, after)
	}
	if lines := strings.Count(log.String(), "\n"); lines > 600 {
		t.Errorf("3000 bad clients leave %d lines in the log", lines)
	}
	endsInOrder(t, b, log)
}

// TestMutatedRequests: requests that were good, with a byte changed, lost or doubled, of every API and version.
func TestMutatedRequests(t *testing.T) {
	r := seeded(t)
	log := &logText{}
	b := start(t, proc.Options{Data: t.TempDir(), Stderr: log, Properties: []string{"auto.create.topics.enable=false"}})
	good := newBystander(t, b)
	fetch, list := fetchRequest("good", map[int32]int64{0: 0}), produceRequest("good", 0, 1, batch(nobody(), []byte("v"), nowMS(), nowMS()))
	for range 2000 {
		f := frame(fetch, 1)
		if r.IntN(2) == 0 {
			f = frame(list, 1)
		}
		body := bytes.Clone(f[4:])
		for range 1 + r.IntN(3) {
			i := 4 + r.IntN(len(body)-4)
			switch r.IntN(3) {
			case 0:
				body[i] = byte(r.Uint32())
			case 1:
				body = append(body[:i], body[i+1:]...)
			default:
				body = append(body[:i+1], body[i:]...)
			}
		}
		nc, err := net.Dial("tcp", b.Addr)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = nc.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...))
		if r.IntN(2) == 0 {
			_ = nc.(*net.TCPConn).SetLinger(0)
		}
		_ = nc.Close()
	}
	good.c.PurgeTopicsFromClient("good") // mutated batches may have been good ones
	dial(t, b.Addr).alive()
	endsInOrder(t, b, log)
}

// TestOneByteAtATime: a request in single bytes is served like any other; one whose end never comes holds nobody.
func TestOneByteAtATime(t *testing.T) {
	b := start(t, proc.Options{NoAdmin: true, Data: t.TempDir()})
	good := newBystander(t, b)
	w := dial(t, b.Addr)
	_ = w.Conn.(*net.TCPConn).SetNoDelay(true)
	r := produceRequest("good", 0, -1, batch(nobody(), []byte("v"), nowMS()))
	w.sent++
	for _, x := range frame(r, w.sent) {
		if _, err := w.Write([]byte{x}); err != nil {
			t.Fatal(err)
		}
	}
	if p := answer[*kmsg.ProduceResponse](w, r).Topics[0].Partitions[0]; p.ErrorCode != 0 {
		t.Errorf("produce in single bytes: %+v", p)
	}
	slow := dial(t, b.Addr)
	if _, err := slow.Write(frame(r, 1)[:30]); err != nil {
		t.Fatal(err)
	}
	good.n++ // the record above
	good.roundTrip(t)
}

// TestHalfOpenAndSilentClients: clients that announce a large frame and send a little of it, or that say nothing, cost
// little and hold nobody up, also when together they announce much more than there is memory for requests.
func TestHalfOpenAndSilentClients(t *testing.T) {
	for _, queued := range []int{256 << 20, 8 << 20} {
		t.Run(fmt.Sprintf("queued.max.request.bytes=%d", queued), func(t *testing.T) {
			log := &logText{}
			b := start(t, proc.Options{Data: t.TempDir(), Stderr: log, Properties: []string{
				fmt.Sprint("queued.max.request.bytes=", queued), fmt.Sprint("socket.request.max.bytes=", min(queued, 100<<20))}})
			announced := uint32(min(queued, 100_000_000))
			good := newBystander(t, b)
			good.roundTrip(t)
			before := residentKiB(t, b.PID, "VmRSS")
			for range 350 {
				w := dial(t, b.Addr)
				if _, err := w.Write(append(binary.BigEndian.AppendUint32(nil, announced), 0, 0, 0, 9, 0, 0, 0, 1, 0, 3, 'e')); err != nil {
					t.Fatal(err)
				}
				dial(t, b.Addr)
			}
			for range 100 {
				good.roundTrip(t)
			}
			w := dial(t, b.Addr)
			for i, size := range []int{10, 5_000, 50_000, 600_000, 900_000, 10, 600_000} {
				if r := w.produce("good", 0, batch(nobody(), make([]byte, size), nowMS())); r.ErrorCode != 0 || r.BaseOffset != good.n+int64(i) {
					t.Fatalf("a record of %d bytes: %+v", size, r)
				}
			}
			if after := residentKiB(t, b.PID, "VmRSS"); after > before+(64<<10)+queued>>10 {
				t.Errorf("%d KiB resident before, %d with clients that only announce", before, after)
			}
			endsInOrder(t, b, log)
		})
	}
}

// TestNeverReadingClients: clients that ask for much and never read hold their own answers back and nobody else's; the
// broker's memory stays within what it grants to requests.
func TestNeverReadingClients(t *testing.T) {
	for _, transfer := range []string{"auto", "copy"} {
		t.Run(transfer, func(t *testing.T) {
			log := &logText{}
			b := start(t, proc.Options{Data: t.TempDir(), Stderr: log, Properties: []string{"socket.transfer=" + transfer}})
			create(t, b, "big", 1)
			fill(t, b, "big", 0, 40, 900_000, kgo.ProducerBatchCompression(kgo.NoCompression()))
			good := newBystander(t, b)
			good.roundTrip(t)
			for range 100 { // each asks for 100 times 36 MB
				w := dial(t, b.Addr)
				_ = w.Conn.(*net.TCPConn).SetReadBuffer(4096)
				r := fetchRequest("big", map[int32]int64{0: 0})
				r.Topics[0].Partitions[0].PartitionMaxBytes = 50 << 20
				for range 100 {
					w.send(r)
				}
			}
			good.roundTrip(t)
			good.roundTrip(t)
			if peak := residentKiB(t, b.PID, "VmHWM"); peak > 640<<10 {
				t.Errorf("the peak is %d MiB resident", peak>>10)
			} else {
				t.Logf("peak %d MiB resident", peak>>10)
			}
			endsInOrder(t, b, log)
		})
	}
}

// TestThousandsOfConnections: as many as the file limit allows are served; each costs little; what they took is given back.
func TestThousandsOfConnections(t *testing.T) {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	n := int(min(limit.Cur-1000, 10_000))
	if testing.Short() {
		n = min(n, 1000)
	}
	b := start(t, proc.Options{NoAdmin: true, Data: t.TempDir()})
	good := newBystander(t, b)
	good.roundTrip(t)
	before := residentKiB(t, b.PID, "VmRSS")
	conns := make([]*wire, n)
	var dialing sync.WaitGroup
	for k := range 8 {
		dialing.Go(func() {
			for i := k; i < n; i += 8 {
				nc, err := net.Dial("tcp", b.Addr)
				if err != nil {
					t.Errorf("connection %d: %v", i, err)
					return
				}
				conns[i] = &wire{t: t, Conn: nc}
				_ = nc.SetDeadline(time.Now().Add(patience))
			}
		})
	}
	dialing.Wait()
	if t.Failed() {
		return
	}
	ask := frame(metadataRequest("good"), 1)
	for _, w := range conns {
		if _, err := w.Write(ask); err != nil {
			t.Fatal(err)
		}
	}
	var head [4]byte
	for i, w := range conns {
		if _, err := w.Read(head[:]); err != nil {
			t.Fatalf("connection %d is not answered: %v", i, err)
		}
	}
	good.roundTrip(t)
	after := residentKiB(t, b.PID, "VmRSS")
	t.Logf("%d connections: %.1f KiB each", n, float64(after-before)/float64(n))
	if after-before > n*32 {
		t.Errorf("%d connections take %d KiB", n, after-before)
	}
	for _, w := range conns {
		_ = w.Close()
	}
	until(t, "the broker has closed the connections", func() bool { return openFiles(t, b.PID) < 200 })
	good.roundTrip(t)
	if err := b.Stop(); err != nil {
		t.Error(fmt.Errorf("stop: %w", err))
	}
}
