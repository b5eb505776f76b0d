package raw

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl"

	"github.com/tidemark/tidemark/core/kafka"
	"github.com/tidemark/tidemark/loadgen/driver"
)

// maxAuthenticationSteps bounds how long a broker may go on asking before it says yes or no.
const maxAuthenticationSteps = 16

// wrappedPiece is how much is handed to a wrapped connection in one call: a TLS record's plain text.
const wrappedPiece = 16 << 10

// authenticate says who the client is, as KIP-43 and KIP-152 have it. Neither the mechanism's words nor the broker's
// challenges are in an error.
func (c *conn) authenticate(ctx context.Context, m sasl.Mechanism) error {
	hand := kmsg.NewPtrSASLHandshakeRequest()
	hand.Version, hand.Mechanism = 1, m.Name()
	kresp, err := c.call(ctx, hand)
	if err != nil {
		return fmt.Errorf("sasl: %w", err)
	}
	if h := kresp.(*kmsg.SASLHandshakeResponse); h.ErrorCode != 0 {
		return fmt.Errorf("sasl: the broker does not take mechanism %s, it takes %q: %w", m.Name(), h.SupportedMechanisms, kafka.ErrorCode(h.ErrorCode))
	}
	host, _, err := net.SplitHostPort(c.addr)
	if err != nil {
		host = c.addr
	}
	session, words, err := m.Authenticate(ctx, host)
	if err != nil {
		return fmt.Errorf("sasl %s: %w", m.Name(), err)
	}
	most := c.versions[int16(kmsg.SASLAuthenticate)][1]
	for range maxAuthenticationSteps {
		req := kmsg.NewPtrSASLAuthenticateRequest()
		req.Version, req.SASLAuthBytes = min(most, req.MaxVersion()), words
		kresp, err := c.call(ctx, req)
		if err != nil {
			return fmt.Errorf("sasl %s: %w", m.Name(), err)
		}
		resp := kresp.(*kmsg.SASLAuthenticateResponse)
		if resp.ErrorCode != 0 {
			text := ""
			if resp.ErrorMessage != nil {
				text = ": " + *resp.ErrorMessage
			}
			return fmt.Errorf("sasl %s: %w%s", m.Name(), kafka.ErrorCode(resp.ErrorCode), text)
		}
		done, next, err := session.Challenge(resp.SASLAuthBytes)
		if err != nil {
			return fmt.Errorf("sasl %s: the broker's answer: %w", m.Name(), err)
		}
		if done {
			return nil
		}
		words = next
	}
	return fmt.Errorf("sasl %s: the broker wants more than %d answers", m.Name(), maxAuthenticationSteps)
}

// writeWrapped is write for a connection that is no plain TCP socket. Small pieces are joined, so that a request is a
// few TLS records and not one for each piece; waited is what the socket below says of itself, where it says something.
func (c *conn) writeWrapped(bufs net.Buffers) (waited time.Duration, err error) {
	before := fullFor(c.nc)
	joined := c.joined[:0]
	flush := func() {
		if err == nil && len(joined) > 0 {
			if _, err = c.nc.Write(joined); err != nil {
				err = fmt.Errorf("write to broker %s: %w", c.addr, err)
			}
		}
		joined = joined[:0]
	}
	for _, b := range bufs {
		for len(b) > 0 {
			n := min(len(b), wrappedPiece-len(joined))
			joined, b = append(joined, b[:n]...), b[n:]
			if len(joined) == wrappedPiece {
				flush()
			}
		}
	}
	flush()
	c.joined = joined
	return fullFor(c.nc) - before, err
}

// fullFor asks a connection, or the one below it, how long its socket has been full.
func fullFor(nc net.Conn) time.Duration {
	for nc != nil {
		if f, ok := nc.(driver.FullSocket); ok {
			return f.FullFor()
		}
		below, ok := nc.(interface{ NetConn() net.Conn })
		if !ok {
			return 0
		}
		nc = below.NetConn()
	}
	return 0
}
