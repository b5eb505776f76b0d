package e2e

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/broker"
	"github.com/tidemark/tidemark/broker/config"
)

// wholeBroker starts a broker with all its rooms in this process, where a panic is seen.
func wholeBroker(t testing.TB, settings ...string) *broker.Broker {
	t.Helper()
	cfg, _, err := config.Load("", append([]string{"node.id=0", "log.dirs=" + t.TempDir(), "listeners=PLAINTEXT://127.0.0.1:0",
		"offsets.topic.num.partitions=1", "group.initial.rebalance.delay.ms=0"}, settings...))
	if err != nil {
		t.Fatal(err)
	}
	b := broker.New(broker.Options{Config: cfg})
	if err := b.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Shutdown(context.Background()) })
	return b
}

// requestFrames gives a frame of every API and version that the client library knows, filled with its defaults and with
// fill's changes.
func requestFrames(fill func(kmsg.Request)) (frames [][]byte) {
	name := "fuzz"
	f := kmsg.NewRequestFormatter(kmsg.FormatterClientID(name))
	for key := int16(0); key <= kmsg.MaxKey; key++ {
		req := kmsg.RequestForKey(key)
		if req == nil {
			continue
		}
		for v := int16(0); v <= req.MaxVersion(); v++ {
			req.SetVersion(v)
			if d, ok := req.(interface{ Default() }); ok {
				d.Default()
			}
			if fill != nil {
				fill(req)
			}
			frames = append(frames, f.AppendRequest(nil, req, int32(v)))
		}
	}
	return frames
}

// chunked writes frames as FuzzConnection takes them: without their own length, behind one of two bytes, so that a changed
// byte within a request does not move where the next one begins.
func chunked(frames ...[]byte) (b []byte) {
	for _, f := range frames {
		f = f[4:]
		b = append(binary.BigEndian.AppendUint16(b, uint16(len(f))), f...)
	}
	return b
}

// framed is the reverse of chunked.
func framed(b []byte) (wire []byte) {
	for len(b) >= 2 {
		n := min(int(binary.BigEndian.Uint16(b)), len(b)-2)
		wire = append(binary.BigEndian.AppendUint32(wire, uint32(n)), b[2:2+n]...)
		b = b[2+n:]
	}
	return wire
}

// FuzzConnection sends bytes to a whole broker: as they are, or as a row of frames. It must answer or close, and live.
func FuzzConnection(f *testing.F) {
	b := wholeBroker(f)
	all := requestFrames(nil)
	for _, frame := range all {
		f.Add(true, chunked(frame))
	}
	f.Add(true, chunked(all[:40]...))
	f.Add(false, all[0])
	f.Fuzz(func(t *testing.T, frames bool, in []byte) {
		c, err := net.Dial("tcp", b.Addr())
		if err != nil {
			t.Skip("no connection to be had: ", err)
		}
		defer func() { _ = c.Close() }()
		if frames {
			in = framed(in)
		}
		_, _ = c.Write(in)
		_ = c.(*net.TCPConn).CloseWrite()
		_ = c.SetReadDeadline(time.Now().Add(patience))
		if _, err := io.Copy(io.Discard, c); err != nil {
			var timeout net.Error
			if errors.As(err, &timeout) && timeout.Timeout() {
				t.Fatal("the broker neither answers nor closes")
			}
		}
	})
}
