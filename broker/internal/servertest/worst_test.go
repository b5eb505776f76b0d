package servertest

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"reflect"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/broker/proc"
)

// worstMemoryMiB bounds what a broker may hold at its peak whatever valid request it is sent, one or several at once:
// queued.max.request.bytes (256 MiB), once more for garbage, and an idle broker.
const worstMemoryMiB = 600

// The worst valid frame of each API, as large as it may be: as many elements of each array as fit, and as many unknown tags.
// Two connections send each one at once, in the long form (make worst) eight; the broker answers or closes, and its peak memory stays
// bounded.
func TestTheWorstValidFrameOfEachAPI(t *testing.T) {
	if testing.Short() {
		t.Skip("about a minute")
	}
	connections := 2
	if os.Getenv("TIDEMARK_WORST") != "" {
		connections = 8
	}
	bin := proc.Binary(t)
	b, err := proc.Start(t.Context(), proc.Options{Bin: bin, Data: t.TempDir(), NoAdmin: true})
	must(t, err)
	n := &node{t: t, addr: b.Addr}
	keys := n.dial().do(kmsg.NewPtrApiVersionsRequest()).(*kmsg.ApiVersionsResponse).ApiKeys
	must(t, b.Stop())
	for _, k := range keys {
		r := kmsg.RequestForKey(k.ApiKey)
		r.SetVersion(k.MaxVersion)
		if p, ok := r.(*kmsg.ProduceRequest); ok {
			p.Acks = 1
		}
		limit := 4<<20 - 100
		if k.ApiKey <= 1 {
			limit = 100<<20 - 100
		}
		for what, frame := range worstFrames(r, limit) {
			t.Run(fmt.Sprintf("%s/%s", kmsg.NameForKey(k.ApiKey), what), func(t *testing.T) {
				b, err := proc.Start(t.Context(), proc.Options{Bin: bin, Data: t.TempDir(), NoAdmin: true})
				must(t, err)
				defer b.Kill()
				ended := make(chan error, connections)
				for range cap(ended) {
					go func() { ended <- sendWorst(b.Addr, frame) }()
				}
				for range cap(ended) {
					if err := <-ended; err != nil {
						t.Error(err)
					}
				}
				peak := status(t, b.PID, "VmHWM") >> 10
				t.Logf("frame of %d KiB, peak of %d MiB", len(frame)>>10, peak)
				if peak > worstMemoryMiB {
					t.Errorf("%d MiB at the peak, at most %d may be", peak, worstMemoryMiB)
				}
			})
		}
	}
}

// sendWorst sends a frame and waits for an answer, whole, or the end.
func sendWorst(addr string, frame []byte) error {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	_ = c.SetDeadline(time.Now().Add(patience))
	if _, err := c.Write(frame); err != nil {
		return nil // refused before it was whole
	}
	var size [4]byte
	if _, err := io.ReadFull(c, size[:]); err != nil {
		if ne, ok := err.(net.Error); ok && ne.Timeout() {
			return fmt.Errorf("neither an answer nor an end: %w", err)
		}
		return nil
	}
	_, err = io.CopyN(io.Discard, c, int64(binary.BigEndian.Uint32(size[:])))
	return err
}

// worstFrames makes a request's frames of at most limit bytes: one for each array at its top, and one of unknown tags.
func worstFrames(r kmsg.Request, limit int) map[string][]byte {
	out := map[string][]byte{}
	v := reflect.ValueOf(r).Elem()
	for i := range v.NumField() {
		f := v.Field(i)
		if f.Kind() != reflect.Slice || f.Type().Elem().Kind() == reflect.Uint8 || !f.CanSet() {
			continue
		}
		fill := func(n int) { f.Set(fullSlice(f.Type(), n, 1)) }
		fill(1)
		one := len(frame(1, r))
		fill(1001)
		each := (len(frame(1, r)) - one + 999) / 1000
		if each == 0 {
			continue // not in this version
		}
		n := limit / each
		if r.Key() <= 1 {
			n = min(n, 200_000) // more than 400,000 topics or partitions are refused
		}
		fill(n)
		out[v.Type().Field(i).Name] = frame(1, r)
		f.SetZero()
	}
	if !r.IsFlexible() {
		return out
	}
	b := frame(1, r)
	b = b[:len(b)-1] // no tags
	const tagBytes = 4
	n := (limit - len(b)) / tagBytes
	n = min(n, 1<<21-1-1<<14)
	b = binary.AppendUvarint(b, uint64(n))
	for i := range n {
		b = binary.AppendUvarint(b, uint64(1<<14+i))
		b = append(b, 0)
	}
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	out["tags"] = b
	return out
}

// fullSlice makes n elements, each with one element in each of its own arrays.
func fullSlice(typ reflect.Type, n, depth int) reflect.Value {
	s := reflect.MakeSlice(typ, n, n)
	if typ.Elem().Kind() != reflect.Struct || n == 0 {
		return s
	}
	first := s.Index(0)
	for i := range first.NumField() {
		if f := first.Field(i); f.Kind() == reflect.Slice && f.Type().Elem().Kind() != reflect.Uint8 && f.CanSet() && depth < 4 {
			f.Set(fullSlice(f.Type(), 1, depth+1))
		}
	}
	for i := 1; i < n; i++ {
		s.Index(i).Set(first)
	}
	return s
}
