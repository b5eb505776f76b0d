package raw

import (
	"context"
	"fmt"
	"math/rand/v2"
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
// challenges are in an error. Nothing else is written meanwhile: a broker takes any other request for an attack.
// lifetime is how long the answer holds, 0 for as long as the connection.
func (c *conn) authenticate(ctx context.Context, m sasl.Mechanism) (lifetime time.Duration, err error) {
	c.hold(true)
	defer func() {
		if err != nil { // or what waits would be written to a broker that has said no
			c.fail(fmt.Errorf("broker %s: %w", c.addr, err))
		}
		c.hold(false)
	}()
	hand := kmsg.NewPtrSASLHandshakeRequest()
	hand.Version, hand.Mechanism = 1, m.Name()
	kresp, err := c.callFirst(ctx, hand)
	if err != nil {
		return 0, fmt.Errorf("sasl: %w", err)
	}
	if h := kresp.(*kmsg.SASLHandshakeResponse); h.ErrorCode != 0 {
		return 0, fmt.Errorf("sasl: the broker does not take mechanism %s, it takes %q: %w", m.Name(), h.SupportedMechanisms, kafka.ErrorCode(h.ErrorCode))
	}
	host, _, err := net.SplitHostPort(c.addr)
	if err != nil {
		host = c.addr
	}
	session, words, err := m.Authenticate(ctx, host)
	if err != nil {
		return 0, fmt.Errorf("sasl %s: %w", m.Name(), err)
	}
	most := c.versions[int16(kmsg.SASLAuthenticate)][1]
	for range maxAuthenticationSteps {
		req := kmsg.NewPtrSASLAuthenticateRequest()
		req.Version, req.SASLAuthBytes = min(most, req.MaxVersion()), words
		kresp, err := c.callFirst(ctx, req)
		if err != nil {
			return 0, fmt.Errorf("sasl %s: %w", m.Name(), err)
		}
		resp := kresp.(*kmsg.SASLAuthenticateResponse)
		if resp.ErrorCode != 0 {
			text := ""
			if resp.ErrorMessage != nil {
				text = ": " + *resp.ErrorMessage
			}
			return 0, fmt.Errorf("sasl %s: %w%s", m.Name(), kafka.ErrorCode(resp.ErrorCode), text)
		}
		done, next, err := session.Challenge(resp.SASLAuthBytes)
		if err != nil {
			return 0, fmt.Errorf("sasl %s: the broker's answer: %w", m.Name(), err)
		}
		if done {
			return time.Duration(resp.SessionLifetimeMillis) * time.Millisecond, nil
		}
		words = next
	}
	return 0, fmt.Errorf("sasl %s: the broker wants more than %d answers", m.Name(), maxAuthenticationSteps)
}

// callFirst is call for a request of an authentication.
func (c *conn) callFirst(ctx context.Context, req kmsg.Request) (kmsg.Response, error) {
	r := &callRequest{req: req, err: make(chan error, 1)}
	c.mu.Lock()
	if err := c.mu.err; err != nil {
		c.mu.Unlock()
		return nil, err
	}
	c.mu.first = append(c.mu.first, r)
	c.mu.Unlock()
	return c.wait(ctx, r)
}

// hold keeps all requests but an authentication's from being written, and lets them go again.
func (c *conn) hold(on bool) {
	c.mu.Lock()
	c.mu.holds = on
	c.mu.Unlock()
	if !on {
		c.flushElsewhere()
	}
}

// again is when to authenticate once more: some time before the session's end, as Kafka's own clients do, and not all
// connections at once, for a hash of SCRAM costs the broker milliseconds. at is from 0 to 1.
func again(lifetime time.Duration, at float64) time.Duration {
	return time.Duration((0.85 + 0.1*at) * float64(lifetime))
}

// stayAuthenticated authenticates again on the same connection each time before the session ends (KIP-368). What was
// written before is answered before, in its order; what comes meanwhile waits, and its waiting is in its latency. It ends
// with the connection, or ends it where the broker says no.
func (c *conn) stayAuthenticated(m sasl.Mechanism, lifetime time.Duration) {
	for lifetime > 0 {
		due := time.NewTimer(again(lifetime, rand.Float64()))
		select {
		case <-due.C:
		case <-c.done:
			due.Stop()
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), max(lifetime, leastReauthentication))
		var err error
		lifetime, err = c.authenticate(ctx, m)
		cancel()
		if err != nil {
			c.fail(fmt.Errorf("broker %s: authenticate again: %w", c.addr, err))
			return
		}
	}
}

// leastReauthentication is how long an authentication may take at least: what is parked is answered before it, a fetch or the
// JoinGroup of a rebalance.
const leastReauthentication = time.Minute

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
